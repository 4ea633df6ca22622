"""The rule that sends a row to a child, and the stable partition of the rows of a node."""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.feature_codes import code_at, codes_of
from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.engine.task import MISSING_LEFT

LAST_CODE = 255


@inlined
def in_mask(mask, code):
    """Whether the bit of a category is set in the first 8 words of a mask."""
    code = np.uint32(code)
    return ((mask[code >> np.uint32(5)] >> (code & np.uint32(31))) & np.uint32(1)) == 1


@inlined
def goes_left(code, last_left, mask, shift):
    """Whether a split sends a code left; ``last_left`` and ``shift`` are those of `split_of`.

    If ``mask`` is None, shifted codes up to ``last_left`` go left, otherwise categories whose bit
    in the mask is set, and missing values if there is a shift.
    """
    if mask is None:
        return np.int64(np.uint8(np.int64(code) + shift)) <= last_left
    return in_mask(mask, code) | (np.int64(code) + shift == LAST_CODE + 1)


@inlined
def partition(codes, split, mask, rows, start, stop):
    """Move rows that go left before the others; both sides keep their order.

        before   r0 r1 r2 r3 r4 r5        after   r0 r3 r4 | r1 r2 r5
                 L  R  R  L  L  R

    ``codes`` are those of the split's feature (`codes_of`), and ``split`` is the last code on the
    left and the shift (`split_of`). The loop has no branch: every row is written to both sides, and
    only one counter advances. Returns the number of rows on the left.
    """
    row, word, spare_row, spare_word = rows.row, rows.word, rows.spare_row, rows.spare_word
    left, right, (last_left, shift) = np.uint64(start), np.uint64(0), split
    for i in range(np.uint64(start), np.uint64(stop)):
        r, w = row[i], word[i]
        is_left = np.uint64(goes_left(code_at(codes, r), last_left, mask, shift))
        row[left], word[left] = r, w
        spare_row[right], spare_word[right] = r, w
        left += is_left
        right += np.uint64(1) - is_left
    for i in range(right):
        row[left + i], word[left + i] = spare_row[i], spare_word[i]
    return np.int64(left) - start


@inlined
def shift_of(missing_code, missing_left):
    """What is added to codes of 8 bits before they are compared with the last one on the left.

    If missing values go left, it wraps their code, the largest one, to 0, so that a single
    comparison decides.
    """
    return np.int64(LAST_CODE + 1 - missing_code if missing_left else 0)


@inlined
def split_of(node, missing_code):
    """Feature of a split, last shifted code on the left, and the shift (`shift_of`).

    In categorical splits, the last code has no meaning.
    """
    shift = shift_of(missing_code, node.missing == MISSING_LEFT)
    return np.int64(node.feature), np.int64(node.bin) + shift, shift


@helper
def split_rows(problem, rows, node, masks):
    """Partition the rows of a node by its split; return the number of rows on the left."""
    start, stop = node.start, node.start + node.count
    feature, last_left, shift = split_of(node, problem.matrix.missing_code)
    codes, split = codes_of(problem, rows.row[start:stop], feature), (last_left, shift)
    if node.category >= 0:
        return partition(codes, split, masks[node.category], rows, start, stop)
    return partition(codes, split, None, rows, start, stop)
