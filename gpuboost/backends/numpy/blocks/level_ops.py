"""Level operations over codes in blocks: codes never move, and a level reads them once.

Each row has the number of its node; Numba sorts the rows of each block by node. While a chunk of
codes is there, its rows go to the children of the last level's splits, and are added to the
histograms of the next level's smaller siblings:

    chunk of codes -> nodes of its rows -> counts of nodes, histograms
    histograms     -> best splits -> children, to which the next pass sends the rows

So the number of rows of a node is known only after the pass of its level. Sums are integers, so
neither the size nor the order of chunks shows in the trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from gpuboost.backends.compiling import CALLING_THREAD, Workers, worker_threads, workers
from gpuboost.backends.numpy.batches import WATCHED_TREES
from gpuboost.backends.numpy.blocks.passes import BlockDevice, BlockPasses, PassThreads, node_table
from gpuboost.backends.numpy.blocks.rows import rows_by_node, taken, with_starts
from gpuboost.backends.numpy.feature_split import NodeFeature
from gpuboost.backends.numpy.groups import dense_groups
from gpuboost.backends.numpy.histograms import sibling_pairs
from gpuboost.backends.numpy.leaf_rows import LeafRowOps
from gpuboost.backends.numpy.rows import Candidates, RowBlock
from gpuboost.engine.code_blocks import CodeBlocks
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.growth.level_loop import grow_levels
from gpuboost.engine.growth.policy import may_split
from gpuboost.engine.targets import ClassTarget, TreeRows, ValueTarget, map_rows
from gpuboost.engine.task import GrownTree, GrowTask

BYTES_PER_TREE_ROW = 20  # of a row in a tree: its node, in two forms, weight, and word of sums
MIN_SHARED_SEARCH = 1 << 8  # histograms of features from which threads share the work on them
BYTES_IN_MEMORY = 200  # of a row and tree, besides codes, while `LeafRowOps` grows


def grow_batches(
    task: GrowTask,
    kind: type[BlockLevelOps] | None = None,
    with_leaves: bool = False,
    device: BlockDevice | None = None,
) -> Iterator[tuple[list[GrownTree], np.ndarray]]:
    """Grow the trees of a task whose matrix is in blocks, batch by batch.

    As many trees grow together as an eighth of the memory limit holds; each batch reads the codes
    once for each level. ``kind`` are the level operations, `BlockLevelOps` by default. With a
    ``device``, the passes over rows and codes run on it. Threads wait between batches, and end
    after the last one.

    Yields
    ------
    list of GrownTree
    int32 (trees, n)
        With leaves, the leaf of each row in each tree, 0 for rows outside the tree; (trees, 0)
        without.
    """
    blocks = task.matrix.stored
    assert isinstance(blocks, CodeBlocks)
    task = replace(task, memory_budget=max(blocks.memory_limit // 2, 1))
    trees = list(task.trees)
    size = trees_of_batch(len(trees), task.matrix.n_samples, blocks.memory_limit)
    size = min(size, WATCHED_TREES) if task.is_watched else size
    size = size if device is None else device.batch_size(task, size)
    with workers(task.n_threads) as own, worker_threads(task.n_threads) as readers:
        threads = PassThreads(own, readers)
        for first in range(0, len(trees), size):
            batch = trees[first : first + size]

            def begin(batch: Sequence[int] = batch) -> tuple[BlockLevelOps, Any, Any]:
                return (kind or BlockLevelOps).begin(task, batch, with_leaves, threads, device)

            ops = grow_levels(begin, task)
            none = np.zeros((len(batch), 0), np.int32)
            yield ops.end_batch(), ops.leaves() if with_leaves else none
            del ops  # before the next batch takes memory, besides the buffers of the task


def trees_of_batch(n_trees: int, n_samples: int, memory_limit: int) -> int:
    """Number of trees that grow together."""
    return max(1, min(n_trees, memory_limit // (8 * BYTES_PER_TREE_ROW * n_samples)))


class BlockLevelOps(LeafRowOps):
    """Level operations over a matrix in blocks, until the codes of all open rows fit in memory.

    Then these rows are loaded, and `LeafRowOps` grows the nodes to their leaves. The ``rows`` of
    the level loop are the ``node`` of `BlockPasses`, int32 (trees, n), or the loaded `RowBlock`.

    Histograms are int64 (F, slots, width, cell).
    """

    passes_of: ClassVar[Callable[..., BlockPasses]] = BlockPasses

    def __init__(
        self,
        task: GrowTask,
        trees: Sequence[int],
        tree_rows: Sequence[TreeRows],
        roots: Frontier,
        passes: BlockPasses,
    ) -> None:
        super().__init__(task, trees, tree_rows, roots)
        self._passes, self._roots = passes, roots
        self._inner: LeafRowOps | None = None
        self._depth = 0
        # Histograms of nodes: those of this level's, or in `_before` of the last level's.
        self._built: np.ndarray | None = None
        self._slot = np.zeros(0, np.int64)  # of each node, -1 without a histogram
        self._before: np.ndarray | None = None
        self._parent_slot = np.zeros(0, np.int64)  # of each node's parent in `_before`, -1 for none
        self._level_rows: RowBlock | None = None  # for medians: the rows of this level, by node
        self._with_leaves = True  # whether the leaf of each row is recorded
        self._is_last = False  # whether rows are not in the leaves of this level yet
        self._used = np.zeros(0, np.int64)  # rows of `_inner`, and whether they were open
        self._was_open = np.zeros((len(trees), 0), bool)

    @classmethod
    def begin(
        cls,
        task: GrowTask,
        trees: Sequence[int],
        with_leaves: bool,
        threads: PassThreads,
        device: BlockDevice | None = None,
    ) -> tuple[Self, Any, Any]:
        """Create the level operations, the nodes of the rows and the roots of a batch of trees."""
        tree_rows = [task.rows_of(tree) for tree in trees]
        node = task.buffers.take("nodes", (len(trees), task.matrix.n_samples), np.int32)
        passes = (device.passes if device else cls.passes_of)(task, tree_rows, threads)
        ops = cls(task, trees, tree_rows, passes.open_roots(trees, node), passes)
        ops._with_leaves = with_leaves
        return ops, node, ops._roots

    # ---- the operations of the level loop ------------------------------------------------------

    def set_median_gradients(self, rows: Any, frontier: Frontier) -> tuple[Any, Frontier]:
        """Set gradients to signs about the medians of nodes, once rows are in these nodes."""
        if self._inner is not None:
            return self._inner.set_median_gradients(rows, frontier)
        self._passes.run(rows, frontier)
        node = self._passes.nodes_of(rows)
        block, frontier = rows_by_node(self.task, self.tree_rows, node, frontier)
        block, frontier = super().set_median_gradients(block, frontier)
        if self._passes.signs is None:
            self._passes.signs = np.zeros((*rows.shape, self.task.target.n_channels), np.int8)
        self._passes.signs[np.repeat(frontier.tree, frontier.count), block.row] = block.signs
        self._level_rows = block
        return rows, frontier

    def candidates(self, rows: Any, frontier: Frontier, depth: int) -> Candidates:
        """Nodes to be searched; rows are sent to their nodes, and histograms are made, before."""
        if self._inner is not None:
            return self._inner.candidates(rows, frontier, depth)
        self._depth, self._built = depth, None
        likely = self._likely(frontier, depth)
        n, limit = len(likely), self._passes.histogram_bytes
        if n and self._passes.bytes_of(2 * n, n) <= limit:
            self._build_level(rows, frontier, likely)
        else:
            self._before = None  # its memory is needed for the histograms of `find_splits`
            self._is_last = not n and depth > 0 and self._with_leaves and self._passes.has_last_pass
            if not self._is_last:  # else `leaf_sums` sends the rows to these leaves
                self._passes.run(rows, frontier)
        return super().candidates(rows, frontier, depth)

    def find_splits(self, rows: Any, frontier: Frontier, candidates: Candidates) -> Splits:
        """Best split of every candidate, from the histograms of all of its tree's features."""
        if self._inner is not None:
            return self._inner.find_splits(rows, frontier, candidates)
        splits = Splits.none(len(frontier), frontier.gradient.shape[1], self._splitter.mask_words)
        if self._built is not None:
            self._search_nodes(frontier, candidates, splits)
            return splits
        size = max(self._passes.histogram_bytes // self._passes.bytes_of(1, 1), 1)
        for first in range(0, len(candidates.nodes), size):
            nodes = candidates.nodes[first : first + size]
            self._slot = np.full(len(frontier), -1)
            self._slot[nodes] = np.arange(len(nodes))
            self._built = None  # its memory is used again
            self._built = self._passes.run(rows, frontier, self._slot, len(nodes))
            self._search_nodes(frontier, replace(candidates, nodes=nodes), splits)
        self._built = None
        return splits

    def leaf_sums(
        self, rows: Any, frontier: Frontier, candidates: Candidates, accepted: np.ndarray
    ) -> np.ndarray:
        """Leaf sums of nodes that are not split, 0 for others; for medians, of all nodes."""
        if self._inner is not None:
            return self._inner.leaf_sums(rows, frontier, candidates, accepted)
        target, leaves = self.task.target, np.flatnonzero(~accepted)
        number = len(self._tree) + leaves
        self._tree = np.append(self._tree, frontier.tree)
        if self._is_last:
            return self._passes.last_pass(rows, frontier, number[0], self._node)
        if self._with_leaves and len(leaves):
            self._passes.record_leaves(rows, node_table(frontier, leaves, number), self._node)
        if target.by_median:
            assert self._level_rows is not None
            return self._median_sums(self._level_rows, with_starts(frontier))
        wide = target.wide if self.tree_rows[0].wide is None else self.tree_rows[0].wide
        if isinstance(target, ClassTarget) and wide is None:
            of_leaves = self._sums_of(None, frontier.take(leaves))  # type: ignore[arg-type]
        else:
            assert wide is not None
            n_classes = target.n_classes if isinstance(target, ClassTarget) else 1
            shape = n_classes, wide.shape[1]
            of_leaves = self._passes.leaf_sums(rows, frontier, leaves, shape)
        sums = np.zeros((len(frontier), of_leaves.shape[1]), dtype=np.int64)
        sums[leaves] = of_leaves
        return sums

    def partition(
        self,
        rows: Any,
        frontier: Frontier,
        candidates: Candidates,
        *,
        splits: Splits,
        accepted: np.ndarray,
        sums: np.ndarray,
    ) -> tuple[Any, Frontier]:
        """Record the level and create the children, whose rows the next pass finds.

        If the codes of all open rows fit in memory, the rows are loaded now.
        """
        given: dict[str, Any] = {"splits": splits, "accepted": accepted, "sums": sums}
        if self._inner is not None:
            return self._inner.partition(rows, frontier, candidates, **given)
        self._record(frontier, splits, accepted, sums)
        parents = np.flatnonzero(accepted)
        n_open = int(frontier.count[parents].sum())
        self._passes.split(frontier, splits, parents)
        keeps = self._built is not None and not self.task.target.by_median
        self._before = self._built if keeps else None
        self._parent_slot = np.repeat(
            self._slot[parents] if keeps else np.full(len(parents), -1), 2
        )
        self._built = None
        none = np.zeros(len(parents), np.int64)
        children = self._children(frontier.take(parents), none, splits, parents)
        children = replace(children, count=np.zeros(len(children), np.int64))
        n_bytes = self._passes.bytes_of(len(children), 0)
        if len(children) and self._passes.loads_rows(n_bytes) and self._fit_memory(n_open):
            return self._keep_open_rows(rows, children)
        return rows, children

    def is_pure(self, rows: Any, frontier: Frontier) -> np.ndarray:
        """Whether all weight of a node is in one class, quantised target or sign: bool (m,)."""
        target = self.task.target
        if target.has_gradients or isinstance(target, ClassTarget):
            return super().is_pure(rows, frontier)
        if target.by_median:
            assert self._level_rows is not None
            return super().is_pure(self._level_rows, with_starts(frontier))
        assert isinstance(target, ValueTarget)
        largest = np.iinfo(target.values.dtype).max
        low = np.full((len(frontier), target.n_channels), largest, target.values.dtype)
        high = -low
        self._passes.value_ranges(rows, low, high)
        return np.all(low >= high, axis=1)

    def leaves(self) -> np.ndarray:
        """The leaf of each row in each tree: int32 (trees, n), 0 for rows outside the tree."""
        self._passes.read_leaves(self._node)
        if self._inner is not None:
            self._tree = self._inner._tree
            for own, inner, was_open in zip(
                self._node, self._inner._node, self._was_open, strict=True
            ):
                own[self._used[was_open]] = inner[was_open]
        return super().leaves()

    def end_batch(self) -> list[Any]:
        """The trees of the batch."""
        return super().end_batch() if self._inner is None else self._inner.end_batch()

    # ---- histograms ----------------------------------------------------------------------------

    def _likely(self, frontier: Frontier, depth: int) -> np.ndarray:
        """Nodes that may be candidates, as far as is known before their rows are counted."""
        target, options = self.task.target, self.task.options
        uncounted = replace(frontier, count=np.full(len(frontier), np.iinfo(np.int64).max))
        large = may_split(uncounted, depth, options, self._min_hessian)
        if isinstance(target, ClassTarget) and (depth or options.max_depth):
            large &= ~super().is_pure(None, frontier)  # type: ignore[arg-type]
        return np.flatnonzero(large)

    def _build_level(self, rows: np.ndarray, frontier: Frontier, likely: np.ndarray) -> None:
        """Make the histograms of the likely nodes: of smaller siblings from rows, if possible."""
        slot = np.full(len(frontier), -1)
        slot[likely] = np.arange(len(likely))
        parent_slot = None if self._before is None else self._parent_slot
        larger, smaller, parent = sibling_pairs(parent_slot, frontier.hessian, slot)
        from_rows = slot.copy()
        from_rows[larger] = -1
        extra = smaller[slot[smaller] < 0]
        from_rows[extra] = len(likely) + np.arange(len(extra))
        built = self._passes.run(rows, frontier, from_rows, len(likely) + len(extra))

        def subtract(given: tuple[int, int, int]) -> None:
            assert self._before is not None
            node, own, above = given
            np.subtract(self._before[:, above], built[:, from_rows[own]], out=built[:, slot[node]])

        self._workers_of(larger).map(subtract, zip(larger, smaller, parent, strict=True))
        self._built, self._before, self._slot = built, None, slot

    def _search_nodes(self, frontier: Frontier, candidates: Candidates, splits: Splits) -> None:
        """Set the best splits of the candidates, which have histograms in `_built`."""
        if candidates.n_slots < self.task.matrix.n_features:
            self._search_in_order(None, frontier, candidates, splits)  # type: ignore[arg-type]
            return
        own = self._workers_of(candidates.nodes)
        n_parts = min(own.n_threads, len(candidates.nodes))
        parts = np.array_split(candidates.nodes, n_parts) if n_parts else []

        def search(nodes: np.ndarray) -> None:
            self._search_some(frontier, replace(candidates, nodes=nodes), splits)

        own.map(search, parts)

    def _workers_of(self, nodes: np.ndarray) -> Workers:
        """The threads that share the histograms of some nodes; the calling one if they are few."""
        few = len(nodes) * self.task.matrix.n_features < MIN_SHARED_SEARCH
        return CALLING_THREAD if few else self._passes.threads.workers

    def _search_some(self, frontier: Frontier, candidates: Candidates, splits: Splits) -> None:
        """Set the best splits of some candidates over all features."""
        at: Any = self._slot[candidates.nodes]
        if at[-1] - at[0] == len(at) - 1:  # ascending, so no copy is needed
            at = slice(at[0], at[-1] + 1)
        self._search_histograms(self._planes[at], frontier, candidates, splits)

    @property
    def _planes(self) -> np.ndarray:
        """The histograms as `HistogramSearch` takes them: int64 (slots, P, F, width)."""
        assert self._built is not None
        return self._built.transpose(1, 3, 0, 2)[:, : self._passes.planes]

    def _one_feature(
        self, rows: Any, frontier: Frontier, nodes: np.ndarray, rank: np.ndarray
    ) -> tuple[Splits, np.ndarray]:
        """The split of each node by the feature in its ``rank``, and whether the node can split."""
        feature = (rank & np.uint64(0xFFFFFFFF)).astype(np.int64)
        histogram = self._planes[self._slot[nodes], :, feature]
        groups = dense_groups(histogram.swapaxes(0, 1), self._counted)
        return self._splitter.split(NodeFeature(frontier.take(nodes), feature, rank), groups)

    # ---- rows in memory ------------------------------------------------------------------------

    def _fit_memory(self, n_open: int) -> bool:
        """Whether ``n_open`` rows fit in memory with their codes, and more levels need codes."""
        n_bytes = n_open * (self.task.matrix.n_features + BYTES_IN_MEMORY)
        is_last = self._depth + 1 >= self.task.options.deepest
        return not is_last and n_bytes <= self.task.memory_budget

    def _keep_open_rows(self, node: np.ndarray, frontier: Frontier) -> tuple[RowBlock, Frontier]:
        """Load the codes of all open rows, and leave the rest to `LeafRowOps`."""
        self._passes.run(node, frontier)
        node = self._passes.nodes_of(node)
        used = np.flatnonzero((node >= 0).any(axis=0))
        matrix = replace(self.task.matrix, stored=self._passes.codes_of(used))
        target: Any = self.task.target
        if not target.has_gradients:
            target = map_rows(target, lambda own: own[used])
        tree_rows = [taken(own, used) for own in self.tree_rows]
        task = replace(self.task, matrix=matrix, target=target)
        inner = LeafRowOps(task, self.trees, tree_rows, self._roots)
        inner._levels, inner._known, inner._tree = self._levels, self._known, self._tree
        self._inner, self._used, self._was_open = inner, used, node[:, used] >= 0
        return rows_by_node(task, tree_rows, node[:, used], frontier)
