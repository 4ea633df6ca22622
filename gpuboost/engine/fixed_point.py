"""Conversion of targets and weights to the integers that trees are grown on.

Sums of integers do not depend on their order, which is why all backends produce the same model.
There are two kinds of integers. *Split statistics* (`ValueTarget.values`, `TreeRows.weight`) are
narrow and fast; their rounding can only decide between nearly equal splits. Targets that differ by
less than about 2**-28 of their range count as equal (so if one outlier is 1e9 times the rest, the
rest is one leaf), except in trees of medians, which use ranks. With many rows, or large or
real-valued weights, there can be fewer bits, so that sums fit (`quantise`). *Leaf sums* (``wide``)
are fixed-point numbers in two planes, each of about 62 - log2(n) bits, which give leaf values to
about the precision of float64, whatever the range of targets and weights.

Arrays with one entry per row stay on their device; arrays with one entry per column are on the
host. Floating-point operations are elementwise, except for maxima and minima, so all devices
compute the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpuboost.engine.array_modules import array_module, copy_to_host

WEIGHT_BITS = 16  # bits of the largest rounded weight; integer weights up to 2**16 are exact
# If real-valued weights span a wide range, the largest has more bits, so that the mean has
# MEAN_BITS; but at most CLASS_WEIGHT_BITS in a classification, VALUE_WEIGHT_BITS in a regression.
MEAN_BITS = 12
CLASS_WEIGHT_BITS, VALUE_WEIGHT_BITS = 28, 20
SUM_BITS = 62  # no sum of a fit reaches 2**63


@dataclass(frozen=True)
class WeightFacts:
    """The facts about the weights of a fit that a target depends on.

    Attributes
    ----------
    total, largest : float
        Upper bounds of the sum of a tree's integer weights, and of each integer weight.
    real : float64 (n,) or None
        Real-valued weights for leaf values, below 1; None if leaf values use integer weights or
        each tree has its own `TreeRows.wide`.
    inside : bool (n,) or None
        Mask of the rows that can be in a tree; None means all rows.
    """

    total: float
    largest: float
    real: np.ndarray | None = None
    inside: np.ndarray | None = None


def sum_bits(total: float) -> int:
    """Smallest b >= 0 with ``total`` <= 2**b."""
    mantissa, exponent = np.frexp(max(float(total), 1.0))
    return int(exponent) - int(mantissa == 0.5)


def exponent_of(x: np.ndarray) -> np.ndarray:
    """Per column, the smallest e with max abs(x) < 2**e (0 for a column of zeros)."""
    largest = np.zeros(x.shape[1:])
    if len(x):
        largest = np.maximum(copy_to_host(x.max(axis=0)), -copy_to_host(x.min(axis=0)))
    return np.where(largest > 0, np.frexp(largest)[1], 0).astype(np.int64)


def scale_by_power(x: np.ndarray, exponent: np.ndarray | int) -> np.ndarray:
    """``x * 2**exponent`` on the device of ``x``, with one exponent for all columns or for each."""
    xp = array_module(x)
    if np.ndim(exponent) == 0:
        return xp.ldexp(x, np.int32(exponent))
    return xp.ldexp(x, xp.asarray(np.asarray(exponent, dtype=np.int32)))


def two_planes(x: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Fixed-point form of the columns of ``x``.

    Parameters
    ----------
    x : float64 (n, K)
    bits : int
        Bits of an entry of one plane, so that sums of n entries fit in int64.

    Returns
    -------
    planes : int64 (n, 2 K), on the device of ``x``
        Column 2k holds the leading bits of column k, column 2k + 1 the remaining bits.
    exponents : int64 (2 K,)
        x[:, k] is, after rounding, the sum of planes[:, i] * 2**-exponents[i] for i = 2k, 2k + 1.
    """
    xp, high_exponent = array_module(x), bits - exponent_of(x)
    scaled = scale_by_power(x, high_exponent)
    high = xp.rint(scaled)
    low = xp.rint(scale_by_power(scaled - high, bits))
    planes = xp.empty((len(x), 2 * x.shape[1]), dtype=np.int64)
    planes[:, 0::2], planes[:, 1::2] = high.astype(np.int64), low.astype(np.int64)
    exponents = np.empty(2 * x.shape[1], dtype=np.int64)
    exponents[0::2], exponents[1::2] = high_exponent, high_exponent + bits
    return planes, exponents


def planes_to_float(sums: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Sums of `two_planes` (..., 2 K) as float64 (..., K)."""
    parts = np.ldexp(sums.astype(np.float64), -exponents)
    return parts[..., 0::2] + parts[..., 1::2]


def exact_mean(y: np.ndarray) -> np.ndarray:
    """Mean of each column of ``y`` (n, K), from an integer sum, so it does not depend on the order.

    Entries much smaller than the largest of their column are rounded before they are added.
    """
    exponent = SUM_BITS - sum_bits(len(y)) - exponent_of(y)
    total = array_module(y).rint(scale_by_power(y, exponent)).astype(np.int64).sum(axis=0)
    return np.ldexp(copy_to_host(total) / len(y), -exponent)


def total_of(x: np.ndarray) -> float:
    """Sum of ``x`` (n,), independent of the order and nearly exact.

    Entries much smaller than the largest one are rounded before they are added.
    """
    planes, exponents = two_planes(x[:, None], SUM_BITS - sum_bits(len(x)))
    high, low = copy_to_host(planes.sum(axis=0)).tolist()
    whole = (high << int(exponents[1] - exponents[0])) + low
    return float(whole * Fraction(2) ** -int(exponents[1]))
