"""The candidate features of a node: drawn for its level, and allowed by `constraints`."""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.constraints import is_open
from gpuboost.backends.numba.compiler import helper, inlined, randomness

feature_rank, level_key = randomness.feature_rank, randomness.level_key

SMALLEST_RANK, LAST_RANK = np.int64(-(2**63)), np.int64(2**63 - 1)
_SIGN = np.uint64(1 << 63)


@inlined
def signed_rank(key, feature):
    """`randomness.feature_rank` as int64 in the same order, which vector units compare faster."""
    return np.int64(feature_rank(key, np.uint64(feature)) ^ _SIGN)


@inlined
def rank_of(limits, key, feature):
    """Rank of a feature at the node with this key; the low 32 bits are the feature."""
    return signed_rank(key, feature) if limits.hashed_order else np.int64(feature)


@helper
def kth_smallest(ranks, n, k):
    """The ``k``-th smallest of ``n`` ranks, counting from 1, by bisection of their range."""
    low, high = SMALLEST_RANK, LAST_RANK
    while low < high:
        middle = (low & high) + ((low ^ high) >> 1)  # no overflow
        reached = 0
        for p in range(n):
            reached += np.int64(ranks[p] <= middle)
        low, high = (low, middle) if reached >= k else (middle + 1, high)
    return low


@helper
def last_of_level(problem, key):
    """Rank of the last feature drawn for the level with this key; overwrites `Scratch.ranks`."""
    scratch = problem.scratch
    n_features = scratch.of_tree[0]
    for p in range(n_features):
        scratch.ranks[p] = signed_rank(key, scratch.features[p])
    return kth_smallest(scratch.ranks, n_features, problem.limits.level_features)


@inlined
def has_excluded_features(problem):
    """Whether level sampling or interactions can exclude some of the tree's features."""
    limits = problem.limits
    return limits.has_interactions | (limits.level_features < problem.scratch.of_tree[0])


@helper
def choose_features(problem, nodes, k, open_groups):
    """Mark in `Scratch.chosen` which of the tree's features node ``k`` may split on."""
    limits, scratch = problem.limits, problem.scratch
    features = scratch.features[: scratch.of_tree[0]]
    key, last = np.uint64(0), LAST_RANK
    if limits.level_features < features.size:
        key = level_key(nodes[0].key, np.uint64(nodes[k].depth))
        last = last_of_level(problem, key)
    for p in range(features.size):
        feature = features[p]
        allowed = is_open(problem.constraints, feature, open_groups[k])
        drawn = last == LAST_RANK or signed_rank(key, feature) <= last
        is_chosen = (allowed | (not limits.has_interactions)) & drawn
        scratch.chosen[feature] = np.int32(is_chosen)


@helper
def keep_chosen(scratch, n):
    """Keep only the ranks of chosen features among the first ``n`` ranks; return their number."""
    ranks, n_kept = scratch.ranks, 0
    for p in range(n):
        if scratch.chosen[ranks[p] & np.int64(0xFFFFFFFF)]:
            ranks[n_kept] = ranks[p]
            n_kept += 1
    return n_kept


@inlined
def order_features(problem, key):
    """Fill `Scratch.ranks` with the ranks, unsorted, of a node's candidate features.

    Returns the number of candidates. If `has_excluded_features`, `choose_features` must have been
    called.
    """
    limits, scratch = problem.limits, problem.scratch
    ranks, features, n_features = scratch.ranks, scratch.features, scratch.of_tree[0]
    for p in range(n_features):
        ranks[p] = rank_of(limits, key, features[p])
    if has_excluded_features(problem):
        return keep_chosen(scratch, n_features)
    return n_features
