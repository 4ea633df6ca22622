"""Growth of one tree in one compiled call, depth-first (best-first with max_leaf_nodes).

    evaluate the root
    while nodes wait to be split:
        take a node, partition its rows
        evaluate both children: a child is a leaf, or its split is found and it waits

A node is evaluated when it is created: its rows have just been moved and, unless they are many, are
in the cache. Without max_leaf_nodes, the order of growth does not change the tree: keys depend on
the path from the root, and nodes are numbered breadth-first at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.constraints import constrain_root
from gpuboost.backends.numba.common.nodes import keep_mask, make_children, set_node
from gpuboost.backends.numba.common.numbering import leaf_sums, number_nodes
from gpuboost.backends.numba.common.packed_words import pack
from gpuboost.backends.numba.common.partition import split_rows
from gpuboost.backends.numba.common.queue import pop_heap, push_heap
from gpuboost.backends.numba.common.records import NODE
from gpuboost.backends.numba.compiler import call_for_nothing, entry, helper
from gpuboost.backends.numba.splits.channels import row_packing
from gpuboost.backends.numba.splits.search import evaluate
from gpuboost.engine.task import NO_LIMIT

FIRST_NODES = 1024  # initial capacity of a `GrowingTree`
# Indices of `GrowingTree.numbers`: the numbers of nodes that have been evaluated and created, and
# of those that wait to be split.
EVALUATED, CREATED, WAITING = range(3)


class GrowingTree(NamedTuple):
    """The nodes of a tree during growth, with room for m nodes.

    Attributes
    ----------
    nodes : NODE (m,)
        The nodes in the order of their creation.
    waiting : int32 (m,)
        The nodes that wait to be split: a stack or, with max_leaf_nodes, a heap.
    open_groups : uint64 (m, W)
        Interaction groups that are open at each node (see `common.constraints`).
    medians : int32 (m, 2 K), or (m, 0)
        For trees of medians, the lower and upper rank of each median of a node.
    masks : uint32 (m, 16), or (0, 16) without categorical features
        Row of `GrownTree.masks` for a node's split.
    numbers : int64 (3,)
        See `EVALUATED`; all 0 before the tree is grown.
    """

    nodes: np.ndarray
    waiting: np.ndarray
    open_groups: np.ndarray
    medians: np.ndarray
    masks: np.ndarray
    numbers: np.ndarray


def make_tree(n_nodes: int, n_groups: int, n_ranks: int, any_categorical: bool) -> GrowingTree:
    """Buffers for ``n_nodes`` nodes with W = ``n_groups`` and 2 K = ``n_ranks``."""
    return GrowingTree(
        nodes=np.empty(n_nodes, NODE),
        waiting=np.empty(n_nodes, np.int32),
        open_groups=np.empty((n_nodes, n_groups), np.uint64),
        medians=np.empty((n_nodes, n_ranks), np.int32),
        masks=np.empty((n_nodes if any_categorical else 0, 16), np.uint32),
        numbers=np.zeros(3, np.int64),
    )


def enlarge(tree: GrowingTree) -> GrowingTree:
    """The tree with twice the capacity."""
    n_groups, n_ranks = tree.open_groups.shape[1], tree.medians.shape[1]
    larger = make_tree(2 * len(tree.nodes), n_groups, n_ranks, len(tree.masks) > 0)
    for field, own in zip(larger, tree, strict=True):
        field[: len(own)] = own
    return larger


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


@helper
def start(problem, channels, targets, rows, tree, root_key):
    """Load the rows of the tree, and create its root."""
    packing = row_packing(problem, channels)
    n_rows, gradient, hessian = load_rows(targets, packing, channels is None, rows)
    set_node(tree.nodes[0], 0, n_rows, gradient, hessian, np.uint64(root_key), 0)
    constrain_root(problem.limits, tree.nodes[0], tree.open_groups[0])
    tree.numbers[EVALUATED], tree.numbers[CREATED], tree.numbers[WAITING] = 0, 1, 0


@helper
def evaluate_new(problem, channels, targets, rows, tree, k):
    """Evaluate node ``k``; return whether it waits to be split."""
    nodes, plugins = tree.nodes, problem.plugins
    if problem.limits.by_median:
        given = (problem, channels, targets, rows, nodes[k], tree.medians[k])
        call_for_nothing(plugins.set_median_gradients, given)
    if not evaluate(problem, channels, rows, nodes, k, tree.open_groups):
        return False
    if problem.scratch.split[0].categorical:
        keep_mask(nodes, tree.masks, k, problem.scratch.mask)
    return True


@entry
def grow(problem, channels, targets, rows, tree, root_key):
    """Grow one tree, or go on with it, until it is grown or ``tree.nodes`` is full.

    Returns whether it is grown. If it is not, the caller doubles the capacity of ``tree``
    (`GrowingTree`) and calls again. ``channels`` is None for one channel.
    """
    limits, nodes, waiting, numbers = problem.limits, tree.nodes, tree.waiting, tree.numbers
    if numbers[CREATED] == 0:
        start(problem, channels, targets, rows, tree, root_key)
    best_first, first_new = limits.max_leaf_nodes != NO_LIMIT, numbers[EVALUATED]
    n_nodes, n_waiting = numbers[CREATED], numbers[WAITING]
    while True:
        for k in range(first_new, n_nodes):
            if evaluate_new(problem, channels, targets, rows, tree, k):
                if best_first:
                    push_heap(waiting, n_waiting, nodes, k)
                else:
                    waiting[n_waiting] = k
                n_waiting += 1
        is_done = n_waiting == 0 or n_nodes // 2 + 1 >= limits.max_leaf_nodes
        if is_done or n_nodes + 2 > nodes.size:
            numbers[EVALUATED], numbers[CREATED], numbers[WAITING] = n_nodes, n_nodes, n_waiting
            return is_done
        k = np.int64(pop_heap(waiting, n_waiting, nodes) if best_first else waiting[n_waiting - 1])
        n_waiting -= 1
        n_left = split_rows(problem, rows, nodes[k], tree.masks)
        make_children(problem, nodes, k, n_nodes, n_left, tree.open_groups)
        first_new, n_nodes = n_nodes, n_nodes + 2


@entry
def collect(problem, channels, targets, rows, tree, columns):
    """Fill the `TreeColumns` of a grown tree; return the number of masks.

    The sums of a tree of medians are left to `medians.sum_medians`. `TreeColumns.sums` is empty if
    sums are sparse, which `class_sums.sum_classes` computes.
    """
    n_masks = number_nodes(tree.nodes, columns.order.size, tree.masks, columns)
    if columns.sums.size and not problem.limits.by_median:
        packing = row_packing(problem, channels)
        leaf_sums(columns, tree.nodes, targets, rows, packing, channels is None)
    return n_masks
