"""Evaluation after each round of boosting, and early stopping."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuboost.backends.protocol import Booster
from gpuboost.engine.ensembles.boosting_task import RowSet
from gpuboost.engine.losses import Loss
from gpuboost.estimators.boosting.metrics import LABELS, PROBABILITIES, Metric


@dataclass(frozen=True, eq=False)
class MonitoredSet:
    """A set of rows that is evaluated after each round.

    Attributes
    ----------
    name : str
        Key in ``evals_result_``.
    place : int
        Index among the booster's row sets.
    rows : RowSet
        Targets and weights of the rows.
    metrics : list of Metric
        Metrics evaluated in addition to the loss.
    """

    name: str
    place: int
    rows: RowSet
    metrics: list[Metric]

    def scores(self, booster: Booster, loss: Loss, mean_loss: float) -> dict[str, float]:
        """The given mean loss and the value of each metric after the rounds so far, by name.

        Metrics ignore rows of weight zero.
        """
        found = {loss.facts.name: mean_loss}
        if self.metrics:
            prediction = loss.predict(booster.raw_predictions(self.place))
            seen = slice(None) if self.rows.weights is None else self.rows.weights > 0
            for metric in self.metrics:
                found[metric.name] = self._score(metric, prediction, seen)
        return found

    def _score(self, metric: Metric, prediction: np.ndarray, seen: Any) -> float:
        truth, given = self.rows.y[seen], as_metric_takes(metric, prediction[seen])
        weights = None if self.rows.weights is None else self.rows.weights[seen]
        if weights is None or (weights == 1.0).all():
            return float(metric.score(truth, given))
        return float(metric.score(truth, given, sample_weight=weights))


def as_metric_takes(metric: Metric, prediction: np.ndarray) -> np.ndarray:
    """Predictions in the form that a metric takes: classes, class probabilities or values."""
    if metric.takes == LABELS:
        return prediction.argmax(axis=1)
    if metric.takes == PROBABILITIES and prediction.shape[1] == 2:
        return prediction[:, 1]
    return prediction[:, 0] if prediction.shape[1] == 1 else prediction


@dataclass
class EarlyStopping:
    """The rule that ends a fit after ``patience`` consecutive rounds without an improvement.

    Attributes
    ----------
    patience : int
        Number of rounds without an improvement that end the fit.
    tol : float
        A round is an improvement if its score is better than ``best`` by more than this.
    greater_is_better : bool
        Whether larger scores are better.
    best : float
        Score of the last improvement, times -1 if greater is better. Later scores can be better by
        up to ``tol``.
    best_round : int
        Number of the round of the last improvement.
    waited : int
        Number of rounds since the last improvement.
    """

    patience: int
    tol: float
    greater_is_better: bool
    best: float = field(init=False, default=np.inf)
    best_round: int = field(init=False, default=0)
    waited: int = field(init=False, default=0)

    def stops(self, number: int, score: float) -> bool:
        """Record the score of a round, which must not be NaN; return whether to stop after it."""
        if np.isnan(score):
            raise ValueError(
                f"early stopping needs a score after each round, got NaN after round {number}: "
                "pass an eval_metric that is defined on these rows, or give your loss a method loss"
            )
        value = -score if self.greater_is_better else score
        if value < self.best - self.tol:
            self.best, self.best_round, self.waited = value, number, 0
        else:
            self.waited += 1
        return self.waited >= self.patience
