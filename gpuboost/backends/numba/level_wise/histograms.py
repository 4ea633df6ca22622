"""Histograms of the smaller siblings of a level, summed from rows.

Words of rows are added to partial sums of one tile of columns, which stay in the L1 and L2 caches;
before a field could overflow, the partial sums are flushed to the int64 totals of the chunk (the
totals of nodes with few rows are words, too, see `Samples.rows_in_word`):

    row  word   codes                  partial sums           totals
    17   g | h  3 200 7 ...     ->     [column][bin] g | h   -> gradient [column][bin]
    19   g | h  9   0 7 ...                                      hessian  [column][bin]

If a histogram also needs counts of rows, a second pass over the rows adds ones instead of words.
The rows of a deep node are far apart in memory, so their codes and words are prefetched some rows
ahead. A block of rows is added to the panels of a tile one after the other, so that the sums of a
panel stay in the L1 cache (if it has 48 KiB), and the codes of the block in the L2 cache.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.intrinsics import prefetch
from gpuboost.backends.numba.level_wise.channels import sum_rows
from gpuboost.backends.numba.level_wise.feature_bundles import BINS
from gpuboost.backends.numba.level_wise.partition import positions_of
from gpuboost.backends.numba.threads.barrier import near_task

# Largest number of columns of a tile that is one panel; its partial sums have 64 KiB, more than the
# L1 cache (32 or 48 KiB). Narrower panels take longer on both.
SMALL_TILE = 32
PANEL = 24  # columns of a panel of a larger tile, a multiple of 8 (16 and 32: 2 to 13% slower)
# Strips of the columns of a tile, which are searched one by one, so that threads share the search
# of a single pair of siblings: 200k x 28 with 31 leaves takes 0.95 of the time.
STRIPS = 4
# Rows between the prefetch of codes and words, and their use (8 to 32 measure alike).
CODES_AHEAD = 16
ROWS_PER_CHECK = 256  # rows of a block, after which partial sums are flushed if they could overflow
ROWS_OF_BLOCK = 512  # rows of a block if no sum can overflow

LOW_BYTE = np.uint64(255)
_EIGHT = np.uint64(8)


@inlined
def fields_of(word, bits):
    """Gradient and hessian of a word whose hessian has so many bits."""
    return word >> bits, word & ((np.int64(1) << bits) - np.int64(1))


@inlined
def _add_codes(partial, at, columns, codes, words):
    """Add the words of two rows to the cells of some of eight columns.

    The codes of each row are the bytes of a number. Rows in pairs take 0.85 of the time of single
    rows.
    """
    first, second = codes
    for column in range(columns):
        shift, cells = np.uint64(8 * column), at + np.uint64(BINS * column)
        partial[cells + ((first >> shift) & LOW_BYTE)] += words[0]
        partial[cells + ((second >> shift) & LOW_BYTE)] += words[1]


@inlined
def _add_pair(samples, columns, rows, words, partial):
    """Add the words of two rows to the partial sums of a panel."""
    by_row, last = samples.by_row, np.uint64(columns[1])
    group, end, at = np.uint64(columns[0]) // _EIGHT, last // _EIGHT, np.uint64(0)
    for g in range(group, end):
        _add_codes(partial, at, 8, (by_row[rows[0], g], by_row[rows[1], g]), words)
        at += np.uint64(8 * BINS)
    if last > end * _EIGHT:
        codes = by_row[rows[0], end], by_row[rows[1], end]
        _add_codes(partial, at, last - end * _EIGHT, codes, words)


@inlined
def _prefetch_row(samples, tree, column, row, counted):
    """Prefetch the codes from a column on, and the word of a row."""
    prefetch(samples.by_row, np.int64(row), column // np.int64(8))
    if not counted:
        prefetch(samples.word, tree, np.int64(row))


@inlined
def _add_rows(samples, tree, rows, columns, partial, counted):
    """Add the words of rows, or ones if ``counted``, to the partial sums (or totals) of a panel.

    Returns the sums of the magnitudes of the rows' gradients, and of their hessians.
    """
    n, one, bits = np.uint64(rows.size), np.uint64(1), np.int64(samples.hessian_bits)
    gradient, hessian = np.int64(0), np.int64(0)
    for i in range(np.uint64(0), n, np.uint64(2)):
        ahead, following = min(i + np.uint64(CODES_AHEAD), n - one), min(i + one, n - one)
        _prefetch_row(samples, tree, columns[0], rows[ahead], counted)
        _prefetch_row(samples, tree, columns[0], rows[min(ahead + one, n - one)], counted)
        pair = np.uint64(rows[i]), np.uint64(rows[following])
        is_two = np.int64(following - i)  # 0 if the last row is alone
        words = np.int64(1), is_two
        if not counted:
            words = samples.word[tree, pair[0]], samples.word[tree, pair[1]] * is_two
            added = fields_of(words[0], bits), fields_of(words[1], bits)
            gradient += abs(added[0][0]) + abs(added[1][0])
            hessian += added[0][1] + added[1][1]
        _add_pair(samples, columns, pair, words, partial)
    return gradient, hessian


@inlined
def _add_panels(samples, tree, rows, columns, partial, counted):
    """Do `_add_rows` for the panels of a tile. The sums of the rows come from the first panel."""
    width = columns[1] - columns[0]
    width = width if width <= SMALL_TILE else np.int64(PANEL)
    first = columns[0], columns[0] + width
    found = _add_rows(samples, tree, rows, first, partial, counted)
    for column in range(first[1], columns[1], width):
        panel = column, min(column + width, columns[1])
        _add_rows(samples, tree, rows, panel, partial[(column - columns[0]) * BINS :], counted)
    return found


@inlined
def _add_blocks(samples, tree, rows, columns, partial, counted):
    """Do `_add_panels` for blocks of rows, one after the other."""
    for start in range(0, rows.size, ROWS_OF_BLOCK):
        block = rows[start : start + ROWS_OF_BLOCK]
        _add_panels(samples, tree, block, columns, partial, counted)


@inlined
def _flush_words(partial, bits, totals, is_first):
    """Add partial sums to the totals (or set these if ``is_first``); zero the partial sums."""
    gradient, hessian = totals
    for j in range(gradient.size):
        added = fields_of(partial[j], bits)
        partial[j] = 0
        gradient[j] = (np.int64(0) if is_first else gradient[j]) + added[0]
        hessian[j] = (np.int64(0) if is_first else hessian[j]) + added[1]


@inlined
def _positions_in_chunk(state, at, chunk, segment, before):
    """`positions_of` a node's rows that are in a chunk; ``before`` rows are in earlier segments."""
    first, last = positions_of(state, at, segment)
    start = min(first + max(chunk.start - before, 0), last)
    return start, max(start, min(first + chunk.stop - before, last)), before + last - first


@helper
def sum_words(samples, state, pair, chunk, columns, partial, totals):
    """Set ``totals``, gradients and hessians of a tile's cells, to the sums of a chunk's rows."""
    bits, before, is_first = np.int64(samples.hessian_bits), np.int64(0), True
    free_g = (np.int64(1) << (63 - bits)) - 1 - ROWS_PER_CHECK * samples.max_gradient
    free_h = (np.int64(1) << bits) - 1 - ROWS_PER_CHECK * samples.max_hessian
    gradient, hessian, half = np.int64(0), np.int64(0), state.nodes[pair.summed].depth & 1
    for segment in range(state.segments.shape[0]):
        first, last, before = _positions_in_chunk(state, pair.summed, chunk, segment, before)
        rows = state.row[half, first:last]
        for start in range(0, rows.size, ROWS_PER_CHECK):
            if (gradient > free_g) | (hessian > free_h):
                _flush_words(partial, bits, totals, is_first)
                gradient, hessian, is_first = np.int64(0), np.int64(0), False
            block = rows[start : start + ROWS_PER_CHECK]
            added = _add_panels(samples, pair.tree, block, columns, partial, False)
            gradient, hessian = gradient + added[0], hessian + added[1]
    _flush_words(partial, bits, totals, is_first)


@helper
def add_chunk(samples, state, pair, chunk, columns, totals, counted):
    """Add the words or summands of a chunk's rows, or ones if ``counted``, to a tile's cells."""
    before, half = np.int64(0), state.nodes[pair.summed].depth & 1
    for segment in range(state.segments.shape[0]):
        first, last, before = _positions_in_chunk(state, pair.summed, chunk, segment, before)
        rows = state.row[half, first:last]
        if samples.summands.size:
            sum_rows(samples, rows, columns, totals)
        elif counted:  # with constants, the loops have no branches
            _add_blocks(samples, pair.tree, rows, columns, totals, True)
        else:
            _add_blocks(samples, pair.tree, rows, columns, totals, False)


@inlined
def tile_columns(samples, tile):
    """First column of a tile, and first column after the tile."""
    return tile * samples.tile, min((tile + 1) * samples.tile, samples.n_columns)


@inlined
def strip_columns(samples, strip):
    """First column of a strip, and first column after it."""
    first, last = tile_columns(samples, strip // STRIPS)
    width, at = last - first, strip % STRIPS
    return first + width * at // STRIPS, first + width * (at + 1) // STRIPS


@inlined
def histogram_slot_of(work, owner, piece):
    """Index of a chunk's histogram, or of the node's histogram if the node has one chunk.

    ``owner`` is the sibling pair, and ``piece`` the number of the chunk among those of the node.
    """
    pair = work.pairs[owner]
    return pair.summed_histogram if pair.n_chunks == 1 else pair.first_part + piece


@helper
def sum_chunk(samples, state, work, partial, at, tile):
    """Compute the histogram of a chunk, for the cells of a tile."""
    chunk = work.chunks[at]
    pair = work.pairs[chunk.owner]
    columns, width = tile_columns(samples, tile), BINS * samples.summands.shape[1]
    histogram = work.histograms[histogram_slot_of(work, chunk.owner, at - pair.first_chunk)]
    first, last = columns[0] * width, columns[1] * width
    if samples.summands.size or state.nodes[pair.summed].count <= samples.rows_in_word:
        histogram[0, first:last] = 0
        add_chunk(samples, state, pair, chunk, columns, histogram[0, first:last], False)
    else:
        totals = histogram[0, first:last], histogram[1, first:last]  # contiguous, for vector units
        sum_words(samples, state, pair, chunk, columns, partial, totals)
    if histogram.shape[0] > 2:
        histogram[2, first:last] = 0
        add_chunk(samples, state, pair, chunk, columns, histogram[2, first:last], True)


@helper
def sum_chunks(samples, state, work, partial, n_tasks, barrier):
    """Compute the histogram of each chunk and tile, taking tasks until none is left.

    ``partial`` holds the cells of a tile, which are zero before and after the call.
    """
    n_tiles = work.found.shape[1] // STRIPS
    task = near_task(barrier, n_tasks)
    while task < n_tasks:
        sum_chunk(samples, state, work, partial, task // n_tiles, task % n_tiles)
        task = near_task(barrier, n_tasks)
