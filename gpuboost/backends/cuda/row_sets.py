"""Rows of a fit of boosting on the device: targets, raw predictions, gradients and mean losses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.filling import zeros
from gpuboost.backends.cuda.source import constant
from gpuboost.engine import gradients
from gpuboost.engine.losses import USER, Predicted
from gpuboost.engine.statistics import SUM_BITS, planes_to_float, sum_bits

if TYPE_CHECKING:
    from gpuboost.backends.cuda.features import DeviceFeatures
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.losses import Loss
    from gpuboost.engine.rounds import RowSet

_SUM_BLOCKS = 1 << 10  # of a launch that sums: what is left is taken in turn
_NOT_FINITE = np.int64(0x7FF0000000000000)  # bits of infinity; those of NaN are above


@dataclass(frozen=True, eq=False)
class DeviceRowSet:
    """One row set of a fit; columns lie one after the other.

    Attributes
    ----------
    given : RowSet
        Where it came from.
    data : uint8 (F, n) or DeviceFeatures
        Codes, or values that are not binned.
    y : float64 (Y, n)
        Y = 1 for classes.
    raw : float64 (K, n)
        Sets of the same rows share it.
    weights : float64 (n,) or None
    """

    given: RowSet
    data: Array | DeviceFeatures
    y: Array
    raw: Array
    weights: Array | None

    @property
    def n(self) -> int:
        """Rows."""
        return self.raw.shape[1]

    def for_user(self, xp: Any, weights: Array | None) -> Predicted:
        """The rows as a loss of the user's sees them, on the device."""
        y = self.y.T if self.given.y.ndim > 1 else self.y[0]
        if self.given.y.dtype != np.float64:
            y = y.astype(self.given.y.dtype)
        return Predicted(y, xp.ascontiguousarray(self.raw.T), weights)

    @classmethod
    def of(cls, runtime: Runtime, given: RowSet, data: Array | DeviceFeatures) -> DeviceRowSet:
        """Copy a row set to the device, but for its data, which are there."""
        y = np.asarray(given.y, dtype=np.float64).reshape(len(given.y), -1)
        weights = None if given.weights is None else runtime.asarray(given.weights)
        y, raw = (_columns_of(runtime, host) for host in (y, given.raw))
        return cls(given, data, y, raw, weights)


def _columns_of(runtime: Runtime, host: np.ndarray) -> Array:
    """A copy of float64 (n, K) as columns (K, n) on the device."""
    there = runtime.xp.empty(host.shape[::-1], dtype=np.float64)
    runtime.upload(host.T, there)
    return there


@dataclass(frozen=True, eq=False)
class LossKernels:
    """The launches of boosting.cu that know the loss.

    Parameters
    ----------
    runtime : Runtime
    loss : Loss
    """

    runtime: Runtime
    loss: Loss
    _sums: dict[int, float] = field(default_factory=dict)  # of the weights of row sets

    @property
    def has_kernels(self) -> bool:
        """Whether the loss is not a user's."""
        return self.loss.formula != USER

    def parameter_of(self, rows: DeviceRowSet, weights: np.ndarray | None) -> np.ndarray:
        """`Loss.round_parameter`; of huber by residuals that are copied to the host."""
        given, raw = rows.given, rows.given.raw
        if self.loss.formula == gradients.HUBER:
            raw = self.runtime.to_host(rows.raw).T
        return self.loss.round_parameter(Predicted(given.y, raw, weights))

    def differentiate(
        self, rows: DeviceRowSet, parameter: Array, gradient: Array, hessian: Array, largest: Array
    ) -> None:
        """Gradients (K, n), times -1, and hessians (H, n), and the largest of both."""
        sizes = (np.int64(rows.n), np.int32(len(rows.y)), np.int32(len(rows.raw)))
        out = (np.int32(len(hessian)), gradient, hessian, largest)
        given = (*self._rows(rows, rows.weights), parameter)
        self._launch("differentiate", rows.n, (*given, *sizes, *out))

    def keep_largest(self, values: Array, which: int, largest: Array) -> None:
        """The largest size of some numbers, kept in one place of ``largest``."""
        args = (values, np.int64(values.size), np.int32(which), largest)
        self._launch("find_largest", values.size, args)

    def mean_loss(self, rows: DeviceRowSet, parameter: Array, weights: Array | None) -> float:
        """As `Loss.mean_loss`, by other weights than those of the rows."""
        total = self._sum(*self.row_losses(rows, parameter, weights))
        return total / (float(rows.n) if weights is None else self._sum_of_weights(rows, weights))

    def row_losses(
        self, rows: DeviceRowSet, parameter: Array, weights: Array | None
    ) -> tuple[Array, Array]:
        """Losses times weights, float64 (n,), and the bits of the largest with room for sums."""
        values = self.runtime.xp.empty(rows.n, dtype=np.float64)
        found = zeros(self.runtime, 3, np.int64)
        sizes = (np.int64(rows.n), np.int32(len(rows.y)), np.int32(len(rows.raw)))
        args = (*self._rows(rows, weights), parameter, *sizes, values, found.view(np.uint64))
        self._launch("row_losses", rows.n, args)
        return values, found

    def _sum_of_weights(self, rows: DeviceRowSet, weights: Array) -> float:
        """Sum of weights; that of the rows' own is found once."""
        if weights is not rows.weights:
            return self.sum_of(weights)
        if id(rows) not in self._sums:
            self._sums[id(rows)] = self.sum_of(weights)
        return self._sums[id(rows)]

    def sum_of(self, values: Array) -> float:
        """Sum of numbers, as `engine.averages` adds them up."""
        found = zeros(self.runtime, 3, np.int64)
        self.keep_largest(values, 0, found.view(np.uint64))
        return self._sum(values, found)

    def _sum(self, values: Array, found: Array) -> float:
        """``found``: bits of the largest number, and room for sums of both planes."""
        bits = SUM_BITS - sum_bits(len(values))
        threads = constant("rounds.cuh", "BOOST_THREADS")
        n_blocks = min(-(-len(values) // threads), _SUM_BLOCKS)
        args = (values, np.int64(len(values)), found[:1].view(np.uint64), np.int32(bits), found[1:])
        self._kernel("sum_planes")((n_blocks,), (threads,), args)
        largest, *sums = self.runtime.read_later(found)()
        if largest >= _NOT_FINITE:
            return float("inf")
        size = float(largest.view(np.float64))
        exponent = bits - (int(np.frexp(size)[1]) if size > 0.0 else 0)
        planes = np.array([exponent, exponent + bits])
        return float(planes_to_float(np.array(sums), planes)[0])

    def _rows(self, rows: DeviceRowSet, weights: Array | None) -> tuple[Any, ...]:
        return (rows.y, rows.raw, *optional(weights, rows.y))

    def _launch(self, name: str, n: int, args: tuple[Any, ...]) -> None:
        threads = constant("rounds.cuh", "BOOST_THREADS")
        self._kernel(name)((-(-n // threads),), (threads,), args)

    def _kernel(self, name: str) -> Any:
        formula = max(self.loss.formula, 0)  # nothing of a user's loss is asked for
        return self.runtime.kernel("boosting.cu", name, {"FORMULA": formula})


def optional(array: Array | None, stand_in: Array) -> tuple[Array, np.int32]:
    """What a kernel takes for an array that need not be there, and whether it is."""
    return (stand_in, np.int32(0)) if array is None else (array, np.int32(1))
