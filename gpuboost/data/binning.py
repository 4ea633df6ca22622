"""Learning the bins of a table, and coding tables with these bins."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuboost.backends.compiling import parallel
from gpuboost.data.cell_counters import ColumnCounter, ColumnSorter, count_cells
from gpuboost.data.quantiles import (
    Floats,
    distinct_sorted,
    distinct_values,
    limit_heavy,
    quantile_cuts,
    weighted_rows,
)
from gpuboost.data.radix_cells import are_distinct
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule

_BLOCK_BYTES = 64  # of a row, copied at once by a thread: neighbouring columns share cache lines
# With more rows, half as many bytes: a fit of 3M x 28 takes 110 MB less, and as long.
_NARROW_ROWS = 1 << 18
_COPIED_ROWS = 1 << 12  # rows copied at once, which stay in the cache
# With fewer rows, threads that sort columns by radix mostly wait for each other in Python: 2,000 x
# 2,000 take 0.12 s with one thread and 0.19 with two (5,000 x 5,000: 0.5 s with either).
_SHARED_ROWS = 8_000
_MISSING_CODE = 255  # until all columns have their bins; codes of values are at most 254
_CODER_BLOCK = 16  # columns coded at once; their bucket tables (64 KiB each) fit 1 MiB of cache
_CODED_ROWS = 1 << 15  # rows coded at once
_MIN_ROWS = 1 << 12  # rows from which a bucket table beats binary search (measured: 3,000)
_DEEPEST_BUCKET = 8  # most edges per bucket; with more, binary search is as fast
_N_BUCKETS = 1 << 16
_HIGH_HALF_INDEX = 1 if sys.byteorder == "little" else 0
# Buckets of negative values are in reverse order, below those of positive values.
_RANK_OF_BUCKET = np.where(
    np.arange(_N_BUCKETS) < _N_BUCKETS // 2,
    np.arange(_N_BUCKETS) + _N_BUCKETS // 2,
    _N_BUCKETS - 1 - np.arange(_N_BUCKETS),
)


# ---- edges --------------------------------------------------------------------------------------


def learn_bins(
    X: Floats,
    rule: BinRule,
    n_threads: int = 1,
    counter: type[ColumnCounter] = ColumnCounter,
    with_codes: bool = False,
) -> tuple[BinMapper, BinnedMatrix | None]:
    """Learn the bins of every column, and bin the matrix if that takes no more passes.

    A numeric column with at most ``rule.max_bins`` distinct values gets a bin for each. Otherwise
    the bins are quantiles of its cells (see `data.radix_cells`): a bin with several distinct values
    has at most ``2 / max_bins`` of the weight. A categorical column gets a bin for each code up to
    its largest. NaN has no bin here.

    Parameters
    ----------
    X : ndarray of float32 or float64 of shape (n_samples, n_features)
        NaN means missing; a categorical column holds category codes. Any strides are allowed.
    rule : BinRule
        With weights, a row of weight k counts as k equal rows, and rows of weight 0 are left out.
        At least one weight is positive.
    n_threads : int
        Number of threads.
    counter : type
        `ColumnCounter`, or a faster class with the same results.
    with_codes : bool
        Whether the binned matrix is needed.

    Returns
    -------
    BinMapper
        The same for float32 values and their float64 copies, and for any row order.
    BinnedMatrix or None
        As by `bin_columns`, if the matrix is needed and has no rows of weight 0, and if it is large
        or its columns are sorted by ``counter.sorter``. Then the cell of each value, or its place
        in the order, gives its code, so X is copied only once.
    """
    n_samples, n_features = X.shape
    rows, counts = (None, None) if rule.weights is None else weighted_rows(rule.weights)
    n_rows = n_samples if rows is None else len(rows)
    is_small, codes = are_distinct(n_rows, counts), None
    sorter = counter.sorter if is_small and counts is None else None
    n_threads = 1 if sorter is not None and n_rows < _SHARED_ROWS else n_threads
    if with_codes and rows is None and (sorter is not None or not is_small):
        codes = np.empty((n_features, n_samples), dtype=np.uint8)
    starts, size = _blocks(n_features, n_rows, X.itemsize, n_threads)
    bins = dict[int, ColumnBins]()
    free = []  # the learner and the columns of each thread
    for _ in range(n_threads):
        own_counter = None if is_small else counter(n_rows, counts)
        own_sorter = None if sorter is None else sorter(n_rows, X.dtype)
        learner = _ColumnLearner(counts, rule.max_bins, own_counter, own_sorter)
        free.append((learner, np.empty((size, n_rows), X.dtype)))

    def learn(start: int) -> None:
        learner, buffer = free.pop()
        columns = buffer[: n_features - start]
        for row in range(0, n_rows, _COPIED_ROWS):
            part = slice(row, row + _COPIED_ROWS)
            picked = part if rows is None else rows[part]
            columns[:, part] = X[picked, start : start + size].T
        for feature, column in enumerate(columns, start):
            own_codes = None if codes is None else codes[feature]
            bins[feature] = learner.learn(column, rule.is_categorical[feature], own_codes)
        free.append((learner, buffer))

    parallel(learn, starts, n_threads)
    mapper = assemble_mapper([bins[feature] for feature in range(n_features)], rule.is_categorical)
    return mapper, None if codes is None else _with_missing(codes, mapper)


def _blocks(n_columns: int, n_rows: int, itemsize: int, n_threads: int) -> tuple[range, int]:
    """First columns and the size of blocks of columns, which keep all threads equally busy."""
    max_size = (_BLOCK_BYTES if n_rows < _NARROW_ROWS else _BLOCK_BYTES // 2) // itemsize
    n_blocks = n_threads * -(-n_columns // (max_size * n_threads))
    size = -(-n_columns // n_blocks)
    return range(0, n_columns, size), size


def _with_missing(codes: NDArray[np.uint8], mapper: BinMapper) -> BinnedMatrix:
    """Give missing values the mapper's code, and count them."""
    n_missing = np.zeros(len(codes), dtype=np.int64)
    for feature, own in enumerate(codes):
        missing = np.flatnonzero(own == _MISSING_CODE)
        own[missing], n_missing[feature] = mapper.missing_code, len(missing)
    return BinnedMatrix(codes, mapper, n_missing)


@dataclass(frozen=True)
class ColumnBins:
    """The bins of one column.

    Attributes
    ----------
    low, high : ndarray of float64 of shape (n_bins,)
        Smallest and largest value of each bin.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def n_bins(self) -> int:
        return len(self.low)


def assemble_mapper(bins: list[ColumnBins], is_categorical: NDArray[np.bool_]) -> BinMapper:
    """Return a mapper with the bins of all columns."""
    n_bins = np.array([own.n_bins for own in bins], dtype=np.int32)
    low, high = (np.concatenate([getattr(own, end) for own in bins]) for end in ("low", "high"))
    return BinMapper(n_bins, low, high, np.array(is_categorical, dtype=bool))


def category_bins(largest: float) -> ColumnBins:
    """Return the bins of a categorical column: one per code up to the largest."""
    codes = np.arange(int(largest) + 1, dtype=np.float64)
    return ColumnBins(codes, codes)


@dataclass(frozen=True, eq=False)
class _ColumnLearner:
    """Learns the bins of columns, one at a time; each thread has its own, with its own buffers.

    Attributes
    ----------
    counts : ndarray of int64 of shape (n_rows,), or None
        Integer weights of the rows.
    max_bins : int
    counter : ColumnCounter, or None
        None if the rows are few; then the bins are found from the distinct values, which
        ``sorter`` or NumPy sorts.
    sorter : ColumnSorter, or None
        Sorts columns of few rows of equal weight.
    """

    counts: NDArray[np.int64] | None
    max_bins: int
    counter: ColumnCounter | None
    sorter: ColumnSorter | None

    def learn(
        self, column: Floats, is_categorical: bool, codes: NDArray[np.uint8] | None
    ) -> ColumnBins:
        """Return the bins of a column, and write its codes if requested."""
        if is_categorical:
            if codes is not None:
                codes[:] = np.where(np.isnan(column), _MISSING_CODE, column)
            return category_bins(np.fmax.reduce(column, initial=0.0))
        if self.sorter is not None:
            return _bins_of_sorted(self.sorter, column, self.max_bins, codes)
        if self.counter is None:
            return _bins_of_values(*distinct_values(column, self.counts), self.max_bins)[0]
        self.counter.start(column)
        found = count_cells(self.counter, self.max_bins)
        if codes is not None:
            self.counter.write_codes(found.codes(_MISSING_CODE), codes)
        return ColumnBins(found.low, found.high) if len(found.low) else category_bins(0.0)


def _bins_of_sorted(
    sorter: ColumnSorter, column: Floats, max_bins: int, codes: NDArray[np.uint8] | None
) -> ColumnBins:
    """Return the bins of a small numeric column, and write its codes if requested."""
    ordered, rows = sorter.sort(column)
    values, n_rows = distinct_sorted(ordered)
    bins, last = _bins_of_values(values, n_rows, max_bins)
    if codes is not None:
        codes[:] = _MISSING_CODE
        sorter.write_codes(rows, n_rows[last], codes)
    return bins


def _bins_of_values(
    values: Floats, cumulative: NDArray[np.int64], max_bins: int
) -> tuple[ColumnBins, NDArray[np.intp]]:
    """Return the bins of a column, from its distinct values, and the last value of each bin."""
    if len(values) == 0:
        return category_bins(0.0), np.zeros(0, dtype=np.intp)
    if len(values) > max_bins:
        first = np.append(0, quantile_cuts(limit_heavy(cumulative, max_bins), max_bins)[0])
    else:
        first = np.arange(len(values))
    last = np.append(first[1:], len(values)) - 1
    low, high = values[first].astype(np.float64) + 0.0, values[last].astype(np.float64) + 0.0
    return ColumnBins(low, high), last


# ---- codes --------------------------------------------------------------------------------------


def bin_columns(X: Floats, mapper: BinMapper, n_threads: int = 1) -> BinnedMatrix:
    """Bin a matrix: a value's code is the number of edges below it; category codes are kept.

    NaN and categories without a bin in the mapper get the missing code.

    Parameters
    ----------
    X : ndarray of float32 or float64 of shape (n_samples, n_features)
        NaN means missing; a categorical column holds category codes.
    mapper : BinMapper
        Bins of the features.
    n_threads : int
        Number of threads.

    Returns
    -------
    BinnedMatrix
    """
    n_samples, n_features = X.shape
    codes = np.empty((n_features, n_samples), dtype=np.uint8)
    n_missing = np.zeros(n_features, dtype=np.int64)
    starts = range(0, n_samples, _CODED_ROWS)
    for first in range(0, n_features, _CODER_BLOCK):
        block = range(first, min(first + _CODER_BLOCK, n_features))
        coders = [_column_coder(mapper, feature, X.dtype, n_samples) for feature in block]
        task = partial(_code_chunk, X, mapper, coders, codes, first)
        n_missing[first : block.stop] = np.sum(parallel(task, starts, n_threads), axis=0)
    return BinnedMatrix(codes, mapper, n_missing)


def _code_chunk(
    X: Floats,
    mapper: BinMapper,
    coders: list[Callable[[Floats], NDArray[Any]]],
    codes: NDArray[np.uint8],
    first: int,
    start: int,
) -> list[int]:
    """Code a chunk of rows of some features; return the number of missing codes per feature."""
    rows = slice(start, start + _CODED_ROWS)
    n_missing = []
    columns = np.ascontiguousarray(X[rows, first : first + len(coders)].T)
    for feature, (column, coder) in enumerate(zip(columns, coders, strict=True), first):
        missing = np.isnan(column)
        if mapper.is_categorical[feature]:
            missing |= column >= mapper.n_bins[feature]
            column = np.where(missing, 0, column)
        codes[feature, rows] = coder(column)
        n_missing.append(int(np.count_nonzero(missing)))
        if n_missing[-1]:
            codes[feature, rows][missing] = mapper.missing_code
    return n_missing


def _column_coder(
    mapper: BinMapper, feature: int, dtype: np.dtype[Any], n_samples: int
) -> Callable[[Floats], NDArray[Any]]:
    """Return the coder of a column: a cast for categories, else buckets or binary search."""
    if mapper.is_categorical[feature]:
        return lambda column: column.astype(np.uint8)
    table = mapper.edge_table(dtype)
    edges: Floats = table[feature, : mapper.n_bins[feature] - 1]
    if n_samples >= _MIN_ROWS:
        counts = np.bincount(_RANK_OF_BUCKET[_buckets(edges)], minlength=_N_BUCKETS)
        if counts.max() <= _DEEPEST_BUCKET:
            below = (np.cumsum(counts) - counts).astype(np.uint8)[_RANK_OF_BUCKET]
            padded: Floats = np.append(edges, edges.dtype.type(np.inf))
            return partial(_code_by_buckets, padded, below, int(counts.max()))
    return lambda column: np.searchsorted(edges, column)


def _buckets(values: Floats) -> NDArray[np.uint16]:
    """Return each value's bucket: the 16 leading bits of the nearest float32."""
    with np.errstate(over="ignore", under="ignore"):
        nearest = values.astype(np.float32, copy=False)
    return nearest.view(np.uint16)[_HIGH_HALF_INDEX::2]


def _code_by_buckets(
    edges: Floats, below: NDArray[np.uint8], depth: int, column: Floats
) -> NDArray[np.uint8]:
    """Count the edges below each value: first in lower buckets, then in the value's bucket.

    The ranks of buckets increase with the values, so all edges in lower buckets are below the
    value. The value is then compared with the next `depth` edges, since no bucket has more edges.
    """
    codes = below[_buckets(column)]
    for _ in range(depth):
        codes += column > edges[codes]
    return codes
