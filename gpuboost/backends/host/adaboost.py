"""Rounds of AdaBoost on the host, shared by the NumPy and Numba backends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuboost.backends.protocol import Backend
from gpuboost.engine.ensembles import adaboost
from gpuboost.engine.ensembles.adaboost_task import (
    REWEIGHTING,
    ClassObjective,
    ReweightTask,
    Round,
    goes_on,
)
from gpuboost.engine.ensembles.traversal import leaves_of_codes
from gpuboost.engine.growth.pruning import pruned_by
from gpuboost.engine.growth.tree import finish_tree
from gpuboost.engine.sparse_rows import dense
from gpuboost.engine.targets import TreeRows


class HostReweighter:
    """Implementation of `gpuboost.backends.protocol.Reweighter` on the host."""

    def __init__(self, backend: Backend, task: ReweightTask) -> None:
        self._backend, self._task = backend, task
        self._weights = task.start_weights()
        self._min_weights = adaboost.min_weights(self._weights)

    def boost(self, number: int) -> Round:
        """Grow the tree of a round, and compute the weights of the next round if there is one."""
        task, objective = self._task, self._task.objective
        rows = self._rows(number)
        ((_, grown),) = self._backend.grow(task.growing(number, lambda tree: rows))
        whole = finish_tree(grown, task.matrix.mapper, objective.target, rows, task.options)
        tree = pruned_by(whole, task.options)
        tree = replace(tree, value=dense(tree.value))
        seen, error = objective.look(tree, leaves_of_codes(tree, task.matrix), self._weights)
        if not goes_on(error, objective.chance):
            return Round.last(lambda: tree, error)
        outcome = objective.outcome(seen, self._weights, error)
        self._weights = np.maximum(outcome.weights, self._min_weights)
        return Round(lambda: tree, error, outcome.vote, outcome.bound)

    def _rows(self, number: int) -> TreeRows:
        """The rows of a round's tree, with weights rounded to integers by a hash, or resampled.

        The weights are those of the round, times the class weights, if there are any. If
        `ReweightTask.starts_whole`, the first round uses the sampler's weights unchanged.
        """
        task, weights = self._task, self._weights
        if number == 0 and task.starts_whole():
            return task.sampler.rows(number)
        if isinstance(task.objective, ClassObjective) and task.of_class is not None:
            weights = weights * task.of_class[task.objective.codes]
        by_weights = task.boosting == REWEIGHTING
        rows_of = adaboost.reweighted_rows if by_weights else adaboost.resampled_rows
        return rows_of(weights, task.objective.bits, task.sampler.seed, number)
