"""Losses of real targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpuboost.engine.averages import weighted_mean
from gpuboost.engine.losses import formulas as gradients
from gpuboost.engine.losses.base import Functions, Loss, Predicted, as_columns
from gpuboost.engine.losses.links import IDENTITY, LOG, Link
from gpuboost.engine.order_statistics import one_group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuboost.engine.order_statistics import Groups


@dataclass(frozen=True)
class SquaredError(Loss):
    """(raw - y)**2, gradients of half of it. L2 boosting."""

    name: ClassVar[str] = "squared_error"
    formula: ClassVar[int] = gradients.SQUARED_ERROR
    functions: ClassVar[Functions] = Functions(
        gradients.squared_error, gradients.squared_error_loss
    )
    link: ClassVar[Link] = IDENTITY
    constant_hessian: ClassVar[bool] = True
    sums_outputs: ClassVar[bool] = True


@dataclass(frozen=True)
class OrderStatisticLoss(Loss):
    """A loss whose best constant is a quantile, of the target and of the residuals in a leaf."""

    link: ClassVar[Link] = IDENTITY
    constant_hessian: ClassVar[bool] = True
    has_leaf_quantiles: ClassVar[bool] = True

    @property
    def leaf_quantile_level(self) -> np.ndarray:
        """The median."""
        return np.full(self.columns, 0.5)

    def baseline(self, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Weighted quantile of each output, the midpoint where an interval is best."""
        start = Predicted(y, np.zeros((len(y), self.columns)), weights)
        values = (self.residuals(start, k) for k in range(self.columns))
        return _quantiles(start, values, self.leaf_quantile_level)

    def leaf_values(
        self, rows: Predicted, groups: Groups, column: int, parameter: np.ndarray
    ) -> np.ndarray:
        """Best constant to add to one column of ``raw`` in each leaf: float64 (n_leaves,).

        The weighted quantile of its residuals (Friedman 2001, algorithms 3 and 4).
        """
        integers = rows.order.integer_weights(rows.weights, len(rows.y))
        level = float(self.leaf_quantile_level[column])
        return rows.order.weighted_quantiles(self.residuals(rows, column), integers, groups, level)

    def residuals(self, rows: Predicted, column: int) -> np.ndarray:
        """Residuals of one column: (n,)."""
        y = as_columns(rows.y)
        return y[:, column % y.shape[1]] - rows.raw[:, column]


def _quantiles(
    rows: Predicted, columns: Iterable[np.ndarray], levels: Iterable[float]
) -> np.ndarray:
    """Quantile of each column, over all rows: float64 (columns,)."""
    n, order = len(rows.y), rows.order
    groups, integers = one_group(n), order.integer_weights(rows.weights, n)
    pairs = zip(columns, levels, strict=True)
    found = [order.weighted_quantiles(own, integers, groups, float(at)) for own, at in pairs]
    return np.concatenate(found)


@dataclass(frozen=True)
class AbsoluteError(OrderStatisticLoss):
    """abs(raw - y). L1 boosting; leaves are medians."""

    name: ClassVar[str] = "absolute_error"
    formula: ClassVar[int] = gradients.ABSOLUTE_ERROR
    functions: ClassVar[Functions] = Functions(
        gradients.absolute_error, gradients.absolute_error_loss
    )


@dataclass(frozen=True)
class Huber(OrderStatisticLoss):
    """Square below, linear above the ``alpha`` quantile of the absolute residuals of a round."""

    alpha: float = 0.9

    name: ClassVar[str] = "huber"
    formula: ClassVar[int] = gradients.HUBER
    functions: ClassVar[Functions] = Functions(gradients.huber, gradients.huber_loss)

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """Where square and linear meet (Friedman 2001, algorithm 4), of each column."""
        sizes = (np.abs(self.residuals(rows, k)) for k in range(self.columns))
        return _quantiles(rows, sizes, np.full(self.columns, self.alpha))

    def leaf_values(
        self, rows: Predicted, groups: Groups, column: int, parameter: np.ndarray
    ) -> np.ndarray:
        """Median, and the mean of what is left, cut off at delta (Friedman 2001, algorithm 4)."""
        medians = super().leaf_values(rows, groups, column, parameter)
        residuals, limit = self.residuals(rows, column), float(parameter[column])
        integers = rows.order.integer_weights(rows.weights, len(rows.y))
        return medians + rows.order.mean_of_clipped(residuals, integers, groups, medians, limit)


@dataclass(frozen=True)
class Quantile(OrderStatisticLoss):
    """Pinball loss of one or several levels, a column each."""

    levels: tuple[float, ...] = (0.5,)

    name: ClassVar[str] = "quantile"
    formula: ClassVar[int] = gradients.QUANTILE
    functions: ClassVar[Functions] = Functions(gradients.quantile, gradients.quantile_loss)

    @property
    def leaf_quantile_level(self) -> np.ndarray:
        """The levels."""
        return np.array(self.levels)

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """The levels."""
        return np.array(self.levels)


@dataclass(frozen=True)
class _Positive(Loss):
    """A loss of positive means: raw predictions are their logarithms."""

    link: ClassVar[Link] = LOG
    allows_zero: ClassVar[bool] = True

    def check_target(self, y: np.ndarray) -> None:
        """Refuse negative targets, and zeros where they have no likelihood or nothing else is."""
        _check_positive(y, self.name, self.allows_zero)

    def baseline(self, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Logarithm of the weighted mean."""
        mean = weighted_mean(as_columns(y), weights)
        if not (mean > 0.0).all():
            raise ValueError(
                f"loss={self.name!r} needs a target whose weighted sum is above 0 in every output, "
                f"got means {mean.tolist()}; give weight to rows of positive target, or use "
                "loss='squared_error'"
            )
        return self.link.forward(mean)


@dataclass(frozen=True)
class Poisson(_Positive):
    """Half the deviance of counts, or of rates weighted by exposure."""

    name: ClassVar[str] = "poisson"
    formula: ClassVar[int] = gradients.POISSON
    functions: ClassVar[Functions] = Functions(gradients.poisson, gradients.poisson_loss)
    hessian_is_information: ClassVar[bool] = True


@dataclass(frozen=True)
class Gamma(_Positive):
    """Half the deviance of positive values whose spread grows with their mean."""

    name: ClassVar[str] = "gamma"
    formula: ClassVar[int] = gradients.GAMMA
    functions: ClassVar[Functions] = Functions(gradients.gamma, gradients.gamma_loss)
    allows_zero: ClassVar[bool] = False


@dataclass(frozen=True)
class Tweedie(_Positive):
    """Half the deviance of variance mean**power: zeros beside positive values."""

    power: float = 1.5

    name: ClassVar[str] = "tweedie"
    formula: ClassVar[int] = gradients.TWEEDIE
    functions: ClassVar[Functions] = Functions(gradients.tweedie, gradients.tweedie_loss)

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """The power."""
        return np.full(self.columns, self.power)


def _check_positive(y: np.ndarray, name: str, allows_zero: bool) -> None:
    """Refuse targets below zero, or at zero where that is not allowed."""
    smallest = float(y.min())
    allowed = "y >= 0 with a sum above 0" if allows_zero else "strictly positive y"
    if smallest < 0.0 or (smallest == 0.0 and not allows_zero):
        given, row = f"{smallest:g}", int(np.argmin(y.reshape(len(y), -1).min(axis=1)))
        given = f"{given} in row {row}"
    elif float(y.max()) == 0.0:
        given = "only zeros"
    else:
        return
    raise ValueError(
        f"loss={name!r} requires {allowed}, got {given}; remove or shift such targets, or use "
        "loss='squared_error'"
    )
