"""The bins of a column, found on the device.

Values are converted to integer keys of the same order, and the array module sorts the keys. Only
the values at the borders of bins are copied to the host. The bins of a categorical feature only
depend on its largest value. An example without weights::

    keys        3  3  5  5  5  9  nan
    last           1        4  5         position of the last key among equal keys
    cumulative     2        5  6         total weight of the rows up to that position
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.cuda.data.features import DeviceFeatures
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.data.binning import ColumnBins, category_bins, value_bins
from gpuboost.engine.growth.frontier import Array


def learn_column(
    runtime: Runtime,
    X: DeviceFeatures,
    feature: int,
    rows: Array | None,
    counts: Array | None,
    max_bins: int | None,
) -> ColumnBins:
    """Find the bins of one column.

    Parameters
    ----------
    runtime : Runtime
    X : DeviceFeatures
    feature : int
        Number of the column.
    rows : int64 (m,), or None for all
        Rows to use.
    counts : int64 (m,), or None
        Integer weights of these rows (`data.quantiles.weighted_rows`); None if all are equal.
    max_bins : int, or None for a categorical feature
        Maximum number of value bins.
    """
    xp = runtime.xp
    keys = _sort_keys(runtime, X, feature, rows)
    missing = np.iinfo(keys.dtype).max
    if max_bins is None:
        largest = xp.where(keys == missing, keys.dtype.type(0), keys).max().reshape(1)
        return category_bins(float(values_of(runtime.to_host(largest))[0]))
    if counts is None:
        keys.sort()
    else:
        order = xp.argsort(keys)
        keys, counts = keys[order], counts[order]
    n_known = int(xp.searchsorted(keys, runtime.asarray(np.array([missing], keys.dtype)))[0])
    is_last = xp.ones(n_known, dtype=bool)
    is_last[:-1] = keys[1:n_known] != keys[: n_known - 1] if n_known else True
    last = xp.flatnonzero(is_last)
    keys = keys[last]
    cumulative = last + 1 if counts is None else xp.cumsum(counts[:n_known])[last]

    def copy_values_to_host(places: np.ndarray) -> np.ndarray:
        return values_of(runtime.to_host(keys[runtime.asarray(places)]))

    return value_bins(copy_values_to_host, cumulative, max_bins, xp)


def _sort_keys(runtime: Runtime, X: DeviceFeatures, feature: int, rows: Array | None) -> Array:
    """Return the sort keys of a column: integers that have the order of its values.

    They have as many bits as the values; the key of missing values is the largest integer.
    """
    n = X.n if rows is None else len(rows)
    keys = runtime.xp.empty(n, dtype=np.int32 if X.itemsize == 4 else np.int64)
    picked = runtime.xp.empty(1, dtype=np.int64) if rows is None else rows
    column = {"x": X.values, "stride": X.row_stride, "start": feature * X.column_stride}
    own = {**column, "row": picked, "picked": rows is not None, "n": n, "keys": keys}
    n_blocks = -(-n // constant("data/bin.cu", "BIN_THREADS"))
    launch(runtime, "sort_keys", n_blocks, constants=constants_of(X), **own)
    return keys


def constants_of(X: DeviceFeatures) -> dict[str, int]:
    """Compile-time constants of value.cuh for the type of the values in ``X``."""
    return {"DOUBLE": int(X.itemsize == 8)}


def values_of(keys: np.ndarray) -> np.ndarray:
    """Convert sort keys, int32 or int64, back to values, float32 or float64."""
    largest = keys.dtype.type(np.iinfo(keys.dtype).max)
    bits = np.where(keys < 0, keys ^ largest, keys)
    return bits.view(np.float32 if keys.itemsize == 4 else np.float64)
