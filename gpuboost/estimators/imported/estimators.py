"""Estimators that hold a fitted model of another library."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
from sklearn.metrics import accuracy_score, r2_score

from gpuboost.backends.device_arrays import adopt_features
from gpuboost.backends.prediction_cost import prediction_work
from gpuboost.backends.select import choose_backend
from gpuboost.data.arrays import is_sparse
from gpuboost.data.frames import FeatureSchema, apply_schema
from gpuboost.data.parameters import thread_count
from gpuboost.data.sparse_features import to_dense
from gpuboost.data.tables import FrameTable, read_table
from gpuboost.data.validation import check_shape
from gpuboost.engine.array_modules import array_module, copy_to_host, working_on
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.estimators.fitting import dependence, exportable
from gpuboost.estimators.fitting.explanations import ShapExplained, naming_background, times_of
from gpuboost.estimators.fitting.mixins import score_of
from gpuboost.estimators.fitting.sklearn_bases import BaseEstimator, ClassifierMixin, RegressorMixin
from gpuboost.estimators.imported.columns import KNOWN
from gpuboost.estimators.imported.model import (
    BY_PROBABILITY,
    LIGHTGBM_NAME,
    ImportedTrees,
    predictions_of,
)
from gpuboost.estimators.inputs.dataset import Dataset
from gpuboost.estimators.inputs.features import where_they_are
from gpuboost.estimators.model.explained import Explanation


@dependence.accepts_recursion
@dataclass(kw_only=True, eq=False, repr=False)
class ImportedEstimator(ShapExplained, BaseEstimator):
    """A fitted model of another library, which the ``from_*`` functions of gpuboost return.

    It predicts as the library does: with the same type of X, the same comparisons, and sums of the
    same type in the same order. Raw predictions are equal bit for bit, on every device. It cannot
    be fitted.

    X is a dense array, in which categories are the numbers that the library uses, or a data frame.
    Columns of categories or strings in a data frame are converted if the model knows the
    categories. Infinities, which XGBoost refuses, are accepted.

    Parameters
    ----------
    device : str
        As in all estimators of gpuboost: 'auto', 'cpu', 'cuda', 'cuda:N', 'numpy' or 'numba'.
    n_jobs : int or None
        Number of threads; None means one per processor.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if the model has names.
    feature_importances_ : ndarray of shape (n_features,)
        Fraction of the total gain of each feature's splits; zeros if the model has no gains.
    n_trees_ : int
        Number of trees.
    source_ : str
        Name of the library.
    """

    if TYPE_CHECKING:  # fitted attributes
        _model: ImportedTrees = field(init=False)
        n_features_in_: int = field(init=False)
        feature_names_in_: np.ndarray = field(init=False)

    device: str = "auto"
    n_jobs: int | None = None

    _metric: ClassVar[Any]
    init: ClassVar[Any] = dependence.NO_BOOSTING

    save = exportable.save
    # Errors that name the library, with which the model can be exported.
    to_sklearn, to_treelite = exportable.to_sklearn, exportable.to_treelite
    to_onnx = exportable.to_onnx

    @staticmethod
    def of(model: ImportedTrees, classes: Any = None) -> ImportedEstimator:
        """The fitted estimator of a model: a classifier if there are classes."""
        estimator = ImportedRegressor() if classes is None else ImportedClassifier()
        of_target = {} if classes is None else {"classes_": classes}
        vars(estimator).update(_model=model, **model.schema.attributes(), **of_target)
        return estimator

    def fit(self, X: Any, y: Any = None) -> NoReturn:
        """An imported model cannot be fitted.

        Raises
        ------
        TypeError
        """
        raise TypeError(
            f"{type(self).__name__} holds a model of {self.source_} and cannot be fitted; fit "
            "an estimator of gpuboost, to which sklearn.frozen.FrozenEstimator of this model can "
            "be the init of gradient boosting"
        )

    def compile_predictor(self) -> NoReturn:
        """An imported model has no `Predictor`.

        Raises
        ------
        TypeError
        """
        raise TypeError(
            f"{type(self).__name__} holds a model of {self.source_}, for which there is no "
            "compiled predictor; use predict, with device='cpu' and n_jobs=1 for few rows"
        )

    def __sklearn_clone__(self) -> Self:
        """A copy with the same model: there is no fit that could make it again."""
        return copy(self)

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in vars(self)

    @property
    def n_trees_(self) -> int:
        """Number of trees."""
        return self._model.ensemble.n_trees

    @property
    def source_(self) -> str:
        """Name of the library."""
        return self._model.source

    @property
    def feature_importances_(self) -> np.ndarray:
        """Fraction of the total gain of each feature's splits: ndarray of shape (n_features,)."""
        return self._model.importances(self.n_features_in_)

    def predict_raw(self, X: Any) -> np.ndarray:
        """Raw predictions: the sums of the trees' values, before the link.

        Returns
        -------
        ndarray of float32 or float64 of shape (n_samples,) or (n_samples, n_columns)
            In the type in which the library computes them.
        """
        raw = self._raw(X)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree, numbered breadth-first.

        Returns
        -------
        ndarray of int32 of shape (n_samples, n_trees)
        """
        return self._run(X, self._model.apply)

    def fingerprint(self) -> str:
        """SHA-256 of the trees and of all rules of prediction.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        return self._model.fingerprint()

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of the predictions of a classifier, R2 of those of a regressor.

        Returns
        -------
        float
        """
        return score_of(self, self.predict(X), y, sample_weight)  # type: ignore[attr-defined]

    def _raw(self, X: Any) -> Any:
        return self._run(X, self._model.raw)

    def _predictions(self, X: Any) -> Any:
        return predictions_of(self._model, self._raw(X))

    def _explanation(self, X: Any, background: Any) -> Explanation:
        """The `Explanation` of the rows of X."""
        columns, model = self._model.columns, self._model.additive(background is not None)
        other = None
        if background is not None:
            with naming_background():
                other = self._run(background, lambda rows, *rest: copy_to_host(columns.of(rows)))

        def explain(rows: Any, backend: Any, n_threads: int) -> Explanation:
            return Explanation(model, columns.of(rows), backend, n_threads, other)

        return self._run(X, explain, times_of(other))

    def _additive_model(self) -> AdditiveModel:
        """The sum of trees that SHAP values explain."""
        return self._model.additive(has_background=False)

    def _columns_of_grid(self, grid: np.ndarray, target_features: np.ndarray) -> np.ndarray:
        """The columns that trees compare, at the points of a grid; other features are 0."""
        schema = self._model.schema.select(target_features)
        if self._model.columns.category_rule != KNOWN and grid.dtype != object:
            schema = _of_numbers(schema)
        X = np.zeros((len(grid), self.n_features_in_))
        X[:, target_features] = to_dense(apply_schema(grid, schema, type(self).__name__))
        return self._model.columns.of(X)

    def _run(self, X: Any, work: Any, times_of: Any = prediction_work) -> Any:
        """Read X, choose a device, and return ``work(columns, backend, n_threads)``.

        ``times_of(n_samples, row_bytes, ensemble)`` estimates the seconds in each backend.
        """
        if isinstance(X, Dataset) or is_sparse(X):
            raise TypeError(
                f"a model of {self._model.source} predicts on dense arrays and data frames, got a "
                f"{type(X).__name__}; pass the table itself, or X.toarray() if absent entries are 0"
            )
        X, device = adopt_features(X, self.device)
        with where_they_are(X):
            columns = self._read(X)
            check_shape(columns)
        size = len(columns), columns.shape[1] * columns.itemsize
        backend = choose_backend(device, times_of(*size, self._model.ensemble))
        return work(columns, backend, thread_count(self.n_jobs))

    def _read(self, X: Any) -> Any:
        """X as a matrix; categories become the numbers that the source gives them."""
        schema, source = self._model.schema, self._model.source
        if self._model.columns.category_rule != KNOWN:
            table = read_table(X)
            if not isinstance(table, FrameTable):
                schema = _of_numbers(schema)
            elif source == LIGHTGBM_NAME and table.names is not None:
                # LightGBM stores the names with underscores instead of spaces.
                stored = [name.replace(" ", "_") for name in table.names]
                if schema.names is not None and stored == schema.names.tolist():
                    schema = replace(schema, names=table.names)
        return apply_schema(X, schema, type(self).__name__, source)


def _of_numbers(schema: FeatureSchema) -> FeatureSchema:
    """The schema with categories as the numbers that the source uses."""
    is_categorical, codes = np.zeros(schema.n_features, dtype=bool), (None,) * schema.n_features
    return replace(schema, is_categorical=is_categorical, codes=codes)


class ImportedRegressor(RegressorMixin, ImportedEstimator):
    """A fitted regressor, or ranker, of another library; see `ImportedEstimator`."""

    _metric = staticmethod(r2_score)
    score = ImportedEstimator.score

    def predict(self, X: Any) -> np.ndarray:
        """Predicted values.

        Returns
        -------
        ndarray of float64 of shape (n_samples,) or (n_samples, n_outputs)
        """
        found = self._predictions(X)
        return found[:, 0] if found.shape[1] == 1 else found


class ImportedClassifier(ClassifierMixin, ImportedEstimator):
    """A fitted classifier of another library; see `ImportedEstimator`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or list of such arrays
        The class labels; with several outputs, a list with an array for each.
    """

    if TYPE_CHECKING:  # fitted attributes
        classes_: Any = field(init=False)

    _metric = staticmethod(accuracy_score)
    score = ImportedEstimator.score

    def predict_proba(self, X: Any) -> Any:
        """Probability of each class.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_classes), or list of such arrays
            With several outputs, a list with an array for each.
        """
        found = self._predictions(X)
        if isinstance(self.classes_, list):
            width = found.shape[1] // len(self.classes_)
            starts = range(0, found.shape[1], width)
            with working_on(found):
                pairs = zip(starts, self.classes_, strict=True)
                return [found[:, start : start + len(own)] for start, own in pairs]
        if found.shape[1] > 1:
            return found
        with working_on(found):
            if len(self.classes_) == 1:
                return array_module(found).ones_like(found)
            return array_module(found).concatenate([1.0 - found, found], axis=1)

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions; see `predict_raw`."""
        return self.predict_raw(X)

    def predict(self, X: Any) -> np.ndarray:
        """Class of each row: the most probable one, or the first of those that tie.

        Boosting and AdaBoost of scikit-learn choose by raw predictions. If it has two classes,
        `GradientBoostingClassifier` chooses the second one where the raw prediction is 0.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            On the host.
        """
        if self._model.decision != BY_PROBABILITY:
            return self.classes_[self._model.class_indices(self._raw(X))]
        found = self.predict_proba(X)
        if not isinstance(self.classes_, list):
            return self.classes_[copy_to_host(found.argmax(axis=1))]
        indices = [copy_to_host(own.argmax(axis=1)) for own in found]
        labels = [own[index] for own, index in zip(self.classes_, indices, strict=True)]
        same = len({own.dtype.kind for own in labels}) == 1
        return np.stack(labels if same else [own.astype(object) for own in labels], axis=1)
