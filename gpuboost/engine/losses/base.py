"""Base classes of losses; the docstring of the package explains how a loss is used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from gpuboost.engine import order_statistics
from gpuboost.engine.losses import formulas
from gpuboost.engine.losses.averages import weighted_mean
from gpuboost.engine.losses.links import IDENTITY, Link
from gpuboost.engine.numerics import sum_in_order

USER = -1  # the number of a user-defined loss
# Rows per block; faster than 1024, 16384 or all rows for log loss of 2 and 7 classes.
LOSS_BLOCK = 4096


# Kinds of hessians: the weight of the row, Fisher information (see `losses`), and all others (OWN).
WEIGHT, OWN, INFORMATION = "weight", "own", "information"
# Kinds of targets: real numbers, numbers of at least 0, numbers above 0, codes of two classes, and
# codes of several classes.
REAL, NOT_NEGATIVE, POSITIVE = "real", "not negative", "positive"
TWO_CLASSES, CLASSES = "two classes", "classes"


@dataclass(frozen=True)
class LossFacts:
    """The properties of a loss.

    Attributes
    ----------
    number : int
        Number by which backends choose compiled functions, as in ``kernels/boosting/losses.cuh``.
    name : str
        Name for users. A loss for two classes and a loss for several classes can share a name.
    link : Link
        Link between raw predictions and predictions.
    hessian : {WEIGHT, OWN, INFORMATION}
        Kind of the hessians.
    target : {REAL, NOT_NEGATIVE, POSITIVE, TWO_CLASSES, CLASSES}
        Kind of the targets.
    sums_outputs : bool
        Whether leaves of one tree can hold all columns (outputs of a regression, or classes).
    """

    number: int
    name: str
    link: Link
    hessian: str = OWN
    target: str = REAL
    sums_outputs: bool = False

    @property
    def is_classifier(self) -> bool:
        """Whether targets are codes of classes."""
        return self.target in (TWO_CLASSES, CLASSES)


@dataclass(frozen=True, kw_only=True)
class LossRow(LossFacts):
    """A row of `engine.losses.table`: a loss, with its functions in `engine.losses.formulas`.

    Attributes
    ----------
    pair : callable
        Computes the gradient and hessian of a row and column.
    kind : type of FormulaLoss
        Defines the baseline, the round parameter and, if it has a `LeafRule`, leaf values.
    """

    pair: Callable[..., Any]
    kind: type[FormulaLoss]

    @property
    def value(self) -> Callable[..., Any]:
        """The function of `formulas` that computes losses: `pair` with the suffix ``_loss``."""
        return getattr(formulas, f"{self.pair.__name__}_loss")


@dataclass(frozen=True, eq=False)
class Predicted:
    """Targets, current raw predictions and weights of rows.

    Attributes
    ----------
    y : float64 (n,) or (n, n_outputs), or class codes int32 (n,)
        Targets.
    raw : float64 (n, columns)
        Raw predictions.
    weights : float64 (n,) or None for ones
        Sample weights.
    order : module or object
        Has the functions `integer_weights`, `grouped_quantiles` and `grouped_clipped_means` of
        `engine.order_statistics`, or functions with the same results.
    """

    y: np.ndarray
    raw: np.ndarray
    weights: np.ndarray | None = None
    order: Any = order_statistics


def loss_blocks(n: int) -> list[slice]:
    """Slices of `LOSS_BLOCK` rows, few enough that intermediate arrays stay in the cache."""
    return [slice(start, start + LOSS_BLOCK) for start in range(0, n, LOSS_BLOCK)]


def as_columns(y: np.ndarray) -> np.ndarray:
    """Targets as float64 (n, outputs), to be compared with raw predictions."""
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


class LeafRule(Protocol):
    """How a loss computes leaf values that are not Newton steps.

    They are quantiles of the residuals in each leaf, plus a step if ``clip_quantile_level`` is not
    None.
    """

    @property
    def clip_quantile_level(self) -> float | None:
        """Quantile level of absolute residuals that limits the step (`Huber`), or None."""

    @property
    def leaf_quantile_level(self) -> np.ndarray:
        """Quantile level of each column: float64 (columns,)."""

    def leaf_values(
        self, rows: Predicted, leaf: np.ndarray, n_leaves: int, column: int, parameter: np.ndarray
    ) -> np.ndarray:
        """Constant to add to one column of ``raw`` in each leaf: float64 (n_leaves,).

        ``leaf`` (n,) is negative for rows in no leaf. The learning rate is applied afterwards.
        """


@dataclass(frozen=True)
class Loss(ABC):
    """A loss with a given number of columns of raw predictions."""

    facts: LossFacts
    columns: int = 1

    @property
    def formula(self) -> int:
        """The number of the loss; `USER` for user-defined losses."""
        return self.facts.number

    @property
    def has_formula(self) -> bool:
        """Whether `formulas` has functions of the loss; a user-defined loss has none."""
        return self.formula != USER

    @property
    def leaf_rule(self) -> LeafRule | None:
        """The rule for leaf values; None if they are Newton steps."""
        return None

    @property
    def constant_hessian(self) -> bool:
        """Whether the hessian of every row is its weight."""
        return self.facts.hessian == WEIGHT

    @property
    def moves_with_target(self) -> bool:
        """Whether a constant added to the target is added to the best raw predictions, too."""
        return self.facts.link == IDENTITY and self.has_formula

    @property
    def hessian_is_information(self) -> bool:
        """Whether hessians are Fisher information."""
        return self.facts.hessian == INFORMATION

    @property
    def is_classifier(self) -> bool:
        """Whether targets are codes of classes."""
        return self.facts.is_classifier

    @property
    def takes_rows(self) -> bool:
        """Whether the formulas need all columns of a row, as softmax does."""
        return self.facts.target == CLASSES

    def check_target(self, y: np.ndarray) -> None:
        """Check that the loss is defined for the targets.

        Raises
        ------
        ValueError
            If the loss is for positive means and all targets are zero, or one is negative, or one
            is zero and the loss is not defined for zeros.
        """
        if self.facts.target not in (NOT_NEGATIVE, POSITIVE):
            return
        smallest, allows_zero = float(y.min()), self.facts.target == NOT_NEGATIVE
        if smallest < 0.0 or (smallest == 0.0 and not allows_zero):
            row = int(np.argmin(y.reshape(len(y), -1).min(axis=1)))
            given = f"{smallest:g} in row {row}"
        elif float(y.max()) == 0.0:
            given = "only zeros"
        else:
            return
        allowed = "non-negative y and sum(y) > 0" if allows_zero else "strictly positive y"
        raise ValueError(
            f"loss={self.facts.name!r} requires {allowed}, got {given}; remove or shift such "
            "targets, or use loss='squared_error'"
        )

    def baseline(self, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Raw prediction of the best constant model: float64 (columns,)."""
        return self.facts.link.forward(weighted_mean(as_columns(y), weights))

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """The ``parameter`` of the formulas in this round, float64 (columns,): zeros if unused."""
        return np.zeros(self.columns)

    @abstractmethod
    def gradients(self, rows: Predicted, parameter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradients and hessians times weights, float64 (n, columns) each."""

    @abstractmethod
    def row_losses(self, rows: Predicted, parameter: np.ndarray) -> np.ndarray:
        """Loss of each row, float64 (n,): the mean over its columns.

        Units follow scikit-learn's GradientBoosting: squared error and the binomial deviance, twice
        the log loss of two classes, are not halved, although their gradients are
        (HistGradientBoosting reports half of each). Poisson, gamma and tweedie losses are half the
        deviance without the terms that depend only on y, as in scikit-learn.
        """

    def mean_loss(self, rows: Predicted, parameter: np.ndarray) -> float:
        """Weighted mean of `row_losses`, from sums that do not depend on the order."""
        return float(weighted_mean(self.row_losses(rows, parameter)[:, None], rows.weights)[0])

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """The prediction of each row: float64 (n, columns), for classifiers (n, n_classes)."""
        return self.facts.link.inverse(raw)


@dataclass(frozen=True)
class FormulaLoss(Loss):
    """A loss that is defined by a row of `engine.losses.table`.

    ``parameter`` is the name of the loss's parameter in `make_loss`, empty without a parameter.
    """

    facts: LossRow
    parameter: ClassVar[str] = ""

    @classmethod
    def make(cls, facts: LossRow, columns: int, given: Any = None) -> FormulaLoss:
        """Make the loss of a row of the table, for ``columns`` outputs or classes.

        ``given`` is the value of the loss's parameter.
        """
        return cls(facts, columns)

    @property
    def given(self) -> Any:
        """The value of the loss's parameter; None without a parameter."""
        return None

    def gradients(self, rows: Predicted, parameter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradients and hessians of the formulas, computed in blocks of rows."""
        raw, weights = rows.raw, rows.weights
        g = np.empty(raw.shape)
        h = None if self.constant_hessian else np.empty(raw.shape)
        for block in loss_blocks(len(raw)):
            own_g, own_h = self._unweighted(rows.y[block], raw[block], parameter)
            weight = 1.0 if weights is None else weights[block, None]
            g[block] = own_g * weight
            if h is not None:
                h[block] = own_h * weight
        if h is None:
            h = np.broadcast_to(1.0 if weights is None else weights[:, None], raw.shape)
        return g, h

    def _unweighted(self, y: np.ndarray, raw: np.ndarray, parameter: np.ndarray) -> Any:
        """Gradients and hessians for rows of weight 1."""
        return self.facts.pair(as_columns(y), raw, parameter)

    def row_losses(self, rows: Predicted, parameter: np.ndarray) -> np.ndarray:
        """Losses of rows by the formulas, computed in blocks of rows: float64 (n,)."""
        found = np.empty(len(rows.raw))
        for block in loss_blocks(len(found)):
            found[block] = self._values(rows.y[block], rows.raw[block], parameter)
        return found

    def _values(self, y: np.ndarray, raw: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """Losses of some rows, averaged over columns: float64 (n,)."""
        with np.errstate(over="ignore"):  # losses beyond float64 are infinite
            values = self.facts.value(as_columns(y), raw, parameter)
        return sum_in_order(values) / float(self.columns)
