"""The best split of one numeric feature at one node, one channel (see backends/protocol.py).

`evaluate_*` functions compare what they find with `Scratch.split`, the best so far, and tell
whether the feature could split at all.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.packed_words import gradient_of, hessian_of
from gpuboost.backends.numba.compiler import NAN, criteria, helper, inlined, randomness
from gpuboost.backends.numba.splits.criteria import score_of_one
from gpuboost.backends.numba.splits.histograms import LANES, unpack_prefix, wide_prefix, word_prefix
from gpuboost.backends.numba.splits.newton import (
    newton_split_score,
    newton_sums_scores,
    newton_word_scores,
)
from gpuboost.engine.criteria import NEWTON, VARIANCE
from gpuboost.engine.task import MISSING_LEFT, MISSING_RIGHT, MISSING_UNSEEN, ONLY_MISSING_RIGHT

missing_goes_left = randomness.missing_goes_left
variance_term, variance_gain = criteria.variance_term, criteria.variance_gain


@inlined
def split_score(problem, node, feature, left_gradient, left_hessian):
    """Gain of one split from integers, whatever the score; -1 if the score does not allow it."""
    criterion = problem.limits.criterion
    if criterion == NEWTON:
        return newton_split_score(problem, node, feature, left_gradient, left_hessian)
    g, h = np.float64(node.gradient), np.float64(node.hessian)
    gl, hl = np.float64(left_gradient), np.float64(left_hessian)
    if criterion == VARIANCE:
        return variance_gain(variance_term(gl, g, hl, h), hl, h - hl)
    return score_of_one(criterion, gl, hl, g, h)


@inlined
def is_better(split, score, rank):
    """Whether a candidate goes before the best so far, none if its gain is -1."""
    return (score > split.score) | ((score == split.score) & (rank < split.rank))


@inlined
def set_best(split, score, rank, feature, left_gradient, left_hessian):
    """Make a numeric candidate the best so far; its bins are the caller's to fill in."""
    split.score, split.rank, split.feature = score, rank, feature
    split.left_gradient, split.left_hessian = left_gradient, left_hessian
    split.draw, split.categorical, split.is_range = NAN, 0, 0


@inlined
def variance_scores(prefix, m, g, h, min_hessian, packing, scores):
    """Gains of the first ``m`` bins, -1 where a side is too light; returns whole blocks."""
    blocks = (m + LANES - 1) // LANES
    for j in range(m, blocks * LANES):
        prefix[j] = 0
    for block in range(blocks):
        for lane in range(LANES):
            j = np.uint64(block * LANES + lane)
            hl = np.float64(hessian_of(prefix[j], packing))
            gl = np.float64(gradient_of(prefix[j], packing))
            score = variance_gain(variance_term(gl, g, hl, h), hl, h - hl)
            scores[j] = score if (hl >= min_hessian) & (h - hl >= min_hessian) else -1.0
    return blocks * LANES


@inlined
def first_largest(patterns, m):
    """Index of the first largest gain, -1 if all are negative. As int64 floats keep their order."""
    largest = np.int64(-1)
    for j in range(m):
        largest = max(largest, patterns[j])
    if largest < 0:
        return np.int64(-1)
    j = np.uint64(0)
    while patterns[j] != largest:
        j += np.uint64(1)
    return np.int64(j)


@inlined
def evaluate_numeric(problem, members, feature, rank):
    """The best split of a feature by histogram; whether it could split."""
    matrix, limits, scratch = problem.matrix, problem.limits, problem.scratch
    has_missing = matrix.has_missing[feature]
    width = matrix.missing_code + 1 if has_missing else matrix.n_bins[feature]
    if members.is_wide:
        m = wide_prefix(problem, members, feature, width)
        return evaluate_sums(problem, members.node, feature, rank, m)
    m = word_prefix(problem, members, feature, width)
    is_seen = False
    if has_missing:
        before = scratch.prefix[m - 2] if m > 1 else np.int64(0)
        is_seen = (scratch.bins[m - 1] == matrix.missing_code) & (scratch.prefix[m - 1] != before)
    by_words = (limits.criterion == VARIANCE) | (limits.criterion == NEWTON)
    if is_seen | (not by_words) | (limits.min_samples_leaf > 1):
        unpack_prefix(problem, m)
        return evaluate_sums(problem, members.node, feature, rank, m)
    return evaluate_words(problem, members.node, feature, rank, m)


@inlined
def evaluate_words(problem, node, feature, rank, m):
    """VARIANCE or NEWTON, nothing missing, rows not counted: straight from words."""
    packing, scratch = problem.packing, problem.scratch
    prefix, padded = scratch.prefix, m
    if problem.limits.criterion == NEWTON:
        newton_word_scores(problem, node, feature, m)
    else:
        g, h = np.float64(node.gradient), np.float64(node.hessian)
        padded = variance_scores(
            prefix, m, g, h, problem.limits.min_hessian, packing, scratch.scores
        )
    j = first_largest(scratch.patterns, padded)
    if j < 0:
        first = np.int64(0)
        while hessian_of(prefix[first], packing) == 0:
            first += 1
        return hessian_of(prefix[first], packing) < node.hessian
    split, score = scratch.split[0], scratch.scores[j]
    if is_better(split, score, rank):
        hessian = hessian_of(prefix[j], packing)
        set_best(split, score, rank, feature, gradient_of(prefix[j], packing), hessian)
        following = j + 1
        while hessian_of(prefix[following], packing) == hessian:
            following += 1
        split.bin, split.next_bin = scratch.bins[j], scratch.bins[following]
        split.missing = MISSING_UNSEEN
    return True


@helper
def evaluate_sums(problem, node, feature, rank, m):
    """Any score, limits and missing values, from `Scratch.sums`."""
    m = keep_occupied(problem.scratch, take_missing(problem, feature, m))
    return evaluate_occupied(problem, node, feature, rank, m)


@inlined
def evaluate_occupied(problem, node, feature, rank, m):
    """The same from the sums of occupied bins, and `Scratch.missing`."""
    scratch = problem.scratch
    sums, missing, is_seen = scratch.sums, scratch.missing, scratch.missing[1] > 0
    if m + np.int64(is_seen) < 2:
        return False
    j, score, goes = best_of_sums(problem, node, feature, 0, m)
    split = scratch.split[0]
    if j >= 0 and is_better(split, score, rank):
        with_missing = goes == MISSING_LEFT
        left_gradient = sums[0, j] + (missing[0] if with_missing else 0)
        left_hessian = sums[1, j] + (missing[1] if with_missing else 0)
        set_best(split, score, rank, feature, left_gradient, left_hessian)
        split.bin = scratch.bins[j]
        split.next_bin = scratch.bins[j + 1] if j + 1 < m else ONLY_MISSING_RIGHT
        split.missing = goes if is_seen else MISSING_UNSEEN
    return True


@inlined
def keep_occupied(scratch, m):
    """Drop bins without weight; their rows count in the sums up to the next bin."""
    sums, bins, kept, before = scratch.sums, scratch.bins, 0, np.int64(0)
    for j in range(m):
        if sums[1, j] == before:
            continue
        before = sums[1, j]
        bins[kept] = bins[j]
        for field in range(3):
            sums[field, kept] = sums[field, j]
        kept += 1
    return kept


@inlined
def take_missing(problem, feature, m):
    """Move the missing bin, if it is listed, to `Scratch.missing`; returns the value bins left."""
    matrix, scratch = problem.matrix, problem.scratch
    sums, missing = scratch.sums, scratch.missing
    missing[0], missing[1], missing[2] = 0, 0, 0
    if matrix.has_missing[feature] and scratch.bins[m - 1] == matrix.missing_code:
        m -= 1
        for field in range(3):
            missing[field] = sums[field, m] - (sums[field, m - 1] if m > 0 else 0)
    return m


@inlined
def missing_directions(problem, node, feature):
    """Whether missing values may go right, and left: both, or the one that is drawn."""
    missing_hessian = problem.scratch.missing[1]
    if missing_hessian == 0:
        return True, False
    if not problem.limits.random_thresholds:
        return True, True
    drawn_left = missing_goes_left(node.key, np.uint64(feature)) == np.uint64(1)
    return not drawn_left, drawn_left


@inlined
def best_of_sums(problem, node, feature, first, last):
    """Best position in [first, last) of `Scratch.sums`, its gain, and where missing goes."""
    scratch = problem.scratch
    may_right, may_left = missing_directions(problem, node, feature)
    j, score, goes = np.int64(-1), -1.0, MISSING_RIGHT
    if may_right:
        sums_scores(problem, node, feature, (first, last), False)
        j = first_largest(scratch.patterns, last)
        score = scratch.scores[j] if j >= 0 else -1.0
    if may_left:
        sums_scores(problem, node, feature, (first, last), True)
        other = first_largest(scratch.patterns, last)
        if other >= 0:
            found = scratch.scores[other]
            if (found > score) | ((found == score) & (other < j)):
                j, score, goes = other, found, MISSING_LEFT
    return j, score, goes


@helper
def sums_scores(problem, node, feature, positions, with_missing):
    """Gains of a range of `Scratch.sums`, -1 before it and where a split is not valid."""
    limits, scratch = problem.limits, problem.scratch
    sums, scores, (first, last) = scratch.sums, scratch.scores, positions
    missing = (scratch.missing[0], scratch.missing[1], scratch.missing[2])
    h_values = node.hessian - missing[1]  # of the rows that have a value
    if not with_missing:
        missing, h_values = (np.int64(0), np.int64(0), np.int64(0)), np.int64(0)
    g, h = np.float64(node.gradient), np.float64(node.hessian)
    if limits.criterion == NEWTON:
        newton_sums_scores(problem, node, feature, positions, (missing[0], missing[1]))
    elif limits.criterion == VARIANCE:
        for j in range(first, last):
            gl, hl = np.float64(sums[0, j] + missing[0]), np.float64(sums[1, j] + missing[1])
            scores[j] = variance_gain(variance_term(gl, g, hl, h), hl, h - hl)
    else:
        for j in range(first, last):
            gl, hl = np.float64(sums[0, j] + missing[0]), np.float64(sums[1, j] + missing[1])
            scores[j] = score_of_one(limits.criterion, gl, hl, g, h)
    for j in range(first):
        scores[j] = -1.0
    for j in range(first, last):
        valid = is_allowed(limits, node, sums[1, j] + missing[1], sums[2, j] + missing[2])
        valid &= (h_values == 0) | ((sums[1, j] > 0) & (sums[1, j] < h_values))
        scores[j] = scores[j] if valid else -1.0


@inlined
def is_allowed(limits, node, left_hessian, left_count):
    """Whether both sides of a split are large enough."""
    smallest = limits.min_samples_leaf
    right_hessian, right_count = node.hessian - left_hessian, node.count - left_count
    allowed = (left_hessian >= limits.min_hessian) & (right_hessian >= limits.min_hessian)
    return allowed & ((smallest <= 1) | ((left_count >= smallest) & (right_count >= smallest)))
