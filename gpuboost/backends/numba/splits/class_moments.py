"""Scores of a numeric feature at a node of many classes, in a time that depends on its rows only.

The terms of VARIANCE are summed over the classes. With the sums over classes as moments,

    sum_k (gl_k h - g_k hl)**2  =  h**2 sum_k gl_k**2  -  2 h hl sum_k gl_k g_k  +  hl**2 sum_k g_k**2

a row of class k and weight w that moves to the left side changes the first two moments by
w (2 gl_k + w) and w g_k, so no candidate needs a pass over the classes. If all sums are below 2**53
(`channels.MOMENTS_UP_TO`), they are exact in float64 in any order, and these integers are the same
terms. If missing values, with sums gm_k, go left, too, then sum_k gl_k gm_k is the third moment:

    sum_k (gl_k + gm_k)**2  =  sum_k gl_k**2  +  2 sum_k gl_k gm_k  +  sum_k gm_k**2
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

import numpy as np
from numba import types

from gpuboost.backends.numba.common.records import COUNT, GRADIENT, HESSIAN
from gpuboost.backends.numba.compiler import inlined, plugin
from gpuboost.backends.numba.splits.channels import CLASS_SHIFT, WEIGHT_MASK
from gpuboost.backends.numba.splits.histograms import list_occupied, mark

# Rows of `Scratch.sums` and `Scratch.missing`: sums over classes of gl_k**2, gl_k g_k, gl_k gm_k.
SQUARES, WITH_NODE, WITH_MISSING = GRADIENT, GRADIENT + 1, GRADIENT + 2

_NOTHING = (np.int64(0),) * 5  # hessian, count and the three moments of no row


@plugin(types.int64)
def class_moments(problem, channels, rows, feature):
    """Fill `Scratch.sums` and `Scratch.missing`; return the number of value bins that have rows.

    The rows of each bin are a linked list, which starts in `Scratch.totals`.
    """
    matrix, scratch = problem.matrix, problem.scratch
    codes, first, sums, missing = matrix.codes, scratch.totals, scratch.sums, scratch.missing
    for i in range(rows.size):
        code = codes[feature, rows[i]]
        channels.following[i], first[code] = first[code], i + 1
        mark(scratch.occupied, code)
    m = list_occupied(scratch)
    hessian, count, squares, with_node, with_missing = _NOTHING
    if scratch.bins[m - 1] == matrix.missing_code:
        m -= 1
        i, first[matrix.missing_code] = first[matrix.missing_code], 0
        while i > 0:
            p, weight = _class_and_weight(channels.word[i - 1])
            hessian, count = hessian + weight, count + 1
            squares += weight * (2 * channels.of_missing[p] + weight)
            with_node += weight * channels.sums[p]
            channels.of_missing[p] += weight
            i = channels.following[i - 1]
    missing[HESSIAN], missing[COUNT] = hessian, count
    missing[SQUARES], missing[WITH_NODE] = squares, with_node
    hessian, count, squares, with_node, with_missing = _NOTHING
    for j in range(m):
        code = scratch.bins[j]
        i, first[code] = first[code], 0
        while i > 0:
            p, weight = _class_and_weight(channels.word[i - 1])
            hessian, count = hessian + weight, count + 1
            squares += weight * (2 * channels.by_class[p] + weight)
            with_node += weight * channels.sums[p]
            with_missing += weight * channels.of_missing[p]
            channels.by_class[p] += weight
            i = channels.following[i - 1]
        sums[HESSIAN, j], sums[COUNT, j], sums[SQUARES, j] = hessian, count, squares
        sums[WITH_NODE, j], sums[WITH_MISSING, j] = with_node, with_missing
    for p in range(channels.state[0]):
        channels.by_class[p] = channels.of_missing[p] = 0
    return m


@inlined
def _class_and_weight(word):
    """Position of a row's class among those that are present, and the row's weight."""
    return word >> CLASS_SHIFT, word & WEIGHT_MASK


@inlined
def terms_of_moments(scratch, node, squares, first, last, side):
    """Compute the terms of a range of candidates, summed over the classes.

    ``squares`` is sum_k g_k**2. ``side`` is 1 if missing values go left, else 0.
    """
    sums, missing, h = scratch.sums, scratch.missing, node.hessian
    for j in range(np.uint64(first), np.uint64(last)):
        hl = sums[HESSIAN, j] + missing[HESSIAN] * side
        of_left = sums[SQUARES, j] + (2 * sums[WITH_MISSING, j] + missing[SQUARES]) * side
        with_node = sums[WITH_NODE, j] + missing[WITH_NODE] * side
        terms = h * h * of_left - 2 * h * hl * with_node + hl * hl * squares
        scratch.terms[0, j] = np.float64(terms)
