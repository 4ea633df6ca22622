"""A matrix of features on the device, in row-major or column-major order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.engine.growth.frontier import Array

# Largest number of bytes of a part of a host matrix, and of its results, unless one row is larger.
HOST_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class DeviceFeatures:
    """A matrix of features on the device, and its strides.

    Attributes
    ----------
    values : float32 or float64, C-contiguous
        (n, F) or (F, n), values by row or by column; or a part of these, which begins with the
        first value.
    row_stride, column_stride : int
        Number of values from one row, or one column, to the next.
    n, n_features : int
        Numbers of rows and of columns.
    itemsize : int
        Bytes of a value.
    """

    values: Array
    row_stride: int
    column_stride: int
    n: int
    n_features: int
    itemsize: int

    @classmethod
    def of(cls, xp: Any, X: Array) -> DeviceFeatures:
        """Wrap a matrix (n, F); it is copied only if it is neither C- nor F-contiguous."""
        n, n_features = X.shape
        if X.flags.f_contiguous and not X.flags.c_contiguous:
            return cls(X.T, 1, n, n, n_features, X.itemsize)
        return cls(xp.ascontiguousarray(X), n_features, 1, n, n_features, X.itemsize)

    def columns(self, first: int, n_features: int) -> DeviceFeatures:
        """Return some consecutive columns, without a copy."""
        values = self.values.ravel()[first * self.column_stride :]
        return replace(self, values=values, n_features=n_features)


def copy_to_device(runtime: Runtime, X: Array) -> DeviceFeatures:
    """Copy a host matrix to the device; wrap a device matrix (see `DeviceFeatures.of`)."""
    if isinstance(X, runtime.xp.ndarray):
        return DeviceFeatures.of(runtime.xp, X)
    if X.flags.f_contiguous and not X.flags.c_contiguous:
        return DeviceFeatures.of(runtime.xp, runtime.asarray(X.T).T)
    return DeviceFeatures.of(runtime.xp, runtime.asarray(X))


def parts_on_device(
    runtime: Runtime, X: Array, row_bytes: int = 0
) -> Iterator[tuple[slice, DeviceFeatures]]:
    """Yield a device matrix as a whole, or a host matrix in parts of consecutive rows.

    Each item is the slice of a part's rows, and the part on the device. In a host matrix, neither
    the values of a part nor its results, of ``row_bytes`` bytes per row, exceed `HOST_BYTES`,
    unless the part is a single row.
    """
    step = len(X)
    if not isinstance(X, runtime.xp.ndarray):
        step = max(1, HOST_BYTES // max(row_bytes, X.shape[1] * X.itemsize))
    for start in range(0, len(X), step):
        rows = slice(start, min(start + step, len(X)))
        yield rows, copy_to_device(runtime, X[rows])
