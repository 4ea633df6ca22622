"""The integers of a round, as in `engine.ensembles.boosting.quantised`, by compiled loops."""

from __future__ import annotations

from math import ldexp
from typing import NamedTuple

import numpy as np

from gpuboost.backends.compiling import parallel
from gpuboost.backends.numba.common.packed_words import nearest_integer
from gpuboost.backends.numba.compiler import entry, helper, inlined, randomness
from gpuboost.backends.numba.threads.barrier import next_task
from gpuboost.backends.numba.threads.commands import SharedFunction
from gpuboost.backends.numba.threads.map import contiguous, row_chunks
from gpuboost.engine.ensembles.boosting import Gradients, Scale
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import Buffers

hash_index = randomness.hash_index

QUANTISE_CHUNK = 1 << 13  # rows of one task
SHARED_ROWS = 1 << 16  # rows of one tree that a thread converts at once
_S32 = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_UNIT = 2.0**-32


@inlined
def _draws(key, i):
    """Two numbers in [0, 1) of row ``i``, by which a gradient and a hessian are rounded."""
    drawn = hash_index(key, np.uint64(i))
    return np.float64(drawn >> _S32) * _UNIT, np.float64(drawn & _LOW_HALF) * _UNIT


@inlined
def _rounded(gradient, hessian, scales, key, i):
    """Integers of row ``i``, rounded up or down by a hash of the row; hessians are at least 1."""
    up, down = _draws(key, i)
    g = np.int64(np.floor(gradient * scales[0] * scales[1] + up))
    return g, max(np.int64(np.floor(hessian * scales[2] * scales[3] + down)), np.int64(1))


class RowWords(NamedTuple):
    """The arguments of `pack_rows`: T trees of n rows each, or a tree of K channels.

    Attributes
    ----------
    gradient : float64 (T, n) or (K, n)
        Gradient of each row in each tree or channel, times -1.
    hessian : float64 (T, n), (K, n) or (1, n)
        One row if the hessian is the same for all trees or channels.
    whole : int32 (n,) or (0,)
        Hessians that are integer weights: gradients are then rounded to the nearest integer.
    inside : uint32 (m,) or (0,)
        The rows in the trees; none if all are.
    scales : float64 (4,)
        `two_factors` for gradients, then for hessians.
    keys : uint64 (T,)
        Keys of the hashes by which gradients and hessians are rounded up or down.
    bits : int64 (1,)
        Number of low bits of a word, which hold the hessian.
    word : int64 (T, n), or (1, 0) with several channels
        For each tree and row, the packed gradient and hessian.
    summands : int32 (n, s), or (0, 1) with one channel
        Hessian, gradients and 1 of each row, see `level_wise.channels`.
    row : uint32 (at least T * m,)
        Initial order of the rows, tree after tree.
    sums : int64 (T * chunks, 2)
        Sums of gradients and of hessians of each chunk of each tree.
    """

    gradient: np.ndarray
    hessian: np.ndarray
    whole: np.ndarray
    inside: np.ndarray
    scales: np.ndarray
    keys: np.ndarray
    bits: np.ndarray
    word: np.ndarray
    summands: np.ndarray
    row: np.ndarray
    sums: np.ndarray


@inlined
def _pack_chunk(given, tree, first, last):
    """Pack the gradients and hessians of some of the rows in a tree."""
    gradient, word = given.gradient[tree], given.word[tree]
    scales, bits = given.scales, given.bits[0]
    hessian = given.hessian[tree if given.hessian.shape[0] > 1 else 0]
    if given.whole.size:
        for j in range(first, last):
            i = given.inside[j] if given.inside.size else np.uint32(j)
            g = nearest_integer(gradient[i], scales[0], scales[1])
            word[i] = (g << bits) + np.int64(given.whole[i])
    elif given.inside.size:
        for j in range(first, last):
            i = given.inside[j]
            g, h = _rounded(gradient[i], hessian[i], scales, given.keys[tree], i)
            word[i] = (g << bits) + h
    else:
        for i in range(first, last):
            g, h = _rounded(gradient[i], hessian[i], scales, given.keys[tree], i)
            word[i] = (g << bits) + h


@helper
def _fill_summands(given, first, last):
    """Fill the summands and the order of some rows; return the sum of their integer hessians."""
    gradient, hessian = given.gradient, given.hessian
    summands, scales = given.summands, given.scales
    n_channels, share, total = gradient.shape[0], 1.0 / hessian.shape[0], np.int64(0)
    for j in range(first, last):
        i = np.int64(given.inside[j]) if given.inside.size else np.int64(j)
        own, mean = np.int64(1), 0.0
        if given.whole.size:
            own = np.int64(given.whole[i])
            for k in range(n_channels):
                summands[i, k + 1] = nearest_integer(gradient[k, i], scales[0], scales[1])
        else:
            up, down = _draws(given.keys[0], i)
            for k in range(n_channels):
                summands[i, k + 1] = np.int64(np.floor(gradient[k, i] * scales[0] * scales[1] + up))
            for k in range(hessian.shape[0]):
                mean += hessian[k, i]
            own = max(np.int64(np.floor(mean * share * scales[2] * scales[3] + down)), own)
        summands[i, 0] = own
        if n_channels + 1 < summands.shape[1]:
            summands[i, n_channels + 1] = 1
        given.row[j] = i
        total += own
    return total


def pack_rows(given, barrier):
    """Fill the words, initial order and sums of the rows, taking chunks until none is left."""
    n = given.inside.size if given.inside.size else given.gradient.shape[1]
    chunks, bits = (n + QUANTISE_CHUNK - 1) // QUANTISE_CHUNK, given.bits[0]
    mask, task = (np.int64(1) << bits) - np.int64(1), next_task(barrier)
    while task < chunks * given.word.shape[0]:
        tree, first = task // chunks, task % chunks * QUANTISE_CHUNK
        last, word = min(first + QUANTISE_CHUNK, n), given.word[tree]
        gradient, hessian, row = np.int64(0), np.int64(0), given.row[tree * n : (tree + 1) * n]
        if given.summands.size:
            given.sums[task, 0], given.sums[task, 1] = gradient, _fill_summands(given, first, last)
            task = next_task(barrier)
            continue
        _pack_chunk(given, tree, first, last)
        for j in range(np.uint64(first), np.uint64(last)):
            i = given.inside[j] if given.inside.size else np.uint32(j)
            own = word[i]
            gradient += own >> bits
            hessian += own & mask
            row[j] = i
        given.sums[task, 0], given.sums[task, 1] = gradient, hessian
        task = next_task(barrier)


PACK_ROWS = SharedFunction(pack_rows)


@entry
def integers(gradient, hessian, whole, scales, key, inside, first, narrow, weight, wide):
    """Fill the narrow gradients, the weights and the wide integers of rows, for one tree.

    Rows outside the tree get weight 0. ``whole`` is as in `RowWords`. ``inside`` is the mask of the
    rows in the tree, empty if all rows are. ``scales`` (8,) holds `two_factors` for gradients and
    hessians, narrow and then wide. ``first`` is the number of the first row.
    """
    for i in range(gradient.size):
        if whole.size:
            narrow[i, 0] = nearest_integer(gradient[i], scales[0], scales[1])
            own = np.int64(whole[i])
        else:
            row = np.int64(first) + i
            narrow[i, 0], own = _rounded(gradient[i], hessian[i], scales, key, row)
        weight[i] = own if inside.size == 0 or inside[i] else np.int64(0)
        wide[i, 0] = nearest_integer(gradient[i], scales[4], scales[5])
        wide[i, 1] = nearest_integer(hessian[i], scales[6], scales[7])


def two_factors(exponent: int) -> tuple[float, float]:
    """Two powers of two whose product is 2**exponent, even if this exceeds the float64 range."""
    half = exponent // 2 if abs(exponent) > 1000 else 0
    return ldexp(1.0, exponent - half), ldexp(1.0, half)


def rows_of_tree(
    made: Gradients, scale: Scale, column: int, key: np.ndarray, n_threads: int, buffers: Buffers
) -> TreeRows:
    """Result of `engine.ensembles.boosting.quantised` for one column.

    With NumPy instead, boosting of 100k x 28 with two features per node takes 15% longer.
    """
    n, narrow_scales = len(made.gradient), (scale.gradient, scale.hessian)
    exponents = (*narrow_scales, scale.wide_gradient, scale.wide_hessian)
    scales = np.array([factor for exponent in exponents for factor in two_factors(exponent)])
    narrow = buffers.take("narrow", (n, 1), np.int32)
    weight = buffers.take("weight", (n,), np.int32)
    wide = buffers.take("wide", (n, 2), np.int64)
    inside = np.zeros(0, np.bool_) if made.inside is None else made.inside
    whole = np.zeros(0, np.int32) if made.whole is None else contiguous(made.whole, np.int32)
    own = made.hessian[:, column if made.hessian.shape[1] > 1 else 0]
    columns = contiguous(made.gradient[:, column], np.float64), contiguous(own, np.float64), whole

    def fill(rows: slice) -> None:
        given = (each[rows] for each in columns)
        found = narrow[rows], weight[rows], wide[rows]
        integers(*given, scales, key[0], inside[rows], rows.start, *found)

    parallel(fill, row_chunks(n, SHARED_ROWS), n_threads)
    return TreeRows(weight, None, draws=False, wide=wide, gradient=narrow)
