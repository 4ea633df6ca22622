"""Growth of the subtrees of nodes with few rows, outside the level loop: subtrees.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer
from gpuboost.backends.cuda.level.records import DeviceFrontier, Search
from gpuboost.backends.cuda.level.split_search import SplitSearch
from gpuboost.backends.cuda.runtime.arrays import column, empty
from gpuboost.backends.cuda.runtime.compile_flags import CompileFlags
from gpuboost.backends.cuda.runtime.launch import fill, launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.engine.criteria import min_rows
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import NO_LIMIT, GrowTask

KERNELS = "growth/subtrees.cu"
# Bounds on the rows of a small node. With a larger bound, fewer nodes need histograms in global
# memory. But a block grows a subtree one node at a time, so each multiprocessor needs several
# subtrees. A node of at most MIN_SUBTREE_ROWS rows is grown by one warp. MAX_SUBTREE_ROWS is two
# rows for each thread of a block; 512 rows take 6 KiB of shared memory, without their targets.
MIN_SUBTREE_ROWS, MAX_SUBTREE_ROWS = 32, 512
SUBTREES_WANTED = 8  # per multiprocessor
BLOCKS = 64  # largest number per multiprocessor; blocks loop over nodes
STATIC_BYTES = 12 << 10  # upper bound on the static shared memory of a block


def shared_bytes(task: GrowTask, n_cells: int, n_rows: int) -> int:
    """Bytes of dynamic shared memory for ``n_cells`` codes and ``n_rows`` rows."""
    target, k = task.target, task.target.n_channels  # the arrays are listed in block_state.cuh
    by_class = target.by_class
    planes = 1 + (task.options.min_samples_leaf > 1) + (k if by_class else 2 * k)
    words = 4 * (k + 2) + planes * n_cells + (1 if by_class else k) * n_rows
    return 8 * k + 4 * words


def small_bytes(task: GrowTask) -> int:
    """Bytes of dynamic shared memory of a block, for all codes and ``SMALL_ROWS`` rows."""
    return shared_bytes(task, task.matrix.width, constant("growth/block_state.cuh", "SMALL_ROWS"))


def tiny_bytes(task: GrowTask) -> int:
    """Bytes for a block of one warp: one code and one row per lane, and the missing code."""
    warp = constant("common/common.cuh", "WARP")
    return shared_bytes(task, warp + 1, warp)


def small_rows_for(runtime: Runtime, task: GrowTask, n_rows: int, max_weight: int) -> int:
    """Largest number of rows of a small node; 0 if no node is small.

    The result is 0 if a histogram does not fit in shared memory (for example, with many classes),
    with ``max_leaf_nodes`` (which requires all splits of a level), with constraints that a block
    does not store (value bounds, feature groups, features per level), for a `MedianTarget`, and for
    several outputs of classes.

    Parameters
    ----------
    n_rows : int
        Row capacity of all trees of the batch together.
    max_weight : int
        Largest weight of a row; the weights of the rows of a code must add up to less than 2**32.
    """
    flags = CompileFlags.of(task)
    held = flags.monotonic or flags.by_node or flags.by_level
    several_outputs = flags.scored_together is not None  # would spill registers
    if held or several_outputs or task.target.by_median or task.options.max_leaf_nodes != NO_LIMIT:
        return 0
    if small_bytes(task) + STATIC_BYTES > runtime.shared_memory:
        return 0
    spread = n_rows // (SUBTREES_WANTED * runtime.n_multiprocessors)
    no_wrap = (2**32 - 1) // max(max_weight, 1)
    return min(max(spread, MIN_SUBTREE_ROWS), MAX_SUBTREE_ROWS, no_wrap)


@dataclass(frozen=True)
class TinyNodes:
    """Nodes in the subtrees of one level that are each grown by a warp instead of a block.

    The capacity is the largest number of nodes that have no rows in common.

    Attributes
    ----------
    n_tiny : int32 (1,)
        Number of nodes.
    tiny_tree, place, tiny_count, tiny_levels : int32 (nodes,)
        Tree, place in the node buffer, number of rows, and largest number of levels below.
    tiny_start : int64 (nodes,)
        Position of the first row.
    tiny_key : uint64 (nodes,)
        Key of the node's random numbers.
    """

    n_tiny: Array = column(np.int32, 1)
    tiny_tree: Array = column(np.int32, "n")
    place: Array = column(np.int32, "n")
    tiny_count: Array = column(np.int32, "n")
    tiny_levels: Array = column(np.int32, "n")
    tiny_start: Array = column(np.int64, "n")
    tiny_key: Array = column(np.uint64, "n")

    @property
    def capacity(self) -> int:
        """Largest number of nodes."""
        return len(self.tiny_tree)


class SmallTrees:
    """Grows the subtrees of small nodes, in one batch of trees.

    Parameters
    ----------
    search : SplitSearch
        Split search of the batch.
    leaf : LeafColumns or None
        Columns that leaf sums are computed from; None if class weights are the leaf sums.
    store : NodeBuffer
        Node buffer of the batch.
    n_rows : int
        Row capacity of all trees of the batch together.
    """

    def __init__(
        self, search: SplitSearch, leaf: LeafColumns | None, store: NodeBuffer, n_rows: int
    ) -> None:
        self._search, self._leaf, self._store = search, leaf, store
        capacity = n_rows // search.task.options.min_samples_leaf + store.n_trees
        self._tiny = empty(TinyNodes, search.runtime.xp, {}, n=capacity)

    def grow(self, rows: DeviceRows, frontier: DeviceFrontier, found: Search, depth: int) -> None:
        """Grow the small nodes of a level to their leaves; their rows are overwritten.

        The level must not be at the largest depth.
        """
        task, tiny = self._search.task, self._tiny
        fill(self._search.runtime, tiny.n_tiny, 0)
        records = (rows, tiny, found, frontier)
        own = {"levels": task.options.max_depth - depth, "count": frontier.count}
        self._launch(frontier.capacity, {}, *records, **own, shared_mem=small_bytes(task))
        capacity, block = min(tiny.capacity, len(rows)), (constant("common/common.cuh", "WARP"),)
        by_warp = {"shared_mem": tiny_bytes(task), "block": block}
        self._launch(capacity, {"BY_WARP": 1}, *records, **own, **by_warp)

    def _launch(
        self, capacity: int, constants: dict[str, int], *records: Any, **values: Any
    ) -> None:
        search, nodes, target = self._search, self._store.nodes, self._search.task.target
        options, leaf = search.task.options, self._leaf
        own: dict[str, Any] = {
            "constants": {**search.flags.constants(KERNELS), **constants},
            "n_columns": 0 if leaf is None else leaf.n_columns,
            "min_hessian": search.min_hessian,
            "smallest": min_rows(options),
            "n_stored": nodes.size,
            "first": self._store.first,
            "hessian": nodes.hessian,
            "count_out": nodes.count,
        }
        if leaf is None:  # placeholders: the arrays are not read
            n_classes = target.n_classes
            leaf = LeafColumns(search.root_hessian, search.matrix.n_bins, n_classes, draws=False)
        n_blocks = min(capacity, BLOCKS * search.runtime.n_multiprocessors)
        known = (search, search.matrix, leaf, options, nodes)
        launch(search.runtime, "grow_subtrees", n_blocks, *records, *known, **own, **values)
