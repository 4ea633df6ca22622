"""The next frontier: children of the nodes that were split."""

from __future__ import annotations

import numpy as np

from gpuboost.engine import randomness
from gpuboost.engine.frontier import Frontier, Splits


def children_of(
    node: Frontier, start: np.ndarray, n_left: np.ndarray, splits: Splits, parents: np.ndarray
) -> Frontier:
    """Left and right children of the split nodes, in order.

    Parameters
    ----------
    node : Frontier
        The parents.
    start, n_left : int64 (len(parents),)
        Where the rows of each parent now begin, and how many of them are the left child's.
    splits : Splits
        Of the whole level.
    parents : int64 (len(parents),)
        Which nodes of the level the parents are.
    """
    hessian, gradient = splits.left_hessian[parents], splits.left_gradient[parents]

    def pairs(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.stack([left, right], axis=1).reshape(2 * len(left), *left.shape[1:])

    return Frontier(
        tree=np.repeat(node.tree, 2),
        key=pairs(randomness.left_key(node.key), randomness.right_key(node.key)),
        start=pairs(start, start + n_left),
        count=pairs(n_left, node.count - n_left),
        hessian=pairs(hessian, node.hessian - hessian),
        gradient=pairs(gradient, node.gradient - gradient),
    )
