"""Grows one tree in one compiled call, depth first (best-first with max_leaf_nodes).

    evaluate the root
    while nodes wait to be split:
        take one, partition its rows
        evaluate both children: each is a leaf, or its split is found and it waits

A node is evaluated when it is made, while its rows are in the cache. The order of growth does not
change the tree: keys depend on the path, and nodes are numbered breadth-first at the end.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.constraints import hold_root, pass_on_bounds
from gpuboost.backends.numba.common.feature_sampling import (
    choose_features,
    first_groups,
    forget_levels,
    is_choosy,
    pass_on_groups,
)
from gpuboost.backends.numba.common.numbering import leaf_sums, number_nodes
from gpuboost.backends.numba.common.queue import pop_heap, push_heap
from gpuboost.backends.numba.common.records import NODE
from gpuboost.backends.numba.compiler import allocating, criteria, entry, inlined, randomness
from gpuboost.backends.numba.depth_first.medians import median_sums, set_median_gradients
from gpuboost.backends.numba.depth_first.partition import is_constant, load_rows, split_rows
from gpuboost.backends.numba.splits.channels import (
    CHANNEL_PACKING,
    PAIR,
    is_pure_node,
    prepare_words,
)
from gpuboost.backends.numba.splits.search import find_split
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.task import NO_LIMIT

left_key, right_key = randomness.left_key, randomness.right_key

EPSILON = 2.0**-52
gain_of = criteria.gain_of
FIRST_NODES = 1024


@inlined
def is_leaf(limits, node):
    """Whether a node is too deep or too small to be searched."""
    small = (node.count < limits.min_samples_split) | (node.count < 2 * limits.min_samples_leaf)
    return small | (node.hessian < 2 * limits.min_hessian) | (node.depth >= limits.max_depth)


@inlined
def is_pure(limits, words, node, packing):
    """Whether the target is constant, for one channel."""
    if limits.is_regression:
        return is_constant(words, packing)
    return (node.gradient == 0) | (node.gradient == node.hessian)


@inlined
def evaluate(problem, channels, rows, nodes, k, open_groups, base):
    """Find the split of new node ``k`` and store it in the node; return False for a leaf.

    ``base``: position in the tree of the first row of ``rows``.
    """
    limits, node = problem.limits, nodes[k]
    if is_leaf(limits, node):
        return False
    if is_choosy(problem):
        choose_features(problem, nodes, k, open_groups)
    start, stop = node.start - base, node.start - base + node.count
    row, word = rows.row[start:stop], rows.word[start:stop]
    if channels is None:
        if (not limits.has_gradients) and is_pure(limits, word, node, problem.packing):
            return False
        find_split(problem, None, node, row, word)
    else:
        if is_pure_node(limits, channels, row, word):
            return False
        prepare_words(problem, channels, node, word)
        own_word = channels.word[: node.count]
        if channels.state[1] == PAIR:
            find_split(problem, None, node, row, own_word)
            if limits.criterion == VARIANCE:
                problem.scratch.split[0].score *= 2.0  # two classes with equal terms
        else:
            find_split(problem, channels, node, row, word)
    return accept(limits, problem.scratch, node)


@inlined
def accept(limits, scratch, node):
    """Copy `Scratch.split` to the node if there is a split and its gain is large enough."""
    split = scratch.split[0]
    if split.score < 0.0:
        return False
    gain = gain_of(limits.criterion, split.score, np.float64(node.hessian))
    if limits.needs_gain and gain == 0.0:
        return False
    if limits.min_impurity_decrease > 0.0:
        decrease = gain * limits.gain_unit / limits.root_hessian + EPSILON
        if not decrease >= limits.min_impurity_decrease:
            return False
    node.gain, node.draw = gain, split.draw
    node.feature, node.missing = split.feature, split.missing
    node.bin, node.next_bin = split.bin, split.next_bin
    node.left_gradient, node.left_hessian = split.left_gradient, split.left_hessian
    return True


@inlined
def set_node(node, start, count, gradient, hessian, key, depth):
    """Set up a node, which is a leaf until it is split."""
    node.start, node.count, node.key, node.depth = start, count, key, depth
    node.gradient, node.hessian = gradient, hessian
    node.left, node.category = 0, -1


@inlined
def make_children(problem, nodes, k, n_nodes, n_left):
    """Make the children of node ``k``, at ``n_nodes`` and ``n_nodes + 1``."""
    node, left, right = nodes[k], nodes[n_nodes], nodes[n_nodes + 1]
    node.left = n_nodes
    depth, key = node.depth + 1, node.key
    gradient, hessian = node.left_gradient, node.left_hessian
    set_node(left, node.start, n_left, gradient, hessian, left_key(key), depth)
    gradient, hessian = node.gradient - gradient, node.hessian - hessian
    start, count = node.start + n_left, node.count - n_left
    set_node(right, start, count, gradient, hessian, right_key(key), depth)
    pass_on_bounds(problem, node, left, right)


@allocating
def add_mask(masks, n_masks, mask):
    """Store the categories of a split; ``masks`` is enlarged if it is full."""
    if n_masks == masks.shape[0]:
        larger = np.empty((max(2 * n_masks, 16), 16), np.uint32)
        larger[:n_masks] = masks
        masks = larger
    masks[n_masks] = mask
    return masks


@allocating
def enlarge(nodes, waiting, open_groups, medians):
    """Double the capacity for nodes and for the arrays that go with them."""
    n, size = nodes.size, 2 * nodes.size
    larger, more_waiting = np.empty(size, NODE), np.empty(size, np.int32)
    more_groups = np.empty((size, open_groups.shape[1]), np.uint64)
    more_medians = np.empty((size, medians.shape[1]), np.int32)
    larger[:n], more_waiting[:n], more_groups[:n] = nodes, waiting, open_groups
    more_medians[:n] = medians
    return larger, more_waiting, more_groups, more_medians


@allocating
def grow_nodes(problem, channels, targets, rows, root):
    """Split nodes until none waits; return the nodes, their number, masks and medians.

    ``root``: number of rows, gradient, hessian, key.
    """
    limits, scratch, (n_rows, gradient, hessian, key) = problem.limits, problem.scratch, root
    nodes, waiting = np.empty(FIRST_NODES, NODE), np.empty(FIRST_NODES, np.int32)
    masks, n_masks = np.empty((0, 16), np.uint32), 0
    set_node(nodes[0], 0, n_rows, gradient, hessian, key, 0)
    hold_root(limits, nodes[0])
    open_groups = first_groups(problem, nodes.size)
    medians = np.empty((nodes.size, 2 * targets.ranks.shape[1]), np.int32)
    n_nodes, n_waiting, first_new = 1, 0, 0
    best_first = limits.max_leaf_nodes != NO_LIMIT
    while True:
        for k in range(first_new, n_nodes):
            if limits.by_median:
                set_median_gradients(problem, channels, targets, rows, nodes[k], medians[k])
            if not evaluate(problem, channels, rows, nodes, k, open_groups, 0):
                continue
            if scratch.split[0].categorical:
                masks = add_mask(masks, n_masks, scratch.mask)
                nodes[k].category = n_masks
                n_masks += 1
            if best_first:
                push_heap(waiting, n_waiting, nodes, k)
            else:
                waiting[n_waiting] = k
            n_waiting += 1
        if n_waiting == 0 or n_nodes // 2 + 1 >= limits.max_leaf_nodes:
            return nodes, n_nodes, masks, medians
        if n_nodes + 2 > nodes.size:
            nodes, waiting, open_groups, medians = enlarge(nodes, waiting, open_groups, medians)
        k = np.int64(pop_heap(waiting, n_waiting, nodes) if best_first else waiting[n_waiting - 1])
        n_waiting -= 1
        n_left = split_rows(problem.matrix, rows, nodes[k], masks, 0)
        make_children(problem, nodes, k, n_nodes, n_left)
        pass_on_groups(problem.constraints, nodes, k, open_groups)
        first_new, n_nodes = n_nodes, n_nodes + 2


@entry
def grow(problem, channels, targets, rows, root_key):
    """Grow one tree; return the columns of `GrownTree`. ``channels`` is None for one channel."""
    one_channel = channels is None
    packing = problem.packing if channels is None else CHANNEL_PACKING
    root = (*load_rows(targets, packing, one_channel, rows), np.uint64(root_key))
    forget_levels(problem.scratch)
    nodes, n_nodes, masks, medians = grow_nodes(problem, channels, targets, rows, root)
    columns, order = number_nodes(nodes, n_nodes, masks)
    if problem.limits.by_median:
        return columns, median_sums(nodes, order, medians, targets, rows, packing)
    return columns, leaf_sums(nodes, order, columns[5], targets, rows, packing, one_channel)
