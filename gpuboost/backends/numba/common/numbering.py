"""Conversion of nodes in the order of growth to the breadth-first arrays of a `GrownTree`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.numba.common.packed_words import gradient_of, hessian_of
from gpuboost.backends.numba.compiler import NAN, helper, inlined
from gpuboost.engine.task import LEAF, GrownTree


class TreeColumns(NamedTuple):
    """Buffers for the columns of one `GrownTree` of up to m nodes, in breadth-first order.

    Attributes
    ----------
    order : int32 (m,)
        The nodes in this order, by their numbers during growth.
    masks : uint32 (m, 16), or (0, 16) without categorical features
        Masks of the categorical splits, in this order.
    sums : int64 (m, s)
        Sums of the rows of each node. In depth-first growth, they must be zero initially.
    draw, gain, ... : as in `GrownTree`
    """

    order: np.ndarray
    draw: np.ndarray
    gain: np.ndarray
    count: np.ndarray  # type: ignore[assignment]
    hessian: np.ndarray
    feature: np.ndarray
    left: np.ndarray
    category: np.ndarray
    bin: np.ndarray
    next_bin: np.ndarray
    missing: np.ndarray
    masks: np.ndarray
    sums: np.ndarray


COLUMN_TYPES: dict[str, Any] = {
    "order": np.int32,
    **dict.fromkeys(("draw", "gain"), np.float64),
    **dict.fromkeys(("count", "hessian"), np.int64),
    **dict.fromkeys(("feature", "left", "category"), np.int32),
    **dict.fromkeys(("bin", "next_bin"), np.int16),
    "missing": np.int8,
}


_GROWN_NAMES = TreeColumns._fields[1:-2]


def make_columns(n_nodes: int, n_sums: int, any_categorical: bool) -> TreeColumns:
    """Buffers for a tree of ``n_nodes`` nodes with ``n_sums`` sums each."""
    return TreeColumns(
        **{name: np.empty(n_nodes, kind) for name, kind in COLUMN_TYPES.items()},
        masks=np.empty((n_nodes if any_categorical else 0, 16), np.uint32),
        sums=np.zeros((n_nodes, n_sums), np.int64),
    )


def grown_tree(tree: TreeColumns, n_nodes: int, n_masks: int) -> GrownTree:
    """The tree of ``n_nodes`` nodes in filled buffers, which it takes over if it fills them."""
    _, *columns, masks, sums = tree
    if n_nodes < len(sums):
        columns, sums = [column[:n_nodes].copy() for column in columns], sums[:n_nodes].copy()
    own = dict(zip(_GROWN_NAMES, columns, strict=True))
    return GrownTree(**own, masks=masks[:n_masks].copy(), sums=sums)


@inlined
def _add_children(node, order, reached):
    """Append the children of a node, if it has any, to the ``reached`` nodes of ``order``."""
    if node.left == 0:
        return reached
    order[reached], order[reached + 1] = node.left, node.left + 1
    return reached + 2


@inlined
def breadth_first(nodes, n_nodes, order):
    """Fill ``order`` with the nodes level by level, each level in the order of the parents."""
    order[0], reached = 0, np.int64(1)
    for i in range(n_nodes):
        reached = _add_children(nodes[order[i]], order, reached)


@helper
def number_nodes(nodes, n_nodes, masks, tree):
    """Fill all of `TreeColumns` but the sums; return the number of masks."""
    order, n_masks, reached = tree.order, 0, np.int64(1)
    order[0] = 0
    for i in range(n_nodes):
        node = nodes[order[i]]
        tree.count[i], tree.hessian[i] = node.count, node.hessian
        tree.feature[i], tree.left[i], tree.missing[i], tree.category[i] = LEAF, 0, 0, -1
        tree.bin[i], tree.next_bin[i], tree.draw[i], tree.gain[i] = 0, 0, NAN, 0.0
        if node.left == 0:
            continue
        tree.feature[i], tree.left[i] = node.feature, reached
        reached = _add_children(node, order, reached)
        tree.bin[i], tree.next_bin[i], tree.draw[i] = node.bin, node.next_bin, node.draw
        tree.missing[i], tree.gain[i] = node.missing, node.gain
        if node.category >= 0:
            for word in range(masks.shape[1]):
                tree.masks[n_masks, word] = masks[node.category, word]
            tree.category[i] = n_masks
            n_masks += 1
    return n_masks


@helper
def leaf_sums(tree, nodes, targets, rows, packing, one_channel):
    """Fill `TreeColumns.sums`: leaves are summed over their rows, parents over children."""
    for i in range(tree.order.size):
        if tree.left[i] == 0:
            _add_rows(tree.sums, i, nodes[tree.order[i]], targets, rows, packing, one_channel)
    add_up(tree, tree.order.size)


@inlined
def add_up(tree, n_nodes):
    """Set the sums of parents; children come after their parent, so one backward pass is enough."""
    sums = tree.sums
    for i in range(n_nodes - 1, -1, -1):
        left = tree.left[i]
        if left > 0:
            for column in range(sums.shape[1]):
                sums[i, column] = sums[left, column] + sums[left + 1, column]


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
