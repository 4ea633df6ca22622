"""Bias, variance and noise of a learner, by refits on bootstrap samples.

Let y be the target of a row, f its best prediction (the mean of y given x, or the most probable
class), p the prediction of a model that was fitted on a random sample, and m the main prediction:
the mean of p, or the class that p is most often. For the squared error,

    E (y - p)**2 = E (y - f)**2 + (f - m)**2 + E (p - m)**2
    loss         = noise        + bias       + variance

For the 0-1 loss, Domingos's definitions are noise = [y != f], bias = [f != m] and variance =
P(p != m). Then loss = c1 noise + bias + c2 variance, where c2 = 1 if the row is unbiased (f = m),
and else c2 = -P(p = f | p != m): variance makes biased predictions right.

References
----------
Geman, Bienenstock, Doursat: Neural networks and the bias/variance dilemma (1992), section 2.
Domingos: A unified bias-variance decomposition for zero-one and squared loss (2000), sections 2, 3.
Breiman: Arcing classifiers (1998), for out-of-bag rows of bootstrap samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from gpuboost.data.arrays import copied_to_host, is_sparse
from gpuboost.data.class_labels import check_classes, codes_among
from gpuboost.data.parameters import integer_at_least
from gpuboost.data.tables import collected
from gpuboost.data.validation import check_same_length
from gpuboost.engine.sampling import WITH_REPLACEMENT, RowSampler
from gpuboost.estimators.inputs.parameters import draw_seed

MIN_PREDICTIONS = 2  # of a row, from which its variance can be estimated


@dataclass(frozen=True, eq=False)
class BiasVariance:
    """Parts of the expected loss of a learner, which are means over rows.

    Attributes
    ----------
    loss : float
        Mean loss of the predictions: squared error, or 0-1 loss in a classification.
    bias : float
        Squared bias, or the fraction of the rows whose main prediction is not the best one. Without
        ``truth``, y is the best prediction, so that the bias contains the noise.
    variance : float
        Variance of the predictions, or the probability that they differ from the main prediction.
    net_variance : float
        What variance adds to the loss: the variance or, in a classification, that of unbiased rows
        minus the probability that variance makes the prediction of a biased row right.
    noise : float or None
        Mean loss of the best predictions; None without ``truth``.
    n_rows : int
        Number of rows that the means are of: those that at least two models predicted.
    """

    loss: float
    bias: float
    variance: float
    net_variance: float
    noise: float | None
    n_rows: int


def bias_variance(
    estimator: Any,
    X: Any,
    y: Any,
    n_bootstraps: int = 100,
    *,
    X_test: Any = None,
    y_test: Any = None,
    truth: Any = None,
    random_state: Any = None,
) -> BiasVariance:
    """Estimate bias, variance and noise of a learner, for squared error or 0-1 loss.

    The estimator is fitted on bootstrap samples of the rows. Each row is predicted by the models
    that were not fitted on it or, with ``X_test``, each test row by all models. The loss of a
    classifier is the 0-1 loss, with the decomposition of Domingos (2000); that of a regressor is
    the squared error.

    Without ``truth``, loss = bias + net_variance, up to rounding, and the bias contains the noise:
    no method can separate these by a single target for each x. With ``truth``, the rest of the
    loss, loss - bias - net_variance, is what noise adds to it; for the squared error, it is the
    noise, up to a sampling error of mean 0. If values of x repeat, the mean (or the most frequent
    class) of the targets of equal x is an estimate of ``truth``. Then the noise is too small by a
    factor of (k - 1) / k if each x occurs k times.

    Estimates for the squared error are corrected for the number of predictions of a row, so a small
    bias can come out negative. Bootstrap samples stand for new samples: they have about 63% of the
    rows, so the parts are those of a learner with fewer rows. They also share the noise of these
    rows, which counts as bias: for learners that follow single rows, such as deep trees, the bias
    comes out too large. The loss is that of rows that a model has not seen. If the ``random_state``
    of the estimator is None, the variance contains that of its random numbers.

    Parameters
    ----------
    estimator : estimator with scikit-learn's methods
        A classifier or a regressor of one output. It is cloned, not fitted.
    X : array-like, sparse matrix, data frame or Dataset of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    n_bootstraps : int
        Number of fits, at least 2.
    X_test, y_test : as X and y, optional
        Rows to predict, in place of out-of-bag rows; y must have their classes.
    truth : array-like of shape (n_samples,), optional
        The best prediction of each predicted row, if it is known; y must have its classes.
    random_state : int, RandomState or None
        Source of the bootstrap samples.

    Returns
    -------
    BiasVariance

    Raises
    ------
    TypeError, ValueError
        An argument is invalid; the message says what is allowed.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuboost import DecisionTreeRegressor
    >>> from gpuboost.explain import bias_variance
    >>> X, y = load_diabetes(return_X_y=True)
    >>> stump, deep = (
    ...     bias_variance(DecisionTreeRegressor(max_depth=depth), X, y, 10, random_state=0)
    ...     for depth in (1, None)
    ... )
    >>> stump.bias > deep.bias and stump.variance < deep.variance
    True
    """
    n_bootstraps = integer_at_least("n_bootstraps", n_bootstraps, MIN_PREDICTIONS)
    if (X_test is None) != (y_test is None):
        raise ValueError("X_test and y_test belong together; pass both, or neither of them")
    X, y = _read_rows(X, y, ("X", "y"))
    target = y
    if X_test is not None:
        X_test, target = _read_rows(X_test, y_test, ("X_test", "y_test"))
    best = target if truth is None else _read_truth(truth, len(target))
    classes = check_classes(y)[1] if is_classifier(estimator) else None
    targets = _numbers(target, classes, "y_test"), _numbers(best, classes, "truth")
    found = np.full((n_bootstraps, len(target)), np.nan)
    sampler = RowSampler(WITH_REPLACEMENT, len(y), len(y), draw_seed(random_state))
    for number, own in enumerate(found):
        rows, predicted = _fit_and_predict(estimator, X, y, X_test, sampler.draw_counts(number))
        if len(predicted):
            own[rows] = _numbers(predicted, classes, "a prediction")
    known = (~np.isnan(found)).sum(axis=0) >= MIN_PREDICTIONS
    if not known.any():
        raise ValueError(
            f"no row was predicted by two of n_bootstraps={n_bootstraps} models; raise it, or pass "
            "X_test and y_test"
        )
    parts_of = _squared_error if classes is None else _zero_one_loss
    means = parts_of(found[:, known], *(own[known] for own in targets)).mean(axis=1)
    loss, bias, variance, net_variance, noise = means.tolist()
    noise = None if truth is None else noise
    return BiasVariance(loss, bias, variance, net_variance, noise, int(known.sum()))


def _fit_and_predict(
    estimator: Any, X: Any, y: np.ndarray, X_test: Any, draw_counts: np.ndarray
) -> tuple[Any, np.ndarray]:
    """The rows that the model of a bootstrap sample predicts, and its predictions."""
    drawn = np.repeat(np.arange(len(y)), draw_counts)
    model = clone(estimator).fit(_safe_indexing(X, drawn), y[drawn])
    if X_test is not None:
        return slice(None), copied_to_host(model.predict(X_test))[0]
    rows = np.flatnonzero(draw_counts == 0)
    if not len(rows):
        return rows, y[:0]
    return rows, copied_to_host(model.predict(_safe_indexing(X, rows)))[0]


def _read_rows(X: Any, y: Any, names: tuple[str, str]) -> tuple[Any, np.ndarray]:
    """A table whose rows can be selected, and the targets of its rows, on the host."""
    X, y = collected(copied_to_host(X)[0]), _vector(y, names[1])
    X = X.tocsr() if is_sparse(X) else X
    check_same_length(range(_num_samples(X)), y, names)
    return X, y


def _read_truth(truth: Any, n_predicted: int) -> np.ndarray:
    """The best predictions of the rows that are predicted."""
    best = _vector(truth, "truth")
    if len(best) != n_predicted:
        raise ValueError(
            f"truth has {len(best)} values, but {n_predicted} rows are predicted; pass the best "
            "prediction of each of them"
        )
    return best


def _vector(given: Any, name: str) -> np.ndarray:
    """Targets as a vector, on the host."""
    y = np.asarray(copied_to_host(given)[0])
    if y.ndim != 1:
        raise ValueError(
            f"{name} must have the shape (n_samples,), got {y.shape}: the losses are those of one "
            "output; call bias_variance for each output"
        )
    return y


def _numbers(values: np.ndarray, classes: np.ndarray | None, name: str) -> np.ndarray:
    """Values, or the indices of classes, as float64."""
    if classes is not None:
        values = codes_among(classes, *check_classes(values), name)
    return np.asarray(values, float)


def _squared_error(found: np.ndarray, y: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Loss, bias, variance twice, and noise of each row: float64 (5, n).

    ``found`` (n_bootstraps, n) has predictions, NaN where a model predicts no row. The squared
    distance of the best prediction from the mean of k predictions exceeds the squared bias by the
    k-th part of the variance, on average.
    """
    n_known = (~np.isnan(found)).sum(axis=0)
    main = np.nansum(found, axis=0) / n_known
    variance = np.nansum((found - main) ** 2, axis=0) / (n_known - 1)
    loss = np.nansum((found - y) ** 2, axis=0) / n_known
    bias = (best - main) ** 2 - variance / n_known
    return np.stack([loss, bias, variance, variance, (y - best) ** 2])


def _zero_one_loss(found: np.ndarray, y: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Loss, bias, variance, net variance and noise of each row: float64 (5, n).

    All arguments are indices of classes, in ``found`` (n_bootstraps, n) with NaN where a model
    predicts no row.
    """
    n_classes = int(max(np.nanmax(found), y.max(), best.max())) + 1
    counts = np.stack([(found == code).sum(axis=0) for code in range(n_classes)])
    share, main = counts / counts.sum(axis=0), counts.argmax(axis=0)
    rows = np.arange(len(y))
    of_main, of_best, of_target = (share[code.astype(int), rows] for code in (main, best, y))
    net_variance = np.where(main == best, 1.0 - of_main, -of_best)
    parts = [1.0 - of_target, main != best, 1.0 - of_main, net_variance, y != best]
    return np.stack(parts).astype(float)
