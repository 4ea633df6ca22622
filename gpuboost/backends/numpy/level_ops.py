"""Split search over a frontier: by whole histograms, or feature by feature in slices of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuboost.backends.numpy.feature_split import FeatureSplitter, NodeFeature
from gpuboost.backends.numpy.groups import dense_groups, dense_histogram, group_rows
from gpuboost.backends.numpy.histogram_search import UNUSED, HistogramSearch
from gpuboost.backends.numpy.histograms import SiblingHistograms
from gpuboost.backends.numpy.rows import Candidates, RowBlock, RowOps, ranges
from gpuboost.engine import randomness
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import GrowTask

# Peak bytes of the temporaries of one pass: per row, per row and channel, per node and feature.
BYTES_PER_ROW, BYTES_PER_CHANNEL, BYTES_PER_RANK = 120, 64, 24
_LOW_HALF = np.uint64(0xFFFFFFFF)


class NumpyLevelOps(RowOps):
    """Implementation of `engine.growth.operations.LevelOps`, vectorised over nodes of a level."""

    def __init__(
        self, task: GrowTask, trees: Sequence[int], tree_rows: Sequence[TreeRows], roots: Frontier
    ) -> None:
        super().__init__(task, trees, tree_rows, roots)
        self._root_keys = roots.key
        self._histograms = SiblingHistograms()
        self._splitter = FeatureSplitter(task, self._min_hessian, self._min_category)
        self._search = HistogramSearch(task, self._min_hessian)
        self._of_tree = np.zeros((len(trees), task.matrix.n_features), dtype=bool)
        for position, tree in enumerate(trees):
            self._of_tree[position, task.tree_features(tree)] = True

    def candidates(self, rows: RowBlock, frontier: Frontier, depth: int) -> Candidates:
        """Nodes to be searched, and the features that each node may split on."""
        nodes = self.open_nodes(rows, frontier, depth)
        allowed = self._features_of_nodes(frontier, depth)
        widest = int(allowed[nodes].sum(axis=1).max(initial=0))
        return Candidates(nodes, allowed, min(self.task.options.max_features, widest))

    def _features_of_nodes(self, frontier: Frontier, depth: int) -> np.ndarray:
        """Features that each node may split on: bool (m, F)."""
        options, features = self.task.options, np.arange(self._of_tree.shape[1], dtype=np.uint64)
        of_tree = self._of_tree
        if options.level_features < len(features):
            key = randomness.level_key(self._root_keys, np.array([depth], np.uint64))
            rank = randomness.feature_rank(key[:, None], features)
            rank = np.where(of_tree, rank, UNUSED)
            last = np.sort(rank, axis=1)[:, options.level_features - 1]
            of_tree = of_tree & (rank <= last[:, None])
        return self._constraints.allow(frontier, of_tree[frontier.tree])

    def find_splits(self, rows: RowBlock, frontier: Frontier, candidates: Candidates) -> Splits:
        """Best split of every candidate, by whole histograms or feature by feature."""
        splits = Splits.none(len(frontier), frontier.gradient.shape[1], self._splitter.mask_words)
        if self._considers_all_features(frontier, candidates):
            if self.task.target.by_median:  # the gradients of a row change from node to node
                self._histograms.forget()
            histogram = self._histograms.of_level(
                frontier, candidates.nodes, lambda nodes: self._build(rows, frontier, nodes)
            )
            return self._search_histograms(histogram, frontier, candidates, splits)
        self._histograms.forget()
        for nodes in self._slices(frontier.count, candidates.nodes):
            self._search_in_order(rows, frontier, replace(candidates, nodes=nodes), splits)
        return splits

    def _slices(self, count: np.ndarray, nodes: np.ndarray) -> list[np.ndarray]:
        """Slices of nodes for passes that fit a thread's memory budget.

        A slice can exceed the budget by at most the size of its first node.
        """
        of_row = BYTES_PER_ROW + BYTES_PER_CHANNEL * self.task.target.n_channels
        of_node = BYTES_PER_RANK * self.task.matrix.n_features
        ends = np.cumsum(count[nodes] * of_row + of_node)
        budget = max(1, self.task.memory_budget // self.task.n_threads)
        cuts = np.flatnonzero(np.diff(ends // budget)) + 1
        return [part for part in np.split(nodes, cuts) if len(part)]

    def _search_in_order(
        self, rows: RowBlock, frontier: Frontier, candidates: Candidates, splits: Splits
    ) -> None:
        """Evaluate each candidate's features in the order of their ranks.

        Each node evaluates its first ``max_features`` features; if none of them can split, also
        the following ones up to the first that can.
        """
        nodes = candidates.nodes
        ranks = np.sort(self._ranks(frontier.key[nodes], candidates.allowed[nodes]), axis=1)
        waiting = np.ones(len(nodes), dtype=bool)
        for slot in range(ranks.shape[1]):
            at = np.arange(len(nodes)) if slot < candidates.n_slots else np.flatnonzero(waiting)
            at = at[ranks[at, slot] != UNUSED]
            if not len(at):
                break
            found, can_split = self._one_feature(rows, frontier, nodes[at], ranks[at, slot])
            splits.set_better(nodes[at], found)
            waiting[at[can_split]] = False

    def _ranks(self, key: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """Ranks that order the features of each node, uint64 (m, F).

        The low 32 bits are the feature; features that are not allowed have the rank `UNUSED`.
        """
        ranks = features = np.arange(allowed.shape[1], dtype=np.uint64)
        if self.task.options.hashed_order:
            ranks = randomness.feature_rank(key[:, None], features)
        return np.where(allowed, ranks, UNUSED)

    def _one_feature(
        self, rows: RowBlock, frontier: Frontier, nodes: np.ndarray, rank: np.ndarray
    ) -> tuple[Splits, np.ndarray]:
        """The split of each node by the feature in its ``rank``, and whether the node can split."""
        matrix = self.task.matrix
        node = frontier.take(nodes)
        feature = (rank & _LOW_HALF).astype(np.int64)
        own = rows
        if int(node.count.sum()) < len(rows.row):
            own = rows.take(ranges(node.start, node.count))
        place = np.repeat(feature * matrix.n_samples, node.count) + own.row
        code = matrix.codes.ravel().take(place)
        local = np.repeat(np.arange(len(nodes)), node.count)
        shape = (len(nodes), matrix.width, node.gradient.shape[1])
        groups = group_rows(own, local, code, shape, self._counted)
        return self._splitter.split(NodeFeature(node, feature, rank), groups)

    @property
    def _counted(self) -> bool:
        return self.task.options.min_samples_leaf > 1

    def _considers_all_features(self, frontier: Frontier, candidates: Candidates) -> bool:
        """Whether whole histograms fit and are faster: large nodes that consider all features."""
        open_nodes = candidates.nodes
        planes = 1 + frontier.gradient.shape[1] + self._counted
        cells = len(open_nodes) * self.task.matrix.width
        size = cells * self.task.matrix.n_features * planes * 8
        n_rows = int(frontier.count[open_nodes].sum())
        return (
            bool(len(open_nodes))
            and candidates.n_slots == self.task.matrix.n_features
            and 2 * size <= self.task.memory_budget  # histograms of this level and of the parents
            and cells * planes <= 4 * n_rows
        )

    def _search_histograms(
        self, histogram: np.ndarray, frontier: Frontier, candidates: Candidates, splits: Splits
    ) -> Splits:
        """Set the best splits of the candidates over all features, from their histograms."""
        open_nodes = candidates.nodes
        node, allowed = frontier.take(open_nodes), candidates.allowed[open_nodes]
        ranks, one_by_one = self._ranks(node.key, allowed), np.arange(self.task.matrix.n_features)
        if not self.task.options.random_thresholds:
            splits.set_better(open_nodes, self._search.best(histogram, node, ranks))
            one_by_one = np.flatnonzero(self.task.matrix.mapper.is_categorical)
        for f in one_by_one:
            at = np.flatnonzero(allowed[:, f])
            groups = dense_groups(histogram[at, :, f].swapaxes(0, 1), self._counted)
            pairs = NodeFeature(node.take(at), np.full(len(at), f), ranks[at, f])
            splits.set_better(open_nodes[at], self._splitter.split(pairs, groups)[0])
        return splits

    def _build(self, rows: RowBlock, frontier: Frontier, nodes: np.ndarray) -> np.ndarray:
        """Histograms of ``nodes`` from their rows: int64 (len(nodes), P, F, width)."""
        n_features, width = self.task.matrix.n_features, self.task.matrix.width
        n_channels = frontier.gradient.shape[1]
        planes = 1 + n_channels + self._counted
        built = np.empty((len(nodes), planes, n_features, width), dtype=np.int64)
        first = 0
        for part in self._slices(frontier.count, nodes):
            node = frontier.take(part)
            own = rows.take(ranges(node.start, node.count))
            base = np.repeat(np.arange(len(part)) * width, node.count)
            of_part = built[first : first + len(part)].swapaxes(0, 1)
            for f in range(n_features):
                key = base + self.task.matrix.codes[f].take(own.row)
                shape = (len(part), width, n_channels)
                of_part[:, :, f] = dense_histogram(own, key, shape, self._counted)
            first += len(part)
        return built

    def _record(
        self, frontier: Frontier, splits: Splits, accepted: np.ndarray, sums: np.ndarray
    ) -> None:
        """Record the nodes of a level, and link each child to its parent's histogram."""
        super()._record(frontier, splits, accepted, sums)
        self._histograms.descend(accepted)
