"""Counting of values by radix cells: the compiled form of `data.cell_counters.ColumnCounter`."""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.numba.compiler import bits_of, entry, inlined
from gpuboost.data.cell_counters import CellPaths, ColumnCounter
from gpuboost.data.radix_cells import MISSING_KEY

_SIGN = np.uint64(1 << 63)
_BELOW_LEADING = np.uint64(48)
_BLOCK = 1 << 15  # rows whose cells are found together
_NO_COUNTS = np.empty(0, dtype=np.int64)


@inlined
def key_of(value):
    """The key of a value, as `keys_of` computes it."""
    x = np.float64(value) + 0.0
    bits = bits_of(x)
    key = np.uint64(bits) ^ (np.uint64(bits >> 63) | _SIGN)
    return key if x == x else MISSING_KEY


@entry
def find_leading(column, cell):
    """Write the cell of each value in pass 1 to ``cell`` (n,)."""
    for i in range(len(column)):
        cell[i] = np.uint32(key_of(column[i]) >> _BELOW_LEADING)


@entry
def follow_paths(column, shift, offset, cell):
    """Move the values of a column along the paths of their cells."""
    for i in range(len(column)):
        before = np.uint32(cell[i])
        cell[i] = np.uint32((key_of(column[i]) >> shift[before]) + offset[before])


@entry
def add_weights(cell, counts, weight):
    """Add the weight of each value to that of its cell; without ``counts``, each weighs 1."""
    if len(counts) > 0:
        for i in range(len(cell)):
            weight[np.uint32(cell[i])] += counts[i]
    else:
        for i in range(len(cell)):
            weight[np.uint32(cell[i])] += 1


@entry
def find_rows(cell, is_chosen, rows):
    """Write the rows of the values of some cells to ``rows`` (n,); return their number."""
    n = 0
    for i in range(len(cell)):
        rows[n] = i
        n += is_chosen[np.uint32(cell[i])]
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

    def write_codes(self, code_of_cell: np.ndarray, codes: np.ndarray) -> None:
        """Write the code of each value's cell."""
        take_codes(code_of_cell, self._cell, codes)

    def _count_leading(self, weight: np.ndarray) -> None:
        """Find the cell of each value in pass 1, and add weights."""
        for rows, counts in self._blocks(self._cell, self._counts):
            find_leading(self._column[rows], self._cell[rows])
            add_weights(self._cell[rows], counts, weight)

    def _find_rows(self, is_chosen: np.ndarray) -> np.ndarray:
        """Rows of the values of some cells."""
        rows = np.empty(len(self._cell), dtype=np.int32)
        return rows[: find_rows(self._cell, is_chosen, rows)].copy()

    def _count_parts(
        self, values: np.ndarray, counts: Any, cell: np.ndarray, paths: CellPaths, weight: Any
    ) -> None:
        """Move values along the paths of their cells, and add weights."""
        for rows, own in self._blocks(cell, counts):
            follow_paths(values[rows], paths.shift, paths.offset, cell[rows])
            add_weights(cell[rows], own, weight)

    def _find_extremes(
        self, values: Any, slots: Any, cell: Any, smallest: np.ndarray, largest: np.ndarray
    ) -> None:
        """Find the smallest and the largest key of the values in each slot."""
        find_extremes(values, slots, cell, smallest, largest)

    @staticmethod
    def _blocks(cell: np.ndarray, counts: Any) -> Any:
        """Yield slices of rows whose cells stay in the cache, and the weights of these rows."""
        for start in range(0, len(cell), _BLOCK):
            rows = slice(start, start + _BLOCK)
            yield rows, _NO_COUNTS if counts is None else counts[rows]
