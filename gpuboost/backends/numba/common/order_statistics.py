"""Exact weighted quantiles of a group of rows, without sorting their values.

Of a large group, only the values between two values of a sample, which most likely enclose the
quantile, are copied (Floyd and Rivest: Expected time bounds for selection, 1975); if these do not
enclose it, all are. Then partitions around pivots narrow the range of the quantile
(Hoare's selection, with weights in place of counts).
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined

SAMPLE = 256  # rows of the sample that locates the quantile of a large group
# Smallest number of rows of a group that is sampled. Without sampling, boosting of 100k x 28 with
# absolute_error takes 6% longer.
MIN_SAMPLED = 8 * SAMPLE
GAPS = (132, 57, 23, 10, 4, 1)  # gaps of Shell's sort (Ciura, 2001)
_MULTIPLIER, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)  # of a hash (Knuth, 6.4)
DEVIATIONS = 3.5  # standard deviations from the sample's quantile to each of the two values


@inlined
def weight_of(weights, row):
    """Weight of a row; all weights are 1 if there are none."""
    return weights[row] if weights.size else np.int64(1)


@inlined
def _pivot(values, low, high):
    """Median of three values of [low, high).

    Their places are hashed, so that no usual order of the values makes every pivot an extreme one.
    """
    word, n = np.uint64(low) * _MULTIPLIER + np.uint64(high), np.uint64(high - low)
    a = values[low + np.int64(((word * _MULTIPLIER) >> _HALF) % n)]
    b = values[low + np.int64((((word + np.uint64(1)) * _MULTIPLIER) >> _HALF) % n)]
    c = values[low + np.int64((((word + np.uint64(2)) * _MULTIPLIER) >> _HALF) % n)]
    return max(min(a, b), min(max(a, b), c))


@inlined
def _part(values, weights, low, high, pivot, with_equal):
    """Move values below the pivot, and those equal to it if ``with_equal``, to the front.

    ::

        low       end            i
         | < pivot | >= pivot | ? | ?  high

    Value i changes places with the one at ``end`` in any case, so the loop has no branches. Returns
    ``end``, and the weights of the values below the pivot and equal to it.
    """
    end, lighter, same = low, np.int64(0), np.int64(0)
    for i in range(low, high):
        value, weight = values[i], weights[i]
        values[i], weights[i] = values[end], weights[end]
        values[end], weights[end] = value, weight
        lighter += weight if value < pivot else 0
        same += weight if value == pivot else 0
        end += np.int64(value <= pivot if with_equal else value < pivot)
    return end, lighter, same


@helper
def _smallest(values, weights, low, high):
    """Smallest value of positive weight in [low, high); NaN if there is none."""
    found = np.nan
    for i in range(low, high):
        if weights[i] > 0 and not found <= values[i]:
            found = values[i]
    return found


@helper
def _select(values, weights, cut, before):
    """The smallest value whose cumulative weight is at least ``cut``, and the next larger value.

    If the cumulative weight exceeds ``cut``, or no larger value has positive weight, the second
    value equals the first. Values of weight 0 are skipped. Values and weights are reordered. The
    first value is always in the remaining range [low, high). ``before`` is the weight of all values
    below this range (at first, of values that were not copied), and ``beyond`` is the smallest
    value of positive weight above it, NaN if there is none.
    """
    low, high, beyond = 0, values.size, np.nan
    while True:
        pivot = _pivot(values, low, high)
        below, lighter, same = _part(values, weights, low, high, pivot, False)
        reached = np.float64(before + lighter + same)
        if reached < cut:
            before += lighter + same
            low = _part(values, weights, below, high, pivot, True)[0]
            continue
        if np.float64(before + lighter) < cut:
            if reached > cut:
                return pivot, pivot
            above = _part(values, weights, below, high, pivot, True)[0]
            minimum = _smallest(values, weights, above, high)
            minimum = beyond if np.isnan(minimum) else minimum
            return pivot, pivot if np.isnan(minimum) else minimum
        minimum = pivot if same > 0 else _smallest(values, weights, below, high)
        beyond = beyond if np.isnan(minimum) else minimum
        high = below


@inlined
def _sort(values, weights, n):
    """Sort the first ``n`` values together with their weights, in place (Shell's sort)."""
    for gap in GAPS:
        for i in range(gap, n):
            value, weight, at = values[i], weights[i], i
            while at >= gap and values[at - gap] > value:
                values[at], weights[at] = values[at - gap], weights[at - gap]
                at -= gap
            values[at], weights[at] = value, weight


@helper
def _bounds(values, weights, rows, in_order, quantile_level, own, own_weights):
    """Two values, possibly infinite, that most likely enclose the quantile of the rows.

    ``own`` and ``own_weights`` are buffers, whose first `SAMPLE` elements are overwritten.
    """
    step = rows.size // SAMPLE
    total, squares = 0.0, 0.0
    for i in range(SAMPLE):
        at = i * step
        own[i] = values[at if in_order else rows[at]]
        own_weights[i] = weight_of(weights, rows[at])
        weight = np.float64(own_weights[i])
        total += weight
        squares += weight * weight
    _sort(own, own_weights, SAMPLE)
    spread = DEVIATIONS * np.sqrt(quantile_level * (1.0 - quantile_level) * squares)
    low, high = quantile_level * total - spread, quantile_level * total + spread
    lowest, highest, reached = -np.inf, np.inf, 0.0
    for i in range(SAMPLE):
        before, reached = reached, reached + np.float64(own_weights[i])
        if before < low <= reached:
            lowest = own[i]
        if before < high <= reached and high < total:
            highest = own[i]
    return lowest, highest


@inlined
def _copy_between(values, weights, rows, in_order, bounds, own, own_weights):
    """Copy values and weights of rows between two bounds; return their number and three weights.

    The weights are those of the rows below both bounds, of the rows between them (or at one of
    them), and of all rows.
    """
    n = 0
    below, between, total = np.int64(0), np.int64(0), np.int64(0)
    for j in range(rows.size):
        value, weight = values[j if in_order else rows[j]], weight_of(weights, rows[j])
        is_between = (value >= bounds[0]) & (value <= bounds[1])
        own[n], own_weights[n] = value, weight
        n += 1 if is_between else 0
        total += weight
        below += weight if value < bounds[0] else 0
        between += weight if is_between else 0
    return n, below, between, total


@helper
def group_bounds(values, weights, rows, in_order, quantile_level, own, own_weights):
    """The two values whose midpoint is the quantile of one group; both 0 if its weight is 0.

    ``values`` are those of the group in the order of its ``rows`` if ``in_order``, and those of all
    rows otherwise. ``own`` (float64) and ``own_weights`` (int64) are buffers with at least the
    group's size.
    """
    if rows.size >= MIN_SAMPLED:
        bounds = _bounds(values, weights, rows, in_order, quantile_level, own, own_weights)
        n, below, between, total = _copy_between(
            values, weights, rows, in_order, bounds, own, own_weights
        )
        cut = quantile_level * np.float64(total)
        if np.float64(below) < cut and cut < np.float64(below + between):
            return _select(own[:n], own_weights[:n], cut, below)
    bounds = -np.inf, np.inf
    n, below, _, total = _copy_between(values, weights, rows, in_order, bounds, own, own_weights)
    if total == 0:
        return 0.0, 0.0
    return _select(own[:n], own_weights[:n], quantile_level * np.float64(total), below)
