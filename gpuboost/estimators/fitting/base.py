"""Base of all estimators: common parameters, `fit`, and the methods of a fitted model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.backends.cost_model import GrowthSize
from gpuboost.backends.device_arrays import adopt_features
from gpuboost.backends.prediction_cost import prediction_work, threads_that_pay
from gpuboost.backends.select import choose_backend
from gpuboost.data.parameters import one_of, thread_count
from gpuboost.engine.array_modules import working_on
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.estimators.fitting import dependence, exportable
from gpuboost.estimators.fitting.explanations import ShapExplained
from gpuboost.estimators.fitting.pipeline import FitInputs, Prepared, memory_advice, run_fit
from gpuboost.estimators.fitting.sklearn_bases import BaseEstimator
from gpuboost.estimators.inputs.features import read_prediction
from gpuboost.estimators.model.cached_view import VIEWS
from gpuboost.estimators.model.fitted import FittedTrees
from gpuboost.estimators.model.predictor import CheckedRows


@dependence.accepts_recursion
@dataclass(kw_only=True, eq=False, repr=False)
class TreeModel(BaseEstimator, ABC):
    """Base of all estimators.

    A fitted estimator keeps its trees and bins in ``_model``, but not X or y. Its state changes
    only when a fit succeeds: after an error, the estimator is as it was before.

    Parameters
    ----------
    random_state : int, RandomState or None
        Source of randomness; an int makes the model reproducible.
    n_jobs : int or None
        Number of threads. None means one thread per processor that the process can use, but at
        most ``OMP_NUM_THREADS``; -1 means the same without this limit. The model does not depend
        on ``n_jobs``.
    device : str
        'auto', 'cpu', 'cuda', 'cuda:N', or the name of a backend, 'numpy' or 'numba'. 'auto'
        chooses the backend that should be fastest for the size of the data, including the time to
        start a backend that the process has not used yet; 'cpu' chooses 'numpy' or 'numba' in the
        same way. If X is on a GPU, 'auto' and 'cuda' mean this GPU. The model does not depend on
        ``device``.
    max_bins : int
        Maximum number of bins per feature, from 2 to 255; missing values have an extra bin.
    categorical_features : 'from_dtype', None, or array-like of bool, int or str
        Which features are categorical: columns of categories or strings in a data frame, no
        features, or the features given by a mask, indices or names. Columns of dates must be made
        numbers before.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if all of them are strings.
    n_outputs_ : int
        Number of outputs.
    feature_importances_ : ndarray of shape (n_features,)
        Normalised importance of each feature.
    device_ : str
        The backend that grew the trees.
    """

    if TYPE_CHECKING:  # fitted attributes
        n_features_in_: int = field(init=False)
        feature_names_in_: np.ndarray = field(init=False)
        n_outputs_: int = field(init=False)
        device_: str = field(init=False)
        _binning: tuple[Any, Any] = field(init=False)
        _shown_name: str = field(init=False)  # the name of the class in messages

    random_state: Any = None
    n_jobs: int | None = None
    device: str = "auto"
    max_bins: int = 255
    categorical_features: Any = "from_dtype"

    _labels: ClassVar[Any]  # ClassLabels or ValueLabels
    _model: ClassVar[Any] = None
    init: ClassVar[Any] = dependence.NO_BOOSTING

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._shown_name = cls.__name__

    # ---- fit, and the steps that subclasses define ---------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow the trees.

        Returns
        -------
        self
        """
        with memory_advice():
            run_fit(self, X, y, sample_weight)
        return self

    @abstractmethod
    def _plan(self, inputs: FitInputs) -> tuple[Any, GrowthSize]:
        """The plan of the trees or rounds, and their `GrowthSize`."""

    @abstractmethod
    def _grow(self, prepared: Prepared[Any]) -> tuple[FittedTrees, dict[str, Any]]:
        """The model, and the fitted attributes that are specific to this estimator."""

    @property
    def _tree(self) -> Any:
        """The object whose attributes are the parameters of a tree."""
        return self

    def _voting_rule(self) -> str:
        """The voting rule of a classifier; the trees of a regressor are always averaged."""
        return one_of("voting", getattr(self, "voting", "soft"), ("soft", "hard"))

    def _weights(self, labels: Any, weights: np.ndarray | None) -> np.ndarray | None:
        """Weights of the rows; None means that all weights are 1.

        Where forests and bagging draw rows, they draw them in proportion to the weights. Boosting
        draws rows with equal probability and multiplies gradients by the weights. In classifiers
        without a base tree, the weights include the class weights, unless each tree balances the
        rows drawn for it.
        """
        return weights

    def _model_to_extend(self) -> FittedTrees | None:
        """The model that a warm start adds trees to; None without one."""
        return None

    def _read_labels(self, y: Any) -> Any:
        """Read and check the labels."""
        return self._labels.read(y)

    def _has_all_trees(self) -> bool:
        """Whether a warm start has all trees already, so that the fit changes nothing."""
        return False

    # ---- a fitted model ----------------------------------------------------------------------

    def _adopt(self, facts: dict[str, Any]) -> None:
        """Replace the fitted attributes, all at once."""
        before = set(getattr(self, "_fitted_names", ())) - set(facts)
        self.__dict__.update(facts, _fitted_names=tuple(facts))
        for name in (*before, VIEWS):
            self.__dict__.pop(name, None)

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None

    def _run(self, X: Any, work: Any, times_of: Any = prediction_work) -> Any:
        """Read X, choose a device, and return ``work(model, data, backend, n_threads)``.

        ``times_of(n_samples, row_bytes, ensemble)`` estimates the seconds in each backend.
        """
        if type(X) is CheckedRows:
            return work(self._model, X.rows, X.backend, 1)
        check_is_fitted(self)
        model: FittedTrees = self._model
        X, device = adopt_features(X, self.device)
        data = read_prediction(X, model.schema, model.mapper, self._shown_name)
        if isinstance(data, BinnedMatrix):
            size = data.n_samples, data.n_features
        else:
            size = len(data), data.shape[1] * data.itemsize
        times = times_of(*size, model.ensemble)
        n_threads = thread_count(self.n_jobs, at_most=threads_that_pay(times))
        return work(model, data, choose_backend(device, times), n_threads)

    def _mean_values(self, X: Any) -> np.ndarray:
        """Mean over the trees of each row's leaf values or votes: float64 (n, n_values)."""
        voting = self._voting_rule()
        return self._run(X, lambda model, *rest: model.predict(*rest, voting))

    def _leaves(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree: int64 (n, n_trees)."""
        leaves = self._run(X, FittedTrees.apply)
        with working_on(leaves):
            return leaves.astype(np.int64)

    @property
    def _ensemble(self) -> Ensemble:
        check_is_fitted(self)
        return self._model.ensemble

    @property
    def feature_importances_(self) -> np.ndarray:
        """Normalised impurity decrease of each feature: ndarray of shape (n_features,).

        It is the mean over the trees; in AdaBoost, the mean is weighted by the trees' weights. All
        entries are 0 if no split decreases the impurity.
        """
        check_is_fitted(self)
        return self._model.importances(self.n_features_in_)

    def fingerprint(self) -> str:
        """SHA-256 of the trees, the bin edges and the codes of categories.

        Gradient boosting includes the number of trees per round and the baseline, AdaBoost the
        weights of the trees. Class labels, ``voting``, the loss and a fitted ``init`` estimator are
        not included.

        The fingerprint is equal for equal data, parameters and seed, on any device and with any
        number of threads.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        check_is_fitted(self)
        return self._model.fingerprint()

    shap_values = ShapExplained.shap_values
    shap_interaction_values = ShapExplained.shap_interaction_values
    shap_expected_value = ShapExplained.shap_expected_value
    _additive_model, _explanation = ShapExplained._additive_model, ShapExplained._explanation
    _compute_partial_dependence_recursion = dependence.partial_dependence_by_recursion
    _columns_of_grid = dependence.columns_of_grid

    compile_predictor = exportable.compile_predictor
    save, to_onnx = exportable.save, exportable.to_onnx
    to_sklearn, to_treelite = exportable.to_sklearn, exportable.to_treelite

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != VIEWS}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = self._labels.multi_output
        return tags
