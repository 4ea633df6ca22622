"""Exact weighted quantiles without sorting: Hoare's selection, with weights in place of counts.

Partitions around pivots narrow the range of the quantile.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined

_MULTIPLIER, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)  # of a hash (Knuth, 6.4)


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
def select(values, weights, cut, before):
    """The smallest value whose cumulative weight is at least ``cut``, and the next larger value.

    If the cumulative weight exceeds ``cut``, or no larger value has positive weight, the second
    value equals the first. Values of weight 0 are skipped. Values and weights are reordered. The
    first value is always in the remaining range [low, high). ``before`` is the weight of all values
    below this range (at first, of values that were not copied), and ``beyond`` is the smallest
    value of positive weight above it, NaN if there is none.
    """
    low, high, beyond = 0, values.size, np.nan
    while low < high:
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
    return np.nan, np.nan  # never, if the weights reach ``cut``
