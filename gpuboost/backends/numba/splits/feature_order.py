"""The candidate features of a node in the order of their ranks, of which most nodes need few.

The lowest ranks are collected and sorted. If these do not suffice, the ranks in a range four times
as large follow, and so on. Ranks are uniform, so an interval of a share s of their range holds
about s * n of n ranks.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.feature_sampling import LAST_RANK
from gpuboost.backends.numba.common.records import LANES
from gpuboost.backends.numba.compiler import helper, inlined

MAX_COUNTED = 64  # ranks that are sorted by counting


@inlined
def last_rank_of(share):
    """The largest rank in the lowest share of the range of ranks."""
    return LAST_RANK if share >= 1.0 else np.int64(2.0**64 * share - 2.0**63)


@helper
def collect_ranks(scratch, n, lowest, last):
    """Collect those of the first ``n`` ranks that are in a range; return their number.

    Up to `MAX_COUNTED` are also sorted into `Scratch.sorted_ranks`. The position of each is the
    number of smaller ones, which takes no branch that depends on the ranks; with a heap,
    extra-trees of 100k x 28 take 10% longer (2026-11). More are left to `sort_collected`, which the
    caller calls, since LLVM makes both slower if it is called here (7%).
    """
    ranks, collected, size = scratch.ranks, scratch.collected, np.int64(0)
    for p in range(n):
        rank = ranks[p]
        collected[size] = rank
        size += np.int64((rank >= lowest) & (rank <= last))
    if size > MAX_COUNTED:
        return size
    padded = (size + LANES - 1) // LANES * LANES
    collected[size:padded] = LAST_RANK
    for p in range(size):
        rank, smaller = collected[p], np.int64(0)
        for q in range(np.uint64(padded)):  # unsigned, so that vector units compare
            smaller += np.int64(collected[q] < rank)
        scratch.sorted_ranks[smaller] = rank
    return size


@inlined
def insertion_sort(items, n):
    """Sort the first ``n`` items, which should be few, or near their places."""
    for p in range(1, n):
        item, at = items[p], p
        while at > 0 and items[at - 1] > item:
            items[at] = items[at - 1]
            at -= 1
        items[at] = item


@helper
def sort_collected(scratch, n):
    """Sort the ``n`` collected ranks by as many buckets of equal width, then within these."""
    ranks, to, end = scratch.collected, scratch.sorted_ranks, scratch.bucket_end
    low, high = ranks[0], ranks[0]
    for p in range(n):
        low, high = min(low, ranks[p]), max(high, ranks[p])
    scale = (n - 1) / (np.float64(high) - np.float64(low))
    end[:n] = 0
    for p in range(n):
        end[np.uint64((np.float64(ranks[p]) - np.float64(low)) * scale)] += 1
    for bucket in range(1, n):
        end[bucket] += end[bucket - 1]
    for p in range(n):
        bucket = np.uint64((np.float64(ranks[p]) - np.float64(low)) * scale)
        end[bucket] -= 1
        to[end[bucket]] = ranks[p]
    insertion_sort(to, n)
