"""The NumPy backend: the readable reference, and the fastest choice for small data.

The modules that grow trees are imported by the first fit, so that the first prediction of a process
does not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np

from gpuboost.backends.host.backend import HostBackend
from gpuboost.backends.numpy import explain
from gpuboost.backends.numpy import predict as prediction
from gpuboost.backends.numpy.batches import in_batches
from gpuboost.backends.protocol import Booster
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.growth.level_loop import grow_levels
from gpuboost.engine.task import GrownTree, GrowTask


class NumpyBackend(HostBackend):
    """Implementation of `gpuboost.backends.protocol.Backend` in NumPy."""

    name = "numpy"

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        """Grow the trees of ``task`` in batches."""
        from gpuboost.backends.numpy.level_ops import NumpyLevelOps  # before threads start

        if task.matrix.is_blocked:
            yield from self._grow_in_blocks(task)
            return

        def grow(trees: Sequence[int]) -> list[GrownTree]:
            return grow_levels(partial(NumpyLevelOps.start, task, trees), task).end_batch()

        yield from zip(task.trees, chain.from_iterable(in_batches(task, grow)), strict=True)

    def grow_blocks(
        self, task: GrowTask, with_leaves: bool = False
    ) -> Iterator[tuple[list[GrownTree], np.ndarray]]:
        """Grow trees on codes in blocks."""
        from gpuboost.backends.numpy.blocks.level_ops import grow_batches

        return grow_batches(task, None, with_leaves, self.block_device)

    def booster(self, task: BoostTask) -> Booster:
        """Start a fit of gradient boosting."""
        from gpuboost.backends.numpy.boosting import NumpyBooster

        return NumpyBooster(self, task)

    def predict(self, ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Sum over trees of the value of each row's leaf."""
        return prediction.predict(ensemble, X)

    def apply(self, ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Leaf of each row in each tree."""
        return prediction.apply(ensemble, X)

    def shap_values(self, model: AdditiveModel, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Path-dependent SHAP values."""
        return explain.shap_values(model, X)

    def shap_interactions(self, model: AdditiveModel, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Path-dependent SHAP interaction values."""
        return explain.shap_interactions(model, X)

    def interventional_shap(
        self, model: AdditiveModel, X: np.ndarray, background: np.ndarray, n_threads: int
    ) -> np.ndarray:
        """Interventional SHAP values."""
        return explain.interventional_shap(model, X, background)
