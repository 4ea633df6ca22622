"""Blocks of rows of a binned matrix, whose codes become float32 values for prediction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuboost.engine.array_modules import array_module, working_on
from gpuboost.engine.bins import BinnedMatrix, SparseCodes
from gpuboost.engine.code_blocks import CodeBlocks

HOST_ROWS_PER_BLOCK = 2**15  # rows converted to floats at a time, if they have few features
_HOST_BLOCK_CODES = 2**22  # that become floats at a time, if rows have many features
DEVICE_ROWS_PER_BLOCK = 2**20  # the same, on a device


def code_blocks(matrix: BinnedMatrix) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of rows, each with the codes of its rows: float32 (n, F), NaN where missing.

    The codes are on the same device as those of the matrix. All slices start at multiples of 8 if
    the codes are an array or sparse.
    """
    start = 0
    for codes in _row_blocks(matrix.stored):
        with working_on(codes):
            block = codes.astype(np.float32)
            block[codes == matrix.missing_code] = np.nan
        yield slice(start, start + len(codes)), block
        start += len(codes)


def _host_rows(n_features: int) -> int:
    """Number of rows that are converted at a time on the host, a multiple of 8."""
    return max(8, min(HOST_ROWS_PER_BLOCK, _HOST_BLOCK_CODES // n_features // 8 * 8))


def _row_blocks(stored: np.ndarray | SparseCodes | CodeBlocks) -> Iterator[np.ndarray]:
    """Yield the codes of some rows after another: uint8 (n, F)."""
    if isinstance(stored, SparseCodes):
        yield from stored.row_blocks(_host_rows(stored.shape[0]))
        return
    if isinstance(stored, CodeBlocks):
        codes = np.empty((stored.shape[0], 0), np.uint8)
        for chunk in stored.chunks():
            if chunk.first == 0:
                codes = np.empty((stored.shape[0], chunk.codes.shape[1]), np.uint8)
            last = chunk.first + len(chunk.codes)
            codes[chunk.first : last] = chunk.codes
            if last == len(codes):
                yield from _row_blocks(codes)
        return
    xp = array_module(stored)
    size = _host_rows(len(stored)) if xp is np else DEVICE_ROWS_PER_BLOCK
    for start in range(0, stored.shape[1], size):
        with working_on(stored):
            codes = xp.ascontiguousarray(stored[:, start : start + size].T)
        yield codes
