"""The terms and scores of all criteria, for a range of candidates (see `engine.criteria`).

Each function is compiled for each row of `CRITERIA` and chosen by the criterion's number. The
scores of one channel are computed in one pass: with a pass for the terms and one for the scores,
X.
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
from gpuboost.engine.criteria import CRITERIA

is_monotonic = criteria.is_monotonic


def _by_criterion(make: Callable[..., Any]) -> Any:
    """A compiled function whose first argument is the number of a criterion.

    ``make(add, score, both_classes)`` returns the function of one criterion. Trees of medians are
    grown with VARIANCE, so criteria with ``by_median`` have no function.
    """
    made = {}
    for row in CRITERIA.values():
        if not row.by_median:
            functions = (getattr(criteria, each.__name__) for each in (row.add, row.score))
            made[row.number] = make(*functions, row.both_classes)
    return by_number(made)


def _scores_of_one(add: Any, score: Any, both_classes: bool) -> Any:
    """Make the function that computes scores of candidates with one channel."""

    @helper
    def scores_of_one(scratch, g, h, limits, positions, extra):
        sums = scratch.sums
        for j in range(positions[0], positions[1]):
            gl, hl = (
                np.float64(sums[GRADIENT, j] + extra[0]),
                np.float64(sums[HESSIAN, j] + extra[1]),
            )
            terms = (0.0, 0.0, 0.0)
            if both_classes:
                terms = add(terms, hl - gl, h - g, hl, h, limits)
            scratch.scores[j] = score(add(terms, gl, g, hl, h, limits), hl, h)

    return scores_of_one


def _add_channel(add: Any, score: Any, both_classes: bool) -> Any:
    """Make the function that adds the terms of one of several channels; see `add_terms`."""

    @helper
    def add_channel(scratch, row, g, h, limits, positions, extra):
        sums, terms = scratch.sums, scratch.terms
        for j in range(positions[0], positions[1]):
            gl, hl = np.float64(sums[row, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
            own = (terms[0, j], terms[1, j], terms[2, j])
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


_one_by_number = _by_criterion(_scores_of_one)
_add_by_number, _scores_by_number = _by_criterion(_add_channel), _by_criterion(_scores_of_terms)


@inlined
def one_channel_scores(problem, node, feature, positions, extra):
    """Compute scores of a range of candidates with one channel: an output, or one of two classes.

    ``extra`` is the gradient and the hessian of missing values that also go left.
    """
    g, h, scratch = np.float64(node.gradient), np.float64(node.hessian), problem.scratch
    sign, limits = np.float64(sign_of(problem, feature)), value_limits(problem.limits, node)
    _one_by_number(problem.limits.criterion, scratch, g, h, limits, positions, extra)
    if sign != 0.0:
        _refuse_not_monotonic(scratch, sign, g, h, limits, positions, extra)


@inlined
def add_terms(problem, node, channel, positions, extra):
    """Add the terms of one of several channels to the terms of a range of candidates.

    ``channel`` is the row of the channel's sums, and the sum of the node.
    """
    (row, g), h, limits = channel, np.float64(node.hessian), value_limits(problem.limits, node)
    scratch, criterion = problem.scratch, problem.limits.criterion
    _add_by_number(criterion, scratch, row, g, h, limits, positions, extra)


@inlined
def scores_of_terms(problem, node, positions, extra_hessian):
    """Compute scores of candidates from the terms of all channels; see `add_terms`."""
    h, criterion = np.float64(node.hessian), problem.limits.criterion
    _scores_by_number(criterion, problem.scratch, h, positions, extra_hessian)


@helper
def _refuse_not_monotonic(scratch, sign, g, h, limits, positions, extra):
    """Set to -1 the scores of candidates that are not monotonic as ``sign`` requires."""
    sums, scores = scratch.sums, scratch.scores
    for j in range(positions[0], positions[1]):
        gl, hl = np.float64(sums[GRADIENT, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
        scores[j] = scores[j] if is_monotonic(sign, gl, g, hl, h, limits) else -1.0
