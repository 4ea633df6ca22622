"""Search for the best split of a node over all features of a sparse matrix, for one channel.

    entries of the node's rows, feature by feature     `_sort_entries`, or the columns of the matrix
    sums up to each bin of a feature                   `_sum_feature`
    candidates of several features, scored together    `_add_candidates`, `_score`

A feature without an entry in the node cannot split it. Most others have one or two entries, so one
call scores the candidates of many features. Features are considered by number, so the first of
several equal scores is that of the earliest feature, and of its lowest bin.
"""

from __future__ import annotations

import numpy as np
from numba import types

from gpuboost.backends.numba.common.constraints import sign_of
from gpuboost.backends.numba.common.packed_words import gradient_of, hessian_of
from gpuboost.backends.numba.common.records import COUNT, GRADIENT, HESSIAN
from gpuboost.backends.numba.common.sparse_columns import note_rows, position_of
from gpuboost.backends.numba.compiler import helper, inlined, plugin
from gpuboost.backends.numba.splits.histograms import list_occupied, mark, take_missing
from gpuboost.backends.numba.splits.scan import (
    best_candidate,
    evaluate_number,
    keep_occupied,
    take_candidate,
)
from gpuboost.engine.task import LEAF

BATCH = 256  # most candidates that are scored together; a feature has at most 255


@plugin(types.none)
def find_sparse_split(problem, node, rows, words):
    """Set `Scratch.split` to the best split of a node; its score is negative if there is none."""
    matrix, scratch, n_candidates = problem.matrix, problem.scratch, 0
    split = scratch.split[0]
    split.score, split.rank, split.feature = -1.0, 0, LEAF
    is_sorted = _sort_entries(matrix, scratch, rows, words)
    if not is_sorted:
        note_rows(scratch, rows, words)
    for p in range(scratch.of_tree[0]):
        feature = scratch.features[p]
        if is_sorted and scratch.entry_starts[feature] == scratch.entry_starts[feature + 1]:
            continue
        m = _sum_feature(problem, node, rows, words, feature, is_sorted)
        if m == 1:
            scratch.wide[:3, scratch.bins[0]] = 0
        elif _is_plain(problem, feature, m):
            if n_candidates + m - 1 > BATCH:
                _score(problem, node, n_candidates)
                n_candidates = 0
            n_candidates = _add_candidates(scratch, feature, m, n_candidates)
        else:
            _score(problem, node, n_candidates)
            n_candidates = 0
            _evaluate_alone(problem, node, feature, m)
    _score(problem, node, n_candidates)


@helper
def _sort_entries(matrix, scratch, rows, words):
    """Sort the entries of a node's rows by feature; return False if they are too many.

    The entries of feature ``f`` are those of `Scratch.entry_codes` and `Scratch.entry_words` from
    ``entry_starts[f]`` to ``entry_starts[f + 1] - 1``.
    """
    first, total = scratch.entry_starts, 0
    for i in range(rows.size):
        total += matrix.first_of_row[rows[i] + 1] - matrix.first_of_row[rows[i]]
    if total > scratch.entry_codes.size:
        return False
    first[:] = 0
    for i in range(rows.size):
        for entry in range(matrix.first_of_row[rows[i]], matrix.first_of_row[rows[i] + 1]):
            first[matrix.features_by_row[entry] + 2] += 1
    for feature in range(first.size - 1):
        first[feature + 1] += first[feature]
    for i in range(rows.size):
        for entry in range(matrix.first_of_row[rows[i]], matrix.first_of_row[rows[i] + 1]):
            feature = matrix.features_by_row[entry]
            at = first[feature + 1]
            scratch.entry_codes[at], scratch.entry_words[at] = matrix.codes_by_row[entry], words[i]
            first[feature + 1] = at + 1
    return True


@inlined
def _sum_feature(problem, node, rows, words, feature, is_sorted):
    """Fill `Scratch.wide` with the sums of each bin of a feature; return the number of bins.

    The bins that have rows are listed in `Scratch.bins`. The rows without an entry have the code of
    0; their sums are those of the node minus those of the entries.
    """
    matrix, scratch, packing = problem.matrix, problem.scratch, problem.packing
    gradient, hessian, count = node.gradient, node.hessian, node.count
    source = scratch.entry_starts if is_sorted else matrix.first_entry
    for entry in range(source[feature], source[feature + 1]):
        if is_sorted:
            code, word = scratch.entry_codes[entry], scratch.entry_words[entry]
        else:
            i = position_of(scratch, rows, matrix.entry_row[entry])
            if i < 0:
                continue
            code, word = matrix.entry_code[entry], words[i]
        own_gradient, own_hessian = gradient_of(word, packing), hessian_of(word, packing)
        gradient, hessian, count = gradient - own_gradient, hessian - own_hessian, count - 1
        _add(scratch, code, own_gradient, own_hessian, np.int64(1))
    if count > 0:
        _add(scratch, matrix.zero_code[feature], gradient, hessian, count)
    return list_occupied(scratch)


@inlined
def _add(scratch, code, gradient, hessian, count):
    """Add sums to those of a bin, and mark the bin."""
    wide = scratch.wide
    wide[GRADIENT, code] += gradient
    wide[HESSIAN, code] += hessian
    wide[COUNT, code] += count
    mark(scratch.occupied, code)


@inlined
def _is_plain(problem, feature, m):
    """Whether the candidates of a feature can be scored together with those of others."""
    matrix, last = problem.matrix, problem.scratch.bins[m - 1]
    has_missing = matrix.has_missing[feature] and last == matrix.missing_code
    return not (has_missing or problem.limits.has_weightless or sign_of(problem, feature) != 0)


@inlined
def _move_sums(scratch, m, at):
    """Move the sums up to each of ``m`` listed bins from `Scratch.wide` to `Scratch.sums`."""
    wide, sums = scratch.wide, scratch.sums
    for field in range(3):
        running = np.int64(0)
        for j in range(m):
            code = scratch.bins[j]
            running += wide[field, code]
            wide[field, code] = 0
            sums[field, at + j] = running


@inlined
def _add_candidates(scratch, feature, m, n_candidates):
    """Add the candidates of a feature to those that wait; return the number of these.

    The first bin on the right is the next one with weight: hessians of rows can be rounded to 0.
    """
    _move_sums(scratch, m, n_candidates)
    hessian, bins, following = scratch.sums[HESSIAN], scratch.bins, m - 1
    for j in range(m - 2, -1, -1):
        own, at = scratch.candidates[n_candidates + j], n_candidates + j
        if hessian[at + 1] != hessian[at]:
            following = j + 1
        own[0], own[1], own[2] = feature, bins[j], bins[following]
    return n_candidates + m - 1


@helper
def _score(problem, node, n_candidates):
    """Score the candidates that wait, and set the best so far."""
    if n_candidates == 0:
        return
    scratch = problem.scratch
    scratch.missing[:] = 0
    feature = scratch.candidates[0, 0]
    best = best_candidate(problem, None, node, feature, (np.int64(0), np.int64(n_candidates)))
    if best[0] < 0:
        return
    feature, bin_, next_bin = scratch.candidates[best[0]]
    if take_candidate(problem, feature, feature, best):
        split = scratch.split[0]
        split.bin, split.next_bin = bin_, next_bin


@helper
def _evaluate_alone(problem, node, feature, m):
    """Evaluate a feature with missing values, rows without weight, or a monotonic constraint."""
    scratch = problem.scratch
    _move_sums(scratch, m, 0)
    m = take_missing(problem, None, feature, m)
    m = keep_occupied(scratch, None, m) if problem.limits.has_weightless else m
    evaluate_number(problem, None, node, feature, np.int64(feature), m, scratch.bins)
