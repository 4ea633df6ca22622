"""Counting of values by radix cells: the compiled form of `data.cell_counters.ColumnCounter`."""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.numba.compiler import bits_of, entry, entry_without_counts, inlined, select
from gpuboost.data.cell_counters import ColumnCounter
from gpuboost.data.radix_cells import MISSING_KEY, N_LEADING, CellSplit

_SIGN = np.uint64(1 << 63)
_BELOW_LEADING = np.uint64(48)
BLOCK = 256  # rows whose parts are found together
_NO_COUNTS, _ALL_ROWS = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)


@inlined
def key_of(value):
    """The key of a value, as `keys_of` computes it."""
    x = np.float64(value) + 0.0
    bits = bits_of(x)
    key = np.uint64(bits) ^ (np.uint64(bits >> 63) | _SIGN)
    return key if x == x else MISSING_KEY


@entry_without_counts
def count_leading(column, counts, weight, cell):
    """Write the leading bits of each key to ``cell`` (n,); add weights by them to ``weight``."""
    for i in range(len(column)):
        leading = np.uint32(key_of(column[i]) >> _BELOW_LEADING)
        cell[i] = leading
        weight[leading] += counts[i] if len(counts) > 0 else 1


@entry
def count_parts(column, counts, rows, split, cell):
    """Move values of split cells to their parts; add their weights to those of the parts.

    If there are no ``rows``, all rows are meant. First the parts of a block of rows are found
    together, then their weights are added; the last weight is that of values that do not move.
    """
    weight = split[4]
    part = np.empty(BLOCK, np.uint32)
    n_rows = len(rows) if len(rows) > 0 else len(column)
    for start in range(0, n_rows, BLOCK):
        n = min(BLOCK, n_rows - start)
        if len(rows) > 0:
            for k in range(n):
                part[k] = move_value(column, rows[start + k], split, cell)
        else:
            for k in range(n):
                part[k] = move_value(column, start + k, split, cell)
        for k in range(n):
            row = rows[start + k] if len(rows) > 0 else start + k
            weight[part[k]] += counts[row] if len(counts) > 0 else 1


@inlined
def move_value(column, row, split, cell):
    """Move the value of a row to its part; return the number of the part, the last if unmoved."""
    slots, shift, offset, n_before, weight = split
    before = np.uint32(cell[row])
    slot = slots[before]
    there = np.uint32(max(slot, np.int32(0)))
    own = np.uint32((key_of(column[row]) >> shift[there]) + offset[there])
    cell[row] = select(slot >= 0, own, before)
    return select(slot >= 0, own - n_before, np.uint32(len(weight) - 1))


@entry_without_counts
def find_rows(cell, slots, rows):
    """Write the rows whose cells have slots to ``rows`` (n,); return their number."""
    n = 0
    for i in range(len(cell)):
        rows[n] = i
        n += slots[np.uint32(cell[i])] >= 0
    return n


@inlined
def widen(i, column, cell, slots, extremes):
    """Extend the extremes of a cell with a slot by the value of row ``i``."""
    smallest, largest = extremes
    slot = slots[np.uint32(cell[i])]
    if slot >= 0:
        key = key_of(column[i])
        smallest[slot] = min(smallest[slot], key)
        largest[slot] = max(largest[slot], key)


@entry_without_counts
def find_extremes(column, rows, cell, slots, extremes):
    """Find the smallest and the largest key in each slot; without ``rows``, among all rows."""
    if len(rows) > 0:
        for i in rows:
            widen(i, column, cell, slots, extremes)
    else:
        for i in range(len(column)):
            widen(i, column, cell, slots, extremes)


@entry_without_counts
def take_codes(code_of_cell, cell, codes):
    """Write the code of each value's cell to ``codes`` (n,)."""
    for i in range(len(cell)):
        codes[i] = code_of_cell[np.uint32(cell[i])]


class CompiledColumnCounter(ColumnCounter):
    """A `ColumnCounter` whose passes are compiled."""

    def leading_weights(self) -> np.ndarray:
        """Weights of the cells of pass 1: int64 (N_LEADING,)."""
        weight = np.zeros(N_LEADING, dtype=np.int64)
        count_leading(self._column, self._given_counts, weight, self._cell)
        return weight

    def write_codes(self, code_of_cell: np.ndarray, codes: np.ndarray) -> None:
        """Write the code of each value's cell."""
        take_codes(code_of_cell, self._cell, codes)

    def _find_rows(self, slots: np.ndarray) -> np.ndarray:
        """Rows whose cells have slots."""
        rows = np.empty(len(self._cell), dtype=np.int32)
        return rows[: find_rows(self._cell, slots, rows)].copy()

    def _count_parts(self, split: CellSplit, slots: np.ndarray, rows: Any) -> np.ndarray:
        """Move the values of split cells among the rows; weights of the parts."""
        weight = np.zeros(split.n_parts + 1, dtype=np.int64)
        tables = (slots, split.shift, split.offset, np.uint32(split.n_before), weight)
        rows = _ALL_ROWS if rows is None else rows
        count_parts(self._column, self._given_counts, rows, tables, self._cell)
        return weight[:-1]

    def _find_extremes(
        self, slots: np.ndarray, rows: Any, smallest: np.ndarray, largest: np.ndarray
    ) -> None:
        """Find the smallest and the largest key in each slot among the rows."""
        rows = _ALL_ROWS if rows is None else rows
        find_extremes(self._column, rows, self._cell, slots, (smallest, largest))

    @property
    def _given_counts(self) -> Any:
        """The weights, or an empty array if each row counts once."""
        return _NO_COUNTS if self._counts is None else self._counts
