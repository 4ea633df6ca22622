"""Finishes boosted trees on the host if they are pruned or a round does not fit memory.

All other trees are finished on the device: `gpuboost.backends.cuda.growth.finish.Finisher`.
"""

from __future__ import annotations

from gpuboost.backends.cuda.boosting.round_rows import RoundRows
from gpuboost.backends.host.boosting import no_row_error
from gpuboost.engine.ensembles.boosting import finish_boosted
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.task import GrownTree


class HostFinisher:
    """Finishes the grown trees of a round on the host.

    Parameters
    ----------
    task : BoostTask
    rounds : RoundRows
    """

    def __init__(self, task: BoostTask, rounds: RoundRows) -> None:
        self._task, self._rounds = task, rounds

    def trees(self, grown: list[GrownTree], number: int, learning_rate: float) -> list[Tree]:
        """Add thresholds and Newton steps to the grown trees of the round launched last.

        Raises
        ------
        ValueError
            If all rows drawn for the round have weight zero.
        """
        task, scale = self._task, self._rounds.gradients.read_scale()
        if grown[0].count[0] == 0:
            raise no_row_error(task.sampler, number)
        n_outputs = task.loss.columns if task.sums_outputs else 1
        rule = task.options, learning_rate
        mapper = task.matrix.mapper
        return [finish_boosted(each, mapper, scale, n_outputs, *rule) for each in grown]
