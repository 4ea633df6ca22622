"""Prediction of many rows by large trees, whose upper levels are found as in shallow trees.

Nodes of the upper `TOP_LEVELS` levels select the nodes that rows reach, as in `coded_trees`; from
there, rows traverse the trees. If each feature has at most `MAX_WIDE_CODES` distinct thresholds, as
in random forests, thresholds and values are replaced by codes of two bytes, so that a node takes 8
bytes. Together, these take 0.57 of the time of `traversal`, and 0.49 with missing values (100 trees
of 25,000 nodes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.edges import count_edges_below
from gpuboost.backends.numba.compiler import entry
from gpuboost.backends.numba.predict.coded_trees import (
    CODED_BLOCK,
    CodedRows,
    CodedTrees,
    code_thresholds,
    coded_buffers,
    make_coded,
    reach_leaves,
)
from gpuboost.backends.numba.predict.perfect_trees import deepest_leaf
from gpuboost.backends.numba.predict.traversal import pack_nodes, traverse_forest
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.engine.ensembles.ensemble import Ensemble

# Mean number of nodes above which trees are large, and the rows per node of one from which on
# `DeepTrees` save more time than it takes to make them.
LARGE_TREE, ROWS_PER_NODE = 256, 8
TOP_LEVELS = 6  # upper levels of deep trees that are found together (5 and 7 measure alike)
MAX_WIDE_CODES = 1023  # edges of a group with codes of two bytes
MAX_WIDE_GROUPS = 1 << 15  # group and direction of missing values fit 16 bits


@entry
def code_rows(given, X, codes, values, numbers):
    """Fill ``codes``, uint16 (rows, G), or (rows, 2 * G) if values are missing, from ``X``.

    With two columns for each group, a missing value has code 0 in the first one, where it goes
    left, and the largest code in the second one. ``values`` and ``numbers`` (`CODED_BLOCK`,) are
    buffers.
    """
    n_groups = np.uint64(given.feature.size)
    for start in range(0, X.shape[0], CODED_BLOCK):
        rows, own = X[start : start + CODED_BLOCK], codes[start : start + CODED_BLOCK]
        n = np.uint64(rows.shape[0])
        for g in range(n_groups):
            feature = np.uint64(given.feature[g])
            for i in range(n):
                values[i] = rows[i, feature]
            count_edges_below(values, numbers, n, given.tables, g)
            if own.shape[1] == given.feature.size:
                for i in range(n):
                    own[i, g] = numbers[i]
            else:
                for i in range(n):
                    is_missing, column = values[i] != values[i], np.uint64(2) * g
                    own[i, column] = 0 if is_missing else numbers[i]
                    own[i, column + np.uint64(1)] = 0xFFFF if is_missing else numbers[i]


class DeepTrees(NamedTuple):
    """An ensemble of deep trees, for many rows.

    Attributes
    ----------
    top : reference to CodedTrees
        The upper levels, whose leaves are nodes of the deep trees.
    rows : reference to CodedRows, or None
        Makes the codes of rows that ``forest`` takes in place of values.
    forest : reference to ForestArrays
        The ensemble.
    """

    top: Reference
    rows: Reference | None
    forest: Reference


def nodes_per_tree(ensemble: Ensemble) -> int:
    """Mean number of nodes of a tree, rounded down."""
    return len(ensemble.feature) // max(ensemble.n_trees, 1)


def make_deep(
    ensemble: Ensemble, dtype: np.dtype, n_threads: int, plain: Callable[[], Reference]
) -> Reference | None:
    """`DeepTrees` for rows of ``dtype``, or None if trees are small, few, or split on categories.

    ``plain`` returns the ensemble as `ForestArrays`, which is taken if codes of two bytes do not
    suffice for a feature: with several codes of it, rows would be wider than they are.
    """
    if len(ensemble.masks) or nodes_per_tree(ensemble) <= LARGE_TREE:
        return None
    left, depth = contiguous(ensemble.left, np.int32), np.zeros(len(ensemble.left), np.int32)
    deepest_leaf(left, contiguous(ensemble.offset, np.int64), depth)
    upper = {"left": np.where(depth < TOP_LEVELS, left, 0), "value": np.empty((len(left), 0))}
    top = make_coded(replace(ensemble, **upper), dtype)
    if top is None:
        return None
    coded = code_thresholds(ensemble, dtype, MAX_WIDE_CODES, n_threads)
    n_groups = 0 if coded is None else len(coded[2].feature)
    if coded is None or n_groups > min(len(np.unique(coded[2].feature)), MAX_WIDE_GROUPS):
        return by_reference(DeepTrees(top, None, plain()))
    code, group, rows = coded
    forest = pack_nodes(
        ensemble, code.dtype, code.__getitem__, group, ensemble.missing_left, n_threads
    )
    return by_reference(DeepTrees(top, by_reference(rows), forest))


def buffer_bytes(deep: Reference) -> int:
    """Bytes that `predict_deep` allocates for each row at most."""
    top, rows, _ = deep.kept[1]
    n_groups = 0 if rows is None else len(CodedRows(*rows.kept[1]).feature)
    return len(CodedTrees(*top.kept[1]).leaf) + 4 * n_groups


def predict_deep(deep: Reference, X: np.ndarray, total: np.ndarray, found: np.ndarray) -> None:
    """Add the values of leaves to ``total``, or fill ``found``, by `DeepTrees`."""
    top, rows, forest = deep.kept[1]
    starts = CodedTrees(*top.kept[1]).leaf
    reached = np.empty((len(starts), -(-len(X) // CODED_BLOCK) * CODED_BLOCK), np.uint8)
    reach_leaves(top, X, reached, coded_buffers(top, X.dtype))
    values, columns = X, 1
    if rows is not None:
        columns += bool(np.isnan(X).any())
        values = np.empty((len(X), columns * len(CodedRows(*rows.kept[1]).feature)), np.uint16)
        code_rows(rows, X, values, np.empty(CODED_BLOCK, X.dtype), np.empty(CODED_BLOCK, np.int32))
    traverse_forest(forest, values, total, found, (starts, reached), columns)
