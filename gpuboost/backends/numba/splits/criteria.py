"""The terms and scores of all criteria, for a range of candidates (see `engine.criteria`).

Each function is compiled for each row of `CRITERIA` without ``by_median``, and chosen by the
criterion's number. The scores of one channel are computed in one pass over its candidates: with one
pass for the terms and one for the scores, boosting of 900k x 28 takes 7% longer. Loops over
candidates use unsigned indices. With signed ones, Numba handles negative positions, LLVM gathers
operands one by one, and boosting of seven classes (100k x 54) takes 5% longer.
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
    def scores_of_one(arrays, g, h, limits, positions, extra):
        sums = arrays.sums
        for j in range(np.uint64(positions[0]), np.uint64(positions[1])):
            gl = np.float64(sums[GRADIENT, j] + extra[0])
            hl = np.float64(sums[HESSIAN, j] + extra[1])
            terms = (0.0, 0.0, 0.0)
            if both_classes:
                terms = add(terms, hl - gl, h - g, hl, h, limits)
            arrays.scores[j] = score(add(terms, gl, g, hl, h, limits), hl, h)

    return scores_of_one


def _add_channel(add: Any, score: Any, both_classes: bool) -> Any:
    """Make the function that adds the terms of one of several channels."""

    @helper
    def add_channel(arrays, row, g, h, limits, positions, extra):
        sums, terms = arrays.sums, arrays.terms
        for j in range(np.uint64(positions[0]), np.uint64(positions[1])):
            gl, hl = np.float64(sums[row, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
            own = (terms[0, j], terms[1, j], terms[2, j])
            terms[0, j], terms[1, j], terms[2, j] = add(own, gl, g, hl, h, limits)

    return add_channel


def _scores_of_terms(add: Any, score: Any, both_classes: bool) -> Any:
    """Make the function that computes scores of candidates from the terms of all channels."""

    @helper
    def scores_of_terms(arrays, h, positions, extra_hessian):
        terms = arrays.terms
        for j in range(np.uint64(positions[0]), np.uint64(positions[1])):
            hl = np.float64(arrays.sums[HESSIAN, j] + extra_hessian)
            arrays.scores[j] = score((terms[0, j], terms[1, j], terms[2, j]), hl, h)

    return scores_of_terms


_one_by_number = _by_criterion(_scores_of_one)
_add_by_number, _scores_by_number = _by_criterion(_add_channel), _by_criterion(_scores_of_terms)


class ScoreArrays(NamedTuple):
    """Arrays of `Scratch`, and limits, by which candidates of a feature are scored.

    If all arrays of `Problem` are passed instead, the call takes longer than scoring a few
    candidates, and boosting of seven classes (100k x 54) takes 10% longer. ``sign`` is 1 or -1 if
    the feature is monotonic, else 0; features are monotonic only with one channel.
    """

    limits: Limits
    sums: np.ndarray
    missing: np.ndarray
    terms: np.ndarray
    scores: np.ndarray
    sign: float


@inlined
def score_arrays_of(problem, feature):
    """The arrays and limits by which candidates of a feature are scored."""
    own, sign = problem.scratch, np.float64(sign_of(problem, feature))
    return ScoreArrays(problem.limits, own.sums, own.missing, own.terms, own.scores, sign)


@inlined
def one_channel_scores(arrays, node, positions, extra):
    """Compute scores of a range of candidates with one channel: an output, or one of two classes.

    ``positions`` is the range (first, end). ``extra`` is the gradient and the hessian of missing
    values if these go left, else zeros.
    """
    g, h = np.float64(node.gradient), np.float64(node.hessian)
    limits = value_limits(arrays.limits, node)
    _one_by_number(arrays.limits.criterion, arrays, g, h, limits, positions, extra)
    if arrays.sign != 0.0:
        _refuse_not_monotonic(arrays, g, h, limits, positions, extra)


@inlined
def add_terms(arrays, node, channel, positions, extra):
    """Add the terms of one of several channels to the terms of a range of candidates.

    ``channel`` is the row of its sums and its sum in the node; ``extra`` is as in
    `one_channel_scores`.
    """
    (row, g), h, criterion = channel, np.float64(node.hessian), arrays.limits.criterion
    limits = value_limits(arrays.limits, node)
    _add_by_number(criterion, arrays, row, g, h, limits, positions, extra)


@inlined
def scores_of_terms(arrays, node, positions, extra_hessian):
    """Compute scores of candidates from the terms of all channels."""
    h, criterion = np.float64(node.hessian), arrays.limits.criterion
    _scores_by_number(criterion, arrays, h, positions, extra_hessian)


@helper
def _refuse_not_monotonic(arrays, g, h, limits, positions, extra):
    """Set to -1 the scores of candidates that are not monotonic as the feature's sign requires."""
    sums, scores, sign = arrays.sums, arrays.scores, arrays.sign
    for j in range(np.uint64(positions[0]), np.uint64(positions[1])):
        gl, hl = np.float64(sums[GRADIENT, j] + extra[0]), np.float64(sums[HESSIAN, j] + extra[1])
        scores[j] = scores[j] if is_monotonic(sign, gl, g, hl, h, limits) else -1.0
