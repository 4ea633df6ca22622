"""The rows of the trees of a round of boosting, made on the device: launches of gradients.cu.

The numbers are those of `engine.ensembles.boosting.quantised`. Nothing is read back, so a round
is the same launches as the one before.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.boosting.leaf_updates import RoundLeaves
from gpuboost.backends.cuda.boosting.losses import MeanLosses
from gpuboost.backends.cuda.boosting.quantiles import SizesQuantile
from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet, LossKernels, optional
from gpuboost.backends.cuda.data.features import copy_to_device
from gpuboost.backends.cuda.growth.hooks import RowsOfRounds
from gpuboost.backends.cuda.growth.value_rule import ValueRule
from gpuboost.backends.cuda.runtime.arrays import allocate, cut, one_piece
from gpuboost.backends.cuda.runtime.launch import count_up, fill, launch, zeros
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.device_sampler import TreeKeys
from gpuboost.backends.cuda.sampling.draw import DrawCounts
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.boosting import HESSIAN_BITS, Scale
from gpuboost.engine.fixed_point import sum_bits
from gpuboost.engine.losses import OrderStatisticLoss, Predicted
from gpuboost.engine.losses.regression import Huber
from gpuboost.engine.order_statistics import integer_weights
from gpuboost.engine.sampling import ALL_ROWS, whole_weights

if TYPE_CHECKING:
    from gpuboost.backends.cuda.growth.best_first import SplitQueue
    from gpuboost.backends.cuda.growth.finish import Finisher
    from gpuboost.backends.cuda.growth.hooks import LevelLeaves
    from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer
    from gpuboost.backends.cuda.runtime.arrays import Columns
    from gpuboost.backends.cuda.runtime.protocol import Runtime
    from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs
    from gpuboost.engine.ensembles.boosting_task import BoostTask, RoundLosses, RowSet
    from gpuboost.engine.growth.frontier import Array


class RoundRows(RowsOfRounds):
    """Makes the rows of the trees of a round; what a fit keeps on the device is in here.

    Parameters
    ----------
    runtime : Runtime
    task : BoostTask
    codes : uint8 (F, n)
        Of the training rows.
    finisher : Finisher or None
        Finishes the trees of rounds; None: the host does.

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
    losses : MeanLosses or None
        Of the round; None where a loss of the user's makes them.
    leaves : RoundLeaves or None
        Adds the values of leaves to raw predictions; None where that is left to the host.
    """

    leaves: RoundLeaves | None  # type: ignore[assignment]

    def __init__(
        self, runtime: Runtime, task: BoostTask, codes: Array, finisher: Finisher | None
    ) -> None:
        xp, loss, train = runtime.xp, task.loss, task.train
        self.runtime, self._task = runtime, task
        self.rows = DeviceRowSet.of(runtime, train, codes)
        self.kernels = LossKernels(runtime, loss)
        self._n_outputs = loss.columns if task.sums_outputs else 1
        n, n_hessians = self.rows.n, 1 if loss.constant_hessian else loss.columns
        self._gradient = xp.empty((loss.columns, n), dtype=np.float64)
        self._hessian = xp.empty((n_hessians, n), dtype=np.float64)
        whole = self.whole_hessian
        self._whole = runtime.asarray(np.ones(1, np.int32) if whole is None else whole)
        self._given = runtime.asarray(self._in_units_of_loss())
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
        self.losses: MeanLosses | None = None
        if self.kernels.has_kernels:
            self.losses = MeanLosses(self.kernels, self.sets, self.draws)
        self._exponents = xp.empty(len(fields(Scale)), dtype=np.int32)
        self._read = allocate(xp, self._columns_read())
        self.leaves = None
        if finisher is not None:
            made = RoundLeaves(runtime, task, finisher, self.followed, self.max_rows)
            if isinstance(loss, OrderStatisticLoss):
                made.refit(loss, self.leaf_weights)
            self.leaves = made

    def _watched(self, given: RowSet) -> DeviceRowSet:
        """A watched row set; one of the training rows shares what is known of these."""
        runtime, data, train = self.runtime, given.data, self.rows.given
        if data is train.data and given.raw is train.raw:
            weights = None if given.weights is None else runtime.asarray(given.weights)
            return replace(self.rows, given=given, weights=weights)
        if isinstance(data, BinnedMatrix):
            return DeviceRowSet.of(runtime, given, runtime.asarray(data.codes))
        return DeviceRowSet.of(runtime, given, copy_to_device(runtime, data))

    @property
    def followed(self) -> list[DeviceRowSet]:
        """The training rows, and watched sets that have raw predictions of their own."""
        watched = (rows for rows in self.sets[1:] if rows.raw is not self.rows.raw)
        return [self.rows, *watched]

    def _start_parameter(self) -> Array:
        """The parameter of the loss, as it is if it is the same in all rounds: float64 (K,)."""
        loss, runtime, rows = self._task.loss, self.runtime, self.rows
        if isinstance(loss, Huber):
            self._sizes_quantile = SizesQuantile(runtime, rows, self.leaf_weights, loss.alpha)
            return runtime.xp.empty(loss.columns, dtype=np.float64)
        given = rows.given
        found = loss.round_parameter(Predicted(given.y, given.raw, given.weights))
        return runtime.asarray(np.ascontiguousarray(found, dtype=np.float64))

    @cached_property
    def leaf_weights(self) -> Array | None:
        """Weights of `order_statistics`: int64 (n,), None for ones."""
        given = self.rows.given.weights
        if given is None:
            return None
        return self.runtime.asarray(integer_weights(given, self.rows.n))

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
    def max_rows(self) -> int:
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
        self.runtime.upload(memory, self._of_round)

    def _columns(self) -> Columns:
        """What a round has to itself."""
        return {
            "seed": (np.uint64, (1,)),
            "number": (np.uint64, (1,)),
            "rate": (np.float64, (1,)),
        }

    def ask_user(self) -> None:
        """Gradients and hessians of a loss of the user's, over arrays of the device."""
        rows, loss = self.rows.for_user(self.runtime.xp, self.rows.weights), self._task.loss
        g, h = loss.gradients(rows, np.zeros(loss.columns))
        self._gradient[...] = -g.T
        self._hessian[...] = h.T

    # ---- the rows of trees ---------------------------------------------------------------------

    def make(self, inputs: BatchInputs) -> tuple[DeviceRows, Array, LeafColumns, int]:
        """Rows of some trees of the round, one tree after the other, as `RowUploads.rows`.

        What regularises the trees is written to ``inputs``, in the units of their integers.
        """
        if self.leaves is not None:
            self._read = self.leaves.begin(self._columns_read())
        if self._sizes_quantile is not None:
            self._sizes_quantile.find(self.parameter)
        self._differentiate()
        self._scale(inputs)
        xp, n_trees = self.runtime.xp, len(inputs.key)
        self._drawn = drawn = self.drawn()
        if self.losses is not None:
            self.losses.begin(self._read["losses"])
            self.losses.keep_before(drawn, self.parameter)
        first, count = self._place(drawn)
        self._count = count
        rows = DeviceRows.room(xp, n_trees * self.max_rows, self._n_outputs)
        n_hessians = self._n_hessians
        shape = (n_trees, self.rows.n, self._n_outputs + n_hessians)
        wide = xp.empty(shape, dtype=np.int64)
        counts = xp.empty(n_trees, dtype=np.int64)
        own: dict[str, Any] = {
            "first": first,
            "count": count,
            "gradient": self._gradient,
            "hessian": self._hessian,
            "whole": self._whole,
            "is_whole": self._is_whole,
            "exponents": self._exponents,
            "n": self.rows.n,
            "trees_per_round": self._task.trees_per_round,
            "n_outputs": self._n_outputs,
            "n_hessians": n_hessians,
            "is_shared": len(self._hessian) == 1,
            "room": len(rows),
            "wide": wide,
            "count_out": counts,
        }
        grid = (self._parts, n_trees)
        self.kernels.launch("list_round", grid, inputs.keys, out=rows, **self._inside(drawn), **own)
        wide_of = xp.empty(n_trees, dtype=np.int32)
        count_up(self.runtime, wide_of, 1)
        return rows, counts, LeafColumns(wide, wide_of, 1, draws=False), self.max_weight

    def _columns_read(self) -> Columns:
        """What the host reads of a round beside the nodes of its trees."""
        shape = (0, 0) if self.losses is None else self.losses.shape
        return {"losses": (np.int64, shape)}

    def _differentiate(self) -> None:
        fill(self.runtime, self.largest, 0)
        if self.kernels.has_kernels:
            out = (self._gradient, self._hessian, self.largest)
            self.kernels.differentiate(self.rows, self.parameter, *out)
            return
        self.kernels.keep_largest(self._gradient, 0, self.largest)
        self.kernels.keep_largest(self._hessian, 1, self.largest)

    def _scale(self, inputs: BatchInputs) -> None:
        own = {
            "largest": self.largest,
            "given": self._given,
            "n_bits": sum_bits(self.rows.n),
            "whole": self._is_whole,
            "n_outputs": self._n_outputs,
            "exponents": self._exponents,
        }
        self.kernels.launch("scale_round", 1, inputs, **own)

    @property
    def draws(self) -> bool:
        """Whether rounds draw some of the rows."""
        return self._draw is not None

    def drawn(self) -> Array | None:
        """How often each row is drawn for the round: uint32 (1, n), None for all once."""
        return None if self._draw is None else self._draw.of(self._keys)

    def _place(self, drawn: Array | None) -> tuple[Array, Array]:
        """Where the rows inside of each part begin, and how many there are."""
        xp, kept = self.runtime.xp, zeros(self.runtime, (1, self._parts), np.int64)
        given = {"n": self.rows.n, "kept": kept, **self._inside(drawn)}
        self.kernels.launch("count_inside", self._parts, **given)
        first, count = xp.empty(self._parts, dtype=np.int64), xp.empty(1, dtype=np.int64)
        own = {"kept": kept, "n_trees": 1, "n_parts": self._parts, "first": first, "count": count}
        launch(self.runtime, "place_parts", 1, **own)
        return first, count

    def _inside(self, drawn: Array | None) -> dict[str, Any]:
        """What says which rows are inside."""
        unread = self._keys.trees.view(np.uint32)
        draws = optional("drawn", "subset", drawn, unread)
        return {**draws, **optional("weights", "weighted", self.rows.weights, self.rows.y)}

    @property
    def _n_hessians(self) -> int:
        """Hessians of a tree."""
        return min(self._n_outputs, len(self._hessian))

    @property
    def _is_whole(self) -> bool:
        return self.whole_hessian is not None

    @property
    def _parts(self) -> int:
        return -(-self.rows.n // constant("boosting/gradients.cu", "LIST_PART"))

    # ---- what the trees say --------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """Whether rows are followed by the partition to their leaves."""
        return self.leaves is not None and self.leaves.follows

    @property
    def table(self) -> Array | None:
        """Where the table of the trees is made."""
        return None if self.leaves is None else self.leaves.table

    def keep_level(self, level: LevelLeaves) -> None:
        """Keep the leaves of a level."""
        if self.leaves is not None:
            self.leaves.keep_level(level)

    def add_leaves(self, inputs: BatchInputs, queue: SplitQueue | None, store: NodeBuffer) -> None:
        """Add the values of leaves to raw predictions, and sum the losses that are left then."""
        if self.leaves is None:
            return
        by = (self._exponents, self._given, self.rate, inputs.unit)
        rule = ValueRule.of_steps(*by, self._n_outputs)
        trees, own = inputs.keys.trees, (self.parameter, self._count)
        self.leaves.add(self.leaves.finish(store, queue, trees, rule, own), trees)
        self.keep_losses()

    def keep_losses(self) -> None:
        """Sum the losses of rows to whose raw predictions the values of leaves are added."""
        if self.losses is not None:
            self.losses.keep_after(self._drawn, self.parameter)

    # ---- after a round, where the host finishes trees -------------------------------------------

    def scale(self) -> Scale:
        """The scale of the round launched last."""
        return Scale(*self.runtime.read_later(self._exponents)().tolist())

    def mean_losses(self) -> RoundLosses:
        """The mean losses of the round launched last."""
        assert self.losses is not None
        return self.losses.of_sums(self.runtime.read_later(self._read["losses"])())

    def inside(self) -> Array | None:
        """Rows that the trees of the round were grown on: bool (n,), None for all."""
        weights, drawn = self.rows.weights, self._drawn
        if drawn is None:
            return None if weights is None else weights > 0.0
        return drawn[0] > 0 if weights is None else (drawn[0] > 0) & (weights > 0.0)
