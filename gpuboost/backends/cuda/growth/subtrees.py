"""Nodes with few rows, grown to their leaves outside the level loop: subtrees.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.runtime.arrays import allocate
from gpuboost.backends.cuda.runtime.compile_flags import CompileFlags
from gpuboost.backends.cuda.runtime.launch import fill
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.task import NO_LIMIT

if TYPE_CHECKING:
    from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer
    from gpuboost.backends.cuda.level.records import DeviceFrontier, Search
    from gpuboost.backends.cuda.level.split_search import SplitSearch
    from gpuboost.backends.cuda.runtime.protocol import Runtime
    from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
    from gpuboost.engine.growth.frontier import Array
    from gpuboost.engine.task import GrowTask

KERNELS = "growth/subtrees.cu"
# Nodes of so many rows are small. The more rows, the fewer nodes are left that need histograms in
# global memory; but a block grows a subtree node after node, so there must be a few of them for
# each multiprocessor. Nodes of at most MIN_ROWS are grown by a warp, of which there are more.
# MAX_ROWS is two rows for each thread of a block: 512 rows take 6 KiB of its shared memory.
MIN_ROWS, MAX_ROWS = 32, 512
SUBTREES_WANTED = 8  # per multiprocessor
BLOCKS = 64  # per multiprocessor, at most: each takes node after node
_THREADS = {
    "small": ("level/candidates.cuh", "SPLIT_THREADS"),
    "tiny": ("common/common.cuh", "WARP"),
}
STATIC_BYTES = 12 << 10  # of a block: no less than what grow_small takes beside its dynamic memory


def shared_bytes(task: GrowTask, n_cells: int, n_rows: int) -> int:
    """Dynamic shared memory of a block whose nodes have so many codes and rows: block_state.cuh."""
    target, k = task.target, task.target.n_channels
    by_class = target.by_class
    planes = 1 + (task.options.min_samples_leaf > 1) + (k if by_class else 2 * k)
    words = 4 * (k + 2) + planes * n_cells + (1 if by_class else k) * n_rows
    return 8 * k + 4 * words


def small_bytes(task: GrowTask) -> int:
    """Dynamic shared memory of a block of grow_small: all codes, and `MAX_ROWS` as compiled."""
    return shared_bytes(task, task.matrix.width, constant("growth/block_state.cuh", "SMALL_ROWS"))


def tiny_bytes(task: GrowTask) -> int:
    """Dynamic shared memory of a warp of grow_tiny: a code and a row for each lane, and missing."""
    warp = constant("common/common.cuh", "WARP")
    return shared_bytes(task, warp + 1, warp)


def small_rows_for(
    runtime: Runtime, task: GrowTask, n_trees: int, n_rows: int, max_weight: int
) -> int:
    """Rows of a node that is small, 0 for no node.

    There is none where a histogram does not fit shared memory, as of many classes; under
    ``max_leaf_nodes``, which decides level by level what is grown at all; where nodes are held to
    what a block does not keep of them: bounds of values, groups of features, features of levels;
    and where each node has gradients of its own, about its median.

    Parameters
    ----------
    n_trees, n_rows : int
        Trees of the batch, and rows of all of them.
    max_weight : int
        Largest weight of a row: sums of a code must not wrap around 2**32.
    """
    flags = CompileFlags.of(task)
    held = flags.monotonic or flags.by_node or flags.by_level
    if held or task.target.by_median or task.options.max_leaf_nodes != NO_LIMIT:
        return 0
    if small_bytes(task) + STATIC_BYTES > runtime.shared_memory:
        return 0
    spread = n_rows // (SUBTREES_WANTED * runtime.n_multiprocessors)
    no_wrap = (2**32 - 1) // max(max_weight, 1)
    return min(max(spread, MIN_ROWS), MAX_ROWS, no_wrap)


@dataclass(frozen=True)
class TinyNodes:
    """Nodes that grow_small leaves to grow_tiny; arrays have room for as many as a level can have.

    Attributes
    ----------
    size : int32 (1,)
    tree, place, count, levels : int32 (m,)
        Tree, place in the store, rows, and levels that may be below.
    start : int64 (m,)
    key : uint64 (m,)
    """

    size: Array
    tree: Array
    place: Array
    count: Array
    levels: Array
    start: Array
    key: Array

    @classmethod
    def room(cls, xp: Any, n: int) -> TinyNodes:
        """Room for n nodes."""
        columns: dict[str, tuple[Any, tuple[int, ...]]] = {
            **dict.fromkeys(("tree", "place", "count", "levels"), (np.int32, (n,))),
            "start": (np.int64, (n,)),
            "key": (np.uint64, (n,)),
        }
        return cls(xp.empty(1, dtype=xp.int32), **allocate(xp, columns))


class SmallTrees:
    """Grows the small nodes of the levels of one batch of trees.

    Parameters
    ----------
    search : SplitSearch
        Of the batch.
    leaf : LeafColumns or None
    store : NodeBuffer
        Keeps the nodes of the batch.
    n_rows : int
        Rows of all trees of the batch.
    """

    def __init__(
        self, search: SplitSearch, leaf: LeafColumns | None, store: NodeBuffer, n_rows: int
    ) -> None:
        self._search, self._leaf, self._store = search, leaf, store
        capacity = n_rows // search.task.options.min_samples_leaf + store.n_trees
        self._tiny = TinyNodes.room(search.runtime.xp, capacity)

    def grow(self, rows: DeviceRows, frontier: DeviceFrontier, found: Search, depth: int) -> None:
        """Grow the small nodes of a level, none of which has the largest depth.

        Of their rows, nothing is left in the order or number that they had.
        """
        task, tiny = self._search.task, self._tiny
        fill(self._search.runtime, tiny.size, 0)
        nodes = (frontier.tree, frontier.key, frontier.start, frontier.count)
        level = (np.int32(task.options.max_depth - depth), self._store.first)
        given = (found.small, found.sizes, *nodes, *level, *vars(tiny).values())
        self._launch("small", frontier.capacity, small_bytes(task), rows, given)
        capacity = min(len(tiny.tree), len(rows))
        self._launch("tiny", capacity, tiny_bytes(task), rows, tuple(vars(tiny).values()))

    def _launch(
        self, name: str, capacity: int, shared: int, rows: DeviceRows, nodes: tuple[Any, ...]
    ) -> None:
        search = self._search
        constants = CompileFlags.of(search.task).constants(KERNELS)
        kernel = search.runtime.kernel(KERNELS, f"grow_{name}", constants)
        threads = constant(*_THREADS[name])
        given = (rows.row, rows.weight, rows.target, np.int64(len(rows)))
        minimum = (search.min_hessian, search.min_category)
        trees = (*minimum, search.root_hessian, search.allowed)
        options = (*self._wide(), *self._options(), np.int32(search.matrix.mask_words > 0))
        args = (
            *given,
            *nodes,
            *trees,
            *self._matrix(),
            *options,
            *vars(self._store.nodes).values(),
        )
        n_blocks = min(capacity, BLOCKS * search.runtime.n_multiprocessors)
        kernel((n_blocks,), (threads,), args, shared_mem=shared)

    def _matrix(self) -> tuple[Any, ...]:
        matrix = self._search.matrix
        arrays = (matrix.tiles, matrix.n_bins, matrix.is_categorical, matrix.center)
        sizes = (np.int32(matrix.tile), np.int32(matrix.n_features), np.int32(matrix.width))
        return (*arrays, np.int64(matrix.n_samples), *sizes)

    def _wide(self) -> tuple[Any, ...]:
        leaf, target = self._leaf, self._search.task.target
        if leaf is None:  # nothing is read of the arrays
            sizes = (np.int32(0), np.int32(target.n_classes), np.int32(0))
            return (self._search.root_hessian, self._search.matrix.n_bins, *sizes)
        sizes = (np.int32(leaf.wide.shape[2]), np.int32(leaf.n_classes), np.int32(leaf.draws))
        return (leaf.wide, leaf.wide_of, *sizes)

    def _options(self) -> tuple[Any, ...]:
        options, target = self._search.task.options, self._search.task.target
        smallest = max(options.min_samples_split, 2 * options.min_samples_leaf)
        return (
            *(np.int32(options.criterion), np.int32(options.min_samples_leaf)),
            *(np.int32(target.n_channels), np.int32(target.by_class)),
            *(np.int32(options.random_thresholds), np.int64(smallest)),
            *(np.int32(options.max_features), self._search.unit),
            *(np.float64(options.min_impurity_decrease), np.int32(options.needs_gain)),
            self._search.regular,
        )
