"""The draw of the rows on which the trees of a round are grown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet, LossKernels, optional
from gpuboost.backends.cuda.runtime.arrays import Columns, cut, one_piece
from gpuboost.backends.cuda.runtime.launch import zeros
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.device_sampler import DeviceSampler, TreeKeys
from gpuboost.backends.cuda.sampling.draw import draw_counts
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.sampling import ALL_ROWS

_OF_ROUND: Columns = {
    "seed": (np.uint64, (1,)),
    "number": (np.uint64, (1,)),
    "rate": (np.float64, (1,)),
}


class RowDraw:
    """Draws the rows of rounds.

    Parameters
    ----------
    kernels : LossKernels
    task : BoostTask
    rows : DeviceRowSet
        The training rows.

    Attributes
    ----------
    rate : float64 (1,)
        The learning rate of the round.
    """

    def __init__(self, kernels: LossKernels, task: BoostTask, rows: DeviceRowSet) -> None:
        runtime = kernels.runtime
        self._kernels, self._task, self._rows = kernels, task, rows
        self._device = DeviceSampler(runtime, task.sampler)
        self._counts = None if task.sampler.method == ALL_ROWS else draw_counts(self._device)
        self._of_round = one_piece(runtime.xp, _OF_ROUND)
        own = cut(self._of_round, _OF_ROUND)
        self._keys, self.rate = TreeKeys(own["seed"], own["number"]), own["rate"]

    def begin(self, number: int, learning_rate: float) -> None:
        """Copy the seed, the number of a round and its learning rate to the device."""
        memory = np.zeros(self._of_round.nbytes, dtype=np.uint8)
        own = cut(memory, _OF_ROUND)
        own["seed"][:], own["number"][:] = self._task.sampler.seed, number
        own["rate"][:] = learning_rate
        self._kernels.runtime.upload(memory, self._of_round)

    @property
    def draws(self) -> bool:
        """Whether rounds draw a subset of the rows."""
        return self._counts is not None

    @property
    def max_rows(self) -> int:
        """Largest number of rows of a tree."""
        weights, sampler = self._task.train.weights, self._task.sampler
        positive = sampler.n_samples if weights is None else int((weights > 0).sum())
        return min(positive, sampler.n_draws) if self.draws else positive

    def counts(self) -> Array | None:
        """Number of times that the round draws each row: uint32 (1, n); None if all are used."""
        return None if self._counts is None else self._counts(self._keys)

    def place(self, drawn: Array | None) -> DrawnRows:
        """Compute where each part of the rows begins in the list of the round's rows.

        ``drawn`` is the result of `counts`. The kernel ``list_round`` then lists the rows.
        """
        runtime, n, weights = self._kernels.runtime, self._rows.n, self._rows.weights
        n_parts = -(-n // constant("boosting/gradients.cu", "LIST_PART"))
        inside = optional("drawn", "subset", drawn, self._keys.trees.view(np.uint32))
        inside |= optional("weights", "weighted", weights, self._rows.y)
        kept = zeros(runtime, (1, n_parts), np.int64)
        self._kernels.launch("count_inside", n_parts, n=n, kept=kept, **inside)
        first, count = self._device.place(kept)
        return DrawnRows(**inside, first=first[0], count=count)

    def inside(self, drawn: Array | None) -> Array | None:
        """Mask of the rows on which the round's trees were grown: bool (n,); None for all rows."""
        weights = self._rows.weights
        if drawn is None:
            return None if weights is None else weights > 0.0
        return drawn[0] > 0 if weights is None else (drawn[0] > 0) & (weights > 0.0)


@dataclass(frozen=True)
class DrawnRows:
    """The rows of a round, as arguments of the kernels of gradients.cu that list them.

    Attributes
    ----------
    drawn : uint32 (1, n)
        Number of times that each row is drawn; read only if ``subset``.
    subset : bool
        Whether the round draws a subset of the rows.
    weights : float64 (n,)
        Sample weights; read only if ``weighted``.
    weighted : bool
        Whether rows have sample weights.
    first : int64 (parts,)
        Offset of each part's rows in the list; a part is up to LIST_PART consecutive rows.
    count : int64 (1,)
        Number of rows in the list: drawn rows of positive weight.
    """

    drawn: Array
    subset: bool
    weights: Array
    weighted: bool
    first: Array
    count: Array

    @property
    def n_parts(self) -> int:
        """Number of parts that all rows are divided into; a block lists one part for one tree."""
        return len(self.first)
