"""From targets and weights to the integers that trees are grown on.

Sums of integers do not depend on their order, which is why every backend finds the same model.
Two kinds of integers are made. *Split statistics* (`Target.values`, `TreeRows.weight`) are narrow
and fast: rounding them decides between nearly equal splits. Targets closer than 2**-28 of their
range count as equal (so beside an outlier of 1e9 times the rest, the rest is one leaf); with many
rows or with real weights bits are fewer, so that sums fit (see `_value_bits`). *Leaf sums*
(``wide``) are fixed-point numbers of about 62 - log2(n) bits in two planes, which give a leaf its
value to about the precision of float64, whatever the range of targets and weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.engine.spec import Target

VALUE_BITS = 28  # a target, centred; with weights of 17 bits, weight * value and weight fit 62
WEIGHT_BITS = 16  # a weight; integer weights up to 2**16 are exact
MEAN_BITS = 12  # of the mean weight, where real weights span a wide range
CLASS_WEIGHT_BITS, VALUE_WEIGHT_BITS = 28, 20  # the most of a weight then; values have what is left
SUM_BITS = 62  # no sum of a fit reaches 2**63
EXACT_BITS = 53  # sums of targets below 2**53 are float64 values, so equal means gain exactly 0
LEAST_VALUE_BITS = 12  # of a target, even where sums may then pass EXACT_BITS


@dataclass(frozen=True)
class WeightFacts:
    """What a target must know of the weights of a fit.

    Attributes
    ----------
    total, largest : float
        Bounds of the sum of a tree's integer weights, and of each of them.
    real : float64 (n,) or None
        Real weights that leaf values are made of, at most 1; None if the integer weights are all
        there is.
    inside : bool (n,) or None
        Rows that may be in a tree; None: all.
    """

    total: float
    largest: float
    real: np.ndarray | None = None
    inside: np.ndarray | None = None


def sum_bits(total: float) -> int:
    """Smallest b with ``total`` <= 2**b."""
    mantissa, exponent = np.frexp(max(float(total), 1.0))
    return int(exponent) - int(mantissa == 0.5)


def exponent_of(x: np.ndarray) -> np.ndarray:
    """Per column, the smallest e with max abs(x) < 2**e (0 for a column of zeros)."""
    largest = np.max(np.abs(x), axis=0, initial=0.0)
    return np.where(largest > 0, np.frexp(largest)[1], 0).astype(np.int64)


def two_planes(x: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Fixed-point form of the columns of ``x``.

    Parameters
    ----------
    x : float64 (n, K)
    bits : int
        Bits of one entry, so that sums of n entries fit in int64.

    Returns
    -------
    planes : int64 (n, 2 K)
        Column 2k holds the leading bits of column k, column 2k + 1 what they leave.
    exponents : int64 (2 K,)
        x[:, k] = planes[:, 2k] * 2**-exponents[2k] + planes[:, 2k+1] * 2**-exponents[2k+1]
    """
    high_exponent = bits - exponent_of(x)
    scaled = np.ldexp(x, high_exponent)
    high = np.rint(scaled)
    low = np.rint(np.ldexp(scaled - high, bits))
    planes = np.empty((len(x), 2 * x.shape[1]), dtype=np.int64)
    planes[:, 0::2], planes[:, 1::2] = high, low
    exponents = np.empty(2 * x.shape[1], dtype=np.int64)
    exponents[0::2], exponents[1::2] = high_exponent, high_exponent + bits
    return planes, exponents


def planes_to_float(sums: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Sums of `two_planes` (..., 2 K) as float64 (..., K)."""
    parts = np.ldexp(sums.astype(np.float64), -exponents)
    return parts[..., 0::2] + parts[..., 1::2]


def exact_mean(y: np.ndarray) -> np.ndarray:
    """Mean of each column of ``y`` (n, K) by an integer sum, so in no particular order."""
    exponent = SUM_BITS - sum_bits(len(y)) - exponent_of(y)
    total = np.rint(np.ldexp(y, exponent)).astype(np.int64).sum(axis=0)
    return np.ldexp(total / len(y), -exponent)


def class_target(classes: np.ndarray, n_classes: int, facts: WeightFacts) -> Target:
    """Target of a classification.

    Parameters
    ----------
    classes : int32 (n,)
        Codes 0 to ``n_classes`` - 1.
    """
    wide, exponents = None, np.zeros(0, np.int64)
    if facts.real is not None:
        wide, exponents = two_planes(facts.real[:, None], SUM_BITS - sum_bits(len(facts.real)))
    return Target(classes.astype(np.int32), None, n_classes, 1, wide, exponents)


def value_target(y: np.ndarray, facts: WeightFacts) -> Target:
    """Target of a regression.

    Parameters
    ----------
    y : float64 (n, K)
        Rows that are in no tree do not matter, whatever they hold.
    """
    centred, mean = _centre(y, facts.inside)
    # One scale for all outputs, so that their gains may be added; squares are of targets in
    # [-1, 1], because those of huge or tiny ones would leave the range of float64.
    unit = int(exponent_of(centred).max())
    bits = _value_bits(facts)
    values = np.rint(np.ldexp(centred, bits - unit)).astype(np.int32)
    scaled = np.ldexp(centred, -unit)
    squares = np.zeros(len(y))
    for k in range(y.shape[1]):
        squares = squares + scaled[:, k] * scaled[:, k]
    columns = np.column_stack([centred, squares])
    multiplicity = float(len(y))
    if facts.real is None:
        multiplicity = max(facts.total, multiplicity)
    else:
        columns = np.column_stack([columns * facts.real[:, None], facts.real])
    wide, exponents = two_planes(columns, SUM_BITS - sum_bits(multiplicity))
    return Target(None, values, 0, y.shape[1], wide, exponents, mean, bits - unit, unit)


def _centre(y: np.ndarray, inside: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Targets less their mean, 0 for rows that are in no tree; and the mean."""
    mean = exact_mean(y if inside is None else y[inside])
    centred = y - mean
    if inside is not None:
        centred[~inside] = 0.0
    if not np.isfinite(centred).all():
        raise ValueError(
            "y spans more than float64 can hold around its mean; "
            f"its values run from {y.min():g} to {y.max():g}. Scale the target down."
        )
    return centred, mean


def _value_bits(facts: WeightFacts) -> int:
    """Bits of a quantised target.

    Sums stay exact in float64 where `LEAST_VALUE_BITS` allow it and weights are whole: means of
    real weights are not equal to the last bit. Weight times target and weight fit one packed word,
    and sums an int64, in any case.
    """
    sums = EXACT_BITS if facts.real is None else SUM_BITS
    exact = max(LEAST_VALUE_BITS, min(VALUE_BITS, sums - sum_bits(facts.total)))
    return max(1, min(exact, SUM_BITS - 2 * sum_bits(facts.largest + 1.0)))
