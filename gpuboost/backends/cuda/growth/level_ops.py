"""Level operations on a device: each pass over rows, bins or nodes is a kernel launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpuboost.backends.cuda.growth.batch import Batch
from gpuboost.backends.cuda.growth.best_first import SplitQueue
from gpuboost.backends.cuda.growth.device_task import DeviceTask
from gpuboost.backends.cuda.growth.hooks import LevelLeaves
from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer
from gpuboost.backends.cuda.growth.subtrees import SmallTrees
from gpuboost.backends.cuda.level.medians import Medians
from gpuboost.backends.cuda.level.policy import Policy
from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits, Search
from gpuboost.backends.cuda.level.slices import Slices
from gpuboost.backends.cuda.level.split_search import Searched, SplitSearch
from gpuboost.backends.cuda.runtime.arrays import empty
from gpuboost.backends.cuda.runtime.launch import fill, launch
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs, HostInputs
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.engine.growth.frontier import Array


class CudaLevelOps:
    """`gpuboost.engine.growth.operations.LevelOps` of a batch of trees, as kernel launches.

    Parameters
    ----------
    shared : DeviceTask
        The task, with device data and kernels of all batches.
    host : HostInputs
        Inputs of the batch on the host.
    inputs : BatchInputs
        The same inputs on the device.
    """

    def __init__(self, shared: DeviceTask, host: HostInputs, inputs: BatchInputs) -> None:
        self._shared, self._host, self._inputs = shared, host, inputs
        self._runtime, self._options = shared.runtime, shared.task.options
        self._n_nodes: Callable[[], int] = lambda: len(host.trees)  # bound for the level
        self._histogram: Array = None  # of the level before, if kept for subtraction
        # State of the current level:
        self._depth = 0
        self._medians: Medians
        self._search: Search
        self._allowed: Array  # features; see `Constraints.allowed`
        self._sums: Array | None = None  # leaf sums

    # ---- the roots -----------------------------------------------------------------------------

    def roots(self) -> tuple[DeviceRows, DeviceFrontier]:
        """Rows and root nodes of the batch."""
        shared, task, n = self._shared, self._shared.task, len(self._host.trees)
        xp, n_channels = self._runtime.xp, task.target.n_channels
        rows, count, leaf, largest = shared.rows(self._host, self._inputs)
        # Rows must be cut into pieces before they are summed, and `min_hessian` depends on the
        # sums: until then the policy has `count` in its place.
        policy = shared.policy(count, n, len(rows), largest)
        pieces = policy.empty_pieces(xp.empty(1, dtype=xp.int32), n)
        of_roots = {"size": xp.empty(1, np.int32), "pieces": pieces}
        frontier = empty(DeviceFrontier, xp, of_roots, n=n, n_channels=n_channels)
        own = {"count": count, "key": self._inputs.key, "n_trees": n}
        launch(self._runtime, "make_roots", 1, out=frontier, **own)
        policy.cut_roots(frontier)
        shared.passes.node_sums(rows, frontier)
        smallest, min_category = self._min_hessians(frontier)
        policy = replace(policy, min_hessian=smallest)
        self._batch = self._make_batch(policy, frontier, min_category, leaf, largest)
        self._queue = SplitQueue.of(self._runtime, task, self._batch.store, n, len(rows))
        return rows, shared.constraints.hold_roots(frontier, self._inputs)

    def _min_hessians(self, roots: DeviceFrontier) -> tuple[Array, Array]:
        """Smallest integer weight of a child, and of a category that is not rare, in each tree.

        See `engine.growth.policy.smallest_hessian`.
        """
        options, empty = self._options, self._runtime.xp.empty
        shares = (options.min_weight_fraction_leaf, options.min_category_fraction)
        child, category = (empty(roots.capacity, dtype=np.int64) for _ in shares)
        own = {"share": shares[0], "category_share": shares[1]}
        own |= {"minimum": self._inputs.min_hessian, "n_trees": roots.capacity}
        found = {"smallest": child, "min_category": category}
        launch(self._runtime, "limit_hessian", 1, roots, **own, **found)
        return child, category

    def _make_batch(
        self,
        policy: Policy,
        roots: DeviceFrontier,
        min_category: Array,
        leaf: LeafColumns | None,
        max_weight: int,
    ) -> Batch:
        shared, inputs, by_lists = self._shared, self._inputs, self._shared.by_lists(self._host)
        builder = shared.histogram_builder(max_weight, by_lists)
        search = SplitSearch(
            self._runtime,
            shared.task,
            shared.matrix,
            inputs.allowed,
            policy.min_hessian,
            min_category,
            roots.hessian,
            inputs.unit,
            inputs.regular,
            shared.constraints,
            by_lists,
            shared.flags,
        )
        store = NodeBuffer(self._runtime, shared.task, shared.matrix, leaf, roots, policy.n_rows)
        small = SmallTrees(search, leaf, store, policy.n_rows) if policy.small_rows else None
        budget = shared.task.memory_budget
        slices = Slices.of(policy, budget, builder.bytes_per_node(), by_lists)
        return Batch(len(self._host.trees), policy, builder, slices, search, leaf, store, small)

    def tree_builder(self) -> NodeBuffer:
        """Node buffer of the batch."""
        return self._batch.store

    # ---- a level -------------------------------------------------------------------------------

    def set_median_gradients(
        self, rows: DeviceRows, frontier: DeviceFrontier
    ) -> tuple[DeviceRows, DeviceFrontier]:
        """Write rows' signs about the medians of their nodes, and sums of nodes, in place."""
        medians = self._shared.medians
        assert medians is not None
        self._medians = medians.find(rows, frontier)
        medians.put_signs(rows, frontier, self._medians)
        self._shared.passes.node_sums(rows, frontier)
        return rows, frontier

    def finished(self, frontier: DeviceFrontier, depth: int) -> bool:
        """Whether the level is certain to have no nodes."""
        return frontier.capacity == 0

    def candidates(self, rows: DeviceRows, frontier: DeviceFrontier, depth: int) -> Search:
        """Choose the nodes to search for splits."""
        batch, shared = self._batch, self._shared
        by_ranges = shared.task.target.purity == "RANGES"
        ranges = shared.passes.ranges(rows, frontier) if by_ranges else None
        is_new = self._histogram is None and depth < self._options.deepest
        if depth > 0 and is_new:  # roots never have parents
            fill(self._runtime, frontier.parent, -1)
        per_piece = batch.builder.rows_per_block(len(rows))
        self._depth = depth
        self._allowed = self._shared.constraints.allowed(frontier, self._inputs, depth)
        self._search = batch.policy.search(frontier, ranges, depth, per_piece)
        return self._search

    def find_splits(
        self, rows: DeviceRows, frontier: DeviceFrontier, candidates: Search
    ) -> DeviceSplits:
        """Best split of every candidate.

        A level's histograms are kept for subtraction in the next level if both fit the memory
        budget. If the histograms of one level do not fit, they are built and searched in slices.
        """
        batch, xp, capacity = self._batch, self._runtime.xp, frontier.capacity
        by_parents = self._histogram is not None
        n_slots = max(1, batch.policy.max_slots(capacity, self._depth, by_parents))
        n_channels, matrix = self._shared.task.target.n_channels, self._shared.matrix
        lengths = {"n_channels": n_channels, "mask_words": matrix.mask_words}
        splits = empty(DeviceSplits, xp, {}, n=capacity, **lengths)
        at_once = min(n_slots, batch.slices.at_once)
        shape = (at_once, batch.builder.n_listed, matrix.width, 2 + n_channels)
        histogram = xp.empty(shape, dtype=xp.int64)
        previous = histogram if self._histogram is None else self._histogram
        search = replace(batch.search, allowed=self._allowed)
        for first in range(0, n_slots, at_once):
            slots = range(first, first + at_once)
            lists = search.lists(frontier, candidates, slots)
            if not candidates.none:
                batch.builder.build(rows, candidates, slots, lists, histogram)
            level = Searched(frontier, candidates, slots, lists, histogram, previous)
            search.search(level, rows, splits)
        self._histogram = histogram if self._keeps(capacity, at_once) else None
        batch.grow_small(rows, frontier, candidates, self._depth)
        return splits

    def _keeps(self, capacity: int, n_histograms: int) -> bool:
        """Whether the histograms of a level of ``capacity`` nodes are kept for the next level."""
        batch, is_last = self._batch, self._depth + 1 >= self._options.deepest
        if is_last or batch.search.by_lists or self._shared.medians is not None:
            return False
        return batch.slices.keep(n_histograms, capacity, self._depth)

    def accept(self, frontier: DeviceFrontier, splits: DeviceSplits) -> Array:
        """Mask of nodes whose splits are taken: uint8 (m,)."""
        return splits.accepted

    def limit_to_best_first(
        self, frontier: DeviceFrontier, splits: DeviceSplits, accepted: Array
    ) -> Array:
        """Mask of accepted nodes that best-first growth also takes: uint8 (m,)."""
        assert self._queue is not None
        return self._queue.limit_to_best_first(frontier, splits, self._batch.store.first)

    def leaf_sums(
        self, rows: DeviceRows, frontier: DeviceFrontier, accepted: Array
    ) -> Array | None:
        """Leaf sums of nodes that are not split; None if the class weights are the leaf sums."""
        sums = self._leaf_sums(rows, frontier, accepted)
        if self._shared.rounds is not None:
            known = (accepted, self._inputs, self._batch.store.first)
            self._shared.rounds.keep_level(LevelLeaves(rows, frontier, *known))
        self._sums = sums
        return sums

    def _leaf_sums(
        self, rows: DeviceRows, frontier: DeviceFrontier, accepted: Array
    ) -> Array | None:
        leaf, policy, xp = self._batch.leaf, self._batch.policy, self._runtime.xp
        if leaf is None:
            return None
        if self._shared.medians is not None:
            return self._shared.medians.sums(rows, frontier, self._medians, leaf)
        sums = xp.empty((frontier.capacity, leaf.n_sums), dtype=np.int64)
        fill(self._runtime, sums, 0)
        given = (leaf, policy.small_rows_at(self._depth), sums)
        self._shared.passes.leaf_sums(rows, frontier, accepted, *given)
        return sums

    def end_batch(self) -> None:
        """Number and finish the nodes, after the last level."""
        rounds, batch = self._shared.rounds, self._batch
        self._histogram = self._sums = None
        table = None if rounds is None else rounds.table
        batch.store.end(self._queue, self._shared.finisher, table)
        if rounds is not None:
            rounds.add_leaves(self._inputs, self._queue, batch.store)
        self._queue = None

    def partition(
        self, rows: DeviceRows, frontier: DeviceFrontier, splits: DeviceSplits, accepted: Array
    ) -> tuple[DeviceRows, DeviceFrontier]:
        """Move the rows of accepted nodes to their children, keeping their order."""
        policy, search = self._batch.policy, self._search
        if search.none:
            self._batch.store_level(frontier, splits, None, self._sums, self._depth)
            return rows, frontier.nothing()
        left = self._shared.passes.count_left(rows, frontier, splits)
        places = policy.place(frontier, splits, left)
        self._batch.store_level(frontier, splits, places, self._sums, self._depth)
        self._sums = None
        moved = self._shared.passes.move(rows, frontier, splits, left, places)
        capacity = policy.max_nodes(min(frontier.capacity, self._n_nodes()), self._depth)
        children = policy.children(frontier, splits, left.n_left, places, search.slot, capacity)
        held = self._shared.constraints.hold_children
        children = held(frontier, splits, places.rank, children, self._inputs)
        self._n_nodes = self._ask(children)
        return moved, children

    def _ask(self, frontier: DeviceFrontier) -> Callable[[], int]:
        """Start to read back the number of nodes, a level before it is needed.

        In sync-free growth the capacity of the frontier is returned in its place, unless the next
        level would then be built in so many slices that reading the number is faster.
        """
        if self._shared.is_sync_free and self._batch.slices.are_few(
            frontier.capacity, self._depth + 1
        ):
            return lambda: frontier.capacity
        read = self._runtime.read_later(frontier.size)
        return lambda: int(read()[0])
