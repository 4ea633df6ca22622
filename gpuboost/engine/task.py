"""The tasks and results of backends, as frozen dataclasses.

`gpuboost.backends.protocol` specifies `grow`, which takes a task and returns grown trees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.criteria import CRITERIA, NEWTON, VARIANCE
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.targets import Target, TreeRows

NO_LIMIT = 2**31 - 1
LEAF = -1
MISSING_RIGHT, MISSING_LEFT, MISSING_UNSEEN = 0, 1, 2
ONE_HOT_CATEGORIES = 4  # up to this many categories, a split separates one category from the rest
ONLY_MISSING_RIGHT = -1  # `next_bin` of a split that sends every value left


@dataclass(frozen=True)
class Regularisation:
    """Penalties and constraints of leaf values: with NEWTON all, with other criteria ``monotonic``.

    They are in integer units, but in `BoostTask.options` in the units of the loss.
    A value is a gradient divided by a hessian; integer units are the units of the integers that a
    tree is grown on (`targets.GradientTarget`).

    Attributes
    ----------
    l1, l2 : float
        Penalties on the absolute value and on the square of a leaf value.
    max_value : float
        Maximum absolute value.
    monotonic : tuple of int, or None
        For each feature 1 (values increase with the feature), -1 (values decrease) or 0 (no
        constraint). Only with one channel.
    """

    l1: float = 0.0
    l2: float = 0.0
    max_value: float = float("inf")
    monotonic: tuple[int, ...] | None = None


class DepthLimits:
    """Limits of a tree's depth, which are fields of the subclasses."""

    max_depth: int
    max_leaf_nodes: int

    @property
    def deepest(self) -> int:
        """Maximum depth of a node. In best-first growth, each ancestor uses up one split."""
        if self.max_leaf_nodes == NO_LIMIT:
            return self.max_depth
        return min(self.max_depth, self.max_leaf_nodes - 1)


@dataclass(frozen=True)
class TreeOptions(DepthLimits):
    """Options of one tree; options not listed here are scikit-learn's parameters of that name.

    Numbers of rows and features are absolute, and `NO_LIMIT` stands for None.

    Attributes
    ----------
    criterion : int
        Key of `criteria.CRITERIA`.
    random_thresholds : bool
        Whether each candidate feature gets one random threshold, as in extra trees.
    min_hessian : int
        Minimum sum of the integer weights in a child.
    level_features : int
        Number of features drawn for each level from the features of the tree.
    interactions : tuple of tuple of int, or None
        Groups of features; all features that a path splits on must be in one group.
    hashed_order : bool
        Whether each node considers features in its own hashed order instead of by number.
    needs_gain : bool
        Whether the gain of a split must be positive.
    min_decrease : float
        ``min_impurity_decrease`` for targets of medians, whose gains are not impurity decreases.
        It is applied to the finished tree; `Backend.grow` and `grow_finished` ignore it.
    min_category_fraction : float
        In features whose categories are sorted, a category counts as missing in a node if its
        hessian there is less than this fraction of the root's hessian. Only boosting sets it.
    regularisation : Regularisation
        Penalties and constraints. Growth reads them with NEWTON only; finished trees of any
        criterion are clipped to the order of monotonic features.
    ccp_alpha : float
        Cost of a leaf when the finished tree is pruned (`growth.pruning`); `Backend.grow` and
        `grow_finished` ignore it.
    """

    criterion: int
    random_thresholds: bool = False
    max_depth: int = NO_LIMIT
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_weight_fraction_leaf: float = 0.0
    min_impurity_decrease: float = 0.0
    max_features: int = NO_LIMIT
    max_leaf_nodes: int = NO_LIMIT
    min_hessian: int = 1
    level_features: int = NO_LIMIT
    interactions: tuple[tuple[int, ...], ...] | None = None
    hashed_order: bool = True
    needs_gain: bool = False
    min_decrease: float = 0.0
    min_category_fraction: float = 0.0
    regularisation: Regularisation = Regularisation()
    ccp_alpha: float = 0.0

    @property
    def directions(self) -> tuple[int, ...] | None:
        """`Regularisation.monotonic` with NEWTON, whose nodes have bounds, else None."""
        return self.regularisation.monotonic if self.criterion == NEWTON else None

    @property
    def prunes(self) -> bool:
        """Whether finished trees are pruned (`growth.pruning`)."""
        return self.ccp_alpha > 0.0 or self.min_decrease > 0.0

    @property
    def drops_nodes(self) -> bool:
        """Whether grown nodes may be dropped at the end: by max_leaf_nodes, or by pruning."""
        return self.max_leaf_nodes != NO_LIMIT or self.prunes

    def for_growing(self) -> TreeOptions:
        """Options for growing; they differ for trees of medians.

        The decrease of the absolute error by a split is known only when its children have medians.
        """
        if not CRITERIA[self.criterion].by_median:
            return self
        minimum = self.min_impurity_decrease
        return replace(self, criterion=VARIANCE, min_impurity_decrease=0.0, min_decrease=minimum)

    def max_splits(self, depth: int) -> int:
        """Upper bound on the number of a tree's nodes that split at a depth, by ``max_leaf_nodes``.

        The ancestors of these nodes are split, too: ``m + 1`` nodes have at least ``m // 2 + 1``
        parents, which have at least ``m // 4 + 1`` parents, and so on. In total, these are
        ``2 * m`` splits minus the number of one bits in ``m``, plus one split per level.
        """
        free = self.max_leaf_nodes - 2 - depth
        return 0 if free < 0 else 1 + min(free, (free + free.bit_length()) // 2)


class Buffers:
    """Arrays by name, which are used again because new memory is slow at its first use."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, Any], np.ndarray] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array whose entries are not set, in the memory of the last one of this name.

        So only one array of a name can be in use.
        """
        size, own = math.prod(shape), self._arrays.get((name, dtype))
        if own is None or len(own) < size:
            own = self._arrays[name, dtype] = np.empty(size, dtype)
        return own[:size].reshape(shape)


@dataclass(frozen=True)
class GrowTask:
    """The trees that a backend is to grow on one binned matrix.

    Attributes
    ----------
    matrix : BinnedMatrix
        Binned training rows.
    target : Target
        Targets in integers.
    options : TreeOptions
        Options of each tree.
    rows_of : callable
        Maps the number of a tree to its rows, on the host.
    trees : sequence of int
        Numbers of the trees.
    seed : int
        Seed of the random numbers of all trees.
    features_of : callable or None
        Maps the number of a tree to its ascending int32 features; None means all features.
    n_threads : int
        Number of threads.
    memory_budget : int
        Memory for histograms and other temporary arrays, in bytes.
    sampler : RowSampler or None
        Draws the same rows as ``rows_of``; with it, a device draws the rows itself.
    is_watched : bool
        Whether callbacks wait for each tree, so few trees should grow at once.
    buffers : Buffers
        Shared by the tasks of a boosting fit.
    """

    matrix: BinnedMatrix
    target: Target
    options: TreeOptions
    rows_of: Callable[[int], TreeRows]
    trees: Sequence[int]
    seed: int
    features_of: Callable[[int], np.ndarray] | None = None
    n_threads: int = 1
    memory_budget: int = 256 * 2**20
    sampler: RowSampler | None = None
    is_watched: bool = False
    buffers: Buffers = field(default_factory=Buffers)

    def tree_features(self, tree: int) -> np.ndarray:
        """Candidate features of the tree, ascending int32."""
        if self.features_of is None:
            return np.arange(self.matrix.n_features, dtype=np.int32)
        return self.features_of(tree)


@dataclass(frozen=True)
class GrownTree:
    """One tree as a backend returns it, with nodes in breadth-first order, the root first.

    Attributes
    ----------
    feature : int32 (m,)
        Split feature, `LEAF` in leaves.
    bin, next_bin : int16 (m,)
        Last occupied bin that goes left, and first occupied bin that goes right
        (`ONLY_MISSING_RIGHT` if no value does). For random thresholds, the bin of the threshold and
        the next bin. 0 in leaves and categorical splits.
    draw : float64 (m,)
        The random threshold, NaN without one.
    missing : int8 (m,)
        `MISSING_RIGHT`, `MISSING_LEFT`, or `MISSING_UNSEEN` if no row of positive weight in the
        node has a missing value.
    left : int32 (m,)
        Left child, which the right child follows; 0 in leaves.
    gain : float64 (m,)
        Gain of the split in integer units, 0 in leaves.
    category : int32 (m,)
        Row of ``masks`` for categorical splits, else -1.
    masks : uint32 (c, 16)
        Bit ``code`` of the first 8 words is set if the code goes left, bit ``code`` of the last 8
        words if the node has rows with that code.
    count, hessian : int64 (m,)
        Number of rows, and sum of their integer weights.
    sums : int64 (m, P)
        Leaf sums; for inner nodes, sums over all rows of the node. The columns are those of
        ``wide`` (of the target or of `TreeRows`) for a regression or boosting, planes of classes
        (m, n_classes * P) for a classification, or class weights (m, n_classes) if ``wide`` is
        None. For many classes, they can be `SparseRows` (m, n_classes) with entries (z, P), where
        P is 1 without ``wide``.
        For medians see `backends.protocol`.
    """

    feature: np.ndarray
    bin: np.ndarray
    next_bin: np.ndarray
    draw: np.ndarray
    missing: np.ndarray
    left: np.ndarray
    gain: np.ndarray
    category: np.ndarray
    masks: np.ndarray
    count: np.ndarray
    hessian: np.ndarray
    sums: Any
