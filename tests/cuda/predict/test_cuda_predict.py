"""Prediction by the CUDA kernels, run on the CPU, equals the reference's to the last bit."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuboost.backends.cuda.data import features
from gpuboost.backends.cuda.data.features import DeviceFeatures
from gpuboost.backends.cuda.predict import packed_forest as forests
from gpuboost.backends.cuda.predict import predict as prediction
from gpuboost.backends.cuda.predict.out_of_bag import sum_out_of_bag
from gpuboost.backends.cuda.runtime.source import file_text, kernel_source
from gpuboost.backends.host import binned as coded
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.bins import round_down_to_float32
from gpuboost.engine.ensembles.ensemble import Ensemble
from tests import cuda_shim
from tests.cuda import nvrtc
from tests.cuda.runtime.test_kernels_compile import (
    SPILL_ADVICE,
    complaints,
    needs_nvrtc,
    on_architectures,
)
from tests.cuda.shim_runtime import ShimRuntime
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import vote_mutants
from tests.engine.harness import Problem, grow, make_columns, make_target
from tests.engine.strategies import problems
from tests.fakes.fake_cupy import Machine

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

PROPERTY = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
REFERENCE = NumpyBackend()
KINDS = {"narrow": forests.NARROW, "float": forests.FLOAT, "double": forests.DOUBLE}


def grown(target: str = "two classes", n: int = 150, n_trees: int = 6, **given: Any) -> Ensemble:
    """Trees grown on numeric and two categorical columns with missing values."""
    rng = np.random.default_rng(len(target))
    X = matrix(rng, n)
    y, classification = make_target(rng, X, target)
    kinds = np.array([0, 0, 0, 1, 1], dtype=bool)
    asked = Problem(X, y, classification, is_categorical=kinds, n_trees=n_trees, **given)
    return grow(replace(asked, method="bootstrap"), REFERENCE)[0]


def matrix(rng: np.random.Generator, n: int, dtype: Any = np.float32) -> np.ndarray:
    """Rows with the columns of `grown`."""
    X = make_columns(rng, n, ["normal", "heavy", "integers", "binary", "binary"], dtype)
    X[:, 3], X[:, 4] = rng.integers(0, 4, n), rng.integers(0, 40, n)
    X[rng.random(X.shape) < 0.15] = np.nan
    return X


def at_thresholds(ensemble: Ensemble, X: np.ndarray, seed: int) -> np.ndarray:
    """A copy of X in which many values equal thresholds or are their neighbours."""
    rng = np.random.default_rng(seed)
    X = X.copy()
    inner = np.flatnonzero((ensemble.left != 0) & (ensemble.category < 0))
    if len(inner) == 0:
        return X
    for row in range(len(X)):
        for node in rng.choice(inner, 2):
            value = ensemble.threshold[node]
            value = round_down_to_float32(np.array([value])) if X.itemsize == 4 else value
            value = X.dtype.type(value if np.ndim(value) == 0 else value[0])
            with np.errstate(over="ignore"):
                to_module_of = np.nextafter(value, X.dtype.type(rng.choice([-np.inf, np.inf])))
            chosen = rng.choice(np.array([value, to_module_of]))
            X[row, ensemble.feature[node]] = chosen if np.isfinite(chosen) else np.nan
    return X


def assert_equal_predictions(runtime: ShimRuntime, ensemble: Ensemble, X: np.ndarray) -> None:
    """Assert that sums and leaves equal the reference's, bit by bit."""
    total = prediction.predict(runtime, ensemble, X)
    expected = REFERENCE.predict(ensemble, X, 1)
    assert total.dtype == expected.dtype
    assert total.shape == expected.shape
    np.testing.assert_array_equal(total.view(np.int64), expected.view(np.int64))
    leaves = prediction.apply(runtime, ensemble, X)
    assert leaves.dtype == np.int32
    np.testing.assert_array_equal(leaves, REFERENCE.apply(ensemble, X, 1))


@pytest.fixture(params=["few rows", "many rows"])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both algorithms: trees distributed over blocks, or every thread walking all trees."""
    if request.param == "many rows":
        monkeypatch.setattr(prediction, "FULL_ROWS", 0)


both_ways = pytest.mark.usefixtures("passes")


# Equality -----------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("order_seed", [0, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", ["two classes", "five classes", "values", "outputs"])
def test_every_kind_of_value(target: str, dtype: Any, order_seed: int) -> None:
    ensemble = grown(target)
    X = matrix(np.random.default_rng(1), 300, dtype)
    runtime = ShimRuntime(order_seed=order_seed)
    assert_equal_predictions(runtime, ensemble, X)
    assert_equal_predictions(runtime, ensemble, at_thresholds(ensemble, X, 2))


@both_ways
@PROPERTY
@given(problems(), st.integers(0, 2**20), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_any_model(asked: Problem, seed: int, dtype: Any, by_column: bool) -> None:
    ensemble = grow(replace(asked, n_trees=5), REFERENCE)[0]
    with np.errstate(over="ignore"):
        X = np.where(np.isfinite(asked.X), asked.X, np.nan).astype(dtype)
    X[np.isinf(X)] = np.nan
    assert asked.is_categorical is not None
    if not asked.is_categorical.any():
        X = at_thresholds(ensemble, X, seed)
    X = np.asfortranarray(X) if by_column else X
    assert_equal_predictions(ShimRuntime(order_seed=seed % 7), ensemble, X)


@both_ways
def test_many_features_need_wide_records(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = grown()
    X = matrix(np.random.default_rng(3), 80)
    assert forests.record_kind(ensemble, X.dtype) == forests.NARROW
    of_many_features = replace(
        ensemble, feature=np.where(ensemble.feature == 2, 1024, ensemble.feature).astype(np.int32)
    )
    assert forests.record_kind(of_many_features, X.dtype) == forests.FLOAT
    wide = np.full((80, 1025), np.nan, dtype=np.float32)
    wide[:, :5], wide[:, 1024] = X, X[:, 2]
    assert_equal_predictions(ShimRuntime(), of_many_features, wide)
    monkeypatch.setattr(forests, "record_kind", lambda *_: forests.FLOAT)
    assert_equal_predictions(ShimRuntime(), ensemble, X)


def test_a_large_tree_takes_wide_records() -> None:
    n = 2**18 + 1
    ensemble = grown()
    columns = {
        name: np.resize(getattr(ensemble, name), (n, *getattr(ensemble, name).shape[1:]))
        for name in ("feature", "left")
    }
    large = replace(ensemble, offset=np.array([0, n]), **columns)
    assert forests.record_kind(large, np.dtype(np.float32)) == forests.FLOAT
    smaller = replace(large, offset=np.array([0, n - 1]))
    assert forests.record_kind(smaller, np.dtype(np.float32)) == forests.NARROW
    assert forests.record_kind(smaller, np.dtype(np.float64)) == forests.DOUBLE


@both_ways
def test_children_of_a_large_tree() -> None:
    """In a chain of splits, the last child has the largest number that narrow records can hold."""
    depth = 2**17 - 1
    m = 2 * depth + 1
    left, feature = np.zeros(m, np.int32), np.full(m, -1, np.int32)
    inner = np.concatenate([[0], np.arange(2, m - 1, 2)])  # the right child is split again
    left[inner], feature[inner] = np.arange(1, m, 2), 0
    threshold = np.full(m, np.nan)
    threshold[inner] = np.arange(depth)
    none = np.zeros(m)
    ensemble = Ensemble(
        offset=np.array([0, m]),
        mask_offset=np.zeros(2, np.int64),
        feature=feature,
        threshold=threshold,
        code=np.zeros(m, np.int16),
        missing_left=np.zeros(m, bool),
        left=left,
        category=np.full(m, -1, np.int32),
        masks=np.zeros((0, 8), np.uint32),
        value=np.arange(m, dtype=np.float64)[:, None],
        impurity_decrease=none,
        impurity=none,
        weight=none,
        count=np.zeros(m, np.int64),
    )
    X = np.array([[0.0], [depth - 0.5], [np.nan], [500.5]], dtype=np.float32)
    expected = [1, m - 1, m - 1, 2 * 501 + 1]
    assert forests.record_kind(ensemble, X.dtype) == forests.NARROW
    assert prediction.apply(ShimRuntime(), ensemble, X)[:, 0].tolist() == expected
    assert prediction.predict(ShimRuntime(), ensemble, X)[:, 0].tolist() == expected


@both_ways
@pytest.mark.parametrize("n_trees", [1, 3, 4, 5])
def test_any_number_of_trees(n_trees: int) -> None:
    X = matrix(np.random.default_rng(3), 40)
    assert_equal_predictions(ShimRuntime(), grown(n_trees=n_trees), X)


@both_ways
def test_trees_that_are_leaves() -> None:
    """Trees that consist of a root come between trees with splits."""
    split = grown("values", n_trees=2).trees
    n = 20
    lone = grow(Problem(np.zeros((n, 1)), np.arange(n) / 3.0, False, n_trees=1), REFERENCE)[0].trees
    assert [tree.node_count for tree in lone] == [1]
    ensemble = Ensemble.of([*lone, split[0], *lone, *lone, split[1], *lone])
    X = matrix(np.random.default_rng(3), 40)
    assert_equal_predictions(ShimRuntime(), ensemble, X)
    assert_equal_predictions(ShimRuntime(), Ensemble.of(lone), X)


@pytest.mark.parametrize("most", [1, 2, 32])
def test_values_distributed_over_blocks(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "FULL_ROWS", 0)
    monkeypatch.setattr(prediction, "MAX_BLOCK_VALUES", most)
    X = matrix(np.random.default_rng(3), 70)
    assert_equal_predictions(ShimRuntime(order_seed=2), grown("five classes"), X)


@both_ways
@pytest.mark.parametrize("shared_memory", [1 << 20, 60_000, 9_000, 2_000, 600])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_do_not_fit_shared_memory_are_read_where_they_are(
    dtype: Any, shared_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = ShimRuntime(shared_memory=min(shared_memory, 227 << 10))
    rng = np.random.default_rng(4)
    X = np.tile(matrix(rng, 300, dtype), 8)[:, :37]
    for rows in (X, np.asfortranarray(X)):
        assert_equal_predictions(runtime, grown("outputs"), rows)


def test_block_sizes_let_several_blocks_share_a_multiprocessor() -> None:
    def chosen(shape: tuple[int, int], sum_bytes: int = 0) -> tuple[int, bool]:
        rows = DeviceFeatures.of(np, np.zeros(shape, dtype=np.float32))
        block = prediction._Block.choose(ShimRuntime(), rows, sum_bytes)
        assert block.shared <= ShimRuntime().shared_memory
        return block.threads, block.staged

    assert chosen((1000, 28)) == (256, True)
    assert chosen((1000, 200)) == (128, True)
    assert chosen((1000, 500)) == (64, True)
    assert chosen((100, 1000)) == (32, True)
    assert chosen((100, 10_000)) == (256, False)
    assert chosen((60, 28)) == (64, True)
    assert chosen((1, 28)) == (32, True)
    assert chosen((1000, 28), 8 * 32) == (128, True)


# Rows on host and device --------------------------------------------------------------------


def device_runtime() -> Any:
    """A runtime of the fake CuPy, whose arrays NumPy cannot read; for tests with a `machine`."""
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    return CupyRuntime(0)


@both_ways
def test_rows_of_the_host_are_copied_part_by_part(
    monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    ensemble, X = grown("five classes"), matrix(np.random.default_rng(3), 70)
    monkeypatch.setattr(features, "HOST_BYTES", 16 * 8 * 6)
    assert_equal_predictions(device_runtime(), ensemble, X)
    assert len(machine.launches) >= 7


@both_ways
@pytest.mark.parametrize("order", ["rows", "columns", "every other column"])
def test_rows_of_the_device_stay_there(order: str, machine: Machine) -> None:
    ensemble, X = grown("outputs"), matrix(np.random.default_rng(3), 70)
    runtime = device_runtime()
    if order == "every other column":
        on_device = runtime.xp.asarray(np.repeat(X, 2, axis=1))[:, ::2]
    else:
        by_column = order == "columns"
        on_device = runtime.xp.asarray(np.asfortranarray(X) if by_column else X)
    total = prediction.predict(runtime, ensemble, on_device)
    leaves = prediction.apply(runtime, ensemble, on_device)
    assert type(total) is type(leaves) is runtime.xp.ndarray
    np.testing.assert_array_equal(total.get(), REFERENCE.predict(ensemble, X, 1))
    np.testing.assert_array_equal(leaves.get(), REFERENCE.apply(ensemble, X, 1))


def test_an_ensemble_is_packed_once_and_freed_with_it(machine: Machine) -> None:
    before = set(forests._forests)
    runtime, ensemble = device_runtime(), grown()
    X = matrix(np.random.default_rng(3), 20)
    found = forests.device_forest(runtime, ensemble, X.dtype)
    prediction.predict(runtime, ensemble, X)
    assert forests.device_forest(runtime, ensemble, X.dtype) is found
    prediction.predict(runtime, ensemble, X.astype(np.float64))
    assert len(set(forests._forests) - before) == 2
    del ensemble
    gc.collect()
    del found
    assert set(forests._forests) <= before
    assert machine.live == 0


# Kernels ------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_are_sound(flavour: str, dtype: Any) -> None:
    X = matrix(np.random.default_rng(1), 70, dtype)
    X[:5, 3:] = 1e9  # categories outside the masks
    runtime = ShimRuntime(flavour=flavour, order_seed=3)
    for target in ("two classes", "outputs"):
        ensemble = grown(target)
        for rows in (X, np.nan_to_num(X), np.asfortranarray(X)):
            total = prediction.predict(runtime, ensemble, rows)
            inside = np.minimum(rows, np.where(np.arange(5) > 2, 255, np.inf)).astype(dtype)
            np.testing.assert_array_equal(total, REFERENCE.predict(ensemble, inside, 1))


VOTES = list(vote_mutants(file_text("predict/predict.cu")))


@pytest.mark.parametrize("mutant", VOTES, ids=lambda m: m.barrier)
def test_the_vote_must_cover_the_whole_block(mutant: cuda_shim.Mutant) -> None:
    runtime = ShimRuntime("race", sources={"predict/predict.cu": mutant.source_text})
    X = np.zeros((70, 5), dtype=np.float32)
    X[69, 0] = np.nan
    with pytest.raises((KernelError, AssertionError)):
        assert_equal_predictions(runtime, grown(), X)


@pytest.mark.parametrize("flavour", ["plain", "race", "undefined", "guard"])
@pytest.mark.parametrize("budget", [1, 1 << 30])
@pytest.mark.parametrize("method", ["bootstrap", "subset"])
def test_out_of_bag_sums(
    method: str, budget: int, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out-of-bag sums equal the reference's, also for a few trees and rows at a time."""
    monkeypatch.setattr(coded, "HOST_ROWS_PER_BLOCK", 64)
    rng = np.random.default_rng(9)
    X = matrix(rng, 150)
    y, classification = make_target(rng, X, "five classes")
    asked = Problem(X, y, classification, method=method, n_trees=5)
    ensemble = grow(asked, REFERENCE)[0].on_codes
    _, binned, sampler, _ = asked.prepare()
    other = replace(asked, seed=1).prepare()[2]
    draws = [(sampler, 0), (sampler, 1), (sampler, 2), (other, 3), (other, 4)]
    runtime = ShimRuntime(flavour=flavour, order_seed=2, budget=budget)
    total, count = sum_out_of_bag(runtime, ensemble, binned, draws)
    expected_total, expected_count = REFERENCE.sum_out_of_bag(ensemble, binned, draws, 1)
    np.testing.assert_array_equal(total, expected_total)
    np.testing.assert_array_equal(count, expected_count)
    assert count.any()


@needs_nvrtc
@pytest.mark.parametrize(("kind", "architecture"), on_architectures(KINDS))
def test_every_kind_of_record_compiles_to_lean_code(kind: str, architecture: str) -> None:
    source = kernel_source("predict/predict.cu", {"NODE": KINDS[kind]})
    result = nvrtc.compile_source(source, architecture, file_name="predict/predict.cu")
    assert not complaints(result), f"{result.log}\n{SPILL_ADVICE}"
