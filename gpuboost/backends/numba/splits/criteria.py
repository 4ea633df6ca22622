"""The terms and scores of all criteria, for a range of candidates (see `engine.criteria`).

VARIANCE has separate loops; the other criteria are compiled from their rows of `CRITERIA` and
chosen by number.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuboost.backends.numba.common.constraints import sign_of, value_limits
from gpuboost.backends.numba.common.records import GRADIENT, HESSIAN
from gpuboost.backends.numba.compiler import by_number, criteria, helper, inlined
from gpuboost.engine.criteria import CRITERIA, VARIANCE

variance_term, variance_gain = criteria.variance_term, criteria.variance_gain
is_monotonic = criteria.is_monotonic


def by_criterion(make: Callable[..., Any]) -> Any:
    """A compiled function whose first argument is the number of a criterion other than VARIANCE.

    ``make(add, score, both_classes)`` returns the function of one criterion. Trees of medians are
    grown with VARIANCE, so criteria with ``by_median`` have no function.
    """
    made = {}
    for row in CRITERIA.values():
        if row.number != VARIANCE and not row.by_median:
            functions = (getattr(criteria, each.__name__) for each in (row.add, row.score))
            made[row.number] = make(*functions, row.both_classes)
    return by_number(made)


def _add_channel(add: Any, score: Any, both_classes: bool) -> Any:
    """Make the function that adds the terms of one channel; see `add_terms` for its arguments."""

    @helper
    def add_channel(scratch, channel, h, limits, positions, extra):
        sums, terms, (gradient, g, is_only) = scratch.sums, scratch.terms, channel
        for j in range(positions[0], positions[1]):
            gl = np.float64(sums[gradient, j] + extra[0])
            hl = np.float64(sums[HESSIAN, j] + extra[1])
            own = (terms[0, j], terms[1, j], terms[2, j])
            if both_classes and is_only:
                own = add(own, hl - gl, h - g, hl, h, limits)
            terms[0, j], terms[1, j], terms[2, j] = add(own, gl, g, hl, h, limits)

    return add_channel


def _scores_of_terms(add: Any, score: Any, both_classes: bool) -> Any:
    """Make the function that computes scores of candidates from the terms of all channels."""

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
    """Add the terms of one channel to the terms of a range of candidates.

    ``channel`` is the row of the channel's sums, the sum of the node, and whether the node has only
    this channel (an output, or one of two classes). ``extra`` is the gradient and the hessian of
    missing values that also go left.
    """
    scratch, criterion, (row, g, _) = problem.scratch, problem.limits.criterion, channel
    sums, terms, h = scratch.sums, scratch.terms, np.float64(node.hessian)
    if criterion == VARIANCE:
        for j in range(positions[0], positions[1]):
            gl, hl = np.float64(sums[row, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
            terms[0, j] += variance_term(gl, g, hl, h)
    else:
        limits = value_limits(problem.limits, node)
        _add_by_number(criterion, scratch, channel, h, limits, positions, extra)


@inlined
def scores_of_terms(problem, node, feature, positions, extra):
    """Compute scores of candidates from the terms of all channels; see `add_terms`."""
    scratch, criterion, h = problem.scratch, problem.limits.criterion, np.float64(node.hessian)
    if criterion == VARIANCE:
        for j in range(positions[0], positions[1]):
            hl = np.float64(scratch.sums[HESSIAN, j] + extra[1])
            scratch.scores[j] = variance_gain(scratch.terms[0, j], hl, h - hl)
    else:
        _scores_by_number(criterion, scratch, h, positions, extra[1])
        sign, limits = np.float64(sign_of(problem, feature)), value_limits(problem.limits, node)
        if sign != 0.0:
            g = np.float64(node.gradient)
            _refuse_not_monotonic(scratch, sign, g, h, limits, positions, extra)


@helper
def _refuse_not_monotonic(scratch, sign, g, h, limits, positions, extra):
    """Set to -1 the scores of candidates that are not monotonic as ``sign`` requires."""
    sums, scores = scratch.sums, scratch.scores
    for j in range(positions[0], positions[1]):
        gl, hl = np.float64(sums[GRADIENT, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
        scores[j] = scores[j] if is_monotonic(sign, gl, g, hl, h, limits) else -1.0
