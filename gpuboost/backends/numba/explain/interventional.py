"""Interventional SHAP values of blocks of rows, against background rows.

In a leaf that is reached with the values of ``n_row`` features of a row and ``n_other`` of a
background row, both kinds of features have one contribution each (`shapley_weights`). So
`PathState.leaf_sums` holds these two, and their sums over the leaves below an edge; an edge from
which on a feature must come from one of the rows adds the sum for this row to its feature.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import entry, inlined
from gpuboost.backends.numba.explain.paths import add_to_parent, find_left, goes_left
from gpuboost.backends.numba.intrinsics import reference_at

_SET = np.uint16(1)


@inlined
def _enter(tree, edge, columns, other, state):
    """Go down an edge, after all earlier ones; return its depth, and how many rows reach the child.

    All numbers of the loop are 0 or 1 and of one type, so that LLVM makes vectors of them.
    """
    depth, is_left, above = tree.depth[edge], tree.is_left[edge], tree.previous[edge]
    left, of_row, of_other = state.goes_left[depth], state.of_row[depth], state.of_other[depth]
    row_before, other_before = state.of_row[above], state.of_other[above]
    reached, n_row, n_other = state.reached[depth], state.n_row[depth], state.n_other[depth]
    reached_above = state.reached[depth - 1]
    rows_above, others_above = state.n_row[depth - 1], state.n_other[depth - 1]
    state.edge[depth] = edge
    if is_left:
        find_left(tree, edge, columns, left)
        state.other_left[depth] = goes_left(tree, edge, other[tree.column[edge]])
    turned = np.uint16(not is_left)
    other_passes = np.uint16(state.other_left[depth]) ^ turned
    n_reached = np.uint16(0)
    for i in range(reached.size):
        passes, row, from_other = left[i] ^ turned, row_before[i], other_before[i]
        is_new = (row | from_other) ^ _SET
        new_row = is_new & passes & (other_passes ^ _SET)
        new_other = is_new & (passes ^ _SET)
        can = (row & passes) | (from_other & other_passes) | (is_new & (passes | other_passes))
        of_row[i], of_other[i] = row | new_row, from_other | new_other
        n_row[i], n_other[i] = rows_above[i] + new_row, others_above[i] + new_other
        reached[i] = reached_above[i] & can
        n_reached += reached[i]
    return depth, n_reached


@inlined
def _set_leaf(tree, edge, depth, scale, state):
    """Set the contributions of a leaf."""
    n_row, n_other, reached = state.n_row[depth], state.n_other[depth], state.reached[depth]
    for v in range(tree.value.shape[1]):
        value, own = tree.value[edge, v], state.leaf_sums[depth]
        for i in range(reached.size):
            own[0, v, i], own[1, v, i] = 0, 0
            if reached[i] == _SET:
                own[0, v, i] = np.int64(value * tree.weights[n_row[i], n_other[i]] * scale)
                own[1, v, i] = np.int64(value * tree.weights[n_other[i], n_row[i]] * scale)


@inlined
def _close(tree, edge, depth, state, total):
    """Add the sums below an edge to its feature, and to those of its parent."""
    above, is_first = tree.previous[edge], tree.is_left[edge]
    of_row, of_other = state.of_row[depth], state.of_other[depth]
    row_before, other_before = state.of_row[above], state.of_other[above]
    for v in range(tree.value.shape[1]):
        to = total[tree.feature[edge], tree.first_output + v]
        row_sum, other_sum = state.leaf_sums[depth, 0, v], state.leaf_sums[depth, 1, v]
        for i in range(to.size):
            added = row_sum[i] if of_row[i] != row_before[i] else np.int64(0)
            lost = other_sum[i] if of_other[i] != other_before[i] else np.int64(0)
            to[i] += added - lost
        for k in range(2):
            own, parent = state.leaf_sums[depth, k, v], state.leaf_sums[depth - 1, k, v]
            add_to_parent(own, parent, is_first)


@inlined
def _add_interventional(tree, columns, other, scale, state, total):
    """Add a tree's contributions to a block, against one background row (n_columns,)."""
    edge = 0
    while edge < tree.depth.size:
        depth, n_reached = _enter(tree, edge, columns, other, state)
        last = edge
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
def add_interventional(trees, like, columns, background, scale, state, total):
    """Add the contributions of trees against all rows of ``background`` (n, n_columns).

    See `add_shap_values`.
    """
    for number in range(trees.size):
        tree = reference_at(trees, number, like)
        for block in range(columns.shape[0]):
            for k in range(background.shape[0]):
                _add_interventional(tree, columns[block], background[k], scale, state, total[block])
