"""Passes over chunks of codes, compiled; several threads can share the features of a chunk.

There are three ways to add rows to histograms:

    words      one channel: count, hessian and gradient of a row share a word, made once for each
               tree; words are added up, and added to the histogram before a sum could overflow
    summands   several outputs, signs about medians, or numbers too large for words: what a row adds
               to the sums of a bin, which lie side by side as in `level_wise.channels`
    classes    a row adds its weight to the hessian and to the sum of its class
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.packed_words import (
    choose_gradient_packing,
    count_of,
    gradient_of,
    hessian_of,
    pack,
)
from gpuboost.backends.numba.compiler import entry, helper
from gpuboost.backends.numba.intrinsics import add_four
from gpuboost.backends.numba.level_wise.channels import FOUR
from gpuboost.backends.numba.level_wise.feature_bundles import BINS
from gpuboost.backends.numba.references import Reference, by_reference

# Columns whose words are added in one pass over the rows. With eight, they leave the L2 cache: 1.2
# to 1.7 times as long. The number must be a constant where words are added (benchmarks/NOTES.md).
TOGETHER = 4
# Columns to which all groups are added before the next ones, so that the codes stay in an L2 cache
# of 2 MB, and rows of a group that stay in the L1 cache for all of these columns.
NEAR_COLUMNS, NEAR_ROWS = 16, 1024


class PreparedRows(NamedTuple):
    """Rows in the form that `add_rows` takes.

    Attributes
    ----------
    row : uint32 (r,)
        Rows, each counted from the first row of its block.
    slots, nodes : int64 (groups,)
        The histogram of each group of rows, and the row of ``bounds`` that has its positions.
    word : int64 (r,), or (0,) if rows are not added as words
    packing : reference to Packing
    sums : int64 (groups * F * BINS,)
        Sums of words that are not added to histograms yet.
    added : int64 (groups, F)
        Number of words in each sum.
    has_sums : int64 (1,)
        Set to 1 when sums of words are added to the thread's histograms because they are full.
    summands : int64 (r, s), or (0, 4) for several classes
        What each row adds to the sums of a bin.
    hessian, label : int64 (r,), or (0,) without several classes
    counted : int
        For several classes, index of the count among the sums of a bin; 0 if there is none.
    """

    row: np.ndarray
    slots: np.ndarray
    nodes: np.ndarray
    word: np.ndarray = np.zeros(0, np.int64)
    packing: Reference = by_reference(choose_gradient_packing(1, 1, False))
    sums: np.ndarray = np.zeros(0, np.int64)
    added: np.ndarray = np.zeros((0, 0), np.int64)
    has_sums: np.ndarray = np.zeros(1, np.int64)
    summands: np.ndarray = np.zeros((0, FOUR), np.int64)
    hessian: np.ndarray = np.zeros(0, np.int64)
    label: np.ndarray = np.zeros(0, np.int64)
    counted: int = 0


@entry
def open_rows(node, row):
    """Set the first entries of ``row``, which may be ``node``, to the rows of a block in a tree."""
    n = 0
    for i in range(node.size):
        is_open = node[i] >= 0
        row[n] = i
        n += is_open


@entry
def open_words(weight, value, inside, times_weight, packing, row, word, sums):
    """Set ``row`` and ``word`` to the rows of a block in a tree, and their words.

    Gradients are values, or values times weights. ``inside`` is the mask of the rows, or empty for
    those of positive weight. Their number, hessians and gradients are added to ``sums``.
    """
    n, total, hessians = 0, np.int64(0), np.int64(0)
    for i in range(weight.size):
        hessian = np.int64(weight[i])
        gradient = np.int64(value[i]) * (hessian if times_weight else np.int64(1))
        is_open = np.int64(inside[i] if inside.size else hessian > 0)
        row[n], word[n] = i, pack(gradient, hessian, packing)
        n += is_open
        hessians += hessian * is_open
        total += gradient * is_open
    sums[0] += n
    sums[1] += hessians
    sums[2] += total


@helper
def _send_rows(codes, column, step, before, after, row, word, spare):
    """Move the rows of each node that go left before the others; both sides keep their order.

    ``before``, int64 (m, 2), has the positions of the nodes' rows in ``row`` and ``word``, and
    ``after`` is set to those of their children. ``column`` and ``step`` are as in `Pending`. Each
    row is written to both sides, as in `common.partition.partition`; ``spare`` (2, r) is a buffer.
    """
    for node in range(column.size):
        if column[node] < 0:
            continue
        own, to_right, child = codes[column[node]], step[node], step[node, 0] & ~1
        start, stop = np.uint64(before[node, 0]), np.uint64(before[node, 1])
        left, right, has_words = start, np.uint64(0), word.size > 0
        for i in range(start, stop):
            r = row[i]
            is_right = np.uint64(to_right[own[np.uint64(r)]] & 1)
            row[left], spare[0, right] = r, r
            if has_words:
                summand = word[i]
                word[left], spare[1, right] = summand, summand
            left += np.uint64(1) - is_right
            right += is_right
        for i in range(right):
            row[left + i] = spare[0, i]
            if has_words:
                word[left + i] = spare[1, i]
        after[child, 0], after[child, 1] = start, left
        after[child + 1, 0], after[child + 1, 1] = left, stop


@entry
def send_rows(codes, column, step, before, after, row, word, spare):
    """Do `_send_rows` for calls from Python."""
    _send_rows(codes, column, step, before, after, row, word, spare)


@helper
def _add_tile(codes, first, rows, own, at):
    """Add words of rows to the sums of `TOGETHER` columns."""
    word, sums = own.word, own.sums
    for i in range(np.uint64(rows[0]), np.uint64(rows[1])):
        row, summand = np.uint64(own.row[i]), word[i]
        for f in range(TOGETHER):
            code = codes[first + np.uint64(f), row]
            sums[at + np.uint64(f * BINS) + np.uint64(code)] += summand


@helper
def _add_column(codes, column, rows, own, at):
    """Add words of rows to the sums of a column."""
    for i in range(np.uint64(rows[0]), np.uint64(rows[1])):
        own.sums[at + np.uint64(codes[column, np.uint64(own.row[i])])] += own.word[i]


@helper
def _add_up(own, group, features, sums, shape):
    """Add the sums of words of a group and of some features to its histogram, and zero them."""
    n_slots, width, size, packing = shape[1], shape[2], shape[3], own.packing
    for f in range(features[0], features[1]):
        at = np.uint64((group * own.added.shape[1] + f) * BINS)
        cell = np.uint64((f * n_slots + own.slots[group]) * width * size)
        for code in range(at, at + np.uint64(width)):
            word = own.sums[code]
            own.sums[code] = 0
            sums[cell] += hessian_of(word, packing)
            sums[cell + np.uint64(1)] += gradient_of(word, packing)
            if packing.count_mask > 0:
                sums[cell + np.uint64(2)] += count_of(word, packing)
            cell += np.uint64(size)
        own.added[group, f] = 0


@helper
def _add_words(codes, columns, group_rows, own, sums, shape):
    """Add the words of a group of rows to their sums, and these to the histogram if they are full.

    ``columns`` are a range of the chunk's, and ``group_rows`` the group and its rows. When a block
    begins, ``added`` is the same for all features of a group, because a block is added to all of
    them; so the first stands for all.
    """
    (group, (begin, end)), full, first = group_rows, own.packing.block, columns[0] + shape[0]
    features = first, columns[1] + shape[0]
    n_tiled = np.uint64((columns[1] - columns[0]) // TOGETHER * TOGETHER)
    column, at = np.uint64(columns[0]), np.uint64((group * own.added.shape[1] + first) * BINS)
    for start in range(begin, end, full):
        rows = start, min(start + full, end)
        if own.added[group, first] + rows[1] - rows[0] > full:
            own.has_sums[0] = 1
            _add_up(own, group, features, sums, shape)
        for f in range(features[0], features[1]):
            own.added[group, f] += rows[1] - rows[0]
        for at_row in range(rows[0], rows[1], NEAR_ROWS):
            block = at_row, min(at_row + NEAR_ROWS, rows[1])
            for f in range(np.uint64(0), n_tiled, np.uint64(TOGETHER)):
                _add_tile(codes, column + f, block, own, at + f * np.uint64(BINS))
            for f in range(n_tiled, np.uint64(features[1] - first)):
                _add_column(codes, column + f, block, own, at + f * np.uint64(BINS))


@entry
def add_up_words(own, features, sums, shape):
    """Add all sums of words of a range of features to the histograms ``sums``."""
    for group in range(own.slots.size):
        for f in range(features[0], features[1]):
            if own.added[group, f] > 0:
                _add_up(own, group, (f, f + 1), sums, shape)


@helper
def _add_summands(codes, features, rows, own, sums, base, size):
    """Add rows to bins of some features; ``base`` is the first bin, and the distance of features.

    If a bin has several outputs, four of its sums are added by one instruction.
    """
    summands = own.summands
    for i in range(rows[0], rows[1]):
        row, at = np.uint64(own.row[i]), base[0]
        for f in range(features[0], features[1]):
            cell = at + np.int64(codes[f, row]) * size
            if size % FOUR == 0:
                for first in range(0, size, FOUR):
                    add_four(sums, cell + first, summands, i, first)
            else:
                for p in range(size):
                    sums[cell + p] += summands[i, p]
            at += base[1]


@helper
def _add_classes(codes, features, rows, own, sums, base, size):
    """Add rows of several classes to bins of some features; ``base`` as in `_add_summands`."""
    hessian, label, counted = own.hessian, own.label, own.counted
    for i in range(rows[0], rows[1]):
        row, at, weight = np.uint64(own.row[i]), base[0], hessian[i]
        for f in range(features[0], features[1]):
            cell = np.uint64(at + np.int64(codes[f, row]) * size)
            sums[cell] += weight
            sums[cell + np.uint64(1 + label[i])] += weight
            sums[cell + np.uint64(counted)] += np.int64(counted > 0)
            at += base[1]


@helper
def _add_rows(codes, features, own, bounds, sums, shape):
    """Add `PreparedRows` to the histograms of a range of the features of a chunk.

    ``bounds``, int64 (m, 2), has the positions of rows, see `PreparedRows.nodes`. ``sums`` are all
    histograms, and ``shape`` (4,) has the first feature, and the numbers of histograms, bins and
    sums of a bin.
    """
    first, n_slots, size, distance = shape[0], shape[1], shape[3], shape[2] * shape[3]
    step = NEAR_COLUMNS if own.word.size else TOGETHER
    for start in range(features[0], features[1], step):
        some = start, min(start + step, features[1])
        for group in range(own.slots.size):
            node = own.nodes[group]
            rows = bounds[node, 0], bounds[node, 1]
            base = ((first + start) * n_slots + own.slots[group]) * distance, n_slots * distance
            if own.label.size:
                _add_classes(codes, some, rows, own, sums, base, size)
            elif own.word.size == 0:
                _add_summands(codes, some, rows, own, sums, base, size)
            else:
                _add_words(codes, some, (group, rows), own, sums, shape)


@entry
def add_rows(codes, features, own, bounds, sums, shape):
    """Do `_add_rows` for calls from Python."""
    _add_rows(codes, features, own, bounds, sums, shape)


@entry
def pass_blocks(codes, blocks, pending, bounds, spare, own, sums, shape):
    """Send and add the rows of some ``blocks`` of ``codes``, uint8 (blocks, F, r), as words.

    ``pending`` are the arrays of `Pending`, and ``bounds``, two arrays (blocks, m, 2), those before
    and after rows are sent.
    """
    (column, step), (before, after) = pending, bounds
    for block in blocks:
        own_codes, given = codes[block], (before[block], after[block], own.row, own.word, spare)
        _send_rows(own_codes, column, step, *given)
        _add_rows(own_codes, (0, codes.shape[1]), own, after[block], sums, shape)


@entry
def add_leaf_rows(rows, bounds, leaf, classes, weight, wide, sums):
    """Add the rows of leaves to rows of ``sums``, of which ``leaf`` (m,) has each node's first.

    ``bounds``, int64 (m, 2), has the positions of the nodes' rows in ``rows``. The other arrays are
    those of a block, as in `BlockPasses._add_leaves`.
    """
    for node in range(leaf.size):
        first, last = (bounds[node, 0], bounds[node, 1]) if leaf[node] >= 0 else (0, 0)
        for p in range(sums.shape[1]):
            total = np.int64(0)
            for i in range(first, last):
                row = np.uint64(rows[i])
                own = wide[row, p] * (np.int64(weight[row]) if weight.size else np.int64(1))
                if classes.size:
                    sums[leaf[node] + np.int64(classes[row]), p] += own
                else:
                    total += own
            if last > first:
                sums[leaf[node], p] += total


@entry
def send_to_leaves(codes, pending, before, row, first_row, number, found, count):
    """Set the number of each row's leaf, if all children of the last level's splits are leaves.

    ``codes`` are those of a block from ``first_row`` on, ``pending`` the arrays of `Pending`, and
    ``before`` is as in `_send_rows`. Entries of ``found``, int32 (trees, n), are set to the
    ``number`` (m,) of children, whose rows are added to ``count`` (m,).
    """
    column, step = pending
    for node in range(column.size):
        start, stop, n_right = np.uint64(before[node, 0]), np.uint64(before[node, 1]), np.uint64(0)
        if column[node] < 0 or start == stop:
            continue
        own, to_right, child = codes[column[node]], step[node], step[node, 0] & ~1
        leaf, both = found[before[node, 0] // found.shape[1], first_row:], number[child : child + 2]
        for i in range(start, stop):
            is_right = np.uint64(to_right[own[np.uint64(row[i])]] & 1)
            leaf[np.uint64(row[i])] = both[is_right]
            n_right += is_right
        count[child] += np.int64(stop - start - n_right)
        count[child + 1] += np.int64(n_right)


@entry
def add_to_leaves(found, first, wide, sums):
    """Add ``wide`` (r, 2) to ``sums`` (m, 2) of leaves, which are numbered from ``first``."""
    for i in range(found.size):
        at = np.int64(found[i]) - first
        if at >= 0:
            sums[at, 0] += wide[i, 0]
            sums[at, 1] += wide[i, 1]


@entry
def set_numbers(rows, bounds, number, found):
    """Set the entries of ``found``, int32 (r,), to the number of the node of each row."""
    for node in range(number.size):
        if number[node] >= 0:
            for i in range(bounds[node, 0], bounds[node, 1]):
                found[rows[i]] = number[node]
