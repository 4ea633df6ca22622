"""AdaBoost on a device: see `gpuboost.backends.protocol.Reweighter`.

Weights, targets and codes stay on the device, which finishes and judges the tree of a round, and
says what the weights are multiplied by. So a round that is replayed is launched before the host
has seen the one before; the host reads a tree and what its round has come to, in one piece. Trees
that are pruned are copied to the host for that, and back to be judged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from gpuboost.backends.cuda.finishing import Finished
from gpuboost.backends.cuda.grower import TreeGrower
from gpuboost.backends.cuda.inputs import InputsOfRounds
from gpuboost.backends.cuda.judging import N_FACTS, Facts, is_judged_as_grown
from gpuboost.backends.cuda.memory import HISTOGRAM_SHARE
from gpuboost.backends.cuda.reweighted_rows import ReweightedRows
from gpuboost.engine import adaboost
from gpuboost.engine.pruning import cut_back, pruned
from gpuboost.engine.spec import TreeRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuboost.backends.cuda.parcels import HostParcel
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.reweighting import ReweightTask, Round


class CudaReweighter:
    """A fit of AdaBoost on the device of a runtime.

    Parameters
    ----------
    runtime : Runtime
    task : ReweightTask
        ``memory_budget`` is for all arrays of the fit.

    Attributes
    ----------
    rows : ReweightedRows
        What the fit keeps on the device.
    """

    def __init__(self, runtime: Runtime, task: ReweightTask) -> None:
        self._runtime, self._task = runtime, task
        self._judges = is_judged_as_grown(task)
        self._ahead: tuple[int, Callable[[], HostParcel]] | None = None  # launched, and not read
        with runtime.active():
            self._begin_fit()

    def _begin_fit(self) -> None:
        task, sampler = self._task, self._task.sampler
        start = adaboost.start_weights(sampler.weights, sampler.n_samples)
        asked = task.growing(0, _nobodys_rows)
        budget = max(1, int(HISTOGRAM_SHARE * task.memory_budget))
        asked = replace(asked, memory_budget=budget)
        self._inputs = InputsOfRounds(asked, 1)

        def maker(own: Runtime, codes: Array) -> ReweightedRows:
            return ReweightedRows(own, task, asked, codes, start)

        self._grower = TreeGrower(self._runtime, asked, task.memory_budget, maker)
        self.rows = cast("ReweightedRows", self._grower.rounds)

    def boost(self, number: int) -> Round:
        """Grow the tree of a round, and make the weights of the next.

        The round after it is launched already where that is one launch: if no weights follow from
        this one, it is launched in vain.
        """
        with self._runtime.active():
            if not self._judges:
                return self._boost_pruned(number)
            read = self._take(number)
            if self._grower.recorded is not None and number + 1 < self._task.n_rounds:
                self._ahead = (number + 1, self._take(number + 1))
            copied = read()
            facts = Facts.of(copied.part("facts", 0, N_FACTS))
            return facts.round(facts.tree(copied, self.rows.finished.columns), self._task.judge.chance)

    def _take(self, number: int) -> Callable[[], HostParcel]:
        """Waits for the copy of a round, which is launched if it is not yet."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == number:
            return ahead[1]
        self.launch(number)
        return self.rows.parcel.read_later(self._runtime)

    def _boost_pruned(self, number: int) -> Round:
        """A round whose tree is pruned before it is judged."""
        runtime, rows, options = self._runtime, self.rows, self._task.options
        self.launch(number)
        _, (whole,) = rows.finished.copy_to_host(runtime)
        tree = pruned(cut_back(whole, options.least_decrease), options.ccp_alpha)
        facts = runtime.xp.empty(N_FACTS, dtype=np.float64)
        rows.judge.judge(Finished.of(runtime, [tree]), facts)
        return Facts.of(runtime.to_host(facts)).round(tree, self._task.judge.chance)

    def launch(self, number: int) -> None:
        """Launch a round: its weights, its tree, and what it comes to where none is pruned."""
        self.rows.begin(number)
        # The first round has no weights to make; those after it are alike.
        self._grower.launch(self._inputs.of(number), again=0 < number < self._task.n_rounds - 1)


def _nobodys_rows(tree: int) -> TreeRows:
    raise RuntimeError("the rows of rounds are made on the device")
