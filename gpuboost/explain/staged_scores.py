"""Scores of a fitted ensemble by the number of its trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.arrays import as_host_array, copied_to_host
from gpuboost.data.parameters import integer_between
from gpuboost.data.validation import check_same_length, check_weights
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.sampling import ALL_ROWS
from gpuboost.estimators.adaboost.estimators import AdaBoost, AdaBoostClassifier
from gpuboost.estimators.boosting.base import GradientBoosting
from gpuboost.estimators.boosting.hist_gradient_boosting import HistGradientBoosting
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
        without such a tree are left out, and NaN means that the others have no score, for example
        because there are too few or none of one class. None if each tree was grown on all rows, in
        boosting and in AdaBoost.
    metric : str
        Name of the score.
    """

    n_estimators: np.ndarray
    train: np.ndarray
    validation: np.ndarray | None
    out_of_bag: np.ndarray | None
    metric: str


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
        that it gets predicts these rows only. For out-of-bag rows, its X has their number, but no
        columns. None means the estimator's `score`: accuracy or R2, or D2 of several quantiles.
    n_estimators : int or array-like of int, optional
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
    _check_pairs(X_val, y_val, sample_weight_val)
    scorer, metric = check_scoring(estimator, scoring), _name_of(scoring, estimator)
    rows = _targets(y, sample_weight, "y")
    validation = out_of_bag = None
    if X_val is not None:
        validation_rows = _targets(y_val, sample_weight_val, "y_val")
        validation = _scores(scorer, _stages(estimator, X_val, points), X_val, *validation_rows)
    if not isinstance(estimator, TreeEnsemble):
        train = _scores(scorer, _stages(estimator, X, points), X, *rows)
        return LearningCurve(points, train, validation, None, metric)
    leaves, batches = copy_to_host(estimator._leaves(X)), estimator._model.batches
    if any(batch.sampler.method != ALL_ROWS for batch in batches):
        check_training_rows(batches, len(leaves))
        masks = (is_out_of_bag(own.sampler, tree) for own in batches for tree in own.trees)
        stages = _forest_stages(estimator, leaves, points, masks)
        out_of_bag = _scores(scorer, stages, np.empty((len(leaves), 0)), *rows)
    train = _scores(scorer, _forest_stages(estimator, leaves, points), X, *rows)
    return LearningCurve(points, train, validation, out_of_bag, metric)


# A fitted copy of an estimator, with the predictions of its first trees for some rows and for
# nothing else, and the mask of the rows that it predicts.
Stage = tuple[Any, np.ndarray]


def _check_pairs(X_val: Any, y_val: Any, sample_weight_val: Any) -> None:
    """Check that validation rows are complete."""
    if (X_val is None) != (y_val is None) or (X_val is None and sample_weight_val is not None):
        raise ValueError(
            "X_val and y_val belong together, and sample_weight_val belongs to them; pass X_val "
            "and y_val, or none of the three"
        )


def _targets(y: Any, weights: Any, name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Targets and weights of rows, on the host."""
    y, weights = as_host_array(y, name), copied_to_host(weights)[0]
    return y, check_weights(weights, len(y))


def _name_of(scoring: Any, estimator: Any) -> str:
    """The name of a score."""
    if scoring is None:
        of_values = "D2 pinball" if getattr(estimator, "_levels", ()) else "R2"
        return "accuracy" if is_classifier(estimator) else of_values
    return str(getattr(scoring, "__name__", scoring))


def _points(n_estimators: Any, estimator: Any) -> np.ndarray:
    """The numbers of trees or rounds to score, ascending."""
    model = estimator._model
    n_fitted = getattr(model, "n_rounds", model.ensemble.n_trees)
    if n_estimators is None:
        return np.arange(1, n_fitted + 1)
    numbers = np.atleast_1d(n_estimators)
    if not len(numbers):
        raise ValueError("n_estimators is empty; pass numbers of trees, or None for all")
    return np.unique([integer_between("n_estimators", each, 1, n_fitted) for each in numbers])


def _stages(estimator: Any, X: Any, points: np.ndarray) -> Iterator[Stage]:
    """The models of the first trees, whose numbers are the points, for X."""
    if isinstance(estimator, HistGradientBoosting):
        for own, seen in _stages(estimator._boosting, X, points):
            yield _with_attribute(estimator, "_boosting", own), seen
        return
    if isinstance(estimator, TreeEnsemble):
        yield from _forest_stages(estimator, copy_to_host(estimator._leaves(X)), points)
        return
    if isinstance(estimator, GradientBoosting):
        name, staged = "_raw_predictions", _at(points, estimator._staged_raw(X))
    elif isinstance(estimator, AdaBoostClassifier):
        name, staged = "decision_function", _at(points, estimator.staged_decision_function(X))
    else:
        leaves = estimator._leaves(X)
        name, staged = "predict", (estimator._median(leaves, n) for n in points.tolist())
    for values in staged:
        yield _predicting(estimator, name, copy_to_host(values)), np.ones(len(values), bool)


def _at(points: np.ndarray, staged: Iterable[Any]) -> Iterator[Any]:
    """The items whose numbers, from 1, are the points."""
    wanted = set(points.tolist())
    first = enumerate(islice(staged, max(wanted)), 1)
    return (each for number, each in first if number in wanted)


def _forest_stages(
    estimator: Any, leaves: np.ndarray, points: np.ndarray, masks: Iterable[Any] | None = None
) -> Iterator[Stage]:
    """The same for forests and bagging, by the leaves (n, n_trees) of the rows.

    With ``masks``, each tree predicts the rows of its mask only.
    """
    is_hard = estimator._voting_rule() == "hard"
    ensemble = estimator._model.votes if is_hard else estimator._ensemble
    total, count = np.zeros((len(leaves), ensemble.n_values)), np.zeros(len(leaves))
    every: Iterable[Any] = repeat(True, ensemble.n_trees) if masks is None else masks

    def added() -> Iterator[np.ndarray]:
        for tree, mask in enumerate(every):
            values = ensemble.value[ensemble.offset[tree] + leaves[:, tree]]
            np.add(total, np.where(mask, values.T, 0.0).T, out=total)
            np.add(count, mask, out=count)
            yield count > 0.0

    for seen in _at(points, added()):
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
    scorer: Callable[..., float], stages: Iterable[Stage], X: Any, y: np.ndarray, weights: Any
) -> np.ndarray:
    """The scores of some stages; NaN if a stage predicts some rows only, which have no score."""
    found = []
    for model, seen in stages:
        check_same_length(seen, y)
        is_whole = bool(seen.all())
        rows = (X, y) if is_whole else (X[seen], y[seen])
        if len(rows[1]) < (1 if is_classifier(model) else 2):  # R2 needs two rows
            found.append(np.nan)
            continue
        given = {} if weights is None else {"sample_weight": weights[seen]}
        try:
            found.append(float(scorer(model, *rows, **given)))
        except ValueError:  # for example, if a class has none of these rows
            if is_whole:
                raise
            found.append(np.nan)
    return np.array(found)
