"""Deep trees of bounded depth on the device: the host does not wait until they are finished."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuboost
from gpuboost.backends.cost_model import SYNC_FREE_DEPTH
from gpuboost.backends.cuda.boosting.booster import CudaBooster
from gpuboost.backends.cuda.growth import grow as cuda
from gpuboost.backends.cuda.growth import memory_plan as memory
from gpuboost.backends.cuda.growth import subtrees as small
from gpuboost.backends.cuda.growth.device_task import no_rounds
from gpuboost.backends.cuda.growth.grower import TreeGrower
from gpuboost.backends.cuda.growth.memory_plan import dry_run, trees_at_once
from gpuboost.backends.cuda.growth.node_buffer import NodeCapacity, max_stored_nodes
from gpuboost.backends.cuda.level import policy, slices
from gpuboost.backends.cuda.level.policy import Policy
from gpuboost.backends.cuda.level.slices import Slices
from gpuboost.backends.cuda.runtime import grid as chunks
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape, ShapeRuntime
from gpuboost.backends.cuda.sampling.batch_inputs import HostInputs
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.task import GrowTask, TreeOptions
from gpuboost.estimators.memory.shape_only_fit import ShapeOnlyTable, boost_task, grow_task
from tests import cuda_shim
from tests.cuda.runtime.test_cuda_recordings import assert_same_trees, task_of
from tests.cuda.shim_runtime import ShimRuntime
from tests.cuda.shim_trees import PROPERTY, assert_equal_trees, problem
from tests.engine.harness import Problem
from tests.estimators.device_cases import assert_same_model, table
from tests.fakes.fake_cupy import UPLOAD, WAIT
from tests.fakes.fake_streams import GRAPH

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
GIB = 1 << 30


# Waits of the host --------------------------------------------------------------------------


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch, machine: Any) -> list[list[str]]:
    """A list that receives the device's events of every batch of two trees."""
    monkeypatch.setattr(cuda, "trees_at_once", lambda *_: 2)
    grow_finished, found = cuda.TreeGrower.grow_finished, []

    def watched(self: TreeGrower[None], host: HostInputs, again: bool) -> Any:
        begun = len(machine.events)
        trees = grow_finished(self, host, again)
        found.append(machine.events[begun:])
        return trees

    monkeypatch.setattr(cuda.TreeGrower, "grow_finished", watched)
    return found


def is_waited_for(events: list[str]) -> bool:
    """Whether the host waits before the last launch."""
    last = max(place for place, event in enumerate(events) if event not in (WAIT, UPLOAD))
    return WAIT in events[:last]


BOUNDED: list[tuple[str, dict[str, Any]]] = [
    ("RandomForestClassifier", {"max_depth": 16}),
    ("RandomForestRegressor", {"max_depth": SYNC_FREE_DEPTH, "min_samples_leaf": 2}),
    ("ExtraTreesClassifier", {"max_depth": 30}),
]


@needs_compiler
@pytest.mark.parametrize(("name", "words"), BOUNDED)
def test_a_forest_of_bounded_depth_is_not_waited_for(name, words, batches, machine):
    assert_same_model(name, *table(name), "cuda", n_estimators=7, **words)
    first, *replayed, last = batches
    assert len(replayed) == 2 and GRAPH not in (*first, *last)
    assert not is_waited_for(first) and not is_waited_for(last)
    for events in replayed:
        assert events[:2] == [UPLOAD, GRAPH] and set(events[2:]) == {WAIT}


@needs_compiler
@pytest.mark.parametrize("depth", [20, None, SYNC_FREE_DEPTH + 1])
def test_a_single_tree_of_other_depth_is_waited_for(depth, batches, machine):
    name = "DecisionTreeRegressor"
    assert_same_model(name, *table(name), "cuda", max_depth=depth)
    (events,) = batches
    assert is_waited_for(events) == (depth != 20)


# Slices -------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("max_small_rows", [0, 512])
@pytest.mark.parametrize("changes", [{"max_features": 2}, {"min_samples_split": 5}])
def test_levels_in_slices_are_replayed(
    changes: dict[str, Any], max_small_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few slices are recorded and replayed; with many, the host reads the number of nodes."""
    monkeypatch.setattr(small, "MAX_SUBTREE_ROWS", max_small_rows)
    asked = problem("five classes", n=90, n_trees=6, method="bootstrap")
    task = task_of(asked.with_options(max_depth=4, **changes), 1 << 14)
    for n_empty, is_recorded in ((1 << 20, True), (0, False)):
        monkeypatch.setattr(slices, "EMPTY_LAUNCHES", n_empty)
        runtime = ShimRuntime()
        grower = TreeGrower(runtime, task, GIB, no_rounds)
        for trees in (range(2), range(2, 4), range(4, 6)):
            found = grower.grow(HostInputs.of(task, trees), again=True)
            assert_same_trees(found, task, trees)
        assert (grower.recorded is not None) == is_recorded
        n_levels = runtime.launches.count("open_nodes")
        assert runtime.launches.count("zero_histograms") > n_levels


def policy_of(n_rows: int, small_rows: int = 0, **limits: Any) -> Policy:
    options = TreeOptions(VARIANCE, **limits)
    nothing: Any = None
    return Policy(ShimRuntime(), options, nothing, 1, n_rows, 1, 0, small_rows)


def test_slots_of_a_level() -> None:
    for limits, small_rows, large in (
        ({}, 0, 50),
        ({"min_samples_split": 9}, 0, 11),
        ({"min_samples_leaf": 6}, 0, 8),
        ({"min_samples_split": 9}, 9, 10),
    ):
        own = policy_of(100, small_rows, max_depth=7, **limits)
        assert own.max_slots(1000, 3, by_parents=False) == large
        assert own.max_slots(1000, 3, by_parents=True) == 2 * large
        assert own.max_slots(7, 6, by_parents=True) == 7
        assert own.max_slots(7, 7, by_parents=True) == 0


def test_the_number_of_slices_without_a_size_readback() -> None:
    """Empty launches are limited to 56, plus 56 per million rows; a slice has 4 or 8."""
    for n_rows, by_lists, n_slices in (
        *((10_000, False, 15), (10_000, True, 8)),
        *((1 << 20, False, 29), (1 << 20, True, 15), (4 << 20, False, 71)),
    ):
        own = Slices.of(policy_of(n_rows), 1600, 16, by_lists)
        assert own.are_few(100 * n_slices, 5) and not own.are_few(100 * n_slices + 1, 5)
    assert Slices.of(policy_of(9), 1, 16, by_lists=False).at_once == 1


@pytest.mark.parametrize(
    ("words", "n_features", "gib", "recorded"),
    [
        ({"max_depth": 20, "monotonic_cst": [1] + 27 * [0]}, 28, 111, True),
        ({"max_depth": 12}, 500, 6, True),
        ({"max_depth": 12}, 500, 6 / 30, False),  # 61 slices
    ],
)
def test_rounds_of_levels_in_a_few_slices_are_recorded(words, n_features, gib, recorded):
    """A million rows are fewer than 2**20, and no nodes leave the level loop."""
    model = gpuboost.GradientBoostingRegressor(random_state=0, **words)
    table = ShapeOnlyTable(10**6, n_features, 2, 1, 0, False, np.dtype(np.float32))
    task = replace(boost_task(model, table), memory_budget=int(gib * GIB))
    runtime = ShapeRuntime(DeviceShape().shared_memory, 132, lambda depth: 2 ** min(depth, 12))
    booster = CudaBooster(runtime, task)
    booster.rounds.draw.begin(0, 0.1)
    booster.launch(0)
    assert (booster._grower.recorded is not None) == recorded


@pytest.mark.parametrize("by_lists", [False, True])
def test_launches_of_a_slice_are_counted(by_lists, monkeypatch):
    """The constants match the number of additional launches of each slice."""
    names: list[str] = []
    kernel = ShapeRuntime.kernel

    def counting(self, *of_kernel):
        launch = kernel(self, *of_kernel)
        return lambda *args, **more: (names.append(of_kernel[1]), launch(*args, **more))

    monkeypatch.setattr(ShapeRuntime, "kernel", counting)
    words = {"max_features": 3 if by_lists else None, "max_depth": 6, "random_state": 0}
    table = ShapeOnlyTable(10**6, 28, 2, 1, 0, False, np.dtype(np.float32))
    task = grow_task(gpuboost.DecisionTreeClassifier(**words), table)
    counts = []
    for n_slots in (16, 8):  # the last level has 32 nodes
        names.clear()
        n_listed = 3 if by_lists else 28
        dry_run(replace(task, memory_budget=n_slots * n_listed * 256 * 24), 1, DeviceShape())
        n_others = names.count("fill_words")  # for levels without parents' histograms
        counts.append((len(names) - n_others, names.count("zero_histograms")))
    (few, few_slices), (many, many_slices) = counts
    own = slices.LISTED_SLICE_LAUNCHES if by_lists else slices.SLICE_LAUNCHES
    assert many - few == own * (many_slices - few_slices) > 0


@needs_compiler
def test_levels_with_as_many_nodes_as_possible() -> None:
    """Every node that is searched has just enough rows for a split."""
    y = np.arange(64.0)
    for limit in ({"min_samples_split": 16}, {"min_samples_leaf": 8}):
        asked = Problem(y[:, None], y, False, n_trees=1).with_options(max_depth=13, **limit)
        for budget in (GIB, 1):
            assert_equal_trees(asked, ShimRuntime(flavour="guard"), memory_budget=budget)


# Capacity for nodes -------------------------------------------------------------------------


@cache
def max_nodes(rows: int, depth: int, split: int, leaf: int) -> int:
    """Number of nodes of the largest tree within these limits."""
    if depth == 0 or rows < max(split, 2 * leaf):
        return 1
    lefts = range(leaf, rows // 2 + 1)
    below = ((max_nodes(n, depth - 1, split, leaf), rows - n) for n in lefts)
    return 1 + max(left + max_nodes(n, depth - 1, split, leaf) for left, n in below)


@settings(PROPERTY)
@given(st.data(), st.integers(1, 4), st.integers(0, 35), st.integers(2, 12), st.integers(1, 5))
def test_capacity_suffices_for_all_nodes(
    data: st.DataObject, n_trees: int, max_depth: int, split: int, leaf: int
) -> None:
    """The capacity for each tree of a batch suffices for its largest possible tree."""
    rows = data.draw(st.lists(st.integers(0, 40), min_size=n_trees, max_size=n_trees))
    limits = {"min_samples_split": split, "min_samples_leaf": leaf}
    options = TreeOptions(VARIANCE, max_depth=max_depth, **limits)
    capacity, first = NodeCapacity.of(options, 40), [0, *np.cumsum(rows).tolist()]
    for tree, n in enumerate(rows):
        end = capacity.first_node(tree + 1, first[tree + 1])
        own = end - capacity.first_node(tree, first[tree])
        assert own >= max_nodes(n, min(max_depth, 40), split, leaf)
    length = capacity.first_node(n_trees, first[-1])
    assert max_stored_nodes(n_trees, first[-1], options, 40) == length


def test_capacity_of_deep_trees() -> None:
    """The capacity follows from the limits on rows: at most 10 nodes of a level can be split."""
    for limits, most in (
        ({"min_samples_split": 100}, 1 + 2 * (1 + 2 + 4 + 8 + 16 * 10)),
        ({"min_samples_leaf": 50}, 41),
        ({"max_depth": 5}, 63),
        ({"max_depth": 33, "min_samples_split": 100}, 2001),
    ):
        options = TreeOptions(VARIANCE, **{"max_depth": 20, **limits})
        assert max_stored_nodes(1, 1000, options, 1000) == most


# Number of trees that grow at once ----------------------------------------------------------


def forest_of(n_rows: int, gib: float, **words: Any) -> tuple[GrowTask, int]:
    forest = gpuboost.RandomForestRegressor(100, max_depth=16, random_state=0, **words)
    asked = ShapeOnlyTable(n_rows, 28, 2, 1, 0, False, np.dtype(np.float32))
    budget = int(gib * GIB)
    share = int(memory.HISTOGRAM_SHARE * budget)
    return replace(grow_task(forest, asked), memory_budget=share), budget


@pytest.mark.parametrize(("gib", "n_estimated"), [(120, 1), (30, 2), (8, 4)])
def test_memory_of_batches_is_estimated_a_few_times(gib, n_estimated, monkeypatch):
    """A dry run takes the host about 10 ms, while the device is idle."""
    sizes = []
    estimated = memory.dry_run

    def counted(task, n_trees, shape):
        sizes.append(n_trees)
        return estimated(task, n_trees, shape)

    monkeypatch.setattr(memory, "dry_run", counted)
    task, budget = forest_of(10**6, gib)
    n_trees = trees_at_once(task, budget, DeviceShape())
    assert len(sizes) == len(set(sizes)) <= n_estimated
    one_batch_less = -(-100 // (-(-100 // n_trees) - 1)) if n_trees < 100 else None
    if one_batch_less:
        found = estimated(task, one_batch_less, DeviceShape())
        assert found.peak - found.lasting > budget


def test_fewer_trees_grow_at_once_if_no_size_is_read_then():
    """With 'absolute_error', no nodes leave the level loop, so levels need too many slices."""
    task, budget = forest_of(10**5, 6.4, criterion="absolute_error")
    assert dry_run(task, 100, DeviceShape()).peak < budget
    assert dry_run(task, 100, DeviceShape()).needs_size_readback
    n_trees = trees_at_once(task, budget, DeviceShape())
    assert 1 < n_trees < 100 and not dry_run(task, n_trees, DeviceShape()).needs_size_readback


# Blocks -------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("target", ["five classes", "outputs", "medians"])
def test_blocks_that_take_several_nodes_and_pieces(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one block of each launch processes all nodes and pieces, also in slices."""
    monkeypatch.setattr(chunks, "STRIDING_BLOCKS", 1)
    monkeypatch.setattr(policy, "PIECE_ROWS", 16)
    monkeypatch.setattr(small, "MAX_SUBTREE_ROWS", 0)
    words: dict[str, Any] = {"n": 70, "max_bins": 9, "n_trees": 1}
    if target == "medians":
        asked = problem("outputs", by_median=True, **words)
    else:
        asked = problem(target, **words).with_options(max_features=2)
    runtime = ShimRuntime("race", order_seed=5, n_multiprocessors=1)
    for budget in (GIB, 1 << 14):
        assert_equal_trees(asked.with_options(max_depth=4), runtime, memory_budget=budget)
