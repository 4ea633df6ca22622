"""Path-dependent SHAP values and interactions of blocks of rows."""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import entry, inlined
from gpuboost.backends.numba.explain.paths import (
    add_to_parent,
    enter,
    find_steps,
    multiply,
    set_leaf,
)
from gpuboost.backends.numba.intrinsics import reference_at


@inlined
def _add_sum(found, n_points, scale, total):
    """Add the sum over the points of ``found`` to ``total``, in units of 1 / ``scale``."""
    sums = found[0]
    for q in range(1, n_points):
        own = found[q]
        for i in range(sums.size):
            sums[i] += own[i]
    for i in range(sums.size):
        total[i] += np.int64(sums[i] * scale)


@inlined
def _close(tree, edge, depth, state):
    """Add S of a closed edge to that of its parent."""
    is_first = tree.is_left[edge]
    for v in range(tree.value.shape[1]):
        for q in range(tree.ratio.shape[1]):
            add_to_parent(state.sums[depth, v, q], state.sums[depth - 1, v, q], is_first)


@inlined
def _add_values(tree, columns, scale, state, total):
    """Add a tree's contributions to a block: ``total`` (n_features, n_outputs, rows)."""
    for edge in range(tree.depth.size):
        depth = enter(tree, edge, columns, state)
        multiply(tree, edge, depth, state)
        if tree.n_closed[edge] > 0:
            set_leaf(tree, edge, depth, state)
        for closed in range(depth, depth - tree.n_closed[edge], -1):
            own = state.edge[closed]
            for v in range(tree.value.shape[1]):
                find_steps(tree, own, closed, v, state)
                to = total[tree.feature[own], tree.first_output + v]
                _add_sum(state.found, tree.step.shape[1], scale, to)
            _close(tree, own, closed, state)


@entry
def add_shap_values(trees, like, columns, scale, state, total):
    """Add the contributions of trees.

    Parameters
    ----------
    trees : int64 (n_trees,)
        Addresses of `PathArrays` with the type of ``like``.
    columns : float64 (blocks, n_columns, rows)
    scale : float64
    state : PathState
    total : int64 (blocks, n_features, n_outputs, rows)
    """
    for number in range(trees.size):
        tree = reference_at(trees, number, like)
        for block in range(columns.shape[0]):
            _add_values(tree, columns[block], scale, state, total[block])


@inlined
def _list_features(tree, edge, depth, state):
    """List the depths of the last edges of the path's distinct features; the own depth is last."""
    above, own, n = state.last[depth - 1], state.last[depth], 0
    for k in range(state.n_last[depth - 1]):
        if above[k] != tree.previous[edge]:
            own[n] = above[k]
            n += 1
    own[n] = depth
    state.n_last[depth] = n + 1


@inlined
def _add_pair(tree, other, depth, scale, state, total):
    """Add the interaction of the feature of ``state.found`` with that of the edge ``other``."""
    passed = state.passed[depth]
    for i in range(passed.size):
        sums = 0.0
        for q in range(tree.step.shape[1]):
            first, second = tree.marginal[other, q, 0], tree.marginal[other, q, 1]
            product = state.found[q, i] * (second if passed[i] == 1 else first)
            sums = product if q == 0 else sums + product
        total[i] += np.int64(sums * scale)


@inlined
def _add_interactions(tree, columns, scale, state, total):
    """Add a tree's contributions: ``total`` (n_features, n_features, n_outputs, rows).

    The diagonal is the SHAP values; otherwise, only one of the two elements of a pair is set.
    """
    for edge in range(tree.depth.size):
        depth = enter(tree, edge, columns, state)
        multiply(tree, edge, depth, state)
        _list_features(tree, edge, depth, state)
        if tree.n_closed[edge] > 0:
            set_leaf(tree, edge, depth, state)
        for closed in range(depth, depth - tree.n_closed[edge], -1):
            own = state.edge[closed]
            feature = tree.feature[own]
            for v in range(tree.value.shape[1]):
                find_steps(tree, own, closed, v, state)
                output = tree.first_output + v
                for k in range(state.n_last[closed] - 1):
                    above = state.last[closed, k]
                    other = state.edge[above]
                    to = total[feature, tree.feature[other], output]
                    _add_pair(tree, other, above, 0.5 * scale, state, to)
                _add_sum(state.found, tree.step.shape[1], scale, total[feature, feature, output])
            _close(tree, own, closed, state)


@entry
def add_interactions(trees, like, columns, scale, state, total):
    """Add the interactions of trees; see `add_shap_values`.

    ``total`` is int64 (blocks, n_features, n_features, n_outputs, rows). Its diagonal
    becomes the SHAP values; each interaction is divided between the two elements of its pair.
    """
    for number in range(trees.size):
        tree = reference_at(trees, number, like)
        for block in range(columns.shape[0]):
            _add_interactions(tree, columns[block], scale, state, total[block])
