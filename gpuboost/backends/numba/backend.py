"""The Numba backend: code compiled for the CPU, run on gpuboost's own threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuboost.backends.host.backend import HostBackend
from gpuboost.backends.numba.binning import bin_matrix
from gpuboost.backends.numba.blocks.search import CompiledBlockOps
from gpuboost.backends.numba.boosting.booster import NumbaBooster
from gpuboost.backends.numba.cells import CompiledColumnCounter
from gpuboost.backends.numba.common.split_thresholds import find_thresholds
from gpuboost.backends.numba.depth_first.tree_grower import DepthFirstGrower
from gpuboost.backends.numba.predict import predict as prediction
from gpuboost.backends.numpy.blocks.level_ops import grow_batches
from gpuboost.backends.protocol import Booster
from gpuboost.engine.code_blocks import CodeBlocks
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.task import GrownTree, GrowTask


class NumbaBackend(HostBackend):
    """Implementation of `gpuboost.backends.protocol.Backend` with code compiled by Numba."""

    name = "numba"
    threshold_finder = staticmethod(find_thresholds)
    column_counter = CompiledColumnCounter
    bin_dense = staticmethod(bin_matrix)
    predict = staticmethod(prediction.predict)
    apply = staticmethod(prediction.apply)

    def shap_values(self, model: AdditiveModel, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Path-dependent SHAP values."""
        from gpuboost.backends.numba.explain import explain

        return explain.shap_values(model, X, n_threads)

    def shap_interactions(self, model: AdditiveModel, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Path-dependent SHAP interaction values."""
        from gpuboost.backends.numba.explain import explain

        return explain.shap_interactions(model, X, n_threads)

    def interventional_shap(
        self, model: AdditiveModel, X: np.ndarray, background: np.ndarray, n_threads: int
    ) -> np.ndarray:
        """Interventional SHAP values."""
        from gpuboost.backends.numba.explain import explain

        return explain.interventional_shap(model, X, background, n_threads)

    def booster(self, task: BoostTask) -> Booster:
        """Start a fit of gradient boosting."""
        return NumbaBooster(self, task)

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        """Grow the trees of ``task``, ``n_threads`` at a time; yield (number, tree) in order.

        Trees grow depth-first, each on one thread; if the codes are in blocks, all grow together,
        level by level.
        """
        if isinstance(task.matrix.stored, CodeBlocks):
            yield from self._grow_in_blocks(task)
            return
        yield from DepthFirstGrower(task).grow_all()

    def grow_blocks(
        self, task: GrowTask, with_leaves: bool = False
    ) -> Iterator[tuple[list[GrownTree], np.ndarray]]:
        """Grow trees on codes in blocks."""
        return grow_batches(task, CompiledBlockOps, with_leaves, self.block_device)
