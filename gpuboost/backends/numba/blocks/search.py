"""Level operations over codes in blocks, with compiled passes and searches of histograms."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import cached_property

import numpy as np

from gpuboost.backends.numba.blocks.passes import CompiledPasses
from gpuboost.backends.numba.common.arguments import (
    Weights,
    limits_of,
    make_scratch,
    matrix_of,
    min_category,
)
from gpuboost.backends.numba.common.constraints import constraints_of
from gpuboost.backends.numba.common.feature_sampling import SMALLEST_RANK
from gpuboost.backends.numba.common.packed_words import choose_gradient_packing
from gpuboost.backends.numba.common.records import (
    COUNT,
    GRADIENT,
    HESSIAN,
    NODE,
    SPLIT,
    Limits,
    Problem,
)
from gpuboost.backends.numba.compiler import entry, helper
from gpuboost.backends.numba.level_wise.feature_sampling import FOUND
from gpuboost.backends.numba.level_wise.search import evaluate_sums
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.splits.plugins import NO_PLUGINS, plugins_of
from gpuboost.backends.numpy.blocks.level_ops import BlockLevelOps
from gpuboost.backends.numpy.rows import Candidates
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.task import LEAF, GrowTask


@helper
def _sum_up_bins(scratch, cells, n_bins, missing_code):
    """Fill `Scratch.sums` with sums up to each value bin, and `Scratch.missing`, of a feature."""
    sums, missing, counted = scratch.sums, scratch.missing, cells.shape[1] > 2
    hessian, gradient, count = np.int64(0), np.int64(0), np.int64(0)
    for j in range(np.uint64(n_bins)):
        hessian += cells[j, 0]
        gradient += cells[j, 1]
        sums[HESSIAN, j], sums[GRADIENT, j] = hessian, gradient
        if counted:
            count += cells[j, 2]
            sums[COUNT, j] = count
    missing[HESSIAN], missing[GRADIENT] = cells[missing_code, 0], cells[missing_code, 1]
    missing[COUNT] = cells[missing_code, 2] if counted else np.int64(0)


@entry
def search_histograms(problem, nodes, slot, allowed, histogram, found, masks):
    """Set the best split of each node of one tree, over the features that it may split on.

    ``histogram`` (F, slots, width, cell) is that of `BlockLevelOps`, and ``slot`` (m,) has those of
    the nodes. ``allowed`` is bool (m, F), ``found`` SPLIT (m,), and ``masks`` uint32 (m, 16).
    """
    matrix, scratch, split = problem.matrix, problem.scratch, problem.scratch.split[0]
    for i in range(nodes.size):
        split.score, split.rank, split.feature, split.found_at = -1.0, SMALLEST_RANK, LEAF, FOUND
        for feature in range(allowed.shape[1]):
            n_bins = matrix.n_bins[feature]
            has_values = (n_bins > 1) | matrix.has_missing[feature]
            if allowed[i, feature] & has_values:
                cells = histogram[feature, slot[i]]
                _sum_up_bins(scratch, cells, n_bins, matrix.missing_code)
                evaluate_sums(problem, None, nodes[i], feature, scratch.bins)
        found[i] = split
        for word in range(masks.shape[1]):
            masks[i, word] = scratch.mask[word]


class CompiledBlockOps(BlockLevelOps):
    """Level operations over codes in blocks; one channel is searched by compiled code."""

    passes_of = CompiledPasses

    @cached_property
    def _weights(self) -> list[Weights]:
        """The `Weights` of each tree."""
        return [Weights.of(rows) for rows in self.tree_rows]

    @cached_property
    def _problems(self) -> dict[tuple[int, int], Reference]:
        """The `Problem` of each thread and tree so far."""
        return {}

    def _search_some(self, frontier: Frontier, candidates: Candidates, splits: Splits) -> None:
        """Set the best splits of some candidates over all features."""
        task, nodes = self.task, candidates.nodes
        if task.target.n_channels > 1 or task.options.random_thresholds:
            super()._search_some(frontier, candidates, splits)
            return
        for tree in np.unique(frontier.tree[nodes]).tolist():
            own = nodes[frontier.tree[nodes] == tree]
            self._search_tree(frontier.take(own), own, candidates.allowed[own], splits)

    def _search_tree(
        self, frontier: Frontier, nodes: np.ndarray, allowed: np.ndarray, splits: Splits
    ) -> None:
        """Set the best splits of some nodes of one tree, with buffers of their own."""
        tree = int(frontier.tree[0])
        key = threading.get_ident(), tree
        if key not in self._problems:
            self._problems[key] = problem_of(self.task, self._weights[tree])
        problem = self._problems[key]
        found, masks = np.zeros(len(nodes), SPLIT), np.zeros((len(nodes), 16), np.uint32)
        given = _records_of(frontier), self._slot[nodes], np.ascontiguousarray(allowed)
        search_histograms(problem, *given, self._built, found, masks)
        for name in ("score", "feature", "bin", "next_bin", "missing", "left_hessian"):
            getattr(splits, name)[nodes] = found[name]
        splits.left_gradient[nodes, 0] = found["left_gradient"]
        splits.categorical[nodes] = found["categorical"] > 0
        splits.mask[nodes] = (masks * found["categorical"][:, None])[:, : splits.mask.shape[1]]


def _records_of(frontier: Frontier) -> np.ndarray:
    """The records of nodes of one channel."""
    nodes = np.zeros(len(frontier), NODE)
    for name in ("count", "hessian", "key"):
        nodes[name] = getattr(frontier, name)
    nodes["gradient"] = frontier.gradient[:, 0]
    nodes["lower"], nodes["upper"] = frontier.bounds.lower, frontier.bounds.upper
    return nodes


def problem_of(task: GrowTask, weights: Weights) -> Reference:
    """The `Problem` of a tree with one channel, with buffers for one thread."""
    matrix, n_features = task.matrix, task.matrix.n_features
    without_codes = replace(matrix, stored=np.zeros((n_features, 0), np.uint8))
    limits: Limits = limits_of(task.options, task.target, weights)
    scratch = make_scratch(0, n_features)
    scratch.of_tree[1] = min_category(task.options, weights.root_hessian)
    draft = Problem(
        by_reference(matrix_of(without_codes)),
        by_reference(limits),
        by_reference(constraints_of(task.options, n_features)),
        by_reference(choose_gradient_packing(1, 1, False)),
        by_reference(scratch),
        NO_PLUGINS,
    )
    has_categories = bool(matrix.mapper.is_categorical.any())
    plugins = plugins_of(by_reference(draft).kind, limits, has_categories, depth_first=False)
    return by_reference(draft._replace(plugins=plugins))
