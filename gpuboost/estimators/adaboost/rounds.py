"""The rounds of AdaBoost: a tree, its error, its vote, and the weights of the next round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from gpuboost.backends.protocol import Backend
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.bins import SparseCodes
from gpuboost.engine.ensembles import adaboost
from gpuboost.engine.ensembles.adaboost_task import (
    ClassObjective,
    ReweightTask,
    Round,
    ValueObjective,
    goes_on,
)
from gpuboost.engine.ensembles.traversal import leaves_of_codes
from gpuboost.engine.growth.tree import Tree
from gpuboost.estimators.adaboost.model import AdaBoostTrees
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


def weights_after(task: ReweightTask, before: AdaBoostTrees) -> np.ndarray | None:
    """Weights of the rows after the rounds of an earlier fit; None if no round follows them.

    They are computed on the host as the earlier fit computed them, so they have the same bits.
    """
    matrix, objective = task.matrix, task.objective
    if not isinstance(matrix.stored, SparseCodes):
        matrix = replace(matrix, stored=copy_to_host(matrix.stored))
    if isinstance(objective, ClassObjective):
        objective = replace(objective, codes=copy_to_host(objective.codes))
    else:
        objective = replace(objective, y=copy_to_host(objective.y))
    weights = np.asarray(copy_to_host(task.start_weights()))
    minimum = adaboost.min_weights(weights)
    for tree in before.ensemble.trees:
        seen, error = objective.look(tree, leaves_of_codes(tree, matrix), weights)
        if not goes_on(error, objective.chance):
            return None
        weights = np.maximum(objective.outcome(seen, weights, error).weights, minimum)
    return weights


def known_rounds(before: AdaBoostTrees) -> list[Round]:
    """The rounds of an earlier fit."""
    facts = zip(before.errors, before.tree_votes, before.bounds, strict=True)
    return [
        Round(partial(_same, tree), *map(float, own))
        for tree, own in zip(before.ensemble.trees, facts, strict=True)
    ]


def _same(tree: Tree) -> Tree:
    return tree


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
    is_classification = isinstance(task.objective, ClassObjective)
    for number in range(task.first_round, task.n_rounds):
        found = reweighter.boost(number)
        if number == 0 and found.error >= chance and is_classification:
            raise ValueError(
                f"the first tree has a weighted error of {found.error:.3g}, which must be below "
                f"{chance:.3g}, the error of guessing. Grow deeper trees (max_depth, or that of "
                "estimator), check whether X separates the classes, or pass sample_weight in place "
                "of a class_weight of the estimator, which the error ignores"
            )
        if number == 0 or found.error < chance:
            yield found
        if not goes_on(found.error, chance):
            return
