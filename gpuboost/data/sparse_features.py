"""Features in a sparse matrix, which become dense only in blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

_DENSE_BLOCK_BYTES = 1 << 24  # so few that predictions need little more memory than the matrix


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """Numeric features of float32 or float64; entries that are not stored are 0.

    Attributes
    ----------
    matrix : csr_array or csc_array of shape (n_samples, n_features)
        No two entries have the same place.
    """

    matrix: Any

    @classmethod
    def of(cls, matrix: Any, dtype: Any) -> SparseFeatures:
        """Convert any SciPy sparse matrix.

        Entries with the same place are added in the type of the matrix, as in its `toarray`; if
        three or more are floats, the sum can differ from that of `toarray` in the last bit.
        """
        kept = csc_array if matrix.format == "csc" else csr_array
        own = kept(matrix)
        if not own.has_canonical_format:
            own = own.copy()
            own.sum_duplicates()
        return cls(own.astype(dtype, copy=False))

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrix.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return self.dtype.itemsize

    @property
    def ndim(self) -> int:
        return 2

    def __len__(self) -> int:
        return self.shape[0]

    def infinite(self) -> list[tuple[int, int, float]]:
        """The row, the feature and the value of each infinite entry."""
        entries = self.matrix.tocoo()
        found = np.isinf(entries.data)
        places = (entries.row[found], entries.col[found], entries.data[found])
        return list(zip(*(own.tolist() for own in places), strict=True))

    def by_column(self) -> SparseFeatures:
        """The same features in a matrix that is stored column by column."""
        return SparseFeatures(csc_array(self.matrix))

    def select(self, features: Any) -> SparseFeatures:
        """Some features, as a sparse matrix."""
        return SparseFeatures(self.matrix[:, features])

    def columns(self, features: Any) -> np.ndarray:
        """The dense columns of some features: (n_samples, len(features))."""
        return self.select(features).by_column().dense()

    def dense(self) -> np.ndarray:
        """All features as a dense array, in Fortran order if they are stored column by column.

        Raises
        ------
        MemoryError
            If the dense array does not fit in memory.
        """
        try:
            return self.matrix.toarray()
        except MemoryError as error:
            shape = " x ".join(map(str, self.shape))
            size = self.shape[0] * self.shape[1] * self.itemsize / 2**30
            raise MemoryError(
                f"X is a sparse matrix of {shape}, which is converted to a dense array of "
                f"{size:.1f} GiB; use fewer features or rows, or predict on fewer rows at a time"
            ) from error

    def row_blocks(self) -> Iterator[np.ndarray]:
        """Yield the features of some rows after another, as dense arrays."""
        rows = csr_array(self.matrix)
        size = max(1, _DENSE_BLOCK_BYTES // (self.shape[1] * self.itemsize))
        for start in range(0, len(self), size):
            yield rows[start : start + size].toarray()


Features = np.ndarray | SparseFeatures


def to_dense(data: Features) -> np.ndarray:
    """Return features as a dense array, unchanged if they are one."""
    return data.dense() if isinstance(data, SparseFeatures) else data
