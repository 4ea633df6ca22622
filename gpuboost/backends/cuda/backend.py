"""The CUDA backend on one device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from gpuboost.backends.cuda.adaboost.booster import CudaReweighter
from gpuboost.backends.cuda.boosting.booster import CudaBooster
from gpuboost.backends.cuda.data.binning import bin_matrix, fit_bins
from gpuboost.backends.cuda.explain import explain
from gpuboost.backends.cuda.growth.grow import grow_finished, grow_trees
from gpuboost.backends.cuda.predict.inverse_links import inverse, log_probabilities
from gpuboost.backends.cuda.predict.out_of_bag import sum_out_of_bag
from gpuboost.backends.cuda.predict.predict import apply, predict
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.host.backend import HostBackend
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.backends.protocol import Booster, Reweighter
from gpuboost.data.sparse_binning import bin_sparse, learn_sparse_bins
from gpuboost.data.sparse_features import Features, SparseFeatures
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule
from gpuboost.engine.code_blocks import CodeBlocks
from gpuboost.engine.ensembles.adaboost_task import ReweightTask
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.growth.tree import ThresholdFinder, Tree
from gpuboost.engine.losses.links import Link
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.task import GrownTree, GrowTask

Task = TypeVar("Task", GrowTask, BoostTask, ReweightTask)


class CudaBackend:
    """Backend that runs kernels on one device; see `gpuboost.backends.protocol.Backend`.

    ``n_threads`` is ignored. The device is current only while a method or generator of this class
    runs, so the caller's current device does not change.

    Parameters
    ----------
    runtime : Runtime
        Runtime of the device.
    host : callable
        Returns the backend of the host that keeps the trees, boosting and AdaBoost of fits on codes
        in blocks, whose passes over rows and codes run on the device.
    """

    threshold_finder: ThresholdFinder | None = None

    def __init__(self, runtime: Runtime, host: Callable[[], Any] = NumpyBackend) -> None:
        self.runtime, self._host = runtime, host
        self.name = runtime.name

    def fit_bins(self, X: Features, rule: BinRule, n_threads: int) -> BinnedMatrix:
        """Find the bins of ``X`` (n, F) and compute its codes; sparse features stay on the host."""
        if isinstance(X, SparseFeatures):
            return bin_sparse(X, learn_sparse_bins(X, rule, n_threads), n_threads)
        with self.runtime.active():
            return fit_bins(self.runtime, X, rule)

    def bin(self, X: Features, mapper: BinMapper, n_threads: int) -> BinnedMatrix:
        """Compute the codes of ``X`` (n, F), float32 or float64."""
        if isinstance(X, SparseFeatures):
            return bin_sparse(X, mapper, n_threads)
        with self.runtime.active():
            return bin_matrix(self.runtime, X, mapper)

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        """Grow the trees of ``task``, in batches that fit in the device's memory."""
        if isinstance(task.matrix.stored, CodeBlocks):
            return self._for_blocks(task.matrix).grow(task)
        return self._each(grow_trees, task)

    def grow_finished(self, task: GrowTask) -> Iterator[tuple[int, Tree]]:
        """Grow the trees of ``task`` and finish them, on the device if it can finish such trees."""
        if isinstance(task.matrix.stored, CodeBlocks):
            return self._for_blocks(task.matrix).grow_finished(task)
        return self._each(grow_finished, task)

    def _each(self, grow: Callable[..., Iterator[Any]], task: GrowTask) -> Iterator[Any]:
        trees = grow(self.runtime, self._with_budget(task))
        while True:
            with self.runtime.active():
                tree = next(trees, None)
            if tree is None:
                return
            yield tree

    def booster(self, task: BoostTask) -> Booster:
        """Start a fit of gradient boosting; its rows stay on the device."""
        if isinstance(task.matrix.stored, CodeBlocks):
            return self._for_blocks(task.matrix).booster(task)
        return CudaBooster(self.runtime, self._with_budget(task))

    def reweighter(self, task: ReweightTask) -> Reweighter:
        """Start a fit of AdaBoost; its rows stay on the device."""
        if isinstance(task.matrix.stored, CodeBlocks):
            return self._for_blocks(task.matrix).reweighter(task)
        return CudaReweighter(self.runtime, self._with_budget(task))

    def _for_blocks(self, matrix: BinnedMatrix) -> HostBackend:
        """The backend of a fit on codes in blocks; these stay on the device as far as they fit."""
        from gpuboost.backends.cuda.blocks.growth import BlockGrowth

        backend: HostBackend = copy(self._host())
        assert isinstance(matrix.stored, CodeBlocks)
        backend.block_device = BlockGrowth(self.runtime, matrix.stored)
        return backend

    def _with_budget(self, task: Task) -> Task:
        """Return the task with its budget set to the bytes that a fit may take on the device."""
        with self.runtime.active():
            return replace(task, memory_budget=self.runtime.memory_budget())

    def predict(self, ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Sum the leaf values of each row over the trees, in their order."""
        with self.runtime.active():
            return predict(self.runtime, ensemble, X)

    def apply(self, ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Find the leaf of each row in each tree."""
        with self.runtime.active():
            return apply(self.runtime, ensemble, X)

    def inverse_link(self, link: Link, raw: np.ndarray) -> np.ndarray:
        """Convert raw predictions to predictions; both arrays are on the device."""
        with self.runtime.active():
            return inverse(self.runtime, link, raw)

    def log_probabilities(self, p: np.ndarray) -> np.ndarray:
        """Compute the logarithms of probabilities; both arrays are on the device."""
        with self.runtime.active():
            return log_probabilities(self.runtime, p)

    def sum_out_of_bag(
        self,
        ensemble: Ensemble,
        matrix: BinnedMatrix,
        draws: Sequence[tuple[RowSampler, int]],
        n_threads: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute out-of-bag sums of leaf values, and the number of trees in each sum."""
        with self.runtime.active():
            return sum_out_of_bag(self.runtime, ensemble, matrix, draws)

    def shap_values(self, model: AdditiveModel, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Compute path-dependent SHAP values."""
        with self.runtime.active():
            return explain.shap_values(self.runtime, model, X)

    def shap_interactions(self, model: AdditiveModel, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Compute path-dependent SHAP interaction values."""
        with self.runtime.active():
            return explain.shap_interactions(self.runtime, model, X)

    def interventional_shap(
        self, model: AdditiveModel, X: np.ndarray, background: np.ndarray, n_threads: int
    ) -> np.ndarray:
        """Compute interventional SHAP values, summed over background rows."""
        with self.runtime.active():
            return explain.interventional_shap(self.runtime, model, X, background)
