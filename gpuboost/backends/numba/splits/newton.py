"""The NEWTON criterion, for any number of channels."""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.constraints import sign_of, value_of
from gpuboost.backends.numba.common.records import GRADIENT, HESSIAN
from gpuboost.backends.numba.compiler import criteria, helper, inlined

newton_term, newton_gain = criteria.newton_term, criteria.newton_gain


@inlined
def part_term(limits, node, g, h):
    """The term of one channel for a node or one side of a split."""
    return newton_term(g, h, value_of(limits, node, g, h), limits.l1, limits.l2)


@helper
def add_newton(problem, node, channel, positions, extra):
    """Add the terms of both sides; ``channel``: row of its sums, and its sum at the node.

    ``extra``: gradient and hessian of missing values that also go left.
    """
    limits, scratch, (row, g) = problem.limits, problem.scratch, channel
    sums, terms, h = scratch.sums, scratch.terms, np.float64(node.hessian)
    for j in range(positions[0], positions[1]):
        gl, hl = np.float64(sums[row, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
        terms[0, j] += part_term(limits, node, gl, hl)
        terms[1, j] += part_term(limits, node, g - gl, h - hl)


@helper
def newton_scores(problem, channels, node, feature, positions, with_missing):
    """Scores from the terms of all channels; -1 if negative or not monotonic as required."""
    limits, terms, scores = problem.limits, problem.scratch.terms, problem.scratch.scores
    own, g, h = 0.0, np.float64(node.gradient), np.float64(node.hessian)
    if channels is None:
        own = part_term(limits, node, g, h)
    else:
        for p in range(channels.state[0]):
            own += part_term(limits, node, np.float64(channels.sums[p]), h)
    for j in range(positions[0], positions[1]):
        score = newton_gain(terms[0, j], terms[1, j], own) + 0.0  # never -0.0
        scores[j] = score if score >= 0.0 else -1.0
    sign = np.float64(sign_of(problem, feature))
    if sign != 0.0:
        sums, extra = problem.scratch.sums, problem.scratch.missing
        for j in range(positions[0], positions[1]):
            gl = np.float64(sums[GRADIENT, j] + (extra[GRADIENT] if with_missing else 0))
            hl = np.float64(sums[HESSIAN, j] + (extra[HESSIAN] if with_missing else 0))
            left, right = value_of(limits, node, gl, hl), value_of(limits, node, g - gl, h - hl)
            scores[j] = scores[j] if sign * left <= sign * right else -1.0
