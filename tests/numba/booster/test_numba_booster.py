"""Boosting rounds in Numba give the trees and raw predictions of NumPy, bit by bit."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpuboost import GradientBoostingRegressor
from gpuboost.backends.numba.boosting.level_wise_rounds import LevelRounds
from gpuboost.backends.numba.level_wise import grower as level_grow
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.criteria import NEWTON, VARIANCE
from gpuboost.engine.ensembles.boosting import Scale
from gpuboost.engine.ensembles.boosting_task import BoostTask, RowSet
from gpuboost.engine.losses import make_loss
from gpuboost.engine.sampling import ALL_ROWS, WITHOUT_REPLACEMENT, RowSampler
from gpuboost.engine.task import NO_LIMIT, GrowTask, Regularisation, TreeOptions
from tests.engine.harness import COLUMN_KINDS, Problem, make_columns, make_weights
from tests.engine.strategies import boosting_problems
from tests.numba.booster.booster_rounds import (
    CLASSES,
    OUTPUTS,
    assert_equal_fields,
    assert_same_rounds,
    binned,
    binned_as,
    limit_words,
    loss_and_target,
    make_small,
)

PROPERTY = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
LEAVES = (NO_LIMIT, NO_LIMIT, 2, 5, 12)
LOSSES = (*CLASSES, "softmax", "squared_error", "poisson", "absolute_error", "huber", "quantile")


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grow level-wise, in several chunks and with all threads, even with few rows."""
    make_small(monkeypatch)


def shapes() -> st.SearchStrategy[tuple[int, int]]:
    """Limits on depth and leaves: shallow, deep and best-first trees."""
    deep = st.sampled_from(((1, NO_LIMIT), (3, NO_LIMIT), (5, NO_LIMIT), (NO_LIMIT, NO_LIMIT)))
    return deep | st.tuples(st.integers(1, 5), st.sampled_from(LEAVES))


word_limits = st.sampled_from((0, 3, 10, 30, 80, 10_000))


# ---- the level-wise grower on problems of every kind -------------------------------------------


@settings(PROPERTY, max_examples=200)
@given(
    boosting_problems(),
    shapes(),
    st.integers(1, 3),
    st.sampled_from((2, 9, 40, 10_000)),
    word_limits,
)
def test_levels_grow_what_numpy_grows(
    problem: Problem, shape: tuple[int, int], n_threads: int, small: int, in_word: int
) -> None:
    """Trees with all limits; one thread grows nodes, or trees, of fewer than ``small`` rows."""
    depth, leaves = shape
    options = {"max_depth": depth, "max_leaf_nodes": leaves, "random_thresholds": False}
    problem = replace(problem.with_options(**options), n_trees=1)
    _, matrix, sampler, target = problem.prepare()
    asked = problem.task(matrix, sampler, target)
    expected = [grown for _, grown in NumpyBackend().grow(asked)]
    made, scale = problem.gradients(sampler, 0), problem.scale(sampler)
    task = task_of(problem, asked, scale, n_threads)
    pool = ThreadPool(n_threads)
    means = np.abs(made.gradient).mean(), made.hessian.mean()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level_grow, "SUBTREE_ROWS", small)
        patch.setattr(level_grow, "SEGMENT_ROWS", 10)
        patch.setattr(level_grow, "ALL_SMALL", small if small > len(problem.X) else 1)
        limit_words(patch, in_word)
        found = LevelRounds(task, pool).grow(made, means, scale, range(1))
    pool.dismiss()
    assert_equal_fields(found[0], expected[0])


def task_of(problem: Problem, asked: GrowTask, scale: Scale, n_threads: int) -> BoostTask:
    """A fit whose round grows the given problem; its loss only allows arbitrary hessians."""
    n, regular = asked.matrix.n_samples, problem.options.regularisation
    n_outputs = problem.y.size // n
    loss = make_loss("log_loss", n_classes=2)
    if n_outputs > 1:
        has_hessians = problem.boosting == "real" and problem.seed % 2 == 1
        loss = make_loss("poisson" if has_hessians else "squared_error", n_outputs=n_outputs)
    of_loss = replace(
        regular,
        l1=float(np.ldexp(regular.l1, -scale.gradient)),
        l2=float(np.ldexp(regular.l2, -scale.hessian)),
        max_value=float(np.ldexp(regular.max_value, scale.hessian - scale.gradient)),
    )
    return BoostTask(
        asked.matrix,
        RowSet(asked.matrix, np.zeros(n), None, np.zeros((n, n_outputs))),
        (),
        loss,
        replace(problem.options, regularisation=of_loss),
        float(np.ldexp(problem.options.min_hessian, -scale.hessian)),
        n_outputs > 1,
        RowSampler(ALL_ROWS, n, n, 0),
        asked.seed,
        asked.features_of,
        n_threads,
    )


# ---- whole rounds ------------------------------------------------------------------------------


@st.composite
def fits(draw: st.DrawFn, max_rows: int = 400) -> BoostTask:
    """Draw a fit of any loss, with or without weights, subsampling and constraints."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(2, max_rows))
    kinds = draw(st.lists(st.sampled_from(COLUMN_KINDS), min_size=1, max_size=9))
    X = make_columns(rng, n, kinds, np.float32)
    categorical = np.zeros(len(kinds), bool)
    if draw(st.booleans()):
        categorical[-1] = True
        X[:, -1] = rng.integers(0, draw(st.sampled_from((3, 9, 40))), n)
    if draw(st.booleans()):
        X[rng.random(X.shape) < 0.2] = np.nan
    weights = make_weights(rng, n, draw(st.sampled_from(("none", "none", "integers", "real"))))
    matrix = binned(X, categorical, weights, draw(st.sampled_from((255, 9))))
    loss, y = loss_and_target(rng, X, draw(st.sampled_from((*LOSSES, *OUTPUTS))))
    sums_outputs = loss.columns > 1 and draw(st.booleans())
    train = RowSet(matrix, y, weights, np.zeros((n, loss.columns)))
    half = slice(0, (n + 1) // 2)
    watched = RowSet(binned_as(X[half], matrix), y[half], None, train.raw[half])
    raw_watched = RowSet(X[half], y[half], None, train.raw[half])
    method, n_draws = draw(st.sampled_from(((ALL_ROWS, n), (WITHOUT_REPLACEMENT, (n + 1) // 2))))
    assume(method == ALL_ROWS or weights is None)
    one = draw(st.booleans())
    return BoostTask(
        matrix,
        train,
        draw(st.sampled_from(((), (watched,), (train, raw_watched)))),
        loss,
        draw(tree_limits(categorical, loss.columns == 1)),
        draw(st.sampled_from((0.0, 1e-3, 5.0))),
        sums_outputs,
        RowSampler(method, n, n_draws, 1),
        draw(st.integers(0, 99)),
        features_of=(lambda tree: np.array([tree % len(kinds)], np.int32)) if one else None,
        n_threads=draw(st.integers(1, 3)),
        memory_budget=draw(st.sampled_from((2**28, 2**28, 1))),
    )


@st.composite
def tree_limits(draw: st.DrawFn, categorical: np.ndarray, one_column: bool) -> TreeOptions:
    monotonic = None
    if one_column and draw(st.booleans()):
        signs = [0 if c else draw(st.sampled_from((-1, 0, 1))) for c in categorical]
        monotonic = tuple(signs)
    regular = draw(
        st.sampled_from(
            (
                Regularisation(),
                Regularisation(l2=1.0),
                Regularisation(l1=0.5, max_value=0.7),
            )
        )
    )
    regular = replace(regular, monotonic=monotonic)
    listed = draw(st.sampled_from((NO_LIMIT, NO_LIMIT, 1, 2)))
    features = st.integers(0, len(categorical) - 1)
    groups = st.lists(features, min_size=1, max_size=3).map(tuple)
    return TreeOptions(
        VARIANCE if regular == Regularisation() else NEWTON,
        max_depth=draw(st.sampled_from((1, 3, 6, NO_LIMIT))),
        max_leaf_nodes=draw(st.sampled_from(LEAVES)),
        min_samples_leaf=draw(st.sampled_from((1, 1, 4))),
        min_samples_split=draw(st.sampled_from((2, 20))),
        min_weight_fraction_leaf=draw(st.sampled_from((0.0, 0.0, 0.1))),
        min_impurity_decrease=draw(st.sampled_from((0.0, 0.0, 0.01))),
        max_features=listed,
        level_features=draw(st.sampled_from((NO_LIMIT, NO_LIMIT, 2))),
        interactions=draw(st.none() | st.lists(groups, min_size=1, max_size=3).map(tuple)),
        hashed_order=listed < NO_LIMIT,
        needs_gain=True,
        regularisation=regular,
    )


@settings(PROPERTY, max_examples=120)
@given(fits(), word_limits)
def test_rounds_are_those_of_numpy(task: BoostTask, in_word: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        limit_words(patch, in_word)
        assert_same_rounds(task)


def test_unlimited_depth_is_no_large_number() -> None:
    """2**max_depth has 268 MB, and takes seconds to compute, if the depth is unlimited."""
    X = np.random.default_rng(0).standard_normal((50, 3))
    model = GradientBoostingRegressor(n_estimators=2, max_depth=None, device="numba", n_jobs=1)
    model.fit(X, X[:, :2])
    tracemalloc.start()
    model.fit(X, X[:, :2])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
