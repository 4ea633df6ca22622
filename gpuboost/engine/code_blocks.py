"""Codes of a binned matrix that may exceed the memory, read in chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class CodeChunk:
    """Codes of some rows for a range of features.

    Attributes
    ----------
    rows : slice
        The rows.
    first : int
        The first feature.
    codes : ndarray of uint8 of shape (n_features_of_chunk, n_rows_of_chunk)
    """

    rows: slice
    first: int
    codes: NDArray[np.uint8]


class CodeBlocks(ABC):
    """The codes of a matrix that may exceed the memory, in blocks of rows.

    Attributes
    ----------
    shape : tuple of int
        Number of columns and number of rows, as the shape of the dense codes.
    row_slices : list of slice
        The rows of each block.
    kept : uint8 (blocks, n_features, n_rows_of_block)
        The codes of the first blocks, if these are in memory.
    memory_limit : int
        Bytes that the codes and the growth of trees may use together, besides arrays with an entry
        for each row.
    """

    row_slices: list[slice]
    kept: NDArray[np.uint8]

    def __init__(self, shape: tuple[int, int], memory_limit: int) -> None:
        self.shape, self.memory_limit = shape, memory_limit

    @property
    def nbytes(self) -> int:
        """Bytes of all codes, in memory or not."""
        return self.shape[0] * self.shape[1]

    @abstractmethod
    def chunks(
        self,
        features: NDArray[np.integer] | None = None,
        blocks: Sequence[int] | None = None,
        readers: ThreadPoolExecutor | None = None,
    ) -> Iterator[CodeChunk]:
        """Yield the codes chunk by chunk: of all or some ascending features and all or some blocks.

        The chunks of a block of rows follow each other, with ascending features. The codes of a
        chunk are valid until the next chunk is taken. A thread of ``readers`` reads ahead, or a new
        one.
        """

    @abstractmethod
    def column(self, feature: int, rows: slice) -> NDArray[np.uint8]:
        """Codes of a feature for the ``rows`` of a block."""

    def count(self, code: int) -> NDArray[np.int64]:
        """How often a code is in each column."""
        found = np.zeros(self.shape[0], dtype=np.int64)
        for chunk in self.chunks():
            features = slice(chunk.first, chunk.first + len(chunk.codes))
            found[features] += np.count_nonzero(chunk.codes == code, axis=1)
        return found

    def update_hash(self, sha: Any) -> None:
        """Feed the codes to a `hashlib` object, feature by feature, as those of an array."""
        for feature in range(self.shape[0]):
            for rows in self.row_slices:
                sha.update(np.ascontiguousarray(self.column(feature, rows)).data)

    def of_rows(
        self, rows: NDArray[np.integer], features: NDArray[np.integer]
    ) -> NDArray[np.uint8]:
        """Codes of some rows and features: uint8 (features, rows)."""
        codes, order = np.empty((len(features), len(rows)), np.uint8), np.argsort(rows)
        for own in self.row_slices:
            a, b = np.searchsorted(rows, (own.start, own.stop), sorter=order)
            at = order[a:b]
            for place, feature in enumerate(features.tolist() if b > a else []):
                codes[place, at] = self.column(feature, own)[rows[at] - own.start]
        return codes

    @abstractmethod
    def take(self, rows: slice | NDArray[Any]) -> CodeBlocks | NDArray[np.uint8]:
        """Some rows, by a slice, a mask or indices, as an array if it fits in memory."""
