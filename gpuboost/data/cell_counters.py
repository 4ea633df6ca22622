"""Passes over the rows of a column, which count its values by radix cells (`data.radix_cells`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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


class ColumnCounter:
    """A `CellCounter` of columns in memory, one at a time; `start` sets the column.

    Parameters
    ----------
    n_rows : int
        Length of the columns.
    counts : ndarray of int64 of shape (n_rows,), optional
        Positive integer weights, 1 each by default. Their sum is below 2**QUANTILE_WEIGHT_BITS.
    """

    _column: Floats
    _paths: CellPaths
    # Rows that are the only ones with values in some cells, and which cells these are.
    _rows: NDArray[np.intp] | None
    _is_covered: NDArray[np.bool_]

    def __init__(self, n_rows: int, counts: Integers | None = None) -> None:
        self._counts = counts
        self._cell = np.empty(n_rows, dtype=np.int32)  # current cell of each value

    def start(self, column: Floats) -> None:
        """Start with a column: float32 or float64 (n_rows,), contiguous; NaN means missing."""
        self._column, self._paths = column, CellPaths.leading()
        self._rows, self._is_covered = None, np.zeros(N_LEADING, dtype=bool)

    def count_leading(self) -> Counted:
        """Return the cells of pass 1 with values, and their weights."""
        weight = np.zeros(N_LEADING, dtype=np.int64)
        self._count_leading(weight)
        return counted(weight)

    def split(self, split: CellSplit) -> Counted:
        """Move the values of split cells to their parts; return the parts with values, weighted."""
        rows = self._rows_of(split.cells)
        before, self._paths = self._paths.split(split)
        is_new = np.full(split.n_parts, rows is not None)
        self._is_covered = np.append(self._is_covered, is_new)
        weight = np.zeros(len(self._is_covered), dtype=np.int64)
        values, counts, cell = self._of(rows)
        self._count_parts(values, counts, cell, before, weight)
        if rows is not None:
            self._cell[rows] = cell
        return counted(weight, split.n_before)

    def extremes(self, chosen: Integers) -> tuple[Keys, Keys]:
        """Return the smallest and the largest key of each of some cells."""
        slots = np.full(len(self._is_covered), len(chosen), dtype=np.int32)
        slots[chosen] = np.arange(len(chosen))
        rows = self._rows_of(chosen)
        if rows is None:
            found = self._find_rows(slots < len(chosen))
            if 2 * len(found) < len(self._cell):
                self._rows, self._is_covered = found, slots < len(chosen)
                rows = found
        smallest, largest = no_extremes(len(chosen) + 1)  # the last is for other cells
        values, _, cell = self._of(rows)
        self._find_extremes(values, slots, cell, smallest, largest)
        return smallest[:-1], largest[:-1]

    def write_codes(self, code_of_cell: NDArray[np.uint8], codes: NDArray[np.uint8]) -> None:
        """Write the code of each value's cell."""
        for piece in _pieces(len(codes)):
            codes[piece] = code_of_cell.take(self._cell[piece])

    def _rows_of(self, chosen: Integers) -> NDArray[np.intp] | None:
        """Return rows with all values of some cells, or None for all rows."""
        return self._rows if self._is_covered[chosen].all() else None

    def _of(self, rows: NDArray[np.intp] | None) -> tuple[Floats, Integers | None, Any]:
        """Return the values, weights and cells of some rows, or of all."""
        if rows is None:
            return self._column, self._counts, self._cell
        counts = None if self._counts is None else self._counts[rows]
        return self._column[rows], counts, self._cell[rows]

    def _count_leading(self, weight: Integers) -> None:
        """Find the cell of each value in pass 1, and add weights."""
        for piece in _pieces(len(self._cell)):
            keys = keys_of(self._column[piece])
            cell = (keys >> np.uint64(KEY_BITS - LEADING_BITS)).view(np.int64)
            self._cell[piece] = cell
            np.add.at(weight, cell, 1 if self._counts is None else self._counts[piece])

    def _find_rows(self, is_chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the rows of the values of some cells."""
        return np.flatnonzero(is_chosen.take(self._cell))

    def _count_parts(
        self,
        values: Floats,
        counts: Integers | None,
        cell: NDArray[np.int32],
        paths: CellPaths,
        weight: Integers,
    ) -> None:
        """Move values along the paths of their cells, and add weights."""
        for piece in _pieces(len(values)):
            part = paths.follow(keys_of(values[piece]), cell[piece])
            np.add.at(weight, part, 1 if counts is None else counts[piece])
            cell[piece] = part

    def _find_extremes(
        self,
        values: Floats,
        slots: NDArray[np.int32],
        cell: NDArray[np.int32],
        smallest: Keys,
        largest: Keys,
    ) -> None:
        """Find the smallest and the largest key of the values in each slot."""
        for piece in _pieces(len(values)):
            slot, keys = slots.take(cell[piece]).astype(np.int64), keys_of(values[piece])
            np.minimum.at(smallest, slot, keys)
            np.maximum.at(largest, slot, keys)


@dataclass(frozen=True, eq=False)
class CellPaths:
    """Where values go from each cell: to cell ``(key >> shift) + offset``.

    A value stays in its cell unless the cell is split.

    Attributes
    ----------
    shift, offset : ndarray of uint64 of shape (n_cells,)
    """

    shift: Keys
    offset: Keys

    @classmethod
    def leading(cls) -> CellPaths:
        """Return the paths from the cells of pass 1, which go nowhere."""
        shift = np.full(N_LEADING, KEY_BITS - LEADING_BITS, dtype=np.uint64)
        return cls(shift, np.zeros(N_LEADING, dtype=np.uint64))

    def split(self, split: CellSplit) -> tuple[CellPaths, CellPaths]:
        """Return the paths to the parts of split cells, and those of all cells afterwards."""
        moved = CellPaths(self.shift.copy(), self.offset.copy())
        moved.shift[split.cells], moved.offset[split.cells] = split.shift, split.offset
        n_each = np.diff(split.first, append=split.n_before + split.n_parts)
        shift = np.append(moved.shift, np.repeat(split.shift, n_each))
        return moved, CellPaths(shift, np.append(moved.offset, np.repeat(split.offset, n_each)))

    def follow(self, keys: Keys, cell: NDArray[np.int32]) -> Integers:
        """Return the cells that keys go to from their cells."""
        return ((keys >> self.shift.take(cell)) + self.offset.take(cell)).view(np.int64)


def _pieces(n: int) -> list[slice]:
    """Slices of consecutive values that stay in the cache together with their keys."""
    return [slice(start, start + _PIECE) for start in range(0, n, _PIECE)]


def counted(weight: Integers, first: int = 0) -> Counted:
    """Return the cells of positive weight, from ``first`` on, and their weights."""
    cells = first + np.flatnonzero(weight[first:])
    return cells, weight[cells]


def no_extremes(n_cells: int) -> tuple[Keys, Keys]:
    """Return the smallest and the largest keys of cells without values."""
    return np.full(n_cells, MISSING_KEY), np.zeros(n_cells, dtype=np.uint64)


class PartsCounter:
    """A `CellCounter` of a column whose rows come in parts; each pass reads all parts anew.

    Parameters
    ----------
    parts : callable
        Returns an iterable of (values, counts or None), as for `ColumnCounter`.
    counter : type
        `ColumnCounter`, or a faster class with the same results.
    """

    def __init__(
        self,
        parts: Callable[[], Iterable[tuple[Floats, Integers | None]]],
        counter: type[ColumnCounter] = ColumnCounter,
    ) -> None:
        self._parts, self._counter = parts, counter
        self._splits: list[CellSplit] = []

    def count_leading(self) -> Counted:
        """Return the cells of pass 1 with values, and their weights."""
        weight = np.zeros(N_LEADING, dtype=np.int64)
        for own in self._counters():
            cells, weights = own.count_leading()
            weight[cells] += weights
        return counted(weight)

    def split(self, split: CellSplit) -> Counted:
        """Move the values of split cells to their parts; return the parts with values, weighted."""
        self._splits.append(split)
        weight = np.zeros(split.n_before + split.n_parts, dtype=np.int64)
        for own in self._counters(self._splits[:-1]):
            cells, weights = own.split(split)
            weight[cells] += weights
        return counted(weight, split.n_before)

    def extremes(self, chosen: Integers) -> tuple[Keys, Keys]:
        """Return the smallest and the largest key of each of some cells."""
        smallest, largest = no_extremes(len(chosen))
        for own in self._counters(self._splits):
            low, high = own.extremes(chosen)
            smallest, largest = np.minimum(smallest, low), np.maximum(largest, high)
        return smallest, largest

    def _counters(self, splits: list[CellSplit] | None = None) -> Iterator[ColumnCounter]:
        """Yield a counter of each part, after pass 1 and some splits unless these are None."""
        for values, counts in self._parts():
            own = self._counter(len(values), counts)
            own.start(values)
            if splits is not None:
                own.count_leading()
                for split in splits:
                    own.split(split)
            yield own
