"""Prediction: rows traverse a tree together, so that their memory accesses overlap.

A chunk of rows traverses tree after tree (a tree's nodes stay in the cache), in blocks of
`PREDICTION_BLOCK` rows; every row of a block that has not reached its leaf takes `STEPS` steps per
pass. Each node is packed into one record, and a leaf is its own child:

    threshold   +inf in leaves and in categorical splits, so that no value goes right by it
    feature     2 * feature + (missing goes right); 0 in leaves
    child       left child, within the tree (the right child is the next node); in a leaf, itself

Masks of categorical splits are found by a separate array, which trees without such splits do not
read: with it in the records, prediction by deep trees takes 1.07 times as long (2026-11).

If `are_perfect_faster` returns True (there are enough trees, which are shallow and not too sparse,
and no split is categorical), `predict` and `apply` use `perfect_trees` instead.

An ensemble is packed at the first call for each type of rows (see `backends.packed`).
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.partition import LAST_CODE, in_mask
from gpuboost.backends.numba.compiler import entry, inlined
from gpuboost.backends.numba.predict.coded_trees import (
    CODED_BLOCK,
    MIN_CODED_ROWS,
    CodedTrees,
    coded_buffers,
    make_coded,
    predict_coded,
)
from gpuboost.backends.numba.predict.perfect_trees import (
    PERFECT_BLOCK,
    PerfectTrees,
    add_values,
    are_perfect_faster,
    bits_of_rows,
    make_perfect,
    predict_perfect,
    readable,
)
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.threads.map import contiguous, map_in_order, row_chunks
from gpuboost.backends.packed import PackedEnsembles
from gpuboost.engine.bins import round_down_to_float32
from gpuboost.engine.ensembles.ensemble import Ensemble

# Maximum rows of one task: each tree's nodes are fetched once per task (measured: 110 ns per row
# and tree with 2**11 rows, 31 ns with 2**16). The values of a task's rows, which are copied unless
# they are contiguous, take at most `CHUNK_BYTES` bytes, unless a single row takes more.
PREDICTION_CHUNK = 1 << 16
CHUNK_BYTES = 1 << 25
# Rows that traverse a tree together, whose values stay in the L1 cache: with 2**12, prediction by
# deep trees takes 1.12 times as long (2026-11).
PREDICTION_BLOCK = 1 << 8
# Steps per row and pass (measured). With more steps, rows wait longer for memory; with fewer, row
# numbers are copied more often.
STEPS = 2


NODE_TYPES = {
    np.dtype(kind): np.dtype(
        [("threshold", kind), ("feature", np.int32), ("child", np.int32)], align=True
    )
    for kind in (np.float32, np.float64)
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
    nodes = np.empty(len(ensemble.feature), dtype=NODE_TYPES[dtype])
    offset = contiguous(ensemble.offset, np.int64)
    feature, left = contiguous(ensemble.feature, np.int32), contiguous(ensemble.left, np.int32)
    category = contiguous(ensemble.category, np.int32)
    missing_left = contiguous(ensemble.missing_left, np.bool_)

    def pack(tree: int) -> None:
        own = slice(offset[tree], offset[tree + 1])
        threshold = ensemble.threshold[own]
        if dtype == np.float32:
            threshold = round_down_to_float32(threshold)
        columns = feature[own], left[own], category[own], missing_left[own]
        pack_tree(nodes[own], contiguous(threshold, dtype), *columns)

    list(map_in_order(pack, range(ensemble.n_trees), n_threads))
    masks = contiguous(ensemble.masks, np.uint32), contiguous(ensemble.mask_offset, np.int64)
    return by_reference(ForestArrays(nodes, offset, readable(ensemble.value), category, *masks))


@entry
def pack_tree(nodes, thresholds, feature, left, category, missing_left):
    """Fill the records of one tree."""
    for k in range(nodes.size):
        node = nodes[k]
        node.threshold, node.feature, node.child = np.inf, 0, k
        if left[k] > 0:
            node.feature = 2 * feature[k] + np.int32(not missing_left[k])
            node.child = left[k]
            if category[k] < 0:
                node.threshold = thresholds[k]


@inlined
def _step(nodes, category, masks, k, X, row, any_missing, any_category):
    """The node of a tree that a row reaches from node ``k``; a row in a leaf stays there."""
    node = nodes[k]
    packed = np.uint32(node.feature)
    x = X[row, packed >> np.uint32(1)]
    right = x > node.threshold
    if any_missing:
        right |= (x != x) & ((packed & np.uint32(1)) == 1)
    if any_category and category[k] >= 0 and x == x:
        right = not in_mask(masks[category[k]], np.uint32(min(np.int64(x), LAST_CODE)))
    return np.uint32(node.child) + np.uint32(right)


@inlined
def _traverse(forest, tree, X, rows, leaf, active, any_missing, any_category):
    """Find the leaves of a range of rows of ``X`` in one tree; each pass takes `STEPS` steps.

    If not ``any_missing``, no row has missing values; if not ``any_category``, no split of the tree
    is categorical.
    """
    first, masks = forest.offset[tree], forest.masks[forest.mask_offset[tree] :]
    nodes, category = forest.nodes[first:], forest.category[first:]
    n_active = np.uint64(rows[1] - rows[0])
    for i in range(n_active):
        active[i] = np.uint32(rows[0]) + np.uint32(i)
        leaf[active[i]] = 0
    while n_active > 0:
        kept = np.uint64(0)
        for i in range(n_active):
            row = active[i]
            before = leaf[row]
            for _ in range(STEPS - 1):
                before = _step(nodes, category, masks, before, X, row, any_missing, any_category)
            after = _step(nodes, category, masks, before, X, row, any_missing, any_category)
            leaf[row], active[kept] = after, row
            kept += np.uint64(after != before)
        n_active = kept


@entry
def predict_rows(forest, X, any_missing, total, found, leaf, active):
    """Add the values of each row's leaves to ``total`` (rows, values), in the order of the trees.

    ``any_missing`` is whether ``X`` has missing values. If ``found`` (rows, trees) is not empty,
    store the leaves, numbered within their tree, there instead. ``leaf`` (rows,) and ``active``
    (`PREDICTION_BLOCK`,) are uint32 buffers.

    Without missing values or categorical splits, simpler loops are used. With missing values, the
    loop for both takes 1.2 times as long; without, predicting 100k x 28 with 20 deep trees takes
    1.54 times as long (2026-11).
    """
    for tree in range(forest.offset.size - 1):
        any_category = forest.mask_offset[tree] < forest.mask_offset[tree + 1]
        for start in range(0, X.shape[0], PREDICTION_BLOCK):
            rows = (start, min(start + PREDICTION_BLOCK, X.shape[0]))
            if any_category:
                _traverse(forest, tree, X, rows, leaf, active, True, True)
            elif any_missing:
                _traverse(forest, tree, X, rows, leaf, active, True, False)
            else:
                _traverse(forest, tree, X, rows, leaf, active, False, False)
        if found.size:
            for row in range(leaf.size):
                found[row, tree] = leaf[row]
        else:
            add_values(forest.value, forest.offset[tree], leaf, total)


_forests: PackedEnsembles[Reference] = PackedEnsembles()


def packed(
    ensemble: Ensemble, dtype: np.dtype, n_features: int, n_threads: int, *, is_large: bool = False
) -> Reference:
    """The ensemble for rows of ``dtype``, packed at the first call.

    `PerfectTrees` or `ForestArrays`; or, if there are many rows, `CodedTrees` where it is faster.
    """

    def pack() -> Reference:
        is_perfect = are_perfect_faster(ensemble, n_features)
        if is_large:
            coded = make_coded(ensemble, dtype, n_threads) if is_perfect else None
            return coded or packed(ensemble, dtype, n_features, n_threads)
        if is_perfect:
            return make_perfect(ensemble, dtype, n_features, n_threads)
        return pack_forest(ensemble, dtype, n_threads)

    return _forests.of((ensemble,), (dtype.char, n_features, is_large), pack)


def chunks_of(X: np.ndarray, n_threads: int, block: int = 1) -> list[slice]:
    """Chunks of whole blocks; with several threads, at least two per thread of enough rows."""
    largest = max(1, min(PREDICTION_CHUNK, CHUNK_BYTES // (X.shape[1] * X.itemsize)))
    if n_threads > 1:
        largest = max(1, min(largest, -(-len(X) // (2 * n_threads))))
    return row_chunks(len(X), -(-largest // block) * block)


def predict(ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
    """Sum over trees of the value of each row's leaf: float64 (n, n_values)."""
    total = np.zeros((len(X), ensemble.n_values))
    _predict(ensemble, X, n_threads, total, np.empty((len(X), 0), np.int32))
    return total


def apply(ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
    """Leaf of each row in each tree, numbered within the tree: int32 (n, n_trees)."""
    found = np.empty((len(X), ensemble.n_trees), dtype=np.int32)
    _predict(ensemble, X, n_threads, np.zeros((len(X), 0)), found)
    return found


def _predict(
    ensemble: Ensemble, X: np.ndarray, n_threads: int, total: np.ndarray, found: np.ndarray
) -> None:
    """Fill ``total`` with sums of values, or ``found`` with leaves; the other array is empty."""
    is_large = len(X) >= MIN_CODED_ROWS
    forest = packed(ensemble, X.dtype, X.shape[1], n_threads, is_large=is_large)
    run = _RUNS[forest.kind.record]
    if n_threads == 1 and len(X) <= PREDICTION_CHUNK and X.nbytes <= CHUNK_BYTES:
        run(forest, contiguous(X, X.dtype), total, found)
        return

    def run_chunk(rows: slice) -> None:
        run(forest, contiguous(X[rows], X.dtype), total[rows], found[rows])

    block = CODED_BLOCK if forest.kind.record is CodedTrees else 1
    list(map_in_order(run_chunk, chunks_of(X, n_threads, block), n_threads))


def _predict_perfect(trees: Reference, X: np.ndarray, total: np.ndarray, found: np.ndarray) -> None:
    bits = bits_of_rows(X)
    values = np.empty(2 * bits.shape[1] * PERFECT_BLOCK, bits.dtype)
    predict_perfect(trees, bits, total, found, values, np.empty(PERFECT_BLOCK, np.uint32))


def _predict_by_levels(
    forest: Reference, X: np.ndarray, total: np.ndarray, found: np.ndarray
) -> None:
    buffers = np.empty(len(X), np.uint32), np.empty(PREDICTION_BLOCK, np.uint32)
    predict_rows(forest, X, bool(np.isnan(X).any()), total, found, *buffers)


def _predict_coded(trees: Reference, X: np.ndarray, total: np.ndarray, found: np.ndarray) -> None:
    predict_coded(trees, X, total, found, coded_buffers(trees, X.dtype))


_RUNS = {
    CodedTrees: _predict_coded,
    PerfectTrees: _predict_perfect,
    ForestArrays: _predict_by_levels,
}
