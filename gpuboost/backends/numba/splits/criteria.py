"""The terms and scores of all criteria, for a range of candidates (see `engine.criteria`).

Each function is compiled for each row of `CRITERIA` and chosen by the criterion's number. The
scores of one channel are computed in one pass over its candidates: with one pass for the terms and
one for the scores, boosting of 900k x 28 takes 7% longer. Candidates are counted without sign,
because a loop over positions that might be negative gathers its operands one by one: with it,
boosting of seven classes (100k x 54) takes 5% longer.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.numba.common.constraints import sign_of, value_limits
from gpuboost.backends.numba.common.records import GRADIENT, HESSIAN, Limits
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
    def scores_of_one(candidates, g, h, limits, positions, extra):
        sums = candidates.sums
        for j in range(np.uint64(positions[0]), np.uint64(positions[1])):
            gl, hl = (
                np.float64(sums[GRADIENT, j] + extra[0]),
                np.float64(sums[HESSIAN, j] + extra[1]),
            )
            terms = (0.0, 0.0, 0.0)
            if both_classes:
                terms = add(terms, hl - gl, h - g, hl, h, limits)
            candidates.scores[j] = score(add(terms, gl, g, hl, h, limits), hl, h)

    return scores_of_one


def _add_channel(add: Any, score: Any, both_classes: bool) -> Any:
    """Make the function that adds the terms of one of several channels; see `add_terms`."""

    @helper
    def add_channel(candidates, row, g, h, limits, positions, extra):
        sums, terms = candidates.sums, candidates.terms
        for j in range(np.uint64(positions[0]), np.uint64(positions[1])):
            gl, hl = np.float64(sums[row, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
            own = (terms[0, j], terms[1, j], terms[2, j])
            terms[0, j], terms[1, j], terms[2, j] = add(own, gl, g, hl, h, limits)

    return add_channel


def _scores_of_terms(add: Any, score: Any, both_classes: bool) -> Any:
    """Make the function that computes scores of candidates from the terms of all channels."""

    @helper
    def scores_of_terms(candidates, h, positions, extra_hessian):
        terms = candidates.terms
        for j in range(np.uint64(positions[0]), np.uint64(positions[1])):
            hl = np.float64(candidates.sums[HESSIAN, j] + extra_hessian)
            candidates.scores[j] = score((terms[0, j], terms[1, j], terms[2, j]), hl, h)

    return scores_of_terms


_one_by_number = _by_criterion(_scores_of_one)
_add_by_number, _scores_by_number = _by_criterion(_add_channel), _by_criterion(_scores_of_terms)


class Candidates(NamedTuple):
    """Candidates of a feature, and what their scores depend on; the arrays are `Scratch`'s.

    A call that passes all arrays of `Problem` takes longer than scoring a few candidates: boosting
    of seven classes (100k x 54) takes 10% longer. ``sign`` is the direction of a monotonic feature,
    else 0.
    """

    limits: Limits
    sums: np.ndarray
    missing: np.ndarray
    terms: np.ndarray
    scores: np.ndarray
    sign: float


@inlined
def candidates_of(problem, feature):
    """The candidates of a feature."""
    scratch, sign = problem.scratch, np.float64(sign_of(problem, feature))
    arrays = scratch.sums, scratch.missing, scratch.terms, scratch.scores
    return Candidates(problem.limits, arrays[0], arrays[1], arrays[2], arrays[3], sign)


@inlined
def one_channel_scores(candidates, node, positions, extra):
    """Compute scores of a range of candidates with one channel: an output, or one of two classes.

    ``extra`` is the gradient and the hessian of missing values that also go left.
    """
    g, h, criterion = (
        np.float64(node.gradient),
        np.float64(node.hessian),
        candidates.limits.criterion,
    )
    limits = value_limits(candidates.limits, node)
    _one_by_number(criterion, candidates, g, h, limits, positions, extra)
    if candidates.sign != 0.0:
        _refuse_not_monotonic(candidates, g, h, limits, positions, extra)


@inlined
def add_terms(candidates, node, channel, positions, extra):
    """Add the terms of one of several channels to the terms of a range of candidates.

    ``channel`` is the row of the channel's sums, and the sum of the node.
    """
    (row, g), h, criterion = channel, np.float64(node.hessian), candidates.limits.criterion
    limits = value_limits(candidates.limits, node)
    _add_by_number(criterion, candidates, row, g, h, limits, positions, extra)


@inlined
def scores_of_terms(candidates, node, positions, extra_hessian):
    """Compute scores of candidates from the terms of all channels; see `add_terms`."""
    h, criterion = np.float64(node.hessian), candidates.limits.criterion
    _scores_by_number(criterion, candidates, h, positions, extra_hessian)


@helper
def _refuse_not_monotonic(candidates, g, h, limits, positions, extra):
    """Set to -1 the scores of candidates that are not monotonic as their sign requires."""
    sums, scores, sign = candidates.sums, candidates.scores, candidates.sign
    for j in range(np.uint64(positions[0]), np.uint64(positions[1])):
        gl, hl = np.float64(sums[GRADIENT, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
        scores[j] = scores[j] if is_monotonic(sign, gl, g, hl, h, limits) else -1.0
