"""Splits of categorical features, which send a set of categories left.

Occupied categories are put in an order. Candidate j sends the first j + 1 of them left or, if the
feature has few categories, only the one at position j. The candidates are evaluated like the bins
of a numeric feature. With random thresholds, there is only one candidate, whose categories are
drawn. If categories are sorted by gradient / hessian, rare ones are left out and go where missing
values go.
"""

from __future__ import annotations

import numpy as np
from numba import types

from gpuboost.backends.numba.common.records import GRADIENT, HESSIAN
from gpuboost.backends.numba.compiler import inlined, plugin, randomness
from gpuboost.backends.numba.splits.channels import ordering_channel
from gpuboost.backends.numba.splits.histograms import n_fields
from gpuboost.backends.numba.splits.scan import best_candidate, take_candidate
from gpuboost.engine.task import MISSING_LEFT, ONE_HOT_CATEGORIES

category_goes_left = randomness.category_goes_left


@inlined
def sort_positions(keys, codes, order, m):
    """Sort positions 0 ... m - 1 into ``order`` by key, equal keys by code (Shell's sort)."""
    for j in range(m):
        order[j] = j
    for gap in (57, 23, 10, 4, 1):
        for j in range(gap, m):
            item = order[j]
            at = j
            while at >= gap:
                other = order[at - gap]
                ahead = keys[item] < keys[other]
                ahead |= (keys[item] == keys[other]) & (codes[item] < codes[other])
                if not ahead:
                    break
                order[at] = other
                at -= gap
            order[at] = item


@inlined
def order_at_random(key, feature, keys, codes, order, m):
    """Sort the categories that a random split sends left to the front; return their number.

    At least one category goes left and, if there are several, at least one does not.
    """
    n_left = np.int64(0)
    for j in range(m):
        word = category_goes_left(key, np.uint64(feature), np.uint64(codes[j]))
        keys[j] = -np.float64(word)
        n_left += np.int64(word)
    sort_positions(keys, codes, order, m)
    return np.int64(1) if (n_left == 0) | (n_left == m) else n_left


@inlined
def candidate_order(problem, node, feature, keys, codes, m):
    """Fill `Scratch.order`; return the range of candidates, and whether each is one category."""
    order = problem.scratch.order
    if problem.limits.random_thresholds:
        n_left = order_at_random(node.key, feature, keys, codes, order, m)
        return n_left - 1, n_left, False
    if problem.matrix.n_bins[feature] <= ONE_HOT_CATEGORIES:
        for j in range(m):
            order[j] = j
        return 0, m, True
    sort_positions(keys, codes, order, m)
    return 0, m, False


@inlined
def write_mask(mask, codes, order, m, chosen, is_alone):
    """Write both halves of a row of `GrownTree.masks`: categories that go left, and all ``m``."""
    mask[:] = 0
    for j in range(m):
        _add_category(mask, codes[order[j]], (j == chosen) if is_alone else (j <= chosen))


@inlined
def _add_category(mask, code, goes_left):
    """Add a category to the second half of a mask and, if it goes left, to the first."""
    bit = np.uint32(1) << np.uint32(code & 31)
    mask[8 + (code >> 5)] |= bit
    if goes_left:
        mask[code >> 5] |= bit


@inlined
def _take_categories(scratch, fields, m):
    """Compute the sums of each occupied category from the ``m`` running sums in `Scratch.sums`.

    Stores the sums in `Scratch.per_bin`, and the codes in `Scratch.bins`; returns the number of
    occupied categories.
    """
    sums, per_bin, n_occupied = scratch.sums, scratch.per_bin, np.int64(0)
    for j in range(m):
        for field in range(fields):
            before = sums[field, j - 1] if j > 0 else np.int64(0)
            per_bin[field, n_occupied] = sums[field, j] - before
        scratch.bins[n_occupied] = scratch.bins[j]
        n_occupied += np.int64(per_bin[HESSIAN, n_occupied] > 0)
    return n_occupied


@inlined
def are_sorted(problem, feature):
    """Whether the categories of a feature are sorted by gradient / hessian."""
    few = problem.matrix.n_bins[feature] <= ONE_HOT_CATEGORIES
    return not (few | problem.limits.random_thresholds)


@inlined
def _take_rare(scratch, fields, m, minimum):
    """Move the rare categories among ``m`` from `Scratch.per_bin` to the missing values.

    Their codes move from `Scratch.bins` to `Scratch.rare`. Returns the numbers of other and of rare
    categories.
    """
    per_bin, bins, kept = scratch.per_bin, scratch.bins, np.int64(0)
    for j in range(m):
        is_rare = per_bin[HESSIAN, j] < minimum
        if is_rare:
            scratch.rare[j - kept] = bins[j]
        for field in range(fields):
            own = per_bin[field, j]
            per_bin[field, kept] = own
            scratch.missing[field] += own if is_rare else np.int64(0)
        bins[kept] = bins[j]
        kept += np.int64(not is_rare)
    return kept, m - kept


@inlined
def _sort_keys(problem, channels, m):
    """Fill `Scratch.keys`, by which categories are sorted: gradient / hessian.

    The gradient is that of the only channel, of the node's largest class, or the sum over outputs.
    """
    scratch, per_bin = problem.scratch, problem.scratch.per_bin
    first, last = np.int64(0), np.int64(1)
    if channels is not None:
        first, last = ordering_channel(problem.limits, channels)
    for j in range(m):
        gradient = np.int64(0)
        for p in range(first, last):
            gradient += per_bin[GRADIENT + p, j]
        scratch.keys[j] = np.float64(gradient) / np.float64(per_bin[HESSIAN, j])


@plugin(types.boolean)
def evaluate_categories(problem, channels, node, feature, rank, m):
    """Evaluate a categorical feature from the sums up to each of ``m`` bins and the missing values.

    Returns whether the feature can split the node.
    """
    scratch, n_rare, fields = problem.scratch, np.int64(0), n_fields(channels)
    m, missing = _take_categories(scratch, fields, m), scratch.missing
    if m + np.int64(missing[HESSIAN] > 0) < 2:
        return False
    minimum = scratch.of_tree[1] if are_sorted(problem, feature) else np.int64(0)
    if minimum > 0:
        m, n_rare = _take_rare(scratch, fields, m, minimum)
    _sort_keys(problem, channels, m)
    per_bin, sums, order = scratch.per_bin, scratch.sums, scratch.order
    first, last, is_alone = candidate_order(problem, node, feature, scratch.keys, scratch.bins, m)
    for field in range(fields):
        running = np.int64(0)
        for j in range(m):
            item = per_bin[field, order[j]]
            running = item if is_alone else running + item
            sums[field, j] = running
    if minimum > 0 and missing[HESSIAN] < minimum:  # too few missing values for a right side
        last = max(last - 1, np.int64(0))
    best = best_candidate(problem, channels, node, feature, (first, last))
    if take_candidate(problem, feature, rank, best):
        split = scratch.split[0]
        split.bin, split.next_bin, split.categorical = 0, 0, 1
        write_mask(scratch.mask, scratch.bins, order, m, best[0], is_alone)
        for j in range(n_rare):
            _add_category(scratch.mask, scratch.rare[j], best[2] == MISSING_LEFT)
    return True
