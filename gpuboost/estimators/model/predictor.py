"""Predictors for services: the predictions of a fitted model, with the least time per call."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.backends.protocol import Backend
from gpuboost.backends.select import cpu_predictor
from gpuboost.data.frames import FeatureSchema, apply_schema
from gpuboost.data.validation import check_features, feature_label

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class CheckedRows(NamedTuple):
    """Rows that a `Predictor` has checked, and the backend that predicts; estimators take them."""

    rows: np.ndarray
    backend: Backend


class Predictor:
    """The predictions of a fitted estimator, made by `compile_predictor`.

    A predictor returns the same bits as the estimator's methods. It checks only what a NumPy array
    of floats can have wrong, runs in the calling thread, and always uses the CPU. Threads can share
    it. It keeps the model that the estimator had when it was made: later fits do not change it.
    """

    def __init__(self, estimator: Any) -> None:
        check_is_fitted(estimator)
        model = estimator._model
        self._estimator, self._owner = copy(estimator), estimator._shown_name
        self._names = model.schema.names
        self._coded = _of_numbers(model.schema, self._owner)
        self._backend = cpu_predictor()
        self.n_features_in_ = model.schema.n_features
        for dtype in FLOATS:  # packs the trees, and compiles what is not compiled yet
            self.predict(np.zeros(self.n_features_in_, dtype))

    def predict(self, X: np.ndarray) -> Any:
        """Predict as the estimator's ``predict`` does, without offsets.

        Parameters
        ----------
        X : ndarray of float32 or float64 of shape (n_features,) or (n_samples, n_features)
            One row, or several. NaN means missing. A contiguous array is not copied.

        Returns
        -------
        ndarray
            What ``predict`` returns. For one row, its only element: a number or a class label, or
            an array of shape (n_outputs,) with several outputs.

        Raises
        ------
        TypeError
            X is not a NumPy array of float32 or float64.
        ValueError
            X has another number of features or dimensions, no rows, or an infinite value.
        """
        found = self._estimator.predict(self._checked(X))
        return found[0] if X.ndim == 1 else found

    __call__ = predict

    def __reduce__(self) -> Any:
        return type(self), (self._estimator,)

    def _checked(self, X: Any) -> CheckedRows:
        """One or several rows as a checked matrix."""
        if type(X) is not np.ndarray or X.dtype not in FLOATS:
            given = f"an array of {X.dtype}" if type(X) is np.ndarray else type(X).__name__
            raise TypeError(
                f"a predictor of {self._owner} takes a NumPy array of float32 or float64, got "
                f"{given}; convert it with numpy.asarray(X, dtype=float), or use predict of the "
                "estimator, which takes tables of all kinds"
            )
        rows: Any = X[None] if X.ndim == 1 else X
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            n = self.n_features_in_
            raise ValueError(
                f"a predictor of {self._owner} takes one row of shape ({n},) or rows of shape "
                f"(n_samples, {n}), got an array of shape {X.shape}"
            )
        if self._coded is not None:
            rows = apply_schema(rows, self._coded, self._owner)
        return CheckedRows(check_features(rows, self._names), self._backend)


class ClassifierPredictor(Predictor):
    """A `Predictor` of a classifier.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or a list of such arrays
        The class labels, in the order of the columns of `predict_proba`.
    """

    def __init__(self, estimator: Any) -> None:
        super().__init__(estimator)
        self.classes_ = estimator.classes_
        for dtype in FLOATS:
            self.predict_proba(np.zeros(self.n_features_in_, dtype))

    def predict_proba(self, X: np.ndarray) -> Any:
        """Predict as the estimator's ``predict_proba`` does, without offsets.

        Parameters
        ----------
        X : ndarray of float32 or float64 of shape (n_features,) or (n_samples, n_features)
            See `predict`.

        Returns
        -------
        ndarray of float64 of shape (n_classes,) or (n_samples, n_classes), or a list of these
            A list for several outputs.

        Raises
        ------
        TypeError, ValueError
            See `predict`.
        """
        found = self._estimator.predict_proba(self._checked(X))
        if X.ndim != 1:
            return found
        return [own[0] for own in found] if isinstance(found, list) else found[0]


def _of_numbers(schema: FeatureSchema, owner: str) -> FeatureSchema | None:
    """The schema without names, if it has categories, which must be numbers; else None."""
    for feature in np.flatnonzero(schema.is_categorical).tolist():
        for category in schema.codes[feature] or ():
            if not isinstance(category, Real):
                raise ValueError(
                    f"{feature_label(feature, schema.names)} of this {owner} has categories that "
                    f"are not numbers (such as {category!r:.40}), which an array of floats cannot "
                    "hold; use predict of the estimator, or fit on columns of numbers"
                )
    return replace(schema, names=None) if schema.is_categorical.any() else None


def predictor_of(estimator: Any) -> Predictor:
    """The predictor of a fitted estimator."""
    is_classifier = hasattr(estimator, "predict_proba")
    return (ClassifierPredictor if is_classifier else Predictor)(estimator)
