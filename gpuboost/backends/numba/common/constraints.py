"""Value bounds that nodes inherit from their ancestors if features are monotonic.

Interaction groups are passed on to children in `feature_sampling`.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.compiler import criteria, helper, inlined
from gpuboost.engine.task import TreeOptions

values_in_bounds, bounds_of_children = criteria.values_in_bounds, criteria.bounds_of_children

BOUNDS = [("lower", np.float64), ("upper", np.float64)]  # bounds of a node's value (NEWTON)


class Constraints(NamedTuple):
    """Constraints of each feature.

    Attributes
    ----------
    monotonic : int64 (F,), or empty
        Direction in which values may change with a feature, 0 for both (NEWTON).
    groups : uint64 (F, W)
        Interaction groups that hold a feature, one bit each; (F, 0) without interactions.
    """

    monotonic: np.ndarray
    groups: np.ndarray


def constraints_of(options: TreeOptions, n_features: int) -> Constraints:
    """The constraints of each feature, from the options."""
    interactions = options.interactions or ()
    groups = np.zeros((n_features, (len(interactions) + 63) // 64), np.uint64)
    for number, group in enumerate(interactions):
        groups[list(group), number // 64] |= np.uint64(1) << np.uint64(number % 64)
    return Constraints(np.array(options.directions or (), dtype=np.int64), groups)


@inlined
def hold_root(limits, node):
    """Set the bounds of a root."""
    node.lower, node.upper = -limits.max_value, limits.max_value


@inlined
def value_of(limits, node, g, h):
    """Value of one side of a node, within the node's bounds."""
    return values_in_bounds(g, h, (limits.l1, limits.l2), (node.lower, node.upper))


@inlined
def sign_of(problem, feature):
    """Direction in which values may change with a feature."""
    monotonic = problem.constraints.monotonic
    return monotonic[feature] if monotonic.size else np.int64(0)


@inlined
def pass_on_bounds(problem, node, left, right):
    """Set the children's bounds: the node's, and in monotonic splits the middle of their values."""
    left.lower, left.upper = node.lower, node.upper
    right.lower, right.upper = node.lower, node.upper
    if problem.constraints.monotonic.size > 0:
        _part_at_middle(problem, node, left, right)


@helper
def _part_at_middle(problem, node, left, right):
    """Keep the values of one child below the middle of both values, and the other's above it."""
    limits, sign = problem.limits, sign_of(problem, node.feature)
    of_left = value_of(limits, node, np.float64(node.left_gradient), np.float64(node.left_hessian))
    gradient, hessian = node.gradient - node.left_gradient, node.hessian - node.left_hessian
    of_right = value_of(limits, node, np.float64(gradient), np.float64(hessian))
    bounds = bounds_of_children(sign, of_left, of_right, (node.lower, node.upper))
    (left.lower, left.upper), (right.lower, right.upper) = bounds
