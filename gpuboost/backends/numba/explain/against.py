"""Interventional SHAP values of blocks of rows, against background rows.

In a leaf that is reached with the values of ``n_row`` features of a row and ``n_other`` of a
background row, both kinds of features have one contribution each (`shapley_weights`). So
`PathState.leaf_sums` holds these two, and their sums over the leaves below an edge; an edge from
which on a feature must come from one of the rows adds the sum for this row to its feature.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import entry, inlined
from gpuboost.backends.numba.explain.paths import PATH_ROWS, enter, goes_left
from gpuboost.backends.numba.intrinsics import reference_at
from gpuboost.engine.explanations.path_trees import EITHER, OTHER, ROW


@inlined
def _find_sources(tree, edge, depth, other, state):
    """Set the sources of an edge's feature; return the number of rows that reach the child."""
    before, source = state.source[tree.previous[edge]], state.source[depth]
    left, is_left, n_reached = state.left[depth], np.int64(tree.is_left[edge]), 0
    if is_left == 1:
        state.other_left[depth] = goes_left(tree, edge, other[tree.column[edge]])
    other_passes = np.int64(state.other_left[depth] == is_left)
    for i in range(PATH_ROWS):
        passes, is_new = np.int64(left[i] == is_left), np.int64(before[i] == EITHER)
        first = (EITHER if other_passes == 1 else ROW) if passes == 1 else OTHER
        now = first if is_new == 1 else before[i]
        can = passes if before[i] == ROW else other_passes
        can = passes | other_passes if is_new == 1 else can
        source[i] = now
        state.reached[depth, i] = state.reached[depth - 1, i] & can
        state.n_row[depth, i] = state.n_row[depth - 1, i] + (is_new & np.int64(now == ROW))
        state.n_other[depth, i] = state.n_other[depth - 1, i] + (is_new & np.int64(now == OTHER))
        n_reached += state.reached[depth, i]
    return n_reached


@inlined
def _set_leaf(tree, edge, depth, scale, state):
    """Set the contributions of a leaf."""
    n_row, n_other, reached = state.n_row[depth], state.n_other[depth], state.reached[depth]
    for v in range(tree.value.shape[1]):
        value, own = tree.value[edge, v], state.leaf_sums[depth]
        for i in range(PATH_ROWS):
            of_row, of_other = (
                tree.weights[n_row[i], n_other[i]],
                tree.weights[n_other[i], n_row[i]],
            )
            own[0, v, i] = np.int64(value * of_row * scale) if reached[i] == 1 else 0
            own[1, v, i] = np.int64(value * of_other * scale) if reached[i] == 1 else 0


@inlined
def _close(tree, edge, depth, state, total):
    """Add the sums below an edge to its feature, and to those of its parent."""
    before, source = state.source[tree.previous[edge]], state.source[depth]
    own, above, is_first = state.leaf_sums[depth], state.leaf_sums[depth - 1], tree.is_left[edge]
    for v in range(tree.value.shape[1]):
        to = total[tree.feature[edge], tree.first_output + v]
        for i in range(PATH_ROWS):
            added = own[0, v, i] if source[i] == ROW else 0
            added = -own[1, v, i] if source[i] == OTHER else added
            to[i] += added if before[i] == EITHER else 0
            above[0, v, i] = own[0, v, i] + (0 if is_first else above[0, v, i])
            above[1, v, i] = own[1, v, i] + (0 if is_first else above[1, v, i])


@inlined
def _add_against(tree, columns, other, scale, state, total):
    """Add a tree's contributions to a block, against one background row (n_columns,)."""
    edge = 0
    while edge < tree.depth.size:
        depth = enter(tree, edge, columns, state)
        n_reached, last = _find_sources(tree, edge, depth, other, state), edge
        if n_reached == 0:  # no leaf below counts
            last = tree.stop[edge] - 1
            state.leaf_sums[depth] = 0
        elif tree.n_closed[edge] > 0:
            _set_leaf(tree, edge, depth, scale, state)
        n_closed = tree.n_closed[last] - (tree.depth[last] - depth)
        for closed in range(depth, depth - n_closed, -1):
            _close(tree, state.edge[closed], closed, state, total)
        edge = last + 1


@entry
def add_against(trees, like, columns, background, scale, state, total):
    """Add the contributions of trees against all rows of ``background`` (n, n_columns).

    See `add_shap_values`.
    """
    for number in range(trees.size):
        tree = reference_at(trees, number, like)
        for block in range(columns.shape[0]):
            for k in range(background.shape[0]):
                _add_against(tree, columns[block], background[k], scale, state, total[block])
