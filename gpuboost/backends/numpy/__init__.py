"""The NumPy backend: the readable reference, and the quick choice for little work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gpuboost.backends.host import HostBackend
from gpuboost.backends.numpy import predict as prediction
from gpuboost.backends.numpy.level_ops import NumpyLevelOps
from gpuboost.data.binning import bin_columns
from gpuboost.engine.level_loop import grow_levels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from gpuboost.data.binning import BinMapper, BinnedMatrix
    from gpuboost.engine.ensemble import Ensemble
    from gpuboost.engine.spec import GrownTree, GrowTask

ROWS_PER_BATCH = 1 << 17  # trees share a frontier up to so many rows: fits the caches


class NumpyBackend(HostBackend):
    """See `gpuboost.backends.protocol.Backend`."""

    name = "numpy"

    def bin(self, X: np.ndarray, mapper: BinMapper, n_threads: int) -> BinnedMatrix:
        """Codes of ``X`` (n, F)."""
        return bin_columns(X, mapper, n_threads)

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        """Grow the trees of ``task`` in batches, one batch per thread at a time."""
        size = max(1, ROWS_PER_BATCH // task.matrix.n_samples)
        size = max(1, min(size, -(-len(task.trees) // task.n_threads)))
        batches = [task.trees[i : i + size] for i in range(0, len(task.trees), size)]

        def grow_batch(trees: Sequence[int]) -> list[GrownTree]:
            return grow_levels(NumpyLevelOps(task), task, trees)

        if task.n_threads == 1 or len(batches) == 1:
            for trees in batches:
                yield from zip(trees, grow_batch(trees), strict=True)
            return
        with ThreadPoolExecutor(task.n_threads) as pool:
            for trees, grown in zip(batches, pool.map(grow_batch, batches), strict=True):
                yield from zip(trees, grown, strict=True)

    def predict(self, ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Sum over trees of the value of each row's leaf."""
        return prediction.predict(ensemble, X)

    def apply(self, ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Leaf of each row in each tree."""
        return prediction.apply(ensemble, X)
