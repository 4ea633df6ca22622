"""Mixins of classifiers and regressors, which turn leaf values into predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.metrics import accuracy_score, r2_score

from gpuboost.backends.device_arrays import log_probabilities
from gpuboost.data.arrays import copied_to_host
from gpuboost.data.class_weight import check_class_weight
from gpuboost.data.validation import check_counts
from gpuboost.engine.array_modules import array_module, copy_to_host, working_on
from gpuboost.estimators.fitting.sklearn_bases import ClassifierMixin, RegressorMixin
from gpuboost.estimators.inputs.targets import ClassLabels, ValueLabels

_SQUARES_UP_TO = 1e150  # squares of larger numbers, or of their reciprocals, can leave float64


def score_of(estimator: Any, found: Any, y: Any, weights: Any) -> float:
    """Score of the predictions by the estimator's default metric, a function of scikit-learn."""
    found, y, weights = copied_to_host(found, y, weights)
    return float(estimator._metric(y, found, sample_weight=weights))


class Classifier(ClassifierMixin):
    """Mixin of all classifiers.

    Parameters
    ----------
    class_weight : dict or str
        A dict maps class labels to weights; classes that it lacks have weight 1. 'balanced' makes
        the weight of a class inversely proportional to its number of rows; 'balanced_subsample'
        (forests only) does so for the rows drawn for each tree, and means 'balanced' if
        ``bootstrap=False``. None means that all classes have weight 1.
    voting : {'soft', 'hard'}
        Whether to average the trees' class probabilities or to count one vote per tree.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or a list of such arrays
        The class labels; with several outputs (of trees, forests and bagging), a list with an array
        for each output.
    n_classes_ : int or list of int
        Number of classes; with several outputs, a list with the number for each output.
    oob_decision_function_ : ndarray of shape (n_samples, n_classes), with ``oob_score``
        Out-of-bag class probabilities (with ``voting='hard'``, fractions of the votes); NaN for
        rows that every tree was grown on (in scikit-learn's forests, 0). With several outputs of
        two classes each, the shape is (n_samples, 2, n_outputs).
    """

    if TYPE_CHECKING:  # fitted attributes
        classes_: Any
        n_classes_: Any
        oob_decision_function_: np.ndarray

    _labels: ClassVar[Any] = ClassLabels
    _metric = staticmethod(accuracy_score)
    _class_weights: ClassVar[tuple[str, ...]] = ("balanced",)

    def predict_proba(self: Any, X: Any) -> Any:
        """Probability of each class.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_classes), or a list of such arrays
            Mean of the trees' class probabilities; with ``voting="hard"``, the fraction of the
            trees that vote for the class. With several outputs, a list with an array for each.
        """
        values = self._mean_values(X)
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
        return self._most_probable(self.predict_proba(X))

    def _most_probable(self: Any, probabilities: Any) -> np.ndarray:
        """Label of the most probable class of each row, and of each output if there are several."""
        if self.n_outputs_ == 1:
            with working_on(probabilities):
                return self._labels_at(probabilities.argmax(axis=1), self.classes_)
        with working_on(probabilities[0]):
            columns = [
                self._labels_at(own.argmax(axis=1), classes)
                for own, classes in zip(probabilities, self.classes_, strict=True)
            ]
            if not all(column.dtype.kind in "biuf" for column in columns):
                columns = [copy_to_host(column) for column in columns]
                if len({column.dtype.kind for column in columns}) > 1:  # strings and numbers
                    columns = [column.astype(object) for column in columns]
            return array_module(columns[0]).stack(columns, axis=1)

    def _labels_at(self, places: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Class labels at the given indices, on the device of these; strings are on the host."""
        if classes.dtype.kind not in "biuf":
            return classes.take(copy_to_host(places), axis=0)
        return array_module(places).asarray(classes).take(places, axis=0)

    def score(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of the predictions.

        Returns
        -------
        float
        """
        return score_of(self, self.predict(X), y, sample_weight)

    def _weights(self: Any, labels: Any, weights: np.ndarray | None) -> np.ndarray | None:
        """Weights of the rows, times class weights unless these belong to a base tree."""
        if self._tree is not self:
            return weights
        of_class = self._class_factor(labels, weights)
        if of_class is None or weights is None:
            return weights if of_class is None else of_class
        return weights * of_class

    def _balance(self: Any, labels: Any) -> np.ndarray | None:
        """Class codes if each tree balances the rows drawn for it, else None."""
        return labels.rows if self._balances_draws() else None

    def _class_factor(self: Any, labels: Any, weights: np.ndarray | None) -> np.ndarray | None:
        """Class weight of each row; None without class weights, or if each tree has its own."""
        choice = self._tree.class_weight
        check_class_weight(choice, self._class_weights, labels.n_outputs)
        if self._balances_draws():
            return None
        if isinstance(choice, str):  # without draws, 'balanced_subsample' means 'balanced'
            choice = "balanced"
        factor = labels.row_weights(choice)
        if factor is not None:
            product = factor if weights is None else factor * weights
            if not (array_module(product).isfinite(product).all() and product.any()):
                raise ValueError(
                    "class_weight times sample_weight must be finite and positive for some row, "
                    f"but is at most {float(product.max())}; change one of them"
                )
        return factor

    def _balances_draws(self: Any) -> bool:
        choice = self._tree.class_weight
        return isinstance(choice, str) and choice == "balanced_subsample" and self.bootstrap


class Regressor(RegressorMixin):
    """Mixin of all regressors.

    Attributes
    ----------
    oob_prediction_ : ndarray of shape (n_samples,) or (n_samples, n_outputs), with ``oob_score``
        Out-of-bag predictions; NaN for rows that every tree was grown on (in scikit-learn, 0).
    """

    if TYPE_CHECKING:  # fitted attributes
        oob_prediction_: np.ndarray

    _labels: ClassVar[Any] = ValueLabels
    _metric = staticmethod(r2_score)

    def _read_labels(self: Any, y: Any) -> Any:
        """Read the values; those for the criterion 'poisson' must not be negative."""
        labels = super()._read_labels(y)  # type: ignore[misc]
        if self._tree.criterion == "poisson":
            check_counts(labels.rows, None)
        return labels

    def predict(self: Any, X: Any) -> np.ndarray:
        """Predicted value of each row: the mean of the row's leaf values over the trees.

        Returns
        -------
        ndarray of float64 of shape (n_samples,) or (n_samples, n_outputs)
        """
        values = self._mean_values(X)
        with working_on(values):
            return values[:, 0] if self.n_outputs_ == 1 else values

    def score(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination (R2) of the predictions, averaged over outputs.

        Of several quantiles (boosting only), it is scikit-learn's D2 pinball score, averaged over
        their levels.

        Returns
        -------
        float
        """
        found, y = copied_to_host(self.predict(X), y)
        largest = np.abs(np.asarray(y, float)).max(initial=0.0)
        if largest > _SQUARES_UP_TO or 0.0 < largest < 1.0 / _SQUARES_UP_TO:
            # R2 is the same for scaled values.
            y, found = np.asarray(y) / largest, found / largest
        return score_of(self, found, y, sample_weight)
