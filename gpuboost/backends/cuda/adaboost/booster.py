"""AdaBoost on a device; see `gpuboost.backends.protocol.Reweighter`.

Weights, targets and codes stay on the device. The device finishes and evaluates the tree of a round
and computes the factors of the weights. If the arrays of a tree are small, the host reads them and
the results of the round in one copy; if rounds are recorded, it launches the next round first. If
the arrays are large, it reads the results, then the used part of the arrays. Trees that are pruned
(with ``ccp_alpha`` or ``min_impurity_decrease``) are copied to the host, pruned there, and copied
back to be evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np

from gpuboost.backends.cuda.adaboost.facts import N_FACTS, Facts
from gpuboost.backends.cuda.adaboost.rows import ReweightedRows
from gpuboost.backends.cuda.growth.grower import TreeGrower
from gpuboost.backends.cuda.growth.memory_plan import HISTOGRAM_SHARE
from gpuboost.backends.cuda.growth.pending_round import PendingRound, TreesReader
from gpuboost.backends.cuda.growth.tree_arrays import Finished
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.readback import HostCopy, is_copied_whole
from gpuboost.backends.cuda.sampling.batch_inputs import InputsOfRounds
from gpuboost.engine.ensembles.adaboost_task import ReweightTask, Round
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.growth.pruning import pruned_by
from gpuboost.engine.targets import TreeRows


class CudaReweighter:
    """A fit of AdaBoost on the device of a runtime.

    Parameters
    ----------
    runtime : Runtime
    task : ReweightTask
        ``memory_budget`` is the number of bytes for the arrays of a round, in addition to the data
        that all rounds share.

    Attributes
    ----------
    rows : ReweightedRows
        Device data of the fit.
    """

    def __init__(self, runtime: Runtime, task: ReweightTask) -> None:
        self._runtime, self._task = runtime, task
        self._ahead: PendingRound[Facts] | None = None  # a round launched early
        self._pending: PendingRound[Facts] | None = None  # the round returned last
        with runtime.active():
            self._begin_fit()

    def _begin_fit(self) -> None:
        task = self._task
        start = task.start_weights()
        growing = task.growing(0, _no_host_rows)
        budget = max(1, int(HISTOGRAM_SHARE * task.memory_budget))
        growing = replace(growing, memory_budget=budget)
        self._inputs = InputsOfRounds(growing, 1)

        def maker(own: Runtime, codes: Array) -> ReweightedRows:
            return ReweightedRows(own, task, growing, codes, start)

        self._grower = TreeGrower(self._runtime, growing, task.memory_budget, maker)
        self.rows = self._grower.rounds

    def boost(self, number: int) -> Round:
        """Grow and evaluate the tree of a round.

        If rounds are recorded and copied whole, and trees are not pruned, the next round, if there
        is one, is launched before this one is read. If boosting stops at this round, the next round
        is discarded.
        """
        with self._runtime.active():
            if self._task.options.prunes:
                return self._boost_pruned(number)
            pending, self._ahead = self._ahead or self._launched(number), None
            is_last = number + 1 == self._task.n_rounds
            if self._grower.recorded is not None and self._is_small and not is_last:
                self._ahead = self._launched(number + 1)
            if self._pending is not None:
                self._pending.trees()  # while the device runs the next round
            self._pending = pending
            facts = pending.results()
            return facts.round(lambda: pending.trees()[0], self._task.objective.chance)

    def _launched(self, number: int) -> PendingRound[Facts]:
        """Launch a round and, if it is copied whole, start the copy."""
        self.launch(number)
        if self._is_small:
            return PendingRound(partial(_read_whole, self.rows.readback.read_later(self._runtime)))
        return PendingRound(self._read_facts)

    def _read_facts(self) -> tuple[Facts, TreesReader]:
        """Wait for the results of a round, then start to copy the used part of its tree's arrays.

        Returns the results and a function that waits for the copy and returns the tree.
        """
        runtime, rows = self._runtime, self.rows
        facts = Facts.of(runtime.read_later(rows.readback.arrays["facts"])())
        later = rows.finished.read_later(runtime, facts.n_nodes, facts.n_masks)
        return facts, cache(lambda: [facts.tree(later())])

    @property
    def _is_small(self) -> bool:
        """Whether a round is copied whole, including unused node capacity."""
        return is_copied_whole(self.rows.readback.n_bytes)

    def _boost_pruned(self, number: int) -> Round:
        """Run a round whose tree is pruned before it is evaluated."""
        runtime, rows = self._runtime, self.rows
        self.launch(number)
        _, (whole,) = rows.finished.copy_to_host(runtime)
        tree = pruned_by(whole, self._task.options)
        facts = runtime.xp.empty(N_FACTS, dtype=np.float64)
        rows.weights.evaluate(Finished.of(runtime, [tree]), facts)
        found = Facts.of(runtime.to_host(facts))
        return found.round(lambda: tree, self._task.objective.chance)

    def launch(self, number: int) -> None:
        """Launch a round: update the weights, except in the first round, and grow the tree.

        Unless the tree is pruned, it is also evaluated.
        """
        self.rows.begin(number)
        # The first round updates no weights, so its launches differ from those of later rounds.
        again = self._task.first_round < number < self._task.n_rounds - 1
        self._grower.launch(self._inputs.of(number), again=again)


def _read_whole(copy: Callable[[], HostCopy]) -> tuple[Facts, TreesReader]:
    """Wait for the copy of a round; return its results and a function that returns its tree."""
    found = copy()
    facts = Facts.of(found.part("facts", 0, N_FACTS))
    trees = [facts.tree(found)]
    return facts, lambda: trees


def _no_host_rows(tree: int) -> TreeRows:
    raise RuntimeError("the rows of rounds are made on the device")
