"""Exact weighted quantiles of a group of rows, without sorting their values.

Of a large group, only the values between two values of a sample, which most likely enclose the
quantile, are copied (Floyd and Rivest: Expected time bounds for selection, 1975); if these do not
enclose it, all are. Then three-way partitions around pivots narrow the range of the quantile
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
DEVIATIONS = 3.5  # standard deviations from the sample's quantile to each of the two values


@inlined
def _swap(values, weights, i, j):
    values[i], values[j] = values[j], values[i]
    weights[i], weights[j] = weights[j], weights[i]


@inlined
def _pivot(values, low, high):
    """Median of the first, middle and last values of [low, high)."""
    a, b, c = values[low], values[(low + high) // 2], values[high - 1]
    return max(min(a, b), min(max(a, b), c))


@inlined
def _part(values, weights, low, high, pivot):
    """Move values below the pivot to the front, and values above the pivot to the back.

    ::

        low      below      i    above
         | < pivot | = pivot |  ?  | > pivot |  high

    Returns ``below``, ``above``, the weight of the values below the pivot, and the weight of the
    values equal to it.
    """
    below, i, above = low, low, high
    lighter, same = np.int64(0), np.int64(0)
    while i < above:
        if values[i] < pivot:
            lighter += weights[i]
            _swap(values, weights, i, below)
            below += 1
            i += 1
        elif values[i] > pivot:
            above -= 1
            _swap(values, weights, i, above)
        else:
            same += weights[i]
            i += 1
    return below, above, lighter, same


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
        below, above, lighter, same = _part(values, weights, low, high, pivot)
        reached = np.float64(before + lighter + same)
        if reached < cut:
            before += lighter + same
            low = above
            continue
        if np.float64(before + lighter) < cut:
            if reached > cut:
                return pivot, pivot
            minimum = _smallest(values, weights, above, high)
            minimum = beyond if np.isnan(minimum) else minimum
            return pivot, pivot if np.isnan(minimum) else minimum
        minimum = pivot if same > 0 else _smallest(values, weights, above, high)
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


@inlined
def weight_of(weights, row):
    """Weight of a row; all weights are 1 if there are none."""
    return weights[row] if weights.size else np.int64(1)


@helper
def _bounds(values, weights, rows, quantile_level, own, own_weights):
    """Two values, possibly infinite, that most likely enclose the quantile of the rows.

    ``own`` and ``own_weights`` are buffers, whose first `SAMPLE` elements are overwritten.
    """
    step = rows.size // SAMPLE
    total, squares = 0.0, 0.0
    for i in range(SAMPLE):
        row = rows[i * step]
        own[i], own_weights[i] = values[row], weight_of(weights, row)
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
def _copy_between(values, weights, rows, bounds, own, own_weights):
    """Copy values and weights of rows between two bounds; return their number and three weights.

    The weights are those of the rows below both bounds, of the rows between them (or at one of
    them), and of all rows.
    """
    n = 0
    below, between, total = np.int64(0), np.int64(0), np.int64(0)
    for j in range(rows.size):
        value, weight = values[rows[j]], weight_of(weights, rows[j])
        is_between = (value >= bounds[0]) & (value <= bounds[1])
        own[n], own_weights[n] = value, weight
        n += 1 if is_between else 0
        total += weight
        below += weight if value < bounds[0] else 0
        between += weight if is_between else 0
    return n, below, between, total


@helper
def group_bounds(values, weights, rows, quantile_level, own, own_weights):
    """The two values whose midpoint is the quantile of one group; both 0 if its weight is 0.

    ``own`` (float64) and ``own_weights`` (int64) are buffers with at least the group's size.
    """
    if rows.size >= MIN_SAMPLED:
        bounds = _bounds(values, weights, rows, quantile_level, own, own_weights)
        n, below, between, total = _copy_between(values, weights, rows, bounds, own, own_weights)
        cut = quantile_level * np.float64(total)
        if np.float64(below) < cut and cut < np.float64(below + between):
            return _select(own[:n], own_weights[:n], cut, below)
    bounds = -np.inf, np.inf
    n, below, _, total = _copy_between(values, weights, rows, bounds, own, own_weights)
    if total == 0:
        return 0.0, 0.0
    return _select(own[:n], own_weights[:n], quantile_level * np.float64(total), below)
