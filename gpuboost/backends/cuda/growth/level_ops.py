"""Level operations on a device: each pass over rows, bins or nodes is a kernel launch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuboost.backends.cuda.growth.best_first import SplitQueue
from gpuboost.backends.cuda.growth.device_task import DeviceTask
from gpuboost.backends.cuda.growth.hooks import RowsOfRounds
from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer, NumberedNodes
from gpuboost.backends.cuda.growth.subtrees import SmallTrees
from gpuboost.backends.cuda.level.histograms import HistogramBuilder
from gpuboost.backends.cuda.level.policy import Policy
from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits, Search
from gpuboost.backends.cuda.level.slices import Slices
from gpuboost.backends.cuda.level.split_search import Searched, SplitSearch
from gpuboost.backends.cuda.runtime.arrays import empty
from gpuboost.backends.cuda.runtime.launch import fill, launch, zeros
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs, HostInputs
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.engine.growth.frontier import Array


class CudaLevelOps:
    """`gpuboost.engine.growth.operations.LevelOps` of a batch of trees, as kernel launches.

    Parameters
    ----------
    shared : DeviceTask
        The task, with the device data and kernels that all its batches share.
    inputs : BatchInputs
        Inputs of the batch on the device.
    policy : Policy
        Chooses the nodes to search, and makes the next level.
    builder : HistogramBuilder
        Sums the rows of nodes into histograms.
    search : SplitSearch
        Finds the best splits of nodes from their histograms.
    leaf : LeafColumns or None
        Columns that leaf sums are computed from; None if class weights are the leaf sums.
    roots : DeviceFrontier
        Root nodes of the batch, with their sums.
    """

    def __init__(
        self,
        shared: DeviceTask[RowsOfRounds | None],
        inputs: BatchInputs,
        *,
        policy: Policy,
        builder: HistogramBuilder,
        search: SplitSearch,
        leaf: LeafColumns | None,
        roots: DeviceFrontier,
    ) -> None:
        runtime, task, n_rows = shared.runtime, shared.task, policy.n_rows
        self._shared, self._inputs = shared, inputs
        self._runtime, self._options = runtime, task.options
        self._policy, self._builder, self._search, self._leaf = policy, builder, search, leaf
        self._store = store = NodeBuffer(runtime, task, shared.matrix, leaf, roots, n_rows)
        self._small = SmallTrees(search, leaf, store, n_rows) if policy.small_rows else None
        bytes_per_node = builder.bytes_per_node()
        self._slices = Slices.of(policy, task.memory_budget, bytes_per_node, search.by_lists)
        self._queue = SplitQueue.of(runtime, task, store, policy.n_trees, n_rows)
        # Histograms of the level before, if they are kept for subtraction. They are not stored in a
        # frontier, so that their memory is freed as soon as the next level has been searched.
        self._histogram: Array = None

    @classmethod
    def start(
        cls, shared: DeviceTask[RowsOfRounds | None], host: HostInputs, inputs: BatchInputs
    ) -> tuple[CudaLevelOps, DeviceRows, DeviceFrontier]:
        """Make the level operations of a batch of trees, its rows and its root nodes.

        ``host`` and ``inputs`` are the inputs of the batch on the host and on the device.
        """
        rows, count, leaf, max_weight = shared.rows(host, inputs)
        # The policy cuts the rows into pieces before they are summed, and `min_hessian` depends on
        # the sums. Until it is known, `count` takes its place.
        policy = shared.policy(count, len(host.trees), len(rows), max_weight)
        roots = _make_roots(policy, inputs, count)
        shared.passes.node_sums(rows, roots)
        smallest, min_category = _min_hessians(policy, inputs, roots)
        policy, by_lists = replace(policy, min_hessian=smallest), shared.by_lists(host)
        search = SplitSearch(
            runtime=shared.runtime,
            task=shared.task,
            matrix=shared.matrix,
            allowed=inputs.allowed,
            min_hessian=smallest,
            min_category=min_category,
            root_hessian=roots.hessian,
            unit=inputs.unit,
            regular=inputs.regular,
            constraints=shared.constraints,
            by_lists=by_lists,
            flags=shared.flags,
        )
        builder = shared.histogram_builder(max_weight, by_lists)
        ops = cls(
            shared, inputs, policy=policy, builder=builder, search=search, leaf=leaf, roots=roots
        )
        return ops, rows, shared.constraints.hold_roots(roots, inputs)

    # ---- a level -------------------------------------------------------------------------------

    def set_median_gradients(
        self, rows: DeviceRows, frontier: DeviceFrontier
    ) -> tuple[DeviceRows, DeviceFrontier]:
        """Write the signs of rows' deviations from nodes' medians, and the sums of nodes, in place.

        The frontier that is returned has the medians.
        """
        medians = self._shared.medians
        assert medians is not None
        frontier = replace(frontier, medians=medians.find(rows, frontier))
        medians.put_signs(rows, frontier)
        self._shared.passes.node_sums(rows, frontier)
        return rows, frontier

    def finished(self, frontier: DeviceFrontier) -> bool:
        """Whether the level is certain to have no nodes."""
        return frontier.capacity == 0

    def candidates(self, rows: DeviceRows, frontier: DeviceFrontier, depth: int) -> Search:
        """Choose the nodes to search for splits."""
        shared = self._shared
        by_ranges = shared.task.target.purity == "RANGES"
        ranges = shared.passes.ranges(rows, frontier) if by_ranges else None
        is_new = self._histogram is None and depth < self._options.deepest
        if depth > 0 and is_new:  # in roots, it already is -1
            fill(self._runtime, frontier.parent, -1)
        # By subtraction, only the smaller of two siblings is summed.
        n_summed = len(rows) if self._histogram is None else len(rows) // 2
        per_piece = self._builder.rows_per_block(n_summed)
        return self._policy.search(frontier, ranges, depth, per_piece)

    def find_splits(
        self, rows: DeviceRows, frontier: DeviceFrontier, candidates: Search
    ) -> DeviceSplits:
        """Find the best split of every candidate.

        A level's histograms are kept for subtraction in the next level if both levels' histograms
        fit the memory budget (never with feature lists or medians). If the histograms of one level
        do not fit, they are built and searched in slices. After the search, small nodes are grown
        to their leaves.
        """
        xp, capacity, depth = self._runtime.xp, frontier.capacity, candidates.depth
        allowed = self._shared.constraints.allowed(frontier, self._inputs, depth)
        by_parents = self._histogram is not None
        n_slots = max(1, self._policy.max_slots(capacity, depth, by_parents))
        n_channels, matrix = self._shared.task.target.n_channels, self._shared.matrix
        lengths = {"n_channels": n_channels, "mask_words": matrix.mask_words}
        splits = empty(DeviceSplits, xp, {}, n=capacity, **lengths)
        at_once = min(n_slots, self._slices.at_once)
        shape = (at_once, self._builder.n_listed, 2 + n_channels, matrix.width)
        histogram = xp.empty(shape, dtype=xp.int64)
        previous = histogram if self._histogram is None else self._histogram
        search = replace(self._search, allowed=allowed)
        for first in range(0, n_slots, at_once):
            slots = range(first, first + at_once)
            lists = search.lists(frontier, candidates, slots)
            if not candidates.none:
                self._builder.build(rows, candidates, slots, lists, histogram)
            level = Searched(frontier, candidates, slots, lists, histogram, previous)
            search.search(level, rows, splits)
        self._histogram = histogram if self._keeps(capacity, at_once, depth) else None
        if self._small is not None and self._policy.small_rows_at(depth):
            # The rows of small nodes are overwritten, so this follows all histograms of the level.
            self._small.grow(rows, frontier, candidates, depth)
        return splits

    def _keeps(self, capacity: int, n_histograms: int, depth: int) -> bool:
        """Whether the histograms of a level of ``capacity`` nodes are kept for the next level."""
        is_last = depth + 1 >= self._options.deepest
        if is_last or self._search.by_lists or self._shared.medians is not None:
            return False
        return self._slices.keep(n_histograms, capacity, depth)

    def accept(self, frontier: DeviceFrontier, splits: DeviceSplits) -> Array:
        """Return the mask of nodes whose splits are accepted: uint8 (nodes,)."""
        return splits.accepted

    def limit_to_best_first(
        self, frontier: DeviceFrontier, splits: DeviceSplits, accepted: Array
    ) -> Array:
        """Return the mask of accepted nodes that best-first growth also accepts: uint8 (nodes,)."""
        assert self._queue is not None
        return self._queue.limit_to_best_first(frontier, splits, self._store.first)

    def leaf_sums(
        self, rows: DeviceRows, frontier: DeviceFrontier, candidates: Search, accepted: Array
    ) -> Array | None:
        """Compute sums of leaves (for medians, of all nodes): int64 (nodes, n_sums).

        Leaves that subtrees.cu has stored are left out. Returns None if class weights suffice.
        """
        leaf = self._leaf
        if leaf is None:
            return None
        if self._shared.medians is not None:
            return self._shared.medians.sums(rows, frontier, leaf)
        sums = zeros(self._runtime, (frontier.capacity, leaf.n_sums), np.int64)
        small_rows = self._policy.small_rows_at(candidates.depth)
        self._shared.passes.leaf_sums(rows, frontier, accepted, leaf, small_rows, sums)
        return sums

    def end_batch(self) -> NumberedNodes:
        """Number the nodes after the last level; finish them unless the host does.

        In rounds, the trees are then used by `RowsOfRounds.add_leaves`.
        """
        shared, rounds, store, queue = self._shared, self._shared.rounds, self._store, self._queue
        self._histogram = None
        leaf = None if queue is None else queue.cut(store.nodes, store.adds_leaf_sums)
        table = None if rounds is None or rounds.leaves is None else rounds.leaves.table
        grown = NumberedNodes(store, store.number(table), leaf)
        if shared.finisher is not None:
            grown = replace(grown, finished=shared.finisher.finish(grown))
        if rounds is not None:
            rounds.add_leaves(self._inputs, queue, grown)
        return grown

    def partition(
        self,
        rows: DeviceRows,
        frontier: DeviceFrontier,
        candidates: Search,
        *,
        splits: DeviceSplits,
        accepted: Array,
        sums: Array | None,
    ) -> tuple[DeviceRows, DeviceFrontier]:
        """Store the level and move the rows of accepted nodes to their children, in order.

        At the largest depth, the level is only stored, and the next frontier has no nodes.
        """
        policy, store, rounds = self._policy, self._store, self._shared.rounds
        depth = candidates.depth
        if rounds is not None and rounds.leaves is not None:
            rounds.leaves.keep_level(rows, frontier, accepted, store.first)
        small_rows = policy.small_rows_at(depth)
        if candidates.none:
            store.keep(frontier, splits, None, sums, small_rows)
            return rows, frontier.nothing()
        left = self._shared.passes.count_left(rows, frontier, splits)
        places = policy.place(frontier, splits, left)
        store.keep(frontier, splits, places, sums, small_rows)
        moved = self._shared.passes.move(rows, frontier, splits, left, places)
        read = frontier.read_size
        n_nodes = frontier.capacity if read is None else min(frontier.capacity, int(read()[0]))
        capacity = policy.max_nodes(n_nodes, depth)
        children = policy.children(frontier, splits, left.n_left, places, candidates.slot, capacity)
        held = self._shared.constraints.hold_children
        children = held(frontier, splits, places.rank, children, self._inputs)
        return moved, self._with_size(children, depth + 1)

    def _with_size(self, frontier: DeviceFrontier, depth: int) -> DeviceFrontier:
        """Start to read back the number of nodes at ``depth``, which limits the level below.

        The host waits for it only when it makes that level. In sync-free growth, the number is only
        read if the level has many slices.
        """
        are_few = self._slices.are_few(frontier.capacity, depth)
        if self._shared.is_sync_free and are_few:
            return frontier
        return replace(frontier, read_size=self._runtime.read_later(frontier.size))


def _make_roots(policy: Policy, inputs: BatchInputs, count: Array) -> DeviceFrontier:
    """Make the roots of trees of ``count`` rows, int64 (trees,); their sums are not set yet."""
    xp, n = policy.runtime.xp, policy.n_trees
    pieces = policy.empty_pieces(xp.empty(1, dtype=xp.int32), n)
    own = {"size": xp.empty(1, np.int32), "pieces": pieces}
    roots = empty(DeviceFrontier, xp, own, n=n, n_channels=policy.n_channels)
    given = {"count": count, "key": inputs.key, "n_trees": n}
    launch(policy.runtime, "make_roots", 1, out=roots, **given)
    policy.cut_roots(roots)
    return roots


def _min_hessians(
    policy: Policy, inputs: BatchInputs, roots: DeviceFrontier
) -> tuple[Array, Array]:
    """Compute the smallest weight of a child, and of a category that is not rare, in each tree.

    See `engine.growth.policy.smallest_hessian`.
    """
    options, empty = policy.options, policy.runtime.xp.empty
    shares = (options.min_weight_fraction_leaf, options.min_category_fraction)
    child, category = (empty(roots.capacity, dtype=np.int64) for _ in shares)
    own = {"share": shares[0], "category_share": shares[1]}
    own |= {"minimum": inputs.min_hessian, "n_trees": roots.capacity}
    found = {"smallest": child, "min_category": category}
    launch(policy.runtime, "limit_hessian", 1, roots, **own, **found)
    return child, category
