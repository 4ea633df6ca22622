"""Mixin of classifiers that can predict several outputs at once."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gpuboost.backends.device_arrays import log_probabilities
from gpuboost.data.arrays import array_module
from gpuboost.engine.array_modules import working_on
from gpuboost.estimators.fitting.mixins import Classifier
from gpuboost.estimators.inputs.targets import MultiOutputClassLabels


class MultiOutputClassifier(Classifier):
    """Mixin of classifiers that can predict several outputs, each with its own classes.

    Splits maximise the sum of the outputs' gains, and leaves hold the class probabilities of all
    outputs. If y has one column, everything is as in `Classifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or a list of such arrays
        The class labels; with several outputs, a list with an array for each output.
    n_classes_ : int or list of int
        Number of classes; with several outputs, a list with the number for each output.
    oob_decision_function_ : ndarray of shape (n_samples, n_classes), with ``oob_score``
        Out-of-bag class probabilities (with ``voting='hard'``, fractions of the votes); NaN for
        rows that every tree was grown on (in scikit-learn's forests, 0). With several outputs of
        n_classes each, the shape is (n_samples, n_classes, n_outputs).
    """

    _labels: ClassVar[Any] = MultiOutputClassLabels

    def predict_proba(self: Any, X: Any) -> Any:
        """Probability of each class.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_classes), or a list of such arrays
            Mean of the trees' class probabilities; with ``voting="hard"``, the fraction of the
            trees that vote for the class. With several outputs, a list with an array for each.
        """
        values = super().predict_proba(X)
        if self.n_outputs_ == 1:
            return values
        width = values.shape[1] // self.n_outputs_
        with working_on(values):
            return [values[:, k * width :][:, :n] for k, n in enumerate(self.n_classes_)]

    def predict_log_proba(self: Any, X: Any) -> Any:
        """Logarithm of `predict_proba`; minus infinity where a probability is 0."""
        found = self.predict_proba(X)
        if self.n_outputs_ == 1:
            return log_probabilities(found)
        return [log_probabilities(own) for own in found]

    def predict(self: Any, X: Any) -> np.ndarray:
        """Most probable class of each row; ties go to the first class.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            On the GPU if X is on the GPU, except for string classes, which are on the host.
        """
        return super().predict(X)

    def _most_probable(self: Any, probabilities: Any) -> np.ndarray:
        """Label of the most probable class of each row and output."""
        if self.n_outputs_ == 1:
            return super()._most_probable(probabilities)
        with working_on(probabilities[0]):
            columns = [
                self._labels_at(own.argmax(axis=1), classes)
                for own, classes in zip(probabilities, self.classes_, strict=True)
            ]
            if len({column.dtype.kind for column in columns}) > 1:  # labels of several types
                columns = [column.astype(object) for column in columns]
            return array_module(columns[0]).stack(columns, axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
