"""The subtrees below small nodes; one thread grows each subtree, depth-first.

A thread copies the codes of a node's rows to its own matrix, small enough for its caches, grows the
subtree as `depth_first` does, and writes the rows back to the positions of the node, in the order
of the leaves:

    rows of a small node      17 19 42 57         numbers    0 1 2 3
    in the order of leaves    17 57 | 19 42       numbers    0 3 | 1 2

All threads number nodes in the order of creation; at the end, nodes are numbered breadth-first.

If small nodes grow by levels, too, boosting of 100k x 28 with depth 10 takes 1.88 times as long
(2026-11).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.numba.common.arguments import make_rows
from gpuboost.backends.numba.common.nodes import keep_mask, make_children
from gpuboost.backends.numba.common.packed_words import pack
from gpuboost.backends.numba.common.partition import split_rows
from gpuboost.backends.numba.common.records import Rows
from gpuboost.backends.numba.compiler import helper, inlined, spliced
from gpuboost.backends.numba.intrinsics import raise_by_one, reference_at
from gpuboost.backends.numba.level_wise.feature_sampling import set_tree
from gpuboost.backends.numba.level_wise.histograms import LOW_BYTE, fields_of
from gpuboost.backends.numba.level_wise.leaves import finish_leaves
from gpuboost.backends.numba.level_wise.partition import positions_of
from gpuboost.backends.numba.level_wise.policy import CAPACITY, list_roots
from gpuboost.backends.numba.splits.search import evaluate
from gpuboost.backends.numba.threads.barrier import barrier_wait, last_arrives, near_task, release
from gpuboost.backends.numba.threads.commands import SharedFunction


class Local(NamedTuple):
    """The rows of a small node, numbered from 0, and the buffers of one thread to split it.

    In shapes, m is the largest number of rows of a small node.

    Attributes
    ----------
    problem : Problem or None
        That of the thread, with the codes of these rows.
    row : uint32 (m,)
        Row of the matrix for each number.
    rows : Rows
        Numbers of the rows and their words, contiguous for each node.
    waiting : int64 (m + 2,)
        Nodes to be evaluated.
    """

    problem: Any  # None until it is set, then a `Reference`
    row: np.ndarray
    rows: Rows
    waiting: np.ndarray


def make_local(n_rows: int) -> Local:
    """Buffers of one thread for nodes of up to ``n_rows`` rows, without a problem."""
    return Local(
        problem=None,
        row=np.empty(n_rows, np.uint32),
        rows=make_rows(n_rows),
        waiting=np.empty(n_rows + 2, np.int64),
    )


@inlined
def _load_codes(problem, samples, local, count):
    """Fill the codes of `Local.problem` with those of the features, taken out of the columns."""
    columns, by_row, matrix = samples.columns, samples.by_row, problem.matrix
    codes, row = local.problem.matrix.codes, local.row
    for column in range(samples.n_columns):
        group, shift = np.uint64(column // 8), np.uint64(column % 8 * 8)
        first, last = columns.first[column], columns.first[column + 1]
        for at in range(first, last):
            feature = columns.order[at]
            for i in range(np.uint64(count)):
                code = (by_row[row[i], group] >> shift) & LOW_BYTE
                if last > first + 1:
                    value = np.int64(code) // columns.stride[feature] % columns.values[feature]
                    is_missing = value == matrix.n_bins[feature]
                    code = np.uint64(matrix.missing_code if is_missing else value)
                codes[feature, i] = code


@helper
def load(problem, samples, state, local, at, tree):
    """Copy the rows of a node, their words and their codes to ``local``."""
    node, bits = state.nodes[at], np.int64(samples.hessian_bits)
    n = np.uint64(0)
    for segment in range(state.segments.shape[0]):
        start, stop = positions_of(state, at, segment)
        row = state.row[node.depth & 1, start:stop]
        for i in range(np.uint64(row.size)):
            gradient, hessian = fields_of(samples.word[tree, np.uint64(row[i])], bits)
            local.row[n], local.rows.row[n] = row[i], n
            local.rows.word[n] = pack(gradient, hessian, problem.packing)
            n += np.uint64(1)
    _load_codes(problem, samples, local, node.count)


@inlined
def _put_back(state, local, at, end):
    """Write the rows of node ``end``, below the small node ``at``, to segments of the latter.

    ``end`` is a leaf, or the parent of leaves of maximum depth. A row can come to another segment
    than the one it was in.
    """
    node, segments, before = state.nodes[end], state.segments, np.int64(0)
    for segment in range(segments.shape[0]):
        own = local.rows.row[before : before + segments[segment, at, 1]]
        first = min(max(node.start - before, 0), own.size)
        own = own[first : max(node.start + node.count - before, 0)]
        segments[segment, end, 0] = segments[segment, at, 0] + first
        segments[segment, end, 1] = own.size
        before += segments[segment, at, 1]
        start, stop = positions_of(state, end, segment)
        to = state.row[node.depth & 1, start:stop]
        for i in range(np.uint64(own.size)):
            to[i] = local.row[np.uint64(own[i])]


@spliced
def _grow_below(problem, samples, state, local, at, capacity):
    """Grow the subtree below a small node."""
    tree, first = at // capacity, at // capacity * capacity
    own, waiting, n_waiting = local.problem, local.waiting, 1
    set_tree(problem.scratch, state, tree)
    nodes, groups = state.nodes[first : first + capacity], state.groups[first : first + capacity]
    load(problem, samples, state, local, at, tree)
    waiting[0] = at - first
    while n_waiting > 0:
        n_waiting -= 1
        k = waiting[n_waiting]
        if not evaluate(own, None, local.rows, nodes, k, groups):
            _put_back(state, local, at, first + k)
            continue
        if problem.scratch.split[0].categorical:
            keep_mask(state.nodes, state.masks, first + k, problem.scratch.mask)
        child = 1 + 2 * raise_by_one(state.n_splits, tree)
        if nodes[k].depth + 1 == problem.limits.max_depth:
            _put_back(state, local, at, first + k)
            make_children(problem, nodes, k, child, np.int64(0), groups)
            nodes[child + 1].count = 0  # its rows are not moved
            continue
        n_left = split_rows(own, local.rows, nodes[k], state.masks)
        make_children(problem, nodes, k, child, n_left, groups)
        waiting[n_waiting], waiting[n_waiting + 1] = child + 1, child
        n_waiting += 2


def finish_together(shared, barrier):
    """After `grow.grow_together`, grow the subtrees of small nodes and find the leaves.

    If `GrowState.n_small` is negative, `grow.grow_together` was not called, and all roots are
    small.
    """
    samples, state, capacity = shared.samples, shared.state, shared.capacities[CAPACITY]
    own = reference_at(shared.threads, barrier.thread, shared.first_thread)
    problem, local = own.problem, own.local
    if not barrier_wait(barrier):
        return
    if last_arrives(barrier):
        if state.n_small[0] < 0:
            list_roots(problem, state, shared.roots, shared.keys, shared.capacities)
        for tree in range(state.n_nodes.size):
            state.n_splits[tree] = state.n_nodes[tree] // 2
        release(barrier)
    task = near_task(barrier, state.n_small[0])
    while task < state.n_small[0]:
        _grow_below(problem, samples, state, local, state.small[task], capacity)
        task = near_task(barrier, state.n_small[0])
    if last_arrives(barrier):
        for tree in range(state.n_nodes.size):
            state.n_nodes[tree] = 2 * state.n_splits[tree] + 1
        release(barrier)
    finish_leaves(problem, shared, barrier)


FINISH_TOGETHER = SharedFunction(finish_together)
