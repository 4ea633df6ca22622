"""What is asked of a backend, and what it gives back: frozen descriptions, no behaviour.

The contract of `grow` is in `gpuboost.backends.protocol`; these are its words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.criteria import CRITERIA, NEWTON, VARIANCE
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.targets import Target
from gpuboost.engine.tree_rows import TreeRows

NO_LIMIT = 2**31 - 1
LEAF = -1
MISSING_RIGHT, MISSING_LEFT, MISSING_UNSEEN = 0, 1, 2
ONE_HOT_LEVELS = 4  # categorical features with at most so many levels split one against the rest
ONLY_MISSING_RIGHT = -1  # `next_bin` of a split that sends every value left


@dataclass(frozen=True)
class Regularisation:
    """What the NEWTON score and the values of its leaves are held to, in integer units.

    A value is a gradient divided by a hessian; integer units are those of the integers that a tree
    is grown on (`targets.GradientTarget`).

    Attributes
    ----------
    l1, l2 : float
        Weights of abs(value) and of its square.
    max_value : float
        Largest absolute value.
    monotonic : tuple of int, or None
        Of each feature 1 (values rise with it), -1 (they fall) or 0. Only with one channel.
    """

    l1: float = 0.0
    l2: float = 0.0
    max_value: float = float("inf")
    monotonic: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TreeOptions:
    """Limits and policy of one tree, most of them as scikit-learn's parameter of that name.

    Attributes
    ----------
    min_hessian : int
        Smallest integer weight of a child.
    level_features : int
        So many of the tree's features are drawn for each level.
    interactions : tuple of tuple of int, or None
        Groups of features: those a path splits on must lie in one of them together.
    hashed_order : bool
        Whether a node looks at features in an order of its own, not in that of their numbers.
    needs_gain : bool
        Whether a split must have a gain above zero.
    min_decrease : float
        ``min_impurity_decrease`` where gains do not say what a split does to the impurity (targets
        of medians): held to when the tree is finished, backends do not look at it.
    min_category_fraction : float
        Categories that are sorted count as missing in nodes where they have a smaller share than
        this of the hessian of the root. Only with gradients.
    regularisation : Regularisation
        Of the NEWTON score; others do not look at it.
    ccp_alpha : float
        What a leaf costs when the finished tree is pruned (`growth.pruning`); no backend's affair.
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
        """`Regularisation.monotonic`; not None where nodes have bounds of their own (NEWTON)."""
        return self.regularisation.monotonic if self.criterion == NEWTON else None

    def as_grown(self) -> TreeOptions:
        """Options that trees of medians are grown with; those of other criteria as they are.

        What a split does to the absolute error is not known before its children have medians.
        """
        if not CRITERIA[self.criterion].by_median:
            return self
        minimum = self.min_impurity_decrease
        return replace(self, criterion=VARIANCE, min_impurity_decrease=0.0, min_decrease=minimum)

    @property
    def deepest(self) -> int:
        """Depth that no node lies below; a node of best-first growth has a split at each above."""
        if self.max_leaf_nodes == NO_LIMIT:
            return self.max_depth
        return min(self.max_depth, self.max_leaf_nodes - 1)

    def max_splits(self, depth: int) -> int:
        """Nodes of a tree that ``max_leaf_nodes`` lets split at a depth, at most.

        Those above them are split, too: above ``m + 1`` nodes lie at least ``m // 2 + 1``, above
        these ``m // 4 + 1`` and so on, ``2 * m`` but for the ones in ``m`` beside a node a level.
        """
        free = self.max_leaf_nodes - 2 - depth
        return 0 if free < 0 else 1 + min(free, (free + free.bit_length()) // 2)


@dataclass(frozen=True)
class GrowTask:
    """A batch of trees to grow over one binned matrix.

    ``rows_of`` makes the rows of a tree on the host. Where they are what ``sampler`` makes, a
    device may draw them itself; None: they are nobody's but those of ``rows_of``.
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

    def tree_features(self, tree: int) -> np.ndarray:
        """Features the tree may look at, ascending int32."""
        if self.features_of is None:
            return np.arange(self.matrix.n_features, dtype=np.int32)
        return self.features_of(tree)


@dataclass(frozen=True)
class GrownTree:
    """One tree as a backend grew it: nodes breadth-first, right child = left + 1, root 0.

    Attributes
    ----------
    feature : int32 (m,)
        Split feature, `LEAF` in leaves.
    bin, next_bin : int16 (m,)
        Last occupied bin that goes left, and the first occupied bin that goes right
        (`ONLY_MISSING_RIGHT` if no value does). Random thresholds: the bin of the threshold and
        the one after it.
    draw : float64 (m,)
        The random threshold, NaN where there is none.
    missing : int8 (m,)
        `MISSING_RIGHT`, `MISSING_LEFT`, or `MISSING_UNSEEN` where no row had it missing.
    left : int32 (m,)
        Left child, 0 in leaves.
    gain : float64 (m,)
        Rise of the score in integer units, 0 in leaves.
    category : int32 (m,)
        Row of ``masks`` for categorical splits, else -1.
    masks : uint32 (c, 16)
        Bit ``code`` of the first 8 words is set when the code goes left, of the last 8 when the
        node has rows of that code.
    count, hessian : int64 (m,)
        Rows, and sum of integer weights.
    sums : int64 (m, P)
        Leaf sums (internal nodes: of all their rows). Columns as in ``Target.wide``; class weights
        (m, n_classes) where that is None, planes of classes (m, n_classes * P) for classification;
        for medians those of `backends.protocol`.
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
    sums: np.ndarray
