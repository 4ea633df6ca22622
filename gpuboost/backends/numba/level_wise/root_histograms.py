"""Histograms of the roots of several trees that have the same rows.

Words of eight trees lie side by side, and so do their partial sums, so that one instruction, or
two, add the words of a row to the cells of all trees:

    row  words of trees 0 to 7           partial sums of a tile
    17   w w w w w w w w           ->    [column][bin] w w w w w w w w

Rows that are not in the trees have words of zero. With seven trees, a quarter of the time of one
tree after the other (measured).
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined, spliced
from gpuboost.backends.numba.intrinsics import add_eight
from gpuboost.backends.numba.level_wise.feature_bundles import BINS
from gpuboost.backends.numba.level_wise.histograms import (
    LOW_BYTE,
    STEP,
    count_rows,
    histogram_slot_of,
    tile_cells,
)
from gpuboost.backends.numba.threads.barrier import next_task

LANES = 8  # trees side by side
MIN_TREES = 3  # fewer are summed one by one in less time (measured)
_BLOCKS = 32  # of `STEP` rows: one task


@inlined
def _lay_step(samples, rows, tree, first, last):
    """Words of a tree's rows ``first`` to ``last``, and what they add up to, sizes of gradients."""
    word, across, bits = samples.word[tree], samples.across, np.int64(samples.hessian_bits)
    mask = (np.int64(1) << bits) - np.int64(1)
    gradient, hessian, at = np.int64(0), np.int64(0), first
    if rows.size < word.size:
        across[first:last, tree] = 0
        at, last = np.searchsorted(rows, first), np.searchsorted(rows, last)
    for j in range(at, last):
        row = np.int64(rows[j])
        across[row, tree] = word[row]
        gradient += abs(word[row] >> bits)
        hessian += word[row] & mask
    samples.steps[tree, first // STEP, 0] = gradient
    samples.steps[tree, first // STEP, 1] = hessian


@helper
def lay_across(samples, state, barrier):
    """Fill `Samples.across` and `Samples.steps`; the roots' rows are in their first places."""
    n, n_trees = samples.word.shape[1], samples.word.shape[0]
    rows = state.row[0, : state.nodes[0].count]
    task = next_task(barrier)
    while task * _BLOCKS * STEP < n:
        first = task * _BLOCKS * STEP
        for start in range(first, min(first + _BLOCKS * STEP, n), STEP):
            for tree in range(n_trees):
                _lay_step(samples, rows, tree, start, min(start + STEP, n))
        task = next_task(barrier)


@inlined
def _add_rows(samples, group, first, last, tile, partial):
    """Add the words of rows to the partial sums of a tile."""
    by_row, across, lane = samples.by_row, samples.across, np.int64(group * LANES)
    first_column = tile * samples.tile
    groups = first_column // 8, min(first_column + samples.tile, samples.n_columns) // 8
    rest = min(first_column + samples.tile, samples.n_columns) - 8 * groups[1]
    for row in range(first, last):
        at = np.uint64(0)
        for g in range(groups[0], groups[1]):
            codes = by_row[row, g]
            for byte in range(8):
                code = (codes >> np.uint64(8 * byte)) & LOW_BYTE
                cell = at + np.uint64(BINS * byte) + code
                add_eight(partial, np.int64(cell * np.uint64(LANES)), across, row, lane)
            at += np.uint64(8 * BINS)
        if rest > 0:
            codes = by_row[row, groups[1]]
            for _ in range(rest):
                cell = at + (codes & LOW_BYTE)
                add_eight(partial, np.int64(cell * np.uint64(LANES)), across, row, lane)
                codes >>= np.uint64(8)
                at += np.uint64(BINS)


@inlined
def _empty_lane(partial, lane, bits, gradient, hessian, is_first):
    """Move the partial sums of one tree to its totals."""
    mask = (np.int64(1) << bits) - np.int64(1)
    for j in range(gradient.size):
        word = partial[j * LANES + lane]
        gradient[j] = (np.int64(0) if is_first else gradient[j]) + (word >> bits)
        hessian[j] = (np.int64(0) if is_first else hessian[j]) + (word & mask)


@helper
def empty_lanes(samples, work, n_pairs, assign_children, partial, is_first):
    """Move partial sums to the totals of the trees of a group, and leave zeros.

    ``assign_children``: group of trees, piece of the rows, tile of columns.
    """
    group, piece, tile = assign_children
    cells, bits = tile_cells(samples, tile), np.int64(samples.hessian_bits)
    for f in range(n_pairs):
        tree = work.pairs[f].tree
        if tree // LANES == group:
            totals = work.histograms[histogram_slot_of(work, f, piece), :, cells[0] : cells[1]]
            _empty_lane(partial, tree % LANES, bits, totals[0], totals[1], is_first)
    partial[: (cells[1] - cells[0]) * LANES] = 0


@inlined
def _largest(samples, group, step, field):
    """What the rows of a step add to a field of a word at most."""
    maximum = np.int64(0)
    for tree in range(group * LANES, min((group + 1) * LANES, samples.word.shape[0])):
        maximum = max(maximum, samples.steps[tree, step, field])
    return maximum


@spliced
def sum_lanes(samples, work, n_pairs, assign_children, partial):
    """Gradients and hessians of a piece of the rows, in the cells of a tile."""
    group, piece, tile = assign_children
    n, pieces, bits = samples.word.shape[1], work.pairs[0].n_chunks, samples.hessian_bits
    limits = (np.int64(1) << (63 - bits)) - 1, (np.int64(1) << bits) - 1
    n_steps = samples.steps.shape[1]
    first, last = n_steps * piece // pieces, n_steps * (piece + 1) // pieces
    gradient, hessian, is_first = np.int64(0), np.int64(0), True
    for step in range(first, last):
        added = _largest(samples, group, step, 0), _largest(samples, group, step, 1)
        gradient, hessian = gradient + added[0], hessian + added[1]
        if (gradient > limits[0]) | (hessian > limits[1]):
            empty_lanes(samples, work, n_pairs, assign_children, partial, is_first)
            gradient, hessian, is_first = added[0], added[1], False
        _add_rows(samples, group, step * STEP, min((step + 1) * STEP, n), tile, partial)
    empty_lanes(samples, work, n_pairs, assign_children, partial, is_first)


@spliced
def count_rows_once(samples, state, work, n_pairs, assign_children, partial):
    """Numbers of rows in the cells of a tile: the same for all trees, of all groups."""
    _, piece, tile = assign_children
    cells = tile_cells(samples, tile)
    chunk = work.chunks[work.pairs[0].first_chunk + piece]
    counted = work.histograms[histogram_slot_of(work, 0, piece), :, cells[0] : cells[1]]
    own = partial[: cells[1] - cells[0]]
    count_rows(samples, 0, state.row[0, chunk.start : chunk.stop], tile, own, counted)
    for f in range(1, n_pairs):
        histogram = work.histograms[histogram_slot_of(work, f, piece)]
        for j in range(cells[0], cells[1]):
            histogram[2, j] = counted[2, j - cells[0]]


@helper
def sum_roots(samples, state, work, n_pairs, partial, barrier):
    """Histograms of the roots, as many pieces and tiles as this thread gets hold of.

    ``partial`` has room for a tile of eight trees, and is left as it is found: zero.
    """
    if n_pairs == 0:
        return
    n_tiles, pieces = work.found.shape[1], work.pairs[0].n_chunks
    n_tasks = samples.across.shape[1] // LANES * pieces * n_tiles
    task = next_task(barrier)
    while task < n_tasks:
        assign_children = task // (n_tiles * pieces), task // n_tiles % pieces, task % n_tiles
        sum_lanes(samples, work, n_pairs, assign_children, partial)
        if work.histograms.shape[1] > 2 and assign_children[0] == 0:
            count_rows_once(samples, state, work, n_pairs, assign_children, partial)
        task = next_task(barrier)
