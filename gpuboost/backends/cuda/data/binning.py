"""Bins and codes, computed on the device: bins by `edges`, codes by ``bin_values`` of bin.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.cuda.data.edges import constants_of, learn_column
from gpuboost.backends.cuda.data.features import DeviceFeatures, copy_to_device, parts_on_device
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.data.binning import assemble_mapper
from gpuboost.data.quantiles import weighted_rows
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule
from gpuboost.engine.growth.frontier import Array

# Largest number of rows of a block, which copies the edges to shared memory once for all its rows.
ROWS_PER_BLOCK = 4096
# Bytes per row that are allowed for finding the bins of a column, besides X: keys, their order,
# cumulative weights and temporary memory of a sort.
LEARNING_BYTES = 64


def fit_bins(runtime: Runtime, X: Array, rule: BinRule) -> BinnedMatrix:
    """Find the bins of a matrix and compute its codes.

    If a host matrix fits in the memory budget together with the work on one column, it is copied to
    the device only once. Otherwise it is copied twice, in parts: for the bins and for the codes.

    Parameters
    ----------
    runtime : Runtime
    X : float32 or float64 (n, F)
        Matrix on the host or on the device.
    rule : BinRule
        Rule for bins, whose weights are on the host or on the device.
    """
    if X.nbytes + LEARNING_BYTES * len(X) <= runtime.memory_budget():
        features = copy_to_device(runtime, X)
        X = features.values if features.column_stride == 1 else features.values.T
    return bin_matrix(runtime, X, fit_mapper(runtime, X, rule))


def fit_mapper(runtime: Runtime, X: Array, rule: BinRule) -> BinMapper:
    """Find the bins of every column, equal to those of `gpuboost.data.binning.fit_bin_mapper`."""
    is_categorical, capacity = rule.is_categorical, rule.max_bins
    rows, counts = (None, None) if rule.weights is None else weighted_rows(rule.weights)
    rows, counts = (None if a is None else runtime.asarray(a) for a in (rows, counts))
    bins = []
    on_device = isinstance(X, runtime.xp.ndarray)
    step = X.shape[1] if on_device else max(1, runtime.memory_budget() // (2 * X[:, :1].nbytes))
    for first in range(0, X.shape[1], step):
        features = copy_to_device(runtime, X[:, first : first + step])
        bins += [
            learn_column(runtime, features, f, rows, counts, None if categorical else capacity)
            for f, categorical in enumerate(is_categorical[first : first + step])
        ]
    return assemble_mapper(bins, is_categorical)


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
        _code(runtime, part, codes=codes, first=rows.start, n_missing=n_missing, **given)
    return BinnedMatrix(codes, mapper, runtime.to_host(n_missing))


def _code(runtime: Runtime, X: DeviceFeatures, **given: Any) -> None:
    """Compute the codes of some rows of a matrix; ``given`` are the other kernel arguments."""
    threads = constant("data/bin.cu", "BIN_THREADS")
    grid_y = -(-X.n_features * X.itemsize // constant("data/bin.cu", "BIN_BYTES"))
    share = -(-X.n * grid_y // (4 * runtime.n_multiprocessors))  # if rows are few, use more blocks
    rows = min(ROWS_PER_BLOCK, -(-share // threads) * threads)
    grid, own = (-(-X.n // rows), grid_y), {"X": X.values, "rows_per_block": rows}
    launch(runtime, "bin_values", grid, X, constants=constants_of(X), **own, **given)
