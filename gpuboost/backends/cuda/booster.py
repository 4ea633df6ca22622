"""Gradient boosting on a device: see `gpuboost.backends.protocol.Booster`.

Targets, weights, raw predictions, gradients, the rows of trees and their codes stay on the device.
A round of bounded depth is one recording (`TreeGrower`): gradients, rows, levels, and the values of
leaves added to raw predictions. The host reads the nodes of its trees, in one piece, and three
numbers of a mean loss. Where leaves are quantiles of residuals, held in order by monotonic
features, or pruned away, and for watched rows that are not binned, the finished trees are copied
back and their values added by walking them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from gpuboost.backends.boosting import rows_with_weight
from gpuboost.backends.cuda.code_trees import CodeTrees
from gpuboost.backends.cuda.features import DeviceFeatures
from gpuboost.backends.cuda.forest import copy_forest_to_device
from gpuboost.backends.cuda.grower import TreeGrower
from gpuboost.backends.cuda.inputs import HostInputs
from gpuboost.backends.cuda.late_trees import LateRound, LateTree, TreeFinisher
from gpuboost.backends.cuda.leaf_quantiles import LeafQuantiles
from gpuboost.backends.cuda.level_ops import UNASKED_DEPTH
from gpuboost.backends.cuda.memory import HISTOGRAM_SHARE, DeviceShape, trees_at_once
from gpuboost.backends.cuda.predict import find_leaves
from gpuboost.backends.cuda.round_rows import RoundRows
from gpuboost.backends.cuda.row_sets import DeviceRowSet
from gpuboost.engine.boosting import with_leaf_values
from gpuboost.engine.ensemble import Ensemble
from gpuboost.engine.losses import OrderStatisticLoss
from gpuboost.engine.losses.regression import Huber
from gpuboost.engine.spec import NO_LIMIT, GrowTask, Target, TreeRows

if TYPE_CHECKING:
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.rounds import BoostTask
    from gpuboost.engine.spec import GrownTree
    from gpuboost.engine.tree import Tree


class CudaBooster:
    """A fit of boosting on the device of a runtime.

    Parameters
    ----------
    runtime : Runtime
    task : BoostTask
        ``memory_budget`` is for all arrays of the fit.
    """

    def __init__(self, runtime: Runtime, task: BoostTask) -> None:
        self._runtime, self._task = runtime, task
        with runtime.active():
            self._start()
        self._drawn: tuple[int, np.ndarray | None] = (-1, None)
        self._parameter: np.ndarray | None = None  # of the loss, in the last round

    def _start(self) -> None:
        runtime, task = self._runtime, self._task
        asked = self._grow_task = grow_task(task)
        self._at_once = trees_at_once(asked, task.memory_budget, DeviceShape.of(runtime))
        adds = adds_on_device(task) and self._at_once >= task.trees_per_round
        made: list[RoundRows] = []

        def maker(own: Runtime, codes: Array) -> RoundRows:
            made.append(RoundRows(own, task, codes, adds))
            return made[-1]

        self._grower = TreeGrower(runtime, asked, task.memory_budget, maker)
        self._rounds = made[0]
        self._kernels = self._rounds.kernels
        self._finisher = TreeFinisher(task, self._grower, self._rounds)
        self._late: LateRound | None = None  # the last round, if its trees are not finished
        train, loss = self._rounds.rows, task.loss
        self._quantiles: LeafQuantiles | None = None
        if isinstance(loss, OrderStatisticLoss):
            self._quantiles = LeafQuantiles.of(runtime, loss, train)
        self._sets = self._rounds.sets

    # ---- what the trainer asks for -------------------------------------------------------------

    def boost(self, number: int, learning_rate: float) -> list[Tree]:
        """Fit the trees of a round, add them to the raw predictions, and return them."""
        self.rows_of_round(number)
        with self._runtime.active():
            self._parameter = self._round_parameter()
            self._rounds.begin(number, self._parameter, learning_rate)
            if not self._kernels.has_kernels:
                self._rounds.ask_user()
            if not self._left_to_host():
                return self._late_trees(number, learning_rate)
            trees = self._finisher.trees(self._grow(number), learning_rate)
            return self._add(number, trees, learning_rate)

    def rows_of_round(self, number: int) -> np.ndarray | None:
        """Rows that the trees of a round are grown on: bool (n,), None for all."""
        if self._drawn[0] != number:
            self._drawn = number, rows_with_weight(self._task, number, self._draw)
        return self._drawn[1]

    def raw_predictions(self, rows: int = 0) -> np.ndarray:
        """Raw predictions so far: float64 (n, columns), copied to the host."""
        with self._runtime.active():
            return self._runtime.to_host(self._sets[rows].raw).T

    def mean_loss(self, rows: int = 0, weights: np.ndarray | None = None) -> float:
        """Mean loss of a row set by its own weights, or by others."""
        own, loss = self._sets[rows], self._task.loss
        by = own.given.weights if weights is None else weights
        with self._runtime.active():
            there = own.weights if weights is None else self._runtime.asarray(weights)
            if not self._kernels.has_kernels:
                return loss.mean_loss(own.for_user(self._runtime.xp, there), np.zeros(loss.columns))
            parameter = self._parameter
            if parameter is None:
                parameter = self._kernels.parameter_of(own, by)
            on_device = self._runtime.asarray(parameter.astype(np.float64))
            return self._kernels.mean_loss(own, on_device, there)

    # ---- the steps of a round ------------------------------------------------------------------

    def _draw(self, number: int) -> np.ndarray:
        """Whether a round draws each row, copied to the host."""
        with self._runtime.active():
            self._rounds.begin(number, np.zeros(self._task.loss.columns))
            return self._rounds.drawn_rows()

    def _add(self, number: int, trees: list[Tree], learning_rate: float) -> list[Tree]:
        """Add the values of trees to the raw predictions that do not have them yet.

        The trees are returned, with leaves of their own if the loss has such.
        """
        runtime, train = self._runtime, self._sets[0]
        left = self._left_to_host()
        if not left:
            return trees
        forest, refits = CodeTrees.of(runtime, trees), self._task.loss.refits_leaves
        leaves = [self._leaves(forest, trees, rows) for rows in left]
        if refits:
            assert left[0] is train
            trees = self._refitted(number, trees, leaves[0], learning_rate)
        for rows, leaf in zip(left, leaves, strict=True):
            forest.add(runtime, leaf, trees, rows)
        return trees

    def _left_to_host(self) -> list[DeviceRowSet]:
        """Row sets whose raw predictions need finished trees."""
        rounds, (train, *others) = self._rounds, self._sets
        own = [rows for rows in others if rows.raw is not train.raw]
        if rounds.leaves is None:
            return [train, *own]
        return [rows for rows in own if not rounds.is_followed(rows)]

    def _leaves(self, forest: CodeTrees, trees: list[Tree], rows: DeviceRowSet) -> Array:
        """The leaf of each row in each tree: int32 (T, n)."""
        runtime = self._runtime
        if not isinstance(rows.data, DeviceFeatures):
            return forest.leaves(runtime, rows.data, self._task.matrix.missing_code)
        ensemble, dtype = Ensemble.of(trees), rows.data.values.dtype
        return find_leaves(runtime, copy_forest_to_device(runtime, ensemble, dtype), rows.data)

    def _round_parameter(self) -> np.ndarray:
        """What the loss takes as parameter in this round."""
        train, loss = self._sets[0], self._task.loss
        if isinstance(loss, Huber):
            assert self._quantiles is not None
            return self._quantiles.sizes_quantile(loss.alpha)
        return self._kernels.parameter_of(train, train.given.weights)

    def _grow(self, number: int) -> list[GrownTree]:
        """Grow the trees of a round, as many together as fit."""
        n_trees = self._task.trees_per_round
        first, grown = number * n_trees, []
        for start in range(first, first + n_trees, self._at_once):
            trees = range(start, min(start + self._at_once, first + n_trees))
            host = HostInputs.of(self._grow_task, trees)
            grown += self._grower.grow(host, again=n_trees % self._at_once == 0)
        return grown

    def _late_trees(self, number: int, learning_rate: float) -> list[Tree]:
        """Launch a round whose trees are finished when they are asked for."""
        n_trees, finisher = self._task.trees_per_round, self._finisher
        trees = range(number * n_trees, (number + 1) * n_trees)
        history = self._grower.launch(HostInputs.of(self._grow_task, trees), again=True)
        read = self._grower.read_later()
        assert read is not None
        if self._grower.recorded is None:  # the next round has another place for its nodes
            return finisher.of_copy(history, read(), learning_rate)
        late = LateRound(read, lambda copied: finisher.of_copy(history, copied, learning_rate))
        if self._late is not None:
            self._late.trees()  # while the device is busy with the round launched now
        self._late = late
        return [cast("Tree", LateTree(late, tree)) for tree in range(n_trees)]

    def _refitted(
        self, number: int, trees: list[Tree], leaf: Array, learning_rate: float
    ) -> list[Tree]:
        """Trees with the loss's own values in their leaves."""
        xp, parameter, quantiles = self._runtime.xp, self._parameter, self._quantiles
        assert parameter is not None
        assert quantiles is not None
        inside, found = self.rows_of_round(number), []
        n_grouped = leaf.shape[1] if inside is None else int(inside.sum())
        outside = None if inside is None else self._runtime.asarray(~inside)
        for column, tree in enumerate(trees):
            leaves = np.flatnonzero(tree.left == 0)
            place = np.full(tree.node_count, -1, dtype=np.int32)
            place[leaves] = np.arange(len(leaves))
            group = self._runtime.asarray(place)[leaf[column]]
            if outside is not None:
                group = xp.where(outside, np.int32(-1), group)
            given = (column, group, len(leaves), n_grouped, parameter)
            found.append(with_leaf_values(tree, quantiles.leaf_values(*given) * learning_rate))
        return found


def adds_on_device(task: BoostTask) -> bool:
    """Whether the values of leaves can be made and added with the last launch of a round.

    Where they follow from the sums of their own rows alone, no leaf is pruned away afterwards, and
    the levels of trees are few enough to be launched without knowing how many nodes they have.
    """
    options = task.options
    held = options.regularisation.monotonic is not None or task.loss.refits_leaves
    bounded = options.max_depth <= UNASKED_DEPTH and options.max_leaf_nodes == NO_LIMIT
    return bounded and not held and options.ccp_alpha == 0.0


def grow_task(task: BoostTask) -> GrowTask:
    """What is grown in a round, without its rows: those that stand for them have their sizes."""
    width = task.loss.columns if task.sums_outputs else 1
    n_hessians = 1 if task.loss.constant_hessian else width
    n = task.matrix.n_samples
    stand_in = TreeRows(
        np.ones(n, dtype=np.int32),
        None,
        draws=False,
        wide=np.zeros((n, width + n_hessians), dtype=np.int64),
        gradient=np.zeros((n, width), dtype=np.int32),
    )
    return GrowTask(
        task.matrix,
        Target(None, None, 0, width),
        task.options,
        rows_of=lambda tree: stand_in,
        trees=range(task.trees_per_round),
        seed=task.seed,
        features_of=task.features_of,
        n_threads=task.n_threads,
        memory_budget=max(1, int(HISTOGRAM_SHARE * task.memory_budget)),
    )
