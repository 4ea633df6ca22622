"""The next frontier: children of the nodes that were split."""

from __future__ import annotations

from typing import Any

from gpuboost.engine import randomness
from gpuboost.engine.frontier import Array, Frontier, Splits


def children_of(
    xp: Any, node: Frontier, start: Array, n_left: Array, splits: Splits, parents: Array
) -> Frontier:
    """Left and right children of the split nodes, in order.

    Parameters
    ----------
    xp : module
        numpy or cupy.
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

    def pairs(left: Array, right: Array) -> Array:
        return xp.stack([left, right], axis=1).reshape(2 * len(left), *left.shape[1:])

    return Frontier(
        tree=xp.repeat(node.tree, 2),
        key=pairs(randomness.left_key(node.key), randomness.right_key(node.key)),
        start=pairs(start, start + n_left),
        count=pairs(n_left, node.count - n_left),
        hessian=pairs(hessian, node.hessian - hessian),
        gradient=pairs(gradient, node.gradient - gradient),
    )
