"""Arrays of which most elements are 0: class weights and probabilities of nodes of many classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpuboost.engine.numerics import sum_in_order


@dataclass(frozen=True, eq=False)
class SparseRows:
    """An array (m, k), given by those of its elements that may differ from 0, row by row.

    Attributes
    ----------
    start : int64 (m + 1,)
        Row i has the entries start[i] to start[i + 1] - 1, at least one.
    column : int32 (z,)
        Column of each entry, ascending in each row.
    entry : ndarray of shape (z,), or (z, P)
        The entries; (z, P) if each element of the array has P parts.
    n_columns : int
        The number of columns, k.
    """

    start: np.ndarray
    column: np.ndarray
    entry: np.ndarray
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the array, (m, k)."""
        return len(self.start) - 1, self.n_columns

    @cached_property
    def row(self) -> np.ndarray:
        """Row of each entry: int64 (z,)."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def with_entries(self, entry: np.ndarray) -> SparseRows:
        """The array with other entries in the same places."""
        return replace(self, entry=entry)

    def row_sums(self, entry: np.ndarray) -> np.ndarray:
        """Sum over each row of entries (z,) in the same places: float64 (m,).

        Entries are added in order. The zeros between them would not change a bit of the sums, so
        these equal those of `DenseRows`.
        """
        return np.bincount(self.row, entry, self.shape[0])

    def row_max(self, entry: np.ndarray) -> np.ndarray:
        """Largest of entries (z,), none of them negative, in each row: (m,)."""
        return np.maximum.reduceat(entry, self.start[:-1])

    def per_entry(self, of_rows: np.ndarray) -> np.ndarray:
        """For each entry, the value of its row: (z,)."""
        return of_rows[self.row]

    def write_to(self, zeros: np.ndarray) -> None:
        """Write the entries to an array of zeros, (m, k) or (m, k, P)."""
        zeros[self.row, self.column] = self.entry

    def __getitem__(self, rows: np.ndarray) -> SparseRows:
        """The rows with the given numbers."""
        sizes = np.diff(self.start)[rows]
        start = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.arange(start[-1]) + np.repeat(self.start[rows] - start[:-1], sizes)
        return SparseRows(start, self.column[entries], self.entry[entries], self.n_columns)


@dataclass(frozen=True, eq=False)
class DenseRows:
    """The same functions for an array whose entries are all of its elements.

    Attributes
    ----------
    entry : ndarray of shape (m, k), or (m, k, P)
        The array.
    """

    entry: np.ndarray

    def with_entries(self, entry: np.ndarray) -> np.ndarray:
        """The entries, which are an array themselves."""
        return entry

    def row_sums(self, entry: np.ndarray) -> np.ndarray:
        """Sum over each row of entries (m, k), from first to last: (m,)."""
        return sum_in_order(entry)

    def row_max(self, entry: np.ndarray) -> np.ndarray:
        """Largest of entries (m, k) in each row: (m,)."""
        return entry.max(axis=1)

    def per_entry(self, of_rows: np.ndarray) -> np.ndarray:
        """The values of the rows as a column (m, 1), which broadcasts to all entries."""
        return of_rows[:, None]


def dense(array: np.ndarray | SparseRows) -> np.ndarray:
    """The array with all of its elements, (m, k) or (m, k * P)."""
    if not isinstance(array, SparseRows):
        return array
    parts = array.entry.shape[1:]
    whole = np.zeros((*array.shape, *parts), array.entry.dtype)
    array.write_to(whole)
    return whole.reshape(len(whole), -1)
