"""Kinds of losses of real targets: baselines, parameters of rounds, and rules of leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from gpuboost.engine.averages import weighted_mean
from gpuboost.engine.losses.base import FormulaLoss, LossRow, Predicted, as_columns
from gpuboost.engine.order_statistics import Groups, one_group


@dataclass(frozen=True)
class QuantileBaseline(FormulaLoss):
    """A loss that starts at a quantile of the target, as the best constant is one or near one."""

    @property
    def leaf_quantile_level(self) -> np.ndarray:
        """The median."""
        return np.full(self.columns, 0.5)

    def baseline(self, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Weighted quantile of each output, the midpoint where an interval is best."""
        start = Predicted(y, np.zeros((len(y), self.columns)), weights)
        values = (self.residuals(start, k) for k in range(self.columns))
        return _quantiles(start, values, self.leaf_quantile_level)

    def residuals(self, rows: Predicted, column: int) -> np.ndarray:
        """Residuals of one column: (n,)."""
        y = as_columns(rows.y)
        return y[:, column % y.shape[1]] - rows.raw[:, column]


@dataclass(frozen=True)
class OrderStatisticLoss(QuantileBaseline):
    """A loss whose best constant is a quantile, of the target and of the residuals in a leaf.

    Leaves add the mean of residuals clipped at the quantile ``clip_level`` of the absolute
    residuals of a round, which is then the round parameter, unless the level is None.
    """

    clip_level: float | None = None

    def leaf_values(
        self, rows: Predicted, groups: Groups, column: int, parameter: np.ndarray
    ) -> np.ndarray:
        """Best constant to add to one column of ``raw`` in each leaf: float64 (n_leaves,).

        The weighted quantile of its residuals (Friedman 2001, algorithms 3 and 4).
        """
        integers = rows.order.integer_weights(rows.weights, len(rows.y))
        level = float(self.leaf_quantile_level[column])
        return rows.order.weighted_quantiles(self.residuals(rows, column), integers, groups, level)


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
class Huber(OrderStatisticLoss):
    """Square below, linear above the ``clip_level`` of the absolute residuals of a round."""

    @classmethod
    def make(cls, facts: LossRow, columns: int, alpha: Any, power: Any) -> Huber:
        """Huber loss of the outputs, checked."""
        return cls(facts, columns, _level(alpha, f"alpha of loss={facts.name!r}"))

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """Where square and linear meet (Friedman 2001, algorithm 4), of each column."""
        sizes = (np.abs(self.residuals(rows, k)) for k in range(self.columns))
        return _quantiles(rows, sizes, np.full(self.columns, self.clip_level))

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

    @classmethod
    def make(cls, facts: LossRow, columns: int, alpha: Any, power: Any) -> Quantile:
        """Quantile loss of one level per output, or of several for one output."""
        what = f"loss={facts.name!r}"
        levels = list(alpha) if isinstance(alpha, Iterable) else [alpha]
        if not levels:
            raise ValueError(f"alpha of {what} holds no level; give one or several in (0, 1)")
        checked = tuple(_level(level, f"alpha of {what}") for level in levels)
        if columns > 1 and len(checked) > 1:
            raise ValueError(
                f"{what} takes several levels for one output, or one level for several, got "
                f"{len(checked)} levels and y with {columns} columns; fit the outputs one by one"
            )
        checked = checked * columns
        return cls(facts, len(checked), levels=checked)

    @property
    def leaf_quantile_level(self) -> np.ndarray:
        """The levels."""
        return np.array(self.levels)

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """The levels."""
        return np.array(self.levels)


@dataclass(frozen=True)
class PositiveLoss(FormulaLoss):
    """A loss of positive means: raw predictions are their logarithms."""

    def baseline(self, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Logarithm of the weighted mean."""
        mean = weighted_mean(as_columns(y), weights)
        if not (mean > 0.0).all():
            raise ValueError(
                f"loss={self.facts.name!r} needs a target whose weighted sum is above 0 in every "
                f"output, got means {mean.tolist()}; give weight to rows of positive target, or "
                "use loss='squared_error'"
            )
        return self.facts.link.forward(mean)


@dataclass(frozen=True)
class Tweedie(PositiveLoss):
    """Half the deviance of variance mean**power: zeros beside positive values."""

    power: float = 1.5

    @classmethod
    def make(cls, facts: LossRow, columns: int, alpha: Any, power: Any) -> Tweedie:
        """Tweedie loss of the outputs, checked."""
        return cls(facts, columns, _power(power))

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """The power."""
        return np.full(self.columns, self.power)


def _level(level: float | Sequence[float], what: str) -> float:
    """A level as float."""
    if isinstance(level, Real) and 0.0 < float(level) < 1.0:
        return float(level)
    raise ValueError(f"{what} must be strictly between 0 and 1, got {level!r}")


def _power(power: float) -> float:
    """The power of a Tweedie distribution with a mass at 0."""
    if isinstance(power, Real) and 1.0 < float(power) < 2.0:
        return float(power)
    raise ValueError(
        f"power of loss='tweedie' must be strictly between 1 and 2, got {power!r}; "
        "use loss='poisson' for 1 and loss='gamma' for 2"
    )
