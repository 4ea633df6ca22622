"""Bins and codes, computed on the device: bins by `edges`, codes by ``bin_values`` of bin.cu."""

from __future__ import annotations

import numpy as np

from gpuboost.backends.cuda.data.edges import CELLS_BYTES, COLUMNS_AT_ONCE, learn_columns
from gpuboost.backends.cuda.data.features import HOST_BYTES, copy_to_device, parts_on_device
from gpuboost.backends.cuda.data.tiles import launch_on_tiles
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.data.binning import assemble_mapper
from gpuboost.data.quantiles import weighted_rows
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule
from gpuboost.engine.growth.frontier import Array

# Largest number of rows of a block, which copies the edges to shared memory once for all its rows.
ROWS_PER_BLOCK = 4096
ROW_WEIGHT_BYTES = 8  # of a row, if weights differ


def binning_peak(
    n_features: int, n_samples: int, itemsize: int, weighted: bool, budget: int
) -> int:
    """Peak bytes of binning a host matrix within a memory budget (see `fit_bins`)."""
    whole = _peak_of_whole(n_features, n_samples, itemsize, weighted)
    if whole <= budget:
        return whole
    column_bytes = _column_bytes(n_samples, itemsize)
    learning = min(n_features, _columns_within(budget, column_bytes)) * column_bytes
    learning += ROW_WEIGHT_BYTES * n_samples if weighted else 0
    n_values = n_samples * n_features
    return max(learning, n_values + min(n_values * itemsize, HOST_BYTES))  # codes and a part


def _peak_of_whole(n_features: int, n_samples: int, itemsize: int, weighted: bool) -> int:
    """Bytes of a matrix, plus its codes or the weights of rows and cells if these are larger."""
    weights = ROW_WEIGHT_BYTES * n_samples if weighted else 0
    weights += CELLS_BYTES * min(n_features, COLUMNS_AT_ONCE)
    return n_samples * n_features * itemsize + max(n_samples * n_features, weights)


def _column_bytes(n_samples: int, itemsize: int) -> int:
    """Bytes of a column and its cells."""
    return n_samples * itemsize + CELLS_BYTES


def _columns_within(budget: int, column_bytes: int) -> int:
    """Number of columns whose bins are learnt at once if the matrix is copied in parts."""
    return max(1, budget // column_bytes)


def fit_bins(runtime: Runtime, X: Array, rule: BinRule) -> BinnedMatrix:
    """Find the bins of a matrix and compute its codes.

    If a host matrix fits in the memory budget together with the work on it, it is copied to the
    device only once. Otherwise it is copied twice, in parts: for the bins and for the codes.

    Parameters
    ----------
    runtime : Runtime
    X : float32 or float64 (n, F)
        Matrix on the host or on the device.
    rule : BinRule
        Rule for bins, whose weights are on the host or on the device.
    """
    n, n_features = X.shape
    whole = _peak_of_whole(n_features, n, X.itemsize, rule.weights is not None)
    if whole <= runtime.memory_budget():
        features = copy_to_device(runtime, X)
        X = features.values if features.column_stride == 1 else features.values.T
    return bin_matrix(runtime, X, fit_mapper(runtime, X, rule))


def fit_mapper(runtime: Runtime, X: Array, rule: BinRule) -> BinMapper:
    """Find the bins of every column, equal to those of `gpuboost.data.binning.learn_bins`."""
    limits = [None if own else rule.max_bins for own in rule.is_categorical]
    counts = None if rule.weights is None else _counts_of(runtime, rule.weights)
    bins = []
    on_device = isinstance(X, runtime.xp.ndarray)
    step = X.shape[1]
    if not on_device:
        step = _columns_within(runtime.memory_budget(), _column_bytes(len(X), X.itemsize))
    for first in range(0, X.shape[1], step):
        features = copy_to_device(runtime, X[:, first : first + step])
        bins += learn_columns(runtime, features, counts, limits[first : first + step])
    return assemble_mapper(bins, rule.is_categorical)


def _counts_of(runtime: Runtime, weights: Array) -> Array | None:
    """Integer weights of all rows on the device, 0 for rows of weight 0; None if all are equal."""
    rows, counts = weighted_rows(weights)
    if rows is None:
        return None if counts is None else runtime.asarray(counts)
    spread = runtime.xp.zeros(len(weights), dtype=np.int64)
    spread[runtime.asarray(rows)] = 1 if counts is None else runtime.asarray(counts)
    return spread


def bin_matrix(runtime: Runtime, X: Array, mapper: BinMapper) -> BinnedMatrix:
    """Compute, on the device, the codes of a matrix that is on the host or on the device.

    The codes equal those of `gpuboost.data.binning.bin_columns`.
    """
    xp = runtime.xp
    n, n_features = X.shape
    table = mapper.edge_table(X.dtype)
    given = {
        "edges": runtime.asarray(table),
        "n_edges": table.shape[1],
        "n_bins": runtime.asarray(mapper.n_bins.astype(np.int32)),
        "is_categorical": runtime.asarray(mapper.is_categorical.astype(np.uint8)),
        "missing_code": mapper.missing_code,
        "n_total": n,
    }
    codes = xp.empty((n_features, n), dtype=xp.uint8)
    n_missing = xp.zeros(n_features, dtype=xp.int64)
    for rows, part in parts_on_device(runtime, X):
        given |= {"codes": codes, "first": rows.start, "n_missing": n_missing}
        launch_on_tiles(runtime, "bin_values", part, ROWS_PER_BLOCK, **given)
    return BinnedMatrix(codes, mapper, runtime.to_host(n_missing))
