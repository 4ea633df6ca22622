"""Counting of values by radix cells: the compiled form of `data.cell_counters.ColumnCounter`."""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import bits_of, entry, inlined
from gpuboost.backends.numba.sorting import CompiledSorter
from gpuboost.data.cell_counters import CellValues, ColumnCounter
from gpuboost.data.radix_cells import MISSING_KEY

_SIGN = np.uint64(1 << 63)
_BELOW_LEADING = np.uint64(48)
# Rows whose cells are found, and counted while they are in the cache. Loops over slices of so many
# rows are vectorised; a range from the first row of a block takes 2.6 times as long.
_BLOCK = 1 << 15
_NO_COUNTS = np.empty(0, dtype=np.int64)


@inlined
def key_of(value):
    """The key of a value, as `keys_of` computes it."""
    x = np.float64(value) + 0.0
    bits = bits_of(x)
    key = np.uint64(bits) ^ (np.uint64(bits >> 63) | _SIGN)
    return key if x == x else MISSING_KEY


@inlined
def _add_weights(cell, counts, weight):
    """Add the weight of each value to that of its cell; without ``counts``, each weighs 1."""
    if len(counts) > 0:
        for i in range(len(cell)):
            weight[np.uint32(cell[i])] += counts[i]
    else:
        for i in range(len(cell)):
            weight[np.uint32(cell[i])] += 1


@entry
def find_leading(column, counts, cell, weight):
    """Write the cell of each value in pass 1 to ``cell`` (n,), and add weights."""
    for start in range(0, len(column), _BLOCK):
        values, own = column[start : start + _BLOCK], cell[start : start + _BLOCK]
        for i in range(len(values)):
            own[i] = np.uint32(key_of(values[i]) >> _BELOW_LEADING)
        _add_weights(own, counts[start : start + _BLOCK], weight)


@entry
def follow_paths(column, counts, shift, offset, cell, weight):
    """Move the values of a column along the paths of their cells, and add weights."""
    for start in range(0, len(column), _BLOCK):
        values, own = column[start : start + _BLOCK], cell[start : start + _BLOCK]
        for i in range(len(values)):
            before = np.uint32(own[i])
            own[i] = np.uint32((key_of(values[i]) >> shift[before]) + offset[before])
        _add_weights(own, counts[start : start + _BLOCK], weight)


@entry
def find_covered(column, cell, is_covered, rows, values, cells):
    """Write the rows, values and cells of the values in covered cells; return their number.

    ``rows``, ``values`` and ``cells`` have the length of the column.
    """
    n = np.uint32(0)
    for i in range(len(cell)):
        if is_covered[np.uint32(cell[i])]:
            rows[n], values[n], cells[n] = i, column[i], cell[i]
            n += np.uint32(1)
    return n


@entry
def find_extremes(column, slots, cell, smallest, largest):
    """Find the smallest and the largest key of the values in each slot."""
    for i in range(len(column)):
        slot = np.uint32(slots[np.uint32(cell[i])])
        key = key_of(column[i])
        smallest[slot] = min(smallest[slot], key)
        largest[slot] = max(largest[slot], key)


@entry
def take_codes(code_of_cell, cell, codes):
    """Write the code of each value's cell to ``codes`` (n,)."""
    for i in range(len(cell)):
        codes[i] = code_of_cell[np.uint32(cell[i])]


class CompiledColumnCounter(ColumnCounter):
    """A `ColumnCounter` whose passes are compiled."""

    sorter = CompiledSorter

    # Memory for rows, values and cells. All columns have one type.
    _found: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def write_codes(self, code_of_cell: np.ndarray, codes: np.ndarray) -> None:
        """Write the code of each value's cell."""
        take_codes(code_of_cell, self._cell, codes)

    def _count_leading(self, own: CellValues) -> None:
        """Find the cell of each value in pass 1, and add weights."""
        find_leading(own.values, _counts_of(own), own.cell, self._tables.weight)

    def _count_parts(self, own: CellValues) -> None:
        """Move values to the parts of their cells, and add weights."""
        paths = self._tables.shift, self._tables.offset
        follow_paths(own.values, _counts_of(own), *paths, own.cell, self._tables.weight)

    def _find_covered(self, own: CellValues) -> CellValues:
        """Return the values of the cells that are covered, or all values if these are not few."""
        if self._found is None:
            n = len(own.cell)
            self._found = np.empty(n, np.int32), np.empty_like(own.values), np.empty(n, np.int32)
        n = find_covered(own.values, own.cell, self._tables.is_covered, *self._found)
        if 2 * n >= len(own.cell):
            return own
        rows, values, cell = (each[:n] for each in self._found)
        return CellValues(values, None if own.counts is None else own.counts[rows], cell, rows)

    def _find_extremes(self, own: CellValues, smallest: np.ndarray, largest: np.ndarray) -> None:
        """Find the smallest and the largest key of the values in each slot."""
        find_extremes(own.values, self._tables.slot, own.cell, smallest, largest)


def _counts_of(own: CellValues) -> np.ndarray:
    """The weights of values in the form that compiled code takes."""
    return _NO_COUNTS if own.counts is None else own.counts
