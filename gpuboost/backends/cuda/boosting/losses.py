"""Mean losses after a round of boosting: `gpuboost.engine.ensembles.boosting_task.RoundLosses`.

The launches of a round include kernels of gradients.cu that sum the losses and weights of rows; the
host reads the sums together with the trees, unless it finishes the trees itself. Only the device
knows which rows a round has drawn. The losses of the other rows are also summed before the round
changes raw predictions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet, LossKernels, blocks, optional
from gpuboost.backends.cuda.runtime.grid import MAX_BLOCKS
from gpuboost.backends.cuda.runtime.launch import fill
from gpuboost.engine.ensembles.boosting_task import RoundLosses
from gpuboost.engine.fixed_point import SUM_BITS, planes_to_float, sum_bits
from gpuboost.engine.growth.frontier import Array

_NOT_FINITE = np.int64(0x7FF0000000000000)  # bits of infinity; the bits of NaN are larger
# Sums of a row set (row_losses of gradients.cu): losses and weights of the rows that the round has
# drawn, then of the other rows. Each sum is three words: the largest summand and two planes.
_SUMS = 4
_WORDS = 3 * _SUMS
INSIDE, OUTSIDE = 0, 1


class MeanLosses:
    """Sums losses and weights of row sets, for the mean losses of a round.

    Parameters
    ----------
    kernels : LossKernels
    sets : sequence of DeviceRowSet
        The training rows, then the watched row sets.
    draws : bool
        Whether rounds draw a subset of the training rows.
    """

    def __init__(self, kernels: LossKernels, sets: Sequence[DeviceRowSet], draws: bool) -> None:
        self._kernels, self._sets, self._draws = kernels, sets, draws

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sums: a row per row set and, if rounds draw rows, one for `keep_before`."""
        return len(self._sets) + self._draws, _WORDS

    def begin(self, found: Array) -> None:
        """Begin a round, whose sums are written to ``found``, int64 of shape `shape`."""
        self.found = found
        fill(self._kernels.runtime, found, 0)

    def keep_before(self, drawn: Array | None, parameter: Array) -> None:
        """If the round draws rows, sum the training losses before raw predictions change.

        Parameters
        ----------
        drawn : uint32 (1, n) or None
            Number of times that the round draws each row; None if it draws all rows once.
        parameter : float64 (columns,)
            Parameter of the loss.
        """
        if drawn is not None:
            self._keep(len(self._sets), self._sets[0], drawn, parameter)

    def keep_after(self, drawn: Array | None, parameter: Array) -> None:
        """Sum the losses of all row sets after their raw predictions have changed."""
        for place, rows in enumerate(self._sets):
            self._keep(place, rows, drawn if place == 0 else None, parameter)

    def _keep(self, place: int, rows: DeviceRowSet, drawn: Array | None, parameter: Array) -> None:
        runtime, found = self._kernels.runtime, self.found[place]
        by = {
            "loss": runtime.xp.empty(rows.n, dtype=np.float64),
            "largest": found[:_SUMS].view(np.uint64),
            **optional("weights", "weighted", rows.weights, rows.y),
            **optional("drawn", "subset", drawn, found.view(np.uint32)),
        }
        self._kernels.launch("row_losses", blocks(rows.n), rows, parameter=parameter, **by)
        n_sums = _SUMS if drawn is not None else 1 + (rows.weights is not None)
        grid, own = (min(blocks(rows.n), MAX_BLOCKS), n_sums), {"bits": _bits(rows)}
        self._kernels.launch("sum_planes", grid, rows, sums=found[_SUMS:], **own, **by)

    def of_sums(self, found: np.ndarray) -> RoundLosses:
        """Compute mean losses from the sums of a round, copied to the host."""
        train, *_ = self._sets
        outside = None
        if self._draws and found[0, 2 * OUTSIDE + 1] != 0:  # rows outside have weight
            before, after = (_mean(own, train, OUTSIDE, drawn=True) for own in found[[-1, 0]])
            outside = before, after
        each = zip(found[1:], self._sets[1:], strict=False)
        watched = tuple(_mean(own, rows, INSIDE, drawn=False) for own, rows in each)
        return RoundLosses(_mean(found[0], train, INSIDE, self._draws), outside, watched)


def _mean(found: np.ndarray, rows: DeviceRowSet, part: int, drawn: bool) -> float:
    """Mean loss of a part, `INSIDE` or `OUTSIDE`; without ``drawn``, all rows are inside."""
    everything = not drawn and rows.weights is None  # the kernel does not sum weights
    weight = float(rows.n) if everything else _sum(found, 2 * part + 1, rows)
    return _sum(found, 2 * part, rows) / weight


def _sum(found: np.ndarray, which: int, rows: DeviceRowSet) -> float:
    """Convert a sum to float64; the result equals the sum of `engine.losses.averages`.

    It is infinite if a summand is infinite or NaN.
    """
    largest = found[which]
    if largest >= _NOT_FINITE:
        return float("inf")
    size, bits = float(largest.view(np.float64)), _bits(rows)
    exponent = bits - (int(np.frexp(size)[1]) if size > 0.0 else 0)
    planes = found[_SUMS + 2 * which : _SUMS + 2 * which + 2]
    return float(planes_to_float(planes, np.array([exponent, exponent + bits]))[0])


def _bits(rows: DeviceRowSet) -> int:
    """Number of bits of a row's fixed-point number; see `averages.plane_scales`."""
    return SUM_BITS - sum_bits(rows.n)
