"""The integers of a round, as in `engine.ensembles.boosting.quantised`, by compiled loops."""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from math import ldexp

import numpy as np

from gpuboost.backends.numba.common.packed_words import nearest_integer
from gpuboost.backends.numba.compiler import entry, inlined, randomness
from gpuboost.backends.numba.threads.barrier import next_task
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.engine.ensembles.boosting import Gradients, Scale
from gpuboost.engine.tree_rows import TreeRows

hash_index = randomness.hash_index

QUANTISE_CHUNK = 1 << 13  # rows of one task
SHARED_ROWS = 1 << 15  # up to this number of rows of all trees, one thread is faster (measured)
_S32 = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_UNIT = 2.0**-32


@inlined
def _rounded(gradient, hessian, scales, key, i):
    """Integers of row ``i``, rounded up or down by a hash of the row; hessians are at least 1."""
    drawn = hash_index(key, np.uint64(i))
    up, down = np.float64(drawn >> _S32) * _UNIT, np.float64(drawn & _LOW_HALF) * _UNIT
    g = np.int64(np.floor(gradient[i] * scales[0] * scales[1] + up))
    return g, max(np.int64(np.floor(hessian[i] * scales[2] * scales[3] + down)), np.int64(1))


@entry
def pack_words(gradient, hessian, whole, scales, keys, bits, word, barrier):
    """Fill ``word`` (T, n) with the packed gradients and hessians of all rows and trees.

    ``gradient`` is (T, n), ``hessian`` (T, n), or (1, n) if it is the same for all trees;
    ``scales`` (4,) holds `two_factors` for gradients, then for hessians. The low ``bits`` bits of a
    word are the hessian, and ``keys`` (T,) are the keys of the hashes. If hessians are integer
    weights, they are in ``whole`` (n,), and gradients are rounded to the nearest integer; otherwise
    ``whole`` is empty.
    """
    n = word.shape[1]
    chunks = (n + QUANTISE_CHUNK - 1) // QUANTISE_CHUNK
    task = next_task(barrier)
    while task < chunks * word.shape[0]:
        tree, first = task // chunks, task % chunks * QUANTISE_CHUNK
        own_g, own_h = gradient[tree], hessian[tree if hessian.shape[0] > 1 else 0]
        last = min(first + QUANTISE_CHUNK, n)
        if whole.size:
            for i in range(first, last):
                g = nearest_integer(own_g[i], scales[0], scales[1])
                word[tree, i] = (g << bits) + np.int64(whole[i])
        else:
            for i in range(first, last):
                g, h = _rounded(own_g, own_h, scales, keys[tree], i)
                word[tree, i] = (g << bits) + h
        task = next_task(barrier)


@entry
def place_rows(word, bits, inside, row, sums, barrier):
    """Write the initial order of the rows of all trees, and sum the words of each chunk.

    ``inside`` holds the uint32 rows in the trees, or is empty for all rows. They are written to
    ``row``, tree after tree. ``sums``, int64 (at least T * chunks, 2), gets the sum of gradients
    and the sum of hessians of each chunk: first of all chunks of the first tree, then of the next.
    """
    n = inside.size if inside.size else word.shape[1]
    chunks, mask = (n + QUANTISE_CHUNK - 1) // QUANTISE_CHUNK, (np.int64(1) << bits) - np.int64(1)
    task = next_task(barrier)
    while task < chunks * word.shape[0]:
        tree, first = task // chunks, task % chunks * QUANTISE_CHUNK
        gradient, hessian, at = np.int64(0), np.int64(0), tree * n
        for j in range(first, min(first + QUANTISE_CHUNK, n)):
            i = inside[j] if inside.size else np.uint32(j)
            own = word[tree, i]
            gradient += own >> bits
            hessian += own & mask
            row[at + j] = i
        sums[task, 0], sums[task, 1] = gradient, hessian
        task = next_task(barrier)


@entry
def add_values(value, leaf, raw, barrier):
    """Add the value of each row's leaf to a column of raw predictions, (n,)."""
    n = leaf.size
    task = next_task(barrier)
    while task * QUANTISE_CHUNK < n:
        for i in range(task * QUANTISE_CHUNK, min((task + 1) * QUANTISE_CHUNK, n)):
            raw[i] += value[leaf[i]]
        task = next_task(barrier)


@entry
def integers(gradient, hessian, scales, key, inside, narrow, weight, wide):
    """Fill the narrow gradients, the weights and the wide integers of all rows, for one tree.

    Rows outside the tree get weight 0. ``inside`` is the mask of the rows in the tree, empty if all
    rows are. ``scales`` (8,) holds `two_factors` for gradients and hessians, narrow and then wide.
    """
    for i in range(gradient.size):
        narrow[i, 0], own = _rounded(gradient, hessian, scales, key, i)
        weight[i] = own if inside.size == 0 or inside[i] else np.int64(0)
        wide[i, 0] = nearest_integer(gradient[i], scales[4], scales[5])
        wide[i, 1] = nearest_integer(hessian[i], scales[6], scales[7])


def two_factors(exponent: int) -> tuple[float, float]:
    """Two powers of two whose product is 2**exponent, even if this exceeds the float64 range."""
    half = exponent // 2 if abs(exponent) > 1000 else 0
    return ldexp(1.0, exponent - half), ldexp(1.0, half)


def rows_of_tree(made: Gradients, scale: Scale, column: int, key: np.ndarray) -> TreeRows:
    """Result of `engine.ensembles.boosting.quantised` for one column, if hessians are not integers.

    With NumPy instead, boosting of 100k x 28 with two features per node takes 15% longer.
    """
    n, narrow_scales = len(made.gradient), (scale.gradient, scale.hessian)
    exponents = (*narrow_scales, scale.wide_gradient, scale.wide_hessian)
    scales = np.array([factor for exponent in exponents for factor in two_factors(exponent)])
    narrow, weight = np.empty((n, 1), np.int32), np.empty(n, np.int32)
    wide = np.empty((n, 2), np.int64)
    inside = np.zeros(0, np.bool_) if made.inside is None else made.inside
    own = made.hessian[:, column if made.hessian.shape[1] > 1 else 0]
    given = contiguous(made.gradient[:, column], np.float64), contiguous(own, np.float64)
    integers(*given, scales, key[0], inside, narrow, weight, wide)
    return TreeRows(weight, None, draws=False, wide=wide, gradient=narrow)
