"""Passes over the rows of a column, which count its values by radix cells (`data.radix_cells`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpuboost.data.quantiles import Floats
from gpuboost.data.radix_cells import (
    KEY_BITS,
    LEADING_BITS,
    MISSING_KEY,
    N_LEADING,
    BinCells,
    CellSplit,
    Counted,
    Integers,
    Keys,
    find_bin_cells,
    keys_of,
)

_PIECE = 1 << 14  # values whose keys are computed at once


class CellCounter(Protocol):
    """Makes passes over the rows of a column."""

    def count_leading(self) -> Counted:
        """Return the cells of pass 1 with values, and their weights."""

    def split(self, split: CellSplit) -> Counted:
        """Move the values of split cells to their parts; return the parts with values, weighted."""

    def extremes(self, chosen: Integers) -> tuple[Keys, Keys]:
        """Return the smallest and the largest key of each of some cells."""


def count_cells(counter: CellCounter, max_bins: int) -> BinCells:
    """Find the cells of a column and its bins."""
    search, found = find_bin_cells(max_bins), None
    while True:
        try:
            name, arguments = search.send(found)
        except StopIteration as end:
            return end.value
        found = getattr(counter, name)(*arguments)


class CellTables:
    """Tables with an entry for each cell, whose memory is used again for the next column.

    Attributes
    ----------
    n_cells : int
        Number of all cells; later entries are unused.
    shift, offset : ndarray of uint64
        Where values go from each cell: to cell ``(key >> shift) + offset``. This is the same cell
        unless the cell was split.
    weight : ndarray of int64
        Weights added by all passes; the entries of new cells start at 0.
    is_covered : ndarray of bool
        Whether `ColumnCounter` knows rows that are the only ones with values in the cell.
    slot : ndarray of int32
        Index of the cell among those whose extremes are found.
    """

    def __init__(self) -> None:
        self.n_cells, n = 0, 2 * N_LEADING
        self.shift, self.offset = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
        self.weight, self.slot = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int32)
        self.is_covered = np.empty(n, dtype=bool)

    def start(self) -> None:
        """Start with the cells of pass 1."""
        self.n_cells = N_LEADING
        self.shift[:N_LEADING], self.offset[:N_LEADING] = KEY_BITS - LEADING_BITS, 0
        self.weight[:N_LEADING], self.is_covered[:N_LEADING] = 0, False

    def split(self, split: CellSplit, is_covered: bool) -> None:
        """Let values go from split cells to their parts, and from there nowhere."""
        self.n_cells = split.n_before + split.n_parts
        if self.n_cells > len(self.shift):
            for name in ("shift", "offset", "weight", "is_covered", "slot"):
                setattr(self, name, np.resize(getattr(self, name), 2 * self.n_cells))
        new = slice(split.n_before, self.n_cells)
        self.shift[split.cells], self.offset[split.cells] = split.shift, split.offset
        n_each = np.append(split.first[1:], self.n_cells)[: len(split.first)] - split.first
        self.shift[new] = np.repeat(split.shift, n_each)
        self.offset[new] = np.repeat(split.offset, n_each)
        self.weight[new], self.is_covered[new] = 0, is_covered

    def cover(self, chosen: Integers) -> None:
        """Set which cells are covered."""
        self.is_covered[: self.n_cells] = False
        self.is_covered[chosen] = True

    def number(self, chosen: Integers) -> None:
        """Number some cells; the others share the next number."""
        self.slot[: self.n_cells] = len(chosen)
        self.slot[chosen] = np.arange(len(chosen))

    def follow(self, keys: Keys, cell: NDArray[np.int32]) -> Integers:
        """Return the cells that keys go to from their cells."""
        return ((keys >> self.shift.take(cell)) + self.offset.take(cell)).view(np.int64)


@dataclass(frozen=True, eq=False)
class CellValues:
    """Values of a column, and their current cells.

    Attributes
    ----------
    values : ndarray of float32 or float64 of shape (n,)
    counts : ndarray of int64 of shape (n,), or None if each weighs 1
    cell : ndarray of int32 of shape (n,)
    rows : ndarray of integers of shape (n,), or slice
        Rows of the column.
    """

    values: Floats
    counts: Integers | None
    cell: NDArray[np.int32]
    rows: NDArray[np.integer[Any]] | slice


class ColumnSorter(Protocol):
    """Sorts the values of columns in memory, one column at a time."""

    def __init__(self, n_rows: int, dtype: np.dtype[Any]) -> None: ...

    def sort(self, column: Floats) -> tuple[Floats, NDArray[np.uint32]]:
        """Return the values, ascending with NaN last, and their rows; valid until the next call."""

    def write_codes(
        self, rows: NDArray[np.uint32], ends: Integers, codes: NDArray[np.uint8]
    ) -> None:
        """Write code b to ``codes[rows[i]]`` for i from ``ends[b - 1]`` to ``ends[b] - 1``."""


class ColumnCounter:
    """A `CellCounter` of columns in memory, one at a time; `start` sets the column.

    Parameters
    ----------
    n_rows : int
        Length of the columns.
    counts : ndarray of int64 of shape (n_rows,), optional
        Positive integer weights, 1 each by default. Their sum is below 2**QUANTILE_WEIGHT_BITS.
    """

    sorter: type[ColumnSorter] | None = None  # a faster sort of small columns
    _all: CellValues
    _covered: CellValues  # with all values of the cells that are covered

    def __init__(self, n_rows: int, counts: Integers | None = None) -> None:
        self._counts = counts
        self._cell = np.empty(n_rows, dtype=np.int32)
        self._tables = CellTables()

    def start(self, column: Floats) -> None:
        """Start with a column: float32 or float64 (n_rows,), contiguous; NaN means missing."""
        self._all = CellValues(column, self._counts, self._cell, slice(None))
        self._covered = self._all
        self._tables.start()

    def count_leading(self) -> Counted:
        """Return the cells of pass 1 with values, and their weights."""
        self._count_leading(self._all)
        return counted(self._tables.weight[:N_LEADING])

    def split(self, split: CellSplit) -> Counted:
        """Move the values of split cells to their parts; return the parts with values, weighted."""
        own = self._values_of(split.cells)
        self._tables.split(split, own is not self._all)
        self._count_parts(own)
        if own is not self._all:
            self._cell[own.rows] = own.cell
        return counted(self._tables.weight[: self._tables.n_cells], split.n_before)

    def extremes(self, chosen: Integers) -> tuple[Keys, Keys]:
        """Return the smallest and the largest key of each of some cells."""
        if not self._tables.is_covered[chosen].all():
            self._tables.cover(chosen)
            self._covered = self._find_covered(self._all)
        self._tables.number(chosen)
        smallest, largest = no_extremes(len(chosen) + 1)  # the last is for other cells
        self._find_extremes(self._covered, smallest, largest)
        return smallest[:-1], largest[:-1]

    def _values_of(self, cells: Integers) -> CellValues:
        """Return values with all those of some cells, as few as are known."""
        return self._covered if self._tables.is_covered[cells].all() else self._all

    def write_codes(self, code_of_cell: NDArray[np.uint8], codes: NDArray[np.uint8]) -> None:
        """Write the code of each value's cell."""
        for piece in _pieces(len(codes)):
            codes[piece] = code_of_cell.take(self._cell[piece])

    def _count_leading(self, own: CellValues) -> None:
        """Find the cell of each value in pass 1, and add weights."""
        for piece in _pieces(len(own.cell)):
            keys = keys_of(own.values[piece])
            cell = (keys >> np.uint64(KEY_BITS - LEADING_BITS)).view(np.int64)
            own.cell[piece] = cell
            np.add.at(self._tables.weight, cell, 1 if own.counts is None else own.counts[piece])

    def _count_parts(self, own: CellValues) -> None:
        """Move values to the parts of their cells, and add weights."""
        for piece in _pieces(len(own.cell)):
            part = self._tables.follow(keys_of(own.values[piece]), own.cell[piece])
            np.add.at(self._tables.weight, part, 1 if own.counts is None else own.counts[piece])
            own.cell[piece] = part

    def _find_covered(self, own: CellValues) -> CellValues:
        """Return the values of the cells that are covered, or all values if these are not few."""
        rows = np.flatnonzero(self._tables.is_covered.take(own.cell))
        if 2 * len(rows) >= len(own.cell):
            return own
        counts = None if own.counts is None else own.counts[rows]
        return CellValues(own.values[rows], counts, own.cell[rows], rows)

    def _find_extremes(self, own: CellValues, smallest: Keys, largest: Keys) -> None:
        """Find the smallest and the largest key of the values in each slot."""
        for piece in _pieces(len(own.cell)):
            keys = keys_of(own.values[piece])
            slot = self._tables.slot.take(own.cell[piece]).astype(np.int64)
            np.minimum.at(smallest, slot, keys)
            np.maximum.at(largest, slot, keys)


def _pieces(n: int) -> list[slice]:
    """Slices of consecutive values that stay in the cache together with their keys."""
    return [slice(start, start + _PIECE) for start in range(0, n, _PIECE)]


def counted(weight: Integers, first: int = 0) -> Counted:
    """Return the cells of positive weight, from ``first`` on, and their weights."""
    cells = first + np.flatnonzero(weight[first:] > 0)
    return cells, weight[cells]


def no_extremes(n_cells: int) -> tuple[Keys, Keys]:
    """Return the smallest and the largest keys of cells without values."""
    return np.full(n_cells, MISSING_KEY), np.zeros(n_cells, dtype=np.uint64)
