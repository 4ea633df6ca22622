"""Out-of-bag sums on the host: every row is predicted by the trees that did not draw it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from gpuboost.backends.coded import code_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuboost.backends.protocol import Backend
    from gpuboost.data.binning import BinnedMatrix
    from gpuboost.engine.ensemble import Ensemble
    from gpuboost.engine.sampling import RowSampler


def sum_left_out(
    backend: Backend,
    ensemble: Ensemble,
    matrix: BinnedMatrix,
    draws: Sequence[tuple[RowSampler, int]],
    n_threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """See `gpuboost.backends.protocol.Backend.sum_left_out`."""
    left_out = _rows_left_out(draws, n_threads)
    total = np.zeros((matrix.n_samples, ensemble.n_values))
    count = np.zeros(matrix.n_samples, dtype=np.int64)
    for rows, block in code_blocks(matrix):
        leaves = backend.apply(ensemble, block, n_threads)
        packed = left_out[:, rows.start // 8 : -(-rows.stop // 8)]  # blocks start at whole bytes
        for tree in range(ensemble.n_trees):
            inside = np.unpackbits(packed[tree], count=len(block)).view(bool)
            nodes = leaves[inside, tree] + ensemble.offset[tree]
            total[rows][inside] += ensemble.value[nodes]
            count[rows] += inside
    return total, count


def _rows_left_out(draws: Sequence[tuple[RowSampler, int]], n_threads: int) -> np.ndarray:
    """Which rows each tree did not see, one bit each: uint8 (n_trees, ceil(n_samples / 8))."""
    with ThreadPoolExecutor(n_threads) as pool:
        bits = pool.map(lambda draw: np.packbits(draw[0].draw_counts(draw[1]) == 0), draws)
        return np.stack(list(bits))
