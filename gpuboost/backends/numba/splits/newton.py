"""The NEWTON score: gains of one channel, and the bounds that monotonic splits set to values."""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.packed_words import gradient_of, hessian_of
from gpuboost.backends.numba.compiler import criteria, helper, inlined
from gpuboost.engine.criteria import NEWTON

newton_value, newton_term = criteria.newton_value, criteria.newton_term
newton_gain, bounded, middle = criteria.newton_gain, criteria.bounded, criteria.middle


@inlined
def value_of(limits, node, g, h):
    """Value of a part of a node, within the node's bounds."""
    return bounded(newton_value(g, h, limits.l1, limits.l2), node.lower, node.upper)


@inlined
def part_term(limits, node, g, h):
    """What one channel of a part adds to the score."""
    return newton_term(g, h, value_of(limits, node, g, h), limits.l1, limits.l2)


@inlined
def sign_of(problem, feature):
    """Direction in which values may change with a feature."""
    monotonic = problem.constraints.monotonic
    return monotonic[feature] if monotonic.size else np.int64(0)


@inlined
def newton_rule(problem, node, feature):
    """What gains of a node and feature have in common: ``(l1, l2, lower, upper, sign, node)``."""
    limits, sign = problem.limits, np.float64(sign_of(problem, feature))
    g, h = np.float64(node.gradient), np.float64(node.hessian)
    own = part_term(limits, node, g, h)
    return limits.l1, limits.l2, node.lower, node.upper, sign, own


@inlined
def rule_score(rule, gl, hl, g, h):
    """Gain of one split, -1 if it is negative or the values of its sides are not in order."""
    l1, l2, lower, upper, sign, own = rule
    left = bounded(newton_value(gl, hl, l1, l2), lower, upper)
    right = bounded(newton_value(g - gl, h - hl, l1, l2), lower, upper)
    left_term = newton_term(gl, hl, left, l1, l2)
    right_term = newton_term(g - gl, h - hl, right, l1, l2)
    score = newton_gain(left_term, right_term, own)
    valid = (score >= 0.0) & (sign * left <= sign * right)
    return score + 0.0 if valid else -1.0  # never -0.0


@helper
def newton_split_score(problem, node, feature, left_gradient, left_hessian):
    """The same from integers, for a single candidate."""
    rule = newton_rule(problem, node, feature)
    g, h = np.float64(node.gradient), np.float64(node.hessian)
    return rule_score(rule, np.float64(left_gradient), np.float64(left_hessian), g, h)


@helper
def newton_word_scores(problem, node, feature, m):
    """Gains of the first ``m`` sums in `Scratch.prefix`, -1 where a split is not valid."""
    packing, prefix, scores = problem.packing, problem.scratch.prefix, problem.scratch.scores
    rule = newton_rule(problem, node, feature)
    g, h = np.float64(node.gradient), np.float64(node.hessian)
    minimum = np.float64(problem.limits.min_hessian)
    for j in range(np.uint64(m)):
        gl = np.float64(gradient_of(prefix[j], packing))
        hl = np.float64(hessian_of(prefix[j], packing))
        score = rule_score(rule, gl, hl, g, h)
        scores[j] = score if (hl >= minimum) & (h - hl >= minimum) else -1.0


@helper
def newton_sums_scores(problem, node, feature, positions, extra):
    """Gains of a range of `Scratch.sums`, with ``extra`` (gradient, hessian) on the left."""
    sums, scores = problem.scratch.sums, problem.scratch.scores
    rule = newton_rule(problem, node, feature)
    g, h = np.float64(node.gradient), np.float64(node.hessian)
    for j in range(positions[0], positions[1]):
        gl, hl = np.float64(sums[0, j] + extra[0]), np.float64(sums[1, j] + extra[1])
        scores[j] = rule_score(rule, gl, hl, g, h)


@inlined
def pass_on_bounds(problem, node, left, right):
    """Bounds of the children: the node's, and of a monotonic split the middle of their values."""
    left.lower, left.upper = node.lower, node.upper
    right.lower, right.upper = node.lower, node.upper
    if problem.limits.criterion == NEWTON and problem.constraints.monotonic.size > 0:
        _part_at_middle(problem, node, left, right)


@helper
def _part_at_middle(problem, node, left, right):
    """Keep the values of one child below the middle, those of the other above it."""
    sign = sign_of(problem, node.feature)
    if sign == 0:
        return
    limits = problem.limits
    of_left = value_of(limits, node, np.float64(node.left_gradient), np.float64(node.left_hessian))
    gradient, hessian = node.gradient - node.left_gradient, node.hessian - node.left_hessian
    of_right = value_of(limits, node, np.float64(gradient), np.float64(hessian))
    between = middle(of_left, of_right)
    if sign > 0:
        left.upper, right.lower = between, between
    else:
        left.lower, right.upper = between, between
