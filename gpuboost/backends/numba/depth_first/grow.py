"""Growth of one tree in one compiled call, depth-first (best-first with max_leaf_nodes).

    evaluate the root
    while nodes wait to be split:
        take a node, partition its rows
        evaluate both children: a child is a leaf, or its split is found and it waits

A node is evaluated when it is created: its rows have just been moved and, unless they are many, are
in the cache. Without max_leaf_nodes, the order of growth does not change the tree: keys depend on
the path from the root, and nodes are numbered breadth-first at the end.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.constraints import constrain_root
from gpuboost.backends.numba.common.feature_sampling import clear_level_cache
from gpuboost.backends.numba.common.nodes import keep_mask, make_children, set_node
from gpuboost.backends.numba.common.numbering import leaf_sums, number_nodes
from gpuboost.backends.numba.common.packed_words import pack
from gpuboost.backends.numba.common.partition import split_rows
from gpuboost.backends.numba.common.queue import pop_heap, push_heap
from gpuboost.backends.numba.common.records import NODE
from gpuboost.backends.numba.compiler import allocating, entry, helper
from gpuboost.backends.numba.depth_first.medians import median_sums, set_median_gradients
from gpuboost.backends.numba.splits.channels import CHANNEL_PACKING
from gpuboost.backends.numba.splits.search import evaluate
from gpuboost.engine.task import NO_LIMIT

FIRST_NODES = 1024  # initial capacity of the arrays of nodes


@helper
def load_rows(targets, packing, one_channel, rows):
    """Fill ``rows`` with the rows of the tree; return the root's count, gradient and hessian.

    With several channels, the gradient field of a word holds the class, or 0 for outputs, so the
    returned gradient has no meaning. For medians of one output, it is 0 until
    `set_median_gradients` computes the signs.
    """
    n, gradient, hessian = 0, np.int64(0), np.int64(0)
    for i in range(targets.weight.size):
        weight = np.int64(targets.weight[i])
        if weight == 0 and (targets.inside.size == 0 or not targets.inside[i]):
            continue
        field = np.int64(0)
        if targets.classes.size:
            field = np.int64(targets.classes[i])
        elif one_channel and targets.values.size:
            field = np.int64(targets.values[i, 0])
        if one_channel:
            field *= weight
            if targets.gradient.size:
                field = np.int64(targets.gradient[i, 0])
        rows.row[n], rows.word[n] = i, pack(field, weight, packing)
        gradient += field
        hessian += weight
        n += 1
    return n, gradient, hessian


@allocating
def enlarge(nodes, waiting, open_groups, medians, masks):
    """Double the capacity of the nodes, and of the other arrays with an element or row per node."""
    n, size = nodes.size, 2 * nodes.size
    larger, more_waiting = np.empty(size, NODE), np.empty(size, np.int32)
    more_groups = np.empty((size, open_groups.shape[1]), np.uint64)
    more_medians = np.empty((size, medians.shape[1]), np.int32)
    more_masks = np.empty((2 * masks.shape[0], 16), np.uint32)
    larger[:n], more_waiting[:n], more_groups[:n] = nodes, waiting, open_groups
    more_medians[:n], more_masks[: masks.shape[0]] = medians, masks
    return larger, more_waiting, more_groups, more_medians, more_masks


@helper
def grow_until_full(problem, channels, targets, rows, arrays, numbers):
    """Grow a tree until no node can be split or ``nodes`` is full.

    ``arrays`` are those of `enlarge`; ``numbers`` are the first node that is not evaluated yet, the
    number of nodes, and how many of them wait to be split. Returns the last two. If this counted
    references, a random forest on covertype would take 3% longer.
    """
    limits, split, (first_new, n_nodes, n_waiting) = problem.limits, problem.scratch.split, numbers
    nodes, waiting, open_groups, medians, masks = arrays
    best_first = limits.max_leaf_nodes != NO_LIMIT
    while True:
        for k in range(first_new, n_nodes):
            if limits.by_median:
                set_median_gradients(problem, channels, targets, rows, nodes[k], medians[k])
            if not evaluate(problem, channels, rows, nodes, k, open_groups, 0):
                continue
            if split[0].categorical:
                keep_mask(nodes, masks, k, problem.scratch.mask)
            if best_first:
                push_heap(waiting, n_waiting, nodes, k)
            else:
                waiting[n_waiting] = k
            n_waiting += 1
        is_done = n_waiting == 0 or n_nodes // 2 + 1 >= limits.max_leaf_nodes
        if is_done or n_nodes + 2 > nodes.size:
            return n_nodes, n_waiting
        k = np.int64(pop_heap(waiting, n_waiting, nodes) if best_first else waiting[n_waiting - 1])
        n_waiting -= 1
        n_left = split_rows(problem.matrix, rows, nodes[k], masks, 0)
        make_children(problem, nodes, k, n_nodes, n_left, open_groups)
        first_new, n_nodes = n_nodes, n_nodes + 2


@allocating
def grow_nodes(problem, channels, targets, rows, root):
    """Grow the tree of ``root``; return the nodes, their number, masks and medians.

    ``root`` is (number of rows, gradient, hessian, key). Medians and masks have a row per node, but
    there are no masks without categorical features.
    """
    size, (n_rows, gradient, hessian, key) = FIRST_NODES, root
    nodes, waiting = np.empty(size, NODE), np.empty(size, np.int32)
    set_node(nodes[0], 0, n_rows, gradient, hessian, key, 0)
    open_groups = np.empty((size, problem.constraints.groups.shape[1]), np.uint64)
    constrain_root(problem.limits, nodes[0], open_groups[0])
    medians = np.empty((size, 2 * targets.ranks.shape[1]), np.int32)
    masks = np.empty((size if problem.matrix.any_categorical else 0, 16), np.uint32)
    numbers = np.int64(0), np.int64(1), np.int64(0)
    while True:
        arrays = nodes, waiting, open_groups, medians, masks
        n_nodes, n_waiting = grow_until_full(problem, channels, targets, rows, arrays, numbers)
        if n_nodes + 2 <= nodes.size:
            return nodes, n_nodes, masks, medians
        nodes, waiting, open_groups, medians, masks = enlarge(*arrays)
        numbers = n_nodes, n_nodes, n_waiting


@entry
def grow(problem, channels, targets, rows, root_key):
    """Grow one tree; return a tuple of the columns of `GrownTree` except ``sums``, and ``sums``.

    ``channels`` is None for one channel.
    """
    one_channel = channels is None
    packing = problem.packing if channels is None else CHANNEL_PACKING
    root = (*load_rows(targets, packing, one_channel, rows), np.uint64(root_key))
    clear_level_cache(problem.scratch)
    nodes, n_nodes, masks, medians = grow_nodes(problem, channels, targets, rows, root)
    columns, order = number_nodes(nodes, n_nodes, masks)
    if problem.limits.by_median:
        return columns, median_sums(nodes, order, medians, targets, rows, packing)
    return columns, leaf_sums(nodes, order, columns[5], targets, rows, packing, one_channel)
