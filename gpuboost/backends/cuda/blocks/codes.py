"""Codes in blocks on a device, which keeps some blocks and gets the others in every pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.engine.code_blocks import CodeBlocks, CodeChunk
from gpuboost.engine.growth.frontier import Array


class DeviceCodes:
    """Codes in blocks of rows, chunk by chunk on a device.

    The last blocks stay on the device after the first pass. The host reads them from its file,
    while it has the first blocks in memory.

    Parameters
    ----------
    runtime : Runtime
    blocks : CodeBlocks
    capacity : int
        Bytes of the codes that stay on the device.
    """

    def __init__(self, runtime: Runtime, blocks: CodeBlocks, capacity: int) -> None:
        self._runtime, self._blocks = runtime, blocks
        sizes = accumulate(
            blocks.shape[0] * (rows.stop - rows.start) for rows in reversed(blocks.row_slices)
        )
        self.n_kept = sum(size <= capacity for size in sizes)
        self._kept: dict[int, Array] = {}  # codes (F, r) of the kept blocks, by their number
        self._number = {rows.start: number for number, rows in enumerate(blocks.row_slices)}

    def chunks(self) -> Iterator[CodeChunk]:
        """Yield all codes on the device; those of a block follow each other as in `CodeBlocks`."""
        slices = self._blocks.row_slices
        others = [number for number in range(len(slices)) if number not in self._kept]
        for number, codes in self._kept.items():
            yield CodeChunk(slices[number], 0, codes)
        whole: Array = None
        for chunk in self._blocks.chunks(None, others):
            number, last = self._number[chunk.rows.start], chunk.first + len(chunk.codes)
            if number < len(slices) - self.n_kept:
                yield CodeChunk(chunk.rows, chunk.first, self._runtime.asarray(chunk.codes))
                continue
            if chunk.first == 0:
                shape = self._blocks.shape[0], chunk.codes.shape[1]
                whole = self._runtime.xp.empty(shape, dtype=np.uint8)
            self._runtime.upload(chunk.codes, whole[chunk.first : last])
            if last == len(whole):
                self._kept[number] = whole
            yield CodeChunk(chunk.rows, chunk.first, whole[chunk.first : last])

    def columns(self, rows: slice, features: np.ndarray) -> tuple[Array, bool]:
        """Codes of some ascending features for the rows of a block, and whether all are there."""
        kept = self._kept.get(self._number[rows.start])
        if kept is not None:
            return kept, True
        columns = [self._blocks.column(int(feature), rows) for feature in features]
        return self._runtime.asarray(np.stack(columns)), False
