"""Passes over chunks of codes, compiled; several threads can share the features of a chunk.

There are three ways to add rows to histograms:

    words      one channel: count, hessian and gradient of a row share a word, made once for each
               tree; words are added up, and added to the histogram before a sum could overflow
    summands   several outputs, signs about medians, or numbers too large for words: what a row adds
               to the sums of a bin, which lie side by side as in `level_wise.channels`
    classes    a row adds its weight to the hessian and to the sum of its class
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

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
from gpuboost.backends.numpy.blocks.sums import CLOSED

# Columns whose words are added in one pass over the rows. With eight, they leave the L2 cache: 1.2
# to 1.7 times as long. The number must be a constant where words are added (benchmarks/NOTES.md).
TOGETHER = 4


class PreparedRows(NamedTuple):
    """Rows of a block and tree in the form that `add_rows` takes.

    Attributes
    ----------
    place, starts : uint32 (r,), int64 (groups + 1,)
        As in `choose_rows`; only the first ``starts[-1]`` entries are set, also of ``word``.
    slots : int64 (groups,)
        The histogram of each group of rows.
    word : int64 (r,), or (0,) if rows are not added as words
    packing : reference to Packing
    sums : int64 (groups of all trees * F * BINS,)
        Sums of words that are not added to histograms yet.
    added : int64 (groups of all trees, F)
        Number of words in each sum.
    first_sum : int
        Number of the tree's first group among those of all trees.
    has_sums : int64 (1,)
        Set to 1 when sums of words are added to the thread's histograms because they are full.
    summands : int64 (r, s), or (0, 4) for several classes
        What each row adds to the sums of a bin.
    hessian, label : int64 (r,), or (0,) without several classes
    counted : int
        For several classes, index of the count among the sums of a bin; 0 if there is none.
    """

    place: np.ndarray
    starts: np.ndarray
    slots: np.ndarray
    word: np.ndarray = np.zeros(0, np.int64)
    packing: Reference = by_reference(choose_gradient_packing(1, 1, False))
    sums: np.ndarray = np.zeros(0, np.int64)
    added: np.ndarray = np.zeros((0, 0), np.int64)
    first_sum: int = 0
    has_sums: np.ndarray = np.zeros(1, np.int64)
    summands: np.ndarray = np.zeros((0, FOUR), np.int64)
    hessian: np.ndarray = np.zeros(0, np.int64)
    label: np.ndarray = np.zeros(0, np.int64)
    counted: int = 0


@entry
def pack_words(weight, value, times_weight, packing, word):
    """Set the word of each row; gradients are values, or values times weights."""
    for i in range(word.size):
        hessian = np.int64(weight[i])
        gradient = np.int64(value[i]) * (hessian if times_weight else np.int64(1))
        word[i] = pack(gradient, hessian, packing)


@entry
def choose_rows(node, group, found, starts, place, of_row, word):
    """Set ``place`` to the rows that are in groups, sorted by these, in their order otherwise.

    ``group`` (m + 1,) is the group of each node, after that of closed rows, or the number of groups
    if there is none; ``starts`` (groups + 1,) is set to the first row of each.
    ``word`` is set to the words ``of_row`` of the sorted rows; both can be empty. ``found`` (2, r)
    is a buffer.
    """
    n, none, has_words = np.uint64(0), np.uint64(starts.size - 1), of_row.size > 0
    row, own = found[0], found[1]
    for i in range(np.uint64(node.size)):  # without branches, which could not be predicted
        g = np.uint64(group[np.uint64(node[i] + 1)])
        row[n], own[n] = i, g
        n += np.uint64(g < none)
    starts[:] = 0
    for i in range(n):
        starts[np.uint64(own[i])] += 1
    total = np.int64(0)
    for g in range(starts.size):
        starts[g], total = total, total + starts[g]
    for i in range(n):
        g, own_row = np.uint64(own[i]), np.uint64(row[i])
        at = np.uint64(starts[g])
        starts[g] += 1
        place[at] = own_row
        if has_words:
            word[at] = of_row[own_row]
    for g in range(starts.size - 1, 0, -1):
        starts[g] = starts[g - 1]
    starts[0] = 0


@helper
def _add_tile(codes, first, rows, own, at):
    """Add words of rows to the sums of `TOGETHER` columns."""
    place, word, sums = own.place, own.word, own.sums
    for i in range(np.uint64(rows[0]), np.uint64(rows[1])):
        row, summand = np.uint64(place[i]), word[i]
        for f in range(TOGETHER):
            code = codes[first + np.uint64(f), row]
            sums[at + np.uint64(f * BINS) + np.uint64(code)] += summand


@helper
def _add_column(codes, column, rows, own, at):
    """Add words of rows to the sums of a column."""
    place, word, sums = own.place, own.word, own.sums
    for i in range(np.uint64(rows[0]), np.uint64(rows[1])):
        sums[at + np.uint64(codes[column, np.uint64(place[i])])] += word[i]


@helper
def _add_up(own, group, features, sums, shape):
    """Add the sums of words of a group and of some features to its histogram, and zero them."""
    n_slots, width, size, packing = shape[1], shape[2], shape[3], own.packing
    number = own.first_sum + group
    for f in range(features[0], features[1]):
        at = np.uint64((number * own.added.shape[1] + f) * BINS)
        cell = np.uint64((f * n_slots + own.slots[group]) * width * size)
        for code in range(at, at + np.uint64(width)):
            word = own.sums[code]
            own.sums[code] = 0
            sums[cell] += hessian_of(word, packing)
            sums[cell + np.uint64(1)] += gradient_of(word, packing)
            if packing.count_mask > 0:
                sums[cell + np.uint64(2)] += count_of(word, packing)
            cell += np.uint64(size)
        own.added[number, f] = 0


@helper
def _add_words(codes, columns, group, own, sums, shape):
    """Add the words of a group of rows to their sums, and these to the histogram if they are full.

    ``columns`` are at most `TOGETHER` of the chunk. When a block begins, ``added`` is the same for
    all features of a group, because a block is added to all of them; so the first stands for all.
    """
    full, first, number = own.packing.block, columns[0] + shape[0], own.first_sum + group
    features = first, columns[1] + shape[0]
    column, at = np.uint64(columns[0]), np.uint64((number * own.added.shape[1] + first) * BINS)
    for start in range(own.starts[group], own.starts[group + 1], full):
        rows = start, min(start + full, own.starts[group + 1])
        if own.added[number, first] + rows[1] - rows[0] > full:
            own.has_sums[0] = 1
            _add_up(own, group, features, sums, shape)
        for f in range(features[0], features[1]):
            own.added[number, f] += rows[1] - rows[0]
        if features[1] - first == TOGETHER:
            _add_tile(codes, column, rows, own, at)
        else:
            for f in range(np.uint64(features[1] - first)):
                _add_column(codes, column + f, rows, own, at + f * np.uint64(BINS))


@entry
def add_up_words(own, features, sums, shape):
    """Add all sums of words of a range of features to the histograms ``sums``."""
    for group in range(own.slots.size):
        for f in range(features[0], features[1]):
            if own.added[own.first_sum + group, f] > 0:
                _add_up(own, group, (f, f + 1), sums, shape)


@helper
def _add_summands(codes, features, rows, own, sums, base, size):
    """Add rows to bins of some features; ``base`` is the first bin, and the distance of features.

    If a bin has several outputs, four of its sums are added by one instruction.
    """
    place, summands = own.place, own.summands
    for i in range(rows[0], rows[1]):
        row, at = np.uint64(place[i]), base[0]
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
    place, hessian, label, counted = own.place, own.hessian, own.label, own.counted
    for i in range(rows[0], rows[1]):
        row, at, weight = np.uint64(place[i]), base[0], hessian[i]
        for f in range(features[0], features[1]):
            cell = np.uint64(at + np.int64(codes[f, row]) * size)
            sums[cell] += weight
            sums[cell + np.uint64(1 + label[i])] += weight
            sums[cell + np.uint64(counted)] += np.int64(counted > 0)
            at += base[1]


@entry
def add_rows(codes, features, own, sums, shape):
    """Add `PreparedRows` to the histograms of a range of the features of a chunk.

    ``sums`` are all histograms, and ``shape`` (4,) has the first feature, and the numbers of
    histograms, bins and sums of a bin.
    """
    first, n_slots, size, distance = shape[0], shape[1], shape[3], shape[2] * shape[3]
    for start in range(features[0], features[1], TOGETHER):
        some = start, min(start + TOGETHER, features[1])
        for group in range(own.slots.size):
            rows = own.starts[group], own.starts[group + 1]
            base = ((first + start) * n_slots + own.slots[group]) * distance, n_slots * distance
            if own.label.size:
                _add_classes(codes, some, rows, own, sums, base, size)
            elif own.word.size == 0:
                _add_summands(codes, some, rows, own, sums, base, size)
            else:
                _add_words(codes, some, group, own, sums, shape)


@entry
def send_rows(codes, column, step, node, count):
    """Replace the nodes of rows by their children, and count these rows."""
    for i in range(node.size):
        own = node[i]
        if own >= 0:
            at, child = column[own], np.int32(CLOSED)
            if at >= 0:
                child = step[own, codes[at, i]]
                count[child] += 1
            node[i] = child


@entry
def add_leaf_rows(node, place, classes, weight, wide, sums):
    """Add the rows of leaves to their sums, as `BlockSums.add_leaves`."""
    for i in range(node.size):
        leaf = place[np.int64(node[i]) + 1]
        if leaf >= 0:
            leaf += np.int64(classes[i]) if classes.size else np.int64(0)
            factor = np.int64(weight[i]) if weight.size else np.int64(1)
            for p in range(sums.shape[1]):
                sums[leaf, p] += factor * wide[i, p]


@entry
def set_leaves(node, number, found):
    """Set the leaves of rows that are in one, as `BlockSums.record_leaves`."""
    for i in range(node.size):
        leaf = number[np.int64(node[i]) + 1]
        if leaf >= 0:
            found[i] = leaf
