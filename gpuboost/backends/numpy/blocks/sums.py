"""Passes over chunks of codes: adding rows to histograms, and sending rows to children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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
    """The passes over rows, which Numba compiles."""

    def choose(
        self, node: np.ndarray, slot: np.ndarray, n_slots: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The fields ``place`` and ``starts`` of `ChunkRows`.

        ``node``, int32 (r,), has the nodes of the rows of a block, and ``slot``, int64 (m,), the
        histogram of each node; both are negative where there is none.
        """

    def add(
        self, codes: np.ndarray, first: int, rows: Sequence[ChunkRows], histogram: np.ndarray
    ) -> None:
        """Add the rows of all trees to ``histogram``, int64 (F, slots, width, P).

        ``codes`` are those of the features from ``first``. The P planes are those of
        `groups.dense_histogram`.
        """

    def route(
        self, codes: np.ndarray, column: np.ndarray, step: np.ndarray, node: np.ndarray
    ) -> None:
        """Replace the nodes of rows, int32 (r,), by their children, or by `CLOSED`.

        ``column`` is the row of ``codes`` with the feature of each node's split, -1 without one.
        """


class NumpyBlockSums:
    """`BlockSums` in NumPy."""

    def __init__(self, n_channels: int) -> None:
        self._n_channels = n_channels

    def choose(
        self, node: np.ndarray, slot: np.ndarray, n_slots: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows of each histogram."""
        own = np.where(node >= 0, slot[np.maximum(node, 0)], -1)
        place = np.flatnonzero(own >= 0)
        place = place[np.argsort(own[place], kind="stable")]
        counts = np.bincount(own[place], minlength=n_slots)
        return place.astype(np.uint32), np.append(0, np.cumsum(counts))

    def add(
        self, codes: np.ndarray, first: int, rows: Sequence[ChunkRows], histogram: np.ndarray
    ) -> None:
        """Add rows to histograms, tree by tree and feature by feature."""
        _, n_slots, width, planes = histogram.shape
        shape, counted = (n_slots, width, self._n_channels), planes > 1 + self._n_channels
        for own in rows:
            base = np.repeat(np.arange(n_slots) * width, np.diff(own.starts))
            for feature, column in enumerate(codes, first):
                key = base + column.take(own.place)
                found = dense_histogram(own.block, key, shape, counted)
                histogram[feature] += np.moveaxis(found, 0, 2)

    def route(
        self, codes: np.ndarray, column: np.ndarray, step: np.ndarray, node: np.ndarray
    ) -> None:
        """Replace the nodes of rows by their children."""
        at = np.flatnonzero(node >= 0)
        own = node[at]
        place = column[own]
        moved = step[own, codes[np.maximum(place, 0), at]]
        node[at] = np.where(place >= 0, moved, CLOSED)
