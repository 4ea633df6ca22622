"""Level operations that record the leaf of each row, so that it need not be found again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuboost.backends.numpy.level_ops import NumpyLevelOps
from gpuboost.backends.numpy.rows import Candidates, RowBlock, ranges
from gpuboost.engine.growth.frontier import Frontier
from gpuboost.engine.growth.level_history import tree_nodes
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import GrowTask


class LeafRowOps(NumpyLevelOps):
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
        if len(self._node) == 1:  # whose nodes are numbered in the order of records
            return self._node
        _, number_in_tree = tree_nodes(self._tree, len(self._node))[0]
        return number_in_tree.astype(np.int32).take(self._node)
