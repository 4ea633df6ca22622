"""Histograms of one feature over the rows of a node, as sums up to each bin.

All leave behind ``m`` bins that rows of the node fall into, in ascending order, and the sums up
to and including each of them: `Scratch.prefix` as words where a node fits one, else
`Scratch.sums` field by field. Histograms are zero again when they return.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.packed_words import count_of, gradient_of, hessian_of
from gpuboost.backends.numba.compiler import helper, inlined, trailing_zeros

SMALL_NODE = 200  # rows up to which walking the occupied bins beats a scan of all (measured)
LANES = 8  # gains are computed in blocks of so many bins
SLOTS = 256 + LANES  # room for all bins in whole blocks
SHORT_BLOCK = 128  # packed partial sums of fewer rows cost more than they save

_ONE = np.uint64(1)
_LOW_SIX = np.uint64(63)


@inlined
def _unpacked(problem, members):
    return problem.matrix.codes, problem.scratch, members.row, members.word


@inlined
def word_prefix(problem, members, feature, width):
    """Sums up to each bin, as words; returns the number of bins listed in ``bins``."""
    if members.row.size <= SMALL_NODE:
        return _walked_prefix(problem, members, feature)
    return _scanned_prefix(problem, members, feature, width)


@inlined
def _walked_prefix(problem, members, feature):
    """For small nodes: a bitmap tells which bins to look at."""
    codes, scratch, rows, words = _unpacked(problem, members)
    totals, occupied = scratch.totals, scratch.occupied
    for i in range(rows.size):
        code = codes[feature, rows[i]]
        totals[code] += words[i]
        occupied[code >> np.uint8(6)] |= _ONE << (np.uint64(code) & _LOW_SIX)
    running, m = np.int64(0), np.uint64(0)
    for quarter in range(4):
        left = occupied[quarter]
        occupied[quarter] = np.uint64(0)
        while left != np.uint64(0):
            code = trailing_zeros(left) + np.uint64(64 * quarter)
            left &= left - _ONE
            running += totals[code]
            totals[code] = 0
            scratch.bins[m] = code
            scratch.prefix[m] = running
            m += _ONE
    return np.int64(m)


@inlined
def _scanned_prefix(problem, members, feature, width):
    """For large nodes: every bin is listed, whether rows fall into it or not."""
    codes, scratch, rows, words = _unpacked(problem, members)
    totals = scratch.totals
    for i in range(rows.size):
        totals[codes[feature, rows[i]]] += words[i]
    running = np.int64(0)
    for code in range(width):
        running += totals[code]
        totals[code] = 0
        scratch.prefix[code] = running
        scratch.bins[code] = code
    return width


@helper
def unpack_prefix(problem, m):
    """`Scratch.sums` from `Scratch.prefix`."""
    scratch, packing = problem.scratch, problem.packing
    sums = scratch.sums
    for j in range(m):
        word = scratch.prefix[j]
        sums[0, j] = gradient_of(word, packing)
        sums[1, j] = hessian_of(word, packing)
        sums[2, j] = count_of(word, packing)


@helper
def wide_prefix(problem, members, feature, width):
    """Sums up to each bin, field by field, for nodes whose sums do not fit a word."""
    _wide_totals(problem, members, feature)
    scratch = problem.scratch
    for field in range(3):
        running = np.int64(0)
        for code in range(width):
            running += scratch.wide[field, code]
            scratch.wide[field, code] = 0
            scratch.sums[field, code] = running
    for code in range(width):
        scratch.bins[code] = code
    return width


@inlined
def prefix_sums(problem, members, feature):
    """Sums up to each bin, field by field, of any node; returns the number of bins."""
    matrix = problem.matrix
    width = matrix.missing_code + 1 if matrix.has_missing[feature] else matrix.n_bins[feature]
    if members.is_wide:
        return wide_prefix(problem, members, feature, width)
    m = word_prefix(problem, members, feature, width)
    unpack_prefix(problem, m)
    return m


@helper
def _wide_totals(problem, members, feature):
    """Totals of each bin in `Scratch.wide`, by packed partial sums of ``block`` rows."""
    codes, scratch, rows, words = _unpacked(problem, members)
    totals, wide, packing = scratch.totals, scratch.wide, problem.packing
    if packing.block < SHORT_BLOCK:
        for i in range(rows.size):
            code, word = codes[feature, rows[i]], words[i]
            wide[0, code] += gradient_of(word, packing)
            wide[1, code] += hessian_of(word, packing)
            wide[2, code] += count_of(word, packing)
        return
    start = np.int64(0)
    while start < rows.size:
        stop = min(start + packing.block, rows.size)
        for i in range(np.uint64(start), np.uint64(stop)):
            totals[codes[feature, rows[i]]] += words[i]
        for code in range(256):
            word = totals[code]
            totals[code] = 0
            wide[0, code] += gradient_of(word, packing)
            wide[1, code] += hessian_of(word, packing)
            wide[2, code] += count_of(word, packing)
        start = stop
