"""From targets and weights to the integers that trees are grown on.

Sums of integers do not depend on their order, which is why every backend finds the same model.
Two kinds of integers are made. *Split statistics* (`Target.values`, `TreeRows.weight`) are narrow
and fast: rounding them decides between nearly equal splits. Targets closer than 2**-28 of their
range count as equal (so beside an outlier of 1e9 times the rest, the rest is one leaf); with many
rows or with real weights bits are fewer, so that sums fit (see `_value_bits`). *Leaf sums*
(``wide``) are fixed-point numbers of about 62 - log2(n) bits in two planes, which give a leaf its
value to about the precision of float64, whatever the range of targets and weights.

Arrays as long as the data stay where they are, on the host or on a GPU; what is one number per
column lies on the host. Floating point here is one operation an element, and its only reductions
are largest and smallest, so all devices find the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpuboost.engine.modules import array_module, copy_to_host
from gpuboost.engine.numerics import log
from gpuboost.engine.scores import POISSON, SQUARES
from gpuboost.engine.spec import Target

VALUE_BITS = 28  # a target, centred; with weights of 17 bits, weight * value and weight fit 62
WEIGHT_BITS = 16  # a weight; integer weights up to 2**16 are exact
MEAN_BITS = 12  # of the mean weight, where real weights span a wide range
CLASS_WEIGHT_BITS, VALUE_WEIGHT_BITS = 28, 20  # the most of a weight then; values have what is left
SUM_BITS = 62  # no sum of a fit reaches 2**63
EXACT_BITS = 53  # sums of targets below 2**53 are float64 values, so equal means gain exactly 0
MOST_SUM = 2.0**1000  # of targets that are not centred, with room for their weights
LEAST_VALUE_BITS = 12  # of a target, even where sums may then pass EXACT_BITS


@dataclass(frozen=True)
class WeightFacts:
    """What a target must know of the weights of a fit, on the host or where they are.

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
    largest = np.zeros(x.shape[1:])
    if len(x):
        largest = np.maximum(copy_to_host(x.max(axis=0)), -copy_to_host(x.min(axis=0)))
    return np.where(largest > 0, np.frexp(largest)[1], 0).astype(np.int64)


def scale_by_power(x: np.ndarray, exponent: np.ndarray | int) -> np.ndarray:
    """``x * 2**exponent``, where ``x`` is; one exponent, or one for each column."""
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
        Bits of one entry, so that sums of n entries fit in int64.

    Returns
    -------
    planes : int64 (n, 2 K), where ``x`` is
        Column 2k holds the leading bits of column k, column 2k + 1 what they leave.
    exponents : int64 (2 K,)
        x[:, k] = planes[:, 2k] * 2**-exponents[2k] + planes[:, 2k+1] * 2**-exponents[2k+1]
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
    """Mean of each column of ``y`` (n, K) by an integer sum, so in no particular order."""
    exponent = SUM_BITS - sum_bits(len(y)) - exponent_of(y)
    total = array_module(y).rint(scale_by_power(y, exponent)).astype(np.int64).sum(axis=0)
    return np.ldexp(copy_to_host(total) / len(y), -exponent)


def total_of(x: np.ndarray) -> float:
    """Sum of ``x`` (n,) in no particular order, to the last bit or nearly so.

    Entries that are smaller by far than the largest are rounded before they are added.
    """
    planes, exponents = two_planes(x[:, None], SUM_BITS - sum_bits(len(x)))
    high, low = copy_to_host(planes.sum(axis=0)).tolist()
    whole = (high << int(exponents[1] - exponents[0])) + low
    return float(whole * Fraction(2) ** -int(exponents[1]))


def class_target(classes: np.ndarray, n_classes: int, facts: WeightFacts) -> Target:
    """Target of a classification, where the classes and weights are.

    Parameters
    ----------
    classes : int32 (n,)
        Codes 0 to ``n_classes`` - 1.
    """
    wide, exponents = None, np.zeros(0, np.int64)
    if facts.real is not None:
        wide, exponents = two_planes(facts.real[:, None], SUM_BITS - sum_bits(len(facts.real)))
    classes = classes.astype(np.int32, copy=False)
    return Target(classes, None, n_classes, 1, wide, exponents)


def value_target(y: np.ndarray, facts: WeightFacts, score: int = SQUARES) -> Target:
    """Target of a regression, where the values and weights are.

    Parameters
    ----------
    y : float64 (n, K)
        Rows that are in no tree do not matter, whatever they hold. With POISSON none is negative.
    score : int
        What splits are scored with. POISSON asks for sums of ``y`` itself, so it is not centred:
        0 stays 0, and what is positive stays positive.
    """
    counts = score == POISSON
    centred, mean = _of_trees(y, facts.inside) if counts else centre_targets(y, facts.inside)
    # One scale for all outputs, so that their gains may be added; squares are of targets in
    # [-1, 1], because those of huge or tiny ones would leave the range of float64.
    unit = int(exponent_of(centred).max())
    xp, bits = array_module(y), _value_bits(facts)
    values = xp.rint(scale_by_power(centred, bits - unit)).astype(np.int32)
    if counts:
        values = xp.maximum(values, (centred > 0.0).astype(np.int32))
    sum_of = _sum_of_y_log_y if counts else _sum_of_squares
    columns = xp.concatenate([centred, sum_of(scale_by_power(centred, -unit))], axis=1)
    multiplicity = float(len(y))
    if facts.real is None:
        multiplicity = max(facts.total, multiplicity)
    else:
        real = facts.real[:, None]
        columns = xp.concatenate([columns * real, real], axis=1)
    wide, exponents = two_planes(columns, SUM_BITS - sum_bits(multiplicity))
    return Target(None, values, 0, y.shape[1], wide, exponents, mean, bits - unit, unit)


def _sum_of_squares(x: np.ndarray) -> np.ndarray:
    """Of each row, from the first column to the last: float64 (n, 1)."""
    total = x[:, :1] * x[:, :1]
    for k in range(1, x.shape[1]):
        total = total + x[:, k : k + 1] * x[:, k : k + 1]
    return total


def _sum_of_y_log_y(x: np.ndarray) -> np.ndarray:
    """Of each row, from the first column to the last; x in [0, 1]: float64 (n, 1), where x is.

    The host makes it, whose logarithm is the one of all devices. What is so small that the sums of
    a fit do not know it counts as 0.
    """
    host = copy_to_host(x)
    known = np.where(host > 2.0**-1000, host, 1.0)
    terms = known * log(known)
    total = terms[:, :1]
    for k in range(1, terms.shape[1]):
        total = total + terms[:, k : k + 1]
    return array_module(x).asarray(total)


def _of_trees(y: np.ndarray, inside: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Targets as they are, 0 for rows that are in no tree; and what they are centred on, 0."""
    kept = y if inside is None else array_module(y).where(inside[:, None], y, 0.0)
    largest = float(kept.max())
    if largest * len(kept) > MOST_SUM:
        raise ValueError(
            f"the sum of y could be more than float64 can hold: its largest value is {largest:g}, "
            f"of {len(kept)} rows. Scale the target down."
        )
    return kept, np.zeros(y.shape[1])


def centre_targets(y: np.ndarray, inside: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Targets less their mean, 0 for rows that are in no tree; and the mean."""
    xp, mean = array_module(y), exact_mean(y if inside is None else y[inside])
    centred = y - xp.asarray(mean)
    if inside is not None:
        centred = xp.where(inside[:, None], centred, 0.0)
    if not xp.isfinite(centred).all():
        raise ValueError(
            "y spans more than float64 can hold around its mean; its values run from "
            f"{float(y.min()):g} to {float(y.max()):g}. Scale the target down."
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
