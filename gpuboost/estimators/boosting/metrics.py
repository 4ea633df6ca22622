"""Metrics that boosting evaluates after each round: metrics of scikit-learn, or user functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn import metrics

from gpuboost.data.advice import warn_user

VALUES, LABELS, PROBABILITIES = "values", "classes", "probabilities"


@dataclass(frozen=True, eq=False)
class Metric:
    """A named function that scores predictions.

    Attributes
    ----------
    name : str
        Key in ``evals_result_``.
    score : callable
        ``score(truth, prediction) -> float``, with the keyword ``sample_weight`` if rows have
        weights other than 1.
    takes : {VALUES, LABELS, PROBABILITIES}
        Kind of ``prediction``: values of a regressor, encoded classes, or class probabilities (of
        the second class only if there are two). The truth of a classifier is encoded classes.
    greater_is_better : bool
        Whether larger scores are better.
    """

    name: str
    score: Callable[..., float]
    takes: str
    greater_is_better: bool = False


def _area_under_roc(truth: np.ndarray, predicted: np.ndarray, sample_weight: Any = None) -> float:
    several = {} if predicted.ndim == 1 else {"multi_class": "ovr"}
    return float(metrics.roc_auc_score(truth, predicted, sample_weight=sample_weight, **several))


def _log_loss(truth: np.ndarray, predicted: np.ndarray, sample_weight: Any = None) -> float:
    n_classes = 2 if predicted.ndim == 1 else predicted.shape[1]
    labels = np.arange(n_classes)
    return float(metrics.log_loss(truth, predicted, sample_weight=sample_weight, labels=labels))


_OF_VALUES = (
    Metric("rmse", metrics.root_mean_squared_error, VALUES),
    Metric("mse", metrics.mean_squared_error, VALUES),
    Metric("mae", metrics.mean_absolute_error, VALUES),
    Metric("mape", metrics.mean_absolute_percentage_error, VALUES),
    Metric("r2", metrics.r2_score, VALUES, greater_is_better=True),
    Metric("poisson_deviance", metrics.mean_poisson_deviance, VALUES),
    Metric("gamma_deviance", metrics.mean_gamma_deviance, VALUES),
    Metric("tweedie_deviance", partial(metrics.mean_tweedie_deviance, power=1.5), VALUES),
)
_OF_CLASSES = (
    Metric("accuracy", metrics.accuracy_score, LABELS, greater_is_better=True),
    Metric("balanced_accuracy", metrics.balanced_accuracy_score, LABELS, greater_is_better=True),
    Metric("error", metrics.zero_one_loss, LABELS),
    Metric("log_loss", _log_loss, PROBABILITIES),
    Metric("auc", _area_under_roc, PROBABILITIES, greater_is_better=True),
    Metric(
        "average_precision", metrics.average_precision_score, PROBABILITIES, greater_is_better=True
    ),
)


# Other names of metrics; scorers of scikit-learn have "neg_" before the names of losses.
_ALIASES = {
    "roc_auc": "auc",
    "roc_auc_ovr": "auc",
    "logloss": "log_loss",
    "mean_squared_error": "mse",
    "root_mean_squared_error": "rmse",
    "mean_absolute_error": "mae",
    "mean_absolute_percentage_error": "mape",
    "mean_poisson_deviance": "poisson_deviance",
    "mean_gamma_deviance": "gamma_deviance",
}


def _named(name: str, metric: Metric) -> Metric:
    """The metric under another name; with "neg_" before it, the score is negative."""
    if not name.startswith("neg_"):
        return replace(metric, name=name)

    def score(*given: Any, **weights: Any) -> float:
        return -metric.score(*given, **weights)

    better = not metric.greater_is_better
    return replace(metric, name=name, score=score, greater_is_better=better)


def read_metrics(given: Any, is_classifier: bool) -> list[Metric]:
    """The user's metrics, which are evaluated in addition to the loss.

    Parameters
    ----------
    given : str, callable, list of these, or None
        Callables are called as ``metric(truth, prediction)``, and with ``sample_weight=...`` if the
        evaluated rows have weights other than 1; rows of weight 0 are left out. The prediction is
        the result of `predict` or, in a classifier, of `predict_proba` (the second column if
        there are two classes); with a user-defined loss, it is the result of the ``predict`` of the
        loss or, without this method, the raw prediction. Smaller values are better unless the
        callable has a true attribute ``greater_is_better``. The power of 'tweedie_deviance' is 1.5,
        whatever ``tweedie_power`` is. scikit-learn's names of these metrics and other usual names
        (`_ALIASES`) are understood, too; ``evals_result_`` has them as given.
    """
    if given is None:
        return []
    several = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    known = {metric.name: metric for metric in (_OF_CLASSES if is_classifier else _OF_VALUES)}
    metrics = [_metric(each, known, is_classifier) for each in several]
    if len({metric.name for metric in metrics}) < len(metrics):
        raise ValueError(f"eval_metric needs different names (__name__), got {given!r:.80}")
    return metrics


def warn_of_metrics(given: Any, is_classifier: bool) -> None:
    """Warn of metrics that have no rows to be computed on."""
    if read_metrics(given, is_classifier):
        warn_user(
            f"eval_metric={given!r:.80} has no rows to be computed on; pass eval_set=[(X, y)] to "
            "fit, or set n_iter_no_change, which sets rows aside"
        )


def _metric(given: Any, known: dict[str, Metric], is_classifier: bool) -> Metric:
    if isinstance(given, str):
        name = _ALIASES.get(given.removeprefix("neg_"), given.removeprefix("neg_"))
        is_negative = given.startswith("neg_")
        if name in known and not (is_negative and known[name].greater_is_better):
            return _named(given, known[name])
    if callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        takes = PROBABILITIES if is_classifier else VALUES
        return Metric(name, given, takes, bool(getattr(given, "greater_is_better", False)))
    kind = "classifier" if is_classifier else "regressor"
    raise ValueError(
        f"eval_metric of a {kind} must be a function (truth, prediction) -> number or one of "
        f"{', '.join(map(repr, known))} (or the name of the same metric in scikit-learn), or a "
        f"list of these, got {given!r:.80}"
    )


def mean_over_levels(
    metric: Callable[..., float], y: Any, found: np.ndarray, levels: Sequence[float], weights: Any
) -> float:
    """Mean over quantile levels of a metric of scikit-learn that takes the level as ``alpha``."""
    by_level = zip(found.T, levels, strict=True)
    return float(np.mean([metric(y, own, sample_weight=weights, alpha=q) for own, q in by_level]))
