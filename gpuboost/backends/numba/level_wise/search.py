"""Best splits of the nodes of a level, from histograms.

A task is a family (a node, or two siblings) and a tile of columns: chunks of the smaller sibling
are added up, the larger one is its parent less it, and the features of both are searched while
their cells are in the cache.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.feature_sampling import SMALLEST_RANK
from gpuboost.backends.numba.compiler import helper, inlined, spliced
from gpuboost.backends.numba.level_wise.feature_bundles import BINS, take_out
from gpuboost.backends.numba.level_wise.feature_sampling import (
    FIRST,
    FOUND,
    LATE,
    NEXT,
    NONE,
    next_later,
    row_of,
)
from gpuboost.backends.numba.level_wise.histograms import tile_cells
from gpuboost.backends.numba.splits.categorical import evaluate_category_sums
from gpuboost.backends.numba.splits.random_thresholds import rank_of
from gpuboost.backends.numba.splits.scan import best_of_sums, is_better, set_best
from gpuboost.backends.numba.threads.barrier import next_task
from gpuboost.engine.task import LEAF, MISSING_LEFT, MISSING_UNSEEN, ONLY_MISSING_RIGHT


@inlined
def _add_parts(work, pair, first, last):
    """The histogram of a node from those of its chunks."""
    for field in range(work.histograms.shape[1]):
        total = work.histograms[pair.summed_histogram, field, first:last]
        part = work.histograms[pair.first_part, field, first:last]
        for j in range(total.size):
            total[j] = part[j]
        for p in range(pair.first_part + 1, pair.first_part + pair.n_chunks):
            part = work.histograms[p, field, first:last]
            for j in range(total.size):
                total[j] += part[j]


@inlined
def _subtract(work, pair, first, last):
    """The histogram of the larger sibling, in place of its parent's."""
    for field in range(work.histograms.shape[1]):
        own = work.histograms[pair.summed_histogram, field, first:last]
        other = work.histograms[pair.other_histogram, field, first:last]
        for j in range(other.size):
            other[j] -= own[j]


@inlined
def _sum_up(scratch, cells, column, width, missing_code):
    """`Scratch.sums` up to each of ``width`` value bins, and `Scratch.missing`."""
    sums, missing, at = scratch.sums, scratch.missing, column * BINS
    missing[2] = 0
    for field in range(cells.shape[0]):
        running, own = np.int64(0), cells[field, at : at + BINS]
        for j in range(np.uint64(width)):
            running += own[j]
            sums[field, j] = running
        missing[field] = own[missing_code]


@inlined
def _sum_up_bundle(scratch, n_fields, columns, feature, width):
    """The same of the feature that changes slowest in `Scratch.bundle`, which is summed out."""
    sums, missing, values = scratch.sums, scratch.missing, columns.values[feature]
    take_out(scratch.bundle, n_fields, columns.stride[feature], values, sums)
    missing[2] = 0
    for field in range(n_fields):
        missing[field] = sums[field, width] if values > width else 0
        for j in range(1, width):
            sums[field, j] += sums[field, j - 1]


@inlined
def evaluate_numeric_sums(problem, node, feature, rank, m):
    """The best split of a number, from the sums up to each of its ``m`` bins, occupied or not.

    A bin without rows has the sums of the one before, which wins as the lower one.
    """
    scratch = problem.scratch
    sums, missing, is_seen = scratch.sums, scratch.missing, scratch.missing[1] > 0
    j, score, goes = best_of_sums(problem, node, feature, 0, m)
    split = scratch.split[0]
    if j < 0 or not is_better(split, score, rank):
        return
    with_missing = goes == MISSING_LEFT
    left_gradient = sums[0, j] + (missing[0] if with_missing else 0)
    left_hessian = sums[1, j] + (missing[1] if with_missing else 0)
    set_best(split, score, rank, feature, left_gradient, left_hessian)
    following = j + 1
    while following < m and sums[1, following] == sums[1, j]:
        following += 1
    split.bin = j
    split.next_bin = following if following < m else ONLY_MISSING_RIGHT
    split.missing = goes if is_seen else MISSING_UNSEEN


@inlined
def _list_bins(scratch, matrix, feature, m):
    """The bins of `Scratch.sums`, the missing one last; their number."""
    for j in range(m):
        scratch.bins[j] = j
    if not matrix.has_missing[feature]:
        return m
    scratch.bins[m] = matrix.missing_code
    for field in range(3):
        scratch.sums[field, m] = scratch.sums[field, m - 1] + scratch.missing[field]
    return m + 1


@inlined
def _could_split(scratch, node, m):
    """Whether values, of ``m`` bins, tell rows of the node apart; sums are up to each bin."""
    j, sums = 0, scratch.sums
    while j < m and sums[1, j] == 0:
        j += 1
    return j < m and sums[1, j] < node.hessian


@spliced
def _evaluate_sums(problem, node, feature, minimum):
    """The best split of a feature whose sums are in `Scratch.sums`, if it is the best so far.

    Whether the feature could split, where that is asked for.
    """
    matrix, scratch = problem.matrix, problem.scratch
    n_bins, rank = matrix.n_bins[feature], rank_of(problem.limits, node.key, feature)
    if not matrix.has_missing[feature]:
        scratch.missing[:] = 0
    if matrix.is_categorical[feature]:
        m = _list_bins(scratch, matrix, feature, n_bins)
        return evaluate_category_sums(problem, node, feature, rank, m, minimum)
    evaluate_numeric_sums(problem, node, feature, rank, n_bins)
    if problem.limits.max_features >= matrix.n_bins.size:
        return True
    return _could_split(scratch, node, n_bins)


@spliced
def _search_features(problem, columns, node, cells, of_node, tile, kind):
    """Offer to `Scratch.split` the features of one kind of a tile; whether one could split."""
    matrix, scratch, (looks, minimum) = problem.matrix, problem.scratch, of_node
    could = False
    for column in range(tile[0], tile[1]):
        first, last = columns.first[column], columns.first[column + 1]
        is_bundle = columns.values[columns.order[first]] > 0
        if is_bundle:
            for field in range(cells.shape[0]):
                for j in range(BINS):
                    scratch.bundle[field, j] = cells[field, column * BINS + j]
        for at in range(first, last):
            feature = columns.order[at]
            n_bins = matrix.n_bins[feature]
            if is_bundle:
                _sum_up_bundle(scratch, cells.shape[0], columns, feature, n_bins)
            only_one = (n_bins == 1) & (not matrix.has_missing[feature])
            if (looks[feature] != kind) | only_one:
                continue
            if not is_bundle:
                _sum_up(scratch, cells, column, n_bins, matrix.missing_code)
            could |= _evaluate_sums(problem, node, feature, minimum)
    return could


@helper
def search_node(problem, columns, node, cells, of_node, drawn, tile):
    """Leave the best split by the columns of a tile in `Scratch.split`; see `level_choice`.

    ``of_node``: the kinds of features, and the hessian of a category that is not rare.
    ``tile``: the first column and the end.
    """
    split, feature = problem.scratch.split[0], np.int64(-1)
    split.score, split.rank, split.feature, split.late = -1.0, SMALLEST_RANK, LEAF, FOUND
    while True:
        kind = FIRST if feature < 0 else NEXT
        could = _search_features(problem, columns, node, cells, of_node, tile, kind)
        if drawn is None:
            return
        if could or problem.limits.max_features >= problem.matrix.n_bins.size:
            break
        feature = next_later(problem, columns, node, of_node[0], tile)
        if feature < 0:
            split.late = NONE
            return
    if feature >= 0:
        split.late, split.rank = LATE, rank_of(problem.limits, node.key, feature)


@inlined
def _store(problem, work, slot, tile):
    """Keep what was found for a node."""
    work.found[slot, tile] = problem.scratch.split[0]
    if work.found_mask.size > 0:
        for word in range(16):
            work.found_mask[slot, tile, word] = problem.scratch.mask[word]


@spliced
def search_task(problem, samples, state, work, task):
    """One family and tile."""
    n_tiles = work.found.shape[1]
    at, tile = task // n_tiles, task % n_tiles
    pair, slot = work.pairs[at], 2 * at
    first, last = tile_cells(samples, tile)
    if pair.n_chunks > 1:
        _add_parts(work, pair, first, last)
    minimum = state.min_category[pair.tree]
    own = first // BINS, last // BINS
    if pair.is_open:
        node, cells = (
            state.nodes[pair.summed],
            work.histograms[pair.summed_histogram],
        )
        of_node = work.looks[row_of(work.drawn, pair.tree, slot)], minimum
        search_node(problem, samples.columns, node, cells, of_node, work.drawn, own)
        _store(problem, work, slot, tile)
    if pair.other >= 0:
        _subtract(work, pair, first, last)
        node, cells = state.nodes[pair.other], work.histograms[pair.other_histogram]
        of_node = work.looks[row_of(work.drawn, pair.tree, slot + 1)], minimum
        search_node(problem, samples.columns, node, cells, of_node, work.drawn, own)
        _store(problem, work, slot + 1, tile)


@spliced
def search_tasks(problem, samples, state, work, n_tasks, barrier):
    """Families and tiles, as many as this thread gets hold of."""
    task = next_task(barrier)
    while task < n_tasks:
        search_task(problem, samples, state, work, task)
        task = next_task(barrier)
