"""Exact quantiles of a column, with integer weights; the order of the rows does not matter.

`weighted_rows` takes arrays of any array module. In `limit_heavy` and `quantile_cuts`, a value is a
distinct value of the column, or a cell (see `data.radix_cells`).

The quantiles do not depend on the unit of the weights, which is a power of two, so rows repeated k
times and rows of weight k have the same quantiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuboost.engine.array_modules import array_module

# Cumulative weights are below 2**QUANTILE_WEIGHT_BITS, numbers of shares below 2**_SHARE_BITS, and
# their products fit in int64.
QUANTILE_WEIGHT_BITS = 46
_SHARE_BITS = 16

Floats = NDArray[np.floating[Any]]


def weighted_rows(weights: Floats) -> tuple[NDArray[np.intp] | None, NDArray[np.int64] | None]:
    """Indices of the rows of positive weight, and their integer weights.

    The indices are None if all weights are positive, the integer weights None if all positive
    weights are equal.

    The unit is a power of two that depends only on the largest weight and the number of rows of
    positive weight, so sums are exact, independent of order and below 2**QUANTILE_WEIGHT_BITS. No
    positive weight rounds to 0.
    """
    xp = array_module(weights)
    rows = xp.flatnonzero(weights > 0)
    positive = weights.astype(np.float64, copy=False)[rows]
    kept = None if len(rows) == len(weights) else rows
    largest = float(positive.max())
    if float(positive.min()) == largest:
        return kept, None
    exponent = QUANTILE_WEIGHT_BITS - int(np.frexp(largest)[1]) - len(rows).bit_length()
    scaled = xp.rint(xp.ldexp(positive, np.int32(exponent)))
    return kept, xp.maximum(scaled, 1.0).astype(np.int64)


def distinct_values(
    column: Floats, counts: NDArray[np.int64] | None
) -> tuple[Floats, NDArray[np.int64]]:
    """Distinct values of a column, ascending, and the weight of all rows up to each value.

    NaN is left out. Without ``counts``, each row has weight 1, and ``column`` is sorted in place.
    """
    if counts is None:
        column.sort()  # NaN last
        return distinct_sorted(column)
    order = np.argsort(column)
    values, ends = distinct_sorted(column[order])
    return values, np.cumsum(counts[order])[ends - 1]


def distinct_sorted(column: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Distinct values of a sorted column, and the number of rows up to each; NaN is left out."""
    column = column[: np.count_nonzero(column == column)]
    is_last = np.ones(len(column), dtype=bool)
    np.not_equal(column[1:], column[:-1], out=is_last[:-1])
    last = np.flatnonzero(is_last)
    values = column[last]
    last += 1
    return values, last


def limit_heavy(cumulative: NDArray[np.int64], max_bins: int) -> NDArray[np.int64]:
    """Limit heavy values, which get their own bins, to `2 / max_bins` of the limited total weight.

    Returns the cumulative weights after limiting. If h heavy values have the limited weight c each
    and the other values have the total weight L, then `c = 2 (L + h c) / max_bins`, so
    `c = 2 L / (max_bins - 2 h)`. h is the smallest number for which every other value weighs at
    most c.
    """
    counts, total = np.empty_like(cumulative), int(cumulative[-1])
    counts[0] = cumulative[0]
    np.subtract(cumulative[1:], cumulative[:-1], out=counts[1:])
    if int(counts.max()) * max_bins <= 2 * total:
        return cumulative
    # Use all bits: the limited weight is then the same for k rows and for one row of weight k.
    shift = max(0, QUANTILE_WEIGHT_BITS - total.bit_length())
    counts, total = counts << shift, total << shift
    n_largest = (max_bins - 1) // 2 + 1
    largest = np.sort(np.partition(counts, len(counts) - n_largest)[-n_largest:])[::-1]
    rest = total - np.append(0, np.cumsum(largest[:-1]))
    shares = max_bins - 2 * np.arange(n_largest)
    n_heavy = int(np.argmax(largest * shares <= 2 * rest))
    limit = -(-2 * int(rest[n_heavy]) // int(shares[n_heavy]))
    return np.cumsum(np.minimum(counts, limit))


def quantile_cuts(
    cumulative: NDArray[np.int64], max_bins: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of the first values of all bins but the first, for as many bins as possible.

    Cutting the total weight into `max_bins` equal shares gives at most `max_bins` bins, but fewer
    if several boundaries fall into one value. The number of shares is then increased in steps that
    double, followed by bisection, until there are `max_bins` bins or one more share would give more
    than that. It stays below 2**_SHARE_BITS.

    Returns
    -------
    tuple of ndarray
        The cuts, and the values that decide them: a boundary of one of the numbers of shares that
        were tried falls into each.
    """
    cuts, inside = _cuts_of_shares(cumulative, max_bins)
    enough, too_many = max_bins, 1 << _SHARE_BITS
    step, deciding = 1, [inside]
    while len(cuts) + 1 < max_bins and too_many - enough > 1:
        n_shares = min(enough + step, (enough + too_many) // 2)
        trial, inside = _cuts_of_shares(cumulative, n_shares)
        deciding.append(inside)
        if len(trial) + 1 <= max_bins:
            enough, cuts, step = n_shares, trial, 2 * step
        else:
            too_many = n_shares
    return cuts, np.concatenate(deciding)


def _cuts_of_shares(
    cumulative: NDArray[np.int64], n_shares: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of the values that start a new bin, from the boundaries between shares of the weight.

    The first boundary inside a value cuts before the value, a second boundary cuts after it::

        values       |  a |  b  | c |       d        | e | f |
        boundaries          ^             ^     ^          ^
        cuts              |         |                |   |

    So a bin of several values contains at most one boundary, in its first value, and weighs less
    than two shares. The first value starts a bin anyway, so the first boundary inside it already
    cuts after it. The value that each boundary falls into is returned, too.
    """
    total = int(cumulative[-1])
    boundaries = np.arange(1, n_shares) * total // n_shares
    inside = np.searchsorted(cumulative, boundaries, side="right")
    twice = inside[1:][inside[1:] == inside[:-1]]
    is_cut = np.zeros(len(cumulative) + 1, dtype=bool)
    is_cut[np.maximum(inside, 1)] = is_cut[twice + 1] = True
    return np.flatnonzero(is_cut[:-1]), inside
