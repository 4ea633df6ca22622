"""Prediction with shallow trees, which are padded to perfect trees with integer thresholds.

All leaves have the depth of the deepest tree: a leaf of smaller depth becomes a node whose two
children are both the leaf, and no value goes right there. So a step is one comparison and one
addition, without checking whether a row has reached its leaf. Nodes have the positions of a heap:

    position  1        root; the children of k are 2 k and 2 k + 1
    the last  2**depth positions are the leaves; ``leaf`` has their numbers in the original tree

The bits of a float are compared as an integer of the same order, since comparisons of integers have
a lower latency than those of floats. A block of rows goes through all trees; ``values`` holds the
integers of the block column by column:

    values    column f:      feature f; a missing value is the largest integer and goes right
              column F + f:  feature f; a missing value is the smallest integer and goes left

`ROWS_PER_STEP` rows take each step together, because the steps of one row depend on each other. If
rows are processed one by one, the processor's queue of instructions holds those of only a few rows.
(With 1, 4 and 8 rows per step, a row takes 5.9, 5.0 and 4.0 ns per tree of depth 6; in the module
`traversal`, 9.9 ns, or 24 ns with missing values.) One or two rows are processed one by one, each
in `ROWS_PER_STEP` trees together: one row takes 1.3 us for 100 trees in place of 3.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.numba.compiler import entry, inlined
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.engine.bins import round_down_to_float32
from gpuboost.engine.ensembles.ensemble import Ensemble

MAX_DEPTH = 10  # the nodes of deeper perfect trees do not stay in the cache (measured)
MAX_PADDING = 2  # largest ratio of the leaves of perfect trees to the nodes of the original trees
FEATURES_PER_TREE = 16  # with more, converting to integers takes as long as it saves (measured)
PERFECT_BLOCK = 64  # rows that go through all trees together: their integers stay in the cache
ROWS_PER_STEP = 8  # rows that take a step together
MAX_SINGLE_ROWS = 2  # rows of a block that are processed one by one

_INTEGERS: dict[np.dtype, Any] = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}


def _node_type(threshold: type) -> np.dtype:
    return np.dtype([("threshold", threshold), ("column", np.uint32)], align=True)


PERFECT_TREE_TYPES = {kind: _node_type(kind) for kind in (np.uint8, np.int32, np.int64)}


class PerfectTrees(NamedTuple):
    """An ensemble of perfect trees for compiled code.

    Attributes
    ----------
    nodes : records (T, 2**depth)
        Threshold as an integer, and start of a column in ``values``; see `perfect_nodes`.
    leaf : uint32 (n_trees, 2**depth)
        Number of each leaf in its original tree.
    value : float64 (n_nodes, n_values)
        Values of the nodes of all original trees.
    offset : int64 (T + 1,)
        Start of each tree's nodes in the ensemble.
    depth : int
        Depth of every tree.
    largest, infinity : int
        Integers of missing values that go right, and of inf. Missing values that go left have the
        integer ``~largest``.
    """

    nodes: np.ndarray
    leaf: np.ndarray
    value: np.ndarray
    offset: np.ndarray
    depth: int
    largest: np.integer
    infinity: np.integer


def are_perfect_faster(ensemble: Ensemble, n_features: int) -> bool:
    """Whether perfect trees are expected to be faster than the module `traversal`.

    They are if the trees are shallow, if there are enough trees for the number of features, if
    trees have on average at least a quarter of the nodes of perfect trees, and if no split is
    categorical.
    """
    if len(ensemble.masks) or ensemble.n_trees * FEATURES_PER_TREE < n_features:
        return False
    sizes = np.diff(ensemble.offset)
    if sizes.max() >= 2 << MAX_DEPTH:
        return False
    depth = depth_of(ensemble)
    return depth <= MAX_DEPTH and ensemble.n_trees << depth <= MAX_PADDING * int(sizes.sum())


def depth_of(ensemble: Ensemble) -> int:
    """Depth of the deepest tree."""
    left, offset = contiguous(ensemble.left, np.int32), contiguous(ensemble.offset, np.int64)
    return int(deepest_leaf(left, offset, np.zeros(len(left), np.int32)))


@entry
def deepest_leaf(left, offset, depth):
    """Fill ``depth`` (n_nodes,), initially 0, with the depth of each node; return the largest."""
    largest = 0
    for tree in range(offset.size - 1):
        first = offset[tree]
        for k in range(first, offset[tree + 1]):
            largest = max(largest, depth[k])
            if left[k] > 0:
                depth[first + left[k]] = depth[k] + 1
                depth[first + left[k] + 1] = depth[k] + 1
    return largest


def make_perfect(ensemble: Ensemble, dtype: np.dtype, n_features: int) -> Reference:
    """Perfect trees for rows of ``dtype``; for float32 rows, thresholds are rounded down."""
    integer = _INTEGERS[dtype]
    column = PERFECT_BLOCK * (ensemble.feature + n_features * ensemble.missing_left)
    threshold = ordered_integers(ensemble.threshold, dtype)
    nodes, leaf = perfect_nodes(ensemble, threshold, column)
    largest, infinity = integer(np.iinfo(integer).max), np.full(1, np.inf, dtype).view(integer)[0]
    facts = contiguous(ensemble.offset, np.int64), depth_of(ensemble), largest, infinity
    return by_reference(PerfectTrees(nodes, leaf, readable(ensemble.value), *facts))


def perfect_nodes(
    ensemble: Ensemble, threshold: np.ndarray, column: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and leaves of perfect trees, from each node's threshold and column.

    Returns
    -------
    nodes : records (T, 2**depth)
        ``threshold``, of the given type, and ``column``, uint32; position 0 is not used. T is
        rounded up to a multiple of `ROWS_PER_STEP` by trees that have no leaves.
    leaf : uint32 (n_trees, 2**depth)
        Number of each leaf in its original tree.
    """
    depth, offset = depth_of(ensemble), contiguous(ensemble.offset, np.int64)
    n_padded = -(-ensemble.n_trees // ROWS_PER_STEP) * ROWS_PER_STEP
    nodes = np.zeros((n_padded, 1 << depth), dtype=PERFECT_TREE_TYPES[threshold.dtype.type])
    leaf = np.empty((ensemble.n_trees, 1 << depth), dtype=np.uint32)
    left, column = contiguous(ensemble.left, np.int32), contiguous(column, np.int32)
    node_at = np.zeros(2 << depth, np.uint32)
    fill_trees(nodes, leaf, left, threshold, column, offset, node_at)
    return nodes, leaf


def ordered_integers(threshold: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Thresholds, converted to ``dtype``, as integers of the same order: int32 or int64."""
    if dtype == np.float32:
        threshold = round_down_to_float32(threshold)
    threshold = contiguous(threshold, dtype) + dtype.type(0.0)  # -0.0 would sort below 0.0
    bits = threshold.view(_INTEGERS[dtype])
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


@entry
def fill_trees(nodes, leaf, left, threshold, column, offset, node_at):
    """Fill the positions of all trees from their nodes.

    ``node_at``, uint32 (2 * 2**depth,), is a buffer, initially zero.
    """
    n = nodes.shape[1]
    for tree in range(leaf.shape[0]):
        first = offset[tree]
        for k in range(1, n):
            at = first + node_at[k]
            if left[at] == 0:
                nodes[tree, k].threshold = np.iinfo(threshold.dtype).max
                nodes[tree, k].column = 0
                node_at[2 * k], node_at[2 * k + 1] = node_at[k], node_at[k]
            else:
                nodes[tree, k].threshold, nodes[tree, k].column = threshold[at], column[at]
                node_at[2 * k], node_at[2 * k + 1] = left[at], left[at] + 1
        for k in range(n):
            leaf[tree, k] = node_at[n + k]


@inlined
def _as_integers(bits, trees, values):
    """Fill ``values`` from the bits of the rows of a block, (m, F)."""
    n_features = bits.shape[1]
    for i in range(bits.shape[0]):
        for j in range(n_features):
            x = bits[i, j]
            is_missing = (x & trees.largest) > trees.infinity
            value = x if x >= 0 else x ^ trees.largest
            values[j * PERFECT_BLOCK + i] = trees.largest if is_missing else value
            values[(n_features + j) * PERFECT_BLOCK + i] = ~trees.largest if is_missing else value


@inlined
def _step(nodes, k, values, i):
    """Next position of row ``i`` of the block after position ``k``."""
    node = nodes[k]
    return np.uint64(2) * k + np.uint64(values[np.uint64(node.column) + i] > node.threshold)


@inlined
def _traverse(trees, tree, values, n_rows, leaf):
    """Find the leaves of the rows of a block in one tree; the last group of rows is padded."""
    nodes, n_leaves = trees.nodes[tree], np.uint64(trees.leaf.shape[1])
    for i in range(np.uint64(0), np.uint64(n_rows), np.uint64(ROWS_PER_STEP)):
        a = b = c = d = e = f = g = h = np.uint64(1)
        for _ in range(trees.depth):
            a = _step(nodes, a, values, i)
            b = _step(nodes, b, values, i + np.uint64(1))
            c = _step(nodes, c, values, i + np.uint64(2))
            d = _step(nodes, d, values, i + np.uint64(3))
            e = _step(nodes, e, values, i + np.uint64(4))
            f = _step(nodes, f, values, i + np.uint64(5))
            g = _step(nodes, g, values, i + np.uint64(6))
            h = _step(nodes, h, values, i + np.uint64(7))
        leaf[i], leaf[i + np.uint64(1)], leaf[i + np.uint64(2)] = a, b, c
        leaf[i + np.uint64(3)], leaf[i + np.uint64(4)], leaf[i + np.uint64(5)] = d, e, f
        leaf[i + np.uint64(6)], leaf[i + np.uint64(7)] = g, h
    for i in range(np.uint64(n_rows)):
        leaf[i] = trees.leaf[tree, np.uint64(leaf[i]) - n_leaves]


@inlined
def _traverse_trees(trees, tree, values, i, leaf):
    """Find the leaves of row ``i`` of the block in `ROWS_PER_STEP` trees from ``tree`` on."""
    nodes, n_leaves = trees.nodes, np.uint64(trees.leaf.shape[1])
    a = b = c = d = e = f = g = h = np.uint64(1)
    for _ in range(trees.depth):
        a = _step(nodes[tree], a, values, i)
        b = _step(nodes[tree + 1], b, values, i)
        c = _step(nodes[tree + 2], c, values, i)
        d = _step(nodes[tree + 3], d, values, i)
        e = _step(nodes[tree + 4], e, values, i)
        f = _step(nodes[tree + 5], f, values, i)
        g = _step(nodes[tree + 6], g, values, i)
        h = _step(nodes[tree + 7], h, values, i)
    leaf[0], leaf[1], leaf[2], leaf[3] = a, b, c, d
    leaf[4], leaf[5], leaf[6], leaf[7] = e, f, g, h
    for j in range(min(ROWS_PER_STEP, trees.leaf.shape[0] - tree)):
        leaf[j] = trees.leaf[tree + j, np.uint64(leaf[j]) - n_leaves]


@inlined
def _predict_row(trees, values, i, total, found, leaf):
    """Add the values of row ``i`` of the block to ``total`` (values,), or store its leaves."""
    n_trees = trees.leaf.shape[0]
    for tree in range(0, n_trees, ROWS_PER_STEP):
        _traverse_trees(trees, tree, values, np.uint64(i), leaf)
        for j in range(min(ROWS_PER_STEP, n_trees - tree)):
            if found.size:
                found[tree + j] = leaf[j]
            else:
                node = np.uint64(trees.offset[tree + j]) + np.uint64(leaf[j])
                for v in range(trees.value.shape[1]):
                    total[v] += trees.value[node, v]


@entry
def predict_perfect(trees, bits, total, found, values, leaf):
    """Add the values of each row's leaves to ``total`` (rows, values), in the order of the trees.

    If ``found`` (rows, trees) is not empty, store the leaves, numbered within their original tree,
    there instead. ``values`` (see the module) and ``leaf``, uint32 (`PERFECT_BLOCK`,), are buffers.
    """
    for start in range(0, bits.shape[0], PERFECT_BLOCK):
        rows = bits[start : start + PERFECT_BLOCK]
        stop = start + rows.shape[0]
        _as_integers(rows, trees, values)
        if rows.shape[0] <= MAX_SINGLE_ROWS:
            for i in range(rows.shape[0]):
                _predict_row(trees, values, i, total[start + i], found[start + i], leaf)
            continue
        for tree in range(trees.leaf.shape[0]):
            _traverse(trees, tree, values, rows.shape[0], leaf)
            if found.size:
                for i in range(rows.shape[0]):
                    found[start + i, tree] = leaf[i]
            else:
                add_values(trees.value, trees.offset[tree], leaf, total[start:stop])


@inlined
def add_values(value, first, leaf, total):
    """Add the value of each row's leaf in the tree whose nodes start at ``first``."""
    first = np.uint64(first)
    for v in range(np.uint64(value.shape[1])):
        for i in range(np.uint64(total.shape[0])):
            total[i, v] += value[first + leaf[i], v]


def readable(value: np.ndarray) -> np.ndarray:
    """Leaf values as contiguous float64 that can be read-only; copied only if needed."""
    return np.require(value, np.float64, ["C", "A"])


def bits_of_rows(X: np.ndarray) -> np.ndarray:
    """The bits of contiguous float32 or float64 rows as integers, without a copy."""
    return X.view(_INTEGERS[X.dtype])
