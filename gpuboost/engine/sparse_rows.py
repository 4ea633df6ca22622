"""Arrays most of whose entries are 0: the class weights of the nodes of trees of many classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpuboost.engine.numerics import sum_in_order


@dataclass(frozen=True, eq=False)
class SparseRows:
    """An array (m, k), given by the entries that may differ from 0, row by row.

    Attributes
    ----------
    start : int64 (m + 1,)
        Row i has the entries start[i] to start[i + 1] - 1, at least one.
    column : int32 (z,)
        Column of each entry, ascending in each row.
    entry : ndarray of shape (z,)
        The entries; or of shape (z, P), of arrays whose k columns have P parts each.
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

    def of(self, entry: np.ndarray) -> SparseRows:
        """The array with other entries in the same places."""
        return replace(self, entry=entry)

    def total(self, entry: np.ndarray) -> np.ndarray:
        """Sum of the entries of each row, in order: float64 (m,).

        It equals that of `DenseRows` bit for bit, because adding 0 changes nothing.
        """
        return np.bincount(self.row, entry, self.shape[0])

    def largest(self, entry: np.ndarray) -> np.ndarray:
        """Largest entry of each row, if none is negative: (m,)."""
        return np.maximum.reduceat(entry, self.start[:-1])

    def repeated(self, of_rows: np.ndarray) -> np.ndarray:
        """A value per row (m,), for each entry: (z,)."""
        return of_rows[self.row]

    def write_to(self, zeros: np.ndarray) -> None:
        """Write the entries to an array of zeros, (m, k)."""
        zeros[self.row, self.column] = self.entry

    def __getitem__(self, rows: np.ndarray) -> SparseRows:
        """The rows with the given numbers."""
        sizes = np.diff(self.start)[rows]
        start = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.arange(start[-1]) + np.repeat(self.start[rows] - start[:-1], sizes)
        return SparseRows(start, self.column[entries], self.entry[entries], self.n_columns)


class DenseRows:
    """The functions of `SparseRows` for an array (m, k) that is its own entries."""

    total, of = staticmethod(sum_in_order), staticmethod(lambda entry: entry)

    def largest(self, entry: np.ndarray) -> np.ndarray:
        """Largest entry of each row: (m,)."""
        return entry.max(axis=1)

    def repeated(self, of_rows: np.ndarray) -> np.ndarray:
        """A value per row (m,), for each entry: (m, 1), which broadcasts."""
        return of_rows[:, None]


DENSE = DenseRows()


def dense(array: np.ndarray | SparseRows) -> np.ndarray:
    """The array with all of its entries."""
    if not isinstance(array, SparseRows):
        return array
    whole = np.zeros((array.shape[0], array.n_columns, *array.entry.shape[1:]), array.entry.dtype)
    array.write_to(whole)
    return whole.reshape(len(whole), -1)
