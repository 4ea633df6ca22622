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

from gpuboost.engine.criteria import CRITERIA, VARIANCE

if TYPE_CHECKING:
    from gpuboost.engine.task import TreeOptions


def median_options(options: TreeOptions) -> TreeOptions:
    """Options of trees of medians as they are grown with them, those of other scores as they are.

    What a split does to the absolute error is not known before its children have medians.
    """
    if not CRITERIA[options.criterion].by_median:
        return options
    minimum = options.min_impurity_decrease
    return replace(options, criterion=VARIANCE, min_impurity_decrease=0.0, min_decrease=minimum)


def median_signs(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """1 for ranks above the median, -1 for those below, 0 where they are it: int8."""
    return (values >= upper).astype(np.int8) - (values <= lower).astype(np.int8)


def decreases(left: np.ndarray, impurity: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What each split takes from the impurity, per unit of the root's weight: float64 (m,)."""
    of_node = impurity * weight
    found, inner = np.zeros(len(left)), np.flatnonzero(left)
    children = of_node[left[inner]] + of_node[left[inner] + 1]
    found[inner] = np.maximum(of_node[inner] - children, 0.0) / weight[0]
    return found
