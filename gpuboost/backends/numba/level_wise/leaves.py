"""The leaf of each row of the grown trees, and the sums of the leaves.

The leaves of rows are set node by node. Then gradients and hessians are added up in the order of
the rows, so that they are read from memory one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.packed_words import nearest_integer
from gpuboost.backends.numba.common.partition import goes_left, split_of
from gpuboost.backends.numba.compiler import helper, inlined, spliced
from gpuboost.backends.numba.intrinsics import add_to
from gpuboost.backends.numba.level_wise.partition import positions_of, set_children
from gpuboost.backends.numba.level_wise.policy import CAPACITY, ENDS, count_leaves, list_ends
from gpuboost.backends.numba.threads.barrier import last_arrives, near_task, next_task, release

LEAF_CHUNK = 1 << 13  # rows of one task of the leaf sums


class Leaves(NamedTuple):
    """The inputs and outputs of leaf sums.

    Attributes
    ----------
    inside : uint32 (m,) or (0,)
        The rows in the trees; none if all are.
    gradient : float64 (T, n) or (K, n)
        Gradient of each row in each tree, or in each channel of the only tree, times -1.
    hessian : float64 (T, n), (K, n) or (1, n)
        One row if the hessian is the same for all trees or channels.
    scales : float64 (4,)
        Two factors for gradients and two for hessians: powers of two that scale to wide integers.
    leaf : int32 (T, n)
        Leaf of each row in each tree, numbered as in `GrownTree`; rows outside the trees are not
        set.
    sums : int64 (tables, T * capacity, s)
        Sums of wide gradients and hessians of each leaf, numbered as in `GrownTree`, in one table
        per thread or one for all. With several channels, s is the number of rows of ``gradient``
        and ``hessian`` together.
    """

    inside: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    scales: np.ndarray
    leaf: np.ndarray
    sums: np.ndarray


@inlined
def _set_both(codes, row, split, mask, numbers, leaf):
    """Set the leaves of the rows of a node with the given children; return how many go left."""
    (feature, last_left, shift), n_left = split, np.int64(0)
    for i in range(np.uint64(row.size)):
        own = row[i]
        left = np.int64(goes_left(codes[feature, own], last_left, mask, shift))
        leaf[own] = numbers[np.uint64(1 - left)]
        n_left += left
    return n_left


@spliced
def set_leaf(samples, state, leaf, missing_code, capacity, at, segment):
    """Set the leaf of the rows in a segment of a leaf, or of a node whose rows were not moved.

    Both children of such a node are leaves, whose numbers of rows in the segment are set, too.
    """
    node, tree = state.nodes[at], at // capacity
    first, last = positions_of(state, at, segment)
    row = state.row[node.depth & 1, first:last]
    if node.left == 0:
        for i in range(np.uint64(row.size)):
            leaf[tree, row[i]] = state.number[at]
        return
    left, split = tree * capacity + np.int64(node.left), split_of(node, missing_code)
    numbers = state.number[left : left + 2]
    if node.category >= 0:
        mask = state.masks[node.category]
        n_left = _set_both(samples.codes, row, split, mask, numbers, leaf[tree])
    else:
        n_left = _set_both(samples.codes, row, split, None, numbers, leaf[tree])
    set_children(state, at, left, segment, n_left)


@helper
def set_leaves(samples, state, leaves, missing_code, capacity, n_ends, barrier):
    """Fill `Leaves.leaf`, taking nodes and segments until none is left."""
    n_tasks = n_ends * state.segments.shape[0]
    task = near_task(barrier, n_tasks)
    while task < n_tasks:
        at, segment = state.ends[task % n_ends], task // n_ends
        set_leaf(samples, state, leaves.leaf, missing_code, capacity, at, segment)
        task = near_task(barrier, n_tasks)


@helper
def clear_sums(state, leaves, capacity):
    """Zero the sums of all nodes."""
    for tree in range(state.n_nodes.size):
        first = tree * capacity
        leaves.sums[:, first : first + state.n_nodes[tree]] = 0


@inlined
def _add_rows(leaves, wide, sums, of_tree, rows, table):
    """Add the wide gradients and hessians of some rows to the sums of their leaves in a tree.

    They are first written to ``wide``, in a loop that is vectorised. ``of_tree`` is the number of
    the tree and of its first node, and ``rows`` the first of the rows and the one after them.
    """
    scales, inside, (tree, first) = leaves.scales, leaves.inside[rows[0] : rows[1]], of_tree
    gradient, leaf = leaves.gradient[tree], leaves.leaf[tree]
    hessian = leaves.hessian[tree if leaves.hessian.shape[0] > 1 else 0]
    of_gradient, of_hessian = (scales[0], scales[1]), (scales[2], scales[3])
    for i in range(np.uint64(rows[1] - rows[0])):
        row = np.uint64(inside[i]) if inside.size else np.uint64(rows[0]) + i
        wide[0, i] = nearest_integer(gradient[row], of_gradient[0], of_gradient[1])
        wide[1, i] = nearest_integer(hessian[row], of_hessian[0], of_hessian[1])
    for i in range(np.uint64(rows[1] - rows[0])):
        row = np.uint64(inside[i]) if inside.size else np.uint64(rows[0]) + i
        at = first + np.int64(leaf[row])
        if table < 0:
            add_to(leaves.sums, np.int64(0), at, np.int64(0), wide[0, i])
            add_to(leaves.sums, np.int64(0), at, np.int64(1), wide[1, i])
        else:
            sums[at, 0] += wide[0, i]
            sums[at, 1] += wide[1, i]


@helper
def _add_channels(leaves, sums, start, stop, table):
    """Do `_add_rows` for some rows of the only tree, which has several channels."""
    scales, n_channels, n_sums = leaves.scales, leaves.gradient.shape[0], leaves.sums.shape[2]
    for j in range(start, stop):
        row = np.int64(leaves.inside[j]) if leaves.inside.size else np.int64(j)
        at = np.int64(leaves.leaf[0, row])
        for k in range(n_sums):
            if k < n_channels:
                value = nearest_integer(leaves.gradient[k, row], scales[0], scales[1])
            else:
                value = nearest_integer(leaves.hessian[k - n_channels, row], scales[2], scales[3])
            if table < 0:
                add_to(leaves.sums, np.int64(0), at, np.int64(k), value)
            else:
                sums[at, k] += value


@helper
def sum_leaves(wide, state, leaves, capacity, barrier):
    """Fill `Leaves.sums`, taking chunks of rows until none is left.

    Rows come in their own order, so that gradients and hessians are read one after the other. The
    threads add to tables of their own, or atomically to the only one. ``wide`` is a buffer.
    """
    inside, n_trees = leaves.inside, state.n_nodes.size
    n = inside.size if inside.size else leaves.leaf.shape[1]
    chunks = (n + LEAF_CHUNK - 1) // LEAF_CHUNK
    table = np.int64(barrier.thread if leaves.sums.shape[0] >= barrier.n_threads else -1)
    sums = leaves.sums[max(table, np.int64(0))]
    task = next_task(barrier)
    while task < chunks * n_trees:
        tree, start = task // chunks, task % chunks * LEAF_CHUNK
        first, stop = tree * capacity, min(start + LEAF_CHUNK, n)
        if leaves.sums.shape[2] > 2:
            _add_channels(leaves, sums, start, stop, table)
        else:
            for begin in range(start, stop, wide.shape[1]):
                rows = begin, min(begin + wide.shape[1], stop)
                _add_rows(leaves, wide, sums, (tree, first), rows, table)
        task = next_task(barrier)


@helper
def finish_leaves(problem, shared, barrier):
    """Fill `Leaves` for the grown trees; each thread calls this."""
    samples, state, leaves = shared.samples, shared.state, shared.leaves
    capacity = shared.capacities[CAPACITY]
    if last_arrives(barrier):
        shared.level[ENDS] = list_ends(state, capacity)
        clear_sums(state, leaves, capacity)
        release(barrier)
    n_ends, missing_code = shared.level[ENDS], problem.matrix.missing_code
    set_leaves(samples, state, leaves, missing_code, capacity, n_ends, barrier)
    if last_arrives(barrier):
        count_leaves(state, n_ends, capacity)
        release(barrier)
    sum_leaves(problem.scratch.sums, state, leaves, capacity, barrier)
