"""Rounds of boosting in NumPy: growing a tree also gives the leaf of each of its rows.

With `HostBooster` alone, fits take 2 to 9% longer (benchmarks/NOTES.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from gpuboost.backends.host.boosting import HostBooster
from gpuboost.backends.numpy.batches import in_batches
from gpuboost.backends.numpy.level_ops import NumpyLevelOps
from gpuboost.backends.numpy.rows import Candidates, RowBlock, ranges
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.boosting import Gradients, Scale
from gpuboost.engine.growth.frontier import Frontier
from gpuboost.engine.growth.level_history import tree_nodes
from gpuboost.engine.growth.level_loop import grow_levels
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import NO_LIMIT, GrownTree, GrowTask


class NumpyBooster(HostBooster):
    """Implementation of `gpuboost.backends.protocol.Booster` in NumPy."""

    def grow(self, number: int, made: Gradients, scale: Scale) -> Sequence[GrownTree]:
        """Grow the trees of a round, and store the leaf of each row."""
        if self.task.matrix.is_blocked:
            return super().grow(number, made, scale)
        task = self.grow_task(number, made, scale)
        self._leaves: list[np.ndarray] = []
        trees = []
        for grown, leaves in in_batches(task, lambda trees: _grow(task, trees)):
            trees += grown
            self._leaves += list(leaves)
        return trees

    def leaves(self, tree: Tree, data: BinnedMatrix | np.ndarray, column: int | None) -> np.ndarray:
        """The leaf of every row: int32 (n,).

        Leaves of training rows are known from growth if the round had all rows and the tree is not
        pruned afterwards (by ``max_leaf_nodes`` or ``ccp_alpha``).
        """
        options, all_inside = self.task.options, self._drawn[1] is None
        as_grown = options.max_leaf_nodes == NO_LIMIT and not options.prunes
        as_grown &= not self.task.matrix.is_blocked
        if column is not None and all_inside and as_grown:
            return self._leaves[column]
        return super().leaves(tree, data, column)


def _grow(task: GrowTask, trees: Sequence[int]) -> tuple[list[GrownTree], np.ndarray]:
    """The trees of one batch, and the leaf of each row in each tree."""
    ops = grow_levels(partial(_RoundOps.start, task, trees), task)
    return ops.end_batch(), ops.leaves()


class _RoundOps(NumpyLevelOps):
    """Level operations that record the leaf of each row in each tree."""

    def __init__(
        self, task: GrowTask, trees: Sequence[int], tree_rows: Sequence[TreeRows], roots: Frontier
    ) -> None:
        super().__init__(task, trees, tree_rows, roots)
        self._tree = np.zeros(0, dtype=np.int32)  # tree of each recorded node
        self._node = np.zeros((len(trees), task.matrix.n_samples), dtype=np.int32)

    def leaf_sums(
        self, rows: RowBlock, frontier: Frontier, candidates: Candidates, accepted: np.ndarray
    ) -> np.ndarray:
        """Record the leaf of each row that is in a leaf of this level, and return the leaf sums."""
        leaves = np.flatnonzero(~accepted)
        node = frontier.take(leaves)
        row = rows.row.take(ranges(node.start, node.count))
        number = np.repeat(len(self._tree) + leaves, node.count)
        self._node[np.repeat(node.tree, node.count), row] = number
        self._tree = np.append(self._tree, frontier.tree)
        return super().leaf_sums(rows, frontier, candidates, accepted)

    def leaves(self) -> np.ndarray:
        """The leaf of each row in each tree: int32 (trees, n), 0 for rows outside the tree."""
        _, number_in_tree = tree_nodes(self._tree, len(self._node))[0]
        return number_in_tree.astype(np.int32).take(self._node)
