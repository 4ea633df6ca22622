"""Blocks of rows of a binned matrix, whose codes become float32 values for prediction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuboost.engine.array_modules import array_module, working_on
from gpuboost.engine.bins import BinnedMatrix, SparseCodes

HOST_ROWS_PER_BLOCK = 2**15  # rows converted to floats at a time
DEVICE_ROWS_PER_BLOCK = 2**20  # the same, on a device


def code_blocks(matrix: BinnedMatrix) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of rows, each with the codes of its rows: float32 (n, F), NaN where missing.

    The codes are on the same device as those of the matrix.
    """
    stored = matrix.stored
    on_host = isinstance(stored, SparseCodes) or array_module(stored) is np
    size = HOST_ROWS_PER_BLOCK if on_host else DEVICE_ROWS_PER_BLOCK
    for start in range(0, matrix.n_samples, size):
        rows = slice(start, min(start + size, matrix.n_samples))
        part = _codes_of(stored, rows)
        with working_on(part):
            codes = array_module(part).ascontiguousarray(part.T)
            block = codes.astype(np.float32)
            block[codes == matrix.missing_code] = np.nan
        yield rows, block


def _codes_of(stored: np.ndarray | SparseCodes, rows: slice) -> np.ndarray:
    """The codes of some rows as an array (n_features, n_rows)."""
    if isinstance(stored, SparseCodes):
        return stored.take(rows).dense()
    with working_on(stored):
        return stored[:, rows]
