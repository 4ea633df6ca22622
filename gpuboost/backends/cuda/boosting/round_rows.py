"""The rows of the trees of a boosting round, made on the device: launches of gradients.cu.

The rows equal those of `engine.ensembles.boosting.quantised`. Making them reads nothing back, so
all rounds have the same launches.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from gpuboost.backends.cuda.boosting.drawn_rows import DrawnRows, RowDraw
from gpuboost.backends.cuda.boosting.gradients import RoundGradients
from gpuboost.backends.cuda.boosting.leaf_updates import RoundLeaves
from gpuboost.backends.cuda.boosting.losses import MeanLosses
from gpuboost.backends.cuda.boosting.quantiles import SizesQuantile
from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet, LossKernels
from gpuboost.backends.cuda.data.features import copy_to_device
from gpuboost.backends.cuda.growth.best_first import SplitQueue
from gpuboost.backends.cuda.growth.finish import Finisher
from gpuboost.backends.cuda.growth.hooks import RowsOfRounds
from gpuboost.backends.cuda.growth.node_buffer import NumberedNodes
from gpuboost.backends.cuda.growth.value_rule import ValueRule
from gpuboost.backends.cuda.runtime.arrays import Columns, allocate
from gpuboost.backends.cuda.runtime.launch import count_up
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.boosting_task import BoostTask, RoundLosses, RowSet
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.losses import Predicted
from gpuboost.engine.order_statistics import integer_weights


class RoundRows(RowsOfRounds):
    """Makes the rows of the trees of a round, and holds the device data of a fit.

    Parameters
    ----------
    runtime : Runtime
    task : BoostTask
    codes : uint8 (F, n)
        Codes of the training rows.
    finisher : Finisher or None
        Finisher of the rounds' trees; None if the host finishes them.

    Attributes
    ----------
    rows : DeviceRowSet
        The training rows.
    gradients : RoundGradients
        Gradients and hessians of the training rows.
    draw : RowDraw
        Draw of the rows of rounds.
    parameter : float64 (columns,)
        Parameter of the loss. If each round computes it, this is the value of the round launched
        last; it is undefined before the first round.
    sets : list of DeviceRowSet
        The training rows, then the watched row sets.
    losses : MeanLosses or None
        Mean losses of the round; None for a user-defined loss.
    leaves : RoundLeaves or None
        Leaves of the round, whose values are added to raw predictions; None if the host finishes
        the trees.
    """

    leaves: RoundLeaves | None

    def __init__(
        self, runtime: Runtime, task: BoostTask, codes: Array, finisher: Finisher | None
    ) -> None:
        self.runtime, self._task = runtime, task
        self.rows = DeviceRowSet.of(runtime, task.train, codes)
        self.kernels = LossKernels(runtime, task.loss)
        self.gradients = RoundGradients.of(self.kernels, task)
        self.draw = RowDraw(self.kernels, task, self.rows)
        self._max_rows = self.draw.max_rows
        self._sizes_quantile: SizesQuantile | None = None
        self.parameter = self._start_parameter()
        self.sets = [self.rows, *(self._watched(given) for given in task.watched)]
        self.losses: MeanLosses | None = None
        if task.loss.has_formula:
            self.losses = MeanLosses(self.kernels, self.sets, self.draw.draws)
        self._read = allocate(runtime.xp, self._columns_read())
        self.leaves = None
        if finisher is not None:
            made = RoundLeaves(runtime, task, finisher, self.followed, self._max_rows)
            if task.loss.leaf_rule is not None:
                made.refit(task.loss.leaf_rule, self.leaf_weights)
            self.leaves = made

    def _watched(self, given: RowSet) -> DeviceRowSet:
        """Copy a watched row set to the device, or share the arrays if it is the training rows."""
        runtime, data, train = self.runtime, given.data, self.rows.given
        if data is train.data and given.raw is train.raw:
            weights = None if given.weights is None else runtime.asarray(given.weights)
            return replace(self.rows, given=given, weights=weights)
        if isinstance(data, BinnedMatrix):
            return DeviceRowSet.of(runtime, given, runtime.asarray(data.codes))
        return DeviceRowSet.of(runtime, given, copy_to_device(runtime, data))

    @property
    def followed(self) -> list[DeviceRowSet]:
        """The training rows, and watched row sets that have their own raw predictions."""
        watched = (rows for rows in self.sets[1:] if rows.raw is not self.rows.raw)
        return [self.rows, *watched]

    def _start_parameter(self) -> Array:
        """Parameter of the loss, float64 (columns,); undefined if each round computes it."""
        loss, runtime, rows = self._task.loss, self.runtime, self.rows
        quantile_level = None if loss.leaf_rule is None else loss.leaf_rule.clip_quantile_level
        if quantile_level is not None:
            self._sizes_quantile = SizesQuantile(runtime, rows, self.leaf_weights, quantile_level)
            return runtime.xp.empty(loss.columns, dtype=np.float64)
        given = rows.given
        found = loss.round_parameter(Predicted(given.y, given.raw, given.weights))
        return runtime.asarray(np.ascontiguousarray(found, dtype=np.float64))

    @cached_property
    def leaf_weights(self) -> Array | None:
        """Integer weights of `engine.order_statistics`: int64 (n,), None if all are 1."""
        given = self.rows.given.weights
        if given is None:
            return None
        return self.runtime.asarray(integer_weights(given, self.rows.n))

    # ---- the rows of trees ---------------------------------------------------------------------

    def make(self, inputs: BatchInputs) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Make the rows of some trees of the round, one tree after the other.

        Unless the loss is user-defined, their gradients are computed first and, if the round draws
        rows, the losses of the training rows are summed before raw predictions change. The results
        are as in `DeviceDrawing.rows`. The regularisation, smallest hessian and gain unit of the
        trees, which depend on the round's integer units, are written to ``inputs``.
        """
        if self.leaves is not None:
            self._read = self.leaves.begin(self._columns_read(), inputs.keys.trees)
        if self._sizes_quantile is not None:
            self._sizes_quantile.find(self.parameter)
        self.gradients.find(self.rows, self.parameter)
        self.gradients.scale(inputs)
        self._drawn = drawn = self.draw.counts()
        if self.losses is not None:
            self.losses.begin(self._read["losses"])
            self.losses.keep_before(drawn, self.parameter)
        return self._list(inputs, self.draw.place(drawn))

    def _list(
        self, inputs: BatchInputs, drawn: DrawnRows
    ) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """List the drawn rows with their integer gradients and hessians, for each tree."""
        xp, n_trees, made = self.runtime.xp, len(inputs.key), self.gradients
        self._count = drawn.count
        rows = DeviceRows.empty(xp, n_trees * self._max_rows, made.n_outputs)
        wide = xp.empty((n_trees, made.n, made.n_outputs + made.n_hessians), dtype=np.int64)
        counts = xp.empty(n_trees, dtype=np.int64)
        own = {"target_stride": len(rows), "wide": wide, "count_out": counts}
        grid, records = (drawn.n_parts, n_trees), (inputs.keys, made, drawn)
        self.kernels.launch("list_round", grid, *records, out=rows, **own)
        wide_of = xp.empty(n_trees, dtype=np.int32)
        count_up(self.runtime, wide_of, 1)
        return rows, counts, LeafColumns(wide, wide_of, 1, draws=False), made.max_weight

    def _columns_read(self) -> Columns:
        """Types and shapes of the arrays that the host reads after a round, besides the trees."""
        shape = (0, 0) if self.losses is None else self.losses.shape
        return {"losses": (np.int64, shape)}

    # ---- leaves of the trees -------------------------------------------------------------------

    def add_leaves(
        self, inputs: BatchInputs, queue: SplitQueue | None, grown: NumberedNodes
    ) -> None:
        """Finish the trees, add their leaf values to raw predictions, then sum the losses.

        Nothing is done if the host finishes the trees.
        """
        if self.leaves is None:
            return
        made, rate = self.gradients, self.draw.rate
        rule = ValueRule.of_steps(made.exponents, made.given, rate, inputs.unit, made.n_outputs)
        self.leaves.add(self.leaves.finish(grown, queue, rule, self.parameter, self._count))
        self.keep_losses()

    def keep_losses(self) -> None:
        """Sum the losses, after leaf values were added; do nothing for a user-defined loss."""
        if self.losses is not None:
            self.losses.keep_after(self._drawn, self.parameter)

    # ---- after a round whose trees the host finishes --------------------------------------------

    def mean_losses(self) -> RoundLosses:
        """Read back the mean losses of the round launched last."""
        assert self.losses is not None
        return self.losses.of_sums(self.runtime.read_later(self._read["losses"])())

    def inside(self) -> Array | None:
        """Mask of the rows on which the round's trees were grown: bool (n,); None for all rows."""
        return self.draw.inside(self._drawn)
