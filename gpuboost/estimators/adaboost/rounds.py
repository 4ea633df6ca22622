"""The rounds of AdaBoost: a tree, its error, its vote, and the weights of the next round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuboost.engine.ensembles.adaboost_task import ReweightTask, ValueObjective, goes_on
from gpuboost.estimators.fitting.grow_plan import with_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from gpuboost.engine.ensembles.adaboost_task import ClassObjective, Round
    from gpuboost.estimators.fitting.pipeline import Prepared


@dataclass(frozen=True, eq=False)
class Rounds:
    """A fit of AdaBoost, before its first round.

    Parameters
    ----------
    prepared : Prepared
    objective : ClassObjective or ValueObjective
    boosting : str
        `engine.ensembles.adaboost_task.REWEIGHTING` or `RESAMPLING`.
    of_class : float64 (K,) or None
        Multiplies the weights that trees see, and not those that errors are made of.
    """

    prepared: Prepared
    objective: ClassObjective | ValueObjective
    boosting: str
    of_class: np.ndarray | None = None

    def run(self) -> list[Round]:
        """All rounds.

        Raises
        ------
        ValueError
            The first tree of a classification is no better than chance.
        """
        n_rounds = len(self.prepared.plan.batch.trees)
        return list(with_progress(self._rounds(), n_rounds, self.prepared.execution.verbose))

    def _rounds(self) -> Iterator[Round]:
        """Rounds until one is perfect or no better than chance."""
        prepared, chance = self.prepared, self.objective.chance
        plan = prepared.plan
        task = ReweightTask(
            prepared.matrix,
            self.objective,
            plan.options,
            plan.batch.sampler,
            self.boosting,
            n_rounds=len(plan.batch.trees),
            of_class=self.of_class,
            n_threads=prepared.execution.n_threads,
        )
        reweighter = prepared.backend.reweighter(task)
        for number in plan.batch.trees:
            found = reweighter.boost(number)
            if number == 0 and found.error >= chance:
                self._check_first(found)
            if number == 0 or found.error < chance:
                yield found
            if not goes_on(found.error, chance):
                return

    def _check_first(self, found: Round) -> None:
        """A classification needs a first tree better than chance; a regression may keep any."""
        if isinstance(self.objective, ValueObjective):
            return
        raise ValueError(
            f"the first tree has a weighted error of {found.error:.3g} and must be below "
            f"{self.objective.chance:.3g}, that of guessing: there is nothing to boost. Let trees "
            "be deeper (max_depth, or that of estimator), or look whether X tells the classes apart"
        )
