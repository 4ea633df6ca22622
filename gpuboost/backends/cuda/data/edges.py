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
from gpuboost.data.cell_counters import CellPaths, no_extremes
from gpuboost.data.radix_cells import N_LEADING, BinCells, CellSplit, Pass, find_bin_cells
from gpuboost.engine.bins import MAX_BINS
from gpuboost.engine.growth.frontier import Array

ROWS_PER_BLOCK = 4096  # largest number of rows of a block


def learn_columns(
    runtime: Runtime,
    X: DeviceFeatures,
    counts: Array | None,
    max_bins: list[int | None],
    first: int = 0,
) -> list[ColumnBins]:
    """Find the bins of consecutive columns.

    Parameters
    ----------
    runtime : Runtime
    X : DeviceFeatures
    counts : int64 (n,), or None
        Integer weights of the rows, 0 for rows that are left out; None if each counts once.
    max_bins : list of int, or None for a categorical feature
        Maximum number of value bins of each column.
    first : int
        The first column.
    """
    counter = _DeviceCounter(runtime, X, counts, slice(first, first + len(max_bins)))
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
    """Makes the passes of some columns of a matrix, each pass for those that need it."""

    def __init__(
        self, runtime: Runtime, X: DeviceFeatures, counts: Array | None, columns: slice
    ) -> None:
        self._runtime, self._X, self._n_columns = runtime, X, columns.stop - columns.start
        self._paths = [CellPaths.leading() for _ in range(self._n_columns)]
        cell = runtime.xp.empty((self._n_columns, X.n), dtype=np.int32)
        weights = runtime.xp.empty(1, dtype=np.int64) if counts is None else counts
        self._own = {"cell": cell, "counts": weights, "weighted": counts is not None}
        place = {"x_start": columns.start * X.column_stride, "n_features": self._n_columns}
        self._own |= {"X": X.values, **place}

    def make_passes(self, needed: dict[int, Pass]) -> dict[int, Any]:
        """Return the results of the passes that columns need."""
        results: dict[int, Any] = {}
        for name in ("leading_weights", "split", "extremes"):
            arguments = {c: each[1] for c, each in needed.items() if each[0] == name}
            if arguments:
                results |= getattr(self, f"_{name}")(arguments)
        return results

    def _leading_weights(self, columns: dict[int, tuple[()]]) -> dict[int, Any]:
        """Find the cells of pass 1 and their weights, of all columns."""
        weight = self._runtime.xp.zeros((len(columns), N_LEADING), dtype=np.int64)
        self._launch("count_leading_cells", weight=weight)
        return dict(enumerate(self._runtime.to_host(weight)))

    def _split(self, splits: dict[int, tuple[CellSplit]]) -> dict[int, Any]:
        """Move values to the parts of split cells; return the weights of these."""
        paths, n_before = {}, np.zeros(self._n_columns, dtype=np.int32)
        for column, (split,) in splits.items():
            paths[column], self._paths[column] = self._paths[column].split(split)
            n_before[column] = split.n_before
        parts = _Joined.of(self._n_columns, {c: each[0].n_parts for c, each in splits.items()})
        shift = {column: own.shift.astype(np.uint8) for column, own in paths.items()}
        offset = {column: own.offset.astype(np.uint32) for column, own in paths.items()}
        cells = _Joined.of(self._n_columns, {c: len(own) for c, own in shift.items()})
        tables = {"start": cells.start, "n_before": n_before, "begin": parts.start}
        tables |= {"shift": cells.join(shift), "offset": cells.join(offset)}
        weight = self._runtime.xp.zeros(parts.size, dtype=np.int64)
        self._launch("split_cells", weight=weight, **self._upload(tables))
        return parts.cut(self._runtime.to_host(weight))

    def _extremes(self, chosen: dict[int, tuple[np.ndarray]]) -> dict[int, Any]:
        """Find the smallest and the largest key of some cells of each column."""
        asked = _Joined.of(self._n_columns, {c: len(each) for c, (each,) in chosen.items()})
        slots = {column: np.full(len(self._paths[column].shift), -1) for column in chosen}
        for column, (each,) in chosen.items():
            slots[column][each] = asked.start[column] + np.arange(len(each))
        cells = _Joined.of(self._n_columns, {c: len(own) for c, own in slots.items()})
        keys = map(self._runtime.asarray, no_extremes(asked.size))
        own = dict(zip(("smallest", "largest"), keys, strict=True))
        tables = self._upload({"start": cells.start, "slot": cells.join(slots)})
        self._launch("find_cell_extremes", **own, **tables)
        smallest, largest = (asked.cut(self._runtime.to_host(own[name])) for name in own)
        return {column: (smallest[column], largest[column]) for column in chosen}

    def _upload(self, tables: dict[str, np.ndarray]) -> dict[str, Array]:
        """Copy tables to the device."""
        return {name: self._runtime.asarray(own) for name, own in tables.items()}

    def _launch(self, name: str, **tables: Any) -> None:
        """Launch a kernel over all rows and columns."""
        X = self._X
        *grid, rows = grid_of(self._runtime, X, self._n_columns, ROWS_PER_BLOCK)
        given = {**self._own, **tables, "rows_per_block": rows}
        launch(self._runtime, name, tuple(grid), X, constants=constants_of(X), **given)


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

    @classmethod
    def of(cls, n_columns: int, sizes: dict[int, int]) -> _Joined:
        """Place arrays of the given sizes one after the other."""
        start = np.full(n_columns, -1, dtype=np.int64)
        ends = np.cumsum(list(sizes.values()))
        start[list(sizes)] = ends - list(sizes.values())
        return cls(start, sizes)

    @property
    def size(self) -> int:
        """Size of the joined array."""
        return sum(self.sizes.values())

    def join(self, arrays: dict[int, np.ndarray]) -> np.ndarray:
        """Return the joined array."""
        return np.concatenate([arrays[column] for column in self.sizes])

    def cut(self, joined: np.ndarray) -> dict[int, np.ndarray]:
        """Return the arrays of the columns."""
        starts = {column: int(self.start[column]) for column in self.sizes}
        return {c: joined[first : first + self.sizes[c]] for c, first in starts.items()}


def grid_of(
    runtime: Runtime, X: DeviceFeatures, n_columns: int, max_rows: int
) -> tuple[int, int, int]:
    """Numbers of blocks of rows and of columns, and rows per block, of kernels with tiles."""
    threads = constant("data/tile.cuh", "BIN_THREADS")
    grid_y = -(-n_columns * X.itemsize // constant("data/tile.cuh", "BIN_BYTES"))
    share = -(-X.n * grid_y // (4 * runtime.n_multiprocessors))  # if rows are few, use more blocks
    rows = min(max_rows, -(-share // threads) * threads)
    return -(-X.n // rows), grid_y, rows


def constants_of(X: DeviceFeatures) -> dict[str, int]:
    """Compile-time constants of value.cuh for the type of the values in ``X``."""
    return {"DOUBLE": int(X.itemsize == 8)}
