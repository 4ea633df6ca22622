"""Boosting on a real device; `test_gpu.py` also runs every option of boosting."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from sklearn.base import clone

import gpuboost
from gpuboost.backends.cuda.growth.tree_arrays import Finished
from gpuboost.backends.cuda.runtime import readback as readbacks
from tests.engine.exact import assert_equal_models
from tests.estimators.device_cases import BOOSTED, LARGE_TREES, REPLAYED_ROUNDS, table
from tests.estimators.estimator_cases import make
from tests.runs.gpu_runs import rows, rows_are_capped, trees

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]
GIB = 1 << 30


@pytest.mark.parametrize("case", REPLAYED_ROUNDS, ids=str)
def test_rounds_are_one_graph(case, graphs):
    """A fit captures one graph and replays it, over rows that fill many blocks."""
    case.run("cuda", 50_000)
    assert len(graphs) == 1


def test_large_trees_are_read_array_by_array(graphs, monkeypatch):
    """The number of nodes is read first, and then that many elements of each array."""
    if rows_are_capped():
        monkeypatch.setattr(readbacks, "MAX_WHOLE", 0)
    reads: list[int] = []
    read = Finished.read_later

    def counted(self, runtime, n, n_masks):
        reads.append(n)
        return read(self, runtime, n, n_masks)

    monkeypatch.setattr(Finished, "read_later", counted)
    LARGE_TREES.run("cuda", 50_000)
    assert len(reads) == 3 and len(graphs) == 1


@pytest.mark.parametrize(
    "words", [{}, {"loss": "huber", "subsample": 0.5, "n_iter_no_change": 99}], ids=str
)
def test_a_round_is_read_once(words, as_users_do, monkeypatch):
    """Ten more rounds make ten more copies to the host."""
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    counts = []
    X, y = table("GradientBoostingRegressor", 5_000)
    for n_rounds in (6, 16):
        reads: list[tuple[int, ...]] = []
        with monkeypatch.context() as patch:
            for name in ("to_host", "read_later"):
                read = getattr(CupyRuntime, name)
                patch.setattr(
                    CupyRuntime,
                    name,
                    lambda self, array, read=read, reads=reads: (
                        reads.append(array.shape) or read(self, array)
                    ),
                )
            make("GradientBoostingRegressor", n_estimators=n_rounds, device="cuda", **words).fit(
                X, y
            )
        counts.append(len(reads))
    assert counts[1] - counts[0] == 10


@pytest.mark.parametrize("case", REPLAYED_ROUNDS[:6], ids=str)
def test_rounds_without_a_graph(case, monkeypatch):
    from gpuboost.backends.cuda.growth.grower import TreeGrower

    monkeypatch.setattr(TreeGrower, "_record", lambda self, host: None)
    case.run("cuda", 5_000)


@pytest.mark.parametrize("case", [case for case in BOOSTED if "Gradient" in case.name], ids=str)
def test_boosting_predicts_arrays_of_the_device(case):
    """With features and offsets on the device, the predictions are on the device."""
    import cupy

    X, y, words = case.given(5_000)
    weight = words.pop("sample_weight", None)
    model = make(case.name, **words).fit(X, y, weight)
    methods = ("predict", "predict_proba", "predict_log_proba", "decision_function")
    right = {method: getattr(model, method)(X) for method in methods if hasattr(model, method)}
    staged = list(model.staged_predict(X))
    model.set_params(device="auto")
    given = cupy.asarray(X)
    for method, expected in right.items():
        found = getattr(model, method)(given)
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_array_equal(cupy.asnumpy(found), expected)
    for found, expected in zip(model.staged_predict(given), staged, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(found), expected)
    offset = np.linspace(-0.5, 0.5, len(X))
    if model._model.loss.columns == 1:
        found = model.predict(given, cupy.asarray(offset))
        np.testing.assert_array_equal(
            cupy.asnumpy(found), model.set_params(device="numpy").predict(X, offset)
        )


def test_evaluation_sets_on_the_device():
    """Evaluation sets may be binned like the training rows or not, and have weights."""
    X, y = table("GradientBoostingRegressor", 20_000)
    few = len(X) // 4
    sets = [(X[:few] + 0.01, y[:few]), (X[few:], y[few:], np.arange(len(X) - few) % 3)]
    words = {"loss": "huber", "subsample": 0.5, "n_estimators": 12, "n_iter_no_change": 3}
    fits = [
        make("GradientBoostingRegressor", **words, device=device).fit(X, y, eval_set=sets)
        for device in ("numpy", "cuda")
    ]
    assert_equal_models(fits[1], fits[0])
    assert fits[0].evals_result_ == fits[1].evals_result_
    assert fits[0].best_iteration_ == fits[1].best_iteration_


def test_a_custom_loss_gets_arrays_of_the_device():
    import cupy

    seen = set()

    class Squared:
        def gradient(self, y, raw):
            seen.add(type(raw))
            return raw - y

        def hessian(self, y, raw):
            return raw * 0.0 + 1.0

        def predict(self, raw):
            seen.add(type(raw))
            return raw.reshape(-1, 1) * 2.0

    X, y = table("GradientBoostingRegressor", 5_000)
    model = make("GradientBoostingRegressor", loss=Squared(), device="cuda").fit(X, y)
    assert isinstance(model.predict(cupy.asarray(X)), cupy.ndarray)
    assert seen == {cupy.ndarray}


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_boosting_run_to_run(loss):
    X, y = table("GradientBoostingClassifier", 300_000)
    y = y > 0 if loss == "exponential" else y
    words = {"loss": loss, "max_depth": 8, "subsample": 0.7, "device": "cuda"}
    model = make("GradientBoostingClassifier", n_estimators=trees(20), **words)
    fits = [clone(model).fit(X, y) for _ in range(4)]
    assert len({model.fingerprint() for model in fits}) == 1
    assert len({tuple(model.train_score_) for model in fits}) == 1


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber"])
def test_boosting_of_many_rows(loss):
    """Leaves have many pieces, and the table fills the device."""
    X, y = table("GradientBoostingRegressor", 1_000_000)
    words = {"n_estimators": 6, "max_depth": 6, "loss": loss}
    fits = [
        make("GradientBoostingRegressor", device=device, n_jobs=-1, **words).fit(X, y)
        for device in ("numba", "cuda")
    ]
    assert_equal_models(fits[1], fits[0])
    np.testing.assert_array_equal(fits[0].train_score_, fits[1].train_score_)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_boosting_takes_the_estimated_memory(loss, pool):
    """The peak of the memory pool is compared with the estimate, for bounded depth."""
    X, y = table("GradientBoostingRegressor", 400_000)
    model = make("GradientBoostingRegressor", max_depth=6, loss=loss, device="cuda")
    model.fit(X[:1000], y[:1000])  # loads kernels
    gc.collect()
    budget = 4 * GIB
    pool.free_all_blocks()
    estimated = gpuboost.estimate_memory(model, *X.shape, dtype=np.float64, memory_budget=budget)
    pool.set_limit(size=pool.used_bytes() + int(1.15 * estimated))
    try:
        model.fit(X, y)  # within the limit
    finally:
        pool.set_limit(size=0)
    gc.collect()
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + int(0.5 * estimated))
    try:
        model.fit(X, y)  # uses less, or raises an error
    except MemoryError as error:
        assert "out of memory" in str(error)
    finally:
        pool.set_limit(size=0)


def test_a_fit_of_boosting_frees_its_memory(pool):
    X, y = table("GradientBoostingRegressor", 50_000)
    used = []
    for loss in ("huber", "squared_error", "huber", "squared_error"):
        make("GradientBoostingRegressor", loss=loss, device="cuda").fit(X, y)
        gc.collect()
        used.append(pool.used_bytes())
    assert len(set(used)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared_error", "quantile"])
def test_boosting_of_ten_million_rows(needs_memory, loss):
    needs_memory(30 * GIB)
    rng = np.random.default_rng(0)
    X = rng.random((rows(10_000_000), 13), dtype=np.float32)
    y = X[:, 0] * X[:, 1] + rng.random(len(X), dtype=np.float32)
    data, words = gpuboost.Dataset(X), {"n_estimators": 3, "max_depth": 10, "loss": loss}
    prints = [
        make("GradientBoostingRegressor", device=device, n_jobs=-1, **words)
        .fit(data, y)
        .fingerprint()
        for device in ("numba", "cuda", "cuda")
    ]
    assert len(set(prints)) == 1


@pytest.mark.slow
def test_boosting_of_a_hundred_classes():
    rng = np.random.default_rng(0)
    X = rng.random((rows(200_000), 20), dtype=np.float32)
    y = (X[:, 0] * 10).astype(int) * 10 + (X[:, 1] * 10).astype(int)
    words = {"n_estimators": 1 if rows_are_capped() else 2, "max_depth": 6, "n_jobs": -1}
    prints = [
        make("GradientBoostingClassifier", device=name, **words).fit(X, y).fingerprint()
        for name in ("numba", "cuda")
    ]
    assert prints[0] == prints[1]
