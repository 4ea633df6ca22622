"""Gradient boosting on a device; see `gpuboost.backends.protocol.Booster`.

Targets, weights, raw predictions, gradients, the rows of trees and their codes stay on the device.
If all levels of a round are launched without waiting for the device (see `is_sync_free`) and its
arrays fit in memory at once, the round is one recording (`TreeGrower`): gradients, rows, levels,
finished trees, updated raw predictions and mean losses. The derivatives and mean losses of a
user-defined loss are computed outside the recording.
If the arrays of the trees are small, the host reads the trees and the losses in one copy while the
next round runs; otherwise it waits for the size of the trees first. If trees are pruned, or a whole
round does not fit in memory, the host finishes the trees and copies them to the device, and all
rows traverse them to update raw predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from gpuboost.backends.cuda.boosting.boosted_round import BoostedRound, read_round
from gpuboost.backends.cuda.boosting.custom_losses import UserLosses
from gpuboost.backends.cuda.boosting.leaf_quantiles import LeafQuantiles, ListedRows
from gpuboost.backends.cuda.boosting.leaf_updates import RoundLeaves, add_leaves
from gpuboost.backends.cuda.boosting.round_rows import RoundRows
from gpuboost.backends.cuda.growth.finish import Finisher
from gpuboost.backends.cuda.growth.grower import TreeGrower
from gpuboost.backends.cuda.growth.memory_plan import HISTOGRAM_SHARE, trees_at_once
from gpuboost.backends.cuda.growth.node_buffer import NumberedNodes
from gpuboost.backends.cuda.growth.tree_arrays import Finished
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape
from gpuboost.backends.cuda.sampling.batch_inputs import HostInputs, InputsOfRounds
from gpuboost.backends.host.boosting import no_row_error
from gpuboost.backends.protocol import FittedRound
from gpuboost.engine.ensembles.boosting import finish_boosted
from gpuboost.engine.ensembles.boosting_task import BoostTask, DoneRound
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.losses import LeafRule
from gpuboost.engine.targets import GradientTarget, TreeRows
from gpuboost.engine.task import GrownTree, GrowTask


class CudaBooster:
    """A fit of boosting on the device of a runtime.

    Parameters
    ----------
    runtime : Runtime
    task : BoostTask
        ``memory_budget`` is the number of bytes for the arrays of a batch of trees, in addition to
        the data that all rounds share.

    Attributes
    ----------
    rounds : RoundRows
        Device data of the fit.
    """

    def __init__(self, runtime: Runtime, task: BoostTask) -> None:
        self._runtime, self._task = runtime, task
        with runtime.active():
            self._start()

    def _start(self) -> None:
        runtime, task = self._runtime, self._task
        growing = self._grow_task = grow_task(task)
        self._inputs = InputsOfRounds(growing, task.trees_per_round)
        self._at_once = trees_at_once(growing, task.memory_budget, DeviceShape.of(runtime))
        self._is_repeated = task.trees_per_round % self._at_once == 0  # all batches are of one size
        # Pruning is sequential (it removes one weakest link after another), so the host does it.
        adds = not task.options.prunes and self._at_once >= task.trees_per_round

        def maker(own: Runtime, codes: Array) -> RoundRows:
            return RoundRows(own, task, codes, Finisher(own, growing) if adds else None)

        self._grower = TreeGrower(runtime, growing, task.memory_budget, maker)
        self.rounds = self._grower.rounds
        self._pending: BoostedRound | None = None  # the round launched last, if it is read later
        self._sets = self.rounds.sets

    # ---- the Booster protocol ------------------------------------------------------------------

    def boost(self, number: int, learning_rate: float) -> FittedRound:
        """Fit the trees of a round, and add their values to the raw predictions of all row sets.

        If the device finishes the trees, the result is a round that the device still works on.
        """
        with self._runtime.active():
            self.rounds.draw.begin(number, learning_rate)
            user = None
            if not self._task.loss.has_formula:
                user = UserLosses(self.rounds, self._task, number)
                self.rounds.gradients.ask_user(self.rounds.rows)
            if self.rounds.leaves is not None:
                return self._pending_round(self.rounds.leaves, number, user)
            trees = self._add(self._grown_trees(number, learning_rate))
            self.rounds.keep_losses()
            return DoneRound(trees, user.after() if user else self.rounds.mean_losses())

    def raw_predictions(self, rows: int = 0) -> np.ndarray:
        """Copy the raw predictions so far to the host: float64 (n, columns).

        ``rows`` is the index of a row set: 0 for the training rows, 1, 2, ... for the watched sets.
        """
        with self._runtime.active():
            return self._runtime.to_host(self._sets[rows].raw).T

    def close(self) -> None:
        """Do nothing: memory is freed with the arrays."""

    # ---- the steps of a round ------------------------------------------------------------------

    def _add(self, trees: list[Tree]) -> list[Tree]:
        """Add to the raw predictions the leaf values of trees that the host has finished.

        Returns the trees; if the loss has a leaf rule, their leaf values are replaced.
        """
        runtime, missing_code = self._runtime, self._task.matrix.missing_code
        finished = Finished.of(runtime, trees)
        numbers = runtime.asarray(np.arange(len(trees), dtype=np.uint64))
        if self._task.loss.leaf_rule is not None:
            self._set_quantiles(self._task.loss.leaf_rule, finished, numbers)
            values = runtime.to_host(finished.columns["value"])
            ends = np.cumsum([tree.node_count for tree in trees])[:-1]
            own = zip(trees, np.split(values, ends), strict=True)
            trees = [replace(tree, value=value) for tree, value in own]
        for rows in self.rounds.followed:
            add_leaves(runtime, finished, numbers, rows, missing_code, None)
        return trees

    def _grown_trees(self, number: int, learning_rate: float) -> list[Tree]:
        """Grow the trees of a round in batches that fit in memory; the host finishes the trees.

        Raises
        ------
        ValueError
            If all rows drawn for the round have weight zero.
        """
        task, grown = self._task, list[GrownTree]()
        for host in self._batches(number):
            grown += self._grower.grow(host, self._is_repeated)
        if grown[0].count[0] == 0:
            raise no_row_error(task.sampler, number)
        gradients = self.rounds.gradients
        facts = task.matrix.mapper, gradients.read_scale(), gradients.n_outputs, task.options
        return [finish_boosted(each, *facts, learning_rate) for each in grown]

    def launch(self, number: int) -> NumberedNodes:
        """Launch the first batch of trees of a round, often the whole round."""
        return self._grower.launch(next(self._batches(number)), self._is_repeated)

    def _batches(self, number: int) -> Iterator[HostInputs]:
        """Yield the inputs of a round's trees, in batches that fit in memory."""
        n_trees = self._task.trees_per_round
        if self._at_once >= n_trees:
            yield self._inputs.of(number)
            return
        end = (number + 1) * n_trees
        for first in range(end - n_trees, end, self._at_once):
            yield HostInputs.of(self._grow_task, range(first, min(first + self._at_once, end)))

    def _pending_round(
        self, leaves: RoundLeaves, number: int, user: UserLosses | None
    ) -> FittedRound:
        """Launch a round that the host reads later, and meanwhile read the round before it."""
        self.launch(number)
        if self._pending is not None:
            self._pending.results()  # while the device is busy with the round launched now
        read = leaves.read_later()
        found = user.after() if user else self.rounds.losses
        assert found is not None
        error = partial(no_row_error, self._task.sampler, number)
        self._pending = BoostedRound(partial(read_round, read, found, error))
        return self._pending

    def _set_quantiles(self, rule: LeafRule, finished: Finished, numbers: Array) -> None:
        """Replace the leaf values of finished trees by the values of the loss's leaf rule."""
        runtime, rounds, n_trees = self._runtime, self.rounds, len(numbers)
        xp, inside = runtime.xp, rounds.inside()
        row = xp.arange(rounds.rows.n) if inside is None else xp.flatnonzero(inside)
        n_rows = runtime.asarray(np.full(n_trees, len(row), dtype=np.int64))
        start = runtime.asarray(np.arange(n_trees, dtype=np.int64) * len(row))
        listed = ListedRows(xp.tile(row.astype(np.uint32), n_trees), start, n_rows)
        capacity, weights = len(finished.columns["left"]), rounds.leaf_weights
        quantiles = LeafQuantiles(runtime, rule, rounds.rows, weights, capacity, len(listed.row))
        quantiles.begin()
        quantiles.keep_traversed(listed, finished, self._task.matrix.missing_code, numbers)
        parameter, rate, value = rounds.parameter, rounds.draw.rate, finished.columns["value"]
        quantiles.finish(numbers, parameter, n_rows[:1], rate, value)


def grow_task(task: BoostTask) -> GrowTask:
    """Make the task of growing a round's trees, with placeholder rows of the right sizes."""
    width = task.loss.columns if task.sums_outputs else 1
    n_hessians = 1 if task.loss.constant_hessian else width
    n = task.matrix.n_samples
    stand_in = TreeRows(
        np.broadcast_to(np.int32(1), (n,)),
        None,
        draws=False,
        wide=np.broadcast_to(np.int64(0), (n, width + n_hessians)),
        gradient=np.broadcast_to(np.int32(0), (n, width)),
    )
    return GrowTask(
        task.matrix,
        GradientTarget(width),
        task.options,
        rows_of=lambda tree: stand_in,
        trees=range(task.trees_per_round),
        seed=task.seed,
        features_of=task.features_of,
        n_threads=task.n_threads,
        memory_budget=max(1, int(HISTOGRAM_SHARE * task.memory_budget)),
    )
