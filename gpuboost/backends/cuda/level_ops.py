"""The level operations on a device: every pass over rows or bins is a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuboost.backends.cuda.matrix import DeviceMatrix, upload_matrix
from gpuboost.backends.cuda.rows import DeviceRows, RowKernels
from gpuboost.backends.cuda.split_search import (
    HistogramBuilder,
    SplitSearch,
    choose_tile,
    plane_count,
)
from gpuboost.engine.frontier import Frontier, Splits
from gpuboost.engine.histograms import SiblingHistograms
from gpuboost.engine.level_loop import smallest_hessian

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.spec import GrowTask


class CudaLevelOps(RowKernels):
    """`gpuboost.engine.level_loop.LevelOps` as launches of kernels.

    One object grows batch after batch of the trees of a task; the matrix is copied once.
    """

    def __init__(self, runtime: Runtime, task: GrowTask) -> None:
        super().__init__(runtime, task, _matrix(runtime, task))
        self._histograms = SiblingHistograms(runtime.xp)

    def roots(self, trees: Sequence[int]) -> tuple[DeviceRows, Frontier]:
        """Rows and root nodes of a batch of trees."""
        rows, frontier = super().roots(trees)
        self._histograms.forget()
        fraction = self.task.options.min_weight_fraction_leaf
        allowed = np.zeros((len(trees), self.matrix.n_features), dtype=np.uint8)
        for position, tree in enumerate(trees):
            allowed[position, self.task.tree_features(tree)] = 1
        self._search = SplitSearch(
            self.runtime,
            self.task,
            self.matrix,
            self.runtime.asarray(allowed),
            smallest_hessian(self.xp, fraction, frontier.hessian),
        )
        self._builder = HistogramBuilder(
            self.runtime,
            self.matrix,
            self.n_channels,
            self.by_class and self.n_channels > 1,
            _counted(self.task),
            max(int(tree.weight.max()) for tree in self.tree_rows),
        )
        return rows, frontier

    def find_splits(self, rows: DeviceRows, frontier: Frontier, open_nodes: Array) -> Splits:
        """Best split of every open node.

        The histograms of a level are kept for the next one if both fit the memory budget; else
        the level is searched in slices of nodes, each from its rows.
        """
        splits = Splits.none(self.xp, len(frontier), self.n_channels, self.matrix.mask_words)

        def build(nodes: Array) -> Array:
            return self._builder.build(rows, frontier, nodes)

        per_slice = max(1, self.task.memory_budget // self._builder.bytes_per_node())
        if 2 * len(open_nodes) <= per_slice:
            if len(open_nodes):
                histogram = self._histograms.of_level(frontier, open_nodes, build)
                self._search.search(histogram, frontier, open_nodes, splits)
            return splits
        self._histograms.forget()
        for first in range(0, len(open_nodes), per_slice):
            nodes = open_nodes[first : first + per_slice]
            self._search.search(build(nodes), frontier, nodes, splits)
        return splits

    def partition(
        self, rows: DeviceRows, frontier: Frontier, splits: Splits, accepted: Array
    ) -> tuple[DeviceRows, Frontier]:
        """Move the rows of accepted nodes to their children, keeping their order."""
        self._histograms.descend(accepted)
        return super().partition(rows, frontier, splits, accepted)


def _counted(task: GrowTask) -> bool:
    """Whether histograms count rows: only a limit on the rows of a leaf asks for it."""
    return task.options.min_samples_leaf > 1


def _matrix(runtime: Runtime, task: GrowTask) -> DeviceMatrix:
    target = task.target
    planes = plane_count(target.n_channels, target.classes is not None, _counted(task))
    tile = choose_tile(runtime.shared_memory, task.matrix.width, planes)
    return upload_matrix(runtime, task.matrix, tile)
