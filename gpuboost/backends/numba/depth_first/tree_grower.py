"""Grows trees depth first on a pool of threads, one compiled call per tree."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuboost.backends.numba.common.constraints import constraints_of
from gpuboost.backends.numba.common.feature_sampling import LEVELS
from gpuboost.backends.numba.common.packed_words import (
    Packing,
    choose_gradient_packing,
    choose_packing,
)
from gpuboost.backends.numba.common.records import (
    SLOTS,
    SPLIT,
    Limits,
    Matrix,
    Problem,
    Rows,
    RowTargets,
    Scratch,
)
from gpuboost.backends.numba.depth_first.grow import grow
from gpuboost.backends.numba.depth_first.medians import by_rank
from gpuboost.backends.numba.splits.channels import Channels
from gpuboost.backends.numba.threads.map import contiguous, in_order
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.sampling import root_key
from gpuboost.engine.targets import Target
from gpuboost.engine.task import GrownTree, GrowTask, TreeOptions
from gpuboost.engine.tree_rows import TreeRows


def matrix_of(binned: BinnedMatrix) -> Matrix:
    """A binned matrix for compiled code."""
    mapper = binned.mapper
    return Matrix(
        codes=contiguous(binned.codes, np.uint8),
        n_bins=contiguous(mapper.n_bins, np.int64),
        center=contiguous(mapper.center, np.float64),
        has_missing=contiguous(binned.n_missing > 0, np.bool_),
        is_categorical=contiguous(mapper.is_categorical, np.bool_),
        missing_code=int(mapper.missing_code),
        any_categorical=bool(mapper.is_categorical.any()),
    )


@dataclass(frozen=True)
class Weights:
    """The properties of the row weights of a tree that its limits depend on.

    Attributes
    ----------
    root_hessian : int
        Sum of the weights.
    are_ones : bool
        Whether all weights are 1, so that the hessian of a node counts its rows.
    some_are_zero : bool
        Whether rows of the tree have weight 0.
    """

    root_hessian: int
    are_ones: bool
    some_are_zero: bool

    @classmethod
    def of(cls, rows: TreeRows) -> Weights:
        """The properties of the weights of ``rows``."""
        some_are_zero = rows.inside is not None
        are_ones = not some_are_zero and bool(rows.weight.max() <= 1)
        return cls(int(rows.weight.sum(dtype=np.int64)), are_ones, some_are_zero)


def limits_of(options: TreeOptions, target: Target, weights: Weights) -> Limits:
    """The limits of one tree."""
    fraction = np.float64(options.min_weight_fraction_leaf)
    share = int(np.ceil(fraction * np.float64(weights.root_hessian)))
    min_hessian = max(int(options.min_hessian), share, 1)
    min_samples_leaf = int(options.min_samples_leaf)
    if weights.are_ones:
        min_hessian, min_samples_leaf = max(min_hessian, min_samples_leaf), 1
    return Limits(
        criterion=int(options.criterion),
        is_regression=not target.by_class,
        has_gradients=target.has_gradients,
        by_median=target.by_median,
        has_weightless=weights.some_are_zero,
        stops_at_pure=target.by_class and options.criterion == VARIANCE,
        random_thresholds=bool(options.random_thresholds),
        max_depth=int(options.max_depth),
        min_samples_split=int(options.min_samples_split),
        min_samples_leaf=min_samples_leaf,
        min_hessian=min_hessian,
        max_features=int(options.max_features),
        level_features=int(options.level_features),
        has_interactions=options.interactions is not None,
        hashed_order=bool(options.hashed_order),
        needs_gain=bool(options.needs_gain),
        max_leaf_nodes=int(options.max_leaf_nodes),
        min_impurity_decrease=float(options.min_impurity_decrease),
        gain_unit=target.gain_unit(options.criterion),
        root_hessian=float(weights.root_hessian),
        l1=float(options.regularisation.l1),
        l2=float(options.regularisation.l2),
        max_value=float(options.regularisation.max_value),
    )


def min_category(options: TreeOptions, root_hessian: int) -> int:
    """Smallest hessian of a category that is not rare, in one tree."""
    return int(np.ceil(np.float64(options.min_category_fraction) * np.float64(root_hessian)))


def targets_of(task: GrowTask, rows: TreeRows) -> RowTargets:
    """Targets and weights of one tree for compiled code."""
    target = task.target
    empty, none = np.zeros((0, 0)), np.zeros(0)
    wide = target.wide if rows.wide is None else rows.wide
    median_weight = getattr(target, "median_weight", none)
    if median_weight is None:  # with one output, the words hold the weights
        median_weight = rows.weight if target.n_channels > 1 else none
    return RowTargets(
        weight=contiguous(rows.weight, np.int32),
        inside=contiguous(none if rows.inside is None else rows.inside, np.bool_),
        classes=contiguous(getattr(target, "classes", none), np.int32),
        values=contiguous(getattr(target, "values", empty), np.int32),
        gradient=contiguous(empty if rows.gradient is None else rows.gradient, np.int32),
        ranks=contiguous(getattr(target, "ranks", empty), np.int32),
        median_weight=contiguous(median_weight, np.int64),
        wide=contiguous(empty if wide is None else wide, np.int64),
        n_classes=int(target.n_classes),
        draws=bool(rows.draws),
    )


def make_scratch(
    n_samples: int, n_features: int, n_channels: int = 1, selects: bool = False
) -> Scratch:
    """Zeroed buffers of one thread."""
    scores, fields = np.zeros(SLOTS), n_channels + 2
    return Scratch(
        totals=np.zeros(256, np.int64),
        occupied=np.zeros(4, np.uint64),
        bins=np.zeros(SLOTS, np.int64),
        prefix=np.zeros(SLOTS, np.int64),
        terms=np.zeros((3, SLOTS)),
        scores=scores,
        patterns=scores.view(np.int64),
        wide=np.zeros((fields, 256), np.int64),
        sums=np.zeros((fields, SLOTS), np.int64),
        bundle=np.zeros((3, 256), np.int64),
        missing=np.zeros(fields, np.int64),
        per_bin=np.zeros((fields, 256), np.int64),
        keys=np.zeros(256),
        order=np.zeros(256, np.int64),
        rare=np.zeros(256, np.int64),
        codes=np.zeros(n_samples, np.uint8),
        ranks=np.zeros(n_features, np.int64),
        likely=np.zeros(n_features, np.int64),
        chosen=np.zeros(n_features, np.int32),
        level_depth=np.zeros(LEVELS, np.int64),
        level_last=np.zeros(LEVELS, np.int64),
        mask=np.zeros(16, np.uint32),
        split=np.zeros(1, SPLIT),
        own=np.zeros(n_samples if selects else 0),
        own_weights=np.zeros(n_samples if selects else 0, np.int64),
    )


def make_rows(n_samples: int) -> Rows:
    """Buffers for the rows of one thread's tree."""
    return Rows(
        row=np.empty(n_samples, np.uint32),
        word=np.empty(n_samples, np.int64),
        spare_row=np.empty(n_samples, np.uint32),
        spare_word=np.empty(n_samples, np.int64),
    )


def make_channels(n_samples: int, target: Target) -> Channels | None:
    """Zeroed buffers for nodes of several channels; None for one channel."""
    k = target.n_channels
    if k == 1:
        return None
    n_signs = n_samples if target.by_median else 0  # signs about the medians of nodes
    values = getattr(target, "values", np.zeros((n_signs, k), np.int32))
    return Channels(
        values=contiguous(values, np.int32),
        state=np.zeros(3, np.int64),
        by_class=np.zeros(k, np.int64),
        sums=np.zeros(k, np.int64),
        present=np.zeros(k, np.int64),
        position=np.zeros(k, np.int64),
        word=np.zeros(n_samples, np.int64),
    )


class TreeGrower:
    """Grows the trees of a task on several threads; each thread reuses its buffers.

    Parameters
    ----------
    task : GrowTask
    earlier : TreeGrower, optional
        Grower of another task with the same matrix and options, whose buffers are reused.
    """

    def __init__(self, task: GrowTask, earlier: TreeGrower | None = None) -> None:
        self.task = task = by_rank(task)
        if earlier is None:
            self.matrix = matrix_of(task.matrix)
            self.constraints = constraints_of(task.options, task.matrix.n_features)
            self._local = threading.local()
        else:
            self.matrix, self.constraints = earlier.matrix, earlier.constraints
            self._local = earlier._local
        values = getattr(task.target, "values", np.ones(1))
        self._largest_value = int(np.abs(values).max(initial=1))

    def grow_all(self) -> Iterator[tuple[int, GrownTree]]:
        """Yield all trees in order; a few trees per thread are grown ahead of the consumer."""
        trees = list(self.task.trees)
        yield from zip(trees, in_order(self.grow_tree, trees, self.task.n_threads), strict=True)

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
        """The packing whose fields are wide enough for the rows of a tree."""
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
