"""Rows that traverse the nodes of trees together, so that their memory accesses overlap.

A chunk of rows traverses tree after tree (a tree's nodes stay in the cache), in blocks of
`PREDICTION_BLOCK` rows; every row of a block that has not reached its leaf takes `STEPS` steps per
pass. Each node is packed into one record, and a leaf is its own child:

    threshold   +inf in leaves and in categorical splits, so that no value goes right by it
    feature     2 * feature + (missing goes right); 0 in leaves
    child       left child, within the tree (the right child is the next node); in a leaf, itself

Masks of categorical splits are found by a separate array, which trees without such splits do not
read: with it in the records, prediction by deep trees takes 1.07 times as long (2026-11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.compiling import parallel
from gpuboost.backends.numba.common.partition import LAST_CODE, in_mask
from gpuboost.backends.numba.compiler import entry, inlined
from gpuboost.backends.numba.predict.perfect_trees import add_values, readable
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.engine.bins import round_down_to_float32
from gpuboost.engine.ensembles.ensemble import Ensemble

# Rows that traverse a tree together, whose values stay in the L1 cache: with 2**12, prediction by
# deep trees takes 1.12 times as long (2026-11).
PREDICTION_BLOCK = 1 << 8
# Steps per row and pass (measured). With more steps, rows wait longer for memory; with fewer, row
# numbers are copied more often.
STEPS = 2
# Passes that move all rows below the upper levels of a large tree, before those in leaves are left
# out: prediction takes 0.94 of the time (2026-11-30).
FULL_PASSES = 4
AT_ROOTS = np.empty((0, 0), np.uint32), np.empty((0, 0), np.uint8)
NODE_TYPES = {
    np.dtype(kind): np.dtype(
        [("threshold", kind), ("feature", index), ("child", np.int32)], align=True
    )
    for kind, index in ((np.float32, np.int32), (np.float64, np.int32), (np.uint16, np.uint16))
}


class ForestArrays(NamedTuple):
    """An ensemble in the form that compiled code takes.

    Attributes
    ----------
    nodes : records (n_nodes,)
        Nodes of all trees.
    offset : int64 (n_trees + 1,)
        Start of each tree in ``nodes``, followed by n_nodes.
    value : float64 (n_nodes, n_values)
        Values of the nodes.
    category : int32 (n_nodes,)
        Row of a categorical split in the tree's masks, else -1.
    masks : uint32 (c, 8)
        For each of c categorical splits, the bits of the categories that go left.
    mask_offset : int64 (n_trees + 1,)
        Start of each tree in ``masks``, followed by c.
    """

    nodes: np.ndarray
    offset: np.ndarray
    value: np.ndarray
    category: np.ndarray
    masks: np.ndarray
    mask_offset: np.ndarray


def pack_forest(ensemble: Ensemble, dtype: np.dtype, n_threads: int) -> Reference:
    """Pack the nodes for rows of ``dtype``; for float32 rows, thresholds are rounded down."""

    def thresholds(own: slice) -> np.ndarray:
        is_compared = (ensemble.left[own] > 0) & (ensemble.category[own] < 0)
        threshold = np.where(is_compared, ensemble.threshold[own], np.inf)
        return round_down_to_float32(threshold) if dtype == np.float32 else threshold

    of_nodes = ensemble.feature, ensemble.missing_left
    return pack_nodes(ensemble, dtype, thresholds, *of_nodes, n_threads)


def pack_nodes(
    ensemble: Ensemble,
    dtype: np.dtype,
    thresholds: Callable[[slice], np.ndarray],
    feature: np.ndarray,
    missing_left: np.ndarray,
    n_threads: int,
) -> Reference:
    """`ForestArrays` with given thresholds of ranges of nodes, and features or groups of codes."""
    nodes = np.empty(len(feature), dtype=NODE_TYPES[dtype])
    offset, left = contiguous(ensemble.offset, np.int64), contiguous(ensemble.left, np.int32)
    given = contiguous(feature, np.int32), left, contiguous(missing_left, np.bool_)

    def pack(tree: int) -> None:
        own = slice(offset[tree], offset[tree + 1])
        pack_tree(nodes[own], thresholds(own), *(each[own] for each in given))

    parallel(pack, range(ensemble.n_trees), n_threads)
    categories = contiguous(ensemble.category, np.int32), contiguous(ensemble.masks, np.uint32)
    mask_offset = contiguous(ensemble.mask_offset, np.int64)
    value = readable(ensemble.value)
    return by_reference(ForestArrays(nodes, offset, value, *categories, mask_offset))


@entry
def pack_tree(nodes, thresholds, feature, left, missing_left):
    """Fill the records of one tree."""
    for k in range(nodes.size):
        node = nodes[k]
        node.threshold, node.feature, node.child = thresholds[k], 0, k
        if left[k] > 0:
            node.feature = 2 * feature[k] + np.int32(not missing_left[k])
            node.child = left[k]


@inlined
def _step(nodes, category, masks, k, row, shift, any_missing, any_category):
    """The node of a tree that ``row`` reaches from node ``k``; a row in a leaf stays there."""
    node = nodes[k]
    packed = np.uint32(node.feature)
    x = row[packed >> shift]
    right = x > node.threshold
    if any_missing:
        right |= (x != x) & ((packed & np.uint32(1)) == 1)
    if any_category and category[k] >= 0 and x == x:
        right = not in_mask(masks[category[k]], np.uint32(min(np.int64(x), LAST_CODE)))
    return np.uint32(node.child) + np.uint32(right)


@inlined
def _traverse(forest, tree, X, buffers, shift, n_full, any_missing, any_category):
    """Find the leaves of the rows ``X`` in one tree; each pass takes `STEPS` steps.

    The first buffer holds the nodes at which rows start, which their leaves replace. The first
    ``n_full`` passes move all rows, and the others those that are not in a leaf. A node reads the
    column ``node.feature >> shift``: ``shift`` is 1 if a feature has one column, and 0 if it has
    two, for missing values that go left and right. If not ``any_missing``, no value is NaN; if not
    ``any_category``, no split of the tree is categorical.
    """
    first, masks = forest.offset[tree], forest.masks[forest.mask_offset[tree] :]
    nodes, category = forest.nodes[first:], forest.category[first:]
    (leaf, active), n_active = buffers, np.uint64(X.shape[0])
    for _ in range(n_full):
        for i in range(n_active):
            k = leaf[i]
            for _ in range(STEPS):
                k = _step(nodes, category, masks, k, X[i], shift, any_missing, any_category)
            leaf[i] = k
    for i in range(n_active):
        active[i] = np.uint32(i)
    while n_active > 0:
        kept = np.uint64(0)
        for i in range(n_active):
            at = active[i]
            row, k = X[at], leaf[at]
            for _ in range(STEPS - 1):
                k = _step(nodes, category, masks, k, row, shift, any_missing, any_category)
            after = _step(nodes, category, masks, k, row, shift, any_missing, any_category)
            leaf[at], active[kept] = after, at
            kept += np.uint64(after != k)
        n_active = kept


@entry
def predict_rows(forest, X, shift, any_missing, total, found, starts, buffers):
    """Add the values of each row's leaves to ``total`` (rows, values), in the order of the trees.

    For ``shift``, see `_traverse`; ``any_missing`` is whether ``X`` has NaN. If ``found`` (rows,
    trees) is not empty, store the leaves, numbered within their tree, there instead. Rows start at
    the nodes whose positions in the first of ``starts`` are in the second, see `reach_leaves`; if
    that is empty, at the roots. The two ``buffers`` are of uint32 (`PREDICTION_BLOCK`,).

    Without missing values or categorical splits, simpler loops are used. With missing values, the
    loop for both takes 1.2 times as long; without, predicting 100k x 28 with 20 deep trees takes
    1.54 times as long (2026-11).
    """
    leaf, (nodes, reached) = buffers[0], starts
    n_full = FULL_PASSES if reached.size else 0
    for tree in range(forest.offset.size - 1):
        any_category = forest.mask_offset[tree] < forest.mask_offset[tree + 1]
        for start in range(0, X.shape[0], PREDICTION_BLOCK):
            rows, own = X[start : start + PREDICTION_BLOCK], total[start : start + PREDICTION_BLOCK]
            if reached.size:
                for i in range(np.uint64(rows.shape[0])):
                    leaf[i] = nodes[tree, np.uint64(reached[tree, np.uint64(start) + i])]
            else:
                leaf[:] = 0
            if any_category:
                _traverse(forest, tree, rows, buffers, shift, n_full, True, True)
            elif any_missing:
                _traverse(forest, tree, rows, buffers, shift, n_full, True, False)
            else:
                _traverse(forest, tree, rows, buffers, shift, n_full, False, False)
            if found.size:
                for i in range(rows.shape[0]):
                    found[start + i, tree] = leaf[i]
            else:
                add_values(forest.value, forest.offset[tree], leaf, own)


def traverse_forest(
    forest: Reference,
    X: np.ndarray,
    total: np.ndarray,
    found: np.ndarray,
    starts: Any = AT_ROOTS,
    columns: int = 1,
) -> None:
    """Add the values of leaves to ``total``, or fill ``found``; see `predict_rows`.

    ``columns`` is the number of columns of ``X`` for each feature: 1, or 2 for codes of rows with
    missing values (see `deep_trees.code_rows`).
    """
    any_missing = X.dtype.kind == "f" and bool(np.isnan(X).any())
    buffers = np.empty(PREDICTION_BLOCK, np.uint32), np.empty(PREDICTION_BLOCK, np.uint32)
    shift = np.uint32(2 - columns)
    predict_rows(forest, X, shift, any_missing, total, found, starts, buffers)
