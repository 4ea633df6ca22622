"""Splits with one candidate per feature: random thresholds, two-valued features, pairs of rows."""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.feature_sampling import LAST_RANK, is_choosy, signed_rank
from gpuboost.backends.numba.common.packed_words import count_of, gradient_of, hessian_of
from gpuboost.backends.numba.compiler import NAN, helper, inlined, randomness
from gpuboost.backends.numba.splits.scan import is_allowed, is_better, set_best, split_score
from gpuboost.engine.criteria import NEWTON
from gpuboost.engine.task import MISSING_LEFT, MISSING_RIGHT, MISSING_UNSEEN, ONLY_MISSING_RIGHT

threshold_draw, missing_goes_left = randomness.threshold_draw, randomness.missing_goes_left

FEW_ROWS = 48  # rows up to which comparing centres beats looking for the bin (measured)
EXACT = np.int64(2**53)  # integers up to here are float64 values


@inlined
def rank_of(limits, key, feature):
    """What orders the features of a node; the low half is the feature."""
    return signed_rank(key, feature) if limits.hashed_order else np.int64(feature)


@inlined
def evaluate_two_valued(problem, members, feature, rank):
    """A feature of two bins and nothing missing, at a node that fits a word: one sum."""
    codes, packing, node = problem.matrix.codes, problem.packing, members.node
    rows, words = members.row, members.word
    total = np.int64(0)
    for i in range(rows.size):
        total += words[i] & (np.int64(codes[feature, rows[i]]) - 1)  # code 0 keeps the word
    left = (gradient_of(total, packing), hessian_of(total, packing), count_of(total, packing))
    if (left[1] == 0) | (left[1] == node.hessian):
        return False
    _offer(problem, node, feature, rank, left, (np.int64(0), np.int64(1), MISSING_UNSEEN), NAN)
    return True


@inlined
def draw_threshold(center, key, feature, low, high):
    """Uniform between the centres of two bins."""
    u = threshold_draw(key, np.uint64(feature))
    return center[feature, low] * (1.0 - u) + center[feature, high] * u


@inlined
def last_bin_below(center, feature, low, high, draw):
    """The last bin in [low, high - 1] whose centre is at most the draw."""
    first, last = low, high - 1
    while first < last:
        middle = (first + last + 1) >> 1
        reached = center[feature, middle] <= draw
        first, last = (middle if reached else first), (last if reached else middle - 1)
    return first


@inlined
def draw_bin(center, key, feature, low, high):
    """The random threshold between bins ``low`` < ``high``, and the last bin below it."""
    draw = draw_threshold(center, key, feature, low, high)
    return draw, last_bin_below(center, feature, low, high, draw)


@inlined
def gather_codes(codes, feature, rows, gathered):
    """Codes of one feature for the rows of a node, side by side."""
    for i in range(rows.size):
        gathered[i] = codes[feature, rows[i]]


@inlined
def code_range(gathered, n):
    """Smallest and largest of the first ``n`` codes."""
    low, high = np.uint8(255), np.uint8(0)
    for i in range(n):
        low, high = min(low, gathered[i]), max(high, gathered[i])
    return np.int64(low), np.int64(high)


@inlined
def weighted_code_range(gathered, words, missing_code, packing):
    """The same of rows that have weight and a value, and whether one with weight has none."""
    low, high, is_seen = np.int64(256), np.int64(-1), False
    for i in range(words.size):
        code, weighs = np.int64(gathered[i]), hessian_of(words[i], packing) > 0
        if code == missing_code:
            is_seen |= weighs
        elif weighs:
            low, high = min(low, code), max(high, code)
    return low, high, is_seen


@inlined
def sums_of_codes(gathered, words, low, high, packing, block):
    """Gradient, hessian and count of rows with codes from ``low`` to ``high``."""
    gradient, hessian, count = np.int64(0), np.int64(0), np.int64(0)
    start, first, last = np.int64(0), np.uint8(low), np.uint8(high)
    while start < words.size:
        stop = min(start + block, words.size)
        total = np.int64(0)
        for i in range(np.uint64(start), np.uint64(stop)):
            total += words[i] & -np.int64((gathered[i] >= first) & (gathered[i] <= last))
        gradient += gradient_of(total, packing)
        hessian += hessian_of(total, packing)
        count += count_of(total, packing)
        start = stop
    return gradient, hessian, count


@helper
def evaluate_random(problem, members, feature, rank):
    """A random threshold between the node's lowest and highest occupied bin."""
    matrix, packing, scratch = problem.matrix, problem.packing, problem.scratch
    node, rows, words = members.node, members.row, members.word
    gathered, missing_code = scratch.codes, matrix.missing_code
    gather_codes(matrix.codes, feature, rows, gathered)
    is_seen = False
    if matrix.has_missing[feature] | problem.limits.has_weightless:
        low, high, is_seen = weighted_code_range(gathered, words, missing_code, packing)
    else:
        low, high = code_range(gathered, rows.size)
    if (high < 0) | ((low == high) & (not is_seen)):
        return False
    drawn_left = missing_goes_left(node.key, np.uint64(feature)) == np.uint64(1)
    if (low == high) & drawn_left:  # everything would go left
        return True
    draw, code, following = NAN, low, np.int64(ONLY_MISSING_RIGHT)
    if low < high:
        draw, code = draw_bin(matrix.center, node.key, feature, low, high)
        following = code + 1
    block = packing.block if members.is_wide else rows.size
    left = sums_of_codes(gathered, words, 0, code, packing, block)
    goes = MISSING_RIGHT if is_seen else MISSING_UNSEEN
    if is_seen and drawn_left:
        missing = sums_of_codes(gathered, words, missing_code, missing_code, packing, block)
        left = (left[0] + missing[0], left[1] + missing[1], left[2] + missing[2])
        goes = MISSING_LEFT
    _offer(problem, node, feature, rank, left, (code, following, goes), draw)
    return True


@inlined
def is_few(problem, members, feature):
    """Whether a random threshold may take the way for few rows with nothing missing."""
    few = (members.row.size <= FEW_ROWS) & (not members.is_wide)
    return few & (not problem.matrix.has_missing[feature]) & (not problem.limits.has_weightless)


@inlined
def evaluate_random_to_few(problem, members, feature, rank):
    """`evaluate_random` without looking for the bin: centres of the rows' own bins are compared."""
    matrix, packing, gathered = problem.matrix, problem.packing, problem.scratch.codes
    rows, words, low, high = members.row, members.word, np.uint8(255), np.uint8(0)
    for i in range(rows.size):
        code = matrix.codes[feature, rows[i]]
        gathered[i], low, high = code, min(low, code), max(high, code)
    if low == high:
        return False
    draw = draw_threshold(matrix.center, members.node.key, feature, low, high)
    total = np.int64(0)
    for i in range(rows.size):
        code = gathered[i]
        goes_left = (matrix.center[feature, code] <= draw) & (code < high) | (code == low)
        total += words[i] & -np.int64(goes_left)
    left = (gradient_of(total, packing), hessian_of(total, packing), count_of(total, packing))
    split = problem.scratch.split[0]
    if not is_allowed(problem.limits, members.node, left[1], left[2]):
        return True
    score = split_score(problem, members.node, feature, left[0], left[1])
    if is_better(split, score, rank):
        set_best(split, score, rank, feature, left[0], left[1])
        split.draw, split.bin, split.next_bin, split.is_range = draw, low, high, 1
        split.missing = MISSING_UNSEEN
    return True


@inlined
def find_bin(center, split):
    """Find the bin of the winner, where only its draw is known."""
    if split.is_range:
        split.bin = last_bin_below(center, split.feature, split.bin, split.next_bin, split.draw)
        split.next_bin = split.bin + 1


@inlined
def _offer(problem, node, feature, rank, left, bins, draw):
    """One candidate: sums on the left, and (bin, next_bin, missing)."""
    if not is_allowed(problem.limits, node, left[1], left[2]):
        return
    score = split_score(problem, node, feature, left[0], left[1])
    split = problem.scratch.split[0]
    if is_better(split, score, rank):
        set_best(split, score, rank, feature, left[0], left[1])
        split.bin, split.next_bin, split.missing = bins
        split.draw = draw


@inlined
def find_pair_split(problem, members):
    """The split of a node of two rows, or False where the shortcut does not hold.

    All features that tell the rows apart give the same partition and, where the arithmetic is
    exact, the same gain: the first in the node's order is the winner. (Not with NEWTON, where it
    may matter which side is left.)
    """
    matrix, limits, packing, scratch = (
        problem.matrix,
        problem.limits,
        problem.packing,
        problem.scratch,
    )
    node, rows, words = members.node, members.row, members.word
    first, second = hessian_of(words[0], packing), hessian_of(words[1], packing)
    magnitude = abs(gradient_of(words[0], packing)) + abs(gradient_of(words[1], packing))
    if (min(first, second) == 0) | (magnitude >= EXACT // node.hessian) | matrix.any_categorical:
        return False
    if (limits.criterion == NEWTON) | (not limits.hashed_order) | is_choosy(problem):
        return False
    if min(first, second) < limits.min_hessian:
        return True
    split, best = scratch.split[0], LAST_RANK
    for p in range(problem.features.size):
        feature = np.uint64(problem.features[p])
        if matrix.codes[feature, rows[0]] != matrix.codes[feature, rows[1]]:
            best = min(best, signed_rank(node.key, feature))
    if best == LAST_RANK:
        return True
    feature = best & np.int64(0xFFFFFFFF)
    codes = np.int64(matrix.codes[feature, rows[0]]), np.int64(matrix.codes[feature, rows[1]])
    low, high = min(codes[0], codes[1]), max(codes[0], codes[1])
    is_missing = matrix.has_missing[feature] & (high == matrix.missing_code)
    if limits.random_thresholds & is_missing:  # the drawn direction may leave a side empty
        return False
    word = words[0] if codes[0] == low else words[1]
    gradient, hessian = gradient_of(word, packing), hessian_of(word, packing)
    score = split_score(problem, node, np.int64(feature), gradient, hessian)
    set_best(split, score, best, feature, gradient, hessian)
    split.bin, split.next_bin, split.missing = low, high, MISSING_UNSEEN
    if is_missing:
        split.next_bin, split.missing = ONLY_MISSING_RIGHT, MISSING_RIGHT
    elif limits.random_thresholds:
        split.draw, split.bin = draw_bin(matrix.center, node.key, feature, low, high)
        split.next_bin = split.bin + 1
    return True
