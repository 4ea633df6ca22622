"""Depth-first growth of trees on several threads, with one compiled call per tree."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

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
from gpuboost.backends.numba.common.numbering import grown_tree, make_columns
from gpuboost.backends.numba.common.packed_words import (
    Packing,
    choose_gradient_packing,
    choose_packing,
)
from gpuboost.backends.numba.common.records import Limits, Problem, RowTargets
from gpuboost.backends.numba.common.row_major import pays_for_small_nodes, row_major
from gpuboost.backends.numba.depth_first.class_sums import class_entries, sparse_sums, sum_classes
from gpuboost.backends.numba.depth_first.grow import (
    CREATED,
    FIRST_NODES,
    collect,
    enlarge,
    grow,
    make_tree,
)
from gpuboost.backends.numba.depth_first.medians import by_rank, median_plugin, sum_medians
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.splits.channels import CHANNEL_PACKING, Channels
from gpuboost.backends.numba.splits.plugins import NO_PLUGINS, plugins_of
from gpuboost.backends.numba.threads.map import contiguous, map_in_order
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.sampling import root_key
from gpuboost.engine.targets import ClassTarget, MedianTarget, Target, TreeRows, ValueTarget
from gpuboost.engine.task import GrownTree, GrowTask, TreeOptions

# Largest number of entries of a node that are sorted by feature, 2.3 MB for a thread. In larger
# nodes, all entries of the matrix are read.
MAX_ENTRIES = 1 << 18


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
        state=np.zeros(4, np.int64),
        by_class=np.zeros(k, np.int64),
        of_missing=np.zeros(k, np.int64),
        sums=np.zeros(k, np.int64),
        present=np.zeros(k, np.int64),
        position=np.zeros(k, np.int64),
        word=np.zeros(n_samples, np.int64),
        following=np.zeros(n_samples, np.int64),
        packing=CHANNEL_PACKING,
    )


def searches_entries(options: TreeOptions, n_features: int, n_channels: int) -> bool:
    """Whether nodes of a sparse matrix are searched by `sparse_search`.

    It requires one channel, and that a node considers all features of the tree, by number, and all
    thresholds.
    """
    considers_all = min(options.max_features, options.level_features) >= n_features
    by_number = not options.hashed_order and options.interactions is None
    has_plain_nodes = n_channels == 1 and not options.random_thresholds
    return has_plain_nodes and considers_all and by_number


class Sizes(NamedTuple):
    """The facts about a `Matrix` that sizes of buffers depend on.

    ``n_entries`` is the largest number of entries of a node that are sorted by feature, 0 if nodes
    are not searched by `sparse_search`.
    """

    n_samples: int
    n_features: int
    any_categorical: bool
    is_sparse: bool
    n_entries: int


class Space:
    """The buffers of one thread, in the form that compiled code takes.

    Attributes
    ----------
    rows, scratch : Reference
        `Rows` and `Scratch`.
    features : int32 (F,)
        `Scratch.features`.
    of_tree : int64 (2,)
        `Scratch.of_tree`.
    channels : Channels or None
        Buffers for nodes with several channels; None for one channel.
    tree : GrowingTree
        Buffers for nodes; they become larger with the trees.
    """

    def __init__(self, sizes: Sizes, target: Target, options: TreeOptions) -> None:
        self.channels = make_channels(sizes.n_samples, target)
        scratch = make_scratch(
            sizes.n_samples,
            sizes.n_features,
            n_channels=target.n_channels,
            selects=target.by_median and self.channels is not None,
            is_sparse=sizes.is_sparse,
            n_entries=sizes.n_entries,
        )
        self.features, self.of_tree = scratch.features, scratch.of_tree
        self.rows, self.scratch = by_reference(make_rows(sizes.n_samples)), by_reference(scratch)
        groups = (len(options.interactions or ()) + 63) // 64
        n_ranks = 2 * target.n_channels if target.by_median else 0
        self.tree = make_tree(FIRST_NODES, groups, n_ranks, sizes.any_categorical)


class DepthFirstGrower:
    """Grows the trees of a task on several threads; each thread reuses its buffers.

    Parameters
    ----------
    task : GrowTask
        The trees to grow, with their data and options.
    earlier : DepthFirstGrower, optional
        Grower of another task with the same matrix, constraints, criterion and channels. If trees
        grow on the calling thread alone, its buffers are reused. With several threads they are not,
        because `map_in_order` starts new threads for each task.

    Attributes
    ----------
    by_row : uint8 (n, width) or None
        Row-major codes for small nodes; None if they do not pay, or do not fit in memory.
    """

    def __init__(self, task: GrowTask, earlier: DepthFirstGrower | None = None) -> None:
        self.task = task = by_rank(task)
        if earlier is None:
            n_features = task.matrix.n_features
            by_entries = searches_entries(task.options, n_features, task.target.n_channels)
            matrix = matrix_of(
                task.matrix,
                as_stored=True,
                entries_by_row=by_entries,
                with_centers=bool(task.options.random_thresholds),
            )
            self.by_row = None
            if pays_for_small_nodes(matrix.codes.shape, int(task.options.deepest)):
                with suppress(MemoryError):
                    self.by_row = row_major(matrix.codes, ThreadPool(task.n_threads))
                    own = {"by_row": self.by_row.reshape(-1), "row_width": self.by_row.shape[1]}
                    matrix = matrix._replace(**own)
            n_entries = len(matrix.codes_by_row)
            self._sizes = Sizes(
                n_samples=task.matrix.n_samples,
                n_features=n_features,
                any_categorical=matrix.any_categorical,
                is_sparse=len(matrix.first_entry) > 0,
                n_entries=min(n_entries // 2, MAX_ENTRIES) + 1 if n_entries else 0,
            )
            self.matrix = by_reference(matrix)
            constraints = constraints_of(task.options, n_features)
            self.constraints, self._plugins = by_reference(constraints), NO_PLUGINS
            self._local = threading.local()
        else:
            self.matrix, self.by_row = earlier.matrix, earlier.by_row
            self.constraints = earlier.constraints
            self._plugins, self._local = earlier._plugins, earlier._local
            self._sizes = earlier._sizes
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
        tree_rows, space = task.rows_of(tree), self._space()
        weights, own = Weights.of(tree_rows), targets_of(task, tree_rows)
        limits = limits_of(task.options, task.target, weights)
        features = np.unique(task.tree_features(tree))
        space.features[: len(features)] = features
        space.of_tree[:] = len(features), min_category(task.options, weights.root_hessian)
        channels = space.channels
        if channels is not None and limits.has_gradients:
            channels = channels._replace(values=own.gradient)
        of_channels = None if channels is None else by_reference(channels)
        others = by_reference(own), space.rows
        packing = self._packing(tree_rows, limits.min_samples_leaf > 1)
        problem = self._problem(limits, packing, space, of_channels, others)
        given = problem, of_channels, *others
        space.tree.numbers[:] = 0
        while not grow(*given, by_reference(space.tree), np.uint64(root_key(task.seed, tree))):
            space.tree = enlarge(space.tree)
        return self._collect(given, space, own)

    def _problem(
        self,
        limits: Limits,
        packing: Packing,
        space: Space,
        channels: Reference | None,
        others: tuple[Reference, Reference],
    ) -> Reference:
        """The `Problem` of a tree; the plugins are those of the first tree."""
        of_tree = by_reference(limits), self.constraints, by_reference(packing), space.scratch
        plugins = self._plugins  # read once, since other threads set it
        problem = by_reference(Problem(self.matrix, *of_tree, plugins))
        if plugins is not NO_PLUGINS:
            return problem
        any_categorical = bool(self.task.matrix.mapper.is_categorical.any())
        own = {}
        if limits.by_median:
            own["set_median_gradients"] = median_plugin(problem, channels, *others)
        n_classes = int(self.task.target.n_classes)
        self._plugins = plugins_of(
            problem.kind,
            limits,
            any_categorical,
            depth_first=True,
            by_entries=self._sizes.n_entries > 0,
            channels=channels,
            n_classes=n_classes,
            **own,
        )
        return by_reference(Problem(self.matrix, *of_tree, self._plugins))

    def _collect(self, given: tuple, space: Space, targets: RowTargets) -> GrownTree:
        """The grown tree in ``space``; ``given`` are the first arguments of `grow`."""
        tree, nodes = by_reference(space.tree), space.tree.nodes[: space.tree.numbers[CREATED]]
        n_sums = self._n_sums(targets)
        entries = class_entries(nodes, self.task.target, n_sums)
        n_columns = n_sums if entries is None else 0
        columns = make_columns(len(nodes), n_columns, len(space.tree.masks) > 0)
        filled = by_reference(columns)
        n_masks = collect(*given, tree, filled)
        if self.task.target.by_median:
            sum_medians(*given, tree, filled)
        grown = grown_tree(columns, len(nodes), n_masks)
        if entries is None:
            return grown
        first = sum_classes(*given[2:], tree, filled, by_reference(entries))
        return replace(grown, sums=sparse_sums(entries, first))

    def _n_sums(self, targets: RowTargets) -> int:
        """The number of sums of a node."""
        target, n_classes = self.task.target, targets.n_classes if targets.classes.size else 1
        if target.by_median:
            return 6 * target.n_channels + 2
        return max(targets.wide.shape[1], int(target.by_class)) * n_classes

    def _packing(self, rows: TreeRows, with_counts: bool) -> Packing:
        """The packing for the largest weight of a tree, and its largest gradient or target.

        The largest target is that of all rows of the task.
        """
        heaviest = int(rows.weight.max())
        if rows.gradient is None:
            return choose_packing(self._largest_value, heaviest, with_counts)
        largest = max(int(rows.gradient.max()), -int(rows.gradient.min()))
        return choose_gradient_packing(largest, heaviest, with_counts)

    def _space(self) -> Space:
        """The buffers of the calling thread."""
        if not hasattr(self._local, "space"):
            self._local.space = Space(self._sizes, self.task.target, self.task.options)
        return self._local.space
