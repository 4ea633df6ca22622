"""Leaf values that are quantiles of the residuals of their rows: launches of leaf_quantiles.cu.

For the Huber loss, the mean of the residuals' clipped differences from their median is added. The
results equal those of `gpuboost.engine.order_statistics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.boosting.quantiles import GroupedNumbers
from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet, blocks, optional
from gpuboost.backends.cuda.growth.tree_arrays import Finished
from gpuboost.backends.cuda.level.records import DeviceFrontier, Pieces
from gpuboost.backends.cuda.runtime.arrays import Columns, allocate, column, empty
from gpuboost.backends.cuda.runtime.grid import striding_blocks
from gpuboost.backends.cuda.runtime.launch import full, launch, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.losses import LeafRule


class LeafQuantiles:
    """Collects the residuals of the leaves of a round and finds their quantiles.

    Parameters
    ----------
    runtime : Runtime
    rule : LeafRule
        Leaf rule of the loss.
    rows : DeviceRowSet
        The training rows.
    weights : int64 (n,) or None
        Weights from `order_statistics.integer_weights`; None if all are 1.
    capacity : int
        Largest number of leaves of a round, including leaves below splits that best-first growth
        undoes.
    max_rows : int
        Largest number of rows of all trees of a round together.
    """

    def __init__(
        self,
        runtime: Runtime,
        rule: LeafRule,
        rows: DeviceRowSet,
        weights: Array | None,
        capacity: int,
        max_rows: int,
    ) -> None:
        self._runtime, self._rows = runtime, rows
        self._capacity, self._max_rows = capacity, max_rows
        self._quantile_level_of = runtime.asarray(
            np.ascontiguousarray(rule.leaf_quantile_level, dtype=np.float64)
        )
        self._weights = weights
        self._clips = rule.clip_quantile_level is not None

    def begin(self, capacity: int | None = None) -> None:
        """Begin a round; ``capacity`` is a tighter bound on the number of its leaves, if known."""
        xp, runtime, n = self._runtime.xp, self._runtime, self._max_rows
        capacity = self._capacity if capacity is None else min(self._capacity, capacity)
        self._has_offset = zeros(runtime, 1, np.int64)
        counters = zeros(runtime, 2, np.int32)
        max_pieces = n // constant("boosting/quantiles.cuh", "QUANTILE_PIECE") + capacity
        pieces = empty(Pieces, xp, {"n_pieces": counters[1:]}, n=max_pieces)
        key = xp.empty(n, dtype=np.uint64)
        weight = None if self._weights is None else xp.empty(n, dtype=np.int64)
        self._groups = GroupedNumbers.empty(xp, counters[:1], capacity, pieces, key, weight)
        columns: Columns = dict.fromkeys(("node_of", "tree_of"), (np.int32, (capacity,)))
        self._of_groups = allocate(xp, columns)

    def keep_level(
        self, row: Array, frontier: DeviceFrontier, accepted: Array, first: Array, trees: Array
    ) -> None:
        """Keep the residuals of the rows in the leaves of a level.

        Parameters
        ----------
        row : uint32 (rows,)
            Rows of the matrix; the rows of a node are contiguous.
        frontier : DeviceFrontier
        accepted : uint8 (nodes,)
            Nodes that are split; the others are leaves.
        first : int32 (1,)
            Place of the level's first node in the node buffer.
        trees : uint64 (trees,)
            Numbers of the trees.
        """
        given = {"accepted": accepted, **self._by_column(trees)}
        offset = self._offsets(frontier, first, given)
        own = {**self._residuals, **given, "row": row, "offset": offset}
        frontier.pieces.launch(self._runtime, "key_residuals", self._rows, frontier, **own)

    def _offsets(
        self, nodes: DeviceFrontier | _MarkedNodes, first: Array, given: dict[str, Any]
    ) -> Array:
        """Make each leaf of ``nodes`` a group with space for its residuals; return their offsets.

        The offsets of nodes that are split are undefined.
        """
        own, n = self._groups, len(nodes.tree)
        found = {"offset": self._runtime.xp.empty(n, dtype=np.int64), **self._of_groups}
        sizes = {"n_groups": own.size, "n_cut": own.pieces.n_pieces, "first_node": first}
        sizes |= {"n_with_offset": self._has_offset, "quantile_level": own.quantile_level}
        given = {**given, **found, **sizes, "quantile_level_of": self._quantile_level_of}
        launch(self._runtime, "offset_leaves", blocks(n), nodes, own.pieces, **given)
        return found["offset"]

    def _by_column(self, trees: Array) -> dict[str, Any]:
        return {"trees": trees, "trees_per_round": len(self._rows.raw)}

    @property
    def _residuals(self) -> dict[str, Any]:
        """Kernel arguments: weights of rows, and the arrays for residuals and their weights."""
        own = self._groups
        weight = own.below if own.weight is None else own.weight
        weights = optional("weights", "weighted", self._weights, own.below)
        return {**weights, "key": own.key, "weight": weight}

    def keep_traversed(
        self, listed: ListedRows, finished: Finished, missing_code: int, trees: Array
    ) -> None:
        """Keep the residuals of listed rows, grouped by the leaf that each row reaches.

        The rows traverse the finished trees; ``trees`` are the numbers of the trees.
        """
        runtime, xp, n = self._runtime, self._runtime.xp, len(finished.columns["left"])
        nodes = empty(_MarkedNodes, xp, {}, n=n)
        own = {"capacity": n, "left": finished.columns["left"]}
        launch(self._runtime, "mark_leaves", blocks(n), finished, nodes, **own)
        leaf = xp.empty(len(listed.row), dtype=np.int32)
        grid = (striding_blocks(runtime, blocks(self._rows.n)), finished.n_trees)
        given = {"codes": self._rows.data, "missing_code": missing_code, **finished.of_traversal}
        own = {"n": self._rows.n, "leaf": leaf, "count": nodes.count}
        launch(self._runtime, "count_leaves", grid, listed, finished, **given, **own)
        by = {"accepted": nodes.accepted, **self._by_column(trees)}
        offset = self._offsets(nodes, zeros(runtime, 1, np.int32), by)
        by = {**self._residuals, **self._by_column(trees), "leaf": leaf, "offset": offset}
        launch(self._runtime, "key_traversed", grid, self._rows, listed, nodes, **by)

    def finish(
        self,
        trees: Array,
        parameter: Array,
        n_rows: Array,
        rate: Array,
        value: Array,
        places: PlacedLeaves | None = None,
    ) -> None:
        """Write the values of all leaves: quantiles, times the learning rate.

        For the Huber loss, the mean of the residuals' clipped differences from the quantile (their
        median) is added before.

        Parameters
        ----------
        trees : uint64 (trees,)
            Numbers of the trees.
        parameter : float64 (columns,)
            Parameter of the loss: limits on the absolute differences from the quantiles. Read only
            if the leaf rule has a ``clip_quantile_level``.
        n_rows : int64 (1,)
            Number of rows of each tree.
        rate : float64 (1,)
            The learning rate.
        value : float64 (nodes, 1) or (nodes,)
            Array of node values; the values of leaves are written.
        places : PlacedLeaves, optional
            Map from places to nodes; needed if leaves were kept by place in the node buffer.
        """
        xp, runtime, own = self._runtime.xp, self._runtime, self._groups
        node_of, tree_of = self._of_groups["node_of"], self._of_groups["tree_of"]
        if places is not None and places.leaf is not None:
            node_of = self._joined(node_of, places.leaf)
        centre = xp.empty(len(own.quantile_level), dtype=np.float64)
        own.find(runtime, centre)
        largest = zeros(runtime, len(trees), np.uint64)
        sums = zeros(runtime, (len(own.quantile_level) if self._clips else 1, 2), np.int64)
        given = {"centre": centre, "tree_of": tree_of, "largest": largest}
        if self._clips:
            terms = {**given, **own.weights, **self._by_column(trees), "limit": parameter}
            own.pieces.launch(runtime, "largest_terms", own, **terms)
            own.pieces.launch(runtime, "sum_terms", own, **terms, n_rows=n_rows, sums=sums)
        number_of = None if places is None else places.number_of
        given |= {"sums": sums, "n_rows": n_rows, "learning_rate": rate, "clipped": self._clips}
        given |= {"node_of": node_of, **optional("number_of", "placed", number_of, node_of)}
        launch(runtime, "set_leaf_quantiles", blocks(len(centre)), own, **given, value=value)

    def _joined(self, node_of: Array, leaf: Array) -> Array:
        """Merge all groups of a leaf into the first of them; return the node of each group."""
        own, first_of = self._groups, full(self._runtime, len(leaf), 2**31 - 1, np.int32)
        given = {"node_of": node_of, "leaf": leaf, "first_of": first_of}
        launch(self._runtime, "first_groups", blocks(len(own.quantile_level)), own, **given)
        joined = self._runtime.xp.empty(len(own.quantile_level), dtype=np.int32)
        n_blocks = blocks(max(len(own.quantile_level), own.pieces.capacity))
        launch(self._runtime, "join_groups", n_blocks, own, own.pieces, **given, joined=joined)
        return joined


@dataclass(frozen=True, eq=False)
class ListedRows:
    """The rows of all trees, one tree after the other.

    Attributes
    ----------
    row : uint32 (rows,)
        Rows of the matrix.
    start, n_rows : int64 (trees,)
        Offset of each tree's rows in ``row``, and their number.
    """

    row: Array
    start: Array
    n_rows: Array


@dataclass(frozen=True, eq=False)
class _MarkedNodes:
    """Nodes of finished trees in place of a `DeviceFrontier`, for kernel ``offset_leaves``.

    Attributes
    ----------
    size : int32 (1,)
        Number of nodes.
    accepted : uint8 (n,)
        Whether each node is split; the others are leaves.
    tree : int32 (n,)
        Position of each node's tree in the round.
    count, taken : int64 (n,)
        Number of listed rows of each leaf, and how many of their residuals are written.
    """

    size: Array = column(np.int32, 1)
    accepted: Array = column(np.uint8, "n")
    tree: Array = column(np.int32, "n")
    count: Array = column(np.int64, "n")
    taken: Array = column(np.int64, "n")


@dataclass(frozen=True, eq=False)
class PlacedLeaves:
    """Maps places in the node buffer to finished nodes.

    Attributes
    ----------
    number_of : int32 (places,)
        Index of each place's node among the finished nodes of all trees.
    leaf : int32 (places,) or None
        Place of the leaf that contains each node; None unless growth is best first.
    """

    number_of: Array
    leaf: Array | None = None
