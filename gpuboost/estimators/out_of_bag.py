"""Out-of-bag estimates: every row predicted by the trees that did not see it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from gpuboost.data.advice import warn_user
from gpuboost.estimators.fitted import code_blocks, on_codes

if TYPE_CHECKING:
    from gpuboost.backends.protocol import Backend
    from gpuboost.data.binning import BinnedMatrix
    from gpuboost.engine.ensemble import Ensemble
    from gpuboost.estimators.fitted import Batch, FittedTrees


def out_of_bag_means(
    model: FittedTrees, ensemble: Ensemble, matrix: BinnedMatrix, backend: Backend, n_threads: int
) -> np.ndarray:
    """Mean over the trees that did not see a row, in their order, of its leaf's value.

    Parameters
    ----------
    ensemble : Ensemble
        The model's, or its votes.
    matrix : BinnedMatrix
        Training data.

    Returns
    -------
    float64 (n, V)
        NaN for rows that every tree saw, of which there is a warning.
    """
    left_out = rows_left_out(model.batches, matrix.n_samples, n_threads)
    coded, total = on_codes(ensemble), np.zeros((matrix.n_samples, ensemble.n_values))
    count = np.zeros(matrix.n_samples, dtype=np.int64)
    for rows, block in code_blocks(matrix):
        leaves = backend.apply(coded, block, n_threads)
        packed = left_out[:, rows.start // 8 : -(-rows.stop // 8)]  # blocks start at whole bytes
        for tree in range(ensemble.n_trees):
            inside = np.unpackbits(packed[tree], count=len(block)).view(bool)
            nodes = leaves[inside, tree] + ensemble.offset[tree]
            total[rows][inside] += ensemble.value[nodes]
            count[rows] += inside
    if not count.all():
        warn_user(
            "Some inputs do not have OOB scores: every tree saw them, and they are NaN. "
            "This probably means too few trees were used to compute any reliable OOB estimates; "
            "raise n_estimators or lower max_samples."
        )
    with np.errstate(invalid="ignore"):
        return total / count[:, None]


def rows_left_out(batches: tuple[Batch, ...], n_samples: int, n_threads: int) -> np.ndarray:
    """Which rows each tree did not see, one bit each: uint8 (n_trees, ceil(n_samples / 8))."""
    for batch in batches:
        if batch.sampler.n_samples != n_samples:
            raise ValueError(
                f"oob_score needs the rows that every tree was grown on, but with warm_start "
                f"some trees saw {batch.sampler.n_samples} rows and X has {n_samples}; fit with "
                "warm_start=False or oob_score=False"
            )
    draws = [(batch.sampler, tree) for batch in batches for tree in batch.trees]
    with ThreadPoolExecutor(n_threads) as pool:
        bits = pool.map(lambda draw: np.packbits(draw[0].draw_counts(draw[1]) == 0), draws)
        return np.stack(list(bits))
