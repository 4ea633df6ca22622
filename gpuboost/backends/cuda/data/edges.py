"""The bins of columns, found on the device from radix cells (`gpuboost.data.radix_cells`).

All columns are searched together. In each pass, kernels of cells.cu read the matrix once, and the
weights and keys of all columns are copied to the host. There, the search of each column decides
which pass it needs next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.data.features import DeviceFeatures
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.data.binning import ColumnBins, category_bins
from gpuboost.data.cell_counters import no_extremes
from gpuboost.data.radix_cells import N_LEADING, BinCells, CellSplit, Pass, find_bin_cells
from gpuboost.engine.bins import MAX_BINS
from gpuboost.engine.growth.frontier import Array

COUNTED_ROWS = 4096  # largest number of rows that a block counts
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
    counter = _DeviceCounter(runtime, X, counts)
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
    return [_column_bins(found[column], limit) for column, limit in enumerate(max_bins)]


def _column_bins(found: BinCells, max_bins: int | None) -> ColumnBins:
    """Return the bins of a column; those of a categorical one depend on its largest value only."""
    if max_bins is None or len(found.low) == 0:
        return category_bins(float(found.high[-1]) if len(found.high) else 0.0)
    return ColumnBins.between(found.low, found.high)


class _DeviceCounter:
    """Makes the passes of all columns of a matrix, each pass for the columns that need it."""

    def __init__(self, runtime: Runtime, X: DeviceFeatures, counts: Array | None) -> None:
        self._runtime, self._X = runtime, X
        weights = runtime.xp.empty(1, dtype=np.int64) if counts is None else counts
        self._counts = {"counts": weights, "weighted": counts is not None}

    def make_passes(self, needed: dict[int, Pass]) -> dict[int, Any]:
        """Return the results of the passes that columns need."""
        results: dict[int, Any] = {}
        for name in ("leading_weights", "split", "extremes"):
            arguments = {c: each[1] for c, each in needed.items() if each[0] == name}
            if arguments:
                results |= getattr(self, f"_{name}")(arguments)
        return results

    def _leading_weights(self, columns: dict[int, tuple[()]]) -> dict[int, Any]:
        """Return the weights of the cells of pass 1, of all columns; keep those with values."""
        weight = self._runtime.xp.zeros((len(columns), N_LEADING), dtype=np.int64)
        self._launch("count_leading_cells", weight=weight)
        found = self._runtime.to_host(weight)
        del weight  # before the ranks are allocated
        self._tables = [_CellTable.of_leading(own != 0) for own in found]
        ranks = np.concatenate([own.rank for own in self._tables])
        self._counts["rank"] = self._runtime.asarray(ranks)
        return dict(enumerate(found))

    def _split(self, splits: dict[int, tuple[CellSplit]]) -> dict[int, Any]:
        """Split cells; return the weights of their parts."""
        parts = self._joined({column: split.n_parts for column, (split,) in splits.items()})
        cells = {}
        for column, (split,) in splits.items():
            self._tables[column] = self._tables[column].split(split)
            cells[column] = split.n_before + np.arange(split.n_parts)
        weight = self._runtime.xp.zeros(parts.size, dtype=np.int64)
        self._launch("count_cells", weight=weight, **self._upload(cells, parts))
        return parts.cut(self._runtime.to_host(weight))

    def _extremes(self, chosen: dict[int, tuple[np.ndarray]]) -> dict[int, Any]:
        """Return the smallest and the largest key of some cells of each column."""
        cells = {column: own for column, (own,) in chosen.items()}
        keys = self._joined({column: len(own) for column, own in cells.items()})
        smallest, largest = map(self._runtime.asarray, no_extremes(keys.size))
        own = {"smallest": smallest, "largest": largest, **self._upload(cells, keys)}
        self._launch("find_cell_extremes", **own)
        low, high = (keys.cut(self._runtime.to_host(each)) for each in (smallest, largest))
        return {column: (low[column], high[column]) for column in chosen}

    def _joined(self, sizes: dict[int, int]) -> _Joined:
        """Place arrays of some columns one after the other."""
        start, ends = np.full(self._X.n_features, -1, dtype=np.int64), np.cumsum([*sizes.values()])
        start[list(sizes)] = ends - list(sizes.values())
        return _Joined(start, sizes)

    def _upload(self, cells: dict[int, np.ndarray], found: _Joined) -> dict[str, Array]:
        """Copy the tables to the device by which values of some cells find the index of these."""
        starts = self._joined({column: len(self._tables[column].shift) for column in cells})
        shift, offset = np.empty(starts.size, np.uint8), np.empty(starts.size, np.uint32)
        shifts, offsets = starts.cut(shift), starts.cut(offset)
        for column, own in cells.items():
            table = self._tables[column]
            shifts[column][:], offsets[column][:] = table.shift, table.offset
            offsets[column][table.rows_of(own)] = found.start[column] + np.arange(len(own))
        tables = {"start": starts.start, "shift": shift, "offset": offset}
        return {name: self._runtime.asarray(own) for name, own in tables.items()}

    def _launch(self, name: str, **tables: Any) -> None:
        """Launch a kernel over all rows and columns."""
        X = self._X
        *grid, rows = grid_of(self._runtime, X, COUNTED_ROWS)
        given = {**self._counts, **tables, "X": X.values, "rows_per_block": rows}
        launch(self._runtime, name, tuple(grid), X, constants=constants_of(X), **given)


@dataclass(frozen=True, eq=False)
class _CellTable:
    """Where values go from the cells of a column: those of pass 1 with values, then all parts.

    Attributes
    ----------
    rank : int32 (N_LEADING,)
        Row of the table for each cell of pass 1.
    n_leading : int
        Number of cells of pass 1 with values.
    shift, offset : uint8 and uint32 (rows,)
        Tables of cells.cu.
    """

    rank: np.ndarray
    n_leading: int
    shift: np.ndarray
    offset: np.ndarray

    @classmethod
    def of_leading(cls, has_values: np.ndarray) -> _CellTable:
        """Make the table after pass 1."""
        rank = np.cumsum(has_values, dtype=np.int32) - np.int32(1)
        n_leading = int(rank[-1]) + 1
        return cls(rank, n_leading, *_whole(n_leading))

    def rows_of(self, cells: np.ndarray) -> np.ndarray:
        """Rows of the table for some cells, which are of pass 1 or parts."""
        is_leading = cells < N_LEADING
        leading = self.rank[np.where(is_leading, cells, 0)]
        return np.where(is_leading, leading, cells - N_LEADING + self.n_leading)

    def split(self, split: CellSplit) -> _CellTable:
        """Return the table after a split."""
        new = _whole(split.n_parts)
        shift, offset = np.append(self.shift, new[0]), np.append(self.offset, new[1])
        rows, moved = self.rows_of(split.cells), np.uint64(N_LEADING - self.n_leading)
        shift[rows], offset[rows] = split.shift, (split.offset - moved) & _NOT_COUNTED
        return _CellTable(self.rank, self.n_leading, shift, offset)


def _whole(n_cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries of cells that are not split."""
    return np.full(n_cells, _WHOLE, dtype=np.uint8), np.full(n_cells, _NOT_COUNTED, dtype=np.uint32)


@dataclass(frozen=True)
class _Joined:
    """Arrays of some columns, joined to one.

    Attributes
    ----------
    start : int64 (F,)
        Where each column's array begins; -1 for columns without one.
    sizes : dict of int
        Sizes of the arrays by column.
    """

    start: np.ndarray
    sizes: dict[int, int]

    @property
    def size(self) -> int:
        """Size of the joined array."""
        return sum(self.sizes.values())

    def cut(self, joined: np.ndarray) -> dict[int, np.ndarray]:
        """Return the arrays of the columns."""
        starts = {column: int(self.start[column]) for column in self.sizes}
        return {c: joined[first : first + self.sizes[c]] for c, first in starts.items()}


def grid_of(runtime: Runtime, X: DeviceFeatures, max_rows: int) -> tuple[int, int, int]:
    """Numbers of blocks of rows and of features, and rows per block, of kernels with tiles."""
    threads = constant("data/tile.cuh", "BIN_THREADS")
    grid_y = -(-X.n_features * X.itemsize // constant("data/tile.cuh", "BIN_BYTES"))
    share = -(-X.n * grid_y // (4 * runtime.n_multiprocessors))  # if rows are few, use more blocks
    rows = min(max_rows, -(-share // threads) * threads)
    return -(-X.n // rows), grid_y, rows


def constants_of(X: DeviceFeatures) -> dict[str, int]:
    """Compile-time constants of value.cuh for the type of the values in ``X``."""
    return {"DOUBLE": int(X.itemsize == 8)}
