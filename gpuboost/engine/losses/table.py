"""The table of losses, and from the name of a loss to the loss.

A loss is one row here, its two functions in `formulas`, and both in
``kernels/boosting/losses.cuh``. Backends, checks of parameters and docstrings follow the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuboost.engine.losses import formulas
from gpuboost.engine.losses.base import (
    CLASSES,
    INFORMATION,
    NOT_NEGATIVE,
    POSITIVE,
    TWO_CLASSES,
    WEIGHT,
    Loss,
    LossFacts,
    Settings,
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

# Numbers are those of ``kernels/boosting/losses.cuh``; the order is that of messages and docs.
TABLE: tuple[LossFacts, ...] = (
    LossFacts(
        number=0,
        name="squared_error",
        pair=formulas.squared_error,
        value=formulas.squared_error_loss,
        kind=Loss,
        link=IDENTITY,
        hessian=WEIGHT,
        sums_outputs=True,
    ),
    LossFacts(
        number=1,
        name="absolute_error",
        pair=formulas.absolute_error,
        value=formulas.absolute_error_loss,
        kind=OrderStatisticLoss,
        link=IDENTITY,
        hessian=WEIGHT,
    ),
    LossFacts(
        number=2,
        name="huber",
        pair=formulas.huber,
        value=formulas.huber_loss,
        kind=Huber,
        link=IDENTITY,
        hessian=WEIGHT,
    ),
    LossFacts(
        number=3,
        name="quantile",
        pair=formulas.quantile,
        value=formulas.quantile_loss,
        kind=Quantile,
        link=IDENTITY,
        hessian=WEIGHT,
    ),
    LossFacts(
        number=4,
        name="poisson",
        pair=formulas.poisson,
        value=formulas.poisson_loss,
        kind=PositiveLoss,
        link=LOG,
        hessian=INFORMATION,
        target=NOT_NEGATIVE,
    ),
    LossFacts(
        number=5,
        name="gamma",
        pair=formulas.gamma,
        value=formulas.gamma_loss,
        kind=PositiveLoss,
        link=LOG,
        target=POSITIVE,
    ),
    LossFacts(
        number=6,
        name="tweedie",
        pair=formulas.tweedie,
        value=formulas.tweedie_loss,
        kind=Tweedie,
        link=LOG,
        target=NOT_NEGATIVE,
    ),
    LossFacts(
        number=7,
        name="log_loss",
        pair=formulas.log_loss,
        value=formulas.log_loss_loss,
        kind=Loss,
        link=LOGIT,
        hessian=INFORMATION,
        target=TWO_CLASSES,
    ),
    LossFacts(
        number=8,
        name="log_loss",
        pair=formulas.softmax,
        value=formulas.softmax_loss,
        kind=SoftmaxLoss,
        link=SOFTMAX,
        hessian=INFORMATION,
        target=CLASSES,
        sums_outputs=True,
    ),
    LossFacts(
        number=9,
        name="exponential",
        pair=formulas.exponential,
        value=formulas.exponential_loss,
        kind=Loss,
        link=HALF_LOGIT,
        target=TWO_CLASSES,
    ),
    LossFacts(
        number=10,
        name="log_cosh",
        pair=formulas.log_cosh,
        value=formulas.log_cosh_loss,
        kind=QuantileBaseline,
        link=IDENTITY,
    ),
)


def _names(is_classifier: bool) -> tuple[str, ...]:
    """Names of losses, each once."""
    return tuple(dict.fromkeys(row.name for row in TABLE if row.is_classifier == is_classifier))


REGRESSION, CLASSIFICATION = _names(False), _names(True)
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
        One of `CLASSIFICATION` for classes, one of `REGRESSION` for real targets.
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
    facts = _facts_of(name, n_classes)
    columns = n_classes if facts.target == CLASSES else 1 if n_classes else n_outputs
    return facts.kind.make(facts, columns, Settings(alpha, power))


def _facts_of(name: str, n_classes: int) -> LossFacts:
    """The row of a loss for real targets, or for so many classes."""
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
            f"loss={name!r} is for 2 classes, but y has {n_classes}; use loss='log_loss'"
        )
    return fitting[0]
