"""Which features the nodes of a level look at, where these are not all (see backends/protocol.py).

Histograms are of all features, so that a node has them by subtraction; the search passes over
those it may not look at. Tiles of features are searched apart, and none of them knows whether a
feature of another could split. So each keeps the best split of its part of the first features; or
if none of these could split, the split by the first one after them that could:

    features in the node's order    first ones | later ones
    tile 0                          a  -  c    | -  e          c could split: best of a and c
    tile 1                          -  b  -    | d  -          b could not, d could: d, BEYOND

The best of all tiles is the best split FOUND, or without any the split of smallest rank.

Where nodes look at all features of their tree, ``drawn`` is None, and none of this is compiled.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.feature_sampling import (
    LAST_RANK,
    choose_features,
    is_choosy,
    kth_smallest,
    order_features,
    rank_of,
)
from gpuboost.backends.numba.common.records import Problem
from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.splits.scan import is_better

# Of a feature and a node: not looked at, one of the first, a later one, the one that is tried.
NEVER, FIRST, LATER, NEXT = range(4)
# Of the best split of a tile: of the first features, of a later one, of none that could split.
FOUND, BEYOND, NONE = range(3)


@inlined
def of_tree(problem, state, tree):
    """The problem with the features of a tree alone; for callers that count no references."""
    features = state.features[tree, : state.n_features[tree]]
    matrix, _, limits, constraints, packing, scratch, _ = problem
    minimum = state.min_category[tree]
    return Problem(matrix, features, limits, constraints, packing, scratch, minimum)


@inlined
def row_of(drawn, tree, slot):
    """Where in `level_layout.Work.looks` the features of a node are that is searched."""
    if drawn is None:
        return tree
    return slot


@helper
def choose(problem, state, looks, at, capacity):
    """Fill ``looks``, (F,), for node ``at``; `choice.forget_levels` between trees."""
    tree = at // capacity
    own = of_tree(problem, state, tree)
    looks[:] = NEVER
    first, limits, ranks = tree * capacity, problem.limits, problem.scratch.ranks
    if is_choosy(own):
        choose_features(own, state.nodes[first:], at - first, state.groups[first:])
    n_features, last = order_features(own, state.nodes[at].key), LAST_RANK
    if limits.max_features < n_features:
        last = kth_smallest(ranks, n_features, limits.max_features)
    for p in range(n_features):
        looks[ranks[p] & np.int64(0xFFFFFFFF)] = FIRST if ranks[p] <= last else LATER


@helper
def next_later(problem, columns, node, looks, tile):
    """The first of the later features of a tile that are left, -1 if none is; marks it `NEXT`."""
    best, found = LAST_RANK, np.int64(-1)
    for at in range(columns.first[tile[0]], columns.first[tile[1]]):
        feature = columns.order[at]
        if looks[feature] == NEXT:
            looks[feature] = NEVER
        if looks[feature] == LATER:
            rank = rank_of(problem.limits, node.key, feature)
            if rank < best:
                best, found = rank, feature
    if found >= 0:
        looks[found] = NEXT
    return found


@inlined
def goes_before(split, other, drawn):
    """Whether what another tile found takes the place of the best so far."""
    if drawn is None:
        return is_better(split, other.score, other.rank)
    if other.found_at != split.found_at:
        return other.found_at < split.found_at
    if other.found_at == BEYOND:
        return other.rank < split.rank
    return is_better(split, other.score, other.rank)
