"""Partition of the rows of a level, and leaf sums.

The partition is stable and takes two passes over chunks: the first determines which rows go left
and counts them, which gives the positions of every chunk; the second moves the rows, without a
branch. Rows of children of maximum depth are needed only for leaf sums, so they are not moved: the
leaf of such a row follows from the split of the parent node.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.packed_words import nearest_integer
from gpuboost.backends.numba.common.partition import goes_left, split_of
from gpuboost.backends.numba.compiler import helper, inlined, spliced
from gpuboost.backends.numba.intrinsics import prefetch
from gpuboost.backends.numba.threads.barrier import next_task

ROWS_AHEAD = 32  # rows between the prefetch of a row's data and its use


class Leaves(NamedTuple):
    """The inputs and outputs of leaf sums.

    Attributes
    ----------
    gradient : float64 (T, n)
        Gradient of each row in each tree, times -1.
    hessian : float64 (T, n) or (1, n)
        One row if the hessian is the same for all trees.
    scales : float64 (4,)
        Two factors for gradients and two for hessians: powers of two that scale to wide integers.
    leaf : int32 (T, n)
        Leaf of each row in each tree, numbered as in `GrownTree`; rows outside the trees are not
        set.
    sums : int64 (c, 2, 3)
        For each of c chunks and each side, the number of rows, and the sums of wide gradients and
        hessians. In a chunk of a leaf, not of its parent, all rows are on the left side.
    """

    gradient: np.ndarray
    hessian: np.ndarray
    scales: np.ndarray
    leaf: np.ndarray
    sums: np.ndarray


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


@spliced
def sum_end(samples, state, leaves, missing_code, capacity, chunk, sums):
    """Compute the leaf sums of a chunk of a leaf, or of a node whose rows were not moved.

    Both children of such a node are leaves, with one row of ``sums`` each. Also sets `Leaves.leaf`.
    """
    node, tree = state.nodes[chunk.owner], chunk.owner // capacity
    row = state.row[node.depth & 1, chunk.start : chunk.stop]
    goes_left = state.goes_left[chunk.start : chunk.stop]
    numbers, scales = state.number[chunk.owner : chunk.owner + 2], leaves.scales
    gradient, leaf = leaves.gradient[tree], leaves.leaf[tree]
    hessian = leaves.hessian[tree if leaves.hessian.shape[0] > 1 else 0]
    sums[:] = 0
    if node.left > 0:
        decide_rows(samples, state, node, missing_code, chunk)
        numbers = state.number[tree * capacity + node.left : tree * capacity + node.left + 2]
    else:
        goes_left[:] = 1
    of_hessian, n = np.int64(tree if leaves.hessian.shape[0] > 1 else 0), np.uint64(row.size)
    for i in range(n):
        later = np.int64(row[min(i + np.uint64(ROWS_AHEAD), n - np.uint64(1))])
        prefetch(leaves.gradient, np.int64(tree), later)
        prefetch(leaves.hessian, of_hessian, later)
        prefetch(leaves.leaf, np.int64(tree), later)
        at, side = np.uint64(row[i]), np.uint64(1) - np.uint64(goes_left[i])
        leaf[at] = numbers[side]
        sums[side, 0] += 1
        sums[side, 1] += nearest_integer(gradient[at], scales[0], scales[1])
        sums[side, 2] += nearest_integer(hessian[at], scales[2], scales[3])


@helper
def sum_ends(samples, state, work, leaves, places, n_chunks, barrier):
    """Compute the leaf sums of all chunks and fill `Leaves.leaf`, taking chunks until none is left.

    ``places`` is (missing code, capacity of a tree).
    """
    at = next_task(barrier)
    while at < n_chunks:
        chunk, sums = work.chunks[at], leaves.sums[at]
        sum_end(samples, state, leaves, places[0], places[1], chunk, sums)
        at = next_task(barrier)
