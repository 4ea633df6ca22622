"""Prediction: rows walk down a tree together, so that waiting for memory overlaps.

Per chunk of rows, tree by tree (a tree's nodes stay in the cache), every row that has not reached
its leaf takes one step per pass. Nodes are packed into one record each. A leaf is its own child:

    threshold   +inf in leaves, so that every value, and NaN, stays
    feature     2 * feature + (missing goes right)
    child       left child, the right one follows; a leaf: itself
    category    row of the masks of all trees, or -1
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpuboost.backends.numba._shared import entry, inlined
from gpuboost.backends.numba.threads import contiguous, in_threads, row_chunks
from gpuboost.data.binning import round_down_to_float32

if TYPE_CHECKING:
    from gpuboost.engine.ensemble import Ensemble

ROWS_PER_CHUNK = 2048
LAST_CODE = 255


def _node_type(threshold: type) -> np.dtype:
    fields = [("threshold", threshold)]
    fields += [(name, np.int32) for name in ("feature", "child", "category")]
    return np.dtype(fields, align=True)


NODE_TYPES = {np.dtype(dtype): _node_type(dtype) for dtype in (np.float32, np.float64)}


class Forest(NamedTuple):
    """An ensemble for compiled code: ``nodes`` of all trees, where each starts, and masks."""

    nodes: np.ndarray
    offset: np.ndarray
    has_categories: np.ndarray
    masks: np.ndarray


def pack_forest(ensemble: Ensemble, dtype: np.dtype, n_threads: int) -> Forest:
    """Nodes for rows of ``dtype``; float32 values are compared with thresholds rounded down."""
    nodes = np.empty(len(ensemble.feature), dtype=NODE_TYPES[dtype])
    offset = contiguous(ensemble.offset, np.int64)
    has_categories = np.zeros(ensemble.n_trees, dtype=np.bool_)

    def pack_tree(tree: int) -> None:
        own = slice(offset[tree], offset[tree + 1])
        packed, left, category = nodes[own], ensemble.left[own], ensemble.category[own]
        inner = left > 0
        numeric = inner & (category < 0)
        threshold = np.where(numeric, ensemble.threshold[own], np.inf)
        if dtype == np.float32:
            threshold = round_down_to_float32(threshold)
        packed["threshold"] = threshold
        goes_right = inner & ~ensemble.missing_left[own]
        packed["feature"] = np.where(inner, 2 * ensemble.feature[own], 0) + goes_right
        packed["child"] = np.where(inner, left, np.arange(len(left)))
        in_masks = category + ensemble.mask_offset[tree]
        packed["category"] = np.where(inner & (category >= 0), in_masks, -1)
        has_categories[tree] = (packed["category"] >= 0).any()

    in_threads(pack_tree, range(ensemble.n_trees), n_threads)
    return Forest(nodes, offset, has_categories, contiguous(ensemble.masks, np.uint32))


@inlined
def _next(nodes, masks, first, k, X, row, with_categories):
    """One step of a row from node ``k``; also whether it may go on."""
    node = nodes[first + k]
    packed = np.uint32(node.feature)
    x = X[row, packed >> np.uint32(1)]
    is_missing = x != x
    right = (x > node.threshold) | (is_missing & ((packed & np.uint32(1)) == 1))
    if with_categories and node.category >= 0 and not is_missing:
        code = np.uint32(min(np.int64(x), LAST_CODE))
        word = masks[node.category, code >> np.uint32(5)]
        right = ((word >> (code & np.uint32(31))) & np.uint32(1)) == 0
    child = np.uint32(node.child)
    return child + np.uint32(right), child != k


@inlined
def _walk(forest, tree, X, leaf, active, with_categories):
    """Leaf of every row of ``X`` in one tree."""
    nodes, masks, first = forest.nodes, forest.masks, np.uint64(forest.offset[tree])
    n_active = np.uint64(X.shape[0])
    for i in range(n_active):
        leaf[i], active[i] = 0, i
    while n_active > 0:
        kept = np.uint64(0)
        for i in range(n_active):
            row = active[i]
            leaf[row], goes_on = _next(nodes, masks, first, leaf[row], X, row, with_categories)
            active[kept] = row
            kept += np.uint64(goes_on)
        n_active = kept


@inlined
def _leaves(forest, tree, X, leaf, active):
    """`_walk`, with a loop of its own for trees without categories."""
    if forest.has_categories[tree]:
        _walk(forest, tree, X, leaf, active, True)
    else:
        _walk(forest, tree, X, leaf, active, False)


@entry
def add_values(forest, value, X, total):
    """Add the value of each row's leaf to ``total`` (m, V), trees in order."""
    leaf, active = np.empty(X.shape[0], np.uint32), np.empty(X.shape[0], np.uint32)
    for tree in range(forest.offset.size - 1):
        _leaves(forest, tree, X, leaf, active)
        first = np.uint64(forest.offset[tree])
        for i in range(X.shape[0]):
            for v in range(value.shape[1]):
                total[i, v] += value[first + leaf[i], v]


@entry
def find_leaves(forest, X, found):
    """Leaf of each row in each tree: ``found`` (m, T)."""
    leaf, active = np.empty(X.shape[0], np.uint32), np.empty(X.shape[0], np.uint32)
    for tree in range(forest.offset.size - 1):
        _leaves(forest, tree, X, leaf, active)
        for i in range(X.shape[0]):
            found[i, tree] = leaf[i]


def predict(ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
    """Sum over trees of the value of each row's leaf."""
    forest = pack_forest(ensemble, X.dtype, n_threads)
    value = contiguous(ensemble.value, np.float64)
    total = np.zeros((len(X), ensemble.n_values))

    def predict_chunk(rows: slice) -> None:
        add_values(forest, value, contiguous(X[rows], X.dtype), total[rows])

    in_threads(predict_chunk, row_chunks(len(X), ROWS_PER_CHUNK), n_threads)
    return total


def apply(ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
    """Leaf of each row in each tree."""
    forest = pack_forest(ensemble, X.dtype, n_threads)
    found = np.empty((len(X), ensemble.n_trees), dtype=np.int32)

    def apply_chunk(rows: slice) -> None:
        find_leaves(forest, contiguous(X[rows], X.dtype), found[rows])

    in_threads(apply_chunk, row_chunks(len(X), ROWS_PER_CHUNK), n_threads)
    return found
