"""The best split of one feature at one node of several channels.

codes of the node's rows    two codes only, below and above a random threshold
histograms                  `_add_up`
candidates, in an order     `_list_bins`, `_take_occupied`, `order_categories`
terms, channel by channel   `_add_terms`: bins are the inner loop, sums over channels in order
gains, the best             `_best`
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import NAN, criteria, helper, inlined, trailing_zeros
from gpuboost.backends.numba.splits.categorical import add_rare, are_sorted, last_to_try, write_mask
from gpuboost.backends.numba.splits.channel_categories import order_categories, take_rare_channels
from gpuboost.backends.numba.splits.channels import (
    CHANNEL_PACKING,
    CLASS_SHIFT,
    FIELDS,
    MANY_ROWS,
    SUMMED,
    WEIGHT_MASK,
    bin_hessian,
    bin_value,
)
from gpuboost.backends.numba.splits.criteria import add_channel, score_of_sums
from gpuboost.backends.numba.splits.newton import part_term
from gpuboost.backends.numba.splits.random_thresholds import (
    draw_bin,
    gather_codes,
    weighted_code_range,
)
from gpuboost.backends.numba.splits.scan import (
    first_largest,
    is_allowed,
    is_better,
    missing_directions,
    set_best,
)
from gpuboost.engine.criteria import NEWTON, VARIANCE
from gpuboost.engine.task import MISSING_LEFT, MISSING_RIGHT, MISSING_UNSEEN, ONLY_MISSING_RIGHT

variance_term, variance_gain = criteria.variance_term, criteria.variance_gain
newton_gain = criteria.newton_gain

_ONE = np.uint64(1)
_LOW_SIX = np.uint64(63)
_NO_DRAW = (NAN, np.int64(-1), np.int64(-1))


@helper
def evaluate_channels(problem, channels, members, feature, rank):
    """Look at one feature; whether it could split the node."""
    matrix, scratch = problem.matrix, problem.scratch
    gather_codes(matrix.codes, feature, members.row, scratch.codes)
    random = problem.limits.random_thresholds and not matrix.is_categorical[feature]
    drawn = _two_sides(problem, members, feature) if random else _NO_DRAW
    if random and drawn[1] < 0:
        return False
    _add_up(problem, channels, members)
    could = _evaluate_totals(problem, channels, members.node, feature, rank, drawn)
    _clear(channels, scratch)
    return could


@helper
def _evaluate_totals(problem, channels, node, feature, rank, drawn):
    """The best split of a feature by its histograms; whether it could split."""
    scratch, is_categorical = problem.scratch, problem.matrix.is_categorical[feature]
    m = _take_occupied(problem, channels, feature, _list_bins(scratch), is_categorical)
    if m + np.int64(scratch.missing[1] > 0) < 2:
        return False
    is_drawn = problem.limits.random_thresholds and not is_categorical
    first, last, alone = 0, np.int64(1) if is_drawn else m, False
    n_rare = np.int64(0)
    if is_categorical:
        minimum = np.int64(0)
        if are_sorted(problem, feature):
            minimum = problem.limits.min_category
        if minimum > 0:
            m, n_rare = take_rare_channels(problem, channels, m)
        first, last, alone = order_categories(problem, channels, node, feature, m)
        if minimum > 0:
            last = last_to_try(scratch, last, minimum)
    _add_terms(problem, channels, node, (m, n_rare), alone)
    best = _best(problem, channels, node, feature, (first, last))
    if best[0] >= 0 and is_better(scratch.split[0], best[1], rank):
        _keep_best(problem, channels, feature, rank, best, drawn)
        if is_categorical:
            scratch.split[0].categorical = 1
            write_mask(scratch.mask, scratch.bins, scratch.order, m, best[0], alone)
            add_rare(scratch.mask, scratch.rare, n_rare, best[2] == MISSING_LEFT)
        elif not is_drawn and best[0] + 1 < m:
            scratch.split[0].next_bin = scratch.bins[best[0] + 1]
    return True


@inlined
def _two_sides(problem, members, feature):
    """Draw a threshold and let codes up to it be 0, those above it 1, missing ones stay.

    Returns the draw, its bin and the next one; bin -1 where the feature cannot split.
    """
    gathered, missing_code = problem.scratch.codes, problem.matrix.missing_code
    low, high, is_seen = weighted_code_range(gathered, members.word, missing_code, CHANNEL_PACKING)
    if (high < 0) | ((low == high) & (not is_seen)):
        return _NO_DRAW
    draw, code, following = NAN, low, np.int64(ONLY_MISSING_RIGHT)
    if low < high:
        draw, code = draw_bin(problem.matrix.center, members.node.key, feature, low, high)
        following = code + 1
    for i in range(members.row.size):
        if gathered[i] != missing_code:
            gathered[i] = 1 if gathered[i] > code else 0
    return draw, code, following


@helper
def _add_up(problem, channels, members):
    """Histograms of the node over `Scratch.codes`, and the bins touched in `Scratch.occupied`."""
    scratch, state, word = problem.scratch, channels.state, channels.word
    codes = scratch.codes
    n = members.row.size
    if channels.values.size:
        for i in range(n):
            weight = word[i] & WEIGHT_MASK
            channels.hessian[codes[i]] += weight
            weight = np.int64(1) if problem.limits.has_gradients else weight
            for k in range(channels.values.shape[1]):
                channels.totals[k, codes[i]] += weight * channels.values[members.row[i], k]
    elif state[1] == FIELDS:
        for i in range(n):
            scratch.totals[codes[i]] += word[i]
    elif state[1] == SUMMED:
        for i in range(n):
            at = np.uint64(word[i] >> CLASS_SHIFT)
            channels.totals[at, codes[i]] += word[i] & WEIGHT_MASK
    else:
        for i in range(n):
            weight = word[i] & WEIGHT_MASK
            channels.hessian[codes[i]] += weight
            channels.totals[np.uint64(word[i] >> CLASS_SHIFT), codes[i]] += weight
    if problem.limits.min_samples_leaf > 1:
        for i in range(n):
            channels.counts[codes[i]] += 1
    _mark_bins(scratch.occupied, codes, n, problem.matrix.missing_code)


@inlined
def _mark_bins(occupied, codes, n, missing_code):
    """Set the bits of the touched bins; of all bins where there are many rows."""
    if n > MANY_ROWS:
        for code in range(np.uint64(missing_code) + _ONE):
            occupied[code >> np.uint64(6)] |= _ONE << (code & _LOW_SIX)
        return
    for i in range(n):
        code = codes[i]
        occupied[code >> np.uint8(6)] |= _ONE << (np.uint64(code) & _LOW_SIX)


@inlined
def _list_bins(scratch):
    """Touched bins, ascending, in `Scratch.bins`; their number."""
    m = np.uint64(0)
    for quarter in range(4):
        left = scratch.occupied[quarter]
        while left != np.uint64(0):
            scratch.bins[m] = trailing_zeros(left) + np.uint64(64 * quarter)
            left &= left - _ONE
            m += _ONE
    return np.int64(m)


@inlined
def _clear(channels, scratch):
    """Zero the histograms at the touched bins."""
    n_channels, by_fields = channels.state[0], channels.state[1] == FIELDS
    m = _list_bins(scratch)
    for j in range(m):
        code = scratch.bins[j]
        channels.hessian[code], channels.counts[code], scratch.totals[code] = 0, 0, 0
        if not by_fields:
            for p in range(n_channels):
                channels.totals[p, code] = 0
    for quarter in range(4):
        scratch.occupied[quarter] = np.uint64(0)


@inlined
def _take_occupied(problem, channels, feature, m, is_categorical):
    """Keep occupied value bins in `Scratch.bins` and what is missing in `Scratch.missing`.

    Left sums of hessian and count run over the bins; rows without weight count with the next bin
    of a number, and stay right of a set of categories.
    """
    scratch, matrix = problem.scratch, problem.matrix
    bins, missing = scratch.bins, scratch.missing
    missing[1], missing[2] = 0, 0
    if matrix.has_missing[feature] and m > 0 and bins[m - 1] == matrix.missing_code:
        m -= 1
        missing[1] = bin_hessian(channels, scratch, matrix.missing_code)
        missing[2] = channels.counts[matrix.missing_code]
    kept, hessian, count = 0, np.int64(0), np.int64(0)
    for j in range(m):
        code = bins[j]
        here = bin_hessian(channels, scratch, code)
        if here > 0 or not is_categorical:
            count += channels.counts[code]
        if here == 0:
            continue
        hessian += here
        bins[kept] = code
        channels.left_hessian[kept], channels.left_count[kept] = hessian, count
        kept += 1
    return kept


@helper
def _add_terms(problem, channels, node, sizes, alone):
    """Terms of the score of all candidates, added up over the channels in their order.

    ``sizes``: the number of candidates, and of rare categories.
    """
    scratch, limits, missing = problem.scratch, problem.limits, problem.scratch.missing
    is_seen, (m, n_rare) = missing[1] > 0, sizes
    for part in range(3):
        for j in range(m):
            channels.right_terms[part, j], channels.left_terms[part, j] = 0.0, 0.0
    for p in range(channels.state[0]):
        running = np.int64(0)
        for j in range(m):
            here = bin_value(channels, scratch, p, scratch.bins[j])
            running = here if alone else running + here
            channels.left[j] = running
        sums = (np.float64(channels.sums[p]), np.int64(0), np.int64(0))
        _add_channel(limits, channels, channels.right_terms, node, m, sums)
        if is_seen:
            here = bin_value(channels, scratch, p, problem.matrix.missing_code)
            for j in range(n_rare):
                here += bin_value(channels, scratch, p, scratch.rare[j])
            sums = (sums[0], here, missing[1])
            _add_channel(limits, channels, channels.left_terms, node, m, sums)


@inlined
def _add_channel(limits, channels, terms, node, m, sums):
    """Add one channel's terms; ``sums``: of the node, and missing ones that go left as well."""
    left, left_hessian, criterion = channels.left, channels.left_hessian, limits.criterion
    g, h, missing = sums[0], np.float64(node.hessian), sums[1:]
    if criterion == VARIANCE:
        for j in range(m):
            gl, hl = np.float64(left[j] + missing[0]), np.float64(left_hessian[j] + missing[1])
            terms[0, j] += variance_term(gl, g, hl, h)
    elif criterion == NEWTON:
        for j in range(m):
            gl, hl = np.float64(left[j] + missing[0]), np.float64(left_hessian[j] + missing[1])
            terms[0, j] += part_term(limits, node, gl, hl)
            terms[1, j] += part_term(limits, node, g - gl, h - hl)
    else:
        add_channel(criterion, left, left_hessian, terms, m, (g, h), missing)


@inlined
def _best(problem, channels, node, feature, positions):
    """Best position of the range, its gain, and where missing values go."""
    scratch, none, last = problem.scratch, np.int64(0), positions[1]
    may_right, may_left = missing_directions(problem, node, feature)
    own = _newton_of_node(problem.limits, channels, node)
    terms = channels.right_terms
    j, score, goes = np.int64(-1), -1.0, MISSING_RIGHT
    if may_right:
        _scores(problem, channels, node, (terms, own), positions, (none, none, none))
        j = first_largest(scratch.patterns, last)
        score = scratch.scores[j] if j >= 0 else -1.0
    if may_left:
        values = node.hessian - scratch.missing[1]
        extra, terms = (scratch.missing[1], scratch.missing[2], values), channels.left_terms
        _scores(problem, channels, node, (terms, own), positions, extra)
        other = first_largest(scratch.patterns, last)
        if other >= 0:
            found = scratch.scores[other]
            if (found > score) | ((found == score) & (other < j)):
                j, score, goes = other, found, MISSING_LEFT
    return j, score, goes


@inlined
def _newton_of_node(limits, channels, node):
    """The node's own part of a NEWTON gain."""
    total, h = 0.0, np.float64(node.hessian)
    if limits.criterion == NEWTON:
        for p in range(channels.state[0]):
            total += part_term(limits, node, np.float64(channels.sums[p]), h)
    return total


@helper
def _scores(problem, channels, node, sums, positions, missing):
    """Gains of a range of positions, -1 before them and where a split is not valid.

    ``missing``: hessian and count that go left as well, and the hessian of all values; or zeros.
    """
    scores, criterion, h = (
        problem.scratch.scores,
        problem.limits.criterion,
        np.float64(node.hessian),
    )
    (terms, own), (first, last) = sums, positions
    for j in range(first):
        scores[j] = -1.0
    for j in range(first, last):
        hessian, count = channels.left_hessian[j] + missing[0], channels.left_count[j] + missing[1]
        valid = (missing[2] == 0) | (channels.left_hessian[j] < missing[2])
        valid &= is_allowed(problem.limits, node, hessian, count)
        hl = np.float64(hessian)
        if criterion == VARIANCE:
            score = variance_gain(terms[0, j], hl, h - hl)
        elif criterion == NEWTON:
            score = newton_gain(terms[0, j], terms[1, j], own) + 0.0  # never -0.0
            valid &= score >= 0.0
        else:
            score = score_of_sums(criterion, (terms[0, j], terms[1, j], terms[2, j]), hl, h)
        scores[j] = score if valid else -1.0


@inlined
def _keep_best(problem, channels, feature, rank, best, drawn):
    """Make the best candidate of the feature the best of the node."""
    scratch, hessian = problem.scratch, channels.left_hessian[best[0]]
    split, is_seen = scratch.split[0], scratch.missing[1] > 0
    if best[2] == MISSING_LEFT:
        hessian += scratch.missing[1]
    set_best(split, best[1], rank, feature, 0, hessian)
    split.missing = best[2] if is_seen else MISSING_UNSEEN
    split.bin, split.next_bin = scratch.bins[best[0]], ONLY_MISSING_RIGHT
    if problem.matrix.is_categorical[feature]:
        split.bin, split.next_bin = 0, 0
    elif drawn[1] >= 0:
        split.draw, split.bin, split.next_bin = drawn
