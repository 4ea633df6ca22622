"""Trees of boosting rounds that the host finishes: pruned ones, and those of a round that does not
fit the memory as a whole.

All others the device finishes: `gpuboost.backends.cuda.growth.finish.Finisher`.
"""

from __future__ import annotations

from gpuboost.backends.cuda.boosting.round_rows import RoundRows
from gpuboost.backends.host.boosting import no_row_error
from gpuboost.engine.ensembles.boosting import LeafRule, finish_boosted
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.task import GrownTree


class HostFinisher:
    """Makes the trees of a round of what was grown.

    Parameters
    ----------
    task : BoostTask
    rounds : RoundRows
    """

    def __init__(self, task: BoostTask, rounds: RoundRows) -> None:
        self._task, self._rounds = task, rounds

    def trees(self, grown: list[GrownTree], number: int, learning_rate: float) -> list[Tree]:
        """Grown trees of a round with thresholds and Newton steps; those that were copied last.

        Raises
        ------
        ValueError
            The round has drawn no row with weight.
        """
        task, scale = self._task, self._rounds.gradients.read_scale()
        if grown[0].count[0] == 0:
            raise no_row_error(task.sampler, number)
        n_outputs = task.loss.columns if task.sums_outputs else 1
        rule = LeafRule.of(task.options, learning_rate)
        mapper = task.matrix.mapper
        return [finish_boosted(each, mapper, scale, n_outputs, rule) for each in grown]
