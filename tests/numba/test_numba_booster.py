"""Boosting rounds in Numba give the trees and raw predictions of NumPy, bit by bit."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpuboost import GradientBoostingRegressor
from gpuboost.backends.host.boosting import HostBooster
from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numba.boosting import level_wise_rounds as level_rounds
from gpuboost.backends.numba.boosting.booster import NumbaBooster
from gpuboost.backends.numba.boosting.level_wise_rounds import LevelRounds
from gpuboost.backends.numba.level_wise import grower as level_grow
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.data.binning import bin_columns
from gpuboost.engine.criteria import NEWTON, VARIANCE
from gpuboost.engine.ensembles.boosting import Scale
from gpuboost.engine.ensembles.boosting_task import BoostTask, RowSet
from gpuboost.engine.losses import make_loss
from gpuboost.engine.sampling import ALL_ROWS, WITHOUT_REPLACEMENT, RowSampler
from gpuboost.engine.task import NO_LIMIT, GrowTask, Regularisation, TreeOptions
from tests.binning import fit_bin_mapper
from tests.engine.harness import COLUMN_KINDS, Problem, make_columns, make_weights
from tests.engine.strategies import boosting_problems

PROPERTY = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
LEAVES = (NO_LIMIT, NO_LIMIT, 2, 5, 12)
CLASSES = ("log_loss", "exponential")
LOSSES = (*CLASSES, "softmax", "squared_error", "poisson", "absolute_error", "huber", "quantile")
OUTPUTS = {"several squares": "squared_error", "several counts": "poisson"}


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grow level-wise, in several chunks and with all threads, even with few rows."""
    make_small(monkeypatch)


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (level_rounds, level_grow):
        monkeypatch.setattr(module, "ALL_SMALL", 1)
    monkeypatch.setattr(level_rounds, "MAX_PASSED_OVER", 1000)
    monkeypatch.setattr(level_grow, "MIN_CHUNK_ROWS", 16)
    monkeypatch.setattr(level_grow, "SHARED_CELLS", 0)
    monkeypatch.setattr(level_grow, "SHALLOW", 2)
    monkeypatch.setattr(level_grow, "SMALL_MEAN", 100)
    monkeypatch.setattr(level_grow, "SUBTREE_ROWS", 12)
    monkeypatch.setattr(level_grow, "CHANNELS_MEAN", 1)


def assert_equal_fields(found: Any, expected: Any) -> None:
    for column in fields(expected):
        have, want = getattr(found, column.name), getattr(expected, column.name)
        assert have.dtype == want.dtype, column.name
        assert np.array_equal(have, want, equal_nan=have.dtype.kind == "f"), column.name


def shapes() -> st.SearchStrategy[tuple[int, int]]:
    """Limits on depth and leaves: shallow, deep and best-first trees."""
    deep = st.sampled_from(((1, NO_LIMIT), (3, NO_LIMIT), (5, NO_LIMIT), (NO_LIMIT, NO_LIMIT)))
    return deep | st.tuples(st.integers(1, 5), st.sampled_from(LEAVES))


def limit_words(patch: pytest.MonkeyPatch, limit: int) -> None:
    """Let only histograms of nodes with at most ``limit`` rows hold words."""
    pack = LevelRounds._pack

    def with_limit(self: LevelRounds, *given: Any) -> Any:
        samples = pack(self, *given)
        return samples._replace(rows_in_word=min(limit, samples.rows_in_word))

    patch.setattr(LevelRounds, "_pack", with_limit)


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


def binned(X: np.ndarray, categorical: np.ndarray, weights: Any, max_bins: int) -> Any:
    return bin_columns(X, fit_bin_mapper(X, categorical, max_bins, weights))


def binned_as(X: np.ndarray, matrix: Any) -> Any:
    return bin_columns(X, matrix.mapper)


def loss_and_target(rng: np.random.Generator, X: np.ndarray, name: str) -> tuple[Any, Any]:
    signal = np.clip(np.nan_to_num(X[:, 0].astype(np.float64)), -2, 2)
    noisy = signal + rng.standard_normal(len(X))
    if name == "softmax":
        y = np.clip(np.rint(noisy + 1.5), 0, 3).astype(np.int32)
        return make_loss("log_loss", n_classes=4), y
    if name in CLASSES:
        return make_loss(name, n_classes=2), (noisy > 0).astype(np.int32)
    if name in OUTPUTS:
        counts = rng.poisson(np.exp(signal)[:, None] * (0.5, 1.0, 2.0)).astype(np.float64)
        return make_loss(OUTPUTS[name], n_outputs=3), counts
    if name == "poisson":
        return make_loss(name), rng.poisson(np.exp(signal)).astype(np.float64)
    return make_loss(name), noisy


def assert_same_rounds(task: BoostTask, rounds: int = 3) -> NumbaBooster:
    found, expected = NumbaBackend().booster(task), HostBooster(NumpyBackend(), task)
    assert isinstance(found, NumbaBooster)
    for number in range(rounds):
        one, other = found.boost(number, 0.3).read(), expected.boost(number, 0.3)
        for have, want in zip(one.trees, other.trees, strict=True):
            assert_equal_fields(have, want)
        for place in range(1 + len(task.watched)):
            assert np.array_equal(found.raw_predictions(place), expected.raw_predictions(place))
        assert one.losses == other.losses
    found.close()
    return found


@settings(PROPERTY, max_examples=120)
@given(fits(), word_limits)
def test_rounds_are_those_of_numpy(task: BoostTask, in_word: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        limit_words(patch, in_word)
        assert_same_rounds(task)


@pytest.mark.parametrize("name", ["log_loss", "softmax", "squared_error", *OUTPUTS])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("subsample", [False, True])
def test_large_rounds(name: str, n_threads: int, subsample: bool) -> None:
    """There are many chunks, full partial sums, features of several panels, and bundles."""
    task = large_task(name, n_threads, subsample)
    assert assert_same_rounds(task, rounds=2).grows_by_levels


@pytest.mark.parametrize("name", ["log_loss", "squared_error"])
@pytest.mark.parametrize("min_samples_leaf", [1, 5])
def test_tiles_and_panels(
    name: str, min_samples_leaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are several tiles of several panels; the last panel is no whole number of words."""
    monkeypatch.setattr(level_grow, "TILE", 48)
    task = large_task(name, 3, False, n=13_000, wide=99)
    task = replace(task, options=replace(task.options, min_samples_leaf=min_samples_leaf))
    shape = level_rounds.shape_of(task)
    assert shape.n_tiles > 1 and shape.tile > level_grow.SMALL_TILE and shape.n_columns % 8
    assert assert_same_rounds(task, rounds=2).grows_by_levels


@pytest.mark.parametrize("name", ["log_loss", "squared_error"])
@pytest.mark.parametrize("min_samples_leaf", [1, 5])
def test_histograms_of_words(
    name: str, min_samples_leaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the histograms of a parent and its children, none, one, two or all three hold words."""
    limit = 2000
    limit_words(monkeypatch, limit)
    task = large_task(name, 3, False, n=8_000)
    task = replace(task, options=replace(task.options, min_samples_leaf=min_samples_leaf))
    assert assert_same_rounds(task, rounds=2).grows_by_levels
    booster = NumbaBackend().booster(task)
    tree = booster.boost(0, 0.3).read().trees[0]
    booster.close()
    parents = np.flatnonzero((tree.left > 0) & (tree.depths() < 4))
    counts = tree.count[[parents, tree.left[parents], tree.left[parents] + 1]]
    assert set((counts <= limit).sum(axis=0)) == {0, 1, 2, 3}


def large_task(
    name: str, n_threads: int, subsample: bool, n: int = 30_000, wide: int = 70
) -> BoostTask:
    """A fit with missing values; with 3 threads, also features of several panels, and bundles."""
    rng, n_features = np.random.default_rng(3), wide if n_threads == 3 else 6
    X = rng.standard_normal((n, n_features)).astype(np.float32)
    few = X[:, 4::2]
    few[:] = np.floor(few * rng.uniform(0.5, 3.0, few.shape[1]))
    X[rng.random(X.shape) < 0.1] = np.nan
    loss, y = loss_and_target(rng, X, name)
    matrix = binned(X, np.zeros(n_features, bool), None, 255)
    train = RowSet(matrix, y, None, np.zeros((n, loss.columns)))
    method, n_draws = (WITHOUT_REPLACEMENT, n // 2) if subsample else (ALL_ROWS, n)
    options = TreeOptions(
        NEWTON,
        max_depth=5,
        hashed_order=False,
        needs_gain=True,
        regularisation=Regularisation(l2=1.0),
    )
    return BoostTask(
        matrix,
        train,
        (),
        loss,
        options,
        1e-3,
        name in OUTPUTS,
        RowSampler(method, n, n_draws, 1),
        0,
        n_threads=n_threads,
        memory_budget=2**30,
    )


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


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("n_classes", "subsample"), [(3, False), (9, True), (17, False)])
def test_roots_of_many_trees(n_classes: int, n_threads: int, subsample: bool) -> None:
    """There are complete and incomplete groups of eight trees, and a last block of few rows."""
    rng, n = np.random.default_rng(n_classes), 1100
    X = rng.standard_normal((n, 5)).astype(np.float32)
    X[:, 3:] = np.floor(X[:, 3:])
    y = np.argmax(
        X[:, :1] * np.linspace(-2, 2, n_classes) + rng.gumbel(size=(n, n_classes)), axis=1
    )
    y[:n_classes] = np.arange(n_classes)
    matrix, loss = (
        binned(X, np.zeros(5, bool), None, 255),
        make_loss("log_loss", n_classes=n_classes),
    )
    method, n_draws = (WITHOUT_REPLACEMENT, n // 2) if subsample else (ALL_ROWS, n)
    task = BoostTask(
        matrix,
        RowSet(matrix, y.astype(np.int32), None, np.zeros((n, n_classes))),
        (),
        loss,
        TreeOptions(
            NEWTON,
            max_depth=3,
            min_samples_leaf=4,
            hashed_order=False,
            needs_gain=True,
            regularisation=Regularisation(l2=1.0),
        ),
        1e-3,
        False,
        RowSampler(method, n, n_draws, 1),
        0,
        n_threads=n_threads,
        memory_budget=2**30,
    )
    assert assert_same_rounds(task, rounds=2).grows_by_levels


PARTS = ((0, 1, 2, 3, 4, 5, 12, 13), (5, 6, 7, 8, 9), (10, 11, 12, 19), (4, 14, 15, 16, 17, 18))
KINDS: dict[str, dict[str, Any]] = {
    "node": {"max_features": 1, "max_depth": 6, "hashed_order": True},
    "level": {"level_features": 4, "max_depth": 6},
    "interactions": {"interactions": PARTS, "max_depth": 6},
    "leaves": {"max_features": 3, "max_leaf_nodes": 25, "hashed_order": True},
    "deep": {"max_depth": 12, "min_samples_leaf": 5},
    "endless": {
        "interactions": PARTS,
        "level_features": 9,
        "max_features": 2,
        "hashed_order": True,
    },
}


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_trees(kind: str, n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are three tiles of features, of which most cannot split; one tree per class."""
    for limit in ("TILE", "SMALL_TILE"):
        monkeypatch.setattr(level_grow, limit, 8)
    monkeypatch.setattr(level_grow, "SHALLOW", 7)
    monkeypatch.setattr(level_grow, "SUBTREE_ROWS", 60)
    task = fit_of_kind(900, n_threads, KINDS[kind])
    found = assert_same_rounds(task, rounds=2)
    assert found.grows_by_levels
    small = level_rounds.shape_of(task).small
    assert (small > 0) == (kind in ("deep", "endless"))


def fit_of_kind(n: int, n_threads: int, options: dict[str, Any]) -> BoostTask:
    """Twenty columns: two dense ones and sparse ones, of which some have few values."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n, 20)).astype(np.float32)
    X[:, 2:] *= rng.random((n, 18)) < 0.06
    X[:, 6:10] = np.sign(X[:, 6:10])
    X[rng.random(X.shape) < 0.01] = np.nan
    X[:, 12:] = np.nan_to_num(X[:, 12:])
    score = np.nan_to_num(X) @ rng.standard_normal((20, 3)) + rng.gumbel(size=(n, 3))
    matrix, loss = binned(X, np.zeros(20, bool), None, 255), make_loss("log_loss", n_classes=3)
    limits: dict[str, Any] = {"hashed_order": False, "needs_gain": True} | options
    return BoostTask(
        matrix,
        RowSet(matrix, np.argmax(score, axis=1).astype(np.int32), None, np.zeros((n, 3))),
        (),
        loss,
        TreeOptions(NEWTON, regularisation=Regularisation(l2=1.0), **limits),
        1e-3,
        False,
        RowSampler(ALL_ROWS, n, n, 1),
        0,
        n_threads=n_threads,
        memory_budget=2**28,
    )
