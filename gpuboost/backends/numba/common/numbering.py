"""Conversion of nodes in the order of growth to the breadth-first arrays of a `GrownTree`."""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.packed_words import gradient_of, hessian_of
from gpuboost.backends.numba.compiler import allocating, inlined
from gpuboost.engine.task import LEAF


@inlined
def breadth_first(nodes, n_nodes, order):
    """Fill ``order`` with the nodes level by level, each level in the order of the parents."""
    order[0] = 0
    reached = 1
    for i in range(n_nodes):
        left = nodes[order[i]].left
        if left > 0:
            order[reached], order[reached + 1] = left, left + 1
            reached += 2


@allocating
def number_nodes(nodes, n_nodes, masks):
    """The columns of `GrownTree` from ``feature`` to ``hessian``, and the breadth-first order."""
    order = np.empty(n_nodes, np.int32)
    breadth_first(nodes, n_nodes, order)
    feature, left = np.empty(n_nodes, np.int32), np.zeros(n_nodes, np.int32)
    last_bin, next_bin = np.zeros(n_nodes, np.int16), np.zeros(n_nodes, np.int16)
    draw, gain = np.full(n_nodes, np.nan), np.zeros(n_nodes)
    missing, category = np.zeros(n_nodes, np.int8), np.full(n_nodes, -1, np.int32)
    count, hessian = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    kept = np.empty((masks.shape[0], 16), np.uint32)
    n_kept, child = 0, 1
    for i in range(n_nodes):
        node = nodes[order[i]]
        count[i], hessian[i], feature[i] = node.count, node.hessian, LEAF
        if node.left == 0:
            continue
        feature[i], left[i] = node.feature, child
        child += 2
        last_bin[i], next_bin[i], draw[i] = node.bin, node.next_bin, node.draw
        missing[i], gain[i] = node.missing, node.gain
        if node.category >= 0:
            kept[n_kept] = masks[node.category]
            category[i] = n_kept
            n_kept += 1
    columns = (feature, last_bin, next_bin, draw, missing, left, gain, category)
    return (*columns, kept[:n_kept].copy(), count, hessian), order


@allocating
def leaf_sums(nodes, order, left, targets, rows, packing, one_channel):
    """Column ``sums`` of `GrownTree`: leaves are summed over their rows, parents over children.

    With at most two classes and no ``wide``, a leaf's sums follow from its gradient and hessian.
    """
    n_columns, of_classes = targets.wide.shape[1], targets.classes.size > 0
    if of_classes:
        n_columns = targets.n_classes * max(n_columns, 1)
    sums = np.zeros((order.size, n_columns), np.int64)
    two_weights = one_channel and of_classes and targets.wide.size == 0
    for i in range(order.size):
        node = nodes[order[i]]
        if left[i] > 0:
            continue
        if two_weights:
            sums[i, 0] = node.hessian - node.gradient
            if targets.n_classes > 1:
                sums[i, 1] = node.gradient
        else:
            _add_rows(sums, i, node, targets, rows, packing, one_channel)
    add_up(sums, left)
    return sums


@inlined
def add_up(sums, left):
    """Set the sums of parents; children come after their parent, so one backward pass is enough."""
    for i in range(left.size - 1, -1, -1):
        if left[i] > 0:
            for column in range(sums.shape[1]):
                sums[i, column] = sums[left[i], column] + sums[left[i] + 1, column]


@inlined
def _add_rows(sums, i, node, targets, rows, packing, one_channel):
    """Add the rows of a leaf to its sums; with several classes, a row's word holds its class."""
    n_planes = targets.wide.shape[1]
    for j in range(node.start, node.start + node.count):
        row, word = rows.row[j], rows.word[j]
        group, weight = gradient_of(word, packing), hessian_of(word, packing)
        if one_channel:
            group = np.int64(targets.classes[row]) if targets.classes.size else np.int64(0)
        if n_planes == 0:
            sums[i, group] += weight
            continue
        factor = weight if targets.draws else np.int64(1)
        for plane in range(n_planes):
            sums[i, group * n_planes + plane] += targets.wide[row, plane] * factor
