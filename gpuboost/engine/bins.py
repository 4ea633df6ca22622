"""The bins of a table's features, and the binned matrix of their codes.

Value bin ``b`` of a numeric feature holds the values ``edges[b - 1] < x <= edges[b]`` (the first
has no lower, the last no upper bound), so the code of a value is the number of edges below it::

    edges          e0      e1      e2
    x     ---------|-------|-------|---------
    code      0        1       2        3         and `missing_code` for NaN

The values of a categorical feature are category codes 0, 1, ..., which binning keeps. All features
share one missing code, the largest number of value bins, so that a histogram has the same width for
every feature.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gpuboost.engine.code_blocks import CodeBlocks
from gpuboost.engine.numerics import midpoint

MAX_DENSITY = 0.125  # fraction of the codes that a matrix stores if it is grown on as sparse
MAX_BINS = 255  # value bins per feature; the missing code is at most 255, so codes fit in uint8


class PickledByFields:
    """Base of dataclasses whose pickles leave out cached properties."""

    def __getstate__(self: Any) -> dict[str, Any]:
        """The fields, without cached properties."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, eq=False)
class BinRule:
    """Parameters for learning the bins of a matrix.

    Attributes
    ----------
    is_categorical : ndarray of bool of shape (n_features,)
        Mask of the categorical features.
    max_bins : int
        Maximum number of value bins of a numeric feature.
    weights : ndarray of float64 of shape (n_samples,), optional
        Weights of the rows in the quantiles that become edges; a NumPy or CuPy array.
    """

    is_categorical: NDArray[np.bool_]
    max_bins: int = MAX_BINS
    weights: Any = None


@dataclass(frozen=True, eq=False)
class BinMapper(PickledByFields):
    """The bins of every feature, as learnt from training data.

    Attributes
    ----------
    n_bins : ndarray of int32 of shape (n_features,)
        Number of value bins of each feature, at least 1: a feature without values has a bin for 0.
    lowest, highest : ndarray of float64 of shape (n_bins.sum(),)
        Smallest and largest training value of each bin, feature by feature; only rows of positive
        weight count. For categorical features, both are equal to the code.
    is_categorical : ndarray of bool of shape (n_features,)
        Mask of the categorical features.
    """

    n_bins: NDArray[np.int32]
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]
    is_categorical: NDArray[np.bool_]

    @property
    def n_features(self) -> int:
        return len(self.n_bins)

    @property
    def missing_code(self) -> int:
        """Code of a missing value, the same for all features."""
        return int(self.n_bins.max())

    @property
    def width(self) -> int:
        """Number of bins of a histogram: the value bins and the bin for missing values."""
        return self.missing_code + 1

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """Place of each feature's first bin in the arrays of all bins: (n_features + 1,)."""
        return np.append(0, np.cumsum(self.n_bins, dtype=np.int64))

    @cached_property
    def centers(self) -> NDArray[np.float64]:
        """Midpoint of the smallest and largest value of each bin: (n_bins.sum(),)."""
        low, high = self.lowest, self.highest
        return np.where(low < high, midpoint(low, high), low)

    @cached_property
    def all_edges(self) -> NDArray[np.float64]:
        """The edges of all features, feature by feature: ((n_bins - 1).sum(),) if all are numeric.

        A feature's edges are the upper edges of all of its value bins but the last, strictly
        increasing. Categorical features have none.
        """
        ends = np.ones(len(self.lowest), dtype=bool)
        ends[self.first[1:] - 1] = False
        ends &= np.repeat(~self.is_categorical, self.n_bins)
        at = np.flatnonzero(ends)
        return midpoint(self.highest[at], self.lowest[at + 1])

    @cached_property
    def n_edges(self) -> NDArray[np.int64]:
        """Number of edges of each feature: (n_features,)."""
        return np.where(self.is_categorical, 0, self.n_bins - 1)

    @cached_property
    def edges(self) -> tuple[NDArray[np.float64], ...]:
        """The edges of each feature (see `all_edges`)."""
        ends = np.cumsum(self.n_edges)
        starts = (ends - self.n_edges).tolist()
        return tuple(self.all_edges[a:b] for a, b in zip(starts, ends.tolist(), strict=True))

    def select(self, features: Any) -> BinMapper:
        """The bins of the features with these indices."""
        starts, stops = self.first[:-1][features].tolist(), self.first[1:][features].tolist()
        bins = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
        ends = self.lowest[bins], self.highest[bins]
        return BinMapper(self.n_bins[features], *ends, self.is_categorical[features])

    def padded(self, of_bins: NDArray[Any]) -> NDArray[Any]:
        """Values of all bins as an array (n_features, width - 1).

        Entries beyond the bins of a feature repeat its last bin.
        """
        place = self.first[:-1, None] + np.arange(self.missing_code)
        return of_bins[np.minimum(place, self.first[1:, None] - 1)]

    @cached_property
    def _edges64(self) -> NDArray[np.float64]:
        table = np.full((self.n_features, self.missing_code - 1), np.inf)
        table[np.arange(self.missing_code - 1) < self.n_edges[:, None]] = self.all_edges
        table.flags.writeable = False
        return table

    @cached_property
    def _edges32(self) -> NDArray[np.float32]:
        table = round_down_to_float32(self._edges64)
        table.flags.writeable = False
        return table

    def edge_table(self, dtype: Any = np.float64) -> NDArray[np.floating[Any]]:
        """Return the edges as one array of shape (n_features, width - 2), padded with +inf.

        For float32 the edges are rounded down, so that `x <= edge` is exact for every float32 x.
        """
        return self._edges32 if dtype == np.float32 else self._edges64

    def update_hash(self, sha: Any) -> None:
        """Feed all that determines the codes to a `hashlib` object, in a fixed byte order."""
        sha.update(np.int64(self.n_features).astype("<i8").tobytes())
        sha.update(self.n_bins.astype("<i4").tobytes())
        sha.update(self.is_categorical.astype("u1").tobytes())
        sha.update(self.all_edges.astype("<f8").tobytes())


@dataclass(frozen=True, eq=False)
class SparseCodes:
    """The codes of a sparse matrix: column by column, those that differ from the code of 0.

    The matrix has F columns, n rows and z such entries::

        dense, column f     3 3 7 3 3 0 3      the code of 0 is 3
        entries             row 2, 5           start[f] is the first entry of the column
                            code 7, 0

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

    def _as_columns(self) -> scipy.sparse.csc_array:
        shape = self.n_samples, len(self.zero_code)
        return scipy.sparse.csc_array((self.code, self.row, self.start), shape=shape)

    def take(self, rows: slice | NDArray[Any]) -> SparseCodes:
        """Some rows, by a slice, a mask or indices."""
        part = self._as_columns()[rows]
        part.sort_indices()
        start, row = part.indptr.astype(np.int64), part.indices.astype(np.uint32)
        return SparseCodes(start, row, part.data, self.zero_code, part.shape[0])

    def by_row(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint8]]:
        """The entries row by row: first entry of each row, then z; their features and codes."""
        whole = self._as_columns().tocsr()
        return whole.indptr.astype(np.int64), whole.indices.astype(np.uint32), whole.data

    def row_blocks(self, size: int) -> Iterator[NDArray[np.uint8]]:
        """Yield the dense codes of ``size`` rows after another: (n_rows, F)."""
        starts, column, code = self.by_row()
        for first in range(0, self.n_samples, size):
            start = starts[first : first + size + 1]
            entries = slice(start[0], start[-1])
            codes = np.tile(self.zero_code, (len(start) - 1, 1))
            row = np.repeat(np.arange(len(codes)), np.diff(start))
            codes[row, column[entries]] = code[entries]
            yield codes


@dataclass(frozen=True, eq=False)
class BinnedMatrix(PickledByFields):
    """The codes of a matrix, feature by feature.

    Attributes
    ----------
    stored : C-contiguous ndarray of uint8 of shape (n_features, n_samples), SparseCodes, CodeBlocks
        Index of each value's bin, `missing_code` for missing values and unknown categories; a CuPy
        array on a GPU.
    mapper : BinMapper
        Bins of the features.
    n_missing : ndarray of int64 of shape (n_features,)
        Number of samples with the missing code, on the host.
    """

    stored: NDArray[np.uint8] | SparseCodes | CodeBlocks
    mapper: BinMapper
    n_missing: NDArray[np.int64]

    def __len__(self) -> int:
        return self.n_samples

    def take(self, rows: slice | NDArray[Any]) -> BinnedMatrix:
        """Some rows, by a slice, a mask or indices; it is sparse if this matrix is."""
        if isinstance(self.stored, SparseCodes):
            part = self.stored.take(rows)
            of_missing = part.column[part.code == self.missing_code]
            counts = np.bincount(of_missing, minlength=self.n_features)
            return BinnedMatrix(part, self.mapper, counts)
        codes: NDArray[np.uint8] | CodeBlocks
        if isinstance(self.stored, CodeBlocks):
            codes = self.stored.take(rows)
        else:
            codes = np.ascontiguousarray(self.stored[:, rows])
        if isinstance(codes, CodeBlocks):
            return BinnedMatrix(codes, self.mapper, codes.count(self.missing_code))
        n_missing = np.count_nonzero(codes == self.missing_code, axis=1)
        return BinnedMatrix(codes, self.mapper, n_missing)

    @cached_property
    def codes(self) -> NDArray[np.uint8]:
        """The codes as an array (n_features, n_samples); made on first use if they are sparse.

        Raises
        ------
        TypeError
            The codes are in blocks.
        """
        if isinstance(self.stored, CodeBlocks):
            raise TypeError(
                "codes that exceed the memory_limit of their Dataset are not one array, which is "
                "needed here; make the Dataset with a larger memory_limit, or use device='cpu'"
            )
        return self.stored.dense() if isinstance(self.stored, SparseCodes) else self.stored

    @property
    def is_blocked(self) -> bool:
        """Whether the codes are in blocks and may exceed the memory."""
        return isinstance(self.stored, CodeBlocks)

    @property
    def grows_sparse(self) -> bool:
        """Whether so few codes are stored that growing trees on them takes less time than dense."""
        stored = self.stored
        return isinstance(stored, SparseCodes) and stored.density <= MAX_DENSITY

    @property
    def n_samples(self) -> int:
        return self.stored.shape[1]

    @property
    def n_features(self) -> int:
        return self.stored.shape[0]

    @property
    def missing_code(self) -> int:
        return self.mapper.missing_code

    @property
    def width(self) -> int:
        return self.mapper.width


def round_down_to_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest float32 that is not above each value, so that comparisons stay exact."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(np.float32)
        return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)
