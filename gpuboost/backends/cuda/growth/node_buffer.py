"""The nodes of a batch of trees on the device, and their numbers: node_buffer.cu.

Nodes are stored level by level; nodes that subtrees.cu grows are stored between levels. After the
last level, nodes are numbered, and then finished on the device or copied to the host unfinished.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from gpuboost.backends.cuda.data.matrix import DeviceMatrix
from gpuboost.backends.cuda.growth.tree_arrays import Finished
from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits, Places
from gpuboost.backends.cuda.runtime.arrays import column, empty
from gpuboost.backends.cuda.runtime.grid import blocks_for
from gpuboost.backends.cuda.runtime.launch import full, launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.rows import LeafColumns
from gpuboost.engine.criteria import min_rows
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.growth.level_history import grown_tree
from gpuboost.engine.targets import MedianTarget, Target
from gpuboost.engine.task import NO_LIMIT, GrownTree, GrowTask, TreeOptions

MAX_PLACES = 2**31 - 1  # of a node buffer, because places are int32
DEEPEST = 33  # max_depth limits the number of nodes only below this value


@dataclass(frozen=True)
class NodeCapacity:
    """Limits on the size of a finished tree; see node_buffer.cuh.

    Attributes
    ----------
    min_rows : int
        Smallest number of rows of a leaf.
    max_nodes, max_levels : int
        Largest numbers of nodes and levels; 0 if only the rows limit them.
    """

    min_rows: int
    max_nodes: int
    max_levels: int

    @classmethod
    def of(cls, options: TreeOptions, tree_rows: int) -> NodeCapacity:
        """Make the limits for trees of at most ``tree_rows`` rows each.

        They take into account that each node that is split has at least `criteria.min_rows` rows.
        """
        depth, leaves = options.max_depth, options.max_leaf_nodes
        by_limit = [] if leaves == NO_LIMIT else [2 * leaves - 1]
        if depth < DEEPEST:
            max_splits = tree_rows // min_rows(options)
            by_limit.append(1 + 2 * sum(min(2**level, max_splits) for level in range(depth)))
        levels = options.deepest + 1 if by_limit else 0
        return cls(max(options.min_samples_leaf, 1), min(by_limit, default=0), levels)

    def first_node(self, tree: int, n_rows: int) -> int:
        """Offset of a tree's nodes in arrays of all trees; after the last tree, the total length.

        It is the largest number of nodes of all earlier trees, which have ``n_rows`` rows together.
        """
        by_rows = 2 * (n_rows // self.min_rows) + tree
        return min(by_rows, tree * self.max_nodes) if self.max_nodes else by_rows

    def first_level(self, tree: int, n_rows: int) -> int:
        """Offset of a tree's levels in arrays of all trees; after the last tree, the total length.

        It is the largest number of levels of all earlier trees, with ``n_rows`` rows together.
        """
        by_rows = n_rows // self.min_rows + tree
        return min(by_rows, tree * self.max_levels) if self.max_levels else by_rows


@dataclass(frozen=True)
class Store:
    """Nodes of all trees, in the order of their places; arrays are allocated at full capacity.

    Attributes
    ----------
    size : int32 (1,)
        Number of nodes.
    left : int32 (m,)
        Left child, 0 in leaves; the right child follows it. Until nodes are numbered, this is a
        place in the node buffer, then a number in the tree.
    count : uint32 (m,)
        Number of rows.
    hessian : int64 (m,)
        Sum of the rows' hessians.
    gain : float64 (m,)
        Gain of the split; -1 in leaves.
    feature : int32 (m,)
        Feature of the split; `LEAF` in leaves.
    bin, next_bin, draw, missing, mask : arrays
        As in `DeviceSplits`; undefined in leaves. ``draw`` is empty unless thresholds are random.
    sums : int64 (m, n_sums)
        Leaf sums. Some inner nodes get theirs only when nodes are numbered.
    """

    size: Array
    left: Array = column(np.int32, "n")
    count: Array = column(np.uint32, "n")
    hessian: Array = column(np.int64, "n")
    gain: Array = column(np.float64, "n")
    feature: Array = column(np.int32, "n")
    bin: Array = column(np.int16, "n")
    next_bin: Array = column(np.int16, "n")
    draw: Array = column(np.float64, "n_drawn")
    missing: Array = column(np.int8, "n")
    mask: Array = column(np.uint32, "n", "mask_words")
    sums: Array = column(np.int64, "n", "n_sums")


@dataclass(frozen=True)
class Numbers:
    """Numbers of the nodes within their trees.

    Attributes
    ----------
    order : int32 (max_finished,)
        Place of each node in the node buffer. The nodes of a tree are ordered by number and begin
        at `NodeCapacity.first_node`.
    category : int32 (max_finished,)
        Index of each node's categorical split in its tree, -1 for none, in the same order. The
        array is empty if no feature is categorical.
    level_end : int32 (levels,)
        Number of the first node after each level of each tree.
    table : int64 (3, trees + 1)
        Index of each tree's first node among the nodes of all trees, index of its first mask, and
        weight of its root; see node_buffer.cuh.
    """

    order: Array
    category: Array
    level_end: Array
    table: Array


class NodeBuffer:
    """The nodes of a batch of trees; the host's version is `gpuboost.engine.growth.level_history`.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
    matrix : DeviceMatrix
    leaf : LeafColumns or None
        Columns that leaf sums are computed from; None if class weights are the leaf sums.
    roots : DeviceFrontier
    n_rows : int
        Row capacity of all trees together.

    Attributes
    ----------
    capacity : int
        Largest number of nodes stored.
    max_finished : int
        Largest number of nodes of finished trees; it can be smaller than ``capacity`` if splits
        can be undone.
    nodes : Store
        The nodes.
    first : int32 (1,)
        Place of the first node of the current level.
    """

    def __init__(
        self,
        runtime: Runtime,
        task: GrowTask,
        matrix: DeviceMatrix,
        leaf: LeafColumns | None,
        roots: DeviceFrontier,
        n_rows: int,
    ) -> None:
        self._runtime, self._task, self._matrix = runtime, task, matrix
        self.n_trees, self._n_rows = roots.capacity, n_rows
        self._starts = roots.start
        self._kind, self.n_sums = _kind_of_sums(task.target, leaf)
        self._node_capacity = NodeCapacity.of(task.options, max_rows_of_tree(task))
        self.capacity = max_stored_nodes(self.n_trees, n_rows, task.options, max_rows_of_tree(task))
        self.max_finished = self._node_capacity.first_node(self.n_trees, n_rows)
        self.has_draws, words = task.options.random_thresholds, matrix.mask_words
        lengths = {"n": self.capacity, "n_drawn": self.capacity if self.has_draws else 0}
        lengths |= {"mask_words": words, "n_sums": self.n_sums}
        size = full(runtime, 1, self.n_trees, np.int32)
        self.nodes = empty(Store, runtime.xp, {"size": size}, **lengths)
        self.first = roots.tree[:1]  # tree 0, which is also the place of the first root

    # ---- a level -------------------------------------------------------------------------------

    def keep(
        self,
        frontier: DeviceFrontier,
        splits: DeviceSplits,
        places: Places | None,
        sums: Array | None,
        small_rows: int,
    ) -> None:
        """Store the nodes of a level, except nodes that subtrees.cu has stored.

        Parameters
        ----------
        frontier : DeviceFrontier
        splits : DeviceSplits
        places : Places or None
            Places of the children; None if no node is split.
        sums : int64 (m, n_sums) or None
            Leaf sums; None if class weights are the leaf sums.
        small_rows : int
            Largest number of rows of the nodes that subtrees.cu has stored; 0 for none.
        """
        runtime, task, nodes = self._runtime, self._task, self.nodes
        following = runtime.xp.empty(1, dtype=np.int32)
        # If no node is split, this is the last level and these values are not used.
        rank, next_size = (frontier.tree, frontier.size)
        if places is not None:
            rank, next_size = places.rank, places.next_size
        own = {
            "rank": rank,
            "next_size": next_size,
            "level_sums": frontier.gradient if sums is None else sums,
            "kind": self._kind,
            "n_sums": self.n_sums,
            # Whether inner nodes have sums (or zeros) before nodes are numbered.
            "all_sums": task.target.by_median or task.options.max_leaf_nodes != NO_LIMIT,
            "small_rows": small_rows,
            "has_draws": self.has_draws,
            "has_masks": self._matrix.mask_words > 0,
            "first": self.first,
            "stored": nodes.size,
            "following": following,
            "left": nodes.left,
        }
        threads = constant("growth/node_buffer.cu", "STORE_THREADS")
        n_blocks = blocks_for(frontier.capacity, threads)
        launch(runtime, "store_level", n_blocks, frontier, splits, out=nodes, **own)
        self.first = nodes.size
        if places is not None:
            self.nodes = replace(nodes, size=following)

    # ---- the end -------------------------------------------------------------------------------

    @property
    def capacities(self) -> dict[str, Any]:
        """Arguments of the kernels' ``Capacities``; see node_buffer.cuh."""
        return {"start": self._starts, "n_trees": self.n_trees, **vars(self._node_capacity)}

    @property
    def adds_leaf_sums(self) -> bool:
        """Whether only leaves have sums, from which the sums of inner nodes are computed."""
        of_leaves = self._kind == constant("growth/node_buffer.cu", "LEAF_SUMS")
        return of_leaves and not self._task.target.by_median

    def number(self, table: Array | None) -> Numbers:
        """Number the nodes, after the last level.

        ``table`` is the array for the table of `Numbers`; None to allocate one.
        """
        runtime, task, nodes, xp = self._runtime, self._task, self.nodes, self._runtime.xp
        has_masks = self._matrix.mask_words > 0
        if table is None:
            table = xp.empty(table_shape(self.n_trees), dtype=np.int64)
        order = xp.empty(self.max_finished, dtype=np.int32)
        category = xp.empty(self.max_finished if has_masks else 0, dtype=np.int32)
        n_levels = self._node_capacity.first_level(self.n_trees, self._n_rows)
        level_end = xp.empty(n_levels, dtype=np.int32)
        numbers = Numbers(order, category, level_end, table)
        own = {"has_masks": has_masks, "n_sums": self.n_sums, "adds": not task.target.by_median}
        known = (self._matrix, nodes, numbers)
        launch(runtime, "number_nodes", self.n_trees, *known, **self.capacities, **own)
        if self.n_trees > 1:
            launch(runtime, "place_trees", 1, numbers, n_trees=self.n_trees)
        return numbers

    # ---- on the host ---------------------------------------------------------------------------

    def trees(self, numbers: Numbers) -> list[GrownTree]:
        """Copy the grown trees to the host, which finishes them."""
        host, n = self._runtime.to_host, self.n_trees
        table, starts = host(numbers.table), host(self._starts)
        order = host(numbers.order)
        stored = int(host(self.nodes.size)[0])
        names = [name for name in vars(self.nodes) if name != "size"]
        columns = {name: host(getattr(self.nodes, name)[:stored]) for name in names}
        grown = []
        for tree, (first, end) in enumerate(pairwise(table[0, : n + 1].tolist())):
            at = self._node_capacity.first_node(tree, int(starts[tree]))
            grown.append(self._grown(columns, order[at : at + end - first]))
        return grown

    def _grown(self, columns: dict[str, np.ndarray], order: np.ndarray) -> GrownTree:
        own = {name: column[order] for name, column in columns.items() if len(column)}
        inner = own["left"] > 0
        own.setdefault("draw", np.full(len(order), np.nan))
        own["count"] = own["count"].astype(np.int64)
        own["categorical"] = self._task.matrix.mapper.is_categorical[own["feature"]] & inner
        return grown_tree(own)


@dataclass(frozen=True)
class NumberedNodes:
    """The nodes of a batch after the last level.

    Attributes
    ----------
    buffer : NodeBuffer
        The nodes.
    numbers : Numbers
        Numbers of the nodes.
    leaf : int32 (places,) or None
        Place of the leaf that contains each node: the node itself, or an ancestor if splits were
        undone. None unless growth is best first.
    finished : Finished or None
        The finished trees; None if they are finished by the host or by their round.
    """

    buffer: NodeBuffer
    numbers: Numbers
    leaf: Array | None
    finished: Finished | None = None

    def trees(self) -> list[GrownTree]:
        """Copy the grown trees to the host, which finishes them."""
        return self.buffer.trees(self.numbers)


def _kind_of_sums(target: Target, leaf: LeafColumns | None) -> tuple[int, int]:
    """Return the constant of node_buffer.cu for the kind of leaf sums, and the number of sums."""
    kind, n_sums = "OF_SECOND_CLASS" if target.n_channels == 1 else "OF_CLASSES", target.n_classes
    if leaf is not None:
        kind = "LEAF_SUMS"
        n_sums = target.n_sums if isinstance(target, MedianTarget) else leaf.n_sums
    return constant("growth/node_buffer.cu", kind), n_sums


def table_shape(n_trees: int) -> tuple[int, int]:
    """Shape of `Numbers.table`."""
    return 3, n_trees + 1


def max_rows_of_tree(task: GrowTask) -> int:
    """Largest number of rows of a tree."""
    return task.matrix.n_samples if task.sampler is None else task.sampler.max_rows


def check_places(task: GrowTask) -> None:
    """Check that int32 can number the nodes of each tree.

    Raises
    ------
    ValueError
        If a tree could have more nodes than int32 can number.
    """
    rows, options = max_rows_of_tree(task), task.options
    if has_places(task, 1, rows):
        return
    limits = ("max_depth", "max_leaf_nodes", "min_samples_leaf")
    given = ((name, getattr(options, name)) for name in limits)
    shown = ", ".join(f"{name}={'None' if x == NO_LIMIT else x}" for name, x in given)
    nodes = max_stored_nodes(1, rows, options, rows)
    raise ValueError(
        f"a tree of {rows:,} rows with {shown} could have {nodes:,} nodes; a GPU can grow at "
        f"most {MAX_PLACES:,}. Set max_depth, increase min_samples_leaf, use fewer rows, or use "
        'device="cpu"'
    )


def has_places(task: GrowTask, n_trees: int, n_rows: int) -> bool:
    """Whether int32 can number the nodes of ``n_trees`` trees with ``n_rows`` rows together."""
    return max_stored_nodes(n_trees, n_rows, task.options, max_rows_of_tree(task)) <= MAX_PLACES


def max_stored_nodes(n_trees: int, n_rows: int, options: TreeOptions, tree_rows: int) -> int:
    """Largest number of stored nodes of ``n_trees`` trees with ``n_rows`` rows together.

    Each tree has at most ``tree_rows`` rows. The rows of leaves and the depth limit the number.
    With ``max_leaf_nodes``, the number includes the nodes of splits that are undone.
    """
    unlimited = replace(options, max_leaf_nodes=NO_LIMIT)
    by_rows = NodeCapacity.of(unlimited, tree_rows).first_node(n_trees, n_rows)
    if options.max_leaf_nodes == NO_LIMIT:
        return by_rows
    by_levels, depth = n_trees, 0
    while depth < options.deepest and by_levels < by_rows:
        by_levels += 2 * n_trees * min(2**depth, options.max_splits(depth))
        depth += 1
    return min(by_levels, by_rows)
