"""Blocks of rows on the paths of trees; see `engine.explanations.path_trees`.

A block takes the edges of a tree in order. Each loop over its rows has no branch, so that LLVM
makes vectors of it. What depends on the path is stored by depth, so that it stays in the cache.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import fields
from typing import Any, NamedTuple, cast

import numpy as np

from gpuboost.backends.numba.common.partition import LAST_CODE, in_mask
from gpuboost.backends.numba.compiler import inlined
from gpuboost.engine.explanations.path_trees import PathTree

PATH_ROWS = 64  # of a block: with fewer, loops take longer; with more, sums leave the cache


# The fields of a `PathTree`, and `weights`: `shapley_weights` for its number of points.
_FIELDS_OF_PATHS = [*(f.name for f in fields(PathTree)), "weights"]
PathArrays = cast(Any, namedtuple)("PathArrays", _FIELDS_OF_PATHS)  # mypy wants literal names


class PathState(NamedTuple):
    """Work memory for the path of a block, by depth; depth 0 is the root.

    Attributes
    ----------
    edge, other_left : int64 (depths,)
        The edges of the path; whether a background row goes left at the split above.
    left, passed, code : int64 (depths, rows)
        Whether rows go left at the split above; whether they pass all splits on the edge's feature;
        the code of `engine.explanations.path_trees`.
    product : float64 (depths, n_points, rows)
        C, the product of the features' factors.
    sums : float64 (depths, n_values, n_points, rows)
        S, the sums over the leaves below.
    found : float64 (n_points, rows)
    n_last : int64 (depths,)
    last : int64 (depths, depths)
        The depths at which the path has the last edge of each of its features, and their number.
    goes_left, of_row, of_other, n_row, n_other, reached : uint16 (depths, rows)
        Of `interventional`: whether rows go left at the split above; whether the edge's feature
        must come from the row, or from the background row; the numbers of features for which this
        holds; whether the rows can reach the node.
    leaf_sums : int64 (depths, 2, n_values, rows)
        The two kinds of contributions of the leaves below.
    """

    edge: np.ndarray
    other_left: np.ndarray
    left: np.ndarray
    passed: np.ndarray
    code: np.ndarray
    product: np.ndarray
    sums: np.ndarray
    found: np.ndarray
    n_last: np.ndarray
    last: np.ndarray
    goes_left: np.ndarray
    of_row: np.ndarray
    of_other: np.ndarray
    n_row: np.ndarray
    n_other: np.ndarray
    reached: np.ndarray
    leaf_sums: np.ndarray


def path_state(n_rows: int, max_depth: int, n_points: int, n_values: int) -> PathState:
    """Work memory for blocks of ``n_rows`` and trees up to these sizes, at the root."""
    depths = max_depth + 1

    def flags(value: int, dtype: type = np.uint16) -> np.ndarray:
        return np.full((depths, n_rows), value, dtype)

    return PathState(
        edge=np.zeros(depths, np.int64),
        other_left=np.zeros(depths, np.int64),
        left=flags(1, np.int64),
        passed=flags(1, np.int64),
        code=flags(1, np.int64),
        product=np.ones((depths, n_points, n_rows)),
        sums=np.zeros((depths, n_values, n_points, n_rows)),
        found=np.zeros((n_points, n_rows)),
        n_last=np.zeros(depths, np.int64),
        last=np.zeros((depths, depths), np.int64),
        goes_left=flags(0),
        of_row=flags(0),
        of_other=flags(0),
        n_row=flags(0),
        n_other=flags(0),
        reached=flags(1),
        leaf_sums=np.zeros((depths, 2, n_values, n_rows), np.int64),
    )


@inlined
def goes_left(tree, edge, x):
    """Whether the split above an edge sends a value left: int64."""
    missing_left, category = np.int64(tree.missing_left[edge]), tree.category[edge]
    if x != x:
        return missing_left
    if category < 0:
        return np.int64(x <= tree.threshold[edge])
    return np.int64(in_mask(tree.masks[category], np.uint32(min(np.int64(x), LAST_CODE))))


@inlined
def find_left(tree, edge, columns, left):
    """Set ``left`` to 1 for rows that go left at the split above an edge, else to 0."""
    x = columns[tree.column[edge]]
    if tree.category[edge] < 0:  # without branches in the loop
        threshold, missing_left = tree.threshold[edge], tree.missing_left[edge]
        for i in range(left.size):
            left[i] = (x[i] <= threshold) | ((x[i] != x[i]) & missing_left)
    else:
        for i in range(left.size):
            left[i] = goes_left(tree, edge, x[i])


@inlined
def enter(tree, edge, columns, state):
    """Go down an edge, after all earlier ones; return its depth.

    ``columns`` is (n_columns, rows).
    """
    depth, is_left = tree.depth[edge], np.int64(tree.is_left[edge])
    left, before = state.left[depth], state.passed[tree.previous[edge]]
    passed, code = state.passed[depth], state.code[depth]
    state.edge[depth] = edge
    if is_left == 1:
        find_left(tree, edge, columns, left)
    for i in range(passed.size):
        now = before[i] & np.int64(left[i] == is_left)
        code[i], passed[i] = before[i] + now, now
    return depth


@inlined
def _of_code(table, code):
    """The element of a code, without a branch."""
    found = table[1] if code == 1 else table[0]
    return table[2] if code == 2 else found


@inlined
def multiply(tree, edge, depth, state):
    """Set C of an edge."""
    code = state.code[depth]
    for q in range(tree.ratio.shape[1]):
        own, above = state.product[depth, q], state.product[depth - 1, q]
        table = tree.ratio[edge, q]
        for i in range(own.size):
            own[i] = above[i] * _of_code(table, code[i])


@inlined
def set_leaf(tree, edge, depth, state):
    """Set S of a leaf."""
    for v in range(tree.value.shape[1]):
        value = tree.value[edge, v]
        for q in range(tree.ratio.shape[1]):
            own, product = state.sums[depth, v, q], state.product[depth, q]
            for i in range(own.size):
                own[i] = product[i] * value


@inlined
def find_steps(tree, edge, depth, v, state):
    """Set ``state.found`` to S times the steps of an edge, at each point."""
    code = state.code[depth]
    for q in range(tree.step.shape[1]):
        own, sums, table = state.found[q], state.sums[depth, v, q], tree.step[edge, q]
        for i in range(own.size):
            own[i] = sums[i] * _of_code(table, code[i])


@inlined
def add_to_parent(own, parent, is_first):
    """Add the sums below an edge to those of its parent, or set these, by row."""
    if is_first:
        for i in range(own.size):
            parent[i] = own[i]
    else:
        for i in range(own.size):
            parent[i] += own[i]
