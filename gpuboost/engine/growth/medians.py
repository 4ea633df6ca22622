"""Trees of medians: the target in integers, and what the sums of nodes say of them.

The absolute error of a node is least at the median of its targets, and its gradient is the sign of
what a target lies above or below that. So such a tree splits by signs, in place of targets less
their mean. They are about each node's own median: signs about the root's say of rows below the
first split hardly more than on which side of it they are.

A median is the middle between two of the targets (`order_statistics`), which are told by their
ranks; so it is exact, and nothing but the order of targets decides over splits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpuboost.engine.array_modules import array_module, copy_to_host
from gpuboost.engine.criteria import CRITERIA, VARIANCE
from gpuboost.engine.fixed_point import SUM_BITS, planes_to_float, sum_bits, two_planes
from gpuboost.engine.order_statistics import between, integer_weights
from gpuboost.engine.targets import centre_targets, value_target
from gpuboost.engine.task import Target

if TYPE_CHECKING:
    from gpuboost.engine.fixed_point import WeightFacts
    from gpuboost.engine.task import GrownTree, TreeOptions


def regression_target(y: np.ndarray, facts: WeightFacts, criterion: int) -> Target:
    """Target of a regression (n, K) for a score, where the values and weights are."""
    if CRITERIA[criterion].by_median:
        return median_target(y, facts)
    return value_target(y, facts, criterion)


def median_options(options: TreeOptions) -> TreeOptions:
    """Options of trees of medians as they are grown with them, those of other scores as they are.

    What a split does to the absolute error is not known before its children have medians.
    """
    if not CRITERIA[options.criterion].by_median:
        return options
    minimum = options.min_impurity_decrease
    return replace(options, criterion=VARIANCE, min_impurity_decrease=0.0, min_decrease=minimum)


def median_target(y: np.ndarray, facts: WeightFacts) -> Target:
    """Target of a regression whose leaves are medians, where the values and weights are.

    Parameters
    ----------
    y : float64 (n, K)
        Rows that are in no tree do not matter, whatever they hold.
    """
    xp, n_outputs = array_module(y), y.shape[1]
    centred, mean = centre_targets(y, facts.inside)
    columns = xp.concatenate([centred, xp.ones((len(y), 1))], axis=1)
    multiplicity, median_weight = max(facts.total, float(len(y))), None
    if facts.real is not None:
        multiplicity, columns = float(len(y)), columns * facts.real[:, None]
        median_weight = integer_weights(facts.real, len(y))
    wide, exponents = two_planes(columns, SUM_BITS - sum_bits(multiplicity))
    values = xp.empty(y.shape, dtype=np.int32)
    levels = []
    for k in range(n_outputs):
        distinct, rank = xp.unique(y[:, k] + 0.0, return_inverse=True)
        values[:, k] = rank
        levels.append(copy_to_host(distinct))
    return Target(
        None,
        values,
        0,
        n_outputs,
        wide,
        exponents,
        mean,
        levels=tuple(levels),
        median_weight=median_weight,
    )


def median_signs(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """1 for ranks above the median, -1 for those below, 0 where they are it: int8."""
    return (values >= upper).astype(np.int8) - (values <= lower).astype(np.int8)


def median_values(grown: GrownTree, target: Target) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Medians (m, K), mean absolute deviation from them over outputs (m,), and weight (m,).

    With s the signs of rows and c the median, the deviations of a node add up to
    ``sum(w s y) - c sum(w s)``: rows of sign 0 are at the median.
    """
    k, levels, exponents = target.n_outputs, target.levels, target.exponents
    assert levels is not None
    bounds = grown.sums[:, : 2 * k]
    weight = planes_to_float(grown.sums[:, -2:], exponents[-2:])[:, 0]
    value, deviation = np.empty((len(weight), k)), np.zeros(len(weight))
    for j in range(k):
        value[:, j] = between(*(levels[j][bounds[:, 2 * j + side]] for side in range(2))) + 0.0
        own = grown.sums[:, 2 * k + 4 * j : 2 * k + 4 * (j + 1)]
        of_output = np.append(exponents[2 * j : 2 * j + 2], exponents[-2:])
        signed, balance = planes_to_float(own, of_output).T
        centre = value[:, j] - target.mean[j]
        deviation = deviation + np.maximum(signed - centre * balance, 0.0)
    return value, deviation / weight / k, weight


def decreases(left: np.ndarray, impurity: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What each split takes from the impurity, per unit of the root's weight: float64 (m,)."""
    of_node = impurity * weight
    found, inner = np.zeros(len(left)), np.flatnonzero(left)
    children = of_node[left[inner]] + of_node[left[inner] + 1]
    found[inner] = np.maximum(of_node[inner] - children, 0.0) / weight[0]
    return found
