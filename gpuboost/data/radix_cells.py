"""Radix cells: ranges of values of a column, from which its bins are found without sorting it.

The *key* of a value is its float64 bit pattern as an unsigned integer of the same order. A cell
holds the values whose keys share their leading bits. Its weight, smallest key and largest key of
several parts of the rows are merged by an integer sum, a minimum and a maximum. So the cells of a
column depend neither on the order of its rows nor on how they are divided into parts::

    pass 1       weights of the cells of the 16 leading bits
    pass 2       weights of the parts of heavy cells, which are split by their next bits
    next passes  smallest and largest keys of the cells that decide a bin; if such a cell holds
                 several values and is not light, it is split, and the weights of its parts counted

A cell decides a bin if it is limited as a heavy value, or if a boundary between shares of the
weight falls into it. A light cell weighs at most 2**-16 of the limited weight, which is 1/257 of a
bin out of 255. Columns with few cells are split until each cell holds a single value. So columns
with few values, or with heavy values only, have the bins of their distinct values.

`find_bin_cells` takes the decisions from weights and keys of all rows; `data.cell_counters` has the
passes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuboost.data.quantiles import QUANTILE_WEIGHT_BITS, Floats, limit_heavy, quantile_cuts
from gpuboost.engine.bins import MAX_BINS

LEADING_BITS = 16
N_LEADING = 1 << LEADING_BITS
MISSING_KEY = np.uint64(2**64 - 1)
# Pass 2 splits cells that weigh more than 2**-_COARSE_BITS of the total. With fewer bits, more rows
# lie in the cells that decide a bin; with more, tables grow out of the cache.
_COARSE_BITS = 12
_LIMIT_BITS = 16  # light cells weigh at most 2**-_LIMIT_BITS
# Later splits use at least so many bits that even unfavourable columns need few passes, and at most
# so many that the parts of all cells fit in memory.
_MIN_SPLIT_BITS, _MAX_SPLIT_BITS = 4, 12
KEY_BITS = 64
_SIGN = np.uint64(1 << 63)

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class CellSplit:
    """A split of cells: a value of ``cells[i]`` goes to cell ``(key >> shift[i]) + offset[i]``.

    Attributes
    ----------
    cells : ndarray of int64 of shape (n_split,)
        The cells that are split.
    first : ndarray of int64 of shape (n_split,)
        The first part of each. The parts are new cells, from ``n_before`` on.
    shift, offset : ndarray of uint64 of shape (n_split,)
        Trailing bits of the keys that do not decide the part; number that is added, modulo 2**64.
    n_before, n_parts : int
        Numbers of cells before the split, and of parts of all split cells.
    """

    cells: Integers
    first: Integers
    shift: Keys
    offset: Keys
    n_before: int
    n_parts: int

    @classmethod
    def below(
        cls, top: Any, n_bits: Integers, cells: Integers, prefix: Keys, n_before: int
    ) -> CellSplit:
        """Split cells by ``n_bits`` bits below bit ``top``; ``prefix`` are the bits above."""
        n_each = np.left_shift(1, n_bits)
        first = n_before + np.cumsum(n_each) - n_each
        offset = first.astype(np.uint64) - (prefix << n_bits.astype(np.uint64))
        shift = (top - n_bits).astype(np.uint64)
        return cls(cells, first, shift, offset, n_before, int(n_each.sum()))


# ---- decisions ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BinCells:
    """The cells of a column, grouped into bins.

    Attributes
    ----------
    cells : ndarray of int64 of shape (n_used,)
        The cells with values, in ascending order of these.
    first, last : ndarray of int64 of shape (n_bins,)
        Positions in ``cells`` of the first and the last cell of each bin; empty without values.
    low, high : ndarray of float64 of shape (n_bins,)
        Smallest and largest value of each bin.
    n_cells : int
        Number of all cells.
    """

    cells: Integers
    first: Integers
    last: Integers
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n_cells: int

    def codes(self, missing_code: int) -> NDArray[np.uint8]:
        """Return the code of each cell, ``missing_code`` for cells without values: (n_cells,)."""
        codes = np.full(self.n_cells, missing_code, dtype=np.uint8)
        codes[self.cells] = np.repeat(
            np.arange(len(self.first), dtype=np.uint8), self.last + 1 - self.first
        )
        return codes


# A pass over the rows: the name of a method of `CellCounter`, and its arguments.
Pass = tuple[str, tuple[Any, ...]]
# What a pass counted: the cells with values, ascending, and their weights.
Counted = tuple[Integers, Integers]


def find_bin_cells(max_bins: int) -> Generator[Pass, Any, BinCells]:
    """Find the cells of a column and its bins.

    The generator yields the passes that it needs, and takes their results.
    """
    counted = yield "count_leading", ()
    ordered = _OrderedCells.of_leading(*counted)
    split: CellSplit | None
    places, split = ordered.split_coarse()
    while split is not None:
        counted = yield "split", (split,)
        ordered = ordered.replace(places, split, *counted)
        split = None
        first, is_deciding, total = ordered.cut(max_bins)
        places = np.flatnonzero(is_deciding & ~ordered.is_single)
        if len(places):
            extremes = yield "extremes", (ordered.cells[places],)
            ordered = ordered.with_extremes(places, *extremes)
            places, split = ordered.split_fine(places, total, *extremes)
    last = np.append(first[1:], len(ordered.cells))[: len(first)] - 1
    smallest, largest = ordered.keys.copy(), ordered.keys.copy()
    is_end = np.zeros(len(ordered.cells), dtype=bool)
    is_end[first] = is_end[last] = True
    ends = np.flatnonzero(is_end & ~ordered.is_single)
    if len(ends):
        smallest[ends], largest[ends] = yield "extremes", (ordered.cells[ends],)
    own = (values_of(smallest[first]), values_of(largest[last]), ordered.n_cells)
    return BinCells(ordered.cells, first, last, *own)


@dataclass(frozen=True, eq=False)
class _OrderedCells:
    """The cells with values, in ascending order of these.

    Attributes
    ----------
    cells, weight : ndarray of int64 of shape (n_used,)
        The cells and their weights, shifted by ``scale`` so that their sum has
        `QUANTILE_WEIGHT_BITS` bits.
    is_single : ndarray of bool of shape (n_used,)
        Whether a cell is known to hold a single value.
    keys : ndarray of uint64 of shape (n_used,)
        The key of that value; 0 if it is not known.
    scale : int
        Number of bits by which the weights are shifted to the left.
    n_cells : int
        Number of all cells.
    """

    cells: Integers
    weight: Integers
    is_single: NDArray[np.bool_]
    keys: Keys
    scale: int
    n_cells: int

    @classmethod
    def of_leading(cls, cells: Integers, weight: Integers) -> _OrderedCells:
        """Return the cells of pass 1 but the one of the missing values."""
        has_missing = int(len(cells) > 0 and cells[-1] == N_LEADING - 1)
        cells, weight = cells[: len(cells) - has_missing], weight[: len(cells) - has_missing]
        scale = QUANTILE_WEIGHT_BITS - int(weight.sum()).bit_length()
        unknown = np.zeros(len(cells), dtype=bool), np.zeros(len(cells), dtype=np.uint64)
        return cls(cells, weight << scale, *unknown, scale, N_LEADING)

    def split_coarse(self) -> tuple[Integers, CellSplit]:
        """Split heavy cells of pass 1; return their places and the split."""
        total = int(self.weight.sum())
        places = np.flatnonzero(self.weight > total >> _COARSE_BITS)
        n_bits = _bits_for(self.weight[places], total, _COARSE_BITS)
        cells = self.cells[places]
        prefix, top = cells.astype(np.uint64), KEY_BITS - LEADING_BITS
        return places, CellSplit.below(top, n_bits, cells, prefix, self.n_cells)

    def cut(self, max_bins: int) -> tuple[Integers, NDArray[np.bool_], int]:
        """Cut the cells into bins.

        Returns the places of the first cells of all bins, which cells are split if they hold
        several values, and the limited total weight.
        """
        n_used, cumulative = len(self.cells), np.cumsum(self.weight)
        if n_used <= max_bins:
            return np.arange(n_used), np.ones(n_used, dtype=bool), int(self.weight.sum())
        limited = limit_heavy(cumulative, max_bins)
        total = int(limited[-1])
        cuts, deciding = quantile_cuts(limited, max_bins)
        is_deciding = np.zeros(n_used, dtype=bool)
        if limited is not cumulative:
            is_deciding = np.diff(limited, prepend=0) < self.weight
        is_deciding[deciding] = True
        is_deciding &= self.weight > total >> _LIMIT_BITS
        if n_used <= MAX_BINS:
            is_deciding[:] = True
        return np.append(0, cuts), is_deciding, total

    def with_extremes(self, places: Integers, smallest: Keys, largest: Keys) -> _OrderedCells:
        """Note which of some cells hold a single value."""
        is_single, keys = self.is_single.copy(), self.keys.copy()
        is_single[places] = smallest == largest
        keys[places] = np.where(smallest == largest, smallest, 0)
        return replace(self, is_single=is_single, keys=keys)

    def split_fine(
        self, places: Integers, total: int, smallest: Keys, largest: Keys
    ) -> tuple[Integers, CellSplit | None]:
        """Split those of some cells that hold several values.

        The bits that all keys of a cell share are skipped.
        """
        several = smallest < largest
        places, smallest, largest = places[several], smallest[several], largest[several]
        if len(places) == 0:
            return places, None
        top = _bit_length(smallest ^ largest)
        n_bits = _bits_for(self.weight[places], total, _LIMIT_BITS) + 1  # few parts stay heavy
        n_bits = np.minimum(np.maximum(np.minimum(n_bits, _MAX_SPLIT_BITS), _MIN_SPLIT_BITS), top)
        prefix = smallest >> top.astype(np.uint64)
        return places, CellSplit.below(top, n_bits, self.cells[places], prefix, self.n_cells)

    def replace(
        self, places: Integers, split: CellSplit, parts: Integers, weights: Integers
    ) -> _OrderedCells:
        """Return the cells with those at ``places`` replaced by their parts of given weights."""
        is_split, n_each = np.zeros(len(self.cells), dtype=bool), np.ones(len(self.cells), np.int64)
        is_split[places] = True
        ends = np.append(np.searchsorted(parts, split.first), len(parts))
        n_each[places] = ends[1:] - ends[:-1]
        source = np.repeat(np.arange(len(self.cells)), n_each)
        is_new = is_split.take(source)
        cells, weight = self.cells.take(source), self.weight.take(source)
        cells[is_new], weight[is_new] = parts, weights << self.scale
        # No cell that is split is known to hold a single value.
        own = (self.is_single.take(source), self.keys.take(source), self.scale)
        return _OrderedCells(cells, weight, *own, self.n_cells + split.n_parts)


def _bits_for(weight: Integers, total: int, limit_bits: int) -> Integers:
    """Bits that split cells into parts of at most half of ``total / 2**limit_bits`` on average."""
    return _bit_length((weight << limit_bits) // total) + 1


def _bit_length(numbers: Any) -> Integers:
    """Bits of integers below 2**48, which are exact in float64."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)


def are_distinct(n_rows: int, counts: Integers | None) -> bool:
    """Whether the rows are so few that the bins are those of the distinct values.

    No cell of several values is light then, since it has at least two rows.
    """
    lightest, total = (1, n_rows) if counts is None else (int(counts.min()), int(counts.sum()))
    return 2 * lightest << _LIMIT_BITS > total


# ---- keys ---------------------------------------------------------------------------------------


def keys_of(values: Floats) -> Keys:
    """Return the keys of values: 0.0 and -0.0 have the same key, NaN has `MISSING_KEY`."""
    own = np.add(values, 0.0, dtype=np.float64)
    # The order of negative numbers is reversed by flipping all bits.
    keys = own.view(np.uint64) ^ ((own.view(np.int64) >> 63).view(np.uint64) | _SIGN)
    missing = np.isnan(own)
    if missing.any():
        keys[missing] = MISSING_KEY
    return keys


def values_of(keys: Keys) -> NDArray[np.float64]:
    """Return the values of keys that are not `MISSING_KEY`."""
    return (keys ^ np.where(keys < _SIGN, MISSING_KEY, _SIGN)).view(np.float64)
