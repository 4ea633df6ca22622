"""Search for the best split of one node over its candidate features, in the node's order."""

from __future__ import annotations

import numpy as np
from numba import types

from gpuboost.backends.numba.common.feature_sampling import (
    SMALLEST_RANK,
    choose_features,
    has_excluded_features,
    order_features,
)
from gpuboost.backends.numba.common.nodes import accept, is_leaf
from gpuboost.backends.numba.common.packed_words import fits_word, gradient_of, hessian_of
from gpuboost.backends.numba.common.records import Members
from gpuboost.backends.numba.common.sparse_columns import is_sparse, note_rows
from gpuboost.backends.numba.compiler import (
    call_for_bool,
    call_for_integer,
    call_for_nothing,
    inlined,
    plugin,
)
from gpuboost.backends.numba.splits.channels import MOMENTS, PAIR, is_pure_node, prepare_words
from gpuboost.backends.numba.splits.feature_order import (
    MAX_COUNTED,
    collect_ranks,
    last_rank_of,
    sort_collected,
)
from gpuboost.backends.numba.splits.histograms import (
    fits_words,
    prefix_sums,
    take_missing,
    unpack_prefix,
    word_prefix,
)
from gpuboost.backends.numba.splits.random_thresholds import evaluate_threshold, evaluate_two_valued
from gpuboost.backends.numba.splits.scan import evaluate_number, evaluate_words, keep_occupied
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.task import LEAF

# With gini and one channel, the search of a node that considers only some of the features ends at a
# split into two pure sides: no feature has a larger score, and the features that follow have higher
# ranks, so they lose ties. Nodes of a larger hessian than `PERFECT_UP_TO` rarely have such a split;
# from 2**14 on, rounding could give an impure split the same score. Without this, a forest of
# 100k x 28 grown to purity takes 6% longer.
PERFECT_UP_TO = 2048


@inlined
def _evaluate_number(problem, channels, members, feature, rank):
    """Evaluate all thresholds of a numeric feature; return whether it can split the node."""
    matrix, scratch, limits, node = problem.matrix, problem.scratch, problem.limits, members.node
    has_missing, prefix = matrix.has_missing[feature], problem.scratch.prefix
    is_plain = (limits.criterion == VARIANCE) & (limits.min_samples_leaf <= 1)
    if is_plain & fits_words(channels, members):
        is_two_valued = (matrix.n_bins[feature] == 2) & (not has_missing)
        if channels is None and is_two_valued and not is_sparse(matrix):
            return evaluate_two_valued(problem, members, feature, rank)
        words = members.word if channels is None else channels.word
        m, is_seen = word_prefix(problem, members.row, words, feature), False
        if m == 1:
            return False
        if has_missing:
            is_missing = scratch.bins[m - 1] == matrix.missing_code
            is_seen = is_missing & (prefix[m - 1] != prefix[m - 2])
        if not is_seen:
            return evaluate_words(problem, channels, node, feature, rank, m)
        unpack_prefix(problem, channels, m)
        m = take_missing(problem, channels, feature, m)
    elif channels is not None and channels.state[1] == MOMENTS:
        given = (problem, channels, members.row, feature)
        m = call_for_integer(problem.plugins.class_moments, given)
    else:
        m = prefix_sums(problem, channels, members, feature)
    m = keep_occupied(scratch, channels, m) if limits.has_weightless else m
    return evaluate_number(problem, channels, node, feature, rank, m, scratch.bins)


@inlined
def evaluate_feature(problem, channels, members, feature, rank, random):
    """Evaluate one feature; return whether it can split the node.

    ``random`` is not None if thresholds of one channel are random.
    """
    matrix = problem.matrix
    if (matrix.n_bins[feature] == 1) & (not matrix.has_missing[feature]):
        return False
    if matrix.is_categorical[feature]:
        m = prefix_sums(problem, channels, members, feature)
        plugins = problem.plugins
        address = plugins.one_categories if channels is None else plugins.many_categories
        return call_for_bool(address, (problem, channels, members.node, feature, rank, m))
    if random is not None:
        return evaluate_threshold(problem, channels, members, feature, rank)
    if channels is not None and problem.limits.random_thresholds:
        node, row, word, is_wide = members
        given = (problem, channels, node, row, word, is_wide, feature, rank)
        return call_for_bool(problem.plugins.many_random, given)
    return _evaluate_number(problem, channels, members, feature, rank)


@inlined
def find_split(problem, channels, node, rows, words, random=None):
    """Set `Scratch.split` to the best split of a node; its score is negative if there is none.

    ``channels`` is None for one channel: two classes, or one output. For categorical splits,
    `Scratch.mask` is set, too. ``random`` is as in `evaluate_feature`.
    """
    limits, scratch = problem.limits, problem.scratch
    members = Members(node, rows, words, not fits_word(node.hessian, node.count, problem.packing))
    split = scratch.split[0]
    split.score, split.rank, split.feature = -1.0, SMALLEST_RANK, LEAF
    if is_sparse(problem.matrix):
        note_rows(scratch, rows, words if channels is None else channels.word)
    n_features = order_features(problem, node.key)
    ordered = limits.hashed_order and limits.max_features < n_features
    is_gini = (not limits.is_regression) & (limits.criterion == VARIANCE)
    perfect = np.inf
    if channels is None and ordered and is_gini and node.hessian <= PERFECT_UP_TO:
        perfect = np.float64(node.gradient * (node.hessian - node.gradient))
    # Most nodes need no more ranks than these. With twice as many, extra-trees take 3% longer.
    lowest, share = SMALLEST_RANK, (1.2 * limits.max_features + 3.0) / n_features
    n_sorted, n_taken = np.int64(0), np.int64(0)
    can_split = False
    for p in range(n_features):
        if (p >= limits.max_features and can_split) or split.score >= perfect:
            break
        rank = scratch.ranks[p]
        if ordered:
            while n_taken == n_sorted:
                last = last_rank_of(share)
                n_sorted, n_taken = collect_ranks(scratch, n_features, lowest, last), np.int64(0)
                if n_sorted > MAX_COUNTED:
                    sort_collected(scratch, n_sorted)
                lowest, share = last + 1, 4.0 * share
            rank = scratch.sorted_ranks[n_taken]
            n_taken += 1
        feature = rank & np.int64(0xFFFFFFFF)
        can_split |= evaluate_feature(problem, channels, members, feature, rank, random)


@plugin(types.none)
def find_split_of_one(problem, node, rows, words):
    """`find_split` for one channel.

    As a plugin, it is compiled once for the trees of one channel, those of several channels and the
    small subtrees of boosting; inlined in each, it takes 4 s more of CPU (2026-11).
    """
    find_split(problem, None, node, rows, words)


@plugin(types.none)
def find_random_split(problem, node, rows, words):
    """`find_split_of_one` for random thresholds, whose evaluation is inlined.

    If it is called for each feature, extra-trees of 100k x 28 take 11% longer (2026-11).
    """
    find_split(problem, None, node, rows, words, True)


@inlined
def is_constant(words, packing):
    """Whether rows of positive weight have equal targets: gradients proportional to weights."""
    first = 0
    while first < words.size and hessian_of(words[first], packing) == 0:
        first += 1
    if first == words.size:
        return True
    gradient, hessian = gradient_of(words[first], packing), hessian_of(words[first], packing)
    for i in range(first + 1, words.size):
        word = words[i]
        if gradient_of(word, packing) * hessian != gradient * hessian_of(word, packing):
            return False
    return True


@inlined
def is_pure(limits, words, node, packing):
    """Whether rows of positive weight in a node of one channel have equal targets, or signs."""
    if limits.is_regression:
        return is_constant(words, packing)
    return (node.gradient == 0) | (node.gradient == node.hessian)


@inlined
def evaluate(problem, channels, rows, nodes, k, open_groups):
    """Find the split of new node ``k`` and store it in the node; return False if ``k`` is a leaf.

    The mask of a categorical split stays in `Scratch.mask`.
    """
    limits, node = problem.limits, nodes[k]
    if is_leaf(limits, node):
        return False
    if has_excluded_features(problem):
        choose_features(problem, nodes, k, open_groups)
    start, stop = node.start, node.start + node.count
    row, word = rows.row[start:stop], rows.word[start:stop]
    if channels is None:
        if (not limits.has_gradients) and is_pure(limits, word, node, problem.packing):
            return False
        call_for_nothing(problem.plugins.find_split, (problem, node, row, word))
    else:
        if is_pure_node(limits, channels, row, word):
            return False
        prepare_words(problem, channels, node, word)
        own_word = channels.word[: node.count]
        if channels.state[1] == PAIR:
            call_for_nothing(problem.plugins.find_split, (problem, node, row, own_word))
            if not limits.both_classes:
                problem.scratch.split[0].score *= 2.0  # two classes with equal terms
        else:
            find_split(problem, channels, node, row, word)
    return accept(limits, problem.scratch, node)
