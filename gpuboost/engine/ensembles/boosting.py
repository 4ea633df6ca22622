"""A round of gradient boosting in integers: from gradients to the rows of trees and leaf values.

A round fits trees to the direction in which raw predictions should move (Friedman, Greedy function
approximation, 2001; Newton steps as in Chen and Guestrin, XGBoost, 2016). With ``gradient`` the
loss's derivative times -1 and ``hessian`` its second derivative (or a value above it, see
`losses.formulas.raised`), both times the row's weight, a leaf moves the raw prediction of its rows
by sum(gradient) / sum(hessian), times the learning rate. Regularisation changes this value, and a
loss with a `LeafRule` replaces it.

As for other trees there are two sets of integers: narrow ones choose splits, wide ones give leaf
values. If hessians are integer weights, the same in all rounds, they are used unchanged and
gradients are rounded to nearest, so a round of squared error is the regression tree of the
residuals, including ties. Otherwise gradients and hessians are rounded up or down by a hash of the
row, so that sums are unbiased even if the rows span many orders of magnitude. But no integer
hessian is below 1, about 2**-HESSIAN_BITS of the largest hessian, so each row of a tree has weight;
smaller hessians therefore count as 1 in the choice of splits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuboost.engine import randomness
from gpuboost.engine.bins import BinMapper
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.fixed_point import SUM_BITS, exponent_of, sum_bits
from gpuboost.engine.growth.constraints import in_monotonic_order
from gpuboost.engine.growth.pruning import pruned_by
from gpuboost.engine.growth.tree import ThresholdFinder, Tree, with_values
from gpuboost.engine.newton import bounded, newton_value
from gpuboost.engine.numerics import sum_in_order
from gpuboost.engine.quantise import EXACT_BITS, VALUE_BITS
from gpuboost.engine.targets import GradientTarget, NodeValues, TreeRows
from gpuboost.engine.task import GrownTree, Regularisation, TreeOptions

GRADIENT_BITS, HESSIAN_BITS = 24, 16
_S32 = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Gradients:
    """Gradients (times -1) and hessians of a loss in each row, times the row's weight.

    Attributes
    ----------
    gradient : float64 (n, K)
        Gradient of each row and column, times -1.
    hessian : float64 (n, K), or (n, 1) if it is the same for all columns
        Hessian of each row and column.
    whole : int32 (n,) or None
        Hessian of each row; None unless it is the same in all rounds and an integer up to
        2**WEIGHT_BITS.
    inside : bool (n,) or None
        Mask of the rows that trees are grown on; None means all rows.
    """

    gradient: np.ndarray
    hessian: np.ndarray
    whole: np.ndarray | None = None
    inside: np.ndarray | None = None


@dataclass(frozen=True)
class Scale:
    """Exponents that convert the real numbers of a round to integers: integer = real * 2**e.

    ``gradient`` and ``hessian`` are the exponents of the narrow integers, ``wide_gradient`` and
    ``wide_hessian`` the exponents of the wide integers.
    """

    gradient: int
    hessian: int
    wide_gradient: int
    wide_hessian: int

    @classmethod
    def of(cls, made: Gradients) -> Scale:
        """The scale of a round, from its largest gradient and hessian."""
        largest = int(exponent_of(made.gradient.reshape(-1, 1))[0])
        heaviest = int(exponent_of(made.hessian.reshape(-1, 1))[0])
        return cls.of_exponents(largest, heaviest, len(made.gradient), made.whole is not None)

    @classmethod
    def of_exponents(cls, largest: int, heaviest: int, n_rows: int, is_whole: bool) -> Scale:
        """The scale from the exponents of the largest gradient and hessian (`exponent_of`)."""
        rows = sum_bits(n_rows)
        exponents = GRADIENT_BITS - largest, HESSIAN_BITS - heaviest
        if is_whole:
            exponents = min(VALUE_BITS, EXACT_BITS - rows) - largest, 0
        return cls(*exponents, SUM_BITS - rows - largest, SUM_BITS - rows - heaviest)

    def options(self, of_user: TreeOptions, min_hessian: float) -> TreeOptions:
        """Options with the regularisation and ``min_hessian`` in the units of the integers."""
        regular, unit = of_user.regularisation, self.gradient - self.hessian
        with np.errstate(over="ignore"):  # numbers beyond float64 are infinite
            in_integers = replace(
                regular,
                l1=float(np.ldexp(regular.l1, self.gradient)),
                l2=float(np.ldexp(regular.l2, self.hessian)),
                max_value=float(np.ldexp(regular.max_value, unit)),
            )
            # 2**60 exceeds any sum of integer hessians, and int64 holds twice as much.
            minimum = int(min(np.ceil(np.ldexp(min_hessian, self.hessian)), 2.0**60))
        return replace(of_user, regularisation=in_integers, min_hessian=max(1, minimum))

    def target(self, n_outputs: int) -> GradientTarget:
        """The target of trees with ``n_outputs`` values per leaf."""
        return GradientTarget(n_outputs, self.gradient - self.hessian)


def quantised(made: Gradients, scale: Scale, columns: slice, key: np.ndarray) -> TreeRows:
    """The rows of a tree for some columns of gradients; ``key``, uint64 (1,), seeds rounding."""
    gradient = made.gradient[:, columns]
    hessian = made.hessian if made.hessian.shape[1] == 1 else made.hessian[:, columns]
    planes = (
        np.rint(np.ldexp(gradient, scale.wide_gradient)),
        np.rint(np.ldexp(hessian, scale.wide_hessian)),
    )
    wide = np.concatenate(planes, axis=1).astype(np.int64)
    inside = made.inside
    if made.whole is not None:
        weight = made.whole if inside is None else np.where(inside, made.whole, np.int32(0))
        nearest = np.rint(np.ldexp(gradient, scale.gradient)).astype(np.int32)
        return TreeRows(weight, None, draws=False, wide=wide, gradient=nearest)
    up, down = unit_draws(randomness.hash_index(key, np.arange(len(gradient), dtype=np.uint64)))
    rounded = np.floor(np.ldexp(gradient, scale.gradient) + up[:, None]).astype(np.int32)
    mean = sum_in_order(hessian) * (1.0 / hessian.shape[1])  # the row's weight in the splits
    weight = np.floor(np.ldexp(mean, scale.hessian) + down).astype(np.int32)
    weight = np.maximum(weight, np.int32(1))
    if inside is not None:
        weight = np.where(inside, weight, np.int32(0))
    return TreeRows(weight, None, draws=False, wide=wide, gradient=rounded)


def unit_draws(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers in [0, 1), multiples of 2**-32, from each random word."""
    high, low = words >> _S32, words & _LOW_HALF
    return high.astype(np.float64) * 2.0**-32, low.astype(np.float64) * 2.0**-32


def finish_boosted(
    grown: GrownTree,
    mapper: BinMapper,
    scale: Scale,
    n_outputs: int,
    options: TreeOptions,
    learning_rate: float,
    threshold_finder: ThresholdFinder | None = None,
) -> Tree:
    """Compute thresholds and values from the integers of a grown tree, and prune it.

    The values are Newton steps times the learning rate. ``options`` are in the units of the loss.
    """
    values = newton_steps(grown, scale, n_outputs, options.regularisation) * learning_rate
    weight = np.ldexp(grown.hessian.astype(np.float64), -scale.hessian)
    unknown = np.full(len(weight), np.nan)
    unit = scale.target(n_outputs).gain_unit(VARIANCE)
    whole = with_values(grown, mapper, NodeValues(values, unknown, weight), unit, threshold_finder)
    return pruned_by(whole, options)


def newton_steps(
    grown: GrownTree, scale: Scale, n_outputs: int, regular: Regularisation
) -> np.ndarray:
    """The regularised Newton step of each node and column: float64 (m, n_outputs).

    It is 0 where the hessians of a node were rounded to zero (and ``l2`` is 0).
    """
    gradient = np.ldexp(grown.sums[:, :n_outputs].astype(np.float64), -scale.wide_gradient)
    hessian = np.ldexp(grown.sums[:, n_outputs:].astype(np.float64), -scale.wide_hessian)
    flat = hessian + regular.l2 <= 0.0  # hessians so small that they were rounded to zero
    step = newton_value(gradient, np.where(flat, 1.0, hessian), regular.l1, regular.l2)
    step = bounded(np.where(flat, 0.0, step), -regular.max_value, regular.max_value)
    return in_monotonic_order(step, grown, regular)


def with_leaf_values(tree: Tree, values: np.ndarray) -> Tree:
    """The tree of one column with the given leaf values (n_leaves,), in the order of nodes."""
    value = tree.value.copy()
    value[tree.left == 0, 0] = values
    return replace(tree, value=value)
