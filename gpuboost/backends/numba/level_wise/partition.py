"""Partition of the rows of a level, in one pass over the rows of each node.

    rows of a node, in two segments    1 2 3 4 | 5 6 7 8      (1 4 5 6 8 go left)
    each segment partitioned           1 4 3 2 | 5 6 8 7

The rows of a node lie in segments: the first segment of each node has those of its rows that are in
the first segment of the root, and so on. So threads, which take tasks near their last ones, mostly
move rows that their own caches hold. The rows of a segment that go left are written to its front,
the others to its end, in reverse; the order of rows does not matter, because sums are integers. No
rows are moved to children of maximum depth, nor to the last two leaves of a best-first tree:
`leaves` finds the leaf of such a row by the split of the parent.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.partition import goes_left, split_of
from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.threads.barrier import near_task


@inlined
def _partition(codes, row, split, mask, to):
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


@inlined
def positions_of(state, at, segment):
    """First position of the rows of node ``at`` in a segment, and the one after the last."""
    first, count = state.segments[segment, at, 0], state.segments[segment, at, 1]
    return first, first + count


@inlined
def set_children(state, at, left, segment, n_left):
    """Set the rows in a segment of the children of node ``at``, of which ``left`` is the first."""
    segments = state.segments[segment]
    segments[left, 0], segments[left, 1] = segments[at, 0], n_left
    segments[left + 1, 0] = segments[at, 0] + n_left
    segments[left + 1, 1] = segments[at, 1] - n_left


@helper
def partition_segments(samples, state, missing_code, capacity, n_nodes, barrier):
    """Move the rows of each node in `GrowState.open` to its children, segment by segment."""
    n_tasks = n_nodes * state.segments.shape[0]
    task = near_task(barrier, n_tasks)
    while task < n_tasks:
        segment, at = task // n_nodes, state.open[task % n_nodes]
        node = state.nodes[at]
        first, last = positions_of(state, at, segment)
        row = state.row[node.depth & 1, first:last]
        to = state.row[(node.depth + 1) & 1, first:last]
        split, left = split_of(node, missing_code), at // capacity * capacity + np.int64(node.left)
        if node.category >= 0:
            mask = state.masks[node.category]
            n_left = _partition(samples.codes, row, split, mask, to)
        else:
            n_left = _partition(samples.codes, row, split, None, to)
        set_children(state, at, left, segment, n_left)
        task = near_task(barrier, n_tasks)
