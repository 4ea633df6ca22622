"""The estimated memory of a fit equals the memory that its arrays take."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import gpuboost
from gpuboost.backends import cost_model as cost
from gpuboost.backends.cost_model import SYNC_FREE_DEPTH
from gpuboost.backends.cuda.data.binning import binning_peak, fit_bins
from gpuboost.backends.cuda.growth import node_buffer as stored
from gpuboost.backends.cuda.growth.memory_plan import (
    dry_run,
    fit_peak,
    nodes_at,
    trees_at_once,
)
from gpuboost.backends.cuda.growth.node_buffer import has_places
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape, Meter
from gpuboost.engine.bins import BinRule
from gpuboost.engine.criteria import ENTROPY
from gpuboost.engine.growth.level_loop import grow_levels
from gpuboost.engine.task import NO_LIMIT, GrowTask
from gpuboost.estimators.memory.shape_only_fit import ShapeOnlyTable, grow_task
from tests import cuda_shim
from tests.cuda.lock_step import start_on_device
from tests.cuda.shim_runtime import ShimRuntime
from tests.engine.harness import Problem, make_columns, make_target, make_weights
from tests.memory.metered_runtime import TrackedRuntime
from tests.pairs import every_pair

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

SHAPE = DeviceShape.of(ShimRuntime())


# ---- Comparison with allocations of the CPU shim -----------------------------------------------


def really_taken(task: GrowTask, n_trees: int, meter: Meter) -> int:
    """Peak of the allocated bytes while the first trees grow."""
    start = partial(start_on_device, TrackedRuntime(), task, task.trees[:n_trees])
    grow_levels(start, task).end_batch().trees()
    return meter.peak


def problem(target: str = "two classes", n: int = 900, n_trees: int = 3, **given: Any) -> Problem:
    """A problem of five columns, two of them categorical, with full levels."""
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
    found = dry_run(task, 3, SHAPE)
    assert found.peak == really_taken(task, 3, meter)
    assert found.lasting > 2 * 5 * 900  # two layouts of codes


@needs_compiler
@pytest.mark.parametrize(
    "changes",
    [
        {"max_depth": 1},
        {"max_features": 2},
        {"min_samples_leaf": 20},
        {"random_thresholds": True},
        {"criterion": ENTROPY},
        {"max_leaf_nodes": 12, "max_depth": 40},
        {"max_leaf_nodes": 80, "max_depth": 6},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_every_option_is_counted(changes: dict[str, Any], meter: Meter) -> None:
    task = task_of(problem("five classes").with_options(**changes))
    assert dry_run(task, 2, SHAPE).peak == really_taken(task, 2, meter)


@needs_compiler
@pytest.mark.parametrize("kind", ["integers", "real"])
@pytest.mark.parametrize("method", ["all", "bootstrap", "subset"])
def test_weights_are_counted(kind: str, method: str, meter: Meter) -> None:
    weights = make_weights(np.random.default_rng(0), 900, kind)
    task = task_of(problem("values", weights=weights, method=method))
    assert dry_run(task, 2, SHAPE).peak == really_taken(task, 2, meter)


@needs_compiler
@pytest.mark.parametrize(("target", "kind"), [("values", "real"), ("outputs", "none")])
def test_medians_are_counted(target: str, kind: str, meter: Meter) -> None:
    weights = make_weights(np.random.default_rng(0), 900, kind)
    task = task_of(problem(target, weights=weights, by_median=True))
    assert dry_run(task, 2, SHAPE).peak == really_taken(task, 2, meter)


@needs_compiler
@pytest.mark.parametrize("balance", [False, True])
def test_numeric_columns_alone_need_no_masks(balance: bool, meter: Meter) -> None:
    asked = problem("five classes", is_categorical=None, balance=balance, method="bootstrap")
    task = task_of(asked)
    assert dry_run(task, 3, SHAPE).peak == really_taken(task, 3, meter)


@needs_compiler
@pytest.mark.parametrize("budget", [1 << 14, 1 << 18, 1 << 21])
def test_slices_are_counted(budget: int, meter: Meter) -> None:
    """These levels are full, so estimates are exact even if the host reads sizes."""
    task = task_of(problem("two classes", n=2000), budget)
    assert dry_run(task, 3, SHAPE).peak == really_taken(task, 3, meter)


def deep_task(depth: int) -> GrowTask:
    asked = problem("two classes", n=3000, method="bootstrap", is_categorical=None, n_trees=2)
    return task_of(asked.with_options(max_depth=depth), 1 << 22)


@needs_compiler
@pytest.mark.parametrize("depth", [13, 16, SYNC_FREE_DEPTH])
def test_deep_trees_are_counted(depth: int, meter: Meter) -> None:
    """All possible levels are launched, although trees end earlier."""
    task = deep_task(depth)
    assert dry_run(task, 2, SHAPE).peak == really_taken(task, 2, meter)


@needs_compiler
@pytest.mark.parametrize("depth", [SYNC_FREE_DEPTH + 1, NO_LIMIT])
def test_unbounded_trees_are_near(depth: int, meter: Meter) -> None:
    """If the host reads sizes of levels, the estimate assumes full levels: an upper bound."""
    task = deep_task(depth)
    assert 1.0 <= dry_run(task, 2, SHAPE).peak / really_taken(task, 2, meter) < 1.2


@needs_compiler
@pytest.mark.parametrize(
    ("n_features", "weighted", "dtype", "budget"),
    [
        *every_pair((3, 40, 200), (False, True), (np.float32, np.float64), (1 << 32,)),
        *every_pair((3, 200), (False, True), (np.float32, np.float64), (6 << 20,)),  # in parts
    ],
)
def test_binning_is_counted(
    n_features: int, weighted: bool, dtype: Any, budget: int, meter: Meter
) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, n_features)).astype(dtype)
    weights = rng.uniform(0.5, 1, len(X)) if weighted else None
    rule = BinRule(np.zeros(n_features, dtype=bool), weights=weights)
    fit_bins(TrackedRuntime(budget=budget), X, rule)
    estimated = binning_peak(n_features, len(X), X.itemsize, weighted, budget)
    assert abs(estimated / meter.peak - 1) < 0.05


# ---- Number of trees that grow at once ---------------------------------------------------------


def test_as_many_trees_grow_as_fit() -> None:
    task = task_of(problem("two classes", n_trees=40, method="bootstrap"), 1 << 20)
    for budget in (1 << 21, 1 << 22, 1 << 24):
        n_trees = trees_at_once(task, budget, SHAPE)
        n_batches = -(-40 // n_trees)
        assert n_trees == -(-40 // n_batches)  # batches of similar size
        found = [dry_run(task, n, SHAPE) for n in (n_trees, -(-40 // max(1, n_batches - 1)))]
        assert found[0].peak - found[0].lasting <= budget
        assert n_trees == 40 or found[1].peak - found[1].lasting > budget
    assert trees_at_once(task, 1, SHAPE) == 1
    assert trees_at_once(task, 1 << 40, SHAPE) == 40


def test_nodes_of_a_batch_have_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions of nodes are int32, and fully grown trees have up to two nodes per row."""

    def forest(**words: Any) -> GrowTask:
        table = ShapeOnlyTable(10**5, 2, 2, 1, 0, False, np.dtype(np.float32))
        return grow_task(gpuboost.RandomForestClassifier(40, **words), table)

    deep, budget = forest(), 1 << 62
    assert [has_places(deep, n, n * 10**8) for n in (10, 11)] == [True, False]
    assert [has_places(deep, 1, n_rows) for n_rows in (2**30 - 1, 2**30)] == [True, False]
    assert trees_at_once(deep, budget, SHAPE) == 40
    monkeypatch.setattr(stored, "MAX_PLACES", 2**21 - 1)
    assert trees_at_once(deep, budget, SHAPE) == 10
    assert trees_at_once(forest(min_samples_leaf=3), budget, SHAPE) == 20  # 31 would fit
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
    """The estimate raises the fit's error, and device="auto" chooses no GPU."""
    assert cost.CUDA_NODES == stored.MAX_PLACES
    monkeypatch.setattr(stored, "MAX_PLACES", 200_000)
    monkeypatch.setattr(cost, "CUDA_NODES", 200_000)
    n = 100_000
    table = ShapeOnlyTable(n, 2, 2, 1, 0, False, np.dtype(np.float32))
    task = grow_task(gpuboost.DecisionTreeClassifier(**words), table)
    names = ("max_depth", "max_leaf_nodes", "min_samples_leaf")
    limits = {name: getattr(task.options, name) for name in names}
    growth = cost.GrowthSize(*(n, 2, 2, 1), **limits, n_channels=1)
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
