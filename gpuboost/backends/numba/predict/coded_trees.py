"""Prediction of many rows with perfect trees whose thresholds are codes of one byte.

The thresholds of a feature form groups of at most `MAX_CODES`. A value's code is the number of a
group's thresholds that are below it, so that bytes are compared in place of floats. Rows do not
traverse a tree: from the bottom up, each node selects, for all rows of a block, the results of its
left or right child, until the root has the rows' leaves. All nodes of a tree are evaluated, by
vectors of bytes and without memory accesses at computed addresses:

    codes     column g:      group g of G; a missing value is 255 and goes right
              column G + g:  group g; a missing value is 0 and goes left

(100 trees of depth 6 on 28 features take 0.3 of the time of `perfect_trees`.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.compiling import parallel
from gpuboost.backends.numba.common.edges import EdgeTables, count_edges_below, edge_tables
from gpuboost.backends.numba.compiler import entry, inlined
from gpuboost.backends.numba.predict.perfect_trees import depth_of, perfect_nodes, readable
from gpuboost.backends.numba.predict.selections import selection
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.engine.bins import round_down_to_float32
from gpuboost.engine.ensembles.ensemble import Ensemble

CODED_BLOCK = 256  # rows of a block: its codes and results stay in the L1 or L2 cache
MIN_CODED_ROWS = 128  # blocks are padded, so fewer rows take longer than by `perfect_trees`
CODED_DEPTHS = range(2, 8)  # the number of nodes doubles with each level
MIN_TREES_PER_GROUP = 1.5  # with fewer, the codes take as long as they save (measured)
SELECTED_LEVELS = 2  # levels of one selection: the results between them are not stored
TREES_PER_SUM = 4  # trees whose values are added to a row's sum before it is stored
ABOVE_ALL = np.uint8(255)
MAX_CODES = int(ABOVE_ALL) - 1  # edges of a group


select_leaves = selection(CODED_BLOCK, SELECTED_LEVELS, True)
select_results = selection(CODED_BLOCK, SELECTED_LEVELS, False)
select_root = selection(CODED_BLOCK, 1, False)


class CodedRows(NamedTuple):
    """What codes of rows are made from.

    Attributes
    ----------
    feature : int64 (G,)
        Feature of each group of thresholds.
    tables : EdgeTables
        Thresholds of each group.
    """

    feature: np.ndarray
    tables: EdgeTables


class CodedTrees(NamedTuple):
    """An ensemble of perfect trees for compiled code.

    Attributes
    ----------
    nodes : records (T, 2**depth)
        Threshold as a code, and start of a column in ``codes``; position 0 is not used.
    leaf : uint32 (n_trees, 2**depth)
        Number of each leaf in its original tree.
    value : float64 (T, n_values, 2**depth)
        Values of the leaves; zeros for trees up to a multiple of `TREES_PER_SUM`.
    feature, tables
        As in `CodedRows`.
    """

    nodes: np.ndarray
    leaf: np.ndarray
    value: np.ndarray
    feature: np.ndarray
    tables: EdgeTables


def make_coded(ensemble: Ensemble, dtype: np.dtype) -> Reference | None:
    """Coded trees for rows of ``dtype``, or None if `perfect_trees` is expected to be faster."""
    if depth_of(ensemble) not in CODED_DEPTHS:
        return None
    coded = code_thresholds(ensemble, dtype, MAX_CODES)
    if coded is None:
        return None
    code, group, rows = coded
    column = CODED_BLOCK * (group + len(rows.feature) * ensemble.missing_left)
    nodes, leaf = perfect_nodes(ensemble, code, column)
    value = readable(ensemble.value)[leaf + ensemble.offset[:-1, None]]
    n_missing = -len(value) % TREES_PER_SUM
    value = np.pad(value.transpose(0, 2, 1), ((0, n_missing), (0, 0), (0, 0)))
    return by_reference(CodedTrees(nodes, leaf, value, *rows))


def code_thresholds(
    ensemble: Ensemble, dtype: np.dtype, size: int, n_threads: int = 1
) -> tuple[np.ndarray, np.ndarray, CodedRows] | None:
    """Codes of thresholds for rows of ``dtype``; None if codes take longer than they save.

    Returns
    -------
    code : uint8 or uint16 (n_nodes,)
        Number of lower thresholds in the node's group, which has at most ``size``; in leaves, the
        largest integer.
    group : int32 (n_nodes,)
        Group of the node's threshold; 0 in leaves.
    rows : CodedRows
        The groups.
    """
    inner, kind = np.flatnonzero(ensemble.left), np.min_scalar_type(size)
    feature = ensemble.feature[inner]
    small = feature.astype(np.min_scalar_type(feature.max(initial=0)))  # sorted faster
    inner = inner[np.argsort(small, kind="stable")]
    features, first = np.unique(ensemble.feature[inner], return_index=True)
    if not 0 < MIN_TREES_PER_GROUP * len(features) <= ensemble.n_trees:
        return None

    def ranked(own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        threshold = ensemble.threshold[own]
        if dtype == np.float32:
            threshold = round_down_to_float32(threshold)
        return np.unique(threshold, return_inverse=True)

    nodes = np.split(inner, first[1:])
    code = np.full(len(ensemble.left), np.iinfo(kind).max, kind)
    group = np.zeros(len(code), np.int32)
    of_group: list[int] = []
    edges: list[np.ndarray] = []
    found = parallel(ranked, nodes, n_threads)
    for number, own, (distinct, rank) in zip(features, nodes, found, strict=True):
        code[own], group[own] = rank % size, len(edges) + rank // size
        for start in range(0, len(distinct), size):
            of_group.append(number)
            edges.append(distinct[start : start + size])
    if MIN_TREES_PER_GROUP * len(edges) > ensemble.n_trees:
        return None
    table = np.full((len(edges), size), np.inf, dtype)
    for row, some in zip(table, edges, strict=True):
        row[: len(some)] = some
    tables = edge_tables(table, np.array([len(some) + 1 for some in edges]))
    return code, group, CodedRows(np.array(of_group, np.int64), tables)


@inlined
def _as_codes(trees, X, codes, values, numbers):
    """Fill ``codes`` from the rows of a block."""
    n, n_used = np.uint64(X.shape[0]), trees.feature.size
    for f in range(n_used):
        feature = np.uint64(trees.feature[f])
        for i in range(n):
            values[i] = X[i, feature]
        count_edges_below(values, numbers, n, trees.tables, f)
        right = codes[f * CODED_BLOCK : (f + 1) * CODED_BLOCK]
        left = codes[(n_used + f) * CODED_BLOCK : (n_used + f + 1) * CODED_BLOCK]
        for i in range(n):
            right[i] = np.uint8(numbers[i]) if values[i] == values[i] else ABOVE_ALL
        for i in range(n):
            left[i] = right[i] if right[i] != ABOVE_ALL else np.uint8(0)


@inlined
def _select(nodes, codes, results):
    """Set ``results[1]`` to the leaf of each row of the block, as a position less 2**depth."""
    width = nodes.size >> SELECTED_LEVELS  # nodes of the level whose selections are next
    for k in range(width, 2 * width):
        select_leaves(nodes, codes, results, k)
    while width >= 1 << SELECTED_LEVELS:
        width >>= SELECTED_LEVELS
        for k in range(width, 2 * width):
            select_results(nodes, codes, results, k)
    if width == 2:
        select_root(nodes, codes, results, 1)


@entry
def reach_leaves(trees, X, reached, buffers):
    """Fill ``reached``, uint8 (trees, rows), with positions in `CodedTrees.leaf`.

    The number of rows is rounded up to a multiple of `CODED_BLOCK`. ``buffers`` are those of
    `coded_buffers`.
    """
    codes, results, values, numbers = buffers[:4]
    for start in range(0, X.shape[0], CODED_BLOCK):
        _as_codes(trees, X[start : start + CODED_BLOCK], codes, values, numbers)
        for tree in range(trees.leaf.shape[0]):
            _select(trees.nodes[tree], codes, results)
            own = reached[tree, start : start + CODED_BLOCK]
            for i in range(np.uint64(CODED_BLOCK)):
                own[i] = results[1, i]


@inlined
def _add_values(value, first, v, reached, sums):
    """Add value ``v`` of the leaves in `TREES_PER_SUM` trees from ``first`` on, in their order."""
    for i in range(np.uint64(CODED_BLOCK)):
        row_sum = sums[v, i]
        for tree in range(np.uint64(TREES_PER_SUM)):
            row_sum += value[first + tree, v, np.uint64(reached[tree, i])]
        sums[v, i] = row_sum


@entry
def predict_coded(trees, X, total, found, buffers):
    """Add the values of each row's leaves to ``total`` (rows, values), in the order of the trees.

    If ``found`` (rows, trees) is not empty, store the leaves, numbered within their original tree,
    there instead. ``buffers`` are those of `coded_buffers`.
    """
    codes, results, values, numbers, sums, reached = buffers
    n_trees, n_values = trees.leaf.shape[0], np.uint64(total.shape[1])
    for start in range(0, X.shape[0], CODED_BLOCK):
        n = min(CODED_BLOCK, X.shape[0] - start)
        _as_codes(trees, X[start : start + n], codes, values, numbers)
        for v in range(n_values):
            for i in range(n):
                sums[v, i] = total[start + i, v]
        for first in range(0, n_trees, TREES_PER_SUM):
            for tree in range(first, min(first + TREES_PER_SUM, n_trees)):
                _select(trees.nodes[tree], codes, results)
                own = reached[tree - first]
                for i in range(np.uint64(CODED_BLOCK)):
                    own[i] = results[1, i]
                if found.size:
                    for i in range(n):
                        found[start + i, tree] = trees.leaf[tree, own[i]]
            for v in range(n_values):
                _add_values(trees.value, np.uint64(first), v, reached, sums)
        for v in range(n_values):
            for i in range(n):
                total[start + i, v] = sums[v, i]


def coded_buffers(reference: Reference, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Buffers of `predict_coded` for `CodedTrees` and rows of ``dtype``.

    They are the codes (see the module), results (2**depth, `CODED_BLOCK`), values and numbers
    (`CODED_BLOCK`,), sums (values, `CODED_BLOCK`), and what rows reach (`TREES_PER_SUM`,
    `CODED_BLOCK`), initially 0.
    """
    trees = CodedTrees(*reference.kept[1])
    return (
        np.empty(2 * len(trees.feature) * CODED_BLOCK, np.uint8),
        np.empty((trees.nodes.shape[1], CODED_BLOCK), np.uint8),
        np.empty(CODED_BLOCK, dtype),
        np.empty(CODED_BLOCK, np.int32),
        np.empty((trees.value.shape[1], CODED_BLOCK)),
        np.zeros((TREES_PER_SUM, CODED_BLOCK), np.uint8),
    )
