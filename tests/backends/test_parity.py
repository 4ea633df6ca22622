"""Models have equal fingerprints on every device, without tolerances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuboost import DecisionTreeRegressor
from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numpy.backend import NumpyBackend
from tests.engine.exact import assert_same_fields
from tests.engine.harness import Problem, grow
from tests.engine.strategies import boosting_problems, median_problems, problems

PROPERTY = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)


@PROPERTY
@given(problems())
def test_numba_equals_numpy(problem: Problem) -> None:
    expected, fingerprint = grow(problem, NumpyBackend())
    found, other = grow(problem, NumbaBackend())
    assert other == fingerprint
    for name in ("code", "impurity_decrease", "impurity", "weight", "count"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


@settings(PROPERTY, max_examples=300)
@given(boosting_problems())
def test_numba_grows_rounds_of_boosting_as_numpy(problem: Problem) -> None:
    """All fields of grown trees are equal, with one thread and with two."""
    _, matrix, sampler, target = problem.prepare()
    for n_threads in (1, 2):
        task = problem.task(matrix, sampler, target, n_threads=n_threads)
        pairs = zip(NumbaBackend().grow(task), NumpyBackend().grow(task), strict=True)
        for (_, found), (_, expected) in pairs:
            assert_same_fields(found, expected, "grown tree")


@PROPERTY
@given(median_problems())
def test_numba_grows_trees_of_medians_as_numpy(problem: Problem) -> None:
    expected, fingerprint = grow(problem, NumpyBackend())
    found, other = grow(problem, NumbaBackend(), n_threads=2)
    assert other == fingerprint
    for name in ("impurity_decrease", "impurity", "weight", "count"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert grow(problem, NumpyBackend(), memory_budget=1)[1] == fingerprint


@pytest.mark.filterwarnings("ignore:the weights of rows")
@pytest.mark.parametrize("n_rows", [160, 4000])
def test_missing_values_of_zero_weight_get_no_leaf(n_rows: int) -> None:
    """Missing values go right if no row of positive weight in the node has one."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(1, 6, (n_rows, 2)).astype(np.float32), rng.random(n_rows)
    second, weights = np.arange(n_rows) >= n_rows // 2, np.ones(n_rows)
    X[:, 1], y = second, np.where(second, y + 100.0, y)
    X[:2, 0], y[:2] = 0.0, 10.0  # too few rows for a separate leaf
    X[20:60, 0], weights[20:60] = np.nan, 1e-12
    X[-9:, 0] = np.nan
    trees = [
        DecisionTreeRegressor(min_samples_leaf=3, max_depth=2, device=device, random_state=0)
        .fit(X, y, sample_weight=weights)
        .tree_
        for device in ("numpy", "numba")
    ]
    assert np.array_equal(trees[0].threshold, trees[1].threshold, equal_nan=True)
    assert trees[0].feature[0] == 1 and trees[0].threshold[1] > 1.0


@PROPERTY
@given(problems())
def test_numpy_does_not_depend_on_budget_threads_or_batch(problem: Problem) -> None:
    _, fingerprint = grow(problem, NumpyBackend())
    assert grow(problem, NumpyBackend(), memory_budget=1)[1] == fingerprint
    assert grow(problem, NumpyBackend(), memory_budget=1 << 16, n_threads=2)[1] == fingerprint


@pytest.mark.parametrize("rows_per_batch", [1, 300])
@settings(PROPERTY, max_examples=40)
@given(problem=problems())
def test_numpy_does_not_depend_on_trees_per_batch(rows_per_batch: int, problem: Problem) -> None:
    problem = replace(problem, n_trees=5)
    with pytest.MonkeyPatch.context() as patch:
        _, fingerprint = grow(problem, NumpyBackend())
        patch.setattr("gpuboost.backends.numpy.batches.ROWS_PER_BATCH", rows_per_batch)
        assert grow(problem, NumpyBackend())[1] == fingerprint


@settings(PROPERTY, max_examples=60)
@given(problem=st.one_of(problems(), boosting_problems()))
def test_numpy_does_not_depend_on_histograms_scanned_together(problem: Problem) -> None:
    _, fingerprint = grow(problem, NumpyBackend())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpuboost.backends.numpy.histogram_search.CELLS_PER_BLOCK", 1)
        assert grow(problem, NumpyBackend())[1] == fingerprint


@settings(PROPERTY, max_examples=60)
@given(problems(max_rows=400))
def test_numba_does_not_depend_on_threads(problem: Problem) -> None:
    alone = grow(problem, NumbaBackend(), n_threads=1)[1]
    assert grow(problem, NumbaBackend(), n_threads=2)[1] == alone


@pytest.mark.parametrize("backend", [NumpyBackend, NumbaBackend])
@settings(PROPERTY, max_examples=60)
@given(problem=problems())
def test_training_rows_are_predicted_by_their_own_leaf(backend: type, problem: Problem) -> None:
    """Prediction from raw values sends every training row to the leaf of its code."""
    sampler = problem.prepare()[2]
    ensemble, _ = grow(problem, backend())
    leaves = backend().apply(ensemble, problem.X, 1)
    for t, tree in enumerate(ensemble.trees):
        rows = sampler.rows(t)
        if rows.inside is not None:  # rows whose weight rounds to zero may differ
            return
        inside = rows.mask
        reached = np.bincount(leaves[inside, t], minlength=tree.node_count)
        assert np.array_equal(reached[tree.left == 0], tree.count[tree.left == 0])


@settings(PROPERTY, max_examples=80)
@given(problems())
def test_prediction_is_equal(problem: Problem) -> None:
    ensemble, _ = grow(problem, NumpyBackend())
    with np.errstate(over="ignore"):
        X = np.asfortranarray(np.concatenate([problem.X, problem.X[::-1] * 2]))
    X[np.isinf(X)] = 0
    if problem.is_categorical is not None and problem.is_categorical.any():
        X = problem.X
    assert np.array_equal(
        NumpyBackend().apply(ensemble, X, 1), NumbaBackend().apply(ensemble, X, 2)
    )
    assert np.array_equal(
        NumpyBackend().predict(ensemble, X, 1), NumbaBackend().predict(ensemble, X, 2)
    )


@pytest.mark.parametrize("classification", [True, False])
def test_a_row_drawn_a_hundred_thousand_times(classification: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150_000, 3)).astype(np.float32)
    signal = X[:, 0] + rng.standard_normal(len(X))
    y = (signal > 0).astype(np.int32) if classification else signal
    weights = np.full(len(X), 1e-9)
    weights[:2000] = 1e-3
    weights[0] = 10.0
    problem = Problem(X, y, classification, weights, "bootstrap", n_trees=2)
    found, fingerprint = grow(problem, NumpyBackend())
    assert grow(problem, NumbaBackend(), n_threads=2)[1] == fingerprint
    assert found.offset[-1] > 20
