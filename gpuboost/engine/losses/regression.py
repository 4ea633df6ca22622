"""Losses for real-valued targets: their baselines, round parameters and leaf rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from gpuboost.engine.losses.averages import weighted_mean
from gpuboost.engine.losses.base import FormulaLoss, LeafRule, LossRow, Predicted, as_columns
from gpuboost.engine.order_statistics import GroupedRows, all_rows


@dataclass(frozen=True)
class QuantileBaseline(FormulaLoss):
    """A loss whose baseline is a quantile of the target, equal or close to the best constant."""

    @property
    def leaf_quantile_level(self) -> np.ndarray:
        """Quantile level of each column: 0.5, the median."""
        return np.full(self.columns, 0.5)

    def baseline(self, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Weighted quantile for each column; its midpoint if the quantile is an interval."""
        start = Predicted(y, np.zeros((len(y), self.columns)), weights)
        values = (self.residuals(start, k) for k in range(self.columns))
        return _quantiles(start, values, self.leaf_quantile_level)

    def targets_and_raw(self, rows: Predicted, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Targets and raw predictions of one column, (n,) each."""
        y = as_columns(rows.y)
        return y[:, column % y.shape[1]], rows.raw[:, column]

    def residuals(self, rows: Predicted, column: int) -> np.ndarray:
        """Residuals of one column: (n,)."""
        return np.subtract(*self.targets_and_raw(rows, column))


@dataclass(frozen=True)
class OrderStatisticLoss(QuantileBaseline):
    """A loss whose baseline is a quantile of the target; leaf values are quantiles of residuals.

    If ``clip_quantile_level`` is not None, the parameter of a round is a limit: the quantile of the
    absolute residuals at this quantile level. Leaf values are then medians plus the mean of the
    differences between residuals and median, each clipped to [-limit, limit] (`Huber`).
    """

    clip_quantile_level: float | None = None

    @property
    def leaf_rule(self) -> LeafRule:
        """The loss itself."""
        return self

    def leaf_values(
        self, rows: Predicted, leaf: np.ndarray, n_leaves: int, column: int, parameter: np.ndarray
    ) -> np.ndarray:
        """Best constant to add to one column of ``raw`` in each leaf: float64 (n_leaves,).

        The constant is the weighted quantile of the leaf's residuals (Friedman 2001, algorithm 3).
        If the parameter is a limit, the mean of their differences from this quantile is added to
        it; each difference is clipped, not the mean (algorithm 4).
        """
        order, at = rows.order, float(self.leaf_quantile_level[column])
        residuals = GroupedRows(leaf, n_leaves, *self.targets_and_raw(rows, column))
        given = residuals, order.integer_weights(rows.weights, len(rows.y))
        found: np.ndarray = order.grouped_quantiles(*given, at)
        if self.clip_quantile_level is None:
            return found
        return found + order.grouped_clipped_means(*given, found, float(parameter[column]))


def _quantiles(
    rows: Predicted, columns: Iterable[np.ndarray], quantile_levels: Iterable[float]
) -> np.ndarray:
    """Quantile of each column over all rows, at its quantile level: float64 (columns,)."""
    order, pairs = rows.order, zip(columns, quantile_levels, strict=True)
    integers = order.integer_weights(rows.weights, len(rows.y))
    found = [order.grouped_quantiles(all_rows(own), integers, float(at)) for own, at in pairs]
    return np.concatenate(found)


@dataclass(frozen=True)
class Huber(OrderStatisticLoss):
    """Huber loss: quadratic up to delta, a quantile of the absolute residuals.

    ``clip_quantile_level`` is the level of this quantile.
    """

    parameter = "alpha"

    @classmethod
    def make(cls, facts: LossRow, columns: int, given: Any = 0.9) -> Huber:
        """Check the quantile level and make the loss."""
        return cls(facts, columns, _quantile_level(given, f"alpha of loss={facts.name!r}"))

    @property
    def given(self) -> float | None:
        """The quantile level of the absolute residuals."""
        return self.clip_quantile_level

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """Delta of each column: the loss is linear above it (Friedman 2001, algorithm 4)."""
        sizes = (np.abs(self.residuals(rows, k)) for k in range(self.columns))
        return _quantiles(rows, sizes, np.full(self.columns, self.clip_quantile_level))


@dataclass(frozen=True)
class Quantile(OrderStatisticLoss):
    """Pinball loss: one column per quantile level or, with a single level, one per output."""

    quantile_levels: tuple[float, ...] = (0.5,)
    parameter = "alpha"

    @classmethod
    def make(cls, facts: LossRow, columns: int, given: Any = 0.9) -> Quantile:
        """Check ``given``, one level for all outputs or several for one, and make the loss."""
        what = f"loss={facts.name!r}"
        quantile_levels = list(given) if isinstance(given, Iterable) else [given]
        if not quantile_levels:
            raise ValueError(f"alpha of {what} holds no level; give one or several in (0, 1)")
        checked = tuple(_quantile_level(own, f"alpha of {what}") for own in quantile_levels)
        if columns > 1 and len(checked) > 1:
            raise ValueError(
                f"{what} takes several levels for one output, or one level for several outputs, "
                f"got {len(checked)} levels and y with {columns} columns; fit each output by itself"
            )
        checked = checked * columns
        return cls(facts, len(checked), quantile_levels=checked)

    @property
    def given(self) -> tuple[float, ...]:
        """The quantile level of each column."""
        return self.quantile_levels

    @property
    def leaf_quantile_level(self) -> np.ndarray:
        """Quantile level of each column."""
        return np.array(self.quantile_levels)

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """Quantile level of each column."""
        return np.array(self.quantile_levels)


@dataclass(frozen=True)
class PositiveLoss(FormulaLoss):
    """A loss for positive means; raw predictions are logarithms of means."""

    def baseline(self, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Logarithm of the weighted mean of each output."""
        mean = weighted_mean(as_columns(y), weights)
        if not (mean > 0.0).all():
            raise ValueError(
                f"loss={self.facts.name!r} needs a target whose weighted sum is above 0 in every "
                f"output, got means {mean.tolist()}; give weight to rows with y > 0, or "
                "use loss='squared_error'"
            )
        return self.facts.link.forward(mean)


@dataclass(frozen=True)
class Tweedie(PositiveLoss):
    """Half the Tweedie deviance (variance mean**power), for targets that are zero or positive."""

    power: float = 1.5
    parameter = "power"

    @classmethod
    def make(cls, facts: LossRow, columns: int, given: Any = 1.5) -> Tweedie:
        """Check the power and make the loss."""
        # From 1 to 2, the Tweedie distribution has a point mass at 0.
        if not (isinstance(given, Real) and 1.0 < float(given) < 2.0):
            raise ValueError(
                f"power of loss='tweedie' must be strictly between 1 and 2, got {given!r}; "
                "use loss='poisson' for 1 and loss='gamma' for 2"
            )
        return cls(facts, columns, float(given))

    @property
    def given(self) -> float:
        """The power."""
        return self.power

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """The power, repeated for each column."""
        return np.full(self.columns, self.power)


def _quantile_level(given: float | Sequence[float], what: str) -> float:
    """Check a quantile level and return it as a float."""
    if isinstance(given, Real) and 0.0 < float(given) < 1.0:
        return float(given)
    raise ValueError(f"{what} must be strictly between 0 and 1, got {given!r}")
