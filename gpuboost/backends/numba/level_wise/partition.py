"""Partition of the rows of a level, in one pass over chunks of rows.

    rows of a node, in two chunks    1 2 3 4 | 5 6 7 8      (1 4 5 6 8 go left)
    each chunk partitioned           1 4 3 2 | 5 6 8 7
    misplaced rows swapped           1 4 6 8   5|3 2 7

The rows of a chunk that go left are written to its front, the others to its end, in reverse. If a
node has several chunks, rows on the wrong side of the boundary between its children are then
swapped. The order of a node's rows does not matter, because sums are integers. Rows of children
of maximum depth are not moved: `leaves` finds the leaf of such a row by the split of the parent.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.partition import goes_left, split_of
from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.threads.barrier import near_task


@inlined
def _partition_chunk(codes, row, split, mask, to):
    """Write the rows that go left to the front of ``to``, the others to its end, in reverse.

    Each row is written to both places, without a branch; the next row overwrites the wrong one.
    Returns how many rows go left.
    """
    (feature, last_left, shift), left, n = split, np.uint64(0), np.uint64(row.size)
    for i in range(n):
        own = row[i]
        to[left], to[n - np.uint64(1) - i + left] = own, own
        left += np.uint64(goes_left(codes[feature, own], last_left, mask, shift))
    return np.int64(left)


@helper
def partition_chunks(samples, state, work, missing_code, n_chunks, barrier):
    """Partition each chunk by itself, and count the rows that go left."""
    at = near_task(barrier, n_chunks)
    while at < n_chunks:
        chunk = work.chunks[at]
        node = state.nodes[chunk.owner]
        row = state.row[node.depth & 1, chunk.start : chunk.stop]
        to = state.row[(node.depth + 1) & 1, chunk.start : chunk.stop]
        split = split_of(node, missing_code)
        if node.category >= 0:
            mask = state.masks[node.category]
            chunk.n_left = _partition_chunk(samples.codes, row, split, mask, to)
        else:
            chunk.n_left = _partition_chunk(samples.codes, row, split, None, to)
        at = near_task(barrier, n_chunks)


@inlined
def n_misplaced(chunk):
    """How many rows of a chunk go left but lie in the right child's range."""
    return max(chunk.start + chunk.n_left - max(chunk.start, chunk.boundary), 0)


@helper
def swap_misplaced(row, chunks, at):
    """Swap the misplaced rows of a chunk with rows that go right but lie in the left child's range.

    Of the latter, the first ``n_before`` are swapped by earlier chunks.
    """
    own, other = chunks[at], np.int64(chunks[at].first)
    skipped, end = own.n_before, own.start + own.n_left
    left = end - n_misplaced(own)
    while left < end:
        right = chunks[other].start + chunks[other].n_left
        n = max(min(chunks[other].stop, own.boundary) - right, 0)
        size = min(max(n - skipped, 0), end - left)
        for i in range(np.uint64(size)):
            a, b = np.uint64(left) + i, np.uint64(right + skipped) + i
            row[a], row[b] = row[b], row[a]
        left, skipped, other = left + size, max(skipped - n, 0), other + 1


@helper
def swap_chunks(state, work, n_chunks, barrier):
    """Swap the misplaced rows of each chunk."""
    at = near_task(barrier, n_chunks)
    while at < n_chunks:
        depth = state.nodes[work.chunks[at].owner].depth
        swap_misplaced(state.row[(depth + 1) & 1], work.chunks, at)
        at = near_task(barrier, n_chunks)
