"""The bins of columns, found on the device from radix cells (`gpuboost.data.radix_cells`).

Many columns are searched together. In each pass, kernels of cells.cu read their values once, and
the weights and keys of cells that have values are copied to the host. There, the search of each
column decides which pass it needs next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.data.features import DeviceFeatures
from gpuboost.backends.cuda.data.tiles import launch_on_tiles
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.data.binning import ColumnBins, category_bins
from gpuboost.data.radix_cells import (
    MISSING_KEY,
    N_LEADING,
    BinCells,
    CellSplit,
    Pass,
    find_bin_cells,
)
from gpuboost.engine.bins import MAX_BINS
from gpuboost.engine.growth.frontier import Array

COUNTED_ROWS = 4096  # largest number of rows that a block counts
COLUMNS_AT_ONCE = 128  # columns searched together
# Bytes per column of pass 1: the weight of each cell, whether there is one, and a scan of that.
CELLS_BYTES = (8 + 1 + 4) * N_LEADING
_WHOLE, _NOT_COUNTED = 255, np.uint64(2**32 - 1)  # as in cells.cu


def learn_columns(
    runtime: Runtime, X: DeviceFeatures, counts: Array | None, max_bins: list[int | None]
) -> list[ColumnBins]:
    """Find the bins of all columns.

    Parameters
    ----------
    runtime : Runtime
    X : DeviceFeatures
    counts : int64 (n,), or None
        Integer weights of the rows, 0 for rows that are left out; None if each counts once.
    max_bins : list of int, or None for a categorical feature
        Maximum number of value bins of each column.
    """
    bins: list[ColumnBins] = []
    for first in range(0, X.n_features, COLUMNS_AT_ONCE):
        limits = max_bins[first : first + COLUMNS_AT_ONCE]
        counter = _DeviceCounter(runtime, X.columns(first, len(limits)), counts)
        bins += map(_column_bins, _search(counter, limits), limits)
    return bins


def _search(counter: _DeviceCounter, max_bins: list[int | None]) -> list[BinCells]:
    """Find the cells of all columns of a counter, and their bins."""
    searches = [find_bin_cells(limit or MAX_BINS) for limit in max_bins]
    found: dict[int, BinCells] = {}
    waiting = {column: next(search) for column, search in enumerate(searches)}
    while waiting:
        results = counter.make_passes(waiting)
        for column, result in results.items():
            try:
                waiting[column] = searches[column].send(result)
            except StopIteration as end:
                found[column] = end.value
                del waiting[column]
    return [found[column] for column in range(len(searches))]


def _column_bins(found: BinCells, max_bins: int | None) -> ColumnBins:
    """Return the bins of a column; those of a categorical one depend on its largest value only."""
    if max_bins is None or len(found.low) == 0:
        return category_bins(float(found.high[-1]) if len(found.high) else 0.0)
    return ColumnBins(found.low, found.high)


class _DeviceCounter:
    """Makes the passes of all columns of a matrix, each pass for the columns that need it."""

    _tables: list[_CellTable]

    def __init__(self, runtime: Runtime, X: DeviceFeatures, counts: Array | None) -> None:
        self._runtime, self._X = runtime, X
        weights = runtime.xp.empty(1, dtype=np.int64) if counts is None else counts
        self._given = {"counts": weights, "weighted": counts is not None}

    def make_passes(self, needed: dict[int, Pass]) -> dict[int, Any]:
        """Return the results of the passes that columns need."""
        results: dict[int, Any] = {}
        for name in ("count_leading", "split", "extremes"):
            arguments = {c: each[1] for c, each in needed.items() if each[0] == name}
            if arguments:
                results |= getattr(self, f"_{name}")(arguments)
        return results

    def _count_leading(self, columns: dict[int, tuple[()]]) -> dict[int, Any]:
        """Return the cells of pass 1 with values, and their weights, of all columns."""
        xp, cells = self._runtime.xp, self._joined(dict.fromkeys(columns, N_LEADING))
        weight = xp.zeros(cells.size, dtype=np.int64)
        self._launch("count_leading_cells", weight=weight)
        has_values = weight != 0
        found = cells.cut(self._copy_weights(weight, xp.flatnonzero(has_values)))
        has_values = has_values.reshape(len(columns), N_LEADING)
        self._given["rank"] = xp.cumsum(has_values, axis=1, dtype=np.int32)
        self._tables = [_CellTable.of_leading(found[column][0]) for column in columns]
        return found

    def _split(self, splits: dict[int, tuple[CellSplit]]) -> dict[int, Any]:
        """Split cells; return their parts with values, and the weights of these."""
        parts = self._joined({column: split.n_parts for column, (split,) in splits.items()})
        cells = {}
        for column, (split,) in splits.items():
            self._tables[column] = self._tables[column].split(split)
            cells[column] = split.n_before + np.arange(split.n_parts)
        weight = self._runtime.xp.zeros(parts.size, dtype=np.int64)
        self._launch("count_cells", weight=weight, **self._upload(cells, parts))
        found = parts.cut(self._copy_weights(weight, self._runtime.xp.flatnonzero(weight)))
        return {column: (own + splits[column][0].n_before, w) for column, (own, w) in found.items()}

    def _extremes(self, chosen: dict[int, tuple[np.ndarray]]) -> dict[int, Any]:
        """Return the smallest and the largest key of some cells of each column."""
        cells = {column: own for column, (own,) in chosen.items()}
        places = self._joined({column: len(own) for column, own in cells.items()})
        keys = self._runtime.xp.zeros((2, places.size), dtype=np.uint64)
        keys[0].fill(MISSING_KEY)
        tables = self._upload(cells, places)
        self._launch("find_cell_extremes", smallest=keys[0], largest=keys[1], **tables)
        smallest, largest = self._runtime.to_host(keys)
        parts = {c: slice(places.start[c], places.start[c] + n) for c, n in places.sizes.items()}
        return {column: (smallest[own], largest[own]) for column, own in parts.items()}

    def _copy_weights(self, weight: Array, used: Array) -> np.ndarray:
        """Copy to the host, as two rows, some indices and the weights there."""
        return self._runtime.to_host(self._runtime.xp.stack([used, weight[used]]))

    def _joined(self, sizes: dict[int, int]) -> _Joined:
        """Place arrays of some columns one after the other."""
        start, ends = np.full(self._X.n_features, -1, dtype=np.int64), np.cumsum([*sizes.values()])
        start[list(sizes)] = ends - list(sizes.values())
        return _Joined(start, sizes)

    def _upload(self, cells: dict[int, np.ndarray], found: _Joined) -> dict[str, Array]:
        """Copy the tables to the device by which values of some cells find the index of these."""
        starts = self._joined({column: len(self._tables[column].shift) for column in cells})
        shift, offset = np.empty(starts.size, np.uint8), np.empty(starts.size, np.uint32)
        for column, own in cells.items():
            table, first = self._tables[column], starts.start[column]
            rows = slice(first, first + len(table.shift))
            shift[rows], offset[rows] = table.shift, table.offset
            offset[first + table.rows_of(own)] = found.start[column] + np.arange(len(own))
        tables = {"start": starts.start, "shift": shift, "offset": offset}
        return {name: self._runtime.asarray(own) for name, own in tables.items()}

    def _launch(self, name: str, **tables: Any) -> None:
        """Launch a kernel over all rows and columns."""
        launch_on_tiles(self._runtime, name, self._X, COUNTED_ROWS, **self._given, **tables)


@dataclass(frozen=True, eq=False)
class _CellTable:
    """Where values go from the cells of a column: those of pass 1 with values, then all parts.

    Attributes
    ----------
    leading : int64 (k,)
        The cells of pass 1 with values, ascending.
    shift, offset : uint8 and uint32 (rows,)
        Tables of cells.cu.
    """

    leading: np.ndarray
    shift: np.ndarray
    offset: np.ndarray

    @classmethod
    def of_leading(cls, cells: np.ndarray) -> _CellTable:
        """Make the table after pass 1."""
        return cls(cells, *_whole(len(cells)))

    def rows_of(self, cells: np.ndarray) -> np.ndarray:
        """Rows of the table for some cells, which are of pass 1 or parts."""
        rows, is_leading = cells - N_LEADING + len(self.leading), cells < N_LEADING
        rows[is_leading] = np.searchsorted(self.leading, cells[is_leading])
        return rows

    def split(self, split: CellSplit) -> _CellTable:
        """Return the table after a split."""
        new = _whole(split.n_parts)
        shift, offset = np.append(self.shift, new[0]), np.append(self.offset, new[1])
        rows, moved = self.rows_of(split.cells), np.uint64(N_LEADING - len(self.leading))
        shift[rows], offset[rows] = split.shift, (split.offset - moved) & _NOT_COUNTED
        return _CellTable(self.leading, shift, offset)


def _whole(n_cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries of cells that are not split."""
    return np.full(n_cells, _WHOLE, dtype=np.uint8), np.full(n_cells, _NOT_COUNTED, np.uint32)


@dataclass(frozen=True)
class _Joined:
    """Arrays of some columns, joined to one.

    Attributes
    ----------
    start : int64 (F,)
        Where each column's array begins; -1 for columns without one.
    sizes : dict of int
        Sizes of the arrays by column, in ascending order of the columns.
    """

    start: np.ndarray
    sizes: dict[int, int]

    @property
    def size(self) -> int:
        """Size of the joined array."""
        return sum(self.sizes.values())

    def cut(self, found: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Return, by column, what was found in its array: indices in that, and their values.

        The rows of ``found`` are ascending indices in the joined array, and their values.
        """
        starts = self.start[list(self.sizes)]
        parts = np.split(found, np.searchsorted(found[0], starts[1:]), axis=1)
        each = zip(self.sizes, starts, parts, strict=True)
        return {column: (own[0] - start, own[1]) for column, start, own in each}
