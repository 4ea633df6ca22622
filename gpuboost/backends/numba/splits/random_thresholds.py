"""Splits with one candidate per feature: random thresholds, and features of two values."""

from __future__ import annotations

import numpy as np
from numba import types

from gpuboost.backends.numba.common.feature_codes import code_at, codes_of
from gpuboost.backends.numba.common.packed_words import hessian_of
from gpuboost.backends.numba.common.records import COUNT, GRADIENT, HESSIAN, Members
from gpuboost.backends.numba.compiler import criteria, helper, inlined, plugin, randomness
from gpuboost.backends.numba.intrinsics import COUNTED, count_up_to
from gpuboost.backends.numba.splits.channels import add_row, row_packing
from gpuboost.backends.numba.splits.histograms import (
    add_hessians,
    add_word,
    fits_words,
    n_fields,
    unpack_prefix,
)
from gpuboost.backends.numba.splits.scan import best_candidate, is_allowed, take_candidate
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.task import MISSING_RIGHT, ONLY_MISSING_RIGHT

threshold_draw = randomness.threshold_draw
variance_term, variance_gain = criteria.variance_term, criteria.variance_gain


@inlined
def code_range(gathered, n):
    """Smallest and largest of the first ``n`` codes.

    With `weighted_code_range` instead, extra-trees of 100k x 28 take 19% longer (2026-11).
    """
    low, high = np.uint8(255), np.uint8(0)
    for i in range(n):
        low, high = min(low, gathered[i]), max(high, gathered[i])
    return np.int64(low), np.int64(high)


@inlined
def weighted_code_range(gathered, words, missing_code, packing):
    """Range of value codes of rows with positive weight, and whether one such row has no value.

    If no such row has a value, the range is (256, -1).
    """
    low, high, is_seen = np.int64(256), np.int64(-1), False
    for i in range(words.size):
        code, weighs = np.int64(gathered[i]), hessian_of(words[i], packing) > 0
        if code == missing_code:
            is_seen |= weighs
        elif weighs:
            low, high = min(low, code), max(high, code)
    return low, high, is_seen


@helper
def _sum_codes(problem, channels, members, low, high):
    """Sum rows with codes from ``low`` to ``high`` into the first column of `Scratch.sums`."""
    scratch, sums, total = problem.scratch, problem.scratch.sums, np.int64(0)
    first, last, codes = np.uint8(low), np.uint8(high), scratch.codes
    if fits_words(channels, members):
        words = members.word if channels is None else channels.word
        for i in range(members.row.size):
            code = codes[i]
            total += words[i] & -np.int64((code >= first) & (code <= last))
        scratch.prefix[0] = total
        unpack_prefix(problem, channels, np.int64(1))
        return
    sums[: n_fields(channels), 0] = 0
    for i in range(members.row.size):
        if (scratch.codes[i] >= first) & (scratch.codes[i] <= last):
            if channels is None:
                add_word(problem, sums, 0, members.word[i])
            else:
                add_row(problem, channels, members.row[i], i, sums, 0)
    if channels is not None and channels.values.size == 0:
        add_hessians(channels, sums, np.int64(1))


@inlined
def _center(matrix, first, code):
    """The centre of a bin, given the first row of its feature's groups."""
    return matrix.centers[first + code // COUNTED, code % COUNTED]


@inlined
def last_bin_up_to(matrix, feature, threshold):
    """The last bin of a feature whose centre is at most the threshold, or -1.

    The group of bins is found first, then the bin. No branch depends on the threshold, since the
    processor would guess wrong half of the time. With strided comparisons of the bins between the
    lowest and the highest code of the node, extra-trees of 100k x 28 take 5% longer (2026-11).
    """
    row = matrix.first_center[feature]
    group = max(count_up_to(matrix.centers, row, threshold) - 1, 0)
    return COUNTED * group + count_up_to(matrix.centers, row + 1 + group, threshold) - 1


@inlined
def _plain_candidate(problem, node):
    """Result of `best_candidate` for one candidate of one channel, VARIANCE, no missing values.

    Without this shortcut, extra-trees of 100k x 28 take 2 to 8% longer (2026-11, two machines).
    """
    gradient, hessian = problem.scratch.sums[GRADIENT, 0], problem.scratch.sums[HESSIAN, 0]
    hl, h = np.float64(hessian), np.float64(node.hessian)
    term = variance_term(np.float64(gradient), np.float64(node.gradient), hl, h)
    allowed = is_allowed(problem.limits, node, hessian, problem.scratch.sums[COUNT, 0])
    return np.int64(allowed) - 1, variance_gain(term, hl, h - hl), MISSING_RIGHT


@inlined
def evaluate_threshold(problem, channels, members, feature, rank):
    """Evaluate a random threshold between the lowest and highest occupied value bins of the node.

    If only one value bin is occupied, the candidate separates values from missing values. Returns
    whether the feature can split the node.
    """
    matrix, scratch, node, row = problem.matrix, problem.scratch, members.node, members.row
    packing, is_seen = row_packing(problem, channels), False
    codes, gathered = codes_of(problem, row, feature), scratch.codes
    for i in range(row.size):
        gathered[i] = code_at(codes, row[i])
    if matrix.has_missing[feature] | problem.limits.has_weightless:
        low, high, is_seen = weighted_code_range(
            gathered, members.word, matrix.missing_code, packing
        )
    else:
        low, high = code_range(gathered, row.size)
    if (high < 0) | ((low == high) & (not is_seen)):
        return False
    u, first = threshold_draw(node.key, np.uint64(feature)), matrix.first_center[feature] + 1
    draw = _center(matrix, first, low) * (1.0 - u) + _center(matrix, first, high) * u
    code, following = low, np.int64(ONLY_MISSING_RIGHT)
    if low < high:
        code = min(max(last_bin_up_to(matrix, feature, draw), low), high - 1)
        following = code + 1
    scratch.missing[:] = 0
    if is_seen:
        _sum_codes(problem, channels, members, matrix.missing_code, matrix.missing_code)
        for field in range(n_fields(channels)):
            scratch.missing[field] = scratch.sums[field, 0]
    _sum_codes(problem, channels, members, np.int64(0), code)
    if (channels is None) & (not is_seen) & (problem.limits.criterion == VARIANCE):
        best = _plain_candidate(problem, node)
    else:
        one = (np.int64(0), np.int64(1))
        best = best_candidate(problem, channels, node, feature, one, low == high)
    if take_candidate(problem, feature, rank, best):
        split = scratch.split[0]
        split.draw, split.bin, split.next_bin = draw, code, following
    return True


@plugin(types.boolean)
def evaluate_random(problem, channels, node, row, word, is_wide, feature, rank):
    """`evaluate_threshold`, for the fields of `Members`."""
    members = Members(node, row, word, is_wide)
    return evaluate_threshold(problem, channels, members, feature, rank)


@inlined
def evaluate_two_valued(problem, members, feature, rank):
    """Evaluate a feature of two bins without missing values, in a node whose sums fit a word.

    It requires VARIANCE and one channel. Without this shortcut, a random forest of 100k x 54 with
    44 features of two values takes 16% longer.
    """
    scratch, rows, words, total = problem.scratch, members.row, members.word, np.int64(0)
    codes = codes_of(problem, rows, feature)
    for i in range(rows.size):
        total += words[i] & (np.int64(code_at(codes, rows[i])) - 1)  # code 0 keeps the word
    scratch.prefix[0], scratch.missing[HESSIAN] = total, 0
    unpack_prefix(problem, None, np.int64(1))
    if take_candidate(problem, feature, rank, _plain_candidate(problem, members.node)):
        scratch.split[0].bin, scratch.split[0].next_bin = 0, 1
    return (scratch.sums[HESSIAN, 0] > 0) & (scratch.sums[HESSIAN, 0] < members.node.hessian)
