"""Rounds that are added to those of another fitted model, as LightGBM's ``init_model`` does."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from gpuboost.data.parameters import integer_at_least
from gpuboost.engine.losses import Loss
from gpuboost.estimators.boosting.model import BoostedRounds
from gpuboost.estimators.fitting.pipeline import RoundInputs, run_fit


def fit_further_rounds(
    estimator: Any, init_model: Any, rounds: RoundInputs, sample_weight: Any
) -> None:
    """Fit ``n_estimators`` rounds after those of ``init_model``, and keep all of them.

    This is a warm start of a copy of the estimator that has the fitted attributes of
    ``init_model``. After an error, both are as they were before.
    """
    before = _fitted(init_model, estimator)
    n_rounds = integer_at_least("n_estimators", estimator.n_estimators, 1)
    max_bins, categorical_features = before._binning
    continued = copy(estimator)
    continued._adopt({name: getattr(before, name) for name in before._fitted_names})
    continued.set_params(
        warm_start=True,
        n_estimators=before.n_estimators_ + n_rounds,
        max_bins=max_bins,
        categorical_features=categorical_features,
    )
    continued._adds_rounds = True
    run_fit(continued, rounds.X, rounds.y, sample_weight, rounds)
    estimator._adopt({name: getattr(continued, name) for name in continued._fitted_names})


def _fitted(init_model: Any, estimator: Any) -> Any:
    """The fitted estimator of gradient boosting that ``init_model`` is or consists of."""
    before: Any = getattr(init_model, "_boosting", init_model)
    names = "GradientBoostingRegressor", "GradientBoostingClassifier"
    kind: Any = next(own for own in type(estimator).__mro__ if own.__name__ in names)
    if not isinstance(before, kind):
        raise TypeError(
            f"init_model of a {kind.__name__} must be a fitted {kind.__name__} of gpuboost, got "
            f"{init_model!r:.80}"
        )
    if not isinstance(before._model, BoostedRounds):
        raise ValueError(f"init_model={init_model!r:.80} is not fitted; call its fit first")
    if estimator.init is not None:
        raise ValueError(
            f"init={estimator.init!r:.80} and init_model both say where boosting starts; pass one "
            "of them"
        )
    return before


def check_same_loss(before: Loss, now: Loss) -> None:
    """Check that rounds are added to those of the same loss."""
    if _description(before) != _description(now):
        raise ValueError(
            f"init_model was fitted with {_text(before)}, and rounds with {_text(now)} cannot be "
            "added to it; choose the same loss"
        )


def _description(loss: Loss) -> tuple[Any, ...]:
    """What two equal losses share; a user's object is equal to itself only."""
    given = getattr(loss, "given", None)
    own = None if loss.has_formula else getattr(loss, "objective", loss)
    return loss.facts.name, loss.columns, None if given is None else np.ravel(given).tolist(), own


def _text(loss: Loss) -> str:
    name, columns, given, own = _description(loss)
    parameter = "" if given is None else f" ({getattr(loss, 'parameter', '')}={given})"
    width = f" of {columns} columns" if columns > 1 else ""
    return f"loss={name if own is None else own!r:.60}{parameter}{width}"
