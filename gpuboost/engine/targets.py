"""Targets in integers: classes, values or medians for all trees of a fit, or gradients of a round.

All targets have these attributes and methods, which backends use:

``by_class``, ``is_multiclass``
    Whether targets are classes; whether there are more than two classes, each with a channel.
``by_median``
    Whether splits use the signs of targets about the medians of the node.
``has_gradients``
    Whether gradients come with the rows of each tree (`TreeRows.gradient`).
``row_arrays``
    Names of the arrays that have one entry per row; some of the arrays can be None.
``n_channels``, ``n_classes``
    Number of gradient channels of a histogram; number of classes, 1 without classes.
``scored_together``
    Number of consecutive channels that the criterion scores together: all channels, or the classes
    of one output. The score of a split is the sum of these scores, added up in order.
``purity``
    How a pure node is recognised: by its sums ("TWO_CLASSES", "CLASSES"), by the ranges of its
    rows' values or signs ("RANGES"), or "NEVER" if no node is pure.
``wide``
    int64 (n, P): terms of the leaf values, summed exactly over each leaf's rows (times the row's
    draw count if ``TreeRows.draws``). None if leaf values need only integer weights, or if each
    tree has its own `TreeRows.wide`.
``exponents``
    int64 (P,): column i of ``wide`` is in units of 2**-exponents[i] (see `fixed_point.two_planes`).
    Empty if ``wide`` is None.
``exponents_in(rows)``
    Exponents of the leaf sums of a tree with the given `TreeRows`.
``with_leaf_terms(rows)``
    The rows of a tree; if their ``wide`` holds the planes of weights, it becomes that of leaf sums.
``gain_unit(criterion)``
    Factor from `GrownTree.gain` to the decrease of weight times impurity.
``row_channels(row, rows)``
    Contributions of the given rows of a tree to the channels: gradients int64 (r, K) and None, or
    for more than two classes None and the class of each row, int64 (r,).
``node_values(sums, hessian, rows, criterion)``
    `NodeValues` of a finished tree. (`GradientTarget` lacks this method: boosting finishes trees
    without it.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.fixed_point import planes_to_float
from gpuboost.engine.numerics import log, sum_in_order
from gpuboost.engine.order_statistics import between
from gpuboost.engine.sparse_rows import DenseRows, SparseRows

RowChannels = tuple[np.ndarray | None, np.ndarray | None]  # (gradients, None) or (None, classes)


@dataclass(frozen=True)
class TreeRows:
    """The rows of one tree: their integer weights, and the terms of its leaf sums.

    Attributes
    ----------
    weight : int32 (n,)
        Integer weight, draw count or hessian, with which splits are scored.
    inside : bool (n,) or None
        Mask of the rows in the tree; None means the rows with positive ``weight``. A row in the
        tree has weight 0 only if a small real-valued weight was rounded to zero; the row then
        follows the splits and is counted.
    draws : bool
        Whether each row of ``wide`` is multiplied by its ``weight`` in the leaf sums.
    wide : int64 (n, P) or None
        Terms of the leaf sums of this tree, in place of ``Target.wide``.
    exponents : int64 (P,) or None
        Exponents of ``wide``, in place of ``Target.exponents``.
    unit : float
        Factor from the weights in leaf sums to the user's weights or, in AdaBoost, to the weights
        of the round.
    gradient : int32 (n, K) or None
        In boosting, the direction in which raw predictions should move, in place of ``weight``
        times a target (Friedman's pseudo-residual; the loss's gradient times -1).
    """

    weight: np.ndarray
    inside: np.ndarray | None
    draws: bool
    wide: np.ndarray | None = None
    exponents: np.ndarray | None = None
    unit: float = 1.0
    gradient: np.ndarray | None = None

    @property
    def mask(self) -> np.ndarray:
        """Mask of the rows in the tree: bool (n,)."""
        return self.weight > 0 if self.inside is None else self.inside


@dataclass(frozen=True)
class NodeValues:
    """Value (m, n_values), impurity (m,) and weight (m,) of each node of a tree, float64.

    Values made from `SparseRows` are `SparseRows`.
    """

    value: Any
    impurity: np.ndarray
    weight: np.ndarray


class _Target:
    """Defaults of the attributes of targets."""

    by_class = by_median = has_gradients = False
    row_arrays: ClassVar[tuple[str, ...]] = ()
    n_channels: Any
    exponents: Any

    def exponents_in(self, rows: TreeRows) -> np.ndarray:
        """Those of the rows, if these have their own."""
        return self.exponents if rows.exponents is None else rows.exponents

    def with_leaf_terms(self, rows: TreeRows) -> TreeRows:
        """The rows as they are."""
        return rows

    @property
    def scored_together(self) -> int:
        """All channels."""
        return int(self.n_channels)


@dataclass(frozen=True)
class ClassTarget(_Target):
    """Classes; channel k is the weight of class k. Two classes have only the channel of class 1.

    Attributes
    ----------
    classes : int32 (n,)
        Class of each row.
    n_classes : int
        Number of classes.
    wide : int64 (n, 2) or None
        Planes of the real-valued weights of rows; None if leaves sum the integer weights.
    exponents : int64 (2,)
        Exponents of the planes; empty if ``wide`` is None.
    """

    classes: np.ndarray
    n_classes: int
    wide: np.ndarray | None = None
    exponents: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    by_class, row_arrays = True, ("classes", "wide")

    @property
    def is_multiclass(self) -> bool:
        """Whether there are more than two classes."""
        return self.n_classes > 2

    @property
    def n_channels(self) -> int:
        """1 for two classes, else the number of classes."""
        return self.n_classes if self.is_multiclass else 1

    @property
    def purity(self) -> str:
        """A node is pure if one class has all of its weight."""
        return "CLASSES" if self.is_multiclass else "TWO_CLASSES"

    def gain_unit(self, criterion: int) -> float:
        """The criterion's unit, times 2 if it adds one of two classes, whose terms are equal."""
        of = CRITERIA[criterion]
        return of.class_unit * (1.0 if of.both_classes or self.is_multiclass else 2.0)

    def row_channels(self, row: np.ndarray, rows: TreeRows) -> RowChannels:
        """For two classes, weight * [class is 1] of each row, else the class of each row."""
        label = self.classes[row].astype(np.int64)
        if self.is_multiclass:
            return None, label
        return (rows.weight[row].astype(np.int64) * (label == 1))[:, None], None

    def class_sums(self, hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Weight of each class in nodes: int64 (m, n_classes).

        Leaf values follow from these sums if weights are integers. A single class has one column.
        """
        if self.is_multiclass:
            return gradient
        second = gradient[:, 0]
        return np.column_stack([hessian - second, second])[:, : self.n_classes]

    def node_values(
        self, sums: Any, hessian: np.ndarray, rows: TreeRows, criterion: int
    ) -> NodeValues:
        """Class probabilities, impurity and weight of each node, from its leaf sums."""
        nodes: Any = sums
        if not isinstance(sums, SparseRows):
            nodes = DenseRows(sums.reshape(len(sums), self.n_classes, -1))
        per_class = self._class_weights(nodes.entry, rows)
        weight = nodes.row_sums(per_class)
        probability = per_class / nodes.per_entry(weight)
        impurity = CRITERIA[criterion].impurity(probability, nodes)
        return NodeValues(nodes.with_entries(probability), impurity, weight)

    def _class_weights(self, sums: np.ndarray, rows: TreeRows) -> np.ndarray:
        """Class weights, float64 (...), from leaf sums (..., P)."""
        if self.wide is None and rows.wide is None:
            return sums[..., 0].astype(np.float64)
        return planes_to_float(sums, self.exponents_in(rows))[..., 0]


@dataclass(frozen=True)
class _OfOutputs(_Target):
    """Targets with one channel per output, in units of 2**-value_exponent."""

    n_channels: int
    value_exponent: int = 0

    is_multiclass, n_classes = False, 1

    def gain_unit(self, criterion: int) -> float:
        """Factor that undoes the scaling of targets by powers of two and averages over outputs."""
        power = CRITERIA[criterion].power
        exponent = -power * self.value_exponent
        if power > 1:
            # Squares of targets beyond 1e120 would overflow, and squares of targets below
            # about 1e-112 would underflow; gains then have another unit.
            exponent = min(max(exponent, -800), 800)
        return float(np.ldexp(1.0 / self.n_channels, exponent))


@dataclass(frozen=True, kw_only=True)
class ValueTarget(_OfOutputs):
    """Values of a regression: channel k is weight * values[:, k].

    A node is pure if all its rows with positive weight have the same values.

    Attributes
    ----------
    values : int32 (n, K)
        The centred target (POISSON: the target, not centred), times 2**value_exponent, rounded
        (POISSON: positive targets to at least 1).
    wide : int64 (n, P)
        Planes of the centred targets (POISSON: of the targets), then of the sum over outputs of
        their squares (POISSON: of y log y) after division by 2**square_unit. If weights are
        real-valued, all of these are multiplied by the weight, and the planes of the weight follow.
    exponents : int64 (P,)
        Exponents of the planes.
    mean : float64 (K,)
        Mean that was subtracted from the targets; zeros with POISSON.
    square_unit : int
        Exponent by which targets are scaled down before they are squared.
    """

    values: np.ndarray
    wide: np.ndarray
    exponents: np.ndarray
    mean: np.ndarray
    square_unit: int

    purity, row_arrays = "RANGES", ("values", "wide")

    def row_channels(self, row: np.ndarray, rows: TreeRows) -> RowChannels:
        """Weight times value of each row and output."""
        return self.values[row].astype(np.int64) * rows.weight[row].astype(np.int64)[:, None], None

    def node_values(
        self, sums: np.ndarray, hessian: np.ndarray, rows: TreeRows, criterion: int
    ) -> NodeValues:
        """Means of outputs; variances or half Poisson deviances, averaged over outputs; weights."""
        found, k = planes_to_float(sums, self.exponents_in(rows)), self.n_channels
        unit = self.square_unit
        weight = found[:, k + 1] if found.shape[1] > k + 1 else hessian.astype(np.float64)
        centred = found[:, :k] / weight[:, None]
        if CRITERIA[criterion].counts:
            means = np.ldexp(centred, -unit)
            known = np.where(means > 0.0, means, 1.0)
            spread = found[:, k] / weight - sum_in_order(means * log(known))
            return NodeValues(centred, np.ldexp(np.maximum(spread, 0.0) / k, unit), weight)
        squares = found[:, k] / weight - sum_in_order(np.square(np.ldexp(centred, -unit)))
        with np.errstate(over="ignore", under="ignore"):
            impurity = np.ldexp(np.maximum(squares, 0.0) / k, 2 * unit)
        return NodeValues(self.mean + centred, impurity, weight)


@dataclass(frozen=True, kw_only=True)
class MedianTarget(_OfOutputs):
    """Values for trees of the absolute error, whose leaves are medians.

    The absolute error of a node is least at the median of its targets. The gradient of a row (times
    -1) is the sign of its target's difference from the median. Trees of the absolute error split by
    these signs, as other trees split by targets minus their mean. Each node uses its own median:
    below the first split, signs about the root's median would carry little information.

    A median is the midpoint of two targets (`order_statistics`). Targets are identified by their
    ranks, so medians are exact, and splits depend only on the order of the targets.

    A channel is weight * sign. A node is pure if in each output, all rows with positive weight have
    the same sign.

    Attributes
    ----------
    ranks : int32 (n, K)
        Ranks of the targets, from 0, among the distinct targets of their output.
    distinct_targets : K arrays of float64
        The distinct targets of each output.
    wide : int64 (n, P)
        Planes of the centred targets, times the weight if weights are real-valued, then of the
        weight (of 1 if weights are integers).
    exponents : int64 (P,)
        Exponents of the planes.
    mean : float64 (K,)
        Mean that was subtracted from the targets in ``wide``.
    median_weight : int64 (n,) or None
        Weights of rows in medians; None means the integer weights of the tree.
    """

    ranks: np.ndarray
    distinct_targets: tuple[np.ndarray, ...]
    wide: np.ndarray
    exponents: np.ndarray
    mean: np.ndarray
    median_weight: np.ndarray | None

    by_median, purity, row_arrays = True, "RANGES", ("ranks", "wide", "median_weight")

    @property
    def n_sums(self) -> int:
        """Number of columns of `GrownTree.sums`."""
        return 6 * self.n_channels + 2

    def row_channels(self, row: np.ndarray, rows: TreeRows) -> RowChannels:
        """Zeros, because signs depend on the node."""
        return np.zeros((len(rows.weight[row]), self.n_channels), np.int64), None

    def node_values(
        self, sums: np.ndarray, hessian: np.ndarray, rows: TreeRows, criterion: int
    ) -> NodeValues:
        """Medians (m, K), absolute deviations averaged over rows and outputs (m,), weights (m,).

        With s the signs of rows and c the median, the deviations in a node sum to
        ``sum(w s y) - c sum(w s)``, since rows of sign 0 are at the median.
        """
        k, exponents = self.n_channels, self.exponents
        bounds = sums[:, : 2 * k]
        weight = planes_to_float(sums[:, -2:], exponents[-2:])[:, 0]
        value, deviation = np.empty((len(weight), k)), np.zeros(len(weight))
        for j, own in enumerate(self.distinct_targets):
            value[:, j] = between(*(own[bounds[:, 2 * j + side]] for side in range(2))) + 0.0
            own = sums[:, 2 * k + 4 * j : 2 * k + 4 * (j + 1)]
            of_output = np.append(exponents[2 * j : 2 * j + 2], exponents[-2:])
            signed, balance = planes_to_float(own, of_output).T
            centre = value[:, j] - self.mean[j]
            deviation = deviation + np.maximum(signed - centre * balance, 0.0)
        return NodeValues(value, deviation / weight / k, weight)


@dataclass(frozen=True)
class GradientTarget(_OfOutputs):
    """Gradients of boosting, which come with the rows of each tree; no node is pure.

    Gradients are integers divided by 2**(value_exponent + e), hessians integers divided by 2**e,
    for some e.
    """

    has_gradients, purity = True, "NEVER"
    wide, exponents = None, np.zeros(0, np.int64)  # leaf sums come with the rows

    def row_channels(self, row: np.ndarray, rows: TreeRows) -> RowChannels:
        """The gradients of the rows."""
        assert rows.gradient is not None
        return rows.gradient[row].astype(np.int64), None


RegressionTarget = ValueTarget | MedianTarget
LabelTarget = ClassTarget | RegressionTarget  # made from a user's y
Target = LabelTarget | GradientTarget
AnyTarget = TypeVar("AnyTarget", bound=LabelTarget)


def map_rows(target: AnyTarget, change: Callable[[np.ndarray], np.ndarray]) -> AnyTarget:
    """The target with ``change`` applied to each of its arrays that have one entry per row."""
    own = ((name, getattr(target, name)) for name in target.row_arrays)
    changed: dict[str, Any] = {name: change(array) for name, array in own if array is not None}
    return replace(target, **changed)
