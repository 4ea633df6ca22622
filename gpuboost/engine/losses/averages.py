"""Weighted means from integer sums, which do not depend on the order of the rows."""

from __future__ import annotations

import numpy as np

from gpuboost.engine.fixed_point import SUM_BITS, planes_to_float, sum_bits

SUM_BLOCK = 8192  # rows per block, so that the planes of a block stay in the cache


def weighted_mean(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Mean of each column of ``values``, to about the precision of float64.

    Parameters
    ----------
    values : float64 (n, K)
    weights : float64 (n,), optional
        Weights of the rows, at least one of which is positive.

    Returns
    -------
    float64 (K,)
        If a value, or its product with the weight, is infinite or NaN: infinity for its column and
        0 for the columns without such a value.
    """
    if weights is None:
        return _sum(values) / float(len(values))
    column = weights[:, None]
    return _sum(values * column) / _sum(column)


def _sum(values: np.ndarray) -> np.ndarray:
    """Sum of each column, in two planes of fixed-point numbers (`fixed_point.two_planes`).

    If a value is infinite or NaN, the result is as in `weighted_mean`.
    """
    largest = np.maximum(values.max(axis=0), -values.min(axis=0))
    if not np.isfinite(largest).all():
        return np.where(np.isfinite(largest), 0.0, np.inf)
    n = len(values)
    bits = SUM_BITS - sum_bits(n)
    scales, exponents = plane_scales(largest, bits)
    sums = np.zeros((2, values.shape[1]), dtype=np.int64)
    for start in range(0, n, SUM_BLOCK):
        scaled = values[start : start + SUM_BLOCK] * scales[0] * scales[1]
        high = np.rint(scaled)
        sums[0] += high.astype(np.int64).sum(axis=0)
        sums[1] += np.rint((scaled - high) * scales[2]).astype(np.int64).sum(axis=0)
    return planes_to_float(sums.T.ravel(), exponents.T.ravel())


def plane_scales(largest: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Powers of two that convert values up to ``largest`` to fixed-point numbers.

    Parameters
    ----------
    largest : float64 (K,)
        Largest absolute value of each column.
    bits : int
        Bits of one entry of a plane.

    Returns
    -------
    scales : float64 (3, K)
        Two factors whose product scales the first plane (as one factor it could overflow float64),
        and the factor of the second plane.
    exponents : int64 (2, K)
        Exponents of the two planes.
    """
    exponent = bits - np.where(largest > 0.0, np.frexp(largest)[1], 0).astype(np.int64)
    halves = exponent // 2, exponent - exponent // 2, np.full_like(exponent, bits)
    return np.ldexp(1.0, np.array(halves)), np.array([exponent, exponent + bits])
