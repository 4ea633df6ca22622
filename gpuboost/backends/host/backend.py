"""The base class of the NumPy and Numba backends: the methods that they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gpuboost.backends.host.adaboost import HostReweighter
from gpuboost.backends.host.binned import code_blocks
from gpuboost.backends.host.boosting import HostBooster
from gpuboost.backends.host.finish import finish_grown
from gpuboost.backends.protocol import Backend, Booster, Reweighter
from gpuboost.data.binning import bin_columns, learn_bins
from gpuboost.data.cell_counters import ColumnCounter
from gpuboost.data.sparse_binning import bin_sparse, learn_sparse_bins
from gpuboost.data.sparse_features import Features, SparseFeatures
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule
from gpuboost.engine.ensembles.adaboost_task import ReweightTask
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import ThresholdFinder, Tree
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.task import GrownTree, GrowTask


class HostBackend(Backend):
    """Methods that NumPy and Numba share; they call the other methods of `Backend`.

    Both backends override `booster`, with subclasses of `HostBooster`.
    """

    threshold_finder: ThresholdFinder | None = None
    column_counter: type[ColumnCounter] = ColumnCounter
    bin_dense: Callable[[Any, BinMapper, int], BinnedMatrix] = staticmethod(bin_columns)
    block_device: Any = None  # the `numpy.blocks.passes.BlockDevice` for codes in blocks

    @abstractmethod
    def grow_blocks(
        self, task: GrowTask, with_leaves: bool = False
    ) -> Iterator[tuple[list[GrownTree], np.ndarray]]:
        """Grow trees on codes in blocks; see `numpy.blocks.level_ops.grow_batches`."""

    def _grow_in_blocks(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        grown = (tree for trees, _ in self.grow_blocks(task) for tree in trees)
        yield from zip(task.trees, grown, strict=True)

    def grow_finished(self, task: GrowTask) -> Iterator[tuple[int, Tree]]:
        """Grow the trees of ``task`` and finish them."""
        return finish_grown(task, self.grow(task), self.threshold_finder)

    def booster(self, task: BoostTask) -> Booster:
        """Start a fit of gradient boosting."""
        return HostBooster(self, task)

    def reweighter(self, task: ReweightTask) -> Reweighter:
        """Start a fit of AdaBoost."""
        return HostReweighter(self, task)

    def fit_bins(self, X: Features, rule: BinRule, n_threads: int) -> BinnedMatrix:
        """Learn the bins of ``X`` (n, F), and bin ``X``."""
        if isinstance(X, SparseFeatures):
            mapper = learn_sparse_bins(X, rule, n_threads, self.column_counter)
            return bin_sparse(X, mapper, n_threads)
        mapper, binned = learn_bins(X, rule, n_threads, self.column_counter, with_codes=True)
        return self.bin_dense(X, mapper, n_threads) if binned is None else binned

    def bin(self, X: Features, mapper: BinMapper, n_threads: int) -> BinnedMatrix:
        """Codes of ``X`` (n, F)."""
        if isinstance(X, SparseFeatures):
            return bin_sparse(X, mapper, n_threads)
        return self.bin_dense(X, mapper, n_threads)

    def sum_out_of_bag(
        self,
        ensemble: Ensemble,
        matrix: BinnedMatrix,
        draws: Sequence[tuple[RowSampler, int]],
        n_threads: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum leaf values out of bag; also return the number of trees in each row's sum."""
        outside = _out_of_bag_rows(draws, n_threads)
        total = np.zeros((matrix.n_samples, ensemble.n_values))
        count = np.zeros(matrix.n_samples, dtype=np.int64)
        for rows, block in code_blocks(matrix):
            leaves = self.apply(ensemble, block, n_threads)
            packed, first = outside[:, rows.start // 8 : -(-rows.stop // 8)], rows.start % 8
            for tree in range(ensemble.n_trees):
                bits = np.unpackbits(packed[tree], count=first + len(block))
                out_of_bag = bits[first:].view(bool)
                nodes = leaves[out_of_bag, tree] + ensemble.offset[tree]
                total[rows][out_of_bag] += ensemble.value[nodes]
                count[rows] += out_of_bag
        return total, count


def _out_of_bag_rows(draws: Sequence[tuple[RowSampler, int]], n_threads: int) -> np.ndarray:
    """The rows that each tree did not draw, as bits: uint8 (n_trees, ceil(n_samples / 8))."""
    with ThreadPoolExecutor(n_threads) as pool:
        bits = pool.map(lambda draw: np.packbits(draw[0].draw_counts(draw[1]) == 0), draws)
        return np.stack(list(bits))
