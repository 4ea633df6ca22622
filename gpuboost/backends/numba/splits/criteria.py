"""The terms and scores of all criteria, for a range of candidates (see `engine.criteria`).

Each function is a plugin for each row of `CRITERIA` without ``by_median``, so a fit compiles those
of its criterion. The scores of one channel are computed in one pass over its candidates: with one
pass for the terms and one for the scores, boosting of 900k x 28 takes 7% longer. Loops over
candidates use unsigned indices. With signed ones, Numba handles negative positions, LLVM gathers
operands one by one, and boosting of seven classes (100k x 54) takes 5% longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gpuboost.backends.numba.common.constraints import value_limits
from gpuboost.backends.numba.common.records import GRADIENT, HESSIAN
from gpuboost.backends.numba.compiler import (
    Plugin,
    bits_of,
    criteria,
    float_of,
    helper,
    inlined,
    newton,
    specialised,
)
from gpuboost.engine.criteria import CRITERIA

is_monotonic = newton.is_monotonic

# The functions and the constant of a criterion, which `_by_criterion` sets.
add: Any = None
score: Any = None
threshold: Any = None
reaches: Any = None
both_classes = False

SCORE_BLOCK = 32  # candidates that are scored together, or not at all


def _by_criterion(function: Any, returns: types.Type) -> dict[int, Plugin]:
    """A plugin for the number of each criterion.

    Trees of medians are grown with VARIANCE, so criteria with ``by_median`` have no plugin.
    """
    made = {}
    for row in CRITERIA.values():
        if not row.by_median:
            used = "add", "score", "threshold", "reaches"
            own = {each: getattr(criteria, getattr(row, each).__name__) for each in used}
            copied = specialised(function, str(row.number), both_classes=row.both_classes, **own)
            made[row.number] = Plugin(copied, returns)
    return made


def scores_of_one(limits, scratch, node, sign, first, last, gradient, hessian):
    """Compute scores of candidates with one channel: an output, or one of two classes.

    The candidates are those from ``first`` to ``last`` - 1; those with too little hessian on a side
    get -1. ``sign`` is 1.0 or -1.0 if the feature is monotonic, else 0.0. ``gradient`` and
    ``hessian`` are those of missing values if these go left, else 0. Returns the largest of the
    computed scores, as `largest_score` does.

    Blocks of candidates that are certain to be worse than the best so far get -1, too. (Otherwise,
    boosting of 10k x 20 takes 1.29 times as long with NEWTON, on one thread.) The best so far is
    that of earlier features and, if no later check can refuse a candidate of this feature, that of
    earlier blocks.
    """
    sums, scores, largest = scratch.sums, scratch.scores, np.int64(-1)
    g, h, of_node = np.float64(node.gradient), np.float64(node.hessian), value_limits(limits, node)
    minimum, maximum = limits.min_hessian, node.hessian - limits.min_hessian
    best, are_final = max(scratch.split[0].score, 0.0), (sign == 0.0) & (hessian == 0)
    are_final &= limits.min_samples_leaf <= 1
    for start in range(first, last, SCORE_BLOCK):
        block = start, min(start + SCORE_BLOCK, last)
        needed, may_reach = threshold(best, g, h, of_node), False
        for j in range(np.uint64(block[0]), np.uint64(block[1])):
            gl, left = sums[GRADIENT, j] + gradient, sums[HESSIAN, j] + hessian
            may_reach |= reaches(np.float64(gl), g, np.float64(left), h, of_node, needed)
        if not may_reach:
            scores[block[0] : block[1]] = -1.0
            continue
        for j in range(np.uint64(block[0]), np.uint64(block[1])):
            left = sums[HESSIAN, j] + hessian
            gl, hl = np.float64(sums[GRADIENT, j] + gradient), np.float64(left)
            terms = (0.0, 0.0, 0.0)
            if both_classes:
                terms = add(terms, hl - gl, h - g, hl, h, of_node)
            own = score(add(terms, gl, g, hl, h, of_node), hl, h)
            own = own if (left >= minimum) & (left <= maximum) else -1.0
            scores[j] = own
            largest = max(largest, bits_of(own))
        if are_final and largest >= 0:
            best = max(best, float_of(largest))
    if sign != 0.0:
        _refuse_not_monotonic(limits, scratch, node, sign, first, last, gradient, hessian)
        largest = largest_score(scratch.patterns, first, last)
    return largest


@helper
def _refuse_not_monotonic(limits, scratch, node, sign, first, last, gradient, hessian):
    """Set to -1 the scores of candidates that are not monotonic as the feature's sign requires."""
    sums, scores = scratch.sums, scratch.scores
    g, h, of_node = np.float64(node.gradient), np.float64(node.hessian), value_limits(limits, node)
    for j in range(np.uint64(first), np.uint64(last)):
        gl, hl = np.float64(sums[GRADIENT, j] + gradient), np.float64(sums[HESSIAN, j] + hessian)
        scores[j] = scores[j] if is_monotonic(sign, gl, g, hl, h, of_node) else -1.0


@inlined
def largest_score(patterns, first, last):
    """The largest score in a range, as an int64 bit pattern; negative if no score is valid."""
    largest = np.int64(-1)
    for j in range(np.uint64(first), np.uint64(last)):
        largest = max(largest, patterns[j])
    return largest


def add_terms(limits, scratch, node, row, g, first, last, gradient, hessian):
    """Add the terms of one of several channels to the terms of candidates.

    ``row`` is the row of the channel's sums, and ``g`` its sum in the node; the other arguments are
    those of `scores_of_one`.
    """
    sums, terms = scratch.sums, scratch.terms
    h, of_node = np.float64(node.hessian), value_limits(limits, node)
    for j in range(np.uint64(first), np.uint64(last)):
        gl, hl = np.float64(sums[row, j] + gradient), np.float64(sums[HESSIAN, j] + hessian)
        own = (terms[0, j], terms[1, j], terms[2, j])
        terms[0, j], terms[1, j], terms[2, j] = add(own, gl, g, hl, h, of_node)


def scores_of_terms(scratch, node, first, last, hessian):
    """Add the scores of candidates, from the terms of channels, to `Scratch.scores`."""
    terms, h = scratch.terms, np.float64(node.hessian)
    for j in range(np.uint64(first), np.uint64(last)):
        hl = np.float64(scratch.sums[HESSIAN, j] + hessian)
        scratch.scores[j] += score((terms[0, j], terms[1, j], terms[2, j]), hl, h)


SCORES_OF_ONE = _by_criterion(scores_of_one, types.int64)
ADD_TERMS = _by_criterion(add_terms, types.none)
SCORES_OF_TERMS = _by_criterion(scores_of_terms, types.none)
