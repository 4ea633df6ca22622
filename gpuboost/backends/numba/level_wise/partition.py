"""Partition of the rows of a level.

The partition is stable and takes two passes over chunks: the first determines which rows go left
and counts them, which gives the positions of every chunk; the second moves the rows, without a
branch. Rows of children of maximum depth are not moved: `leaves` finds the leaf of such a row by
the split of the parent node.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.partition import goes_left, split_of
from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.intrinsics import prefetch
from gpuboost.backends.numba.threads.barrier import next_task

ROWS_AHEAD = 32  # rows between the prefetch of a row's data and its use


@inlined
def _mark_rows(codes, row, split, mask, is_left):
    """Set ``is_left`` to 1 for rows that `goes_left` sends left, else to 0; count the ones."""
    (feature, last_left, also_left), n_left, n = split, np.int64(0), np.uint64(row.size)
    for i in range(n):
        prefetch(codes, feature, np.int64(row[min(i + np.uint64(ROWS_AHEAD), n - np.uint64(1))]))
        left = np.uint8(goes_left(codes[feature, row[i]], last_left, mask, also_left))
        is_left[i] = left
        n_left += np.int64(left)
    return n_left


@helper
def decide_rows(samples, state, node, missing_code, chunk):
    """Fill `GrowState.goes_left` for a chunk of a split node; return how many rows go left."""
    row = state.row[node.depth & 1, chunk.start : chunk.stop]
    is_left, split = state.goes_left[chunk.start : chunk.stop], split_of(node, missing_code)
    if node.category >= 0:
        return _mark_rows(samples.codes, row, split, state.masks[node.category], is_left)
    return _mark_rows(samples.codes, row, split, None, is_left)


@helper
def decide_chunks(samples, state, work, missing_code, n_chunks, barrier):
    """First pass: mark and count the rows that go left, taking chunks until none is left."""
    at = next_task(barrier)
    while at < n_chunks:
        chunk = work.chunks[at]
        node = state.nodes[chunk.owner]
        chunk.n_left = decide_rows(samples, state, node, missing_code, chunk)
        at = next_task(barrier)


@inlined
def move_rows(row, goes_left, to, left, right):
    """Write each row to the next position of its side in ``to``; both sides keep their order."""
    for i in range(np.uint64(row.size)):
        is_left = np.uint64(goes_left[i])
        to[left if is_left else right] = row[i]
        left += is_left
        right += np.uint64(1) - is_left


@helper
def move_chunks(state, work, n_chunks, barrier):
    """Second pass: move rows, taking chunks until none is left."""
    at = next_task(barrier)
    while at < n_chunks:
        chunk = work.chunks[at]
        depth = state.nodes[chunk.owner].depth
        row = state.row[depth & 1, chunk.start : chunk.stop]
        goes_left = state.goes_left[chunk.start : chunk.stop]
        places = np.uint64(chunk.to_left), np.uint64(chunk.to_right)
        move_rows(row, goes_left, state.row[(depth + 1) & 1], places[0], places[1])
        at = next_task(barrier)
