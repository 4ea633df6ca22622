"""Gradient boosting for regression and for classification."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import d2_pinball_score, r2_score

from gpuboost.backends.device_arrays import inverse_link
from gpuboost.engine.array_modules import array_module, working_on
from gpuboost.engine.losses import Loss, make_loss, user_loss
from gpuboost.engine.losses.links import LOGIT, SOFTMAX
from gpuboost.estimators.boosting.base import GradientBoosting
from gpuboost.estimators.boosting.metrics import mean_over_levels
from gpuboost.estimators.boosting.model import predictions
from gpuboost.estimators.docstrings import documented
from gpuboost.estimators.fitting.mixins import Classifier, Regressor


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingRegressor(Regressor, GradientBoosting):
    """Gradient boosting for regression.

    Parameters
    ----------
    loss : str or object
        {losses of regressors};
        or an object with methods ``gradient(y, raw)`` and ``hessian(y, raw)``, or
        ``gradient_hessian(y, raw)``, which returns both: the first and second derivative of each
        row's loss with respect to ``raw``, not multiplied by the row's weight. ``y``, ``raw`` and
        the results have the shape (n_samples,), or (n_samples, n_outputs) for several outputs.
        Optional methods are ``loss(y, raw)``, the loss of each row (else recorded losses are NaN),
        ``predict(raw)``, which must return (n_samples, n_outputs) even for one output (else the raw
        predictions are the predictions), and ``baseline(y, weights)``, the raw prediction before
        the first round (else 0), where ``weights`` is None without weights. In rounds on a GPU, and
        in predictions for an X on the GPU, the methods get and return CuPy arrays; everywhere else,
        for the baseline and for metrics too, NumPy arrays.
    alpha : float, or list of float for several quantiles
        Quantile level of loss='quantile', or fraction of the residuals that loss='huber' squares.
        Several quantiles require a single output.
    tweedie_power : float
        Variance power of loss='tweedie', strictly between 1 and 2.
    """

    alpha: Any = 0.9
    tweedie_power: float = 1.5

    def _make_loss(self, labels: Any) -> Loss:
        n_outputs = labels.n_columns
        if not isinstance(self.loss, str):
            return user_loss(self.loss, n_outputs)
        return make_loss(self.loss, n_outputs=n_outputs, alpha=self.alpha, power=self.tweedie_power)

    def predict(self, X: Any, offset: Any = None, n_rounds: Any = None) -> np.ndarray:
        """Predicted values.

        Returns
        -------
        ndarray of float64 of shape (n_samples,) or (n_samples, n_outputs)
            With several levels of ``loss="quantile"``, (n_samples, n_quantile_levels).
        """
        return self._shaped(self._raw_predictions(X, offset, n_rounds))

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[np.ndarray]:
        """Predicted values after each round; see `predict`."""
        return map(self._shaped, self._staged_raw(X, offset))

    def _shaped(self, raw: np.ndarray) -> np.ndarray:
        return _of_one_column(predictions(self._model.loss, raw))

    def _metric(self, y: Any, found: np.ndarray, sample_weight: Any = None) -> float:
        """R2 or, of several quantile levels, the mean over them of scikit-learn's D2 pinball."""
        if not self._levels:
            return r2_score(y, found, sample_weight=sample_weight)
        return mean_over_levels(d2_pinball_score, y, found, self._levels, sample_weight)

    @property
    def _levels(self) -> list[float]:
        """The quantile levels that the fitted model predicts, if these are several; else none."""
        loss: Any = self._model.loss
        return loss.leaf_quantile_level.tolist() if self.n_outputs_ == 1 < loss.columns else []


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingClassifier(Classifier, GradientBoosting):
    """Gradient boosting for classification.

    Parameters
    ----------
    loss : str or object
        {losses of classifiers} (two classes);
        or an object with methods ``gradient(y, raw)`` and ``hessian(y, raw)``, or
        ``gradient_hessian(y, raw)``, which returns both: the first and second derivative of each
        row's loss with respect to ``raw``, not multiplied by the row's weight. ``y`` holds encoded
        classes, shape (n_samples,); ``raw`` and the results have the shape (n_samples,) for two
        classes, else (n_samples, n_classes). Optional methods are ``loss(y, raw)``, the loss of
        each row (else recorded losses are NaN), ``predict(raw)``, the probabilities (n_samples,
        n_classes) (else the logistic function or the softmax of ``raw``), and
        ``baseline(y, weights)``, the raw prediction before the first round (else 0), where
        ``weights`` is None without weights. In rounds on a GPU, and in predictions for an X on the
        GPU, the methods get and return CuPy arrays; everywhere else, for the baseline and for
        metrics too, NumPy arrays.
    """

    loss: Any = "log_loss"
    class_weight: Any = None

    def _make_loss(self, labels: Any) -> Loss:
        n_classes = len(labels.classes)
        if n_classes < 2:
            raise ValueError(
                f"y contains 1 class, {labels.classes.tolist()[0]!r}, while a minimum of 2 classes "
                "are required; a model of one class needs no fit"
            )
        if not isinstance(self.loss, str):
            return user_loss(self.loss, 1 if n_classes <= 2 else n_classes)
        return make_loss(self.loss, n_classes=n_classes)

    def decision_function(self, X: Any, offset: Any = None, n_rounds: Any = None) -> np.ndarray:
        """Raw predictions.

        Returns
        -------
        ndarray of float64 of shape (n_samples,) with two classes, else (n_samples, n_classes)
        """
        return _of_one_column(self._raw_predictions(X, offset, n_rounds))

    def staged_decision_function(self, X: Any, offset: Any = None) -> Iterator[np.ndarray]:
        """Raw predictions after each round; see `decision_function`."""
        return map(_of_one_column, self._staged_raw(X, offset))

    def predict_proba(self, X: Any, offset: Any = None, n_rounds: Any = None) -> np.ndarray:
        """Probability of each class.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_classes)
        """
        return self._probabilities(self._raw_predictions(X, offset, n_rounds))

    def staged_predict_proba(self, X: Any, offset: Any = None) -> Iterator[np.ndarray]:
        """Probabilities after each round; see `predict_proba`."""
        return map(self._probabilities, self._staged_raw(X, offset))

    def predict(self, X: Any, offset: Any = None, n_rounds: Any = None) -> np.ndarray:
        """Most probable class of each row; ties go to the first class.

        Returns
        -------
        ndarray of shape (n_samples,)
            On the GPU if X is on the GPU, except for string classes, which are on the host.
        """
        return self._most_probable(self.predict_proba(X, offset, n_rounds))

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[np.ndarray]:
        """Classes after each round; see `predict`."""
        return map(self._most_probable, self.staged_predict_proba(X, offset))

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        """Class probabilities.

        If a user's loss has no ``predict``, they are the logistic function or the softmax of the
        raw predictions.
        """
        loss: Loss = self._model.loss
        if hasattr(getattr(loss, "objective", loss), "predict"):  # built-in losses always have it
            found = predictions(loss, raw)
            with working_on(found):
                both = array_module(found).stack
                return found if found.ndim == 2 else both([1.0 - found, found], axis=1)
        return inverse_link(LOGIT if raw.shape[1] == 1 else SOFTMAX, raw)

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree.

        Returns
        -------
        ndarray of int64 of shape (n_samples, n_estimators_, n_trees_per_iteration_)
        """
        leaves = self._leaves(X)
        return leaves.reshape(len(leaves), self._model.n_rounds, -1)


def _of_one_column(raw: np.ndarray) -> np.ndarray:
    """Return a single column as a vector, several columns unchanged."""
    with working_on(raw):
        return raw[:, 0] if raw.shape[1] == 1 else raw
