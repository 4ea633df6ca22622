"""The NEWTON score: gains of one channel."""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.constraints import sign_of, value_of
from gpuboost.backends.numba.common.packed_words import gradient_of, hessian_of
from gpuboost.backends.numba.compiler import criteria, helper, inlined

newton_value, newton_term = criteria.newton_value, criteria.newton_term
newton_gain, bounded = criteria.newton_gain, criteria.bounded


@inlined
def part_term(limits, node, g, h):
    """What one channel of a part adds to the score."""
    return newton_term(g, h, value_of(limits, node, g, h), limits.l1, limits.l2)


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
