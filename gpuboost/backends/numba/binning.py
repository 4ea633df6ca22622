"""Binning: a search of the edges for numeric features; threads take chunks of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.compiling import parallel
from gpuboost.backends.numba.common.edges import EdgeTables, count_edges_below, edge_tables
from gpuboost.backends.numba.compiler import entry
from gpuboost.backends.numba.references import by_reference
from gpuboost.backends.numba.threads.map import contiguous, row_chunks
from gpuboost.engine.bins import BinMapper, BinnedMatrix

BINNING_CHUNK = 1 << 14  # rows of one task
BINNING_BLOCK = 256  # rows binned feature by feature, so few that they stay in the L1 or L2 cache


class Coder(NamedTuple):
    """The bin mapper in the form that compiled code takes.

    Attributes
    ----------
    tables : EdgeTables
        The bin edges.
    is_categorical : bool (F,)
        Whether each feature is categorical.
    missing_code : int
        Code of missing values.
    """

    tables: EdgeTables
    is_categorical: np.ndarray
    missing_code: int


@entry
def code_rows(coder, X, start, codes, n_missing, values, found):
    """Bin ``X`` (m, F) into columns of ``codes`` (F, n) from ``start`` on; count missing codes.

    Missing values and unknown categories get the missing code; both are added to ``n_missing``
    (F,). ``values`` and ``found`` are buffers for `BINNING_BLOCK` values and codes.
    """
    tables = coder.tables
    is_categorical, missing_code = coder.is_categorical, coder.missing_code
    n_rows, n_features = X.shape
    for first in range(0, n_rows, BINNING_BLOCK):
        rows = X[first : first + BINNING_BLOCK]
        n, to = np.uint64(rows.shape[0]), np.uint64(start + first)
        for feature in range(np.uint64(n_features)):
            for i in range(n):
                values[i] = rows[i, feature]
            if is_categorical[feature]:
                n_known = tables.n_bins[feature]
                for i in range(n):
                    found[i] = np.int32(values[i]) if values[i] < n_known else missing_code
            else:
                count_edges_below(values, found, n, tables, feature)
            missing = 0
            for i in range(n):
                code = missing_code if values[i] != values[i] else found[i]
                missing += code == missing_code
                codes[feature, to + i] = code
            n_missing[feature] += missing


def bin_matrix(X: np.ndarray, mapper: BinMapper, n_threads: int) -> BinnedMatrix:
    """Bin ``X`` (n, F), with the same result as `data.binning.bin_columns`."""
    n_samples, n_features = X.shape
    tables = edge_tables(mapper.edge_table(X.dtype), mapper.n_bins)
    is_categorical = contiguous(mapper.is_categorical, np.bool_)
    coder = by_reference(Coder(tables, is_categorical, int(mapper.missing_code)))
    codes = np.empty((n_features, n_samples), dtype=np.uint8)

    def code_chunk(rows: slice) -> np.ndarray:
        n_missing = np.zeros(n_features, dtype=np.int64)
        buffers = np.empty(BINNING_BLOCK, X.dtype), np.empty(BINNING_BLOCK, np.int32)
        own = contiguous(X[rows], X.dtype)
        code_rows(coder, own, rows.start, codes, n_missing, *buffers)
        return n_missing

    counts = parallel(code_chunk, row_chunks(n_samples, BINNING_CHUNK), n_threads)
    return BinnedMatrix(codes, mapper, np.sum(counts, axis=0, dtype=np.int64))
