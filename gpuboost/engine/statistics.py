"""From targets and weights to the integers that trees are grown on.

Sums of integers do not depend on their order, which is why every backend finds the same model.
Two kinds of integers are made. *Split statistics* (`Target.values`, `TreeRows.weight`) are narrow
and fast: rounding them only ever decides between nearly equal splits. *Leaf sums* (``wide``) are
fixed-point numbers of about 62 - log2(n) bits in two planes, which give a leaf its value to
about the precision of float64, whatever the range of targets and weights.
"""

from __future__ import annotations

import numpy as np

from gpuboost.engine.spec import Target

VALUE_BITS = 28  # a target, centred; with weights of 17 bits, weight * value and weight fit 62
WEIGHT_BITS = 16  # a weight; integer weights up to 2**16 are exact
SUM_BITS = 62  # no sum of a fit reaches 2**63


def sum_bits(total: float) -> int:
    """Smallest b with ``total`` <= 2**b."""
    return max(0, int(np.ceil(np.log2(max(float(total), 1.0)))))


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


def class_target(classes: np.ndarray, n_classes: int, weights: np.ndarray | None) -> Target:
    """Target of a classification.

    Parameters
    ----------
    classes : int32 (n,)
        Codes 0 to ``n_classes`` - 1.
    weights : float64 (n,) or None
        Real weights that leaf values are made of; None if the integer weights are all there is.
    """
    wide, exponents = None, np.zeros(0, np.int64)
    if weights is not None:
        wide, exponents = two_planes(weights[:, None], SUM_BITS - sum_bits(len(weights)))
    return Target(classes.astype(np.int32), None, n_classes, 1, wide, exponents)


def value_target(
    y: np.ndarray, weights: np.ndarray | None, weight_total: float, largest_weight: float
) -> Target:
    """Target of a regression.

    Parameters
    ----------
    y : float64 (n, K)
    weights : float64 (n,) or None
        Real weights, folded into the leaf sums; None if integer weights multiply them.
    weight_total, largest_weight : float
        Bounds of the sum of a tree's integer weights, and of each of them.
    """
    mean = exact_mean(y)
    centred = y - mean
    if not np.isfinite(centred).all():
        raise ValueError(
            "y spans more than float64 can hold around its mean; "
            f"its values run from {y.min():g} to {y.max():g}. Scale the target down."
        )
    row_bits = SUM_BITS - 2 * sum_bits(largest_weight + 1.0)
    bits = max(1, min(VALUE_BITS, SUM_BITS - sum_bits(weight_total), row_bits))
    # One scale for all outputs, so that their gains may be added; squares are of targets in
    # [-1, 1], because those of huge or tiny ones would leave the range of float64.
    unit = int(exponent_of(centred).max())
    values = np.rint(np.ldexp(centred, bits - unit)).astype(np.int32)
    scaled = np.ldexp(centred, -unit)
    squares = np.zeros(len(y))
    for k in range(y.shape[1]):
        squares = squares + scaled[:, k] * scaled[:, k]
    columns = np.column_stack([centred, squares])
    multiplicity = float(len(y))
    if weights is None:
        multiplicity = max(weight_total, multiplicity)
    else:
        columns = np.column_stack([columns * weights[:, None], weights])
    wide, exponents = two_planes(columns, SUM_BITS - sum_bits(multiplicity))
    return Target(None, values, 0, y.shape[1], wide, exponents, mean, bits - unit, unit)
