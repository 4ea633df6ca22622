"""Constraints that nodes inherit from their ancestors: value bounds and open interaction groups.

An interaction group is *open* at a node if it contains every feature split on between the root and
the node. Each node has one bit per group, and only features in an open group are candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined, newton
from gpuboost.engine.task import TreeOptions

values_in_bounds, bounds_of_children = newton.values_in_bounds, newton.bounds_of_children

BOUNDS = [("lower", np.float64), ("upper", np.float64)]  # bounds of a node's value (NEWTON)
ALL_OPEN = np.uint64(2**64 - 1)


class FeatureConstraints(NamedTuple):
    """Constraints of each feature.

    Attributes
    ----------
    monotonic : int64 (F,), or empty
        With NEWTON: 1 if leaf values must not decrease with the feature, -1 if they must not
        increase, else 0.
    groups : uint64 (F, W)
        Interaction groups that contain each feature, one bit per group in W words; W is 0 without
        interactions.
    """

    monotonic: np.ndarray
    groups: np.ndarray


def constraints_of(options: TreeOptions, n_features: int) -> FeatureConstraints:
    """The `FeatureConstraints` that the options define."""
    interactions = options.interactions or ()
    groups = np.zeros((n_features, (len(interactions) + 63) // 64), np.uint64)
    for number, group in enumerate(interactions):
        groups[list(group), number // 64] |= np.uint64(1) << np.uint64(number % 64)
    return FeatureConstraints(np.array(options.directions or (), dtype=np.int64), groups)


@inlined
def constrain_root(limits, node, open_groups):
    """Set the bounds of a root, and open all interaction groups."""
    node.lower, node.upper = -limits.max_value, limits.max_value
    open_groups[:] = ALL_OPEN


@inlined
def is_open(constraints, feature, open_groups):
    """Whether one of the groups of the feature is open; False without interactions."""
    found = False
    for word in range(constraints.groups.shape[1]):
        found |= (constraints.groups[feature, word] & open_groups[word]) != 0
    return found


@inlined
def value_limits(limits, node):
    """The penalties and the value bounds of a node, in the form that `engine.criteria` takes."""
    return (limits.l1, limits.l2), (node.lower, node.upper)


@inlined
def sign_of(problem, feature):
    """Monotonic direction of a feature: 1, -1, or 0 for none."""
    monotonic = problem.constraints.monotonic
    return monotonic[feature] if monotonic.size else np.int64(0)


@inlined
def constrain_children(problem, nodes, k, open_groups):
    """Set the bounds and the open groups of the children of node ``k``.

    Children inherit the bounds of the node; in monotonic splits, the middle of the children's
    values is a bound, too. Those open groups of the node that contain the split's feature stay
    open.
    """
    node, groups = nodes[k], problem.constraints.groups
    left, right = nodes[node.left], nodes[node.left + 1]
    left.lower, left.upper = node.lower, node.upper
    right.lower, right.upper = node.lower, node.upper
    if problem.constraints.monotonic.size > 0:
        _bound_at_middle(problem, node, left, right)
    for word in range(groups.shape[1]):
        left_open = open_groups[k, word] & groups[node.feature, word]
        open_groups[node.left, word] = left_open
        open_groups[node.left + 1, word] = left_open


@helper
def _bound_at_middle(problem, node, left, right):
    """If the split is on a monotonic feature, bound the children by the middle of their values.

    The middle is the upper bound of one child and the lower bound of the other.
    """
    sign, (regular, bounds) = sign_of(problem, node.feature), value_limits(problem.limits, node)
    gradient, hessian = np.float64(node.left_gradient), np.float64(node.left_hessian)
    of_left = values_in_bounds(gradient, hessian, regular, bounds)
    gradient, hessian = node.gradient - node.left_gradient, node.hessian - node.left_hessian
    of_right = values_in_bounds(np.float64(gradient), np.float64(hessian), regular, bounds)
    bounds = bounds_of_children(sign, of_left, of_right, bounds)
    (left.lower, left.upper), (right.lower, right.upper) = bounds
