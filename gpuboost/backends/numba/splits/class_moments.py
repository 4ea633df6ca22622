"""Terms of a numeric feature at a node of many classes, in a time that depends on its rows only.

The criterion is VARIANCE, whose terms are summed over the classes. Their sum follows from three
moments of the node and its left side:

    sum_k (gl_k h - g_k hl)**2 = h**2 sum_k gl_k**2 - 2 h hl sum_k gl_k g_k + hl**2 sum_k g_k**2

A row of class k and weight w that moves to the left side changes the first two moments by
w (2 gl_k + w) and w g_k, so no candidate needs a pass over the classes. Up to the hessian
`channels.MOMENTS_UP_TO`, all sums of terms are integers of at most 2**53. Float64 adds these
without rounding, so the result has the bits of the sum over the classes. If missing values, with
sums gm_k, go left, too:

    sum_k (gl_k + gm_k)**2 = sum_k gl_k**2 + 2 sum_k gl_k gm_k + sum_k gm_k**2
"""

from __future__ import annotations

import numpy as np
from numba import types

from gpuboost.backends.numba.common.feature_codes import code_at, codes_of
from gpuboost.backends.numba.common.records import GRADIENT, HESSIAN
from gpuboost.backends.numba.compiler import inlined, plugin
from gpuboost.backends.numba.splits.channels import CLASS_SHIFT, WEIGHT_MASK
from gpuboost.backends.numba.splits.histograms import list_occupied, mark

# Rows of `Scratch.sums` and `Scratch.missing`: sums over classes of gl_k**2, gl_k g_k, gl_k gm_k.
SQUARES, WITH_NODE, WITH_MISSING = GRADIENT, GRADIENT + 1, GRADIENT + 2

_NOTHING = (np.int64(0),) * 5  # the sums of no row: fields `HESSIAN` to `WITH_MISSING`


@plugin(types.int64)
def class_moments(problem, channels, rows, feature):
    """Fill `Scratch.sums` and `Scratch.missing`; return the number of value bins that have rows.

    ``rows`` are those of the node. The rows of each bin are a linked list (`Channels.following`),
    whose first item is in `Scratch.totals`.
    """
    matrix, scratch = problem.matrix, problem.scratch
    first, sums, missing = scratch.totals, scratch.sums, scratch.missing
    codes = codes_of(problem, rows, feature)
    for i in range(rows.size):
        code = code_at(codes, rows[i])
        channels.following[i], first[code] = first[code], i + 1
        mark(scratch.occupied, code)
    m = list_occupied(scratch)
    running = _NOTHING
    if scratch.bins[m - 1] == matrix.missing_code:
        m -= 1
        running = _add_bin(channels, first, matrix.missing_code, channels.of_missing, running)
    for field in range(len(running)):
        missing[field] = running[field]
    running = _NOTHING
    for j in range(np.uint64(m)):
        running = _add_bin(channels, first, scratch.bins[j], channels.by_class, running)
        for field in range(len(running)):
            sums[field, j] = running[field]
    for p in range(channels.state[0]):
        channels.by_class[p] = channels.of_missing[p] = 0
    return m


@inlined
def _add_bin(channels, first, code, by_class, running):
    """Take the rows of a bin from its list; return the running sums after them.

    The rows are also added to ``by_class``, the weights of the classes.
    """
    hessian, count, squares, with_node, with_missing = running
    i, first[code] = first[code], 0
    while i > 0:
        word = channels.word[i - 1]
        p, weight = word >> CLASS_SHIFT, word & WEIGHT_MASK
        hessian, count = hessian + weight, count + 1
        squares += weight * (2 * by_class[p] + weight)
        with_node += weight * channels.sums[p]
        with_missing += weight * channels.of_missing[p]
        by_class[p] += weight
        i = channels.following[i - 1]
    return hessian, count, squares, with_node, with_missing


@plugin(types.none)
def terms_of_moments(scratch, node, squares, first, last, side):
    """Compute the terms of candidates from ``first`` to ``last`` - 1, summed over the classes.

    ``squares`` is sum_k g_k**2. ``side`` is 1 if missing values go left, else 0.
    """
    sums, missing, h = scratch.sums, scratch.missing, node.hessian
    for j in range(np.uint64(first), np.uint64(last)):
        hl = sums[HESSIAN, j] + missing[HESSIAN] * side
        of_left = sums[SQUARES, j] + (2 * sums[WITH_MISSING, j] + missing[SQUARES]) * side
        with_node = sums[WITH_NODE, j] + missing[WITH_NODE] * side
        terms = h * h * of_left - 2 * h * hl * with_node + hl * hl * squares
        scratch.terms[0, j] = np.float64(terms)
