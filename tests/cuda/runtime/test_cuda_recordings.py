"""Recorded and replayed batches grow the same trees as batches that are launched.

On the CPU, launches are replayed one by one, which shows whether any work of a batch is missing;
`test_cuda_graphs.py` captures them as a graph.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpuboost
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.cuda.growth import subtrees as small
from gpuboost.backends.cuda.growth.device_task import no_rounds
from gpuboost.backends.cuda.growth.grower import TreeGrower
from gpuboost.backends.cuda.growth.memory_plan import dry_run_batch, fit_peak, trees_at_once
from gpuboost.backends.cuda.level import slices
from gpuboost.backends.cuda.runtime.graph import RecordingRuntime
from gpuboost.backends.cuda.runtime.shape_arrays import UNIT, DeviceShape
from gpuboost.backends.cuda.sampling.batch_inputs import HostInputs
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.criteria import ENTROPY, MISCLASSIFICATION, TWOING
from gpuboost.engine.task import GrownTree, GrowTask
from tests import cuda_shim
from tests.cuda import shim_trees
from tests.cuda.shim_runtime import ShimRuntime
from tests.engine.exact import assert_same_fields
from tests.engine.harness import Problem
from tests.memory.metered_runtime import TrackedRuntime
from tests.pairs import every_pair

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
BUDGET = 1 << 28
AT_ONCE = 2  # trees per batch


def problem(target: str, weights: str = "none", n: int = 100, **given: Any) -> Problem:
    """A problem of `shim_trees.problem` with six trees of five levels."""
    words = {"n_trees": 3 * AT_ONCE, "method": "bootstrap", **given}
    return shim_trees.problem(target, weights, 4, n, **words).with_options(max_depth=5)


def task_of(asked: Problem, budget: int = BUDGET) -> GrowTask:
    _, matrix, sampler, target = asked.prepare()
    return asked.task(matrix, sampler, target, memory_budget=budget)


def grow(grower: TreeGrower[None], task: GrowTask, trees: Sequence[int]) -> list[GrownTree]:
    return grower.grow(HostInputs.of(task, trees), again=True)


def assert_same_trees(found: list[GrownTree], task: GrowTask, trees: Sequence[int]) -> None:
    expected = NumpyBackend().grow(replace(task, trees=trees))
    for own, (_, other) in zip(found, expected, strict=True):
        assert_same_fields(own, other, "grown tree")


def assert_replayed(asked: Problem, **runtime: Any) -> None:
    """Assert that all batches but the first are replayed, and all trees equal the reference's."""
    task, device = task_of(asked), ShimRuntime(**runtime)
    grower, launches = TreeGrower(device, task, BUDGET, no_rounds), []
    for first in range(0, len(task.trees), AT_ONCE):
        del device.launches[:]
        trees = task.trees[first : first + AT_ONCE]
        assert_same_trees(grow(grower, task, trees), task, trees)
        launches.append((grower.recorded, list(device.launches)))
    assert launches[0][0] is not None
    assert launches.count(launches[0]) == len(launches) == 3


# ---- the same trees --------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    ("target", "weights", "method"),
    every_pair(
        ("two classes", "five classes", "values", "outputs"),
        ("none", "integers", "real"),
        ("all", "bootstrap", "subset"),
    ),
)
def test_every_target_and_weight(target: str, weights: str, method: str) -> None:
    assert_replayed(problem(target, weights, method=method))


@needs_compiler
@pytest.mark.parametrize(("target", "weights"), [("values", "real"), ("outputs", "none")])
def test_medians(target: str, weights: str) -> None:
    assert_replayed(problem(target, weights, by_median=True))


OPTIONS: list[dict[str, Any]] = [
    {"random_thresholds": True},
    {"max_features": 2},
    {"max_features": 1, "random_thresholds": True},
    {"min_samples_leaf": 7},
    {"min_weight_fraction_leaf": 0.05, "min_impurity_decrease": 0.001},
    {"criterion": ENTROPY},
    {"criterion": MISCLASSIFICATION},
    {"criterion": TWOING},
    {"max_depth": 32},
    {"max_depth": 1},
    {"max_leaf_nodes": 9, "max_depth": 33},
    {"max_leaf_nodes": 65, "max_depth": 13},
]


@needs_compiler
@pytest.mark.parametrize("max_small_rows", [0, 512])
@pytest.mark.parametrize("changes", OPTIONS, ids=lambda changes: "-".join(changes))
def test_every_option(
    changes: dict[str, Any], max_small_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes stay in the level loop, or small ones become subtrees."""
    monkeypatch.setattr(small, "MAX_SUBTREE_ROWS", max_small_rows)
    assert_replayed(problem("five classes").with_options(**changes), order_seed=3)


@needs_compiler
@pytest.mark.parametrize("balance", [False, True])
def test_features_of_trees_and_weights_of_classes(balance: bool) -> None:
    asked = problem("rare classes", "real", balance=balance, tree_features=3)
    assert_replayed(asked.with_options(max_features=2))


@needs_compiler
@pytest.mark.parametrize("method", ["bootstrap", "subset"])
def test_batches_of_other_seeds_features_and_limits(method: str) -> None:
    """Inputs on the device may differ in each replay, as they do in rounds of boosting."""
    task = task_of(problem("values", "real", method=method))
    grower = TreeGrower(ShimRuntime(), task, BUDGET, no_rounds)
    grow(grower, task, range(AT_ONCE))
    recorded = grower.recorded
    assert recorded is not None and task.sampler is not None
    for seed in (1, 7, 2**63 + 5):
        other = replace(
            task,
            seed=seed,
            sampler=replace(task.sampler, seed=seed),
            options=replace(task.options, min_hessian=1 + seed % 40),
            features_of=lambda tree, seed=seed: np.array([seed % 2, 2, 4], dtype=np.int32),
        )
        other = replace(other, rows_of=other.sampler.rows)  # type: ignore[union-attr]
        assert_same_trees(grow(grower, other, range(3, 5)), other, range(3, 5))
        assert grower.recorded is recorded


# ---- which batches are replayed --------------------------------------------------------------


NOT_REPLAYED: dict[str, dict[str, Any]] = {
    "deep": {"options": {"max_depth": 33}},
    "best first": {"options": {"max_leaf_nodes": 65, "max_depth": 33}},
    "slices": {"budget": 1 << 14, "empty_launches": 0},
    "rows of the host": {"sampler": None},
    "weights of trees": {"target": "class outputs", "balance": True},
}


@needs_compiler
@pytest.mark.parametrize("case", NOT_REPLAYED)
def test_batches_that_are_not_replayed_are_launched(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = NOT_REPLAYED[case]
    max_empty = given.get("empty_launches", slices.EMPTY_LAUNCHES)
    monkeypatch.setattr(slices, "EMPTY_LAUNCHES", max_empty)
    asked = problem(given.get("target", "two classes"), balance=given.get("balance", False))
    asked = asked.with_options(**given.get("options", {}))
    task = task_of(asked, given.get("budget", BUDGET))
    if "sampler" in given:
        task = replace(task, sampler=None)
    grower = TreeGrower(ShimRuntime(), task, BUDGET, no_rounds)
    for trees in (range(2), range(2, 4)):
        assert_same_trees(grow(grower, task, trees), task, trees)
        assert grower.recorded is None


@needs_compiler
def test_a_batch_of_another_kind_replaces_the_recording() -> None:
    asked = problem("two classes").with_options(max_features=2)
    task = task_of(asked)
    few = replace(task, features_of=lambda tree: np.array([0, 3], dtype=np.int32))
    grower, found = TreeGrower(ShimRuntime(), task, BUDGET, no_rounds), []
    for own, trees in ((task, range(3)), (task, range(3, 5)), (few, range(2)), (few, range(2, 4))):
        assert_same_trees(grow(grower, own, trees), own, trees)
        found.append(grower.recorded)
    assert found[0] is not found[1] is not found[2] is found[3]
    last = grower.grow(HostInputs.of(task, range(5, 9)), again=False)
    assert_same_trees(last, task, range(5, 9))
    assert grower.recorded is None


@needs_compiler
def test_a_batch_that_does_not_fit_is_not_recorded() -> None:
    task = task_of(problem("two classes"))
    host = HostInputs.of(task, range(AT_ONCE))
    recorded = dry_run_batch(task, host, DeviceShape.of(ShimRuntime())).plan
    assert recorded is not None
    for budget in (recorded.total, recorded.total - 1):
        grower = TreeGrower(ShimRuntime(), task, budget, no_rounds)
        assert_same_trees(grow(grower, task, range(AT_ONCE)), task, range(AT_ONCE))
        assert (grower.recorded is None) == (budget < recorded.total)


# ---- work that is not recorded ---------------------------------------------------------------


def test_work_that_is_not_replayed_is_an_error_while_recording() -> None:
    runtime = RecordingRuntime(ShimRuntime())
    task = task_of(problem("two classes"))
    recorded = dry_run_batch(task, HostInputs.of(task, range(2)), DeviceShape.of(runtime)).plan
    assert recorded is not None
    there = runtime.asarray(np.arange(3))
    with runtime.recording(recorded):
        assert runtime.xp.empty(0, dtype=runtime.xp.int32).size == 0
        for work in (
            lambda: runtime.xp.zeros(3),
            lambda: runtime.xp.cumsum(there),
            lambda: runtime.xp.add(there, there),
            lambda: runtime.asarray(np.arange(3)),
            lambda: runtime.upload(np.arange(3), there),
            lambda: runtime.to_host(there),
            lambda: runtime.read_later(there),
        ):
            with pytest.raises(RuntimeError, match="would be missing when the batch is replayed"):
                work()
    assert runtime.xp.zeros(3).tolist() == [0, 0, 0]
    assert runtime.to_host(there).tolist() == [0, 1, 2]


# ---- memory ----------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    ("target", "n", "depth"),
    [("two classes", 900, 5), ("values", 3000, 8), ("five classes", 2000, 10), ("outputs", 900, 4)],
)
def test_memory_of_recordings_is_estimated(target, n, depth, meter):
    """The estimate matches the memory that is allocated, and all of it is freed."""
    task = task_of(problem(target, n=n).with_options(max_depth=depth))
    runtime = TrackedRuntime()
    shape = DeviceShape.of(runtime)
    host = HostInputs.of(task, range(AT_ONCE))
    recorded = dry_run_batch(task, host, shape).plan
    grower = TreeGrower(runtime, task, BUDGET, no_rounds)
    lasting = meter.now
    for first in range(0, 6, AT_ONCE):
        grow(grower, task, range(first, first + AT_ONCE))
        inputs = -(-grower.recorded.inputs.memory.nbytes // UNIT) * UNIT
        assert meter.now - lasting - inputs == recorded.total
    assert 0.8 < meter.peak / (lasting + recorded.total) < 1.02
    del grower
    gc.collect()
    assert meter.now == 0


@needs_compiler
def test_an_estimate_counts_the_recording(meter, monkeypatch):
    from gpuboost.estimators.fitting import pipeline as template

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1500, 6), dtype=np.float32), rng.integers(0, 3, 1500)
    forest = gpuboost.RandomForestClassifier(24, max_depth=6, random_state=0)
    budget = 5 << 19
    runtime = TrackedRuntime(budget=budget, n_multiprocessors=132)
    monkeypatch.setattr(template, "choose_backend", lambda device, work: CudaBackend(runtime))
    forest.fit(X, y)
    assert runtime.launches.count("make_roots") > 2
    estimated = gpuboost.estimate_memory(forest, 1500, 6, n_classes=3, memory_budget=budget)
    assert abs(estimated / meter.peak - 1) < 0.15


def test_fewer_trees_grow_at_once_where_an_arena_is_larger() -> None:
    task = task_of(problem("two classes", n=3000, n_trees=40))
    for budget in (1 << 20, 3 << 20, 1 << 22):
        shape = DeviceShape()
        n_trees = trees_at_once(task, budget, shape)
        recorded = dry_run_batch(task, HostInputs.of(task, range(n_trees)), shape).plan
        assert recorded is not None and 1 < n_trees <= 20 and recorded.total <= budget
        assert fit_peak(task, budget, shape) >= recorded.total
