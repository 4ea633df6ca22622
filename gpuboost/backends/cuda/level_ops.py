"""The level operations on a device: every pass over rows, bins or nodes is a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.drawing import DeviceDrawing
from gpuboost.backends.cuda.level import DeviceFrontier, DeviceSplits, Search
from gpuboost.backends.cuda.matrix import DeviceMatrix, upload_matrix
from gpuboost.backends.cuda.policy import Policy
from gpuboost.backends.cuda.rows import DeviceRows, LeafColumns, RowKernels
from gpuboost.backends.cuda.small import SmallTrees, small_rows_for
from gpuboost.backends.cuda.split_search import (
    HistogramBuilder,
    Searched,
    SplitSearch,
    choose_tile,
    lists_pay,
    plane_count,
)
from gpuboost.backends.cuda.uploads import RowUploads
from gpuboost.engine.history import COLUMNS
from gpuboost.engine.policy import class_sums, smallest_hessian
from gpuboost.engine.sampling import root_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.history import Level
    from gpuboost.engine.spec import GrowTask

# Trees no deeper than this are launched without asking how many nodes there are, so the host never
# waits for the device; of deeper ones a level may have been empty for long.
UNASKED_DEPTH = 12


@dataclass(frozen=True)
class Batch:
    """What the levels of one batch of trees have in common."""

    n_trees: int
    policy: Policy
    builder: HistogramBuilder
    search: SplitSearch
    leaf: LeafColumns | None
    small: SmallTrees | None


class CudaLevelOps:
    """`gpuboost.engine.level_loop.LevelOps` as launches of kernels.

    One object grows batch after batch of the trees of a task; the matrix is copied once.
    """

    def __init__(self, runtime: Runtime, task: GrowTask) -> None:
        self.runtime = runtime
        self.task = task
        self.xp: Any = runtime.xp
        target = task.target
        planes = plane_count(target.n_channels, target.classes is not None, _counted(task))
        tile = choose_tile(runtime.shared_memory, task.matrix.width, planes)
        self.matrix: DeviceMatrix = upload_matrix(runtime, task.matrix, tile)
        self.by_class = target.classes is not None
        self._by_channel = self.by_class and target.n_channels > 1
        self._kernels = RowKernels(runtime, self.matrix, target.n_channels, self._by_channel)
        self._maker: DeviceDrawing | RowUploads
        drawn = task.sampler is not None
        self._maker = DeviceDrawing(runtime, task) if drawn else RowUploads(runtime, task)

    # ---- the roots -----------------------------------------------------------------------------

    def roots(self, trees: Sequence[int]) -> tuple[DeviceRows, DeviceFrontier]:
        """Rows and root nodes of a batch of trees."""
        xp, asarray = self.xp, self.runtime.asarray
        rows, count, leaf, largest = self._maker.rows(trees)
        n = len(trees)
        # Rows are cut before their sums are known, from which the limits of the policy are made.
        policy = self._policy(count, len(rows), largest)
        pieces = policy.room_for_pieces(xp.empty(1, dtype=xp.int32), n)
        size, n_channels = xp.full(1, n, dtype=xp.int32), self.task.target.n_channels
        frontier = DeviceFrontier.room(xp, size, n, n_channels, pieces)
        keys = np.array([root_key(self.task.seed, tree) for tree in trees], dtype=np.uint64)
        frontier.tree[:], frontier.key[:] = xp.arange(n), asarray(keys)
        frontier.start[:], frontier.count[:] = xp.cumsum(count) - count, count
        frontier.parent.fill(-1)
        policy.cut_roots(frontier)
        self._kernels.node_sums(rows, frontier)
        fraction = self.task.options.min_weight_fraction_leaf
        policy = replace(policy, min_hessian=smallest_hessian(xp, fraction, frontier.hessian))
        self._batch = self._make_batch(trees, policy, frontier.hessian, leaf, largest)
        self._histogram: Array = None  # of the level searched last, while the next may use it
        self._asked: Callable[[], int] = lambda: n
        return rows, frontier

    def _policy(self, min_hessian: Array, n_rows: int, max_weight: int) -> Policy:
        n_channels, options = self.task.target.n_channels, self.task.options
        small_rows = small_rows_for(self.runtime, self.task, n_rows, max_weight)
        given = (self.runtime, options, min_hessian, n_rows, n_channels, self.by_class)
        return Policy(*given, small_rows)

    def _make_batch(
        self,
        trees: Sequence[int],
        policy: Policy,
        root_hessian: Array,
        leaf: LeafColumns | None,
        largest: int,
    ) -> Batch:
        allowed = np.zeros((len(trees), self.matrix.n_features), dtype=np.uint8)
        for position, tree in enumerate(trees):
            allowed[position, self.task.tree_features(tree)] = 1
        max_features = self.task.options.max_features
        by_lists = lists_pay(max_features, int(allowed.sum(axis=1).max()))
        builder = HistogramBuilder(
            self.runtime,
            self.matrix,
            self.task.target.n_channels,
            self._by_channel,
            _counted(self.task),
            largest,
            max_features if by_lists else self.matrix.n_features,
        )
        search = SplitSearch(
            self.runtime,
            self.task,
            self.matrix,
            self.runtime.asarray(allowed),
            policy.min_hessian,
            root_hessian,
            by_lists,
        )
        small = SmallTrees(search, leaf, len(trees), policy.n_rows) if policy.small_rows else None
        return Batch(len(trees), policy, builder, search, leaf, small)

    # ---- a level -------------------------------------------------------------------------------

    def finished(self, frontier: DeviceFrontier, depth: int) -> bool:
        """Whether there can be no nodes."""
        return frontier.most == 0

    def candidates(self, rows: DeviceRows, frontier: DeviceFrontier, depth: int) -> Search:
        """Which nodes are searched."""
        batch = self._batch
        ranges = None if self.by_class else self._kernels.ranges(rows, frontier)
        if self._histogram is None or self._slots_at_once(frontier.most) < frontier.most:
            frontier.parent.fill(-1)
        per_piece = batch.builder.rows_per_block(len(rows))
        self._depth = depth
        self._search = batch.policy.search(frontier, ranges, depth, per_piece)
        return self._search

    def find_splits(
        self, rows: DeviceRows, frontier: DeviceFrontier, candidates: Search
    ) -> DeviceSplits:
        """Best split of every candidate.

        The histograms of a level are kept for the next one if both fit the memory budget; else
        the level is searched in slices of slots, each summed from its rows.
        """
        batch, xp, most = self._batch, self.xp, frontier.most
        n_channels = self.task.target.n_channels
        splits = DeviceSplits.room(xp, most, n_channels, self.matrix.mask_words)
        at_once = 1 if candidates.none else self._slots_at_once(most)
        shape = (at_once, batch.builder.n_looked, self.matrix.width, 2 + n_channels)
        histogram = xp.empty(shape, dtype=xp.int64)
        previous = histogram if self._histogram is None else self._histogram
        for first in range(0, 1 if candidates.none else most, at_once):
            slots = range(first, first + at_once)
            looked = batch.search.looked(frontier, candidates, slots)
            if not candidates.none:
                batch.builder.build(rows, candidates, slots, looked, histogram)
            level = Searched(frontier, candidates, slots, looked, histogram, previous)
            batch.search.search(level, rows, splits)
        kept = not batch.search.by_lists and self._fits(3 * most)
        self._histogram = histogram if kept else None
        self._grow_small(rows, frontier, candidates)
        return splits

    def _grow_small(self, rows: DeviceRows, frontier: DeviceFrontier, candidates: Search) -> None:
        """Grow the nodes left to small.cu, after the last histogram that is summed from their rows.

        Their rows are not what they were then.
        """
        small, policy = self._batch.small, self._batch.policy
        if small is not None and policy.small_rows_at(self._depth):
            small.grow(rows, frontier, candidates, self._depth)

    def _fits(self, n_histograms: int) -> bool:
        return n_histograms * self._batch.builder.bytes_per_node() <= self.task.memory_budget

    def _slots_at_once(self, most: int) -> int:
        """Histograms of a slice: of all nodes if they fit the memory budget."""
        fitting = self.task.memory_budget // self._batch.builder.bytes_per_node()
        return min(most, max(1, fitting))

    def accept(self, frontier: DeviceFrontier, splits: DeviceSplits) -> Array:
        """Nodes whose splits are taken: uint8 (m,)."""
        return splits.accepted

    def narrow(self, accepted: Array, chosen: np.ndarray) -> Array:
        """The accepted nodes that best-first growth has reached too."""
        accepted[: len(chosen)] &= self.runtime.asarray(chosen.astype(np.uint8))
        return accepted

    def leaf_sums(
        self, rows: DeviceRows, frontier: DeviceFrontier, accepted: Array
    ) -> Array | None:
        """Leaf sums of nodes that are not split; None where `to_host` makes them of the classes."""
        leaf = self._batch.leaf
        if leaf is None:
            return None
        small_rows = self._batch.policy.small_rows_at(self._depth)
        return self._kernels.leaf_sums(rows, frontier, accepted, leaf, small_rows)

    def partition(
        self, rows: DeviceRows, frontier: DeviceFrontier, splits: DeviceSplits, accepted: Array
    ) -> tuple[DeviceRows, DeviceFrontier]:
        """Move the rows of accepted nodes to their children, keeping their order."""
        policy, search = self._batch.policy, self._search
        if search.none:
            return rows, frontier.nothing()
        left = self._kernels.count_left(rows, frontier, splits)
        places = policy.place(frontier, splits, left)
        moved = self._kernels.move(rows, frontier, splits, places)
        most = policy.most_nodes(min(frontier.most, self._asked()))
        children = policy.children(frontier, splits, left.of_node, places, search.slot, most)
        self._asked = self._ask(children)
        return moved, children

    def _ask(self, frontier: DeviceFrontier) -> Callable[[], int]:
        """How many nodes there are, where the next level must not have room for too many.

        The answer is asked for a level before it is needed, so that the device need not be waited
        for. Trees of few levels do without.
        """
        if self.task.options.max_depth <= UNASKED_DEPTH and self._fits(6 * frontier.most):
            return lambda: frontier.most
        read = self.runtime.read_later(frontier.size)
        return lambda: int(read()[0])

    # ---- results -------------------------------------------------------------------------------

    def to_host(self, level: Level) -> dict[str, np.ndarray]:
        """Copy what `History` keeps of a level to the host."""
        host = self.runtime.to_host
        n = int(host(level.frontier.size)[0])
        parts = level.frontier.to_host(host) | level.splits.to_host(host)
        found = {name: parts[name][:n] for name in COLUMNS if name != "sums"}
        accepted = parts["accepted"][:n] != 0
        found["rise"] = np.where(accepted, found["rise"], -1.0)
        found["categorical"] = found["categorical"] != 0
        if level.sums is not None:
            found["sums"] = host(level.sums)[:n]
        else:
            gradient = parts["gradient"][:n]
            found["sums"] = class_sums(found["hessian"], gradient, self.task.target)
        return found

    def with_subtrees(
        self, whole: dict[str, np.ndarray], sizes: list[int]
    ) -> dict[str, np.ndarray]:
        """The nodes of all levels with those that were grown outside the level loop."""
        small = self._batch.small
        return whole if small is None else small.joined(whole, sizes)


def _counted(task: GrowTask) -> bool:
    """Whether histograms count rows: only a limit on the rows of a leaf asks for it."""
    return task.options.min_samples_leaf > 1
