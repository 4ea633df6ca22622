"""Scores of `HistGradientBoosting*` after each round, by the rules of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import train_test_split
from sklearn.utils import resample

from gpuboost.data.arrays import copied_to_host
from gpuboost.data.parameters import boolean, integer_at_least, number_between, one_of
from gpuboost.engine.losses import Loss
from gpuboost.engine.losses.base import Predicted
from gpuboost.estimators.boosting.training import RoundSetup
from gpuboost.estimators.inputs.dataset import Dataset

STOPS_ABOVE = 10_000  # number of rows above which early_stopping='auto' stops early
SCORED_ROWS = 10_000  # maximum number of training rows that a scorer gets, as in scikit-learn
LOSS = "loss"  # the value of ``scoring`` that stands for the loss


@dataclass(frozen=True, eq=False)
class FitRows:
    """Rows as the user gave them; ``weights`` is None without weights."""

    X: Any
    y: Any
    weights: Any = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int((getattr(self.y, "shape", ()) or np.asarray(self.y).shape)[0])

    @property
    def as_evaluated(self) -> tuple[Any, Any, Any]:
        """The rows as an element of ``eval_set``."""
        return self.X, self.y, self.weights

    def drawn(self, draw: Callable[..., Any]) -> list[FitRows]:
        """The groups of rows that a function of scikit-learn draws from these."""
        if isinstance(self.X, Dataset):
            raise TypeError(
                "early stopping draws rows from X, which cannot be done with a gpuboost.Dataset; "
                "pass X_val and y_val with scoring='loss', or early_stopping=False, or the table "
                "itself"
            )
        given = [self.X, self.y] if self.weights is None else list(self.as_evaluated)
        found = draw(*given)
        n_groups = len(found) // len(given)
        return [FitRows(*found[group::n_groups]) for group in range(n_groups)]


def given_validation(estimator: Any, X: Any, y: Any, weights: Any) -> FitRows | None:
    """The validation rows that `fit` got, or None; an error if they are incomplete or unused."""
    if X is None and y is None:
        return None
    if X is None or y is None:
        given, other = ("y_val", "X_val") if X is None else ("X_val", "y_val")
        raise ValueError(f"{given} is provided, but {other} was not provided; pass both or none")
    if estimator.early_stopping is False:
        raise ValueError(
            "X_val and y_val are passed to fit while at the same time early_stopping is False; "
            "set early_stopping to 'auto' or True"
        )
    return FitRows(X, y, weights)


def stops_early(estimator: Any, n_rows: int, validation: FitRows | None) -> bool:
    """Whether a fit stops early; checks the parameters of early stopping."""
    integer_at_least("n_iter_no_change", estimator.n_iter_no_change, 1)
    number_between("tol", estimator.tol, 0.0)
    if isinstance(estimator.early_stopping, str):
        one_of("early_stopping", estimator.early_stopping, ("auto",))
        return validation is not None or n_rows > STOPS_ABOVE
    return boolean("early_stopping", estimator.early_stopping)


def split(estimator: Any, rows: FitRows, seed: int) -> tuple[FitRows, FitRows]:
    """Rows to be fitted, and rows set aside for early stopping."""
    share, classes = estimator.validation_fraction, _classes(estimator, rows)
    draw = partial(train_test_split, test_size=share, random_state=seed, stratify=classes)
    kept, apart = rows.drawn(draw)
    return kept, apart


def rows_to_score(
    estimator: Any, rows: FitRows, validation: FitRows | None, seed: int
) -> list[FitRows]:
    """The rows to be evaluated: training rows if there is a scorer, and the validation rows.

    A scorer gets at most `SCORED_ROWS` training rows, with the classes in proportion.
    """
    chosen = [] if estimator.scoring == LOSS else [rows]
    if chosen and rows.n > SCORED_ROWS:
        classes = _classes(estimator, rows)
        draw = partial(
            resample, n_samples=SCORED_ROWS, replace=False, random_state=seed, stratify=classes
        )
        chosen = rows.drawn(draw)
    return chosen if validation is None else [*chosen, validation]


def _classes(estimator: Any, rows: FitRows) -> Any:
    """The classes by which rows are drawn, on the host; None in a regressor."""
    return copied_to_host(rows.y)[0] if is_classifier(estimator) else None


@dataclass
class Scores:
    """Scores after each round; ends the fit if the last rounds were no improvement.

    Attributes
    ----------
    estimator : HistGradientBoosting
        The estimator that is fitted.
    evaluated : list of FitRows
        Rows of ``eval_set``: for a scorer, first training rows; then, if there are any, the
        validation rows.
    train, validation : list of float
        Scores before the first round, and after each round.
    """

    estimator: Any
    evaluated: list[FitRows]
    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    _score: Callable[..., float] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.estimator.scoring != LOSS:
            self._score = check_scoring(self.estimator, self.estimator.scoring)

    def __call__(self, number: int, boosting: Any, state: dict[str, Any]) -> bool:
        """Score a round; return whether to stop after it. ``state`` is that of a `BoostingFit`."""
        setup: RoundSetup = state["setup"]
        if not self.train:
            self._add(setup, boosting, None)
        self._add(setup, boosting, state)
        return bool(self.estimator._should_stop(self.validation or self.train))

    def _add(self, setup: RoundSetup, boosting: Any, state: dict[str, Any] | None) -> None:
        """Add the scores after the last round or, without a state, before the first."""
        if self._score is None:
            found = [-loss for loss in _losses(setup, state)]
        else:
            found = [
                self._score_of(setup, boosting, rows, raw)
                for rows, raw in zip(self.evaluated, _raw(setup, state), strict=True)
            ]
        self.train.append(found[0])
        self.validation += found[1:]

    def _score_of(self, setup: RoundSetup, boosting: Any, rows: FitRows, raw: np.ndarray) -> float:
        """The user's score of the raw predictions of some rows."""
        assert self._score is not None
        shown, facts = copy(self.estimator), setup.prepared.labels.attributes()
        vars(shown).update(facts, _boosting=_predicting(boosting, setup.loss, rows.X, raw, facts))
        y, weights = copied_to_host(rows.y, rows.weights)
        given = {} if weights is None else {"sample_weight": weights}
        return float(self._score(shown, rows.X, y, **given))


def _losses(setup: RoundSetup, state: dict[str, Any] | None) -> list[float]:
    """Mean losses of the training rows and of the evaluated rows, in scikit-learn's units."""
    loss = setup.loss
    # HistGradientBoosting halves squared errors and the deviance of two classes.
    is_double = loss.facts.name == "squared_error" or (loss.is_classifier and loss.columns == 1)
    unit = 0.5 if is_double else 1.0
    if state is not None:
        results = [of_rows[loss.facts.name][-1] for of_rows in state["results"].values()]
        return [unit * mean for mean in (state["train_scores"][-1], *results)]
    found = []
    for rows in (setup.train, *(each.rows for each in setup.monitored)):
        own = Predicted(rows.y, rows.raw, rows.weights)
        found.append(unit * loss.mean_loss(own, loss.round_parameter(own)))
    return found


def _raw(setup: RoundSetup, state: dict[str, Any] | None) -> list[np.ndarray]:
    """Raw predictions of the evaluated rows."""
    if state is None:
        return [each.rows.raw for each in setup.monitored]
    return [state["booster"].raw_predictions(each.place) for each in setup.monitored]


def _predicting(boosting: Any, loss: Loss, X: Any, raw: np.ndarray, facts: dict[str, Any]) -> Any:
    """A copy of an estimator that has the given raw predictions for X, and for nothing else."""

    def known(given: Any, *_: Any) -> np.ndarray:
        if given is not X:
            raise ValueError(
                "a scorer of early stopping can only have the rows predicted that it is called "
                "with; pass scoring='loss', or a function of the estimator, X and y that calls "
                "estimator.predict(X)"
            )
        return raw

    shown = copy(boosting)
    shown._adopt({**facts, "_model": SimpleNamespace(loss=loss), "_raw_predictions": known})
    return shown
