"""Learning the bins of a table, and coding tables with these bins."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuboost.data.quantiles import (
    Floats,
    distinct_values,
    limit_heavy,
    quantile_cuts,
    weighted_rows,
)
from gpuboost.engine.bins import MAX_BINS, BinMapper, BinnedMatrix
from gpuboost.engine.numerics import midpoint

_COLUMN_BLOCK = 4  # columns that a thread copies at once: neighbours share cache lines of X
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


def fit_bin_mapper(
    X: Floats,
    is_categorical: NDArray[np.bool_],
    max_bins: int = MAX_BINS,
    weights: Floats | None = None,
    n_threads: int = 1,
) -> BinMapper:
    """Learn the bins of every column.

    A numeric column with at most `max_bins` distinct values gets a bin for each. Otherwise the bins
    are quantiles: a bin with several distinct values has at most `2 / max_bins` of the weight.
    A categorical column gets a bin for each code up to its largest. NaN has no bin here.

    Parameters
    ----------
    X : ndarray of float32 or float64 of shape (n_samples, n_features)
        NaN means missing; a categorical column holds category codes. Any strides are allowed.
    is_categorical : ndarray of bool of shape (n_features,)
        Mask of the categorical features.
    max_bins : int
        Maximum number of bins per numeric feature, from 2 to `MAX_BINS`.
    weights : ndarray of shape (n_samples,), optional
        A row of weight k counts as k equal rows; rows of weight 0 are left out. At least one weight
        is positive.
    n_threads : int
        Number of threads.

    Returns
    -------
    BinMapper
        The result is the same for float32 values and their float64 copies, and for any row order.
    """
    rows, counts = (None, None) if weights is None else weighted_rows(weights)

    def fit_block(block: slice) -> list[ColumnBins]:
        picked = X[:, block] if rows is None else X[rows, block]
        columns = np.array(picked.T, order="C")  # always a copy, since columns are sorted in place
        return [
            category_bins(np.fmax.reduce(column, initial=0.0))
            if categorical
            else _bins_of_column(column, counts, max_bins)
            for column, categorical in zip(columns, is_categorical[block], strict=True)
        ]

    size = 1 if X.strides[0] == X.itemsize else _COLUMN_BLOCK  # contiguous columns are read singly
    blocks = [slice(start, start + size) for start in range(0, X.shape[1], size)]
    bins = [b for block in _parallel(fit_block, blocks, n_threads) for b in block]
    return assemble_mapper(bins, is_categorical)


@dataclass(frozen=True)
class ColumnBins:
    """The bins of one column.

    Attributes
    ----------
    low, high : ndarray of float64 of shape (n_bins,)
        Smallest and largest value of each bin.
    edges : ndarray of float64 of shape (n_bins - 1,), or (0,) for a categorical column
        Thresholds between neighbouring bins.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    edges: NDArray[np.float64]

    @property
    def n_bins(self) -> int:
        return len(self.low)


def assemble_mapper(bins: list[ColumnBins], is_categorical: NDArray[np.bool_]) -> BinMapper:
    """Return a mapper with the bins of all columns."""
    n_bins = np.array([b.n_bins for b in bins], dtype=np.int32)
    low, high = np.empty((2, len(bins), int(n_bins.max())))
    for feature, b in enumerate(bins):
        low[feature, : b.n_bins], low[feature, b.n_bins :] = b.low, b.low[-1]
        high[feature, : b.n_bins], high[feature, b.n_bins :] = b.high, b.high[-1]
    center = np.where(low < high, midpoint(low, high), low)
    edges = tuple(b.edges for b in bins)
    return BinMapper(edges, n_bins, low, high, center, np.array(is_categorical, dtype=bool))


def _parallel(task: Callable[[Any], Any], items: Iterable[Any], n_threads: int) -> list[Any]:
    """Map over items in a thread pool; the tasks are NumPy calls, which release the GIL."""
    if n_threads == 1:
        return [task(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(task, items))


def category_bins(largest: float) -> ColumnBins:
    """Return the bins of a categorical column: one per code up to the largest."""
    codes = np.arange(int(largest) + 1, dtype=np.float64)
    return ColumnBins(codes, codes, np.empty(0))


def _bins_of_column(column: Floats, counts: NDArray[np.int64] | None, max_bins: int) -> ColumnBins:
    """Return the bins of a contiguous numeric column; an unweighted column is sorted in place."""
    values, cumulative = distinct_values(column, counts)
    return value_bins(values.__getitem__, cumulative, max_bins)


def value_bins(
    values_at: Callable[[NDArray[np.intp]], Floats], cumulative: Any, max_bins: int, xp: Any = np
) -> ColumnBins:
    """Return the bins of a numeric column from its distinct values; without values, one bin for 0.

    Parameters
    ----------
    values_at : callable
        Returns the distinct values at the given positions of their sorted order.
    cumulative : array of int64 of shape (n_distinct,)
        Total weight of the rows up to each distinct value, in an array of the module `xp`.
    max_bins : int
        Maximum number of bins.
    xp : module
        NumPy or CuPy.
    """
    if len(cumulative) == 0:
        return category_bins(0.0)
    if len(cumulative) <= max_bins:
        first = np.arange(len(cumulative))
    else:
        first = np.append(0, quantile_cuts(limit_heavy(cumulative, max_bins, xp), max_bins, xp))
    last = np.append(first[1:], len(cumulative)) - 1
    low = values_at(first).astype(np.float64) + 0.0
    high = values_at(last).astype(np.float64) + 0.0
    return ColumnBins(low, high, midpoint(high[:-1], low[1:]))


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
        n_missing[first : block.stop] = np.sum(_parallel(task, starts, n_threads), axis=0)
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
