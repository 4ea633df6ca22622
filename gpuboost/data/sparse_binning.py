"""Binning of sparse features, with the same bins and codes as those of the dense matrix.

Most columns of a sparse matrix have few distinct values. Their bins are found for all columns
together, by sorting the stored entries. The other columns are made dense, a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from gpuboost.backends.compiling import parallel
from gpuboost.data.binning import learn_bins
from gpuboost.data.cell_counters import ColumnCounter
from gpuboost.data.quantiles import Floats
from gpuboost.data.sparse_features import SparseFeatures
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule, SparseCodes

_DENSE_COLUMNS_BYTES = 1 << 25  # of columns of many values that are made dense together

_MAX_BLOCK_VALUES = 1 << 32

ColumnNumbers = NDArray[np.intp]


def learn_sparse_bins(
    X: SparseFeatures,
    rule: BinRule,
    n_threads: int = 1,
    counter: type[ColumnCounter] = ColumnCounter,
) -> BinMapper:
    """Learn the bins of numeric features as `data.binning.learn_bins` does."""
    if rule.weights is not None:
        rule = replace(rule, weights=copy_to_host(rule.weights))
    entries = csc_array(X.matrix)
    n_rows, n_columns = X.shape
    blocks = _column_blocks(entries, _block_count(n_rows, n_columns, entries.nnz, n_threads))
    found = parallel(lambda block: _distinct_values(block, rule), blocks, n_threads)
    column, values, n_values = (np.concatenate(own) for own in zip(*found, strict=True))
    is_few = n_values <= rule.max_bins
    n_bins = np.where(is_few, n_values, 0).astype(np.int32)
    parts = _many_valued(X, np.flatnonzero(~is_few), rule, n_threads, counter)
    if not parts:
        return BinMapper(n_bins, values, values, rule.is_categorical)
    few_values = values[is_few[column]]
    low, high = [few_values], [few_values]
    source = [np.repeat(np.flatnonzero(is_few), n_bins[is_few])]  # column of each bin
    for features, mapper in parts:
        n_bins[features] = mapper.n_bins
        source.append(np.repeat(features, mapper.n_bins))
        low.append(mapper.lowest)
        high.append(mapper.highest)
    order = np.argsort(np.concatenate(source), kind="stable")
    lowest, highest = (np.concatenate(own)[order] for own in (low, high))
    return BinMapper(n_bins, lowest, highest, rule.is_categorical)


def _block_count(n_rows: int, n_columns: int, n_entries: int, n_threads: int) -> int:
    """Number of blocks of columns: one for each thread, or more if a block had too many values.

    `_distinct_values` numbers the entries of a block, and a 0 for each of its columns, with 32
    bits. A block can have as many entries as one column more than its share.
    """
    share = _MAX_BLOCK_VALUES - n_rows - n_columns
    return max(n_threads, -(-n_entries // share))


def _column_blocks(entries: csc_array, n_blocks: int) -> Iterator[tuple[int, csc_array]]:
    """Yield the first column and the entries of blocks of columns with about as many entries."""
    bounds = np.arange(n_blocks + 1) * entries.nnz // n_blocks
    ends = np.searchsorted(entries.indptr, bounds[1:-1]).tolist()
    columns = sorted({0, *ends, entries.shape[1]})
    for start, stop in pairwise(columns):
        first, last = entries.indptr[start], entries.indptr[stop]
        own = entries.data[first:last], entries.indices[first:last]
        starts = entries.indptr[start : stop + 1] - first
        yield start, csc_array((*own, starts), shape=(entries.shape[0], stop - start))


def _columns_of(entries: csc_array) -> ColumnNumbers:
    """Column of each stored entry."""
    return np.repeat(np.arange(entries.shape[1]), np.diff(entries.indptr))


def _distinct_values(
    block: tuple[int, csc_array], rule: BinRule
) -> tuple[ColumnNumbers, NDArray[np.float64], NDArray[np.intp]]:
    """Distinct values of the rows of positive weight: columns, values, and numbers per column.

    They are sorted by column, then by value. A column without values gets 0. ``block`` is a result
    of `_column_blocks`.
    """
    start, entries = block
    n_rows, n_columns = entries.shape
    column, values, is_number = _columns_of(entries), entries.data, ~np.isnan(entries.data)
    if rule.weights is not None:
        inside = rule.weights > 0
        n_rows = int(np.count_nonzero(inside))
        kept = inside[entries.indices]
        column, values, is_number = column[kept], values[kept], is_number[kept]
    stored = np.bincount(column, minlength=n_columns)
    n_numbers = np.bincount(column[is_number], minlength=n_columns)
    zero = np.flatnonzero((stored < n_rows) | (n_numbers == 0))
    column = np.concatenate([column[is_number], zero])
    values = np.concatenate([values[is_number], np.zeros(len(zero), values.dtype)])
    # Two sorts of numbers take less time than a sort by two keys.
    by_value = np.argsort(values)
    place = np.empty(len(values), dtype=np.int64)
    place[by_value] = np.arange(len(values))
    key = np.sort((column << 32) | place)
    column, values = key >> 32, values[by_value[key & 0xFFFFFFFF]].astype(np.float64) + 0.0
    is_first = np.ones(len(column), dtype=bool)
    is_first[1:] = (column[1:] != column[:-1]) | (values[1:] != values[:-1])
    column = column[is_first]
    return column + start, values[is_first], np.bincount(column, minlength=n_columns)


def _many_valued(
    X: SparseFeatures,
    features: ColumnNumbers,
    rule: BinRule,
    n_threads: int,
    counter: type[ColumnCounter],
) -> list[tuple[ColumnNumbers, BinMapper]]:
    """Groups of the given columns with their bins, which are learnt from dense columns."""
    found = []
    size = max(1, _DENSE_COLUMNS_BYTES // (X.shape[0] * X.itemsize))
    for start in range(0, len(features), size):
        own = features[start : start + size]
        part = replace(rule, is_categorical=rule.is_categorical[own])
        found.append((own, learn_bins(X.columns(own), part, n_threads, counter)[0]))
    return found


def bin_sparse(X: SparseFeatures, mapper: BinMapper, n_threads: int = 1) -> BinnedMatrix:
    """Bin numeric features as `data.binning.bin_columns` does."""
    entries = csc_array(X.matrix)
    column, n_edges = _columns_of(entries), mapper.n_edges.astype(np.int32)
    first = (np.cumsum(n_edges) - n_edges).astype(np.int32)
    edges, code = np.append(mapper.all_edges, np.inf), np.empty(entries.nnz, dtype=np.uint8)

    def count(part: slice) -> None:
        own = column[part]
        code[part] = _count_edges_below(entries.data[part], edges, first[own], n_edges[own])

    size = -(-entries.nnz // n_threads) or 1
    parallel(count, [slice(at, at + size) for at in range(0, entries.nnz, size)], n_threads)
    missing = np.isnan(entries.data)
    code[missing] = mapper.missing_code
    every = np.zeros(X.shape[1], X.dtype)
    zero_code = _count_edges_below(every, edges, first, n_edges)
    kept = code != zero_code[column]
    start = np.append(0, np.cumsum(np.bincount(column[kept], minlength=X.shape[1])))
    rows = entries.indices[kept].astype(np.uint32)
    codes = SparseCodes(start, rows, code[kept], zero_code, len(X))
    return BinnedMatrix(codes, mapper, np.bincount(column[missing], minlength=X.shape[1]))


def _count_edges_below(
    values: Floats, edges: NDArray[np.float64], first: NDArray[np.int32], n_edges: NDArray[np.int32]
) -> NDArray[np.uint8]:
    """Number of edges below each value among ``edges[first : first + n_edges]``.

    The numbers are found bit by bit: all values take each step of the search together. ``edges``
    has one more element.
    """
    below = np.zeros(len(values), dtype=np.int32)
    step = 1 << int(n_edges.max(initial=0)).bit_length() >> 1
    while step:
        at = below + (step - 1)
        is_above = at < n_edges
        is_above &= edges[np.minimum(first + at, len(edges) - 1)] < values
        below += step * is_above
        step >>= 1
    return below.astype(np.uint8)
