"""Row sets of a fit of boosting on the device: targets, weights and raw predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.data.features import DeviceFeatures
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.ensembles.boosting_task import RowSet
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.losses import Loss, Predicted


@dataclass(frozen=True, eq=False)
class DeviceRowSet:
    """One row set of a fit, stored by column; a row has ``columns`` raw predictions.

    Attributes
    ----------
    given : RowSet
        The row set of the task.
    data : uint8 (F, n) or DeviceFeatures
        Codes, or features that are not binned.
    y : float64 (n_outputs, n)
        Targets; for classifiers, one row of class codes.
    raw : float64 (columns, n)
        Raw predictions; a watched row set that is the training rows shares theirs.
    weights : float64 (n,) or None
        Sample weights; None if all are 1.
    """

    given: RowSet
    data: Array | DeviceFeatures
    y: Array
    raw: Array
    weights: Array | None

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.raw.shape[1]

    @property
    def n_outputs(self) -> int:
        """Number of targets of a row."""
        return len(self.y)

    @property
    def n_columns(self) -> int:
        """Number of raw predictions of a row."""
        return len(self.raw)

    def for_user(self, xp: Any, weights: Array | None) -> Predicted:
        """Return the rows as a user-defined loss receives them, in device arrays."""
        y = self.y.T if self.given.y.ndim > 1 else self.y[0]
        if self.given.y.dtype != np.float64:
            y = y.astype(self.given.y.dtype)
        return Predicted(y, xp.ascontiguousarray(self.raw.T), weights)

    @classmethod
    def of(cls, runtime: Runtime, given: RowSet, data: Array | DeviceFeatures) -> DeviceRowSet:
        """Copy a row set to the device, except ``data``, which is already on the device."""
        y = np.asarray(given.y, dtype=np.float64).reshape(len(given.y), -1)
        weights = None if given.weights is None else runtime.asarray(given.weights)
        y, raw = (_columns_of(runtime, host) for host in (y, given.raw))
        return cls(given, data, y, raw, weights)


def _columns_of(runtime: Runtime, host: np.ndarray) -> Array:
    """Copy float64 (n, columns) to the device as (columns, n)."""
    there = runtime.xp.empty(host.shape[::-1], dtype=np.float64)
    runtime.upload(host.T, there)
    return there


@dataclass(frozen=True, eq=False)
class LossKernels:
    """Launches of gradients.cu, compiled for one loss.

    Parameters
    ----------
    runtime : Runtime
    loss : Loss
    """

    runtime: Runtime
    loss: Loss

    def launch(self, name: str, grid: int | tuple[int, ...], *records: Any, **values: Any) -> None:
        """Launch a kernel of gradients.cu."""
        constants = {"FORMULA": max(self.loss.formula, 0)}  # not used for a user-defined loss
        launch(self.runtime, name, grid, *records, constants=constants, **values)


def blocks(n: int) -> int:
    """Number of blocks with one thread for each of n items."""
    return -(-n // constant("common/rounds.cuh", "BOOST_THREADS"))


def optional(name: str, is_there: str, array: Array | None, stand_in: Array) -> dict[str, Any]:
    """Kernel arguments of an optional array: the array or a placeholder, and whether it exists."""
    return {name: stand_in if array is None else array, is_there: array is not None}
