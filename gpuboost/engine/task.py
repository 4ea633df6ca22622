"""What is asked of a backend, and what it gives back: frozen descriptions, no behaviour.

The contract of `grow` is in `gpuboost.backends.protocol`; these are its words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpuboost.engine.tree_rows import TreeRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuboost.engine.bins import BinnedMatrix
    from gpuboost.engine.sampling import RowSampler

NO_LIMIT = 2**31 - 1
LEAF = -1
MISSING_RIGHT, MISSING_LEFT, MISSING_UNSEEN = 0, 1, 2
ONE_HOT_LEVELS = 4  # categorical features with at most so many levels split one against the rest
ONLY_MISSING_RIGHT = -1  # `next_bin` of a split that sends every value left


@dataclass(frozen=True)
class Regularisation:
    """What the NEWTON score and the values of its leaves are held to, in integer units.

    A value is a gradient divided by a hessian; integer units are those of the integers that a tree
    is grown on (`Target.value_exponent`, `Target.hessian_exponent`).

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
class Target:
    """The target in integers, the same for every tree of a fit.

    Classification: ``classes`` int32 (n,), ``values`` None; a histogram's channel k is the weight
    of class k, or for two classes the one channel of class 1.
    Regression: ``values`` int32 (n, K), the centred target times a power of two (POISSON: the
    target, not centred); a histogram's channel k is the sum of weight * values[:, k]. A node is
    pure when every values[:, k] agrees.
    Boosting: neither; the rows of each tree bring gradients (`TreeRows.gradient`) for
    ``n_outputs`` channels. No node is pure.
    Medians: ``values`` int32 (n, K) are ranks, from 0, of the targets among the distinct ones of
    their output, which are ``levels``, float64 each. A histogram's channel k is the sum of weight *
    sign, where signs tell on which side of the node's median a target is; a node is pure when the
    signs of every output agree. ``median_weight`` int64 (n,) is what medians weigh rows with; None:
    the weights of the tree.

    ``wide`` int64 (n, P): what leaf values are made of, summed exactly over each leaf's rows
    (times the row's draw count if ``TreeRows.draws``). None: class weights are the draw counts.
    ``exponents`` (P,) are the powers of two of its columns (see `statistics.two_planes`),
    ``mean`` (K,) what targets were centred on, ``values`` are targets times 2**value_exponent, and
    the sum of squares in ``wide`` (POISSON: of y log y; medians: the weight) is of targets divided
    by 2**square_unit. Gradients are integers divided by 2**(value_exponent + hessian_exponent),
    hessians by 2**hessian_exponent.
    """

    classes: np.ndarray | None
    values: np.ndarray | None
    n_classes: int
    n_outputs: int
    wide: np.ndarray | None = None
    exponents: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    value_exponent: int = 0
    square_unit: int = 0
    hessian_exponent: int = 0
    levels: tuple[np.ndarray, ...] | None = None
    median_weight: np.ndarray | None = None

    @property
    def by_median(self) -> bool:
        """Whether rows are split by their side of the node's median."""
        return self.levels is not None

    @property
    def n_sums(self) -> int:
        """Columns of `GrownTree.sums` of a target of medians."""
        return 6 * self.n_outputs + 2

    @property
    def has_gradients(self) -> bool:
        """Whether gradients come with the rows of each tree."""
        return self.classes is None and self.values is None

    @property
    def n_channels(self) -> int:
        """Gradient channels of a histogram: 1 for two classes, else classes or outputs."""
        if self.classes is None:
            return self.n_outputs
        return 1 if self.n_classes <= 2 else self.n_classes


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
        Leaf sums (internal nodes: of all their rows). Columns as in `Target.wide`; class weights
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
