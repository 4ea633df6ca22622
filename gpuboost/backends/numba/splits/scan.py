"""The best candidate of one feature at one node, for any number of channels.

Each column of `Scratch.sums` is a candidate, given by the sums of its left side.

    sums up to each bin, or of sets of categories     histograms, categorical, random_thresholds
    scores, with missing values right and left        `score_candidates`
        of one channel, in one pass                   `criteria.scores_of_one`
        of several, by their terms                    `criteria.add_terms`, `scores_of_terms`;
                                                      `class_moments.terms_of_moments`
    best candidate of the feature, and of the node    `best_candidate`, `take_candidate`

`evaluate_words` scores the words in `Scratch.prefix` instead. It requires VARIANCE, uncounted rows,
sums that fit a word, and a numeric feature that is not missing in any row of the node that has
weight.

`Scratch.split` is the best split so far. The `evaluate_*` functions replace it if they find a
better one, and return whether the feature can split the node at all.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.constraints import sign_of
from gpuboost.backends.numba.common.packed_words import gradient_of, hessian_of
from gpuboost.backends.numba.common.records import COUNT, GRADIENT, HESSIAN, LANES
from gpuboost.backends.numba.compiler import (
    NAN,
    call_for_integer,
    call_for_nothing,
    criteria,
    float_of,
    helper,
    inlined,
    randomness,
)
from gpuboost.backends.numba.splits.channels import MOMENTS, field_of
from gpuboost.backends.numba.splits.criteria import largest_score
from gpuboost.backends.numba.splits.histograms import n_fields
from gpuboost.engine.task import MISSING_LEFT, MISSING_RIGHT, MISSING_UNSEEN, ONLY_MISSING_RIGHT

missing_goes_left = randomness.missing_goes_left
variance_term, variance_gain = criteria.variance_term, criteria.variance_gain


@inlined
def is_better(split, score, rank):
    """Whether a candidate is better than the best so far, whose score is -1 if there is none."""
    return (score > split.score) | ((score == split.score) & (rank < split.rank))


@inlined
def set_best(split, score, rank, feature, left_gradient, left_hessian):
    """Make a candidate the best so far; the caller sets its bins and direction of missing values.

    For a categorical split or a random threshold, it also sets ``categorical`` or ``draw``.
    """
    split.score, split.rank, split.feature = score, rank, feature
    split.left_gradient, split.left_hessian = left_gradient, left_hessian
    split.draw, split.categorical = NAN, 0


@inlined
def is_allowed(limits, node, left_hessian, left_count):
    """Whether both sides of a split are large enough."""
    smallest = limits.min_samples_leaf
    right_hessian, right_count = node.hessian - left_hessian, node.count - left_count
    allowed = (left_hessian >= limits.min_hessian) & (right_hessian >= limits.min_hessian)
    return allowed & ((smallest <= 1) | ((left_count >= smallest) & (right_count >= smallest)))


@inlined
def place_of(patterns, largest):
    """Index of the first score that is the largest; both are int64 bit patterns."""
    j = np.uint64(0)
    while patterns[j] != largest:
        j += np.uint64(1)
    return np.int64(j)


# ---- from words: VARIANCE, no missing values, rows not counted ---------------------------------
#
# With sums instead, a random forest of 50k x 28 with seven classes takes 30% longer; a forest of
# 100k x 28 with two classes and a tenth of the values missing takes 12% longer.


@inlined
def _left_hessian(problem, channels, j):
    """Left hessian of a candidate in `Scratch.prefix`.

    With several channels, `_word_scores` must have computed the hessians.
    """
    if channels is None:
        return hessian_of(problem.scratch.prefix[j], problem.packing)
    return problem.scratch.sums[HESSIAN, j]


@inlined
def _word_scores(problem, channels, node, m):
    """Compute scores of ``m`` candidates in `Scratch.prefix`, -1 if a side has too little weight.

    Returns ``m`` rounded up to whole blocks.
    """
    packing, prefix, scores = problem.packing, problem.scratch.prefix, problem.scratch.scores
    g, h = np.float64(node.gradient), np.float64(node.hessian)
    hessian = problem.scratch.sums[HESSIAN]
    minimum, padded = np.float64(problem.limits.min_hessian), (m + LANES - 1) // LANES * LANES
    for j in range(m, padded):
        prefix[j] = 0
    if channels is None:
        for j in range(np.uint64(padded)):
            hl = np.float64(hessian_of(prefix[j], packing))
            term = variance_term(np.float64(gradient_of(prefix[j], packing)), g, hl, h)
            score = variance_gain(term, hl, h - hl)
            scores[j] = score if (hl >= minimum) & (h - hl >= minimum) else -1.0
        return padded
    hessian[:padded], scores[:padded] = 0, 0.0
    for p in range(channels.state[0]):
        for j in range(padded):
            hessian[j] += field_of(channels, prefix[j], p)
    for p in range(channels.state[0]):
        g = np.float64(channels.sums[p])
        for j in range(padded):
            gl, hl = np.float64(field_of(channels, prefix[j], p)), np.float64(hessian[j])
            scores[j] += variance_term(gl, g, hl, h)
    for j in range(padded):
        hl = np.float64(hessian[j])
        score = variance_gain(scores[j], hl, h - hl)
        scores[j] = score if (hl >= minimum) & (h - hl >= minimum) else -1.0
    return padded


@inlined
def evaluate_words(problem, channels, node, feature, rank, m):
    """Evaluate a numeric feature from the sums up to each of ``m`` bins in `Scratch.prefix`."""
    scratch, split = problem.scratch, problem.scratch.split[0]
    padded = _word_scores(problem, channels, node, m)
    largest = largest_score(scratch.patterns, np.int64(0), padded)
    if largest < 0:
        first = np.int64(0)
        while _left_hessian(problem, channels, first) == 0:
            first += 1
        return _left_hessian(problem, channels, first) < node.hessian
    if is_better(split, float_of(largest), rank):
        j = place_of(scratch.patterns, largest)
        hessian, following = _left_hessian(problem, channels, j), j + 1
        gradient = gradient_of(scratch.prefix[j], problem.packing) if channels is None else 0
        set_best(split, scratch.scores[j], rank, feature, gradient, hessian)
        while _left_hessian(problem, channels, following) == hessian:
            following += 1
        split.bin, split.next_bin = scratch.bins[j], scratch.bins[following]
        split.missing = MISSING_UNSEEN
    return True


# ---- from sums: any channels, criterion, limits and missing values -----------------------------


@inlined
def keep_occupied(scratch, channels, m):
    """Drop bins of weight 0; their rows are counted in the sums up to the next bin."""
    sums, bins, kept, before = scratch.sums, scratch.bins, np.uint64(0), np.int64(0)
    for j in range(np.uint64(m)):
        if sums[HESSIAN, j] != before:
            before = sums[HESSIAN, j]
            if kept < j:  # nothing is moved until a bin is dropped
                bins[kept] = bins[j]
                for field in range(n_fields(channels)):
                    sums[field, kept] = sums[field, j]
            kept += np.uint64(1)
    return np.int64(kept)


@inlined
def evaluate_number(problem, channels, node, feature, rank, m, bins):
    """Evaluate a numeric feature from the sums up to each of ``m`` bins and the missing values.

    ``bins`` are their codes; None if these are 0, 1, ..., m - 1. A bin without rows has the same
    sums as the bin before, which wins because it is lower. If only missing values go right,
    `SPLIT.next_bin` is `ONLY_MISSING_RIGHT`.
    """
    scratch, sums = problem.scratch, problem.scratch.sums
    first, best = 0, best_candidate(problem, channels, node, feature, (np.int64(0), m))
    if take_candidate(problem, feature, rank, best):
        split, j = scratch.split[0], best[0]
        following = j + 1
        while following < m and sums[HESSIAN, following] == sums[HESSIAN, j]:
            following += 1
        split.bin, split.next_bin = j, following
        if bins is not None:
            split.bin, split.next_bin = bins[j], bins[min(following, m - 1)]
        if following == m:
            split.next_bin = ONLY_MISSING_RIGHT
    while first < m and sums[HESSIAN, first] == 0:
        first += 1
    return first < m and sums[HESSIAN, first] < node.hessian


@inlined
def take_candidate(problem, feature, rank, best):
    """Make ``best`` the node's split if it is better; return whether it is.

    ``best`` is the result of `best_candidate`. The caller sets the bins of the split and, for a
    categorical split or a random threshold, ``categorical`` or ``draw``.
    """
    (j, score, direction), scratch = best, problem.scratch
    split, sums, missing = scratch.split[0], scratch.sums, scratch.missing
    if j < 0 or not is_better(split, score, rank):
        return False
    left_gradient, left_hessian = sums[GRADIENT, j], sums[HESSIAN, j]
    if direction == MISSING_LEFT:
        left_gradient = left_gradient + missing[GRADIENT]
        left_hessian = left_hessian + missing[HESSIAN]
    set_best(split, score, rank, feature, left_gradient, left_hessian)
    split.missing = direction if missing[HESSIAN] > 0 else MISSING_UNSEEN
    return True


@inlined
def missing_directions(problem, node, feature, one_value):
    """Whether missing values can go right, and left; without missing values, only right.

    If thresholds are random, missing values can only go in the drawn direction, or right if the
    node has only one value besides.
    """
    if (problem.scratch.missing[HESSIAN] == 0) | one_value:
        return True, False
    if not problem.limits.random_thresholds:
        return True, True
    drawn_left = missing_goes_left(node.key, np.uint64(feature)) == np.uint64(1)
    return not drawn_left, drawn_left


@inlined
def best_candidate(problem, channels, node, feature, positions, one_value=False):
    """Best position in a range (first, end), its score, and the direction of missing values.

    The position is -1 if no candidate is valid, or all are worse than `Scratch.split`. With random
    thresholds, ``one_value`` is whether the node has one value of the feature.
    """
    sign = np.float64(sign_of(problem, feature))
    directions = missing_directions(problem, node, feature, one_value)
    j, score, direction = np.int64(-1), problem.scratch.split[0].score, MISSING_RIGHT
    for side in range(2):
        if directions[side]:
            largest = score_candidates(problem, channels, node, sign, positions, side)
            if (largest < 0) | (float_of(largest) < score):
                continue
            other = place_of(problem.scratch.patterns, largest)
            if (j < 0) | (float_of(largest) > score) | (other < j):
                j, score = other, float_of(largest)
                direction = MISSING_LEFT if side == 1 else MISSING_RIGHT
    return j, score, direction


@inlined
def _sum_terms(problem, channels, node, positions, side, together):
    """Compute the terms of a range of candidates, summed over the channels in a range."""
    scratch, plugins, missing = problem.scratch, problem.plugins, problem.scratch.missing
    first, last = positions
    scratch.terms[:, first:last] = 0.0
    if channels.state[1] == MOMENTS:
        moments = (scratch, node, channels.state[3], first, last, side)
        call_for_nothing(plugins.terms_of_moments, moments)
        return
    hessian = missing[HESSIAN] * side
    for p in range(together[0], together[1]):
        row, g = GRADIENT + p, np.float64(channels.sums[p])
        given = (problem.limits, scratch, node, row, g, first, last, missing[row] * side, hessian)
        call_for_nothing(plugins.add_terms, given)


@helper
def score_candidates(problem, channels, node, sign, positions, side):
    """Compute scores of a range of candidates; -1 before the range and for invalid splits.

    ``sign`` is 1.0 or -1.0 if the feature is monotonic, else 0.0; features are monotonic only with
    one channel. ``side`` is 1 if missing values go left, else 0. ``positions`` is the range (first,
    end). Returns the largest score, as `largest_score` does.
    """
    scratch, limits, plugins = problem.scratch, problem.limits, problem.plugins
    first, last = positions
    sums, missing, scores = scratch.sums, scratch.missing, scratch.scores
    hessian, count = missing[HESSIAN] * side, missing[COUNT] * side
    scores[:first] = -1.0
    if channels is None:
        gradient = missing[GRADIENT] * side
        given = (limits, scratch, node, sign, first, last, gradient, hessian)
        largest = call_for_integer(plugins.scores_of_one, given)
        if (side == 0) & (limits.min_samples_leaf <= 1):
            return largest
    else:
        scores[first:last] = 0.0
        n_channels, size = channels.state[0], limits.scored_together
        for p in range(0, n_channels, size):
            together = p, min(p + size, n_channels)
            _sum_terms(problem, channels, node, positions, side, together)
            call_for_nothing(plugins.scores_of_terms, (scratch, node, first, last, hessian))
    # Hessian of the rows that have a value; 0 if missing values go right, which needs no check.
    h_values = (node.hessian - hessian) * side
    for j in range(np.uint64(first), np.uint64(last)):
        valid = is_allowed(limits, node, sums[HESSIAN, j] + hessian, sums[COUNT, j] + count)
        valid &= (h_values == 0) | ((sums[HESSIAN, j] > 0) & (sums[HESSIAN, j] < h_values))
        scores[j] = scores[j] if valid else -1.0
    return largest_score(scratch.patterns, first, last)
