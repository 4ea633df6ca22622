"""Counts a column whose rows come in parts, to compare with a column that is counted whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from gpuboost.data.cell_counters import ColumnCounter, counted, no_extremes
from gpuboost.data.quantiles import Floats
from gpuboost.data.radix_cells import N_LEADING, CellSplit, Counted, Integers, Keys


class PartsCounter:
    """A `CellCounter` of a column whose rows come in parts; each pass reads all parts anew.

    Parameters
    ----------
    parts : callable
        Returns an iterable of (values, counts or None), as for `ColumnCounter`.
    counter : type
        `ColumnCounter`, or a faster class with the same results.
    """

    def __init__(
        self,
        parts: Callable[[], Iterable[tuple[Floats, Integers | None]]],
        counter: type[ColumnCounter] = ColumnCounter,
    ) -> None:
        self._parts, self._counter = parts, counter
        self._splits: list[CellSplit] = []

    def count_leading(self) -> Counted:
        """Return the cells of pass 1 with values, and their weights."""
        weight = np.zeros(N_LEADING, dtype=np.int64)
        for own in self._counters():
            cells, weights = own.count_leading()
            weight[cells] += weights
        return counted(weight)

    def split(self, split: CellSplit) -> Counted:
        """Move the values of split cells to their parts; return the parts with values, weighted."""
        self._splits.append(split)
        weight = np.zeros(split.n_before + split.n_parts, dtype=np.int64)
        for own in self._counters(self._splits[:-1]):
            cells, weights = own.split(split)
            weight[cells] += weights
        return counted(weight, split.n_before)

    def extremes(self, chosen: Integers) -> tuple[Keys, Keys]:
        """Return the smallest and the largest key of each of some cells."""
        smallest, largest = no_extremes(len(chosen))
        for own in self._counters(self._splits):
            low, high = own.extremes(chosen)
            smallest, largest = np.minimum(smallest, low), np.maximum(largest, high)
        return smallest, largest

    def _counters(self, splits: list[CellSplit] | None = None) -> Iterator[ColumnCounter]:
        """Yield a counter of each part, after pass 1 and some splits unless these are None."""
        for values, counts in self._parts():
            own = self._counter(len(values), counts)
            own.start(values)
            if splits is not None:
                own.count_leading()
                for split in splits:
                    own.split(split)
            yield own
