"""Passes over the rows of a column, which count its values by radix cells (`data.radix_cells`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
    Integers,
    Keys,
    find_bin_cells,
    keys_of,
    slots_of,
)

_PIECE = 1 << 14  # values whose keys are computed at once


class CellCounter(Protocol):
    """Makes passes over the rows of a column."""

    def leading_weights(self) -> Integers:
        """Return the weights of the cells of pass 1: (N_LEADING,)."""

    def split(self, split: CellSplit) -> Integers:
        """Move the values of split cells to their parts; return the weights of these."""

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
    counts : ndarray of int64 of shape (n,), optional
        Positive integer weights, 1 each by default. Their sum is below 2**WEIGHT_BITS.
    """

    _column: Floats
    _n_cells: int
    # Rows that are the only ones with values in some cells, and which cells these are.
    _rows: NDArray[np.int32]
    _is_covered: NDArray[np.bool_]

    def __init__(self, n_rows: int, counts: Integers | None = None) -> None:
        self._counts = counts
        self._cell = np.empty(n_rows, dtype=np.int32)  # current cell of each value

    def start(self, column: Floats) -> None:
        """Start with a column: float32 or float64 (n_rows,), contiguous; NaN means missing."""
        self._column, self._n_cells = column, N_LEADING
        self._rows, self._is_covered = np.empty(0, dtype=np.int32), np.zeros(N_LEADING, dtype=bool)

    def leading_weights(self) -> Integers:
        """Return the weights of the cells of pass 1: (N_LEADING,)."""
        weight = np.zeros(N_LEADING, dtype=np.int64)
        for piece in self._pieces(None):
            keys = keys_of(self._column[piece])
            cell = (keys >> np.uint64(KEY_BITS - LEADING_BITS)).view(np.int64)
            np.add.at(weight, cell, 1 if self._counts is None else self._counts[piece])
            self._cell[piece] = cell
        return weight

    def split(self, split: CellSplit) -> Integers:
        """Move the values of split cells to their parts; return the weights of these."""
        slots, rows = slots_of(split.cells, self._n_cells), self._rows_of(split.cells)
        self._n_cells += split.n_parts
        is_covered = np.full(split.n_parts, rows is not None)
        self._is_covered = np.append(self._is_covered, is_covered)
        return self._count_parts(split, slots, rows)

    def extremes(self, chosen: Integers) -> tuple[Keys, Keys]:
        """Return the smallest and the largest key of each of some cells."""
        slots, rows = slots_of(chosen, self._n_cells), self._rows_of(chosen)
        if rows is None:
            found = self._find_rows(slots)
            if 2 * len(found) < len(self._cell):
                self._rows, self._is_covered = found, slots >= 0
                rows = found
        smallest, largest = no_extremes(len(chosen))
        self._find_extremes(slots, rows, smallest, largest)
        return smallest, largest

    def write_codes(self, code_of_cell: NDArray[np.uint8], codes: NDArray[np.uint8]) -> None:
        """Write the code of each value's cell."""
        for piece in self._pieces(None):
            codes[piece] = code_of_cell.take(self._cell[piece])

    def _rows_of(self, chosen: Integers) -> NDArray[np.int32] | None:
        """Return the rows that cover some cells, None for all rows."""
        return self._rows if self._is_covered[chosen].all() else None

    def _find_rows(self, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rows whose cells have slots."""
        return np.flatnonzero(slots.take(self._cell) >= 0).astype(np.int32)

    def _count_parts(
        self, split: CellSplit, slots: NDArray[np.int32], rows: NDArray[np.int32] | None
    ) -> Integers:
        """Move the values of split cells among the rows; return the weights of the parts."""
        weight = np.zeros(split.n_parts, dtype=np.int64)
        for piece in self._pieces(rows):
            slot, is_split = _slots_in(slots, self._cell[piece])
            keys = keys_of(self._column[piece])[is_split]
            part = ((keys >> split.shift.take(slot)) + split.offset.take(slot)).view(np.int64)
            own = 1 if self._counts is None else self._counts[piece][is_split]
            np.add.at(weight, part - split.n_before, own)
            cell = self._cell[piece]
            cell[is_split] = part
            self._cell[piece] = cell
        return weight

    def _find_extremes(
        self,
        slots: NDArray[np.int32],
        rows: NDArray[np.int32] | None,
        smallest: Keys,
        largest: Keys,
    ) -> None:
        """Find the smallest and the largest key in each slot among the rows."""
        for piece in self._pieces(rows):
            slot, is_chosen = _slots_in(slots, self._cell[piece])
            keys = keys_of(self._column[piece])[is_chosen]
            np.minimum.at(smallest, slot, keys)
            np.maximum.at(largest, slot, keys)

    def _pieces(self, rows: NDArray[np.int32] | None) -> Iterator[Any]:
        """Yield slices or arrays of rows that stay in the cache together with their keys."""
        for start in range(0, len(self._cell) if rows is None else len(rows), _PIECE):
            piece = slice(start, start + _PIECE)
            yield piece if rows is None else rows[piece]


def _slots_in(slots: NDArray[np.int32], cell: NDArray[np.int32]) -> tuple[Integers, Any]:
    """Return the slots of those cells that have one, and which these are."""
    found = slots.take(cell)
    has_slot = found >= 0
    if has_slot.all():
        return found.astype(np.int64), slice(None)
    return found[has_slot].astype(np.int64), has_slot


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

    def leading_weights(self) -> Integers:
        """Return the weights of the cells of pass 1: (N_LEADING,)."""
        weight = np.zeros(N_LEADING, dtype=np.int64)
        for own in self._counters():
            weight += own.leading_weights()
        return weight

    def split(self, split: CellSplit) -> Integers:
        """Move the values of split cells to their parts; return the weights of these."""
        self._splits.append(split)
        weight = np.zeros(split.n_parts, dtype=np.int64)
        for own in self._counters(self._splits[:-1]):
            weight += own.split(split)
        return weight

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
                own.leading_weights()
                for split in splits:
                    own.split(split)
            yield own
