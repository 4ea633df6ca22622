"""Codes of a sparse matrix: column by column, only those that differ from the code of 0.

dense, column f     3 3 7 3 3 0 3      the code of 0 is 3
entries             row 2, 5           start[f] = first entry of the column
                    code 7, 0
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class SparseCodes:
    """The codes of a sparse matrix with F columns, n rows and z entries.

    Attributes
    ----------
    start : ndarray of int64 of shape (F + 1,)
        First entry of each column, then z.
    row : ndarray of uint32 of shape (z,)
        Row of each entry, ascending in each column.
    code : ndarray of uint8 of shape (z,)
        Code of each entry; never that of 0.
    zero_code : ndarray of uint8 of shape (F,)
        Code of 0 in each column, which all other rows have.
    n_samples : int
        Number of rows, n.
    """

    start: NDArray[np.int64]
    row: NDArray[np.uint32]
    code: NDArray[np.uint8]
    zero_code: NDArray[np.uint8]
    n_samples: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of columns and number of rows, as the shape of the dense codes."""
        return len(self.zero_code), self.n_samples

    @property
    def density(self) -> float:
        """Fraction of the codes that are stored."""
        return len(self.code) / (len(self.zero_code) * self.n_samples)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(own.nbytes for own in (self.start, self.row, self.code, self.zero_code))

    @property
    def column(self) -> NDArray[np.int64]:
        """Column of each entry: (z,)."""
        return np.repeat(np.arange(len(self.zero_code)), np.diff(self.start))

    def dense(self) -> NDArray[np.uint8]:
        """The codes of all values: (F, n)."""
        codes = np.empty(self.shape, np.uint8)
        codes[:] = self.zero_code[:, None]
        codes[self.column, self.row] = self.code
        return codes

    def columns(self, features: NDArray[np.integer]) -> NDArray[np.uint8]:
        """The codes of some features, as an array (len(features), n)."""
        codes = np.empty((len(features), self.n_samples), np.uint8)
        codes[:] = self.zero_code[features, None]
        for own, feature in zip(codes, features.tolist(), strict=True):
            entries = slice(*self.start[feature : feature + 2].tolist())
            own[self.row[entries]] = self.code[entries]
        return codes

    def by_row(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint8]]:
        """The entries row by row: first entry of each row, then z; their features and codes."""
        shape = self.n_samples, len(self.zero_code)
        whole = scipy.sparse.csc_array((self.code, self.row, self.start), shape=shape).tocsr()
        return whole.indptr.astype(np.int64), whole.indices.astype(np.uint32), whole.data
