"""The score that is reported beside a time: for every task and loss, larger is better."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.suite.settings import ABSOLUTE_ERROR, QUANTILE, Setting
from benchmarks.suite.tables import CLASSIFICATION, Table

_OF_LOSS = {ABSOLUTE_ERROR: "D2 absolute error", QUANTILE: "D2 pinball"}


def metric_name(table: Table, setting: Setting | None = None) -> str:
    """The metric: AUC for two classes, accuracy for more, R2 or the loss's D2 for a regression."""
    if table.task != CLASSIFICATION:
        return "R2" if setting is None else _OF_LOSS.get(setting.loss, "R2")
    return "AUC" if table.n_classes == 2 else "accuracy"


def score_of(
    model: Any, table: Table, outcome: np.ndarray, setting: Setting | None = None
) -> float:
    """Score the result of `predict_for`."""
    from sklearn import metrics

    metric = metric_name(table, setting)
    if metric == "AUC":
        return float(metrics.roc_auc_score(table.y, outcome[:, 1]))
    if metric == "accuracy":
        return float(metrics.accuracy_score(table.y, model.classes_[np.argmax(outcome, axis=1)]))
    if metric == "R2" or setting is None:
        return float(metrics.r2_score(table.y, outcome))
    level = setting.boosting.quantile if setting.loss == QUANTILE else 0.5
    return float(metrics.d2_pinball_score(table.y, outcome, alpha=level))


def predict_for(model: Any, table: Table, X: Any) -> np.ndarray:
    """Predict class probabilities or, in a regression, values."""
    return model.predict_proba(X) if table.task == CLASSIFICATION else model.predict(X)
