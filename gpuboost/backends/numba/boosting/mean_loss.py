"""Compiled sums of the losses of rows, with the bits of `engine.losses.averages.weighted_mean`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.compiler import bits_of, float_of, inlined
from gpuboost.backends.numba.references import KeptReference
from gpuboost.backends.numba.threads.barrier import last_arrives, next_task, release
from gpuboost.backends.numba.threads.commands import SharedFunction
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.fixed_point import SUM_BITS, planes_to_float, sum_bits

SUM_CHUNK = 1 << 13  # rows of one task
_INFINITE = np.int64(0x7FF0000000000000)  # bit pattern of infinity; that of NaN is larger
_MANTISSA_BITS, _BIAS = np.int64(52), np.int64(1023)
_DENORMAL_SHIFT = 64


class Summands(NamedTuple):
    """Values to be summed, and buffers.

    Attributes
    ----------
    values : float64 (n,)
    weights : float64 (n,) or (0,)
        Factors of the values; none if all are ones.
    bits : int
        Bits of an entry of a plane, see `engine.fixed_point.two_planes`.
    largest : int64 (chunks,)
        Bit pattern of the largest magnitude of each chunk.
    sums : int64 (chunks, 2)
        Sums of both planes of each chunk.
    exponent : int64 (1,)
        Exponent of the first plane.
    """

    values: np.ndarray
    weights: np.ndarray
    bits: int
    largest: np.ndarray
    sums: np.ndarray
    exponent: np.ndarray


@inlined
def _power_of_two(exponent):
    """2**exponent, for a normal float64."""
    return float_of((np.int64(exponent) + _BIAS) << _MANTISSA_BITS)


@inlined
def _exponent_of(x):
    """The smallest e with x < 2**e, for x >= 0; 0 for 0."""
    if x == 0.0:
        return np.int64(0)
    if x < _power_of_two(-1000):
        return (bits_of(x * _power_of_two(_DENORMAL_SHIFT)) >> _MANTISSA_BITS) - (
            _BIAS - 1 + _DENORMAL_SHIFT
        )
    return (bits_of(x) >> _MANTISSA_BITS) - (_BIAS - 1)


@inlined
def _largest_of(given, first, last):
    """Bit pattern of the largest magnitude of value times weight."""
    largest, values = np.int64(0), given.values[first:last]
    if given.weights.size == 0:
        for i in range(values.size):
            largest = max(largest, bits_of(abs(values[i])))
        return largest
    weights = given.weights[first:last]
    for i in range(values.size):
        largest = max(largest, bits_of(abs(values[i] * weights[i])))
    return largest


@inlined
def _sum_planes(given, first, last, sums):
    """Sums of the two planes of value times weight."""
    exponent, values = given.exponent[0], given.values[first:last]
    half = exponent // 2
    scale, other = _power_of_two(half), _power_of_two(exponent - half)
    low_scale = _power_of_two(given.bits)
    high_sum, low_sum = np.int64(0), np.int64(0)
    weights, is_weighted = given.weights, given.weights.size > 0
    for i in range(values.size):
        x = values[i] * weights[first + i] if is_weighted else values[i]
        scaled = x * scale * other
        high = np.rint(scaled)
        high_sum += np.int64(high)
        low_sum += np.int64(np.rint((scaled - high) * low_scale))
    sums[0], sums[1] = high_sum, low_sum


def sum_values(given, barrier):
    """Fill the arrays of `Summands`; no sums if a value is infinite or NaN."""
    n, n_chunks = given.values.size, given.largest.size
    task = next_task(barrier)
    while task < n_chunks:
        first = task * SUM_CHUNK
        given.largest[task] = _largest_of(given, first, min(first + SUM_CHUNK, n))
        task = next_task(barrier)
    if last_arrives(barrier):
        largest = np.int64(0)
        for i in range(n_chunks):
            largest = max(largest, given.largest[i])
        given.largest[0] = largest
        if largest < _INFINITE:
            given.exponent[0] = given.bits - _exponent_of(float_of(largest))
        release(barrier)
    if given.largest[0] >= _INFINITE:
        return
    task = next_task(barrier)
    while task < n_chunks:
        first = task * SUM_CHUNK
        _sum_planes(given, first, min(first + SUM_CHUNK, n), given.sums[task])
        task = next_task(barrier)


SUM_VALUES = SharedFunction(sum_values)
_ALL_ONES = np.zeros(0)


class WeightedSum:
    """Sums of one array, whose values change, times weights."""

    def __init__(self, values: np.ndarray, pool: ThreadPool) -> None:
        n = len(values)
        chunks, self._pool = -(-n // SUM_CHUNK), pool
        self._given = Summands(
            values,
            _ALL_ONES,
            SUM_BITS - sum_bits(n),
            np.zeros(chunks, np.int64),
            np.zeros((chunks, 2), np.int64),
            np.zeros(1, np.int64),
        )
        self._reference = KeptReference()

    def of(self, weights: np.ndarray | None = None) -> float:
        """Sum of value times weight; infinite if any product is not finite."""
        given = self._given
        own = given if weights is None else given._replace(weights=weights)
        self._pool.run(SUM_VALUES, self._reference.to(own), len(given.values) // SUM_CHUNK)
        if given.largest[0] >= _INFINITE:
            return float("inf")
        sums, high = given.sums.sum(axis=0), int(given.exponent[0])
        return float(planes_to_float(sums, np.array([high, high + given.bits]))[0])
