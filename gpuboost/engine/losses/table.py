"""The table of losses, and `make_loss`, which makes a loss by its name.

Each loss has one row here, two functions in `formulas`, and copies of both functions in
``kernels/boosting/losses.cuh``. Backends, checks of parameters and docstrings follow the table,
except for the lists in ``estimators/boosting/base.py``, which a test compares with it.
"""

from __future__ import annotations

from typing import Any

from gpuboost.engine.losses import formulas
from gpuboost.engine.losses.base import (
    CLASSES,
    INFORMATION,
    NOT_NEGATIVE,
    OWN,
    POSITIVE,
    REAL,
    TWO_CLASSES,
    WEIGHT,
    FormulaLoss,
    Loss,
    LossRow,
)
from gpuboost.engine.losses.classification import SoftmaxLoss
from gpuboost.engine.losses.links import HALF_LOGIT, IDENTITY, LOG, LOGIT, SOFTMAX
from gpuboost.engine.losses.regression import (
    Huber,
    OrderStatisticLoss,
    PositiveLoss,
    Quantile,
    QuantileBaseline,
    Tweedie,
)

# Numbers are the same in ``kernels/boosting/losses.cuh``; messages and docs keep this order.
TABLE = (
    LossRow(
        0,
        "squared_error",
        IDENTITY,
        WEIGHT,
        REAL,
        True,
        pair=formulas.squared_error,
        kind=FormulaLoss,
    ),
    LossRow(
        1, "absolute_error", IDENTITY, WEIGHT, pair=formulas.absolute_error, kind=OrderStatisticLoss
    ),
    LossRow(2, "huber", IDENTITY, WEIGHT, pair=formulas.huber, kind=Huber),
    LossRow(3, "quantile", IDENTITY, WEIGHT, pair=formulas.quantile, kind=Quantile),
    LossRow(4, "poisson", LOG, INFORMATION, NOT_NEGATIVE, pair=formulas.poisson, kind=PositiveLoss),
    LossRow(5, "gamma", LOG, OWN, POSITIVE, pair=formulas.gamma, kind=PositiveLoss),
    LossRow(6, "tweedie", LOG, OWN, NOT_NEGATIVE, pair=formulas.tweedie, kind=Tweedie),
    LossRow(
        7, "log_loss", LOGIT, INFORMATION, TWO_CLASSES, pair=formulas.log_loss, kind=FormulaLoss
    ),
    LossRow(
        8, "log_loss", SOFTMAX, INFORMATION, CLASSES, True, pair=formulas.softmax, kind=SoftmaxLoss
    ),
    LossRow(
        9, "exponential", HALF_LOGIT, OWN, TWO_CLASSES, pair=formulas.exponential, kind=FormulaLoss
    ),
    LossRow(10, "log_cosh", IDENTITY, pair=formulas.log_cosh, kind=QuantileBaseline),
)


def _names(is_classifier: bool) -> tuple[str, ...]:
    """Names of the losses for classes or for real-valued targets, without duplicates."""
    return tuple(dict.fromkeys(row.name for row in TABLE if row.is_classifier == is_classifier))


REGRESSION, CLASSIFICATION = _names(False), _names(True)
LOSSES = (*REGRESSION, *CLASSIFICATION)


def make_loss(name: str, n_outputs: int = 1, n_classes: int = 0, **parameters: Any) -> Loss:
    """Make the loss with the given name for a target.

    Parameters
    ----------
    name : str
        One of `CLASSIFICATION` for classes, one of `REGRESSION` for real-valued targets.
    n_outputs : int
        Number of columns of a real-valued target.
    n_classes : int
        Number of classes, 0 for real-valued targets.
    **parameters
        Parameters of losses; a loss ignores the parameters of other losses. For huber, ``alpha`` is
        the level of the quantile of absolute residuals above which the loss is linear; for
        quantile, it is one or several levels; for tweedie, ``power`` is the power of the mean to
        which the variance is proportional.

    Raises
    ------
    ValueError
        If there is no such loss for the target, or a parameter is out of range.
    TypeError
        If no loss has a parameter with this name.
    """
    known = {row.kind.parameter for row in TABLE} - {""}
    for given in parameters.keys() - known:
        raise TypeError(f"losses have no parameter {given!r}; they have {sorted(known)}")
    facts = _facts_of(name, n_classes)
    columns = n_classes if facts.target == CLASSES else 1 if n_classes else n_outputs
    own = [value for given, value in parameters.items() if given == facts.kind.parameter]
    return facts.kind.make(facts, columns, *own)


def _facts_of(name: str, n_classes: int) -> LossRow:
    """The row of a loss for ``n_classes`` classes, or for real-valued targets if 0."""
    rows = [row for row in TABLE if row.name == name and row.is_classifier == (n_classes > 0)]
    if not rows:
        names = CLASSIFICATION if n_classes else REGRESSION
        raise ValueError(
            f"loss must be one of {', '.join(map(repr, names))} for a "
            f"{'classification' if n_classes else 'regression'}, got {name!r}"
        )
    fitting = [row for row in rows if (row.target == CLASSES) == (n_classes > 2)]
    if not fitting:
        raise ValueError(
            f"loss={name!r} is only suitable for a binary classification problem, but y has "
            f"{n_classes} classes; use loss='log_loss'"
        )
    return fitting[0]
