"""Passes over chunks of codes: adding rows to histograms, and sending rows to children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from gpuboost.backends.numpy.groups import dense_histogram
from gpuboost.backends.numpy.rows import RowBlock, block_of
from gpuboost.engine.targets import Target, TreeRows
from gpuboost.engine.task import GrowTask

CLOSED = -1  # node of a row that is in no open node


@dataclass(frozen=True)
class Pending:
    """The splits of the last level, by which the next pass sends rows to children.

    Attributes
    ----------
    feature : int64 (m,)
        Feature of each node's split, -1 if it has none.
    step : int32 (m, N_CODES)
        Child of each node for each code.
    """

    feature: np.ndarray
    step: np.ndarray


class BlockSums(Protocol):
    """The passes over the rows of a batch of trees, which Numba compiles.

    Attributes
    ----------
    cell : int
        Number of int64 of a bin in histograms: P, or more.
    """

    cell: int

    def rows_of(
        self,
        tree: int,
        rows: slice,
        node: np.ndarray,
        slot: np.ndarray,
        n_slots: int,
        signs: np.ndarray | None,
    ) -> Any:
        """The rows of a block that are added to histograms, as `add` takes them, or None.

        Parameters
        ----------
        tree : int
            Number of the tree in the batch.
        rows : slice
            The rows of the block.
        node : int32 (r,)
            Their nodes.
        slot : int64 (m,)
            Histogram of each node, of ``n_slots``; negative for none, as nodes are.
        signs : int8 (r, K) or None
            For medians, the sign of each row.
        """

    def add(
        self,
        codes: np.ndarray,
        first: int,
        rows: Sequence[Any],
        histogram: np.ndarray,
        n_threads: int,
    ) -> None:
        """Add the rows of all trees to ``histogram``, int64 (F, slots, width, cell).

        ``codes`` are those of the features from ``first``. The first P sums of a bin are the planes
        of `groups.dense_histogram`.
        """

    def route(
        self, codes: np.ndarray, pending: Pending, node: np.ndarray, count: np.ndarray
    ) -> None:
        """Replace the nodes of rows, int32 (r,), by their children, or by `CLOSED`.

        The rows of each child are added to ``count``. ``pending.feature`` is an index into
        ``codes``.
        """

    def add_leaves(
        self,
        node: np.ndarray,
        place: np.ndarray,
        classes: np.ndarray,
        weight: np.ndarray,
        wide: np.ndarray,
        sums: np.ndarray,
    ) -> None:
        """Add the rows of leaves to their sums.

        Parameters
        ----------
        node : int32 (r,)
            Nodes of rows.
        place : int64 (m + 1,)
            Row of ``sums`` of closed rows and of each node, negative for none.
        classes : int32 (r,) or (0,)
            Added to ``place``.
        weight : int32 (r,) or (0,)
            Factor of ``wide``.
        wide : int64 (r, P)
            What is added.
        sums : int64 (s, P)
        """

    def record_leaves(self, node: np.ndarray, number: np.ndarray, found: np.ndarray) -> None:
        """Set ``found``, int32 (r,), to ``number[1 + node]`` where that is not negative."""


def signed_block(
    target: Target, of_tree: TreeRows, rows: slice, place: np.ndarray, signs: np.ndarray | None
) -> RowBlock:
    """The rows at some places of a block; with ``signs``, these are their gradients."""
    block = block_of(target, of_tree, rows.start + place.astype(np.int64))
    if signs is None:
        return block
    return replace(block, gradient=signs[place] * block.hessian[:, None])


@dataclass(frozen=True)
class ChunkRows:
    """The rows of a block that are added to histograms, for one tree.

    Attributes
    ----------
    place : int64 (r,)
        Position of each row in the block; the rows of a histogram are contiguous.
    starts : int64 (slots + 1,)
        First of the rows of each histogram, then r.
    block : RowBlock
        Weights, gradients or classes of the rows.
    """

    place: np.ndarray
    starts: np.ndarray
    block: RowBlock


class NumpyBlockSums:
    """`BlockSums` in NumPy."""

    def __init__(self, task: GrowTask, tree_rows: Sequence[TreeRows]) -> None:
        self._target, self._tree_rows = task.target, tree_rows
        self._counted = task.options.min_samples_leaf > 1
        self.cell = 1 + task.target.n_channels + self._counted

    def rows_of(
        self,
        tree: int,
        rows: slice,
        node: np.ndarray,
        slot: np.ndarray,
        n_slots: int,
        signs: np.ndarray | None,
    ) -> ChunkRows | None:
        """The rows of a block, sorted by their histograms."""
        own = np.where(node >= 0, slot[np.maximum(node, 0)], -1)
        place = np.flatnonzero(own >= 0)
        if not len(place):
            return None
        place = place[np.argsort(own[place], kind="stable")]
        counts = np.bincount(own[place], minlength=n_slots)
        block = signed_block(self._target, self._tree_rows[tree], rows, place, signs)
        return ChunkRows(place, np.append(0, np.cumsum(counts)), block)

    def add(
        self,
        codes: np.ndarray,
        first: int,
        rows: Sequence[ChunkRows],
        histogram: np.ndarray,
        n_threads: int,
    ) -> None:
        """Add rows to histograms, tree by tree and feature by feature."""
        _, n_slots, width, _ = histogram.shape
        shape = n_slots, width, self._target.n_channels
        for own in rows:
            base = np.repeat(np.arange(n_slots) * width, np.diff(own.starts))
            for feature, column in enumerate(codes, first):
                key = base + column.take(own.place)
                found = dense_histogram(own.block, key, shape, self._counted)
                histogram[feature] += np.moveaxis(found, 0, 2)

    def route(
        self, codes: np.ndarray, pending: Pending, node: np.ndarray, count: np.ndarray
    ) -> None:
        """Replace the nodes of rows by their children."""
        at = np.flatnonzero(node >= 0)
        own = node[at]
        place = pending.feature[own]
        moved = pending.step[own, codes[np.maximum(place, 0), at]]
        node[at] = np.where(place >= 0, moved, CLOSED)
        count += np.bincount(moved[place >= 0], minlength=len(count))

    def add_leaves(
        self,
        node: np.ndarray,
        place: np.ndarray,
        classes: np.ndarray,
        weight: np.ndarray,
        wide: np.ndarray,
        sums: np.ndarray,
    ) -> None:
        """Add the rows of leaves to their sums."""
        leaf = place[1 + node]
        at = np.flatnonzero(leaf >= 0)
        leaf, own = leaf[at], wide[at]
        if len(classes):
            leaf = leaf + classes[at]
        np.add.at(sums, leaf, own * weight[at, None] if len(weight) else own)

    def record_leaves(self, node: np.ndarray, number: np.ndarray, found: np.ndarray) -> None:
        """Set the leaves of rows that are in one."""
        leaf = number[1 + node]
        at = np.flatnonzero(leaf >= 0)
        found[at] = leaf[at]
