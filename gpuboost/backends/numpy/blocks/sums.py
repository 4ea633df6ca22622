"""Passes over chunks of codes: adding rows to histograms, and sending rows to children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpuboost.backends.numpy.groups import dense_histogram
from gpuboost.backends.numpy.rows import RowBlock

CLOSED = -1  # node of a row that is in no open node


@dataclass(frozen=True)
class ChunkRows:
    """The rows of a block that are added to histograms, for one tree.

    Attributes
    ----------
    place : uint32 (r,)
        Position of each row in the block; the rows of a histogram are contiguous.
    starts : int64 (slots + 1,)
        First of the rows of each histogram, then r.
    block : RowBlock
        Weights, gradients or classes of the rows.
    """

    place: np.ndarray
    starts: np.ndarray
    block: RowBlock


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
    """The passes over rows, which Numba compiles.

    Attributes
    ----------
    cell : int
        Number of int64 of a bin in histograms: P, or more.
    """

    cell: int

    def choose(
        self, node: np.ndarray, slot: np.ndarray, n_slots: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The fields ``place`` and ``starts`` of `ChunkRows`.

        ``node``, int32 (r,), has the nodes of the rows of a block, and ``slot``, int64 (m,), the
        histogram of each node; both are negative where there is none.
        """

    def prepared(self, rows: ChunkRows) -> Any:
        """The rows as `add` takes them."""

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
        self, leaf: np.ndarray, wide: np.ndarray, weight: np.ndarray, sums: np.ndarray
    ) -> None:
        """Add ``wide``, int64 (r, P), times ``weight`` if it is not empty, to the rows of ``sums``.

        ``leaf``, int64 (r,), is the row of ``sums``, negative for none.
        """


class NumpyBlockSums:
    """`BlockSums` in NumPy."""

    def __init__(self, n_channels: int, counted: bool) -> None:
        self._n_channels, self._counted, self.cell = n_channels, counted, 1 + n_channels + counted

    def choose(
        self, node: np.ndarray, slot: np.ndarray, n_slots: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows of each histogram."""
        own = np.where(node >= 0, slot[np.maximum(node, 0)], -1)
        place = np.flatnonzero(own >= 0)
        place = place[np.argsort(own[place], kind="stable")]
        counts = np.bincount(own[place], minlength=n_slots)
        return place.astype(np.uint32), np.append(0, np.cumsum(counts))

    def prepared(self, rows: ChunkRows) -> ChunkRows:
        """The rows themselves."""
        return rows

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
        shape = n_slots, width, self._n_channels
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
        self, leaf: np.ndarray, wide: np.ndarray, weight: np.ndarray, sums: np.ndarray
    ) -> None:
        """Add the rows of leaves."""
        at = np.flatnonzero(leaf >= 0)
        own = wide[at]
        np.add.at(sums, leaf[at], own * weight[at, None] if len(weight) else own)
