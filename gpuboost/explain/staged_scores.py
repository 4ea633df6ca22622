"""Scores of a fitted ensemble by the number of its trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.parameters import integer_between
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.sampling import ALL_ROWS
from gpuboost.estimators.adaboost.estimators import AdaBoost, AdaBoostClassifier
from gpuboost.estimators.boosting.base import GradientBoosting
from gpuboost.estimators.boosting.hist_gradient_boosting import HistGradientBoosting
from gpuboost.estimators.fitting.mixins import copied_to_host
from gpuboost.estimators.forest.ensemble import TreeEnsemble
from gpuboost.estimators.forest.out_of_bag import check_training_rows, is_out_of_bag

ENSEMBLES = (TreeEnsemble, AdaBoost, GradientBoosting, HistGradientBoosting)


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Scores of an ensemble by the number of its trees.

    Attributes
    ----------
    n_estimators : ndarray of int of shape (n_points,)
        Numbers of trees, in boosting of rounds, ascending.
    train : ndarray of float64 of shape (n_points,)
        Score of the training rows.
    validation : ndarray of float64 of shape (n_points,), or None
        Score of the validation rows; None without them.
    out_of_bag : ndarray of float64 of shape (n_points,), or None
        Score of the training rows, each predicted by the trees that were not grown on it; rows
        without such a tree are left out, and NaN stands for too few rows. None if each tree was
        grown on all rows, in boosting and in AdaBoost.
    """

    n_estimators: np.ndarray
    train: np.ndarray
    validation: np.ndarray | None
    out_of_bag: np.ndarray | None


def learning_curve(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    X_val: Any = None,
    y_val: Any = None,
    sample_weight: Any = None,
    sample_weight_val: Any = None,
    scoring: Any = None,
    n_estimators: Any = None,
) -> LearningCurve:
    """Scores by the number of trees, of the trees that one fit has grown.

    The first k trees of a forest, of bagging or of boosting are the model that a fit with k trees
    gives, so no other fit is needed (unless early stopping, or a ``random_state`` that is not an
    integer, makes fits different). scikit-learn's function of the same name varies the number of
    rows instead, and fits for each.

    In forests and bagging, the out-of-bag score is nearly that of new rows, without any set aside,
    but it is that of about a third of the trees. In gradient boosting with ``subsample`` below 1,
    all rows but those of the last round have been seen, so there is no such score (the fitted
    attribute ``oob_improvement_`` has the losses of scikit-learn's definition); use ``X_val``.

    Parameters
    ----------
    estimator : fitted forest, bagging, AdaBoost or gradient boosting
    X : array-like, sparse matrix, data frame or Dataset of shape (n_samples, n_features)
        The rows that it was fitted on.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The targets that it was fitted on.
    X_val, y_val : as X and y, optional
        Validation rows.
    sample_weight, sample_weight_val : array-like of shape (n_samples,), optional
        Weights of the rows in scores.
    scoring : str, callable or None
        Name of a scorer of scikit-learn, or a function ``scoring(estimator, X, y)``; the estimator
        that it gets predicts these rows only. None means the estimator's `score`: accuracy or R2.
    n_estimators : array-like of int, optional
        Numbers of trees to score. None means all.

    Returns
    -------
    LearningCurve

    Raises
    ------
    NotFittedError
        The estimator is not fitted.
    TypeError, ValueError
        An argument does not fit the model; the message says what is allowed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuboost import RandomForestClassifier
    >>> from gpuboost.explain import learning_curve
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> curve = learning_curve(forest, X, y, n_estimators=[10, 20])
    >>> curve.out_of_bag.shape
    (2,)
    """
    check_is_fitted(estimator)
    is_sklearn = getattr(estimator, "_sklearn_model", None) is not None
    if not isinstance(estimator, ENSEMBLES) or is_sklearn:
        raise TypeError(
            f"learning_curve takes an ensemble of gpuboost's trees, got {estimator!r:.80}; use "
            "sklearn.model_selection.learning_curve, by number of rows, for other models"
        )
    points = _points(n_estimators, getattr(estimator, "_boosting", estimator))
    scorer, validation, out_of_bag = check_scoring(estimator, scoring), None, None

    def scores(stages: Iterable[Stage], *rows: Any) -> np.ndarray:
        return _scores(scorer, stages, points, *rows)

    rows = X, *copied_to_host(y, sample_weight)
    if X_val is not None:
        validation_rows = X_val, *copied_to_host(y_val, sample_weight_val)
        validation = scores(_stages(estimator, X_val), *validation_rows)
    if not isinstance(estimator, TreeEnsemble):
        return LearningCurve(points, scores(_stages(estimator, X), *rows), validation, None)
    leaves, batches = copy_to_host(estimator._leaves(X)), estimator._model.batches
    if any(batch.sampler.method != ALL_ROWS for batch in batches):
        check_training_rows(batches, len(leaves))
        masks = (is_out_of_bag(own.sampler, tree) for own in batches for tree in own.trees)
        out_of_bag = scores(_forest_stages(estimator, leaves, masks), *rows)
    train = scores(_forest_stages(estimator, leaves), *rows)
    return LearningCurve(points, train, validation, out_of_bag)


# A fitted copy of an estimator, with the predictions of its first trees for some rows and for
# nothing else, and the mask of the rows that it predicts; None means all.
Stage = tuple[Any, np.ndarray | None]


def _points(n_estimators: Any, estimator: Any) -> np.ndarray:
    """The numbers of trees or rounds to score, ascending."""
    model = estimator._model
    n_fitted = getattr(model, "n_rounds", model.ensemble.n_trees)
    if n_estimators is None:
        return np.arange(1, n_fitted + 1)
    given = [integer_between("n_estimators", each, 1, n_fitted) for each in n_estimators]
    return np.unique(given)


def _stages(estimator: Any, X: Any) -> Iterator[Stage]:
    """The models of the first tree, of the first two, and so on, for X."""
    if isinstance(estimator, HistGradientBoosting):
        for own, _ in _stages(estimator._boosting, X):
            yield _with_attribute(estimator, "_boosting", own), None
        return
    if isinstance(estimator, TreeEnsemble):
        yield from _forest_stages(estimator, copy_to_host(estimator._leaves(X)))
        return
    if isinstance(estimator, GradientBoosting):
        name, staged = "_raw_predictions", estimator._staged_raw(X)
    elif isinstance(estimator, AdaBoostClassifier):
        name, staged = "decision_function", estimator.staged_decision_function(X)
    else:
        name, staged = "predict", estimator.staged_predict(X)
    for values in staged:
        yield _predicting(estimator, name, copy_to_host(values)), None


def _forest_stages(
    estimator: Any, leaves: np.ndarray, masks: Iterable[Any] | None = None
) -> Iterator[Stage]:
    """The same for forests and bagging, by the leaves (n, n_trees) of the rows.

    With ``masks``, each tree predicts the rows of its mask only.
    """
    is_hard = estimator._voting_rule() == "hard"
    ensemble = estimator._model.votes if is_hard else estimator._ensemble
    total, count = np.zeros((len(leaves), ensemble.n_values)), np.zeros(len(leaves))
    every: Iterable[Any] = repeat(True, ensemble.n_trees) if masks is None else masks
    for tree, mask in enumerate(every):
        total += np.where(mask, ensemble.value[ensemble.offset[tree] + leaves[:, tree]].T, 0.0).T
        count += mask
        seen = count > 0.0
        means = total[seen] / count[seen, None]
        yield _predicting(estimator, "_mean_values", means), seen


def _predicting(estimator: Any, method: str, values: np.ndarray) -> Any:
    """A copy of an estimator that has the result of one of its methods already."""
    return _with_attribute(estimator, method, lambda *_: values)


def _with_attribute(estimator: Any, name: str, value: Any) -> Any:
    """A copy of an estimator with another value of an attribute."""
    shown = copy(estimator)
    vars(shown)[name] = value
    return shown


def _scores(
    scorer: Callable[..., float],
    stages: Iterable[Stage],
    points: np.ndarray,
    X: Any,
    y: Any,
    weights: Any,
) -> np.ndarray:
    """The scores of some stages; NaN if a stage predicts too few rows for R2, or none."""
    scores, y = np.full(len(points), np.nan), np.asarray(y)
    for number, (model, seen) in enumerate(stages, 1):
        place = np.searchsorted(points, number)
        if place == len(points):
            break
        if points[place] == number:
            rows = X, y, weights
            if seen is not None and not seen.all():
                rows = _rows_of(X, y, weights, np.flatnonzero(seen))
            if len(rows[1]) >= (1 if is_classifier(model) else 2):
                given = {} if rows[2] is None else {"sample_weight": rows[2]}
                scores[place] = scorer(model, *rows[:2], **given)
    return scores


def _rows_of(X: Any, y: np.ndarray, weights: Any, chosen: np.ndarray) -> tuple[Any, ...]:
    """Some rows of X, y and the weights."""
    own = None if weights is None else np.asarray(weights)[chosen]
    return _safe_indexing(X, chosen), y[chosen], own
