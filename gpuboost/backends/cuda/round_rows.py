"""The rows of the trees of a round of boosting, made on the device: launches of boosting.cu.

The numbers are those of `gpuboost.engine.boosting.quantised`. Nothing is read back, so a round is
the same launches as the one before.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.drawing import DrawCounts, TreeKeys
from gpuboost.backends.cuda.features import copy_to_device
from gpuboost.backends.cuda.filling import count_up, fill, launch_for_roots, zeros
from gpuboost.backends.cuda.level import cut, one_piece
from gpuboost.backends.cuda.quantiles import SizesQuantile
from gpuboost.backends.cuda.round_leaves import RoundLeaves
from gpuboost.backends.cuda.row_sets import DeviceRowSet, LossKernels, optional
from gpuboost.backends.cuda.rows import DeviceRows, LeafColumns
from gpuboost.backends.cuda.source import constant
from gpuboost.data.bins import BinnedMatrix
from gpuboost.engine.boosting import HESSIAN_BITS, Scale
from gpuboost.engine.losses import OrderStatisticLoss
from gpuboost.engine.losses.regression import Huber
from gpuboost.engine.order_statistics import integer_weights
from gpuboost.engine.sampling import ALL_ROWS, whole_weights
from gpuboost.engine.statistics import sum_bits

if TYPE_CHECKING:
    from gpuboost.backends.cuda.inputs import BatchInputs
    from gpuboost.backends.cuda.kept import KeptMemory
    from gpuboost.backends.cuda.level import Columns, DeviceFrontier, DeviceSplits
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.rounds import BoostTask, RowSet


class RoundRows:
    """Makes the rows of the trees of a round; what a fit keeps on the device is in here.

    Parameters
    ----------
    runtime : Runtime
    task : BoostTask
    codes : uint8 (F, n)
        Of the training rows.

    Attributes
    ----------
    rows : DeviceRowSet
        The training rows.
    parameter : float64 (K,)
        Of the loss, in the round launched last if that makes it; before the first such there is
        nothing in it.
    rate : float64 (1,)
        The learning rate of the round.
    largest : uint64 (2,)
        Bits of the largest gradient and hessian of the round.
    sets : list of DeviceRowSet
        The training rows, then those that are watched.
    leaves : RoundLeaves or None
        Adds the values of leaves to raw predictions; None where that is left to the host.
    """

    def __init__(self, runtime: Runtime, task: BoostTask, codes: Array, adds: bool) -> None:
        xp, loss, train = runtime.xp, task.loss, task.train
        self._runtime, self._task = runtime, task
        self.rows = DeviceRowSet.of(runtime, train, codes)
        self.kernels = LossKernels(runtime, loss)
        self._n_outputs = loss.columns if task.sums_outputs else 1
        n, n_hessians = self.rows.n, 1 if loss.constant_hessian else loss.columns
        self._gradient = xp.empty((loss.columns, n), dtype=np.float64)
        self._hessian = xp.empty((n_hessians, n), dtype=np.float64)
        whole = self.whole_hessian
        self._whole = runtime.asarray(np.ones(1, np.int32) if whole is None else whole)
        self._given = runtime.asarray(self._in_units_of_loss())
        self._exponents = xp.empty(len(fields(Scale)), dtype=np.int32)
        self.largest = xp.empty(2, dtype=np.uint64)
        self._draw = None
        if task.sampler.method != ALL_ROWS:
            self._draw = DrawCounts(runtime, task.sampler)
        self._of_round = one_piece(xp, self._columns())
        own = cut(self._of_round, self._columns())
        self._keys = TreeKeys(own["seed"], own["number"])
        self.rate = own["rate"]
        self._sizes_quantile: SizesQuantile | None = None
        self.parameter = self._start_parameter()
        self.sets = [self.rows, *(self._watched(given) for given in task.watched)]
        self.leaves: RoundLeaves | None = None
        if adds:
            followed = [self.rows, *(rows for rows in self.sets[1:] if self.is_followed(rows))]
            made = RoundLeaves(runtime, task, followed, self.most_rows, self._n_hessians)
            if isinstance(loss, OrderStatisticLoss):
                made.refit(loss, self.leaf_weights)
            self.leaves = made

    def _watched(self, given: RowSet) -> DeviceRowSet:
        """A watched row set; one of the training rows shares what is known of these."""
        runtime, data, train = self._runtime, given.data, self.rows.given
        if data is train.data and given.raw is train.raw:
            weights = None if given.weights is None else runtime.asarray(given.weights)
            return replace(self.rows, given=given, weights=weights)
        if isinstance(data, BinnedMatrix):
            return DeviceRowSet.of(runtime, given, runtime.asarray(data.codes))
        return DeviceRowSet.of(runtime, given, copy_to_device(runtime, data))

    def is_followed(self, rows: DeviceRowSet) -> bool:
        """Whether a watched set has raw predictions of its own."""
        return rows.raw is not self.rows.raw

    def _start_parameter(self) -> Array:
        """The parameter of the loss, as it is if it is the same in all rounds: float64 (K,)."""
        loss, runtime, rows = self._task.loss, self._runtime, self.rows
        if isinstance(loss, Huber):
            self._sizes_quantile = SizesQuantile(runtime, rows, self.leaf_weights, loss.alpha)
            return runtime.xp.empty(loss.columns, dtype=np.float64)
        found = self.kernels.parameter_of(rows, rows.given.weights)
        return runtime.asarray(np.ascontiguousarray(found, dtype=np.float64))

    @cached_property
    def leaf_weights(self) -> Array | None:
        """Weights of `order_statistics`: int64 (n,), None for ones."""
        given = self.rows.given.weights
        if given is None:
            return None
        return self._runtime.asarray(integer_weights(given, self.rows.n))

    def _in_units_of_loss(self) -> np.ndarray:
        regular = self._task.options.regularisation
        held_to = (regular.l1, regular.l2, regular.max_value, self._task.min_hessian)
        return np.array(held_to, dtype=np.float64)

    @cached_property
    def whole_hessian(self) -> np.ndarray | None:
        """The hessian of every round, if it is a whole number: int32 (n,)."""
        weights = self._task.train.weights
        if not self._task.loss.constant_hessian:
            return None
        if weights is None:
            return np.ones(self._task.matrix.n_samples, dtype=np.int32)
        whole, unit = whole_weights(weights)
        return whole if unit == 1.0 else None

    @cached_property
    def most_rows(self) -> int:
        """Rows that a tree has at most."""
        weights, sampler = self._task.train.weights, self._task.sampler
        positive = sampler.n_samples if weights is None else int((weights > 0).sum())
        return positive if self._draw is None else min(positive, sampler.n_draws)

    @cached_property
    def max_weight(self) -> int:
        """Integer weight of a row at most."""
        whole = self.whole_hessian
        return 1 << HESSIAN_BITS if whole is None else int(whole.max())

    # ---- before a round ------------------------------------------------------------------------

    def begin(self, number: int, learning_rate: float = 0.0) -> None:
        """Copy what a round has to itself to the device."""
        memory = np.zeros(self._of_round.nbytes, dtype=np.uint8)
        own = cut(memory, self._columns())
        own["seed"][:], own["number"][:] = self._task.sampler.seed, number
        own["rate"][:] = learning_rate
        self._runtime.upload(memory, self._of_round)

    def _columns(self) -> Columns:
        """What a round has to itself."""
        return {
            "seed": (np.uint64, (1,)),
            "number": (np.uint64, (1,)),
            "rate": (np.float64, (1,)),
        }

    def ask_user(self) -> None:
        """Gradients and hessians of a loss of the user's, over arrays of the device."""
        rows, loss = self.rows.for_user(self._runtime.xp, self.rows.weights), self._task.loss
        g, h = loss.gradients(rows, np.zeros(loss.columns))
        self._gradient[...] = -g.T
        self._hessian[...] = h.T

    # ---- the rows of trees ---------------------------------------------------------------------

    def make(self, inputs: BatchInputs) -> tuple[DeviceRows, Array, LeafColumns, int]:
        """Rows of some trees of the round, one tree after the other, as `RowUploads.rows`.

        What regularises the trees is written to ``inputs``, in the units of their integers.
        """
        if self.leaves is not None:
            self._exponents = self.leaves.begin(len(self._exponents))
        if self._sizes_quantile is not None:
            self._sizes_quantile.find(self.parameter)
        self._differentiate()
        self._scale(inputs)
        xp, n_trees = self._runtime.xp, len(inputs.key)
        drawn = self.drawn()
        first, count = self._place(drawn)
        self._count = count
        rows = DeviceRows.room(xp, n_trees * self.most_rows, self._n_outputs)
        n_hessians = self._n_hessians
        shape = (n_trees, self.rows.n, self._n_outputs + n_hessians)
        wide = xp.empty(shape, dtype=np.int64)
        counts = xp.empty(n_trees, dtype=np.int64)
        args = (
            *(*inputs.keys.arguments, *self._inside(drawn), first, count),
            *(self._gradient, self._hessian, *self._whole_arguments(), self._exponents),
            *(np.int64(self.rows.n), np.int32(self._task.trees_per_round)),
            *(np.int32(self._n_outputs), np.int32(n_hessians)),
            *(np.int32(len(self._hessian) == 1), np.int64(len(rows))),
            *(rows.row, rows.weight, rows.target, wide, counts),
        )
        self._launch("list_round", (self._parts, n_trees), args)
        wide_of = xp.empty(n_trees, dtype=np.int32)
        count_up(self._runtime, wide_of, 1)
        return rows, counts, LeafColumns(wide, wide_of, 1, draws=False), self.max_weight

    def _differentiate(self) -> None:
        fill(self._runtime, self.largest, 0)
        if self.kernels.has_kernels:
            out = (self._gradient, self._hessian, self.largest)
            self.kernels.differentiate(self.rows, self.parameter, *out)
            return
        self.kernels.keep_largest(self._gradient, 0, self.largest)
        self.kernels.keep_largest(self._hessian, 1, self.largest)

    def _scale(self, inputs: BatchInputs) -> None:
        sizes = (np.int32(sum_bits(self.rows.n)), self._is_whole, np.int32(self._n_outputs))
        out = (self._exponents, inputs.regular, inputs.least_hessian, inputs.unit)
        kernel = self._runtime.kernel("boosting.cu", "scale_round", self._constants)
        kernel((1,), (1,), (self.largest, self._given, *sizes, *out))

    @property
    def draws(self) -> bool:
        """Whether rounds draw some of the rows."""
        return self._draw is not None

    def drawn(self) -> Array | None:
        """How often each row is drawn for the round: uint32 (1, n), None for all once."""
        return None if self._draw is None else self._draw.of(self._keys)

    def _place(self, drawn: Array | None) -> tuple[Array, Array]:
        """Where the rows inside of each part begin, and how many there are."""
        xp, kept = self._runtime.xp, zeros(self._runtime, (1, self._parts), np.int64)
        args = (*self._inside(drawn), np.int64(self.rows.n), kept)
        self._launch("count_inside", (self._parts,), args)
        first, count = xp.empty(self._parts, dtype=np.int64), xp.empty(1, dtype=np.int64)
        sizes = (np.int64(1), np.int64(self._parts))
        launch_for_roots(self._runtime, "place_parts", (kept, *sizes, first, count))
        return first, count

    def _inside(self, drawn: Array | None) -> tuple[Any, ...]:
        weights = optional(self.rows.weights, self.rows.y)
        return (*optional(drawn, self._keys.number.view(np.uint32)), *weights)

    @property
    def _n_hessians(self) -> int:
        """Hessians of a tree."""
        return min(self._n_outputs, len(self._hessian))

    @property
    def _is_whole(self) -> np.int32:
        return np.int32(self.whole_hessian is not None)

    def _whole_arguments(self) -> tuple[Array, np.int32]:
        return self._whole, self._is_whole

    @property
    def _parts(self) -> int:
        return -(-self.rows.n // constant("boosting.cu", "LIST_PART"))

    @property
    def _constants(self) -> dict[str, int]:
        return {"FORMULA": max(self._task.loss.formula, 0)}

    def _launch(self, name: str, grid: tuple[int, ...], args: tuple[Any, ...]) -> None:
        threads = constant("rounds.cuh", "BOOST_THREADS")
        self._runtime.kernel("boosting.cu", name, self._constants)(grid, (threads,), args)

    # ---- what the trees say --------------------------------------------------------------------

    @property
    def kept(self) -> KeptMemory | None:
        """What the host reads of the trees of a round, where it lies in one piece."""
        return None if self.leaves is None else self.leaves.kept

    def summed(self, frontier: DeviceFrontier, accepted: Array) -> Array:
        """Nodes whose rows need not be summed: uint8 (m,), most often those that were split."""
        return accepted if self.leaves is None else self.leaves.summed(frontier, accepted)

    def refitted(self, frontier: DeviceFrontier) -> np.ndarray | None:
        """Values (m, 1) of the leaves of a level, where the round has made them of residuals."""
        return None if self.leaves is None else self.leaves.refitted(frontier)

    def keep_level(
        self,
        rows: DeviceRows,
        frontier: DeviceFrontier,
        accepted: Array,
        sums: Array,
        inputs: BatchInputs,
    ) -> None:
        """Keep the leaves of a level."""
        if self.leaves is not None:
            by = (self._exponents, self._given, self.rate)
            self.leaves.keep_level(rows, frontier, accepted, sums, by, inputs)

    def keep_nodes(
        self, frontier: DeviceFrontier, splits: DeviceSplits, n_left: Array, rank: Array
    ) -> None:
        """Keep how the nodes of a level were split."""
        if self.leaves is not None:
            self.leaves.keep_nodes(frontier, splits, n_left, rank)

    def add_leaves(self, inputs: BatchInputs) -> None:
        """Add the values of leaves to raw predictions."""
        if self.leaves is not None:
            self.leaves.add(inputs, self.parameter, self._count, self.rate)

    # ---- after a round -------------------------------------------------------------------------

    def scale(self) -> Scale:
        """The scale of the round whose trees were grown last."""
        copy = self._runtime.to_host if self.kept is None else self.kept.on_host
        return Scale(*copy(self._exponents).tolist())

    def drawn_rows(self) -> np.ndarray:
        """Rows drawn for the round: bool (n,), copied to the host."""
        return self._runtime.to_host(self.drawn())[0] > 0
