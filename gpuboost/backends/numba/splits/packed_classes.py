"""Nodes of a few classes, a field of one word per class: the common cases, without detours.

    | class 0 | class 1 | class 2 | ...    `bits` each, so that the whole node fits a field

Gini, nothing missing, rows not counted; what else there is goes the way of `scan_channels.py`.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.records import Members
from gpuboost.backends.numba.compiler import criteria, inlined
from gpuboost.backends.numba.splits.channels import FIELDS
from gpuboost.backends.numba.splits.histograms import LANES, word_prefix
from gpuboost.backends.numba.splits.random_thresholds import code_range, draw_bin, gather_codes
from gpuboost.backends.numba.splits.scan import first_largest, is_better, set_best
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.task import MISSING_UNSEEN

variance_term, variance_gain = criteria.variance_term, criteria.variance_gain


@inlined
def is_plain(problem, channels, feature):
    """Whether a feature can be looked at here."""
    matrix, limits = problem.matrix, problem.limits
    plain = (channels.state[1] == FIELDS) & (limits.criterion == VARIANCE)
    plain &= (limits.min_samples_leaf <= 1) & (not limits.has_weightless)
    return plain & (not matrix.has_missing[feature]) & (not matrix.is_categorical[feature])


@inlined
def field_of(word, p, bits):
    """Field ``p`` of a word."""
    return (word >> (p * bits)) & ((np.int64(1) << bits) - 1)


@inlined
def evaluate_fields(problem, channels, members, feature, rank):
    """The best threshold of a feature; whether it could split."""
    scratch, node, prefix = problem.scratch, members.node, problem.scratch.prefix
    summed = Members(node, members.row, channels.word[: members.row.size], False)
    m = word_prefix(problem, summed, feature, problem.matrix.n_bins[feature])
    padded = (m + LANES - 1) // LANES * LANES
    for j in range(m, padded):
        prefix[j] = 0
    _add_hessians(channels, prefix, padded)
    _fields_scores(problem, channels, node, padded)
    j = first_largest(scratch.patterns, padded)
    if j < 0:
        first = np.int64(0)
        while channels.left_hessian[first] == 0:
            first += 1
        return channels.left_hessian[first] < node.hessian
    split = scratch.split[0]
    if is_better(split, scratch.scores[j], rank):
        hessian, following = channels.left_hessian[j], j + 1
        set_best(split, scratch.scores[j], rank, feature, 0, hessian)
        while channels.left_hessian[following] == hessian:
            following += 1
        split.bin, split.next_bin = scratch.bins[j], scratch.bins[following]
        split.missing = MISSING_UNSEEN
    return True


@inlined
def _add_hessians(channels, prefix, padded):
    """Hessians on the left, the sums of all fields."""
    bits, hessian = channels.state[2], channels.left_hessian
    for j in range(padded):
        hessian[j] = 0
    for p in range(channels.state[0]):
        for j in range(padded):
            hessian[j] += field_of(prefix[j], p, bits)


@inlined
def _fields_scores(problem, channels, node, padded):
    """Gains of all candidates, -1 where a side is too light."""
    bits, prefix, scores = channels.state[2], problem.scratch.prefix, problem.scratch.scores
    hessian, h = channels.left_hessian, np.float64(node.hessian)
    minimum = np.float64(problem.limits.min_hessian)
    for j in range(padded):
        scores[j] = 0.0
    for p in range(channels.state[0]):
        g = np.float64(channels.sums[p])
        for j in range(padded):
            gl, hl = np.float64(field_of(prefix[j], p, bits)), np.float64(hessian[j])
            scores[j] += variance_term(gl, g, hl, h)
    for j in range(padded):
        hl = np.float64(hessian[j])
        score = variance_gain(scores[j], hl, h - hl)
        scores[j] = score if (hl >= minimum) & (h - hl >= minimum) else -1.0


@inlined
def evaluate_random_fields(problem, channels, members, feature, rank):
    """A random threshold, as `thresholds.evaluate_random`."""
    scratch, node, bits = problem.scratch, members.node, channels.state[2]
    gathered, word = scratch.codes, channels.word
    gather_codes(problem.matrix.codes, feature, members.row, gathered)
    low, high = code_range(gathered, members.row.size)
    if low == high:
        return False
    draw, code = draw_bin(problem.matrix.center, node.key, feature, low, high)
    total, last = np.int64(0), np.uint8(code)
    for i in range(members.row.size):
        total += word[i] & -np.int64(gathered[i] <= last)
    hessian = np.int64(0)
    for p in range(channels.state[0]):
        hessian += field_of(total, p, bits)
    minimum = problem.limits.min_hessian
    if (hessian < minimum) | (node.hessian - hessian < minimum):
        return True
    terms, hl, h = 0.0, np.float64(hessian), np.float64(node.hessian)
    for p in range(channels.state[0]):
        gl = np.float64(field_of(total, p, bits))
        terms += variance_term(gl, np.float64(channels.sums[p]), hl, h)
    score, split = variance_gain(terms, hl, h - hl), scratch.split[0]
    if is_better(split, score, rank):
        set_best(split, score, rank, feature, 0, hessian)
        split.bin, split.next_bin, split.missing = code, code + 1, MISSING_UNSEEN
        split.draw = draw
    return True
