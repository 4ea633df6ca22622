"""The next frontier: children of the nodes that were split."""

from __future__ import annotations

import numpy as np

from gpuboost.engine import randomness
from gpuboost.engine.criteria import NEWTON, bounded, middle, newton_value
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.task import TreeOptions


def children_of(
    node: Frontier,
    start: np.ndarray,
    n_left: np.ndarray,
    splits: Splits,
    parents: np.ndarray,
    options: TreeOptions,
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
    options : TreeOptions
    """
    hessian, gradient = splits.left_hessian[parents], splits.left_gradient[parents]
    feature = splits.feature[parents]
    sign, between = monotonic_bound(node, feature, hessian, gradient, options)
    groups = node.groups
    if options.interactions is not None:
        groups = groups & np.column_stack([np.isin(feature, own) for own in options.interactions])
    return Frontier(
        tree=np.repeat(node.tree, 2),
        key=pairs(randomness.left_key(node.key), randomness.right_key(node.key)),
        start=pairs(start, start + n_left),
        count=pairs(n_left, node.count - n_left),
        hessian=pairs(hessian, node.hessian - hessian),
        gradient=pairs(gradient, node.gradient - gradient),
        lower=pairs(
            np.where(sign < 0, between, node.lower), np.where(sign > 0, between, node.lower)
        ),
        upper=pairs(
            np.where(sign > 0, between, node.upper), np.where(sign < 0, between, node.upper)
        ),
        groups=np.repeat(groups, 2, axis=0),
    )


def pairs(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """What belongs to left and right children, by turns."""
    return np.stack([left, right], axis=1).reshape(2 * len(left), *left.shape[1:])


def monotonic_bound(
    node: Frontier,
    feature: np.ndarray,
    hessian: np.ndarray,
    gradient: np.ndarray,
    options: TreeOptions,
) -> tuple[np.ndarray, np.ndarray]:
    """Direction of each split, and the bound it puts between its children.

    Parameters
    ----------
    hessian, gradient : int64 (m,), (m, K)
        Of the left part.

    Returns
    -------
    sign : int64 (m,)
        1, -1 or 0 (there is no bound).
    between : float64 (m,)
        Midway between the values of the two children.
    """
    regular = options.regularisation
    if options.criterion != NEWTON or regular.monotonic is None:
        return np.zeros(len(feature), np.int64), np.zeros(len(feature))
    parts = (gradient, hessian), (node.gradient - gradient, node.hessian - hessian)
    values = [
        bounded(
            newton_value(g[:, 0].astype(np.float64), h.astype(np.float64), regular.l1, regular.l2),
            node.lower,
            node.upper,
        )
        for g, h in parts
    ]
    return np.array(regular.monotonic)[feature], middle(*values)
