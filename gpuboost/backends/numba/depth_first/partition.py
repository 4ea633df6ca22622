"""Rows of a tree: from targets to words, and from a node to its children."""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.packed_words import gradient_of, hessian_of, pack
from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.engine.task import MISSING_LEFT


@helper
def load_rows(statistics, packing, one_channel, rows):
    """Fill ``rows`` with the rows of the tree; returns their number, gradient and hessian.

    With several channels the gradient field of a word holds the class, 0 for outputs.
    """
    n, gradient, hessian = 0, np.int64(0), np.int64(0)
    for i in range(statistics.weight.size):
        weight = np.int64(statistics.weight[i])
        if weight == 0 and (statistics.inside.size == 0 or not statistics.inside[i]):
            continue
        field = np.int64(0)
        if statistics.classes.size:
            field = np.int64(statistics.classes[i])
        elif one_channel and statistics.values.size:
            field = np.int64(statistics.values[i, 0])
        if one_channel:
            field *= weight
            if statistics.gradient.size:
                field = np.int64(statistics.gradient[i, 0])
        rows.row[n], rows.word[n] = i, pack(field, weight, packing)
        gradient += field
        hessian += weight
        n += 1
    return n, gradient, hessian


@inlined
def is_constant(words, packing):
    """Whether all rows that have weight have one value: gradients in proportion to weights."""
    first = 0
    while first < words.size and hessian_of(words[first], packing) == 0:
        first += 1
    if first == words.size:
        return True
    gradient, hessian = gradient_of(words[first], packing), hessian_of(words[first], packing)
    for i in range(first + 1, words.size):
        word = words[i]
        if gradient_of(word, packing) * hessian != gradient * hessian_of(word, packing):
            return False
    return True


@inlined
def numeric_partition(codes, feature, last_left, also_left, rows, start, stop):
    """Move rows with code <= ``last_left`` or == ``also_left`` before the others, in order.

        before   r0 r1 r2 r3 r4 r5        after   r0 r3 r4 | r1 r2 r5
                 L  R  R  L  L  R

    Without a branch: every row is written to both sides, and only the counters differ. Returns
    the number of rows on the left.
    """
    row, word, spare_row, spare_word = rows.row, rows.word, rows.spare_row, rows.spare_word
    left, right = np.uint64(start), np.uint64(0)
    for i in range(np.uint64(start), np.uint64(stop)):
        r, w = row[i], word[i]
        code = np.int64(codes[feature, r])
        goes_left = np.uint64((code <= last_left) | (code == also_left))
        row[left], word[left] = r, w
        spare_row[right], spare_word[right] = r, w
        left += goes_left
        right += np.uint64(1) - goes_left
    for i in range(right):
        row[left + i], word[left + i] = spare_row[i], spare_word[i]
    return np.int64(left) - start


@helper
def category_partition(codes, feature, mask, also_left, rows, start, stop):
    """The same for a set of categories: bit ``code`` of the first 8 words, set for left."""
    row, word, spare_row, spare_word = rows.row, rows.word, rows.spare_row, rows.spare_word
    left, right = np.uint64(start), np.uint64(0)
    for i in range(np.uint64(start), np.uint64(stop)):
        r, w = row[i], word[i]
        code = codes[feature, r]
        bit = (mask[code >> np.uint8(5)] >> np.uint32(code & np.uint8(31))) & np.uint32(1)
        goes_left = np.uint64((bit == 1) | (code == also_left))
        row[left], word[left] = r, w
        spare_row[right], spare_word[right] = r, w
        left += goes_left
        right += np.uint64(1) - goes_left
    for i in range(right):
        row[left + i], word[left + i] = spare_row[i], spare_word[i]
    return np.int64(left) - start


@inlined
def split_rows(matrix, rows, node, masks):
    """Partition the rows of a node by its split; returns how many go left."""
    start, stop, feature = node.start, node.start + node.count, np.int64(node.feature)
    also_left = matrix.missing_code if node.missing == MISSING_LEFT else -1
    if node.category >= 0:
        mask = masks[node.category]
        return category_partition(matrix.codes, feature, mask, also_left, rows, start, stop)
    return numeric_partition(
        matrix.codes, feature, np.int64(node.bin), also_left, rows, start, stop
    )
