"""Histograms of trees with several channels, whose sums of a bin lie side by side.

    of a row, and of a bin    | hessian | gradient 0 | gradient 1 | ... | count | padding |

The number of sums is a multiple of four, so that four are added by one instruction. Sums are int64
and never overflow: there are neither words nor partial sums. The count is there only if needed.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.records import COUNT, GRADIENT, HESSIAN
from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.intrinsics import add_four, prefetch
from gpuboost.backends.numba.level_wise.feature_bundles import BINS
from gpuboost.backends.numba.splits.channels import CHANNEL_PACKING, HISTOGRAMS, Channels

FOUR = 4  # sums that are added together
TILE_BYTES = 400 << 10  # of a tile's sums, less than the L2 cache
SUMMANDS_AHEAD = 16  # rows between the prefetch of codes and summands, and their use
_EIGHT, _LOW_BYTE = np.uint64(8), np.uint64(255)


def cell_size(n_channels: int, is_counted: bool) -> int:
    """Number of sums of a bin."""
    return -(-(1 + n_channels + is_counted) // FOUR) * FOUR


def columns_of_tile(size: int) -> int:
    """Largest number of columns of a tile, for a number of sums of a bin."""
    return max(TILE_BYTES // (8 * BINS * size) // 8 * 8, 8)


def make_channels(n_channels: int) -> Channels:
    """The `Channels` of a thread, for nodes whose sums come from histograms."""
    empty = np.zeros(0, np.int64)
    return Channels(
        values=np.zeros((1, n_channels), np.int32),  # outputs, not classes: only its size is read
        state=np.array([n_channels, HISTOGRAMS, 0, 0]),
        by_class=empty,
        of_missing=empty,
        sums=np.zeros(n_channels, np.int64),
        present=np.arange(n_channels),
        position=empty,
        word=empty,
        following=empty,
        packing=CHANNEL_PACKING,
    )


@inlined
def _prefetch_row(samples, row, group):
    """Prefetch the codes and the summands of a row."""
    prefetch(samples.by_row, np.int64(row), np.int64(group))
    prefetch(samples.summands, np.int64(row), np.int64(0))
    prefetch(samples.summands, np.int64(row), np.int64(samples.summands.shape[1] - 1))


@helper
def sum_rows(samples, rows, columns, totals):
    """Add rows to the sums of a range of columns, which starts at a multiple of 8."""
    by_row, summands, size = samples.by_row, samples.summands, samples.summands.shape[1]
    n, one, groups = np.uint64(rows.size), np.uint64(1), (columns[1] + 7) // 8
    for i in range(n):
        _prefetch_row(samples, rows[min(i + np.uint64(SUMMANDS_AHEAD), n - one)], columns[0] // 8)
        row, at = np.int64(rows[i]), np.int64(0)
        for group in range(columns[0] // 8, groups):
            eight = by_row[row, group]
            for _ in range(min(8, columns[1] - 8 * group)):
                cell = at + np.int64(eight & _LOW_BYTE) * size
                for first in range(0, size, FOUR):
                    add_four(totals, cell + first, summands, row, first)
                eight >>= _EIGHT
                at += BINS * size


@inlined
def row_of_sums(lane, n_channels):
    """Row of `Scratch.sums` for one of the sums of a bin."""
    if lane == 0:
        return np.int64(HESSIAN)
    return np.int64(COUNT) if lane > n_channels else lane - 1 + GRADIENT


@helper
def add_up_node(channels, cells, less, column, size):
    """Set `Channels.sums` to the sums of a node, over the bins of any column of its histogram.

    ``less``, unless it is empty, is subtracted.
    """
    sums, at = channels.sums, column * BINS * size + 1
    sums[:] = 0
    for j in range(BINS):
        for p in range(sums.size):
            sums[p] += cells[0, at + j * size + p]
            if less.shape[0]:
                sums[p] -= less[0, at + j * size + p]


@helper
def running_sums(scratch, cells, column, width, missing_code, n_sums, size):
    """Fill `Scratch.sums` with sums up to each of ``width`` value bins, and `Scratch.missing`.

    ``n_sums`` is the number of sums of a bin without padding, and ``size`` the number with it.
    """
    n_channels, first = scratch.missing.size - 2, column * BINS * size
    for lane in range(n_sums):
        row, total = row_of_sums(lane, n_channels), np.int64(0)
        for j in range(np.uint64(width)):
            total += cells[0, np.uint64(first + lane) + j * np.uint64(size)]
            scratch.sums[row, j] = total
        scratch.missing[row] = cells[0, first + lane + missing_code * size]
