"""Thresholds of splits: a compiled `gpuboost.engine.growth.tree.find_thresholds`."""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.numba.compiler import entry, inlined, numerics
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.engine.bins import BinMapper
from gpuboost.engine.growth.tree import SplitThresholds
from gpuboost.engine.task import MISSING_LEFT, MISSING_UNSEEN, ONLY_MISSING_RIGHT, GrownTree

GROUP = 16  # bins that are counted together

_TYPES: dict[str, Any] = {
    "left": np.int32,
    "feature": np.int32,
    "bin": np.int16,
    "next_bin": np.int16,
    "draw": np.float64,
    "missing": np.int8,
    "category": np.int32,
    "count": np.int64,
}


def find_thresholds(grown: GrownTree, mapper: BinMapper) -> SplitThresholds:
    """Thresholds, their codes, and the directions of missing values.

    With NumPy instead, boosting of 3,000 x 28 with trees of depth 3 takes 11% longer.
    """
    columns = (contiguous(getattr(grown, name), dtype) for name, dtype in _TYPES.items())
    values = (mapper.lowest, mapper.highest, mapper.centers)
    bins = (mapper.first, *(contiguous(part, np.float64) for part in values))
    n_nodes = len(grown.left)
    found = SplitThresholds(
        np.full(n_nodes, np.nan), np.zeros(n_nodes, np.int16), np.zeros(n_nodes, np.bool_)
    )
    _find(*columns, mapper.missing_code - 1, *bins, found.threshold, found.code, found.missing_left)
    return found


@inlined
def last_bin_below(center, low, high, threshold):
    """The last bin in [low, high - 1] whose centre is at most the threshold; ``low`` if none is.

    There are at most `GROUP`**2 bins. Groups of bins up to the threshold are counted first, then
    single bins. So no branch depends on the threshold, which a processor would guess wrong half of
    the time; with bisection, extra-trees of 100k x 28 take 7% longer (2026-11).
    """
    first = low + GROUP * _count_up_to(center, low, high - 1, GROUP, threshold)
    return first + _count_up_to(center, first, high - 1, 1, threshold)


@inlined
def _count_up_to(center, first, last, size, threshold):
    """Count bins first + size, first + 2 size and so on, whose centre is at most the threshold.

    These are at most `GROUP` - 1 bins, none of them beyond ``last``.
    """
    n = 0
    for k in range(1, GROUP):
        at = first + size * k
        n += np.int64((at <= last) & (center[min(at, last)] <= threshold))
    return n


@entry
def _find(
    left,
    feature,
    last_bin,
    next_bin,
    draw,
    missing,
    category,
    count,
    last_code,
    first,
    low,
    high,
    center,
    threshold,
    code,
    missing_left,
):
    for node in range(left.size):
        child = left[node]
        if child == 0:
            missing_left[node] = missing[node] == MISSING_LEFT
            continue
        if missing[node] == MISSING_UNSEEN:
            missing_left[node] = count[child] > count[child + 1]
        else:
            missing_left[node] = missing[node] == MISSING_LEFT
        if category[node] >= 0:
            continue
        if next_bin[node] == ONLY_MISSING_RIGHT:
            threshold[node], code[node] = np.inf, last_code
            if draw[node] == draw[node]:
                at = last_bin[node]
                threshold[node], code[node] = high[first[feature[node]] + at], at
            continue
        start, stop = first[feature[node]], first[feature[node] + 1]
        bins = low[start:stop], high[start:stop], center[start:stop]
        ends = np.int64(last_bin[node]), np.int64(next_bin[node])
        threshold[node], code[node] = _between(*bins, ends, draw[node])


@inlined
def _between(low, high, center, ends, draw):
    """Threshold of a split between two bins, and its code (see `engine.growth.tree`).

    The threshold is ``draw`` or, if this is NaN, midway between the bins. A threshold among the
    training values of a bin moves out of them.
    """
    at = draw
    if draw != draw:
        a, b = high[ends[0]], low[ends[1]]
        at = numerics.midway(a + b, a, b)
    first = last_bin_below(center, ends[0], ends[1], at)
    below, above = high[first], low[first + 1]
    at = max(at, below)
    if at >= above:
        at = numerics.midway(below + above, below, above)
    return at, np.int16(first)
