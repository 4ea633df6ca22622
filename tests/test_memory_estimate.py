"""What is foretold of a fit's memory is what its host code allocates, array for array."""

from __future__ import annotations

import gc
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import gpuboost
from gpuboost import GradientBoostingClassifier, GradientBoostingRegressor, estimate_memory
from gpuboost.backends import cost
from gpuboost.backends.cuda import CudaLevelOps, stored
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.cuda.binning import fit_bins
from gpuboost.backends.cuda.memory import (
    DeviceShape,
    binning_peak,
    fit_peak,
    foretell,
    nodes_at,
    trees_at_once,
)
from gpuboost.backends.cuda.phantoms import Meter
from gpuboost.backends.cuda.stored import has_places
from gpuboost.data.bins import BinRule
from gpuboost.engine.level_loop import grow_levels
from gpuboost.engine.scores import ENTROPY
from gpuboost.engine.spec import GrowTask
from gpuboost.estimators.foretold import ForetoldTable, ForetoldTrees
from tests import cuda_shim
from tests.harness import Problem, make_columns, make_target, make_weights
from tests.metered_runtime import Tracked, TrackedRuntime
from tests.shim_runtime import ShimRuntime

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

SHAPE = DeviceShape.of(ShimRuntime())


# ---- What a fit on the CPU shim really allocates -----------------------------------------------


@pytest.fixture
def meter() -> Any:
    gc.collect()
    Tracked.meter = Meter()
    yield Tracked.meter
    Tracked.meter = None


def really_taken(task: GrowTask, n_trees: int, meter: Meter) -> int:
    """Most bytes held while the first trees grow."""
    grow_levels(CudaLevelOps(TrackedRuntime(), task), task, task.trees[:n_trees])
    return meter.peak


def problem(target: str = "two classes", n: int = 900, n_trees: int = 3, **given: Any) -> Problem:
    """Five columns, two of them categorical; deep enough to fill levels."""
    rng = np.random.default_rng(2)
    X = make_columns(rng, n, ["normal", "heavy", "normal", "binary", "binary"], np.float32)
    X[:, 3], X[:, 4] = rng.integers(0, 4, n), rng.integers(0, 40, n)
    y, classification = make_target(rng, X, target)
    kinds = np.array([0, 0, 0, 1, 1], dtype=bool)
    made = Problem(X, y, classification, is_categorical=kinds, max_bins=40, n_trees=n_trees)
    return replace(made, **given).with_options(max_depth=5)


def task_of(asked: Problem, budget: int = 1 << 26) -> GrowTask:
    _, matrix, sampler, target = asked.prepare()
    return asked.task(matrix, sampler, target, memory_budget=budget)


@needs_compiler
@pytest.mark.parametrize("method", ["all", "bootstrap", "subset"])
@pytest.mark.parametrize("target", ["two classes", "five classes", "values", "outputs"])
def test_every_array_of_a_fit_is_counted(target: str, method: str, meter: Meter) -> None:
    task = task_of(problem(target, method=method))
    found = foretell(task, 3, SHAPE)
    assert found.peak == really_taken(task, 3, meter)
    assert found.lasting > 2 * 5 * 900  # codes in both layouts


@needs_compiler
@pytest.mark.parametrize(
    "changes",
    [
        {"max_depth": 1},
        {"max_features": 2},
        {"min_samples_leaf": 20},
        {"random_thresholds": True},
        {"score": ENTROPY},
        {"max_leaf_nodes": 12, "max_depth": 40},
        {"max_leaf_nodes": 80, "max_depth": 6},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_every_option_is_counted(changes: dict[str, Any], meter: Meter) -> None:
    task = task_of(problem("five classes").with_options(**changes))
    assert foretell(task, 2, SHAPE).peak == really_taken(task, 2, meter)


@needs_compiler
@pytest.mark.parametrize("kind", ["integers", "real"])
@pytest.mark.parametrize("method", ["all", "bootstrap", "subset"])
def test_weights_are_counted(kind: str, method: str, meter: Meter) -> None:
    weights = make_weights(np.random.default_rng(0), 900, kind)
    task = task_of(problem("values", weights=weights, method=method))
    assert foretell(task, 2, SHAPE).peak == really_taken(task, 2, meter)


@needs_compiler
@pytest.mark.parametrize(("target", "kind"), [("values", "real"), ("outputs", "none")])
def test_medians_are_counted(target: str, kind: str, meter: Meter) -> None:
    weights = make_weights(np.random.default_rng(0), 900, kind)
    task = task_of(problem(target, weights=weights, by_median=True))
    assert foretell(task, 2, SHAPE).peak == really_taken(task, 2, meter)


@needs_compiler
@pytest.mark.parametrize("balance", [False, True])
def test_numeric_columns_alone_need_no_masks(balance: bool, meter: Meter) -> None:
    asked = problem("five classes", is_categorical=None, balance=balance, method="bootstrap")
    task = task_of(asked)
    assert foretell(task, 3, SHAPE).peak == really_taken(task, 3, meter)


@needs_compiler
@pytest.mark.parametrize("budget", [1 << 14, 1 << 18, 1 << 21])
def test_slices_are_counted(budget: int, meter: Meter) -> None:
    """The host asks for the number of nodes where histograms do not fit: an estimate then."""
    task = task_of(problem("two classes", n=2000), budget)
    ratio = foretell(task, 3, SHAPE).peak / really_taken(task, 3, meter)
    assert 0.95 < ratio < 1.15


@needs_compiler
@pytest.mark.parametrize("depth", [13, 16])
def test_deep_trees_are_near(depth: int, meter: Meter) -> None:
    """Levels whose size is asked for: full ones are foretold, so there is never too little."""
    asked = problem("two classes", n=3000, method="bootstrap", is_categorical=None, n_trees=2)
    task = task_of(asked.with_options(max_depth=depth), 1 << 22)
    assert 0.95 < foretell(task, 2, SHAPE).peak / really_taken(task, 2, meter) < 1.3


@needs_compiler
@pytest.mark.parametrize("n_features", [3, 40])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_binning_is_counted(dtype: Any, weighted: bool, n_features: int, meter: Meter) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, n_features)).astype(dtype)
    weights = rng.uniform(0.5, 1, len(X)) if weighted else None
    rule = BinRule(np.zeros(n_features, dtype=bool), weights=weights)
    fit_bins(TrackedRuntime(), X, rule)
    foretold = binning_peak(n_features, len(X), X.itemsize, weighted)
    assert abs(foretold / meter.peak - 1) < 0.05


# ---- Trees at once -----------------------------------------------------------------------------


def test_as_many_trees_grow_as_fit() -> None:
    task = task_of(problem("two classes", n_trees=40, method="bootstrap"), 1 << 20)
    for budget in (1 << 21, 1 << 22, 1 << 24):
        n_trees = trees_at_once(task, budget, SHAPE)
        n_batches = -(-40 // n_trees)
        assert n_trees == -(-40 // n_batches)  # of about one size
        found = [foretell(task, n, SHAPE) for n in (n_trees, -(-40 // max(1, n_batches - 1)))]
        assert found[0].peak - found[0].lasting <= budget
        assert n_trees == 40 or found[1].peak - found[1].lasting > budget
    assert trees_at_once(task, 1, SHAPE) == 1
    assert trees_at_once(task, 1 << 40, SHAPE) == 40


def test_nodes_of_a_batch_have_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are int32, and trees to purity have up to two nodes for each row."""

    def forest(**words: Any) -> GrowTask:
        table = ForetoldTable(10**5, 2, 2, 1, 0, False, np.dtype(np.float32))
        return ForetoldTrees(gpuboost.RandomForestClassifier(40, **words), table).grow_task()

    deep, budget = forest(), 1 << 62
    assert [has_places(deep, n, n * 10**8) for n in (10, 11)] == [True, False]
    assert [has_places(deep, 1, n_rows) for n_rows in (2**30 - 1, 2**30)] == [True, False]
    assert trees_at_once(deep, budget, SHAPE) == 40
    monkeypatch.setattr(stored, "MOST_PLACES", 2**21 - 1)
    assert trees_at_once(deep, budget, SHAPE) == 10
    assert trees_at_once(forest(min_samples_leaf=3), budget, SHAPE) == 20  # of 31 that have places
    assert trees_at_once(forest(max_depth=8), budget, SHAPE) == 40


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ({}, "max_depth=None, max_leaf_nodes=None, min_samples_leaf=1 could have 200,001 nodes"),
        ({"max_depth": 17}, "max_depth=17, max_leaf_nodes=None, min_samples_leaf=1 could have"),
        ({"max_depth": 16}, ""),
        ({"min_samples_leaf": 2}, ""),
        ({"max_leaf_nodes": 64}, ""),
    ],
)
def test_a_tree_that_could_have_too_many_nodes_is_refused(
    words: dict[str, Any], given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the fit would be; device="auto" takes no GPU for it."""
    assert cost.CUDA_NODES == stored.MOST_PLACES
    monkeypatch.setattr(stored, "MOST_PLACES", 200_000)
    monkeypatch.setattr(cost, "CUDA_NODES", 200_000)
    n = 100_000
    table = ForetoldTable(n, 2, 2, 1, 0, False, np.dtype(np.float32))
    task = ForetoldTrees(gpuboost.DecisionTreeClassifier(**words), table).grow_task()
    names = ("max_depth", "max_leaf_nodes", "min_samples_leaf")
    limits = {name: getattr(task.options, name) for name in names}
    growth = cost.Growth(*(n, 2, 2, 1), **limits, n_channels=1)
    assert (cost.growth_work(growth).cuda < np.inf) == (not given) == has_places(task, 1, n)
    if given:
        with pytest.raises(ValueError, match=f"^a tree of 100,000 rows with {given}"):
            fit_peak(task, 1 << 40, SHAPE)
    else:
        fit_peak(task, 1 << 40, SHAPE)


def test_nodes_of_a_tree_to_purity() -> None:
    for rows in (1, 5, 1000, 1_000_000):
        levels = [nodes_at(depth, rows) for depth in range(100)]
        assert levels[0] == 1 and levels[-1] == 0
        assert 0.3 * rows <= sum(levels) <= 2 * rows + 1
        assert all(b <= 2 * a for a, b in pairwise(levels) if a)


# ---- The public function -----------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    ("estimator", "given"),
    [
        (gpuboost.DecisionTreeClassifier(max_depth=6), {}),
        (gpuboost.DecisionTreeRegressor(max_depth=6), {"n_outputs": 2}),
        (gpuboost.RandomForestClassifier(4, max_depth=6), {"n_classes": 3}),
        (gpuboost.RandomForestClassifier(4, max_depth=6, class_weight="balanced"), {}),
        (gpuboost.RandomForestClassifier(4, max_depth=6, class_weight="balanced_subsample"), {}),
        (gpuboost.RandomForestRegressor(4, max_depth=6, max_samples=0.5), {"weighted": True}),
        (gpuboost.ExtraTreesRegressor(4, max_depth=6), {}),
        (
            gpuboost.DecisionTreeRegressor(max_depth=6, criterion="absolute_error"),
            {"weighted": True, "n_outputs": 2},
        ),
        (gpuboost.BaggingClassifier(gpuboost.DecisionTreeClassifier(max_depth=6), 3), {}),
        (gpuboost.DecisionTreeRegressor(max_depth=9, categorical_features=[1, 4]), {}),
        (gpuboost.RandomForestRegressor(5, max_leaf_nodes=20), {}),
        (gpuboost.ExtraTreesClassifier(6, max_depth=9, categorical_features=[1, 4]), {}),
        (
            gpuboost.RandomForestClassifier(9, max_depth=9, categorical_features=[1, 4]),
            {"n_categorical": 2, "n_classes": 3},
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "-".join(value),
)
def test_an_estimate_is_near_the_peak_of_a_fit(
    estimator: Any, given: dict[str, Any], meter: Meter, monkeypatch: Any
) -> None:
    from gpuboost.estimators import template

    compare_with_a_fit(estimator, given, meter, monkeypatch, template)


BOOSTED: list[tuple[Any, dict[str, Any]]] = [
    (GradientBoostingRegressor(max_depth=5, loss="poisson"), {"weighted": True}),
    (GradientBoostingRegressor(max_depth=5, loss="huber", subsample=0.5), {}),
    (GradientBoostingRegressor(max_depth=6, loss="quantile", alpha=[0.2, 0.7]), {}),
    (
        GradientBoostingRegressor(max_depth=5, monotonic_cst=[1, 0, 0, 0, 0, 0]),
        {"weighted": True},
    ),
    (GradientBoostingRegressor(max_depth=5, categorical_features=[1, 4]), {"n_outputs": 3}),
    (GradientBoostingClassifier(max_depth=5, n_iter_no_change=3), {}),
    (GradientBoostingRegressor(max_depth=13, min_samples_leaf=30, n_iter_no_change=2), {}),
    (GradientBoostingClassifier(max_depth=4, interaction_cst="pairwise"), {"n_classes": 4}),
    (GradientBoostingClassifier(max_depth=None, max_leaf_nodes=31), {"n_classes": 3}),
    (GradientBoostingRegressor(max_depth=6, max_leaf_nodes=12, loss="huber"), {}),
]


@needs_compiler
@pytest.mark.parametrize(("estimator", "given"), BOOSTED, ids=map(str, range(len(BOOSTED))))
def test_an_estimate_of_boosting_is_near_the_peak(
    estimator: Any, given: dict[str, Any], meter: Meter, monkeypatch: Any
) -> None:
    from gpuboost.estimators import boosting_reading

    estimator.set_params(n_estimators=2)
    compare_with_a_fit(estimator, given, meter, monkeypatch, boosting_reading)


REWEIGHTED: list[tuple[Any, dict[str, Any]]] = [
    (gpuboost.AdaBoostClassifier(n_estimators=4), {}),
    (gpuboost.AdaBoostClassifier(n_estimators=4, max_depth=6), {"weighted": True, "n_classes": 3}),
    (
        gpuboost.AdaBoostClassifier(
            n_estimators=4, boosting="resampling", categorical_features=[1, 4]
        ),
        {},
    ),
    (gpuboost.AdaBoostClassifier(n_estimators=1, max_depth=5), {}),
    (
        gpuboost.AdaBoostClassifier(
            gpuboost.DecisionTreeClassifier(max_depth=4, class_weight="balanced"), n_estimators=4
        ),
        {},
    ),
    (gpuboost.AdaBoostRegressor(n_estimators=4, max_depth=6), {"weighted": True}),
    (
        gpuboost.AdaBoostRegressor(
            gpuboost.DecisionTreeRegressor(max_leaf_nodes=15), n_estimators=4
        ),
        {},
    ),
    (gpuboost.AdaBoostRegressor(n_estimators=4, max_depth=4, boosting="reweighting"), {}),
]


@needs_compiler
@pytest.mark.parametrize(("estimator", "given"), REWEIGHTED, ids=map(str, range(len(REWEIGHTED))))
def test_an_estimate_of_adaboost_is_near_the_peak(
    estimator: Any, given: dict[str, Any], meter: Meter, monkeypatch: Any
) -> None:
    from gpuboost.estimators import template

    compare_with_a_fit(estimator, given, meter, monkeypatch, template)


def compare_with_a_fit(
    estimator: Any, given: dict[str, Any], meter: Meter, monkeypatch: Any, where: Any
) -> None:
    """The estimate against what a fit on the shim holds; ``where`` a backend is chosen."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6), dtype=np.float32)
    X[::7, 0] = np.nan
    X[:, 1], X[:, 4] = rng.integers(0, 4, 1500), rng.integers(0, 90, 1500)
    n_classes, n_outputs = given.get("n_classes", 2), given.get("n_outputs", 1)
    y: Any = rng.integers(0, n_classes, 1500)
    if not hasattr(estimator, "predict_proba"):
        y = rng.exponential(size=(1500, n_outputs) if n_outputs > 1 else 1500)
    weights = rng.uniform(0.5, 1, 1500) if given.get("weighted") else None
    backend = CudaBackend(TrackedRuntime(budget=1 << 30, n_multiprocessors=132))
    monkeypatch.setattr(where, "choose_backend", lambda device, work: backend)
    estimator.set_params(random_state=0).fit(X, y, weights)
    foretold = estimate_memory(estimator, 1500, 6, memory_budget=1 << 30, **given)
    assert abs(foretold / meter.peak - 1) < 0.15, (foretold, meter.peak)


def test_less_memory_is_enough_for_less_at_once() -> None:
    forest = gpuboost.RandomForestClassifier(100, max_depth=12)
    whole = estimate_memory(forest, 100_000, 28)
    parts = [estimate_memory(forest, 100_000, 28, memory_budget=1 << b) for b in (26, 30, 33, 50)]
    assert parts == sorted(parts) and parts[-1] == whole
    lasting = 100_000 * (28 + 32 + 4)
    assert all(parts[i] <= (1 << b) + 1.2 * lasting for i, b in ((1, 30), (2, 33)))


def test_more_takes_more() -> None:
    def estimate(rows: int = 10_000, features: int = 20, **given: Any) -> int:
        forest = gpuboost.RandomForestClassifier(10, max_depth=8)
        return estimate_memory(forest, rows, features, **given)

    least = estimate()
    assert estimate(rows=20_000) > least and estimate(features=80) > least
    assert estimate(n_classes=9) > least
    tall = gpuboost.DecisionTreeClassifier(max_depth=2)
    sizes = [estimate_memory(tall, 10**6, 20, dtype=d) for d in (np.float32, "float64")]
    assert sizes[1] > 1.5 * sizes[0] > 1.5 * 10**6 * 20 * 4
    tree = gpuboost.DecisionTreeClassifier(max_depth=8)
    assert estimate_memory(tree, 10_000, 20, weighted=True) > estimate_memory(tree, 10_000, 20)


def test_masks_of_categories_take_memory() -> None:
    tree = gpuboost.DecisionTreeClassifier(max_depth=11)
    numbers = estimate_memory(tree, 20_000, 6)
    found = estimate_memory(tree, 20_000, 6, n_categorical=2)
    assert found > numbers + 2**11 * 64
    for listed in ([0, 3], ["a", "b"], [True, False, False, True, False, False]):
        tree.set_params(categorical_features=listed)
        assert estimate_memory(tree, 20_000, 6) == found
        assert estimate_memory(tree, 20_000, 6, n_categorical=0) == numbers
    with pytest.raises(ValueError, match="n_categorical must be an integer from 0 to 6, got 7"):
        estimate_memory(tree, 20_000, 6, n_categorical=7)


def test_an_estimate_leaves_the_estimator_alone() -> None:
    state = np.random.RandomState(0)
    tree = gpuboost.DecisionTreeClassifier(max_depth=3, random_state=state)
    estimate_memory(tree, 100, 3)
    assert tree.random_state is state and not hasattr(tree, "classes_")
    assert state.randint(1000) == np.random.RandomState(0).randint(1000)


def test_large_tables_are_foretold_without_their_memory() -> None:
    tree = gpuboost.DecisionTreeClassifier(max_depth=6)
    assert estimate_memory(tree, 50_000_000, 100, memory_budget=1 << 34) > 50_000_000 * 200


def test_nonsense_is_refused() -> None:
    tree = gpuboost.DecisionTreeClassifier()
    with pytest.raises(TypeError, match="estimator must be an estimator of gpuboost, got int"):
        estimate_memory(3, 10, 10)
    with pytest.raises(ValueError, match="n_samples"):
        estimate_memory(tree, 0, 10)
    with pytest.raises(ValueError, match="dtype must be"):
        estimate_memory(tree, 10, 10, dtype=np.int8)
    with pytest.raises(ValueError, match="memory_budget"):
        estimate_memory(tree, 10, 10, memory_budget=0)
    with pytest.raises(ValueError, match="max_depth"):
        estimate_memory(gpuboost.DecisionTreeClassifier(max_depth=0), 10, 10)


def test_boosting_of_many_rows_and_features_by_name() -> None:
    def estimate(n: int = 10**6, **words: Any) -> int:
        return estimate_memory(GradientBoostingRegressor(**words), n, 28, memory_budget=1 << 34)

    least = 10**6 * (28 + 32 + 3 * 8 + 16)  # codes twice, float64 of each row, sums of leaves
    assert least < estimate(max_depth=6) < 2 * least
    assert estimate(max_depth=6, monotonic_cst={"a": 1}) > estimate(max_depth=6)
    assert estimate(max_depth=6, interaction_cst=[["a", "b"], [3]]) > estimate(max_depth=6)
    assert estimate(max_depth=6, subsample=0.1) < estimate(max_depth=6)
    deep = estimate(max_depth=None)
    assert estimate(max_depth=None, max_leaf_nodes=31) < deep / 4
    with pytest.raises(ValueError, match="max_depth"):
        estimate(max_depth=0)
