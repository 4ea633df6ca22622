"""Depth-first growth of trees on several threads, with one compiled call per tree."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from gpuboost.backends.numba.common.arguments import (
    Weights,
    limits_of,
    make_rows,
    make_scratch,
    matrix_of,
    min_category,
)
from gpuboost.backends.numba.common.constraints import constraints_of
from gpuboost.backends.numba.common.packed_words import (
    Packing,
    choose_gradient_packing,
    choose_packing,
)
from gpuboost.backends.numba.common.records import Problem, Rows, RowTargets, Scratch
from gpuboost.backends.numba.depth_first.grow import grow
from gpuboost.backends.numba.depth_first.medians import by_rank
from gpuboost.backends.numba.splits.channels import Channels
from gpuboost.backends.numba.threads.map import contiguous, map_in_order
from gpuboost.engine.sampling import root_key
from gpuboost.engine.targets import ClassTarget, MedianTarget, Target, ValueTarget
from gpuboost.engine.task import GrownTree, GrowTask
from gpuboost.engine.tree_rows import TreeRows


def targets_of(task: GrowTask, rows: TreeRows) -> RowTargets:
    """The `RowTargets` of one tree."""
    target = task.target
    empty, none = np.zeros((0, 0)), np.zeros(0)
    wide = target.wide if rows.wide is None else rows.wide
    classes, values, ranks, median_weight = none, empty, empty, none
    match target:
        case ClassTarget():
            classes = target.classes
        case ValueTarget():
            values = target.values
        case MedianTarget():
            ranks = target.ranks
            if target.median_weight is not None:
                median_weight = target.median_weight
            elif target.n_channels > 1:  # with one output, the words hold the weights
                median_weight = rows.weight
    return RowTargets(
        weight=contiguous(rows.weight, np.int32),
        inside=contiguous(none if rows.inside is None else rows.inside, np.bool_),
        classes=contiguous(classes, np.int32),
        values=contiguous(values, np.int32),
        gradient=contiguous(empty if rows.gradient is None else rows.gradient, np.int32),
        ranks=contiguous(ranks, np.int32),
        median_weight=contiguous(median_weight, np.int64),
        wide=contiguous(empty if wide is None else wide, np.int64),
        n_classes=int(target.n_classes),
        draws=bool(rows.draws),
    )


def make_channels(n_samples: int, target: Target) -> Channels | None:
    """Buffers for nodes with several channels; None for one channel."""
    k = target.n_channels
    if k == 1:
        return None
    n_signs = n_samples if target.by_median else 0  # signs about the medians of nodes
    signs = np.zeros((n_signs, k), np.int32)
    values = target.values if isinstance(target, ValueTarget) else signs
    return Channels(
        values=contiguous(values, np.int32),
        state=np.zeros(3, np.int64),
        by_class=np.zeros(k, np.int64),
        sums=np.zeros(k, np.int64),
        present=np.zeros(k, np.int64),
        position=np.zeros(k, np.int64),
        word=np.zeros(n_samples, np.int64),
    )


class DepthFirstGrower:
    """Grows the trees of a task on several threads; each thread reuses its buffers.

    Parameters
    ----------
    task : GrowTask
        The trees to grow, with their data and options.
    earlier : DepthFirstGrower, optional
        Grower of another task with the same matrix, constraints and channels. If trees grow on the
        calling thread alone, its buffers are reused. With several threads they are not, because
        `map_in_order` starts new threads for each task.
    """

    def __init__(self, task: GrowTask, earlier: DepthFirstGrower | None = None) -> None:
        self.task = task = by_rank(task)
        if earlier is None:
            self.matrix = matrix_of(task.matrix)
            self.constraints = constraints_of(task.options, task.matrix.n_features)
            self._local = threading.local()
        else:
            self.matrix, self.constraints = earlier.matrix, earlier.constraints
            self._local = earlier._local
        self._largest_value = 1
        if isinstance(task.target, ValueTarget):
            self._largest_value = int(np.abs(task.target.values).max(initial=1))

    def grow_all(self) -> Iterator[tuple[int, GrownTree]]:
        """Yield (number, tree) in order.

        With several threads, a few trees per thread are grown ahead of the consumer.
        """
        trees = list(self.task.trees)
        yield from zip(trees, map_in_order(self.grow_tree, trees, self.task.n_threads), strict=True)

    def grow_tree(self, tree: int) -> GrownTree:
        """Grow one tree."""
        task = self.task
        tree_rows = task.rows_of(tree)
        targets = targets_of(task, tree_rows)
        weights = Weights.of(tree_rows)
        limits = limits_of(task.options, task.target, weights)
        packing = self._packing(tree_rows, limits.min_samples_leaf > 1)
        rows, scratch, channels = self._space()
        if channels is not None and limits.has_gradients:
            channels = channels._replace(values=targets.gradient)
        features = contiguous(np.unique(task.tree_features(tree)), np.int32)
        rare = min_category(task.options, weights.root_hessian)
        problem = Problem(self.matrix, features, limits, self.constraints, packing, scratch, rare)
        key = np.uint64(root_key(task.seed, tree))
        columns, sums = grow(problem, channels, targets, rows, key)
        return GrownTree(*(*columns, sums))

    def _packing(self, rows: TreeRows, with_counts: bool) -> Packing:
        """The packing for the largest weight of a tree, and its largest gradient or target.

        The largest target is that of all rows of the task.
        """
        heaviest = int(rows.weight.max())
        if rows.gradient is None:
            return choose_packing(self._largest_value, heaviest, with_counts)
        largest = max(int(rows.gradient.max()), -int(rows.gradient.min()))
        return choose_gradient_packing(largest, heaviest, with_counts)

    def _space(self) -> tuple[Rows, Scratch, Channels | None]:
        """The buffers of the calling thread."""
        if not hasattr(self._local, "space"):
            n, n_features = self.task.matrix.n_samples, self.task.matrix.n_features
            channels = make_channels(n, self.task.target)
            target = self.task.target
            selects = target.by_median and channels is not None
            scratch = make_scratch(n, n_features, target.n_channels, selects)
            self._local.space = make_rows(n), scratch, channels
        return self._local.space
