"""Compiled losses of rows and their means, equal to `engine.losses` bit for bit."""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from typing import Any

import numpy as np
from numba import typeof, types

from gpuboost.backends.numba.boosting.gradients import (
    COLUMN,
    GRADIENT_BLOCK,
    NO_WEIGHTS,
    arrays_of,
    by_chunks,
    class_directions,
    loops_of,
    weights_of,
)
from gpuboost.backends.numba.compiler import call_for_nothing, entry
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.averages import plane_scales
from gpuboost.engine.fixed_point import SUM_BITS, planes_to_float, sum_bits
from gpuboost.engine.losses import Loss, Predicted

formula: Any = None  # set by `loops_of`


def add_losses(y, raw, parameter, total):
    """Add the losses of a formula to ``total``."""
    for i in range(raw.size):
        total[i] += formula(np.float64(y[i]), raw[i], parameter)


LOSS_LOOPS = loops_of(add_losses, "value")


@entry
def column_losses(add, y, raw, parameter, total, rows):
    """Fill ``total`` with the loss of each row: the mean over columns.

    ``add`` is the address of the formula's `add_losses`; the other arguments are as in
    `gradients.column_gradients`.
    """
    for start in range(rows[0], rows[1], GRADIENT_BLOCK):
        stop = min(start + GRADIENT_BLOCK, rows[1])
        for i in range(start, stop):
            total[i] = 0.0
        for k in range(raw.shape[0]):
            target, column = y[k % y.shape[0], start:stop], raw[k, start:stop]
            call_for_nothing(add, (target, column, parameter[k], total[start:stop]))
        for i in range(start, stop):
            total[i] /= np.float64(raw.shape[0])


@entry
def largest_product(values, weights, rows):
    """Largest absolute value of value times weight; infinity if any product is not finite.

    Empty weights are ones.
    """
    largest, is_finite = 0.0, True
    for i in range(rows[0], rows[1]):
        size = abs(values[i] * weights[i]) if weights.size else abs(values[i])
        is_finite &= size < np.inf
        largest = size if size > largest else largest
    return largest if is_finite else np.inf


@entry
def plane_sums(values, weights, scales, rows):
    """Sums of the two planes of value times weight (`engine.fixed_point.two_planes`).

    Empty weights are ones; ``scales`` (3,) is a column of the scales from
    `engine.averages.plane_scales`.
    """
    high_sum, low_sum = np.int64(0), np.int64(0)
    for i in range(rows[0], rows[1]):
        x = values[i] * weights[i] if weights.size else values[i]
        scaled = x * scales[0] * scales[1]
        high = np.rint(scaled)
        high_sum += np.int64(high)
        low_sum += np.int64(np.rint((scaled - high) * scales[2]))
    return high_sum, low_sum


def row_losses(
    loss: Loss, predicted: Predicted, parameter: np.ndarray, pool: ThreadPool
) -> np.ndarray:
    """Loss of each row, with the same bits as `Loss.row_losses`: float64 (n,)."""
    if not loss.has_formula:
        return loss.row_losses(predicted, parameter)
    if loss.takes_rows:
        return class_directions(predicted, parameter, pool)[1]
    total = np.empty(len(predicted.raw))
    target, columns = arrays_of(loss, predicted)
    add = LOSS_LOOPS[loss.formula].address(typeof(target[0]), COLUMN, types.float64, COLUMN)
    given = (add, target, columns, contiguous(parameter, np.float64))
    by_chunks(lambda rows: column_losses(*given, total, rows), len(total), pool)
    return total


def mean_loss(loss: Loss, predicted: Predicted, parameter: np.ndarray, pool: ThreadPool) -> float:
    """Mean loss, with the same bits as `Loss.mean_loss`."""
    if not loss.has_formula:
        return loss.mean_loss(predicted, parameter)
    return mean_of(row_losses(loss, predicted, parameter, pool), predicted, pool)


def mean_of(values: np.ndarray, predicted: Predicted, pool: ThreadPool) -> float:
    """Weighted mean of one value per row, with the bits of `engine.averages.weighted_mean`."""
    weights = weights_of(predicted)
    total = _sum(weights, NO_WEIGHTS, pool) if len(weights) else float(len(values))
    return _sum(values, weights, pool) / total


def _sum(values: np.ndarray, weights: np.ndarray, pool: ThreadPool) -> float:
    """Sum of value times weight, as `engine.averages.weighted_mean` computes it.

    Empty weights are ones; the sum is infinite if any product is not finite.
    """
    n = len(values)
    largest = max(by_chunks(lambda rows: largest_product(values, weights, rows), n, pool))
    if largest == np.inf:
        return float("inf")
    scales, exponents = plane_scales(np.array([largest]), SUM_BITS - sum_bits(n))
    scales = scales[:, 0].copy()
    parts = by_chunks(lambda rows: plane_sums(values, weights, scales, rows), n, pool)
    sums = np.array(parts, dtype=np.int64).sum(axis=0)
    return float(planes_to_float(sums, exponents[:, 0])[0])
