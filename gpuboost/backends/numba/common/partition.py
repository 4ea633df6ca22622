"""The rule that sends a row to a child, and the stable partition of the rows of a node."""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.intrinsics import prefetch
from gpuboost.engine.task import MISSING_LEFT

LAST_CODE = 255
ROWS_AHEAD = 32  # rows between the prefetch of a row's code and its use


@inlined
def in_mask(mask, code):
    """Whether the bit of a category is set in the first 8 words of a mask."""
    code = np.uint32(code)
    return ((mask[code >> np.uint32(5)] >> (code & np.uint32(31))) & np.uint32(1)) == 1


@inlined
def goes_left(code, last_left, mask, also_left):
    """Whether a split sends a code left.

    If ``mask`` is None, codes up to ``last_left`` go left, otherwise categories whose bit in the
    mask is set. The code ``also_left`` goes left in either case.
    """
    if mask is None:
        return (np.int64(code) <= last_left) | (code == also_left)
    return in_mask(mask, code) | (code == also_left)


@inlined
def split_of(node, missing_code):
    """Feature of a split, last code on the left, and the missing code if it goes left (else -1)."""
    also_left = np.int64(missing_code if node.missing == MISSING_LEFT else -1)
    return np.int64(node.feature), np.int64(node.bin), also_left


@inlined
def _mark_by(codes, row, split, mask, is_left):
    """Mark the rows that go left by `goes_left`; return their number."""
    (feature, last_left, also_left), n_left, n = split, np.int64(0), np.uint64(row.size)
    for i in range(n):
        prefetch(codes, feature, np.int64(row[min(i + np.uint64(ROWS_AHEAD), n - np.uint64(1))]))
        left = np.uint8(goes_left(codes[feature, row[i]], last_left, mask, also_left))
        is_left[i] = left
        n_left += np.int64(left)
    return n_left


@helper
def mark_rows(codes, missing_code, row, node, masks, is_left):
    """Mark the rows of a split node that go left; return their number."""
    split = split_of(node, missing_code)
    if node.category >= 0:
        return _mark_by(codes, row, split, masks[node.category], is_left)
    return _mark_by(codes, row, split, None, is_left)


@inlined
def move_rows(row, is_left, to, left, right):
    """Write each row to the next position of its side in ``to``; both sides keep their order.

        row   r0 r1 r2 r3 r4 r5        to   r0 r3 r4 | r1 r2 r5
              L  R  R  L  L  R

    The loop has no branch.
    """
    for i in range(np.uint64(row.size)):
        goes = np.uint64(is_left[i])
        to[left if goes else right] = row[i]
        left += goes
        right += np.uint64(1) - goes


@inlined
def _move_in_place(own, is_left, spare, n_left):
    """Do `move_rows` within an array."""
    move_rows(own, is_left, spare, np.uint64(0), np.uint64(n_left))
    for i in range(np.uint64(own.size)):
        own[i] = spare[i]


@helper
def split_rows(matrix, rows, node, masks, base):
    """Partition the rows of a node by its split, in place; return the number of rows on the left.

    ``base`` is the `NODE.start` that corresponds to the first row of ``rows``.
    """
    start, stop = node.start - base, node.start - base + node.count
    row, is_left = rows.row[start:stop], rows.is_left[: node.count]
    n_left = mark_rows(matrix.codes, matrix.missing_code, row, node, masks, is_left)
    _move_in_place(row, is_left, rows.spare_row, n_left)
    _move_in_place(rows.word[start:stop], is_left, rows.spare_word, n_left)
    return n_left
