"""Conversion of targets and weights to the integers of `gpuboost.engine.targets`."""

from __future__ import annotations

import numpy as np

from gpuboost.engine.array_modules import array_module, copy_to_host
from gpuboost.engine.criteria import CRITERIA, VARIANCE
from gpuboost.engine.fixed_point import (
    SUM_BITS,
    WeightFacts,
    exact_mean,
    exponent_of,
    scale_by_power,
    sum_bits,
    two_planes,
)
from gpuboost.engine.multi_output import MultiOutputClassTarget
from gpuboost.engine.numerics import log, sum_in_order
from gpuboost.engine.order_statistics import integer_weights
from gpuboost.engine.targets import ClassTarget, MedianTarget, RegressionTarget, ValueTarget

VALUE_BITS = 28  # bits of a centred target; weight * value and a 17-bit weight fit in 62 bits
EXACT_BITS = 53  # sums of targets below 2**53 are exact in float64, so equal means have gain 0
MAX_AS_THEY_ARE = 1024  # largest integer target that need not be centred
MAX_SUM = 2.0**1000  # largest sum of targets that are not centred; leaves a margin for weights
MIN_VALUE_BITS = 12  # minimum bits (unless weights reach 2**25), even if sums exceed EXACT_BITS


def class_target(classes: np.ndarray, n_classes: int, facts: WeightFacts) -> ClassTarget:
    """Target of a classification, on the device of the classes and weights.

    Parameters
    ----------
    classes : int32 (n,)
        Codes 0 to ``n_classes`` - 1.
    """
    wide, exponents = None, np.zeros(0, np.int64)
    if facts.real is not None:
        wide, exponents = two_planes(facts.real[:, None], SUM_BITS - sum_bits(len(facts.real)))
    classes = classes.astype(np.int32, copy=False)
    return ClassTarget(classes, n_classes, wide, exponents)


def multi_output_class_target(
    classes: np.ndarray, classes_per_output: int, facts: WeightFacts
) -> MultiOutputClassTarget:
    """Target of a classification with several outputs, on the device of the classes and weights.

    Parameters
    ----------
    classes : int32 (n, n_outputs)
        Codes 0 to ``classes_per_output`` - 1.
    """
    xp, n = array_module(classes), len(classes)
    values = (classes[:, :, None] == xp.arange(classes_per_output)).reshape(n, -1)
    columns = [values.astype(np.float64), xp.zeros((n, 1))]  # no squares: impurities need none
    if facts.real is not None:
        columns.append(xp.ones((n, 1)))
    wide, exponents = _leaf_columns(xp.concatenate(columns, axis=1), facts)
    return MultiOutputClassTarget(
        values.shape[1],
        values=values.astype(np.int32),
        wide=wide,
        exponents=exponents,
        mean=np.zeros(values.shape[1]),
        square_unit=0,
        classes_per_output=classes_per_output,
    )


def regression_target(y: np.ndarray, facts: WeightFacts, criterion: int) -> RegressionTarget:
    """Target of a regression on ``y`` (n, K), on the device of the values and weights."""
    if CRITERIA[criterion].by_median:
        return median_target(y, facts)
    return value_target(y, facts, criterion)


def value_target(y: np.ndarray, facts: WeightFacts, criterion: int = VARIANCE) -> ValueTarget:
    """Target of a regression, on the device of the values and weights.

    Parameters
    ----------
    y : float64 (n, K)
        The values of rows that are in no tree are ignored. With POISSON no value is negative.
    criterion : int
        Criterion of the splits. POISSON needs sums of ``y`` itself, so ``y`` is not centred:
        0 stays 0, and positive values stay positive. Small integers are not centred either
        (`_has_exact_terms`), so equal gains are equal on any subset of the rows.
    """
    counts = CRITERIA[criterion].counts
    as_they_are = counts or _has_exact_terms(y, facts)
    centred, mean = _of_trees(y, facts.inside) if as_they_are else centre_targets(y, facts.inside)
    # All outputs have one scale, so that their gains can be added. Targets are scaled to [-1, 1]
    # before squaring, because squares of huge or tiny targets would leave the range of float64.
    unit = int(exponent_of(centred).max())
    xp, bits = array_module(y), _value_bits(facts)
    values = xp.rint(scale_by_power(centred, bits - unit)).astype(np.int32)
    if counts:
        values = xp.maximum(values, (centred > 0.0).astype(np.int32))
    scaled = scale_by_power(centred, -unit)
    terms = _y_log_y(scaled) if counts else scaled * scaled
    columns = [centred, sum_in_order(terms)[:, None]]
    if facts.real is not None:
        columns.append(xp.ones((len(y), 1)))
    wide, exponents = _leaf_columns(xp.concatenate(columns, axis=1), facts)
    scale = y.shape[1], bits - unit
    return ValueTarget(
        *scale, values=values, wide=wide, exponents=exponents, mean=mean, square_unit=unit
    )


def _has_exact_terms(y: np.ndarray, facts: WeightFacts) -> bool:
    """Whether y and the weights are integers so small that terms of VARIANCE are exact.

    These are products of a sum of targets and a sum of weights. Targets up to `MAX_AS_THEY_ARE`
    also keep impurities, differences of two squares, as accurate as centred targets do.
    """
    if facts.real is not None:
        return False
    xp = array_module(y)
    kept = y if facts.inside is None else xp.where(facts.inside[:, None], y, 0.0)
    largest = float(xp.abs(kept).max())
    is_small = largest <= MAX_AS_THEY_ARE and largest * facts.total**2 < 2.0**EXACT_BITS
    return is_small and bool((kept == xp.rint(kept)).all())


def median_target(y: np.ndarray, facts: WeightFacts) -> MedianTarget:
    """Target of a regression whose leaves are medians, on the device of the values and weights.

    Parameters
    ----------
    y : float64 (n, K)
        The values of rows that are in no tree are ignored.
    """
    xp = array_module(y)
    centred, mean = centre_targets(y, facts.inside)
    columns = xp.concatenate([centred, xp.ones((len(y), 1))], axis=1)
    wide, exponents = _leaf_columns(columns, facts)
    median_weight = None if facts.real is None else integer_weights(facts.real, len(y))
    ranks = xp.empty(y.shape, dtype=np.int32)
    distinct_targets = []
    for k in range(y.shape[1]):
        distinct, rank = xp.unique(y[:, k] + 0.0, return_inverse=True)
        ranks[:, k] = rank
        distinct_targets.append(copy_to_host(distinct))
    return MedianTarget(
        y.shape[1],
        ranks=ranks,
        distinct_targets=tuple(distinct_targets),
        wide=wide,
        exponents=exponents,
        mean=mean,
        median_weight=median_weight,
    )


def _leaf_columns(columns: np.ndarray, facts: WeightFacts) -> tuple[np.ndarray, np.ndarray]:
    """Planes for leaf sums and their exponents; columns are multiplied by real-valued weights."""
    if facts.real is None:
        return two_planes(columns, SUM_BITS - sum_bits(max(facts.total, len(columns))))
    return two_planes(columns * facts.real[:, None], SUM_BITS - sum_bits(len(columns)))


def _y_log_y(x: np.ndarray) -> np.ndarray:
    """x log x for each x in [0, 1], on the device of ``x``.

    The host computes the logarithms, so that they are the same for all devices. Values too small to
    change the sums of a fit count as 0.
    """
    host = copy_to_host(x)
    known = np.where(host > 2.0**-1000, host, 1.0)
    return array_module(x).asarray(known * log(known))


def _of_trees(y: np.ndarray, inside: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Targets as given, but 0 for rows that are in no tree, and a mean of zeros."""
    kept = y if inside is None else array_module(y).where(inside[:, None], y, 0.0)
    largest = float(kept.max())
    if largest * len(kept) > MAX_SUM:
        raise ValueError(
            f"the sum of y could be more than float64 can hold: its largest value is {largest:g}, "
            f"and there are {len(kept)} rows. Scale the target down."
        )
    return kept, np.zeros(y.shape[1])


def centre_targets(y: np.ndarray, inside: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Targets minus their mean, 0 for rows that are in no tree, and the mean."""
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

    With integer weights, sums are exact in float64 if this leaves `MIN_VALUE_BITS`.
    With real-valued weights, equal means differ in the last bit anyway. In any case, weight times
    target and weight fit in one packed word, and sums fit in an int64.
    """
    sums = EXACT_BITS if facts.real is None else SUM_BITS
    exact = max(MIN_VALUE_BITS, min(VALUE_BITS, sums - sum_bits(facts.total)))
    return max(1, min(exact, SUM_BITS - 2 * sum_bits(facts.largest + 1.0)))
