"""Passes over chunks of codes: adding rows to histograms, and sending rows to children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from gpuboost.backends.compiling import Workers
from gpuboost.backends.numpy.groups import dense_histogram
from gpuboost.backends.numpy.rows import RowBlock, block_of
from gpuboost.engine.code_blocks import CodeBlocks
from gpuboost.engine.targets import Target, TreeRows
from gpuboost.engine.task import GrowTask

CLOSED = -1  # node of a row that is in no open node


@dataclass(frozen=True)
class Pending:
    """The splits of the last level, by which the next pass sends rows to children.

    Attributes
    ----------
    feature : int64 (m,)
        Feature of each node's split, -1 if it has none.
    step : int32 (m, N_CODES)
        Child of each node for each code.
    """

    feature: np.ndarray
    step: np.ndarray

    def columns(self, blocks: CodeBlocks, rows: slice) -> tuple[np.ndarray, Pending]:
        """Codes of a block, at least those of the splits' features, and the splits, by their rows.

        Blocks in memory are not copied.
        """
        if (number := rows.start // blocks.row_slices[0].stop) < len(blocks.kept):
            return blocks.kept[number], self
        used = np.unique(self.feature[self.feature >= 0])
        codes = np.stack([blocks.column(int(f), rows) for f in used])
        column = np.where(self.feature >= 0, np.searchsorted(used, self.feature), -1)
        return codes, replace(self, feature=column)


@dataclass(frozen=True)
class RowGroups:
    """The nodes whose rows are added to histograms, in groups that count from 0 in each tree.

    Attributes
    ----------
    n_groups : int
        Number of groups of the tree that has most.
    group : int64 (m + 1,)
        The group of closed rows and of each node, ``n_groups`` if there is none.
    first : int64 (trees + 1,)
        First group of each tree among those of all.
    nodes, slots : int64 (groups of all trees,)
        The node and the histogram of each group.
    """

    n_groups: int
    group: np.ndarray
    first: np.ndarray
    nodes: np.ndarray
    slots: np.ndarray

    @classmethod
    def of(cls, slot: np.ndarray, tree: np.ndarray, n_trees: int) -> RowGroups:
        """The nodes whose ``slot``, int64 (m,), is not negative; ``tree`` (m,) ascends."""
        nodes = np.flatnonzero(slot >= 0)
        first = np.searchsorted(tree[nodes], np.arange(n_trees + 1))
        n_groups = int(np.diff(first).max())
        group = np.full(len(slot) + 1, n_groups)
        group[1 + nodes] = np.arange(len(nodes)) - first[tree[nodes]]
        return cls(n_groups, group, first, nodes, slot[nodes])


class PassSums(Protocol):
    """The histograms of some blocks in a pass."""

    def set_rows(self, rows: slice, node: np.ndarray, signs: np.ndarray | None) -> bool:
        """Choose the rows of a block that `add` adds to histograms; return whether there are any.

        ``node``, (trees, r), is that of `BlockPasses`, and for medians ``signs``, int8
        (trees, r, K), has their signs.
        """

    def add(self, codes: np.ndarray, first: int, workers: Workers) -> None:
        """Add the rows to histograms of the features from ``first``, with their codes (f, r)."""

    def finish(self, histogram: np.ndarray | None, workers: Workers) -> np.ndarray:
        """Add the histograms to those of other blocks, if given, and return the sum.

        It is int64 (F, slots, width, cell). The first P sums of a bin are the planes of
        `groups.dense_histogram`.
        """


def signed_block(
    target: Target, of_tree: TreeRows, rows: slice, place: np.ndarray, signs: np.ndarray | None
) -> RowBlock:
    """The rows at some places of a block; with ``signs``, these are their gradients."""
    block = block_of(target, of_tree, rows.start + place.astype(np.int64))
    if signs is None:
        return block
    return replace(block, gradient=signs[place] * block.hessian[:, None])


class NumpyPassSums:
    """`PassSums` in NumPy."""

    def __init__(
        self,
        task: GrowTask,
        tree_rows: Sequence[TreeRows],
        groups: RowGroups,
        shape: tuple[int, ...],
    ) -> None:
        self._task, self._tree_rows, self._groups = task, tree_rows, groups
        self._histogram = np.zeros(shape, np.int64)
        # For each tree with rows of the block: their positions, the first bins of their
        # histograms, and their weights with gradients or classes.
        self._rows: list[tuple[np.ndarray, np.ndarray, RowBlock]] = []

    def set_rows(self, rows: slice, node: np.ndarray, signs: np.ndarray | None) -> bool:
        """Choose the rows of a block."""
        groups, width = self._groups, self._histogram.shape[2]
        self._rows = []
        for t, nodes in enumerate(node):
            group = groups.group[1 + nodes]
            place = np.flatnonzero(group < groups.n_groups)
            if len(place):
                of_tree = None if signs is None else signs[t]
                block = signed_block(self._task.target, self._tree_rows[t], rows, place, of_tree)
                base = groups.slots[groups.first[t] + group[place]] * width
                self._rows.append((place, base, block))
        return bool(self._rows)

    def add(self, codes: np.ndarray, first: int, workers: Workers) -> None:
        """Add rows to histograms, tree by tree and feature by feature."""
        _, n_slots, width, _ = self._histogram.shape
        shape = n_slots, width, self._task.target.n_channels
        counted = self._task.options.min_samples_leaf > 1
        for place, base, block in self._rows:
            for feature, column in enumerate(codes, first):
                found = dense_histogram(block, base + column.take(place), shape, counted)
                self._histogram[feature] += np.moveaxis(found, 0, 2)

    def finish(self, histogram: np.ndarray | None, workers: Workers) -> np.ndarray:
        """Add the histograms to those of other blocks, if given, and return the sum."""
        if histogram is None:
            return self._histogram
        histogram += self._histogram
        return histogram
