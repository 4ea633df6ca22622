"""From the name of a loss to the loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real

from gpuboost.engine.losses.base import Loss
from gpuboost.engine.losses.classification import Exponential, LogLoss, MulticlassLogLoss
from gpuboost.engine.losses.regression import (
    AbsoluteError,
    Gamma,
    Huber,
    Poisson,
    Quantile,
    SquaredError,
    Tweedie,
)

_PLAIN = {cls.name: cls for cls in (SquaredError, AbsoluteError, Poisson, Gamma)}
REGRESSION = ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie")
CLASSIFICATION = ("log_loss", "exponential")
LOSSES = (*REGRESSION, *CLASSIFICATION)


def make_loss(
    name: str,
    n_outputs: int = 1,
    n_classes: int = 0,
    alpha: float | Sequence[float] = 0.9,
    power: float = 1.5,
) -> Loss:
    """The loss of that name for a target.

    Parameters
    ----------
    name : str
        One of `LOSSES`: ``log_loss`` and ``exponential`` for classes, the others for real targets.
    n_outputs : int
        Columns of a real target.
    n_classes : int
        Number of classes, 0 for real targets.
    alpha : float, or several for quantile
        Quantile of the absolute residuals where huber turns linear; levels of quantile.
    power : float
        Of tweedie.

    Raises
    ------
    ValueError
        For a loss that is not there for such a target, and parameters out of range.
    """
    if n_classes:
        return _of_classes(name, n_classes)
    if name in _PLAIN:
        return _PLAIN[name](n_outputs)
    if name == "huber":
        return Huber(n_outputs, _level(alpha, "alpha of loss='huber'"))
    if name == "quantile":
        return _quantile(alpha, n_outputs)
    if name == "tweedie":
        return Tweedie(n_outputs, _power(power))
    raise ValueError(
        f"loss must be one of {', '.join(map(repr, REGRESSION))} for a regression, got {name!r}"
    )


def _of_classes(name: str, n_classes: int) -> Loss:
    """A loss of classes."""
    if name == "log_loss":
        return LogLoss() if n_classes <= 2 else MulticlassLogLoss(n_classes)
    if name != "exponential":
        raise ValueError(
            f"loss must be one of {', '.join(map(repr, CLASSIFICATION))} for a classification, "
            f"got {name!r}"
        )
    if n_classes > 2:
        raise ValueError(
            f"loss='exponential' is for 2 classes, but y has {n_classes}; use loss='log_loss'"
        )
    return Exponential()


def _quantile(alpha: float | Sequence[float], n_outputs: int) -> Quantile:
    """Quantile loss of one level per output, or of several for one output."""
    levels = list(alpha) if isinstance(alpha, Iterable) else [alpha]
    if not levels:
        raise ValueError("alpha of loss='quantile' holds no level; give one or several in (0, 1)")
    checked = tuple(_level(level, "alpha of loss='quantile'") for level in levels)
    if n_outputs > 1 and len(checked) > 1:
        raise ValueError(
            f"loss='quantile' takes several levels for one output, or one level for several, got "
            f"{len(checked)} levels and y with {n_outputs} columns; fit the outputs one by one"
        )
    if n_outputs > 1:
        checked = checked * n_outputs
    return Quantile(len(checked), checked)


def _level(level: object, what: str) -> float:
    """A level as float."""
    if isinstance(level, Real) and 0.0 < float(level) < 1.0:
        return float(level)
    raise ValueError(f"{what} must be strictly between 0 and 1, got {level!r}")


def _power(power: object) -> float:
    """The power of a Tweedie distribution with a mass at 0."""
    if isinstance(power, Real) and 1.0 < float(power) < 2.0:
        return float(power)
    raise ValueError(
        f"power of loss='tweedie' must be strictly between 1 and 2, got {power!r}; "
        "use loss='poisson' for 1 and loss='gamma' for 2"
    )
