"""The level operations on a device: every pass over rows, bins or nodes is a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.data.matrix import DeviceMatrix, upload_matrix
from gpuboost.backends.cuda.growth.batch import Batch
from gpuboost.backends.cuda.growth.best_first import SplitQueue
from gpuboost.backends.cuda.growth.finish import Finisher
from gpuboost.backends.cuda.growth.hooks import LevelLeaves
from gpuboost.backends.cuda.growth.node_buffer import DEEPEST, NodeBuffer, check_places
from gpuboost.backends.cuda.growth.subtrees import SUBTREES_WANTED, SmallTrees, small_rows_for
from gpuboost.backends.cuda.level.constraints import Constraints
from gpuboost.backends.cuda.level.medians import MedianKernels
from gpuboost.backends.cuda.level.policy import Policy, is_sync_free, purity_of
from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits, Search
from gpuboost.backends.cuda.level.row_passes import RowKernels
from gpuboost.backends.cuda.level.slices import Slices
from gpuboost.backends.cuda.level.split_search import (
    HistogramBuilder,
    Searched,
    SplitSearch,
    capacity_for_planes,
    choose_tile,
    plane_count,
    use_feature_lists,
)
from gpuboost.backends.cuda.runtime.compile_flags import CompileFlags
from gpuboost.backends.cuda.runtime.launch import fill, launch_for_roots
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs, HostInputs
from gpuboost.backends.cuda.sampling.draw import DeviceDrawing
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.backends.cuda.sampling.uploaded_rows import RowUploads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuboost.backends.cuda.growth.hooks import RowsOfRounds
    from gpuboost.backends.cuda.runtime.protocol import Runtime
    from gpuboost.engine.growth.frontier import Array
    from gpuboost.engine.task import GrowTask

    RoundMaker = Callable[[Runtime, Array], RowsOfRounds]


class CudaLevelOps:
    """`gpuboost.engine.growth.operations.LevelOps` as launches of kernels.

    One object grows batch after batch of the trees of a task; the matrix is copied once.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
    maker : callable, optional
        Makes what makes the rows of rounds, from the runtime and the codes there.

    Attributes
    ----------
    rounds : RowsOfRounds or None
        What it has made.

    Raises
    ------
    ValueError
        A tree of the task could have more nodes than there are places.
    """

    def __init__(self, runtime: Runtime, task: GrowTask, maker: RoundMaker | None = None) -> None:
        check_places(task)
        self.runtime = runtime
        self.task = task
        self.xp: Any = runtime.xp
        target = task.target
        self.by_class = target.by_class
        self._by_channel = target.is_multiclass
        planes = plane_count(target.n_channels, self.by_class, _counted(task))
        room = capacity_for_planes(runtime.shared_memory, self._by_channel)
        tile = choose_tile(room, task.matrix.width, planes)
        self.matrix: DeviceMatrix = upload_matrix(runtime, task.matrix, tile)
        self._flags = CompileFlags.of(task)
        kernels = (runtime, self.matrix, target.n_channels, self._by_channel, self._flags)
        self._kernels = RowKernels(*kernels)
        self._constraints = Constraints(runtime, task)
        self._medians = MedianKernels.of(runtime, target)
        self.rounds = None if maker is None else maker(runtime, self.matrix.codes)
        self._sync_free = is_sync_free(task.options)
        self.finisher = Finisher.of(runtime, task, needs_size_readback=not self._sync_free)
        self._maker: DeviceDrawing | RowUploads | None = None
        if maker is None:
            made = RowUploads if task.sampler is None else DeviceDrawing
            self._maker = made(runtime, task)

    # ---- the roots -----------------------------------------------------------------------------

    def kind_of(self, host: HostInputs) -> tuple[int, ...]:
        """What of its inputs decides how a batch is launched: its size, and how it looks."""
        by_lists = use_feature_lists(self.task.options.max_features, host.max_allowed)
        return len(host.trees), int(by_lists)

    def forget_batch(self) -> None:
        """Let go of what is kept of the batch that was grown last."""
        for name in (
            *("_batch", "_inputs", "_min_category", "_search", "_allowed", "_histogram"),
            *("_asked", "_bounds", "_sums", "_queue"),
        ):
            vars(self).pop(name, None)

    def roots(self, trees: Sequence[int]) -> tuple[DeviceRows, DeviceFrontier]:
        """Rows and root nodes of a batch of trees."""
        host = HostInputs.of(self.task, trees)
        return self.roots_of(host, host.to_device(self.runtime))

    def roots_of(self, host: HostInputs, inputs: BatchInputs) -> tuple[DeviceRows, DeviceFrontier]:
        """Rows and root nodes of a batch whose inputs are on the device."""
        xp, n, n_channels = self.xp, len(host.trees), self.task.target.n_channels
        rows, count, leaf, largest = self._make_rows(host, inputs)
        # Rows are cut before their sums are known, from which the limits of the policy are made.
        policy = self._policy(count, n, len(rows), largest)
        pieces = policy.empty_pieces(xp.empty(1, dtype=xp.int32), n)
        frontier = DeviceFrontier.room(xp, xp.empty(1, np.int32), n, n_channels, pieces)
        nodes = (frontier.size, frontier.tree, frontier.key, frontier.start, frontier.count)
        args = (count, inputs.key, np.int32(n), *nodes, frontier.parent)
        launch_for_roots(self.runtime, "make_roots", args)
        policy.cut_roots(frontier)
        self._kernels.node_sums(rows, frontier)
        smallest, self._min_category = self._min_hessians(frontier, inputs)
        policy = replace(policy, min_hessian=smallest)
        self._inputs = inputs
        self._batch = self._make_batch(host, inputs, policy, frontier, leaf, largest)
        self._histogram: Array = None  # of the level searched last, while the next may use it
        self._asked: Callable[[], int] = lambda: n
        given = (self.runtime, self.task, self._batch.store)
        self._queue = SplitQueue.of(*given, n, len(rows))
        return rows, self._constraints.hold_roots(frontier, inputs)

    def _make_rows(
        self, host: HostInputs, inputs: BatchInputs
    ) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Rows of trees one after the other, how many each has, leaf columns, largest weight."""
        if isinstance(self._maker, DeviceDrawing):
            return self._maker.rows(inputs.keys)
        if isinstance(self._maker, RowUploads):
            return self._maker.rows(host.trees)
        assert self.rounds is not None
        return self.rounds.make(inputs)

    def _policy(self, min_hessian: Array, n_trees: int, n_rows: int, max_weight: int) -> Policy:
        n_channels, options = self.task.target.n_channels, self.task.options
        small_rows = 0
        if self._may_leave(n_trees):
            small_rows = small_rows_for(self.runtime, self.task, n_trees, n_rows, max_weight)
        purity = purity_of(self.task.target)
        given = (self.runtime, options, min_hessian, n_trees, n_rows, n_channels, purity)
        return Policy(*given, small_rows)

    def _may_leave(self, n_trees: int) -> bool:
        """Whether small nodes may leave the loop: of rounds where there can be enough of them."""
        wanted = SUBTREES_WANTED * self.runtime.n_multiprocessors
        many = n_trees << min(self.task.options.max_depth, DEEPEST) > wanted
        return self.rounds is None or (many and not self.rounds.follows)

    def _min_hessians(self, roots: DeviceFrontier, inputs: BatchInputs) -> tuple[Array, Array]:
        """Smallest integer weight of a child and of a category that is not rare in each tree.

        As `engine.growth.policy.smallest_hessian`.
        """
        options = self.task.options
        shares = (options.min_weight_fraction_leaf, options.min_category_fraction)
        child, category = (self.xp.empty(roots.capacity, dtype=np.int64) for _ in shares)
        given = (roots.hessian, np.int32(roots.capacity), *map(np.float64, shares))
        args = (*given, inputs.min_hessian, child, category)
        launch_for_roots(self.runtime, "limit_hessian", args)
        return child, category

    def _make_batch(
        self,
        host: HostInputs,
        inputs: BatchInputs,
        policy: Policy,
        roots: DeviceFrontier,
        leaf: LeafColumns | None,
        largest: int,
    ) -> Batch:
        max_features, n_trees = self.task.options.max_features, len(host.trees)
        by_lists = use_feature_lists(max_features, host.max_allowed)
        builder = HistogramBuilder(
            self.runtime,
            self.matrix,
            self.task.target.n_channels,
            self._by_channel,
            _counted(self.task),
            largest,
            max_features if by_lists else self.matrix.n_features,
            self._flags,
        )
        search = SplitSearch(
            self.runtime,
            self.task,
            self.matrix,
            inputs.allowed,
            policy.min_hessian,
            self._min_category,
            roots.hessian,
            inputs.unit,
            inputs.regular,
            self._constraints,
            by_lists,
        )
        store = NodeBuffer(self.runtime, self.task, self.matrix, leaf, roots, policy.n_rows)
        small = SmallTrees(search, leaf, store, policy.n_rows) if policy.small_rows else None
        per_node = builder.bytes_per_node()
        slices = Slices.of(policy, self.task.memory_budget, per_node, by_lists)
        return Batch(n_trees, policy, builder, slices, search, leaf, store, small)

    def tree_builder(self) -> NodeBuffer:
        """What keeps the nodes of the batch begun last."""
        return self._batch.store

    # ---- a level -------------------------------------------------------------------------------

    def set_median_gradients(
        self, rows: DeviceRows, frontier: DeviceFrontier
    ) -> tuple[DeviceRows, DeviceFrontier]:
        """The rows' signs about the medians of their nodes, and the sums of nodes, in place."""
        assert self._medians is not None
        self._bounds = self._medians.find(rows, frontier)
        self._medians.put_signs(rows, frontier, self._bounds)
        self._kernels.node_sums(rows, frontier)
        return rows, frontier

    def finished(self, frontier: DeviceFrontier, depth: int) -> bool:
        """Whether there can be no nodes."""
        return frontier.capacity == 0

    def candidates(self, rows: DeviceRows, frontier: DeviceFrontier, depth: int) -> Search:
        """Which nodes are searched."""
        batch = self._batch
        by_ranges = self.task.target.purity == "RANGES"
        ranges = self._kernels.ranges(rows, frontier) if by_ranges else None
        is_new = self._histogram is None and depth < self.task.options.deepest
        if depth > 0 and is_new:  # roots have no parents anyway
            fill(self.runtime, frontier.parent, -1)
        per_piece = batch.builder.rows_per_block(len(rows))
        self._depth = depth
        self._allowed = self._constraints.allowed(frontier, self._inputs, depth)
        self._search = batch.policy.search(frontier, ranges, depth, per_piece)
        return self._search

    def find_splits(
        self, rows: DeviceRows, frontier: DeviceFrontier, candidates: Search
    ) -> DeviceSplits:
        """Best split of every candidate.

        The histograms of a level are kept for the next one if both fit the memory budget; those of
        a level that does not fit at once are summed in slices of slots.
        """
        batch, xp, capacity = self._batch, self.xp, frontier.capacity
        by_parents = self._histogram is not None
        n_slots = max(1, batch.policy.max_slots(capacity, self._depth, by_parents))
        n_channels = self.task.target.n_channels
        splits = DeviceSplits.room(xp, capacity, n_channels, self.matrix.mask_words)
        at_once = min(n_slots, batch.slices.at_once)
        shape = (at_once, batch.builder.n_looked, self.matrix.width, 2 + n_channels)
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
        """Whether so many histograms of a level of ``capacity`` nodes are kept for the next."""
        batch, is_last = self._batch, self._depth + 1 >= self.task.options.deepest
        if is_last or batch.search.by_lists or self._medians is not None:
            return False
        return batch.slices.keep(n_histograms, capacity, self._depth)

    def accept(self, frontier: DeviceFrontier, splits: DeviceSplits) -> Array:
        """Nodes whose splits are taken: uint8 (m,)."""
        return splits.accepted

    def limit_to_best_first(
        self, frontier: DeviceFrontier, splits: DeviceSplits, accepted: Array
    ) -> Array:
        """The accepted nodes that best-first growth has reached too: uint8 (m,)."""
        assert self._queue is not None
        return self._queue.limit_to_best_first(frontier, splits, self._batch.store.first)

    def leaf_sums(
        self, rows: DeviceRows, frontier: DeviceFrontier, accepted: Array
    ) -> Array | None:
        """Leaf sums of nodes that are not split; None where weights of classes are all there is."""
        sums = self._leaf_sums(rows, frontier, accepted)
        if self.rounds is not None:
            known = (accepted, self._inputs, self._batch.store.first)
            self.rounds.keep_level(LevelLeaves(rows, frontier, *known))
        self._sums = sums
        return sums

    def _leaf_sums(
        self, rows: DeviceRows, frontier: DeviceFrontier, accepted: Array
    ) -> Array | None:
        leaf, policy = self._batch.leaf, self._batch.policy
        if leaf is None:
            return None
        if self._medians is not None:
            return self._medians.sums(rows, frontier, self._bounds, leaf, self.xp)
        sums = self.xp.empty((frontier.capacity, leaf.n_sums), dtype=np.int64)
        fill(self.runtime, sums, 0)
        given = (leaf, policy.small_rows_at(self._depth), sums)
        self._kernels.leaf_sums(rows, frontier, accepted, *given)
        return sums

    def end_batch(self) -> None:
        """What is left to launch when all levels are grown."""
        rounds, batch = self.rounds, self._batch
        self._histogram = self._sums = None
        table = None if rounds is None else rounds.table
        batch.store.end(self._queue, self.finisher, table)
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
        left = self._kernels.count_left(rows, frontier, splits)
        places = policy.place(frontier, splits, left)
        self._batch.store_level(frontier, splits, places, self._sums, self._depth)
        self._sums = None
        moved = self._kernels.move(rows, frontier, splits, left, places)
        capacity = policy.max_nodes(min(frontier.capacity, self._asked()), self._depth)
        children = policy.children(frontier, splits, left.of_node, places, search.slot, capacity)
        held = self._constraints.hold_children
        children = held(frontier, splits, places.rank, children, self._inputs)
        self._asked = self._ask(children)
        return moved, children

    def _ask(self, frontier: DeviceFrontier) -> Callable[[], int]:
        """How many nodes there are, where the next level must not have room for too many.

        The answer is asked for a level before it is needed, so that the device need not be waited
        for. Trees of bounded depth do without, unless the slices of a level, of nodes that may not
        be, would take longer than to ask.
        """
        if self._sync_free and self._batch.slices.are_few(frontier.capacity, self._depth + 1):
            return lambda: frontier.capacity
        read = self.runtime.read_later(frontier.size)
        return lambda: int(read()[0])


def _counted(task: GrowTask) -> bool:
    """Whether histograms count rows: only a limit on the rows of a leaf asks for it."""
    return task.options.min_samples_leaf > 1
