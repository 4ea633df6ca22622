"""The same models on a real device; CONTRIBUTING.md has the commands.

``-m "gpu and not slow"`` leaves the large tables out. They can be run one at a time, for example
with ``-m "gpu and slow" tests/gpu/test_gpu.py::test_fifty_million_rows``, or all in turn with
``--finished``. Everything is compared with the CPU, bit by bit. Without a device, the tests are
skipped with the reason, or fail if ``GPUBOOST_REQUIRE_GPU=1``. ``.ci/run`` runs them on the
stand-in for CuPy (`tests.fakes.fake_cupy`), with at most 300 rows.
"""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import numpy as np
import pytest

import gpuboost
from gpuboost.backends.cost_model import Speed
from gpuboost.backends.cuda.growth.grower import TreeGrower
from gpuboost.backends.select import cuda_backend
from gpuboost.cli.calibration import measure
from tests.cuda.explain.models import additive, assert_same_explanations
from tests.engine.exact import assert_equal_models
from tests.estimators.device_cases import (
    BOOSTED,
    CASES,
    REPLAYED_FORESTS,
    Case,
    assert_same_model,
    table,
)
from tests.estimators.estimator_cases import NAMES, frame_of, make
from tests.memory.device_memory import ESTIMATED, assert_estimated
from tests.runs.gpu_runs import rows, rows_are_capped, trees

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]
GIB = 1 << 30


# ---- parity ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [160, 20_000])
@pytest.mark.parametrize("name", NAMES)
def test_every_estimator(name, n_rows):
    assert_same_model(name, *table(name, n_rows), "cuda")


@pytest.mark.parametrize("n_rows", [160, 5_000])
@pytest.mark.parametrize("case", [*CASES, *BOOSTED], ids=str)
def test_every_option(case, n_rows):
    case.run("cuda", n_rows)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_with_categories(kind):
    X, y = frame_of(kind)
    assert_same_model("RandomForestClassifier", X, y > 1, "cuda")
    assert_same_model("ExtraTreesRegressor", X, y, "cuda")


def test_datasets():
    X, y = table("RandomForestClassifier", 5_000)
    assert_same_model("RandomForestClassifier", gpuboost.Dataset(X), y, "cuda")


@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesRegressor"])
def test_many_features_and_deep_trees(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows(4_000), 300)).astype(np.float32)
    y = X[:, 0] * X[:, 299] + rng.normal(size=len(X))
    target = y > 0 if name.endswith("Classifier") else y
    assert_same_model(name, X, target, "cuda", n_estimators=trees(5))


@pytest.mark.parametrize("kind", ["none", "whole", "real", "wide", "denormal"])
@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesRegressor"])
def test_arrays_of_the_device(name, kind):
    """Features, targets and weights on the device, from the fit to leaves and paths."""
    import cupy

    rng = np.random.default_rng(0)
    X, y = table(name, 5_000)
    weight = {
        "none": None,
        "whole": rng.integers(0, 5, len(y)),
        "real": rng.exponential(size=len(y)),
        "wide": 10.0 ** rng.uniform(-4, 3, len(y)),
        "denormal": rng.uniform(1e-45, 1e-39, len(y)).astype(np.float32),
    }[kind]
    if kind == "denormal" and y.dtype.kind == "f":
        y = (y * 1e-39).astype(np.float32)
    there = [None if given is None else cupy.asarray(given) for given in (X, y, weight)]
    model, expected = make(name, device="auto").fit(*there), make(name).fit(X, y, weight)
    assert_equal_models(model, expected)
    for method in ("predict", "predict_proba", "predict_log_proba", "apply"):
        if hasattr(expected, method):
            found = getattr(model, method)(there[0])
            assert isinstance(found, cupy.ndarray)
            np.testing.assert_array_equal(cupy.asnumpy(found), getattr(expected, method)(X))
    paths, right = model.decision_path(there[0])[0].get(), expected.decision_path(X)[0]
    np.testing.assert_array_equal(paths.indices, right.indices)
    np.testing.assert_array_equal(paths.indptr, right.indptr)


@pytest.mark.parametrize("max_depth", [6, None])
@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesRegressor"])
def test_explanations(name, max_depth):
    """SHAP values and interactions of rows on the host and on the device."""
    import cupy

    X, y = table(name, 5_000)
    ensemble = make(name, n_estimators=trees(4), max_depth=max_depth).fit(X, y)._model.ensemble
    for given in (X, cupy.asarray(X.astype(np.float32))):
        assert_same_explanations(cuda_backend(0), additive(ensemble), given, X[:3])


# ---- batches that are replayed -------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [160, 20_000])
@pytest.mark.parametrize("case", REPLAYED_FORESTS, ids=str)
def test_graphs_against_launches(case, n_rows, graphs, monkeypatch):
    """Batches that are replayed and batches that are launched give NumPy's model."""
    case.run("cuda", n_rows)
    assert len(graphs) == 1
    monkeypatch.setattr(TreeGrower, "_record", lambda self, host: None)
    case.run("cuda", n_rows)
    assert len(graphs) == 1


def test_graphs_in_a_stream_of_the_user(graphs):
    import cupy

    X, y = table("RandomForestClassifier", 20_000)
    with cupy.cuda.Stream(non_blocking=True):
        assert_same_model("RandomForestClassifier", X, y, "cuda", n_estimators=12, max_depth=8)
    assert len(graphs) == 1


def test_graphs_in_several_threads(graphs):
    """Captures continue while other threads launch, allocate and copy on the default stream."""
    X, y = table("RandomForestClassifier", 20_000)
    seeds = range(3 if rows_are_capped() else 8)

    def fit(seed: int, device: str) -> str:
        words = {"n_estimators": 12, "max_depth": 8, "random_state": seed, "device": device}
        return make("RandomForestClassifier", **words).fit(X, y).fingerprint()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, seeds, repeat("cuda")))
    assert together == [fit(seed, "numba") for seed in seeds]
    assert len(graphs) == len(seeds)


def test_graphs_free_their_memory(graphs, pool):
    X, y = table("RandomForestClassifier", 20_000)
    model = make("RandomForestClassifier", n_estimators=12, max_depth=8, device="cuda")
    used = []
    for _ in range(3):
        model.fit(X, y)
        gc.collect()
        used.append(pool.used_bytes())
    assert used[0] == used[1] == used[2]


# ---- run to run ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesRegressor"])
def test_run_to_run(name):
    X, y = table(name, 200_000)
    model = make(name, n_estimators=trees(20), device="cuda")
    assert len({model.fit(X, y).fingerprint() for _ in range(5)}) == 1


def test_fits_in_several_threads():
    X, y = table("RandomForestClassifier", 20_000)

    def fit(seed: int, device: str) -> str:
        model = make("RandomForestClassifier", device=device, random_state=seed)
        return model.fit(X, y).fingerprint()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, range(8), ["cuda"] * 8))
    assert together == [fit(seed, "numba") for seed in range(8)]


def test_the_stream_of_the_user():
    import cupy

    X, y = table("RandomForestClassifier", 20_000)
    with cupy.cuda.Stream(non_blocking=True):
        assert_same_model("RandomForestClassifier", X, y, "cuda")


# ---- memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ESTIMATED)
def test_memory_is_near_the_estimate(what, pool):
    """With 400 000 rows, the peak is within 15 percent of the estimate."""
    assert_estimated(what, 400_000)


def test_little_memory_makes_the_same_model(pool):
    X, y = table("RandomForestClassifier", 20_000)
    pool.set_limit(size=pool.used_bytes() + (64 << 20))
    try:
        assert_same_model("RandomForestClassifier", X, y, "cuda")
    finally:
        pool.set_limit(size=0)


def test_the_next_fit_works_after_out_of_memory(pool):
    X, y = table("RandomForestClassifier", 20_000)
    model = make("RandomForestClassifier", device="cuda")
    expected = model.fit(X, y).fingerprint()
    pool.free_all_blocks()
    used = pool.used_bytes()
    pool.set_limit(size=used + 100_000)
    try:
        with pytest.raises(MemoryError, match=r"cuda:\d is out of memory") as caught:
            model.fit(X, y)
        assert pool.used_bytes() == used, caught
    finally:
        pool.set_limit(size=0)
    assert model.fit(X, y).fingerprint() == expected


# ---- the cost model --------------------------------------------------------------------------


@pytest.mark.device_only("it compares measured speeds")
def test_calibration():
    usual = Speed()
    speed = measure(["cuda"], cuda_rows=300_000)
    assert speed.numba_visit == usual.numba_visit > speed.cuda_traffic
    assert 1e-7 < speed.cuda_launch < 1e-2 and speed.cuda_byte < 1e-8


def start_cuda():
    """Fit once on the device, so that the choice does not depend on earlier tests."""
    X, y = table("RandomForestClassifier")
    make("RandomForestClassifier", device="cuda").fit(X, y)


@pytest.mark.device_only("300 rows are too little work")
def test_auto_chooses_the_gpu_for_large_tasks():
    start_cuda()
    X, y = table("RandomForestClassifier", 300_000)
    model = gpuboost.RandomForestClassifier(n_estimators=100, max_depth=12, random_state=0)
    assert model.fit(X, y).device_.startswith("cuda:")


def test_auto_chooses_the_host_for_small_fits():
    start_cuda()
    X, y = table("RandomForestClassifier", 100)
    assert gpuboost.DecisionTreeClassifier().fit(X, y).device_ in ("numpy", "numba")


# ---- large -----------------------------------------------------------------------------------


def same_forest(X, y, name="RandomForestClassifier", **words):
    """Fit few trees with Numba and on the device, and assert equal models."""
    words = {"n_estimators": 2, "random_state": 0, "n_jobs": -1} | words
    data = gpuboost.Dataset(X)
    prints = [
        getattr(gpuboost, name)(device=device, **words).fit(data, y).fingerprint()
        for device in ("numba", "cuda", "cuda")
    ]
    assert len(set(prints)) == 1


@pytest.mark.slow
def test_fifty_million_rows(needs_memory):
    needs_memory(20 * GIB)
    rng = np.random.default_rng(0)
    X = rng.random((rows(50_000_000), 4), dtype=np.float32)
    same_forest(X, X[:, 0] + X[:, 1] + rng.random(len(X)) > 1.5, max_depth=8)


@pytest.mark.slow
def test_more_codes_than_32_bits_count(needs_memory):
    needs_memory(30 * GIB)
    rng = np.random.default_rng(0)
    X = rng.integers(200, size=(rows(36_000_000), 64), dtype=np.uint8).astype(np.float32)
    same_forest(X, X[:, 63] > X[:, 0] + 20, max_depth=4, n_estimators=1)


@pytest.mark.slow
def test_a_thousand_features():
    rng = np.random.default_rng(0)
    X = rng.random((rows(200_000), 1_000), dtype=np.float32)
    same_forest(X, X[:, 999] + X[:, 500] + rng.random(len(X)) > 1.5, max_features=None, max_depth=8)


@pytest.mark.slow
def test_a_hundred_classes():
    rng = np.random.default_rng(0)
    X = rng.random((rows(500_000), 20), dtype=np.float32)
    same_forest(X, (X[:, 0] * 10).astype(int) * 10 + (X[:, 1] * 10).astype(int))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesClassifier"])
def test_depth_thirty_and_unlimited(name):
    rng = np.random.default_rng(0)
    X = rng.random((rows(1_000_000), 28), dtype=np.float32)
    y = X[:, 0] + rng.random(len(X)) > 1
    for depth in (30, None):
        same_forest(X, y, name, max_depth=depth, n_estimators=4)


@pytest.mark.slow
@pytest.mark.parametrize("case", [Case("RandomForestRegressor", weights="real")], ids=str)
def test_real_weights_of_many_rows(case):
    case.run("cuda", 300_000)
