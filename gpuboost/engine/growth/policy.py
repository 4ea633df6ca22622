"""Rules that choose candidate nodes and accept splits; kernels are tested against them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.engine.criteria import gain_of, is_enough, is_large
from gpuboost.engine.growth.frontier import Array, Frontier, Splits
from gpuboost.engine.targets import Target
from gpuboost.engine.task import TreeOptions


def smallest_hessian(xp: Any, fraction: float, root_hessian: Array, minimum: int = 1) -> Array:
    """A fraction of each root's hessian, rounded up, at least ``minimum``: int64 (n_trees,)."""
    share = xp.ceil(fraction * root_hessian.astype(xp.float64)).astype(xp.int64)
    return xp.maximum(share, minimum)


def may_split(
    frontier: Frontier, depth: int, options: TreeOptions, min_hessian: np.ndarray
) -> np.ndarray:
    """Mask of the nodes that are large and shallow enough to be searched: bool (m,).

    ``min_hessian``, (n_trees,), is the minimum hessian of a child in each tree.
    """
    smallest = min_hessian[frontier.tree]
    return is_large(frontier.count, frontier.hessian, options, smallest) & (depth < options.deepest)


def gains(criterion: int, splits: Splits, frontier: Frontier) -> np.ndarray:
    """Gain of each node's split, -1 without a split: float64 (m,)."""
    return gain_of(criterion, splits.score, frontier.hessian)


def good_enough(
    gain: np.ndarray, frontier: Frontier, options: TreeOptions, target: Target, roots: np.ndarray
) -> np.ndarray:
    """Mask of the nodes whose split has enough gain; ``roots`` are the hessians of the roots."""
    unit, root = target.gain_unit(options.criterion), roots[frontier.tree]
    return is_enough(gain, root, unit, options.min_impurity_decrease, options.needs_gain)
