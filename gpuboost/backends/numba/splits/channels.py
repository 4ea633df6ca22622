"""Preparation of nodes with several channels: more than two classes, or several outputs.

A row's word holds its class in the gradient field, or 0 for outputs. Only the classes that are
present in a node are considered: absent ones add exactly +0.0 to every score. There are four ways
to sum the rows of a node, depending on the node:

    PAIR        two classes are present: the node is searched like a node of one channel (only with
                a hessian below `PAIR_UP_TO`, and not with NEWTON)
    FIELDS      a word of 64 bits has room for a field for each class: one histogram, one addition
                per row
    MOMENTS     sums over the classes of squares and products of their weights, which are updated
                once per row (`class_moments`; only with a hessian of at most `MOMENTS_UP_TO`)
    HISTOGRAMS  one histogram per class or output, for outputs one of the hessian, and one of the
                number of rows, if they are counted

    a word of FIELDS:    | class 0 | class 1 | class 2 | ... | rows, if they are counted |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.packed_words import (
    MAX_PACKED_ROWS,
    Packing,
    gradient_of,
    hessian_of,
    pack,
)
from gpuboost.backends.numba.common.records import COUNT, GRADIENT, HESSIAN
from gpuboost.backends.numba.compiler import inlined
from gpuboost.backends.numba.splits.feature_order import insertion_sort
from gpuboost.engine.criteria import NEWTON

CHANNEL_PACKING = Packing(32, 0, 2**32 - 1, 0, 1, MAX_PACKED_ROWS)  # a row's word: class, weight
PAIR, FIELDS, HISTOGRAMS, MOMENTS = 0, 1, 2, 3
# Below this hessian, products of two sums are exact, so both classes of a pair have equal terms.
# Without PAIR, a forest on covertype takes 1.08 times as long.
PAIR_UP_TO = 2**26
# Up to this hessian h, sums of the terms of VARIANCE over classes are integers of at most 2**53:
# gl_k h - g_k hl is at most h**2 / 4 in total over the classes where it is positive, and the same
# where it is negative, so the sum of the squares is at most h**4 / 8. Without MOMENTS, a forest of
# 10k x 10 with 1,000 classes takes 2.9 times as long.
MOMENTS_UP_TO = 2**14
CLASS_SHIFT = np.int64(32)  # words of HISTOGRAMS and MOMENTS: class position from this bit up
WEIGHT_MASK = np.int64(2**32 - 1)


class Channels(NamedTuple):
    """Buffers of one thread for nodes of several channels.

    Attributes
    ----------
    values : int32 (n, K), or (0, K) for classes
        Outputs or signs about the node's medians, both without weights; or gradients.
    state : int64 (4,)
        For the node: number of channels, how histograms are summed, bits of a field of FIELDS, and
        with MOMENTS the sum of the squares of the classes' weights.
    by_class, of_missing : int64 (K,)
        Weight of each class, and of its rows that miss a value; zero between features.
    sums, present, position : int64 (K,)
        For the node: sums of the present classes or of the outputs, present classes in ascending
        order, and the position of each of these classes (undefined for others, and for outputs).
    word : int64 (n,)
        For the node: the word of each row, to be summed in histograms.
    following : int64 (n,)
        With MOMENTS, 1 + the next row of the node in the same bin; 0 after the last one.
    packing : Packing
        `CHANNEL_PACKING`, the packing of `Rows.word`.
    """

    values: np.ndarray
    state: np.ndarray
    by_class: np.ndarray
    of_missing: np.ndarray
    sums: np.ndarray
    present: np.ndarray
    position: np.ndarray
    word: np.ndarray
    following: np.ndarray
    packing: Packing


@inlined
def row_packing(problem, channels):
    """The packing of `Rows.word`."""
    return problem.packing if channels is None else channels.packing


@inlined
def is_pure_node(limits, channels, rows, words):
    """Whether a node is pure (never in boosting); counts, lists and sums its channels.

    `prepare_words` fills the other fields of `Channels` for the node.
    """
    if channels.values.size:
        return _add_outputs(limits, channels, rows, words) and not limits.has_gradients
    return _add_classes(channels, words)


@inlined
def _add_outputs(limits, channels, rows, words):
    """Sum every output; return whether the rows of positive weight have equal values.

    Gradients already include the weights.
    """
    values, sums, n_outputs = channels.values, channels.sums, channels.values.shape[1]
    channels.state[0] = n_outputs
    first, is_pure = 0, True
    while first < words.size - 1 and hessian_of(words[first], CHANNEL_PACKING) == 0:
        first += 1
    for k in range(n_outputs):
        channels.present[k] = k
        total, expected = np.int64(0), values[rows[first], k]
        for i in range(words.size):
            weight, value = hessian_of(words[i], CHANNEL_PACKING), values[rows[i], k]
            total += (np.int64(1) if limits.has_gradients else weight) * value
            is_pure &= (weight == 0) | (value == expected)
        sums[k] = total
    return is_pure


@inlined
def _add_classes(channels, words):
    """List the present classes in ascending order and sum the weights of each.

    Returns whether there is at most one.
    """
    by_class, present = channels.by_class, channels.present
    n_present = 0
    for i in range(words.size):
        label = gradient_of(words[i], CHANNEL_PACKING)
        weight = hessian_of(words[i], CHANNEL_PACKING)
        if by_class[label] == 0 and weight > 0:
            present[n_present] = label
            n_present += 1
        by_class[label] += weight
    sort_present(present, n_present, by_class)
    for p in range(n_present):
        label = present[p]
        channels.sums[p], channels.position[label] = by_class[label], p
        by_class[label] = 0
    channels.state[0] = n_present
    return n_present <= 1


@inlined
def sort_present(present, n, marks):
    """Sort the first ``n`` items of ``present``: the classes whose ``marks`` are above 0.

    Few classes are sorted by insertion, with about n**2 / 4 moves; otherwise all marks are read.
    """
    if n * n < 4 * marks.size:
        insertion_sort(present, n)
        return
    n = 0
    for label in range(marks.size):
        if marks[label] > 0:
            present[n] = label
            n += 1


@inlined
def _choose_sums(problem, channels, node, counts):
    """Choose how to sum the rows of the node (see above), and fill `Channels.state`.

    ``counts`` is 1 if rows are counted, else 0.
    """
    state, n_present = channels.state, channels.state[0]
    bits, rest = np.int64(0), max(node.hessian, node.count * counts)
    while rest > 0:
        bits += 1
        rest >>= 1
    state[1], state[2] = HISTOGRAMS, bits
    if channels.values.size:
        return
    is_pair = (n_present == 2) & (node.hessian < PAIR_UP_TO)
    if is_pair and problem.limits.criterion != NEWTON:
        state[1] = PAIR
    elif (n_present + counts) * bits <= 64:
        state[1] = FIELDS
    elif problem.plugins.class_moments != 0 and node.hessian <= MOMENTS_UP_TO:
        state[1], state[3] = MOMENTS, 0
        for p in range(n_present):
            state[3] += channels.sums[p] * channels.sums[p]


@inlined
def prepare_words(problem, channels, node, words):
    """Choose how to sum the rows of the node, and fill `Channels.word`."""
    state, n_present = channels.state, channels.state[0]
    counts = np.int64(problem.limits.min_samples_leaf > 1)
    _choose_sums(problem, channels, node, counts)
    if state[1] == PAIR:
        _pair_words(channels, node, words, problem.packing)
        return
    bits = state[2]
    for i in range(words.size):
        weight = hessian_of(words[i], CHANNEL_PACKING)
        # Rows of weight 0 can have a class that is not listed; they add 0 to any class.
        at = channels.position[gradient_of(words[i], CHANNEL_PACKING)] if weight > 0 else 0
        if state[1] == FIELDS:
            channels.word[i] = (weight << (at * bits)) | (counts << (n_present * bits * counts))
        else:
            channels.word[i] = (at << CLASS_SHIFT) | weight


@inlined
def _pair_words(channels, node, words, packing):
    """Fill ``word`` for one channel: the gradient is the weight in the larger class.

    If both classes have equal weights, the first is taken. Sets the gradient of the node, too.
    """
    larger = 1 if channels.sums[1] > channels.sums[0] else 0
    label = channels.present[larger]
    node.gradient = channels.sums[larger]
    for i in range(words.size):
        weight = hessian_of(words[i], CHANNEL_PACKING)
        is_larger = gradient_of(words[i], CHANNEL_PACKING) == label
        channels.word[i] = pack(weight if is_larger else np.int64(0), weight, packing)


@inlined
def ordering_channel(limits, channels):
    """Range of channels by whose sums categories are sorted: all values, or the largest class.

    If several classes have the largest weight, the first of them is taken.
    """
    if channels.values.size and limits.scored_together == channels.state[0]:
        return np.int64(0), channels.state[0]
    largest = np.int64(0)
    for p in range(1, channels.state[0]):
        if channels.sums[p] > channels.sums[largest]:
            largest = np.int64(p)
    return largest, largest + 1


@inlined
def field_of(channels, word, p):
    """Field ``p`` of a word of FIELDS: the weight of a class or, after the classes, the count."""
    bits = channels.state[2]
    return (word >> (p * bits)) & ((np.int64(1) << bits) - 1)


@inlined
def of_class(word):
    """Index in `Scratch.sums` of the class in a word, and the weight in it."""
    return np.uint64(GRADIENT) + np.uint64(word >> CLASS_SHIFT), word & WEIGHT_MASK


@inlined
def add_row(problem, channels, row, i, to, at):
    """Add row ``row``, the ``i``-th of the node, to column ``at`` of ``to``.

    ``to`` has the rows of `Scratch.sums`. For classes, its hessian is left out, because that is the
    sum of all channels.
    """
    class_row, weight = of_class(channels.word[i])
    if problem.limits.min_samples_leaf > 1:
        to[COUNT, at] += 1
    if channels.values.size == 0:
        to[class_row, at] += weight
        return
    to[HESSIAN, at] += weight
    factor = np.int64(1) if problem.limits.has_gradients else weight
    for k in range(channels.values.shape[1]):
        to[GRADIENT + k, at] += factor * channels.values[row, k]
