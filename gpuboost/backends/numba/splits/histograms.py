"""Running sums of one feature over the rows of a node, up to each bin.

The codes of ``m`` bins, ascending, are stored in `Scratch.bins`, and the sums up to and including
each bin as words in `Scratch.prefix`, or with one row per field in `Scratch.sums`:

    | HESSIAN | COUNT | GRADIENT | GRADIENT + 1 | ...    one gradient for each channel

A node whose sums fit a word needs one addition per row. Other nodes are summed field by field in
`Scratch.wide`; with one channel, packed partial sums of blocks of rows are added to it, unless the
blocks are short. `Scratch.totals` and `Scratch.wide` are zero again when the sums are stored.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.feature_codes import code_at, codes_of
from gpuboost.backends.numba.common.packed_words import count_of, gradient_of, hessian_of
from gpuboost.backends.numba.common.records import COUNT, GRADIENT, HESSIAN
from gpuboost.backends.numba.common.sparse_columns import is_sparse, position_of, reads_entries
from gpuboost.backends.numba.compiler import helper, inlined, trailing_zeros
from gpuboost.backends.numba.splits.channels import FIELDS, MOMENTS, add_row, field_of, of_class

# Rows up to which only bins that have rows are listed. If all nodes list all bins, a random forest
# of 100k x 28 takes 19% longer (2026-11).
SMALL_NODE = 200
# Packed partial sums of blocks of fewer rows cost more time than they save. Without packed partial
# sums, a regression forest of 50k x 28 with weights up to 100 takes 5.1% longer.
SHORT_BLOCK = 128

N_MOMENTS = 3  # rows of `Scratch.sums` that `class_moments` fills in place of the gradients
_ONE = np.uint64(1)


@inlined
def n_fields(channels):
    """Number of rows of `Scratch.sums` that are in use."""
    if channels is None:
        return np.int64(3)
    return np.int64(2 + N_MOMENTS) if channels.state[1] == MOMENTS else 2 + channels.state[0]


@inlined
def mark(occupied, code):
    """Mark a bin that has a row."""
    occupied[code >> np.uint8(6)] |= _ONE << (np.uint64(code) & np.uint64(63))


@inlined
def list_occupied(scratch):
    """List the marked bins in `Scratch.bins` and clear the marks; return the number of bins."""
    m = np.uint64(0)
    for quarter in range(4):
        left = scratch.occupied[quarter]
        scratch.occupied[quarter] = np.uint64(0)
        while left != np.uint64(0):
            scratch.bins[m] = trailing_zeros(left) + np.uint64(64 * quarter)
            left &= left - _ONE
            m += _ONE
    return np.int64(m)


@inlined
def _list_all(problem, feature):
    """List the codes of a feature in `Scratch.bins`; return their number.

    If the feature has missing values, all codes up to the missing code are listed, also those
    between its value bins and the missing bin, which have no rows.
    """
    matrix, bins = problem.matrix, problem.scratch.bins
    width = matrix.missing_code + 1 if matrix.has_missing[feature] else matrix.n_bins[feature]
    for code in range(width):
        bins[code] = code
    return np.int64(width)


@helper
def _add_entries(problem, rows, words, feature):
    """Add the words of a node to the bins of a sparse column, and mark these.

    The words of rows without an entry are what is left of the words of all rows.
    """
    matrix, scratch = problem.matrix, problem.scratch
    zero_code, left, n_left = matrix.zero_code[feature], scratch.node_word[0], rows.size
    for entry in range(matrix.first_entry[feature], matrix.first_entry[feature + 1]):
        i = position_of(scratch, rows, matrix.entry_row[entry])
        if i >= 0:
            code = matrix.entry_code[entry]
            scratch.totals[code] += words[i]
            mark(scratch.occupied, code)
            left -= words[i]
            n_left -= 1
    if n_left > 0:
        scratch.totals[zero_code] += left
        mark(scratch.occupied, zero_code)


@inlined
def word_prefix(problem, rows, words, feature):
    """Fill `Scratch.prefix` with the sums up to each listed bin; return the number of bins."""
    matrix, scratch = problem.matrix, problem.scratch
    totals, running = scratch.totals, np.int64(0)
    from_entries = is_sparse(matrix) and reads_entries(matrix, rows.size, feature)
    if from_entries or rows.size <= SMALL_NODE:
        if from_entries:
            _add_entries(problem, rows, words, feature)
        else:
            codes = codes_of(problem, rows, feature)
            for i in range(rows.size):
                code = code_at(codes, rows[i])
                totals[code] += words[i]
                mark(scratch.occupied, code)
        m = list_occupied(scratch)
        for j in range(np.uint64(m)):
            code = np.uint64(scratch.bins[j])
            running += totals[code]
            totals[code] = 0
            scratch.prefix[j] = running
        return m
    codes = codes_of(problem, rows, feature)
    for i in range(rows.size):
        totals[code_at(codes, rows[i])] += words[i]
    m = _list_all(problem, feature)
    for code in range(m):
        running += totals[code]
        totals[code] = 0
        scratch.prefix[code] = running
    return m


@inlined
def unpack_prefix(problem, channels, m):
    """Fill `Scratch.sums` from `Scratch.prefix`; several channels get counts only if needed."""
    scratch, needs_counts = problem.scratch, problem.limits.min_samples_leaf > 1
    _unpack(scratch.prefix, scratch.sums, problem.packing, channels, np.uint64(m), needs_counts)


@helper
def _unpack(prefix, sums, packing, channels, m, needs_counts):
    if channels is None:
        for j in range(m):
            sums[GRADIENT, j] = gradient_of(prefix[j], packing)
            sums[HESSIAN, j] = hessian_of(prefix[j], packing)
            sums[COUNT, j] = count_of(prefix[j], packing)
        return
    for p in range(channels.state[0]):
        for j in range(m):
            sums[GRADIENT + p, j] = field_of(channels, prefix[j], p)
    add_hessians(channels, sums, m)
    if needs_counts:
        for j in range(m):
            sums[COUNT, j] = field_of(channels, prefix[j], channels.state[0])


@inlined
def add_hessians(channels, sums, m):
    """Fill the hessians of a node with several classes: sums over all classes of their weights."""
    sums[HESSIAN, :m] = 0
    for p in range(channels.state[0]):
        for j in range(m):
            sums[HESSIAN, j] += sums[GRADIENT + p, j]


@inlined
def add_word(problem, to, at, word):
    """Add the fields of a word of one channel to column ``at`` of ``to``."""
    to[GRADIENT, at] += gradient_of(word, problem.packing)
    to[HESSIAN, at] += hessian_of(word, problem.packing)
    to[COUNT, at] += count_of(word, problem.packing)


@inlined
def _wide_totals(problem, members, codes):
    """Fill `Scratch.wide` for one channel from the codes of a feature.

    Packed partial sums of `Packing.block` rows are used unless blocks are short.
    """
    scratch, rows, words = problem.scratch, members.row, members.word
    totals, block = scratch.totals, problem.packing.block
    if block < SHORT_BLOCK:
        for i in range(rows.size):
            add_word(problem, scratch.wide, code_at(codes, rows[i]), words[i])
        return
    for start in range(0, rows.size, block):
        for i in range(start, min(start + block, rows.size)):
            totals[code_at(codes, rows[i])] += words[i]
        for code in range(256):
            add_word(problem, scratch.wide, code, totals[code])
            totals[code] = 0


@helper
def wide_prefix(problem, channels, members, feature):
    """Fill `Scratch.sums` for a node whose sums do not fit a word; return the number of bins."""
    scratch, rows = problem.scratch, members.row
    codes, wide, sums = codes_of(problem, rows, feature), scratch.wide, scratch.sums
    if channels is None:
        _wide_totals(problem, members, codes)
    elif channels.values.size == 0 and problem.limits.min_samples_leaf <= 1:
        words = channels.word  # with the checks of `add_row`, 100k x 54 with 7 classes takes 1.12
        for i in range(np.uint64(rows.size)):
            at, weight = of_class(words[i])
            wide[at, code_at(codes, rows[i])] += weight
    else:
        for i in range(rows.size):
            add_row(problem, channels, rows[i], i, wide, code_at(codes, rows[i]))
    if rows.size <= SMALL_NODE:
        for i in range(rows.size):
            mark(scratch.occupied, code_at(codes, rows[i]))
        m = list_occupied(scratch)
    else:
        m = _list_all(problem, feature)
    for field in range(n_fields(channels)):
        running = np.int64(0)
        for j in range(m):
            code = scratch.bins[j]
            running += wide[field, code]
            wide[field, code] = 0
            sums[field, j] = running
    if channels is not None and channels.values.size == 0:
        add_hessians(channels, sums, m)
    return m


@inlined
def fits_words(channels, members):
    """Whether the sums of a node fit a word: with several channels, a word of `FIELDS`."""
    return (not members.is_wide) if channels is None else channels.state[1] == FIELDS


@inlined
def prefix_sums(problem, channels, members, feature):
    """Fill `Scratch.sums` and `Scratch.missing` for any node; return the number of value bins."""
    if fits_words(channels, members):
        words = members.word if channels is None else channels.word
        m = word_prefix(problem, members.row, words, feature)
        unpack_prefix(problem, channels, m)
    else:
        m = wide_prefix(problem, channels, members, feature)
    return take_missing(problem, channels, feature, m)


@inlined
def take_missing(problem, channels, feature, m):
    """Move the missing bin, if listed, to `Scratch.missing`; return the number of value bins.

    If it is not listed, `Scratch.missing` is set to 0.
    """
    matrix, sums, missing = problem.matrix, problem.scratch.sums, problem.scratch.missing
    is_listed = matrix.has_missing[feature] and problem.scratch.bins[m - 1] == matrix.missing_code
    m -= np.int64(is_listed)
    for field in range(n_fields(channels)):
        before = sums[field, m - 1] if m > 0 else np.int64(0)
        missing[field] = sums[field, m] - before if is_listed else 0
    return m
