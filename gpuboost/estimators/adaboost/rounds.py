"""The rounds of AdaBoost: a tree, its error, its vote, and the weights of the next round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuboost.backends.protocol import Backend
from gpuboost.engine.ensembles.adaboost_task import (
    ClassObjective,
    ReweightTask,
    Round,
    ValueObjective,
    goes_on,
)
from gpuboost.estimators.fitting.grow_plan import GrowPlan
from gpuboost.estimators.fitting.pipeline import Prepared


def reweight_task(
    prepared: Prepared[GrowPlan],
    objective: ClassObjective | ValueObjective,
    boosting: str,
    of_class: np.ndarray | None,
) -> ReweightTask:
    """The task of an AdaBoost fit for the backend."""
    plan = prepared.plan
    return ReweightTask(
        prepared.matrix,
        objective,
        plan.options,
        plan.batch.sampler,
        boosting,
        n_rounds=len(plan.batch.trees),
        of_class=of_class,
        n_threads=prepared.execution.n_threads,
    )


def rounds_of(task: ReweightTask, backend: Backend) -> Iterator[Round]:
    """The rounds of a fit, until a tree has no errors or is no better than chance.

    A tree that is no better than chance is left out, except the first of a regression. In a
    regression, a tree is no better than chance if its weighted mean loss is at least 0.5.

    Raises
    ------
    ValueError
        If the first tree of a classification is no better than chance.
    """
    reweighter, chance = backend.reweighter(task), task.objective.chance
    for number in range(task.n_rounds):
        found = reweighter.boost(number)
        if number == 0 and found.error >= chance:
            _check_first(found, task.objective)
        if number == 0 or found.error < chance:
            yield found
        if not goes_on(found.error, chance):
            return


def _check_first(found: Round, objective: ClassObjective | ValueObjective) -> None:
    """Raise an error in a classification, whose first tree must be better than chance."""
    if isinstance(objective, ValueObjective):
        return
    raise ValueError(
        f"the first tree has a weighted error of {found.error:.3g}, which must be below "
        f"{objective.chance:.3g}, the error of guessing. Grow deeper trees (max_depth, or that of "
        "estimator), or check whether X separates the classes"
    )
