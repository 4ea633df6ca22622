"""Best split of a small node, whose rows' codes and values lie in the first caches.

Gradient, hessian and count of a row lie side by side, and so do those of a bin, so that one
instruction adds a row to the bin of its code. Bins are then walked through, and left zero:

    cells    [code] gradient hessian count 0     ->    sums up to each occupied bin, field by field
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.feature_sampling import SMALLEST_RANK
from gpuboost.backends.numba.compiler import helper, inlined, trailing_zeros
from gpuboost.backends.numba.intrinsics import add_four
from gpuboost.backends.numba.splits.categorical import evaluate_category_sums
from gpuboost.backends.numba.splits.scan import evaluate_occupied
from gpuboost.backends.numba.splits.search import next_rank, order_features
from gpuboost.engine.task import LEAF

FEW_ROWS = 100  # up to which walking the occupied bins beats a look at all
_ONE = np.uint64(1)


class Local(NamedTuple):
    """The rows of a small node, numbered from 0, and space for one thread to split it.

    Attributes
    ----------
    codes : uint8 (F, m)
    values : int64 (m, 4)
        Gradient, hessian and 1 of each row.
    row : uint32 (m,)
        Of the matrix.
    own : uint32 (m,)
        Numbers of the rows, those of a node side by side.
    spare : uint32 (m,)
    goes_left : uint8 (m,)
    waiting : int64 (m + 2,)
        Nodes to be looked at.
    cells : int64 (256 * 4,)
        Zero between features.
    """

    codes: np.ndarray
    values: np.ndarray
    row: np.ndarray
    own: np.ndarray
    spare: np.ndarray
    goes_left: np.ndarray
    waiting: np.ndarray
    cells: np.ndarray


@inlined
def _take_bin(scratch, cells, code, m, running):
    """List a bin as the ``m``-th one, and empty it; the sums up to it."""
    at, sums = np.uint64(4) * np.uint64(code), scratch.sums
    gradient, hessian = running[0] + cells[at], running[1] + cells[at + np.uint64(1)]
    count = running[2] + cells[at + np.uint64(2)]
    for field in range(3):
        cells[at + np.uint64(field)] = 0
    sums[0, m], sums[1, m], sums[2, m], scratch.bins[m] = gradient, hessian, count, code
    return gradient, hessian, count


@inlined
def _list_all(local, scratch, codes, own, width, keeps_empty):
    """Sums up to each of ``width`` value bins that has weight, or to all; their number."""
    cells = local.cells
    for i in range(np.uint64(own.size)):
        row = np.int64(own[i])
        add_four(cells, np.int64(codes[row]) * 4, local.values, row, 0)
    m, running = np.uint64(0), (np.int64(0), np.int64(0), np.int64(0))
    for code in range(np.uint64(width)):
        before = running[1]
        running = _take_bin(scratch, cells, code, m, running)
        m += np.uint64((running[1] != before) | keeps_empty)
    return np.int64(m)


@inlined
def _list_few(local, scratch, codes, own, width, keeps_empty):
    """The same, where a bitmap tells which bins to look at."""
    cells, occupied = local.cells, scratch.occupied
    for i in range(np.uint64(own.size)):
        row = np.int64(own[i])
        code = codes[row]
        add_four(cells, np.int64(code) * 4, local.values, row, 0)
        occupied[code >> np.uint8(6)] |= _ONE << (np.uint64(code) & np.uint64(63))
    m, running = np.uint64(0), (np.int64(0), np.int64(0), np.int64(0))
    for quarter in range(4):
        left = occupied[quarter]
        occupied[quarter] = np.uint64(0)
        while left != np.uint64(0):
            code = trailing_zeros(left) + np.uint64(64 * quarter)
            left &= left - _ONE
            if code < np.uint64(width):
                before = running[1]
                running = _take_bin(scratch, cells, code, m, running)
                m += np.uint64((running[1] != before) | keeps_empty)
    return np.int64(m)


@inlined
def _take_missing(local, scratch, missing_code):
    """Move the missing bin to `Scratch.missing`, and empty it."""
    for field in range(3):
        scratch.missing[field] = local.cells[4 * missing_code + field]
        local.cells[4 * missing_code + field] = 0


@inlined
def _list_missing(scratch, missing_code, m):
    """List the missing bin as the last one, as `evaluate_category_sums` wants it."""
    if scratch.missing[2] == 0:
        return m
    scratch.bins[m] = missing_code
    for field in range(3):
        before = scratch.sums[field, m - 1] if m > 0 else np.int64(0)
        scratch.sums[field, m] = before + scratch.missing[field]
    return m + 1


@inlined
def _evaluate_feature(problem, local, node, own, rank, minimum):
    """Look at one feature; whether it could split the node."""
    matrix, scratch, feature = problem.matrix, problem.scratch, rank & np.int64(0xFFFFFFFF)
    has_missing, n_bins = matrix.has_missing[feature], matrix.n_bins[feature]
    if (n_bins == 1) & (not has_missing):
        return False
    codes, is_categorical = local.codes[feature], matrix.is_categorical[feature]
    if own.size <= FEW_ROWS:
        m = _list_few(local, scratch, codes, own, n_bins, is_categorical)
    else:
        m = _list_all(local, scratch, codes, own, n_bins, is_categorical)
    scratch.missing[:] = 0
    if has_missing:
        _take_missing(local, scratch, np.int64(matrix.missing_code))
    if is_categorical:
        m = _list_missing(scratch, np.int64(matrix.missing_code), m)
        return evaluate_category_sums(problem, node, feature, rank, m, minimum)
    return evaluate_occupied(problem, node, feature, rank, m)


@helper
def find_small_split(problem, local, node, own, minimum):
    """Leave the best split of a node in `Scratch.split`, as `search.find_split`.

    ``own``: numbers of its rows. ``minimum``: hessian of a category that is not rare.
    """
    limits, scratch = problem.limits, problem.scratch
    split = scratch.split[0]
    split.score, split.rank, split.feature = -1.0, SMALLEST_RANK, LEAF
    n_features, ordered, n_likely = order_features(problem, node)
    last, could = SMALLEST_RANK, False
    for p in range(n_features):
        if p >= limits.max_features and could:
            break
        last = next_rank(scratch, n_likely, n_features, last) if ordered else scratch.ranks[p]
        could |= _evaluate_feature(problem, local, node, own, last, minimum)
