"""Gradients and hessians of a round, and the exponents that make them integers: gradients.cu."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet, LossKernels, blocks, optional
from gpuboost.backends.cuda.runtime.launch import fill
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs
from gpuboost.engine.ensembles.boosting import HESSIAN_BITS, Scale
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.fixed_point import sum_bits
from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True, eq=False)
class RoundGradients:
    """Gradients and hessians of all training rows in a round.

    Attributes
    ----------
    kernels : LossKernels
    gradient : float64 (columns, n)
        Negative gradients of the loss, times sample weights.
    hessian : float64 (columns, n) or (1, n)
        Hessians of the loss, times sample weights; one row if the loss has a constant hessian.
    largest : uint64 (2,)
        Bit patterns of the largest absolute gradient and hessian of the round.
    exponents : int32 (4,)
        Fields of `engine.ensembles.boosting.Scale` for the round.
    given : float64 (4,)
        l1, l2, the largest absolute leaf value and the smallest hessian of a leaf, in units of the
        loss.
    whole : int32 (n,)
        Hessians, if they are the same whole numbers in every round; otherwise a placeholder.
    is_whole : bool
        Whether hessians are the same whole numbers in every round.
    max_weight : int
        Largest integer weight that a row can have.
    n_outputs, n_hessians : int
        Numbers of gradients and of hessians of a row in one tree.
    trees_per_round : int
        Number of trees of a round: 1, or the number of raw predictions of a row.
    """

    kernels: LossKernels
    gradient: Array
    hessian: Array
    largest: Array
    exponents: Array
    given: Array
    whole: Array
    is_whole: bool
    max_weight: int
    n_outputs: int
    n_hessians: int
    trees_per_round: int

    @classmethod
    def of(cls, kernels: LossKernels, task: BoostTask) -> RoundGradients:
        """Allocate the arrays that the rounds of a fit share."""
        runtime, loss, n = kernels.runtime, task.loss, task.matrix.n_samples
        empty, n_outputs = runtime.xp.empty, loss.columns if task.sums_outputs else 1
        n_hessians = 1 if loss.constant_hessian else loss.columns
        regular, whole = task.options.regularisation, task.whole_hessian()
        given = np.array([regular.l1, regular.l2, regular.max_value, task.min_hessian])
        return cls(
            kernels,
            gradient=empty((loss.columns, n), dtype=np.float64),
            hessian=empty((n_hessians, n), dtype=np.float64),
            largest=empty(2, dtype=np.uint64),
            exponents=empty(len(fields(Scale)), dtype=np.int32),
            given=runtime.asarray(given.astype(np.float64)),
            whole=runtime.asarray(np.ones(1, np.int32) if whole is None else whole),
            is_whole=whole is not None,
            max_weight=1 << HESSIAN_BITS if whole is None else int(whole.max()),
            n_outputs=n_outputs,
            n_hessians=min(n_outputs, n_hessians),
            trees_per_round=task.trees_per_round,
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.gradient.shape[1]

    @property
    def n_bits(self) -> int:
        """Smallest b such that the number of rows is at most 2**b."""
        return sum_bits(self.n)

    @property
    def is_shared(self) -> bool:
        """Whether all outputs share one hessian per row."""
        return len(self.hessian) == 1

    def ask_user(self, rows: DeviceRowSet) -> None:
        """Compute gradients and hessians by a user-defined loss, called with device arrays."""
        runtime, loss = self.kernels.runtime, self.kernels.loss
        seen = rows.for_user(runtime.xp, rows.weights)
        g, h = loss.gradients(seen, np.zeros(loss.columns))
        self.gradient[...] = -g.T
        self.hessian[...] = h.T

    def find(self, rows: DeviceRowSet, parameter: Array) -> None:
        """Compute gradients and hessians and their largest absolute values.

        For a user-defined loss, `ask_user` must have computed gradients and hessians before.
        """
        kernels, largest = self.kernels, self.largest
        fill(kernels.runtime, largest, 0)
        if kernels.loss.has_formula:
            found = {"gradient": self.gradient, "hessian": self.hessian, "largest": largest}
            found |= optional("weights", "weighted", rows.weights, rows.y)
            own = {"parameter": parameter, "n_hessians": len(self.hessian)}
            kernels.launch("differentiate", blocks(rows.n), rows, **own, **found)
            return
        for which, values in enumerate((self.gradient, self.hessian)):
            own = {"values": values, "n_values": values.size, "which": which, "largest": largest}
            kernels.launch("find_largest", blocks(values.size), **own)

    def scale(self, inputs: BatchInputs) -> None:
        """Find exponents; write regularisation, smallest hessian and gain unit to ``inputs``."""
        self.kernels.launch("scale_round", 1, self, inputs)

    def read_scale(self) -> Scale:
        """Read back the scale of the round launched last."""
        return Scale(*self.kernels.runtime.read_later(self.exponents)().tolist())
