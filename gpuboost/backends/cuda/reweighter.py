"""AdaBoost on a device: see `gpuboost.backends.protocol.Reweighter`.

Weights, targets, codes and what each tree says of the rows stay on the device. A round of bounded
depth is one recording: the weights that follow from the round before, the rows of the tree, its
levels, its error. The host reads its nodes and two sums, in one piece, and says what the weights
are multiplied by; it finishes the tree while the next round runs. Deeper trees of many leaves, and
those that are pruned or take medians, are finished first and copied back to be judged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from gpuboost.backends.adaboost import finish_round
from gpuboost.backends.cuda.grower import TreeGrower
from gpuboost.backends.cuda.inputs import HostInputs
from gpuboost.backends.cuda.late_trees import LateTree
from gpuboost.backends.cuda.memory import HISTOGRAM_SHARE
from gpuboost.backends.cuda.placed import PlacedNodes
from gpuboost.backends.cuda.reweighted_rows import ReweightedRows
from gpuboost.engine import adaboost
from gpuboost.engine.reweighting import (
    RESAMPLING,
    ClassJudge,
    Round,
    goes_on,
    reversed_tree,
    said_classes,
)
from gpuboost.engine.spec import TreeRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.history import Keeper
    from gpuboost.engine.reweighting import ReweightTask
    from gpuboost.engine.spec import GrownTree
    from gpuboost.engine.tree import Tree


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
        with runtime.active():
            self._begin_fit()

    def _begin_fit(self) -> None:
        task, sampler = self._task, self._task.sampler
        start = adaboost.start_weights(sampler.weights, sampler.n_samples)
        asked = task.growing(0, _nobodys_rows)
        budget = max(1, int(HISTOGRAM_SHARE * task.memory_budget))
        asked = self._asked = replace(asked, memory_budget=budget)

        def maker(own: Runtime, codes: Array) -> ReweightedRows:
            return ReweightedRows(own, task, asked, codes, start)

        self._grower = TreeGrower(self._runtime, asked, task.memory_budget, maker)
        self.rows = cast("ReweightedRows", self._grower.rounds)
        self._factors = np.ones(2)  # of the next round
        self._late: LateTree | None = None  # of the last round, if it is not finished

    def boost(self, number: int) -> Round:
        """Grow the tree of a round, and make the weights of the next."""
        with self._runtime.active():
            history = self.launch(number)
            read = self._grower.read_later()
            if self._late is not None:
                self._late.finished()  # while the device is busy with the round launched now
                self._late = None
            if read is None:
                return self._judged(number, history)
            copied, kept = read(), self.rows.kept
            assert kept is not None
            kept.show(copied)
            lost, whole = kept.on_host(self.rows.sums).tolist()
            error, is_reversed = self._error_of(lost, whole)
            brief = self._brief(number, kept.on_host)

            def finish() -> Tree:
                (grown,) = self._grower.trees(history, copied)
                return self._finished(grown, brief, is_reversed)

            late = LateTree(finish)
            if self._grower.recorded is None:  # the next round has another place for its nodes
                late.finished()
            self._late = late
            return self._round(cast("Tree", late), error, is_reversed)

    def launch(self, number: int) -> Keeper:
        """Launch a round: its weights, its tree, and its error where leaves are known there."""
        task, whole = self._task, None
        if number == 0 and task.starts_whole():
            whole = task.sampler.whole
            if whole is None:
                whole = np.ones(task.sampler.n_samples, dtype=np.int32)
        self.rows.begin(self._factors if number > 0 else None, whole)
        host = HostInputs.of(self._asked, range(number, number + 1))
        # The first round has no weights to make; those after it are alike.
        return self._grower.launch(host, again=0 < number < task.n_rounds - 1)

    def _judged(self, number: int, history: Keeper) -> Round:
        """A round whose tree is finished before it is judged."""
        runtime, rows = self._runtime, self.rows
        (grown,) = self._grower.trees(history, None)
        brief = self._brief(number, runtime.to_host)
        tree = self._finished(grown, brief, is_reversed=False)
        by_class = isinstance(self._task.judge, ClassJudge)
        says = said_classes(tree) if by_class else tree.value[:, 0]
        nodes = PlacedNodes.of_tree(runtime, tree)
        rows.weights.judge(nodes, runtime.asarray(np.ascontiguousarray(says)), rows.sums)
        error, is_reversed = self._error_of(*runtime.to_host(rows.sums).tolist())
        return self._round(reversed_tree(tree) if is_reversed else tree, error, is_reversed)

    def _error_of(self, lost: int, whole: int) -> tuple[float, bool]:
        """The error of a tree, and whether it is that of its opposite."""
        judge, error = self._task.judge, adaboost.share_of(lost, whole)
        if isinstance(judge, ClassJudge) and judge.reverses(error):
            return adaboost.share_of(whole - lost, whole), True
        return error, False

    def _round(self, tree: Tree, error: float, is_reversed: bool) -> Round:
        """What a round comes to; what the weights are multiplied by is kept for the next."""
        judge, bound = self._task.judge, 1.0
        if not goes_on(error, judge.chance):
            return Round.last(tree, error)
        vote = judge.vote(error)
        factors = np.array([adaboost.value_step(vote), 0.0])
        if isinstance(judge, ClassJudge):
            factors, bound = adaboost.class_factors(error, vote)
        self._factors = factors[::-1] if is_reversed else factors
        return Round(tree, error, vote, bound)

    def _brief(self, number: int, copy: Callable[[Array], np.ndarray]) -> TreeRows:
        """The rows of a tree without the rows: how its leaf sums are to be read."""
        task = self._task
        if task.boosting == RESAMPLING:
            unit = 1.0 / task.sampler.n_samples
        elif number == 0 and task.starts_whole():
            unit = task.sampler.brief.unit
        else:
            unit = 2.0 ** -int(copy(self.rows.exponent)[0])
        return TreeRows(np.zeros(0, dtype=np.int32), None, draws=True, unit=unit)

    def _finished(self, grown: GrownTree, brief: TreeRows, is_reversed: bool) -> Tree:
        tree = finish_round(self._task, grown, brief)
        return reversed_tree(tree) if is_reversed else tree


def _nobodys_rows(tree: int) -> TreeRows:
    raise RuntimeError("the rows of rounds are made on the device")
