"""The terms and scores of all criteria, for a range of candidates (see `engine.criteria`).

VARIANCE and NEWTON, which needs the bounds of the node, have their own loops here; the other
criteria are compiled from their rows of `CRITERIA` and chosen by number.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuboost.backends.numba.common.constraints import sign_of, value_of
from gpuboost.backends.numba.common.records import GRADIENT, HESSIAN
from gpuboost.backends.numba.compiler import by_number, criteria, helper, inlined
from gpuboost.engine.criteria import CRITERIA, NEWTON, VARIANCE

variance_term, variance_gain = criteria.variance_term, criteria.variance_gain
newton_term, newton_gain = criteria.newton_term, criteria.newton_gain


def by_criterion(make: Callable[..., Any]) -> Any:
    """A compiled function whose first argument is the number of a criterion, not VARIANCE.

    ``make(add, score, both_classes)`` makes the function of one criterion from its row.
    """
    made = {}
    for row in CRITERIA.values():
        if row.add is not None and row.score is not None and row.number != VARIANCE:
            functions = (getattr(criteria, each.__name__) for each in (row.add, row.score))
            made[row.number] = make(*functions, row.both_classes)
    return by_number(made)


def _add_channel(add: Any, score: Any, both_classes: bool) -> Any:
    """Make the function that adds the terms of one channel, with the arguments of `add_terms`."""

    @helper
    def add_channel(scratch, channel, h, positions, extra):
        sums, terms, (gradient, g, is_only) = scratch.sums, scratch.terms, channel
        for j in range(positions[0], positions[1]):
            gl = np.float64(sums[gradient, j] + extra[0])
            hl = np.float64(sums[HESSIAN, j] + extra[1])
            own = (terms[0, j], terms[1, j], terms[2, j])
            if both_classes and is_only:
                own = add(own, hl - gl, h - g, hl, h)
            terms[0, j], terms[1, j], terms[2, j] = add(own, gl, g, hl, h)

    return add_channel


def _scores_of_terms(add: Any, score: Any, both_classes: bool) -> Any:
    """Make the function for scores of a range of candidates from the terms of all channels."""

    @helper
    def scores_of_terms(scratch, h, positions, extra_hessian):
        terms = scratch.terms
        for j in range(positions[0], positions[1]):
            hl = np.float64(scratch.sums[HESSIAN, j] + extra_hessian)
            scratch.scores[j] = score((terms[0, j], terms[1, j], terms[2, j]), hl, h)

    return scores_of_terms


_add_by_number, _scores_by_number = by_criterion(_add_channel), by_criterion(_scores_of_terms)


@inlined
def add_terms(problem, node, channel, positions, extra):
    """Add the terms of one channel to those of a range of candidates.

    ``channel``: row of its sums, its sum at the node, and whether it is the only channel (an
    output, or the second of two classes). ``extra``: gradient and hessian of missing values that
    also go left.
    """
    scratch, criterion, (row, g, _) = problem.scratch, problem.limits.criterion, channel
    sums, terms, h = scratch.sums, scratch.terms, np.float64(node.hessian)
    if criterion == VARIANCE:
        for j in range(positions[0], positions[1]):
            gl, hl = np.float64(sums[row, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
            terms[0, j] += variance_term(gl, g, hl, h)
    elif criterion == NEWTON:
        _add_newton(problem.limits, scratch, node, channel, positions, extra)
    else:
        _add_by_number(criterion, scratch, channel, h, positions, extra)


@inlined
def scores_of_terms(problem, node, feature, positions, extra):
    """Scores of a range of candidates from the terms of all channels; ``extra`` as above."""
    scratch, criterion, h = problem.scratch, problem.limits.criterion, np.float64(node.hessian)
    if criterion == VARIANCE:
        for j in range(positions[0], positions[1]):
            hl = np.float64(scratch.sums[HESSIAN, j] + extra[1])
            scratch.scores[j] = variance_gain(scratch.terms[0, j], hl, h - hl)
    elif criterion == NEWTON:
        direction = np.float64(sign_of(problem, feature))
        _newton_scores(problem.limits, scratch, node, direction, positions, extra)
    else:
        _scores_by_number(criterion, scratch, h, positions, extra[1])


@inlined
def _part_term(limits, node, g, h):
    """The NEWTON term of one channel for a node or one side of a split."""
    return newton_term(g, h, value_of(limits, node, g, h), limits.l1, limits.l2)


@helper
def _add_newton(limits, scratch, node, channel, positions, extra):
    """`add_terms` for NEWTON."""
    sums, terms, (row, g, _), h = scratch.sums, scratch.terms, channel, np.float64(node.hessian)
    own = _part_term(limits, node, g, h)
    for j in range(positions[0], positions[1]):
        gl, hl = np.float64(sums[row, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
        terms[0, j] += _part_term(limits, node, gl, hl)
        terms[1, j] += _part_term(limits, node, g - gl, h - hl)
        terms[2, j] += own


@helper
def _newton_scores(limits, scratch, node, sign, positions, extra):
    """`scores_of_terms` for NEWTON; -1 if negative or not monotonic as ``sign`` requires."""
    sums, terms, scores = scratch.sums, scratch.terms, scratch.scores
    g, h = np.float64(node.gradient), np.float64(node.hessian)
    for j in range(positions[0], positions[1]):
        score = newton_gain(terms[0, j], terms[1, j], terms[2, j]) + 0.0  # never -0.0
        scores[j] = score if score >= 0.0 else -1.0
    if sign != 0.0:
        for j in range(positions[0], positions[1]):
            gl, hl = (
                np.float64(sums[GRADIENT, j] + extra[0]),
                np.float64(sums[HESSIAN, j] + extra[1]),
            )
            left, right = value_of(limits, node, gl, hl), value_of(limits, node, g - gl, h - hl)
            scores[j] = scores[j] if sign * left <= sign * right else -1.0
