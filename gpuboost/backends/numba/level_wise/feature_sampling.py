"""Candidate features of nodes that do not consider all features (see backends/protocol.py).

Histograms have all features, so that they can be subtracted; the search skips features that are not
candidates. Strips of columns are searched separately, and the search of one strip does not know
whether a feature of another one could split. So each strip searches its features among the node's
first max_features and keeps the best split. If none of these features could split, the strip keeps
the split by its first later feature that could:

    features in the node's order    first ones | later ones
    strip 0                         a  -  c    | -  e          c can split: best of a and c
    strip 1                         -  b  -    | d  -          b cannot, d can: d, BEYOND

The node takes the best split that is FOUND; if there is none, the BEYOND split of smallest rank.

The functions that choose features for each node are plugins, so that only the fits that need them
compile them.
"""

from __future__ import annotations

import numpy as np
from numba import from_dtype, types

from gpuboost.backends.numba.common.feature_sampling import (
    LAST_RANK,
    choose_features,
    has_excluded_features,
    kth_smallest,
    order_features,
    rank_of,
)
from gpuboost.backends.numba.common.records import NODE
from gpuboost.backends.numba.compiler import inlined, plugin
from gpuboost.backends.numba.references import ReferenceType
from gpuboost.backends.numba.splits.scan import is_better

# Status of a feature at a node: not a candidate (or a later one already evaluated), one of the
# first max_features, a later one, and the later one that is evaluated now.
EXCLUDED, CANDIDATE, RESERVE, CURRENT = range(4)
# The best split of a strip is by one of the first features, by a later one, or there is none. (The
# score of a FOUND split is -1 if no candidate is valid.)
FOUND, BEYOND, NONE = range(3)


@inlined
def set_tree(scratch, state, tree):
    """Set `Scratch.features` and `Scratch.of_tree` to those of one tree."""
    n_features = state.n_features[tree]
    scratch.of_tree[0], scratch.of_tree[1] = n_features, state.min_category[tree]
    for p in range(n_features):
        scratch.features[p] = state.features[tree, p]


@inlined
def row_of(node_sampling, tree, slot):
    """Row of `LevelWork.feature_status` for a searched node: its slot, or its tree."""
    return slot if node_sampling else tree


@plugin(types.none)
def choose_status(problem, state, status, at, capacity):
    """Fill ``status`` (F,) with the status of each feature at node ``at``."""
    tree = at // capacity
    set_tree(problem.scratch, state, tree)
    status[:] = EXCLUDED
    first, limits, ranks = tree * capacity, problem.limits, problem.scratch.ranks
    if has_excluded_features(problem):
        choose_features(problem, state.nodes[first:], at - first, state.groups[first:])
    n_features, last = order_features(problem, state.nodes[at].key), LAST_RANK
    if limits.max_features < n_features:
        last = kth_smallest(ranks, n_features, limits.max_features)
    for p in range(n_features):
        status[ranks[p] & np.int64(0xFFFFFFFF)] = CANDIDATE if ranks[p] <= last else RESERVE


@plugin(types.int64)
def next_later(problem, columns, node, status, first, last):
    """Set the status of a strip's next `RESERVE` feature to `CURRENT`; return the feature, or -1.

    The columns of the strip are those from ``first`` to ``last`` - 1. The next feature is that of
    smallest rank. The previous `CURRENT` feature becomes `EXCLUDED`.
    """
    best, found = LAST_RANK, np.int64(-1)
    for at in range(columns.first[first], columns.first[last]):
        feature = columns.order[at]
        if status[feature] == CURRENT:
            status[feature] = EXCLUDED
        if status[feature] == RESERVE:
            rank = rank_of(problem.limits, node.key, feature)
            if rank < best:
                best, found = rank, feature
    if found >= 0:
        status[found] = CURRENT
    return found


def sampling_plugins(
    problem: ReferenceType, state: ReferenceType, columns: ReferenceType
) -> dict[str, int]:
    """The addresses of the functions that choose features, by their names in `Plugins`."""
    status = types.Array(types.uint8, 1, "C")
    return {
        "choose_status": choose_status.address(problem, state, status, types.int64, types.int64),
        "next_later": next_later.address(
            problem, columns, from_dtype(NODE), status, types.int64, types.int64
        ),
    }


@inlined
def is_better_split(split, other, node_sampling):
    """Whether ``other``, the split of a strip, is better than ``split``, the best so far."""
    if not node_sampling:
        return is_better(split, other.score, other.rank)
    if other.found_at != split.found_at:
        return other.found_at < split.found_at
    if other.found_at == BEYOND:
        return other.rank < split.rank
    return is_better(split, other.score, other.rank)
