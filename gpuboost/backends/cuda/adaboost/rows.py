"""The rows of the trees of AdaBoost: launches of draw.cu, roots.cu and adaboost.cu.

The rows equal those of `reweighted_rows` and `resampled_rows` of `engine.ensembles.adaboost` or, in
the first round if `ReweightTask.starts_whole`, those of `RowSampler.rows`. Making them reads
nothing back, so all rounds but the first have the same launches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuboost.backends.cuda.adaboost.facts import FACTS
from gpuboost.backends.cuda.adaboost.row_weights import RowWeights
from gpuboost.backends.cuda.growth.best_first import SplitQueue
from gpuboost.backends.cuda.growth.finish import Finisher
from gpuboost.backends.cuda.growth.hooks import RowsOfRounds
from gpuboost.backends.cuda.growth.node_buffer import NumberedNodes
from gpuboost.backends.cuda.growth.tree_arrays import Finished
from gpuboost.backends.cuda.growth.value_rule import ValueRule
from gpuboost.backends.cuda.runtime.launch import launch, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.readback import Readback
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs
from gpuboost.backends.cuda.sampling.device_sampler import DeviceSampler, TreeKeys
from gpuboost.backends.cuda.sampling.draw import Guided, counts_of_every_row, row_order
from gpuboost.backends.cuda.sampling.real_weights import RealWeights
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.backends.cuda.sampling.uploaded_rows import target_columns
from gpuboost.engine.ensembles.adaboost import WeightBits
from gpuboost.engine.ensembles.adaboost_task import RESAMPLING, ReweightTask
from gpuboost.engine.fixed_point import SUM_BITS, sum_bits
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import GrowTask

# Returned in place of the largest weight, so that a block may sum any number of rows. The integer
# weights of all rows of a tree add up to less than 2**32, so sums cannot wrap around.
ANY_ROWS = 1


class ReweightedRows(RowsOfRounds):
    """Makes the rows of each round's tree, and holds the device data of a fit.

    Parameters
    ----------
    runtime : Runtime
    task : ReweightTask
    growing : GrowTask
        Task of growing the trees.
    codes : uint8 (F, n)
        Codes of the training rows.
    start : float64 (n,)
        Weights of the first round.

    Attributes
    ----------
    weights : RowWeights
        Weights of the rows in the current round.
    finished : Finished
        The tree of the round launched last.
    readback : Readback
        The arrays of this tree and, if it was evaluated, the results of the round.
    """

    finished: Finished
    readback: Readback

    def __init__(
        self,
        runtime: Runtime,
        task: ReweightTask,
        growing: GrowTask,
        codes: Array,
        start: np.ndarray,
    ) -> None:
        target, bits = task.objective.target, task.objective.bits
        self._runtime, self._task = runtime, task
        self.weights = RowWeights(runtime, task, codes, start)
        self._columns = target_columns(runtime, growing)
        self._order = row_order(runtime, growing, self._columns)
        self._wide = None if target.wide is None else runtime.asarray(target.wide[None])
        self._device = DeviceSampler(runtime, task.sampler)
        self._max_rows = task.sampler.max_rows
        by_class = ClassFactors(runtime, task, self.weights.known)
        self._resampling: Resampling | None = None
        self._rounding: RealWeights | None = None
        if task.boosting == RESAMPLING:
            self._resampling = Resampling(self._device, self.weights, by_class, bits)
        else:
            self._once = runtime.xp.ones((1, task.sampler.n_samples), dtype=np.uint32)
            self._rounding = RealWeights(
                self._device,
                self._order,
                factor=self.weights.values,
                code=by_class.label,
                bits=(bits.largest, bits.total),
                n_classes=by_class.weight.shape[1],
                of_class=by_class.weight,
            )
        self._finisher = Finisher(runtime, growing)
        self._rule = ValueRule.of_target(runtime, growing)
        self._whole: tuple[Array, Array] | None = None
        self._follows = True

    def begin(self, number: int) -> None:
        """Begin a round; `make` updates the weights in all rounds but the first of the fit.

        If tree 0 uses the weights unchanged, they are copied to the device here.
        """
        task, self._whole = self._task, None
        self._follows = number > task.first_round
        if number > 0 or not task.starts_whole():
            return
        unit = np.array([task.sampler.shared_rows.unit])
        self._whole = (counts_of_every_row(self._device), self._runtime.asarray(unit))

    # ---- RowsOfRounds --------------------------------------------------------------------------

    def make(self, inputs: BatchInputs) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Update the weights, except in the fit's first round, and make the rows of the tree.

        The results are as in `DeviceDrawing.rows`; the largest weight is `ANY_ROWS`.
        """
        xp = self._runtime.xp
        if self._follows:
            self.weights.reweigh()
        rows = DeviceRows.empty(xp, self._max_rows, len(self._columns))
        count = self._list(inputs.keys, rows)
        if self._wide is None:
            return rows, count, None, ANY_ROWS
        n_classes = self._task.objective.target.n_classes
        leaf = LeafColumns(self._wide, zeros(self._runtime, 1, np.int32), n_classes, draws=True)
        return rows, count, leaf, ANY_ROWS

    def _list(self, keys: TreeKeys, rows: DeviceRows) -> Array:
        """Write the rows of the tree to ``rows``; return their number, int64 (1,)."""
        if self._rounding is not None and self._whole is None:
            count, _, self._unit = self._rounding.list_rows(keys, self._once, self._columns, rows)
            return count
        if self._whole is not None:
            drawn, self._unit = self._whole
        else:
            assert self._resampling is not None
            drawn, self._unit = self._resampling.draw(keys), self._resampling.unit
        return self._device.list_drawn(drawn, 1, self._order, self._columns, rows)

    def add_leaves(
        self, inputs: BatchInputs, queue: SplitQueue | None, grown: NumberedNodes
    ) -> None:
        """Finish the tree and, unless the host prunes it, evaluate it."""
        rule = replace(self._rule, unit=self._unit)
        columns = self._finisher.columns_of(grown, rule.n_values)
        self.readback = Readback(self._runtime.xp, FACTS | columns)
        arrays = self.readback.arrays
        self.finished = Finished(grown.numbers.table, {name: arrays[name] for name in columns})
        self._finisher.finish_into(self.finished, grown, rule)
        if not self._task.options.prunes:
            self.weights.evaluate(self.finished, arrays["facts"])


class ClassFactors:
    """Class weights, which multiply the weights of rows in trees, and the classes of the rows.

    Attributes
    ----------
    given : bool
        Whether the fit has class weights.
    weight : float64 (1, classes)
        Class weights; by default one weight of 1.
    label : int32 (n,)
        Classes of the rows; without class weights, a placeholder of one zero.
    """

    def __init__(self, runtime: Runtime, task: ReweightTask, known: Array) -> None:
        self.given = task.of_class is not None
        of_class = np.ones(1) if task.of_class is None else task.of_class
        self.weight = runtime.asarray(np.ascontiguousarray(of_class)[None])
        self.label = known if self.given else runtime.asarray(np.zeros(1, dtype=np.int32))


class Resampling:
    """Draws n_samples rows with replacement, in proportion to weights times class weights.

    Attributes
    ----------
    unit : float64 (1,)
        Factor from draw counts to the weights of the round: 1 / n_samples.
    """

    def __init__(
        self, device: DeviceSampler, weights: RowWeights, of_class: ClassFactors, bits: WeightBits
    ) -> None:
        self._device, self._weights, self._capacity = device, weights, 2**bits.largest
        self._n = n = device.sampler.n_samples
        self._bits = SUM_BITS - sum_bits(n)
        self.unit = device.runtime.asarray(np.array([1.0 / n]))
        self._given = {"weights": weights.values, "n": n, "of_class": of_class.weight}
        self._given |= {"label": of_class.label, "weighted": of_class.given}

    def draw(self, keys: TreeKeys) -> Array:
        """Draw rows; return the draw count of each row, uint32 (1, n).

        Counts above 2**bits.largest are reduced to it.
        """
        device, n = self._device, self._n
        drawn = zeros(device.runtime, (1, n), np.uint32)
        guided, sizes = Guided.of(device, self._cumulative()), {"n_samples": n, "n_draws": n}
        launch(device.runtime, "draw_weighted", device.parts, keys, guided, drawn=drawn, **sizes)
        if n > self._capacity:
            self._weights.launch("cap_draws", drawn=drawn, n=n, capacity=self._capacity)
        return drawn

    def _cumulative(self) -> Array:
        """Compute the running sum of weights times class weights, in fixed point: uint64 (n,)."""
        runtime, over_rows = self._device.runtime, self._weights.launch
        given = {**self._given, "largest": zeros(runtime, 1, np.uint64)}
        over_rows("find_heaviest", **given)
        parts = -(-self._n // constant("adaboost/adaboost.cu", "WEIGHT_PART"))
        kept = zeros(runtime, (1, parts), np.int64)
        launch(runtime, "sum_parts", parts, **given, bits=self._bits, kept=kept)
        first, _ = self._device.place(kept)
        found = {"first": first, "cumulative": runtime.xp.empty(self._n, dtype=np.uint64)}
        launch(runtime, "add_up", parts, **given, **found, bits=self._bits)
        return found["cumulative"]
