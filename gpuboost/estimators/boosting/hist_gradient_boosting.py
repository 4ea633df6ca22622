"""scikit-learn's `HistGradientBoosting*`: its parameters and rules, on gpuboost's boosting."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.arrays import copied_to_host
from gpuboost.data.class_weight import check_class_weight
from gpuboost.data.parameters import boolean, fraction, integer_at_least, number_between, one_of
from gpuboost.data.validation import check_target_given
from gpuboost.estimators.boosting.base import GradientBoosting
from gpuboost.estimators.boosting.estimators import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)
from gpuboost.estimators.boosting.hist_scores import (
    LOSS,
    FitRows,
    Scores,
    given_validation,
    rows_to_score,
    split,
    stops_early,
)
from gpuboost.estimators.boosting.model import hist_facts
from gpuboost.estimators.docstrings import documented
from gpuboost.estimators.fitting import dependence, exportable
from gpuboost.estimators.fitting.explanations import ShapExplained
from gpuboost.estimators.fitting.sklearn_bases import BaseEstimator, ClassifierMixin, RegressorMixin
from gpuboost.estimators.trees import pruning
from gpuboost.estimators.trees.tree import DecisionTreeRegressor, SingleTree

MIN_HESSIAN_LEAF = 1e-3  # minimum sum of hessians in a leaf, a constant in scikit-learn
SAME = (  # parameters of the same name and meaning in `GradientBoosting`
    *("learning_rate", "max_leaf_nodes", "max_depth", "min_samples_leaf", "l2_regularization"),
    *("max_bins", "categorical_features", "monotonic_cst", "interaction_cst", "warm_start"),
    *("verbose", "n_jobs", "device"),
)


@dependence.chooses_recursion
@dataclass(kw_only=True, eq=False, repr=False)
class HistGradientBoosting(ShapExplained, BaseEstimator, ABC):
    """Base of `HistGradientBoostingClassifier` and `HistGradientBoostingRegressor`.

    Parameters
    ----------
    max_iter : int
        Number of rounds; with early stopping, the maximum number.
    max_features : float
        Fraction of the features drawn at each node as candidates for its split.
    early_stopping : 'auto' or bool
        Whether the fit ends when ``n_iter_no_change`` rounds were no improvement. 'auto' means to
        do so with more than 10,000 rows, or if `fit` gets ``X_val``.
    scoring : str, callable or None
        What early stopping looks at: 'loss', the name of a scorer of scikit-learn, a function
        ``scoring(estimator, X, y)``, or None for the estimator's `score`.
    validation_fraction : float, int or None
        Fraction or number of the rows set aside for early stopping, if `fit` gets no ``X_val``.
        None means that the scores of the training rows decide.
    n_iter_no_change : int
        The fit ends if none of the scores of this many rounds is better than the score before them
        (see ``tol``). All rounds stay in the model.
    tol : float
        A score is better if it is greater by more than this.

    Attributes
    ----------
    n_iter_ : int
        Number of rounds in the model.
    n_trees_per_iteration_ : int
        Number of trees grown in each round.
    do_early_stopping_ : bool
        Whether the fit could end before ``max_iter`` rounds.
    train_score_ : ndarray of shape (n_iter_ + 1,)
        Scores of training rows before the first round and after each round, of at most 10,000 rows
        if they are not losses; losses are negative. Empty without early stopping.
    validation_score_ : ndarray of shape (n_iter_ + 1,)
        The same of ``X_val`` or of the rows set aside; empty without them.
    feature_importances_ : ndarray of shape (n_features,)
        Fraction of the total gain that is due to each feature.
    is_categorical_ : ndarray of bool of shape (n_features,), or None
        Mask of the categorical features; None if there are none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if all of them are strings.
    device_ : str
        The backend that grew the trees.
    """

    if TYPE_CHECKING:  # fitted attributes
        n_iter_: int = field(init=False)
        n_trees_per_iteration_: int = field(init=False)
        do_early_stopping_: bool = field(init=False)
        train_score_: np.ndarray = field(init=False)
        validation_score_: np.ndarray = field(init=False)
        is_categorical_: np.ndarray | None = field(init=False)
        n_features_in_: int = field(init=False)
        feature_names_in_: np.ndarray = field(init=False)
        device_: str = field(init=False)

    loss: Any = field(default="squared_error", kw_only=False)
    learning_rate: float = 0.1
    max_iter: int = 100
    max_leaf_nodes: int | None = 31
    max_depth: int | None = None
    min_samples_leaf: int = 20
    l2_regularization: float = 0.0
    max_features: float = 1.0
    max_bins: int = 255
    categorical_features: Any = "from_dtype"
    monotonic_cst: Any = None
    interaction_cst: Any = None
    warm_start: bool = False
    early_stopping: bool | str = "auto"
    scoring: Any = LOSS
    validation_fraction: float | None = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-7
    verbose: int = 0
    random_state: Any = None
    n_jobs: int | None = None
    device: str = "auto"

    _boosting_class: ClassVar[type[GradientBoosting]]
    _losses: ClassVar[tuple[str, ...]]
    _tree_class: ClassVar[type[SingleTree]] = DecisionTreeRegressor
    _boosting: ClassVar[Any] = None  # the fitted `GradientBoosting*`, set by `fit`
    _random_seed: ClassVar[int]  # seed of the fit, set by `fit`

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Fit the rounds.

        Parameters
        ----------
        X_val, y_val, sample_weight_val : as X, y and sample_weight, optional
            Rows whose scores early stopping looks at, in place of rows set aside.

        Returns
        -------
        self
        """
        check_target_given(getattr(X, "shape", ()), y, type(self).__name__)
        before = self._boosting if boolean("warm_start", self.warm_start) else None
        seed = self._draw_seed() if before is None else self._random_seed
        boosting = self._configured(before, seed)
        rows = FitRows(X, y, self._row_weights(y, sample_weight))
        validation = given_validation(self, X_val, y_val, sample_weight_val)
        stops = stops_early(self, rows.n, validation)
        if stops and validation is None and self.validation_fraction is not None:
            rows, validation = split(self, rows, seed)
        evaluated = rows_to_score(self, rows, validation, seed) if stops else []
        scores = Scores(self, evaluated)
        if before is not None:
            scores.train, scores.validation = map(list, (self.train_score_, self.validation_score_))
        if before is None or self.max_iter > before.n_estimators_:
            boosting.fit(
                *rows.as_evaluated,
                monitor=scores if stops else None,
                eval_set=[each.as_evaluated for each in evaluated] or None,
            )
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(
            hist_facts(boosting),
            do_early_stopping_=stops,
            train_score_=np.array(scores.train),
            validation_score_=np.array(scores.validation),
            _random_seed=seed,
        )
        return self

    def _draw_seed(self) -> int:
        """The seed of a fit, as scikit-learn draws it, so that the same rows are set aside."""
        return int(check_random_state(self.random_state).randint(2**32 - 1, dtype=np.uint64))

    def _configured(self, before: Any, seed: int) -> GradientBoosting:
        """The boosting estimator with this estimator's parameters, to be fitted."""
        if isinstance(self.loss, str):
            one_of("loss", self.loss, self._losses)
        n_rounds = integer_at_least("max_iter", self.max_iter, 1)
        if before is not None and n_rounds < before.n_estimators_:
            raise ValueError(
                f"max_iter={n_rounds} must be larger than or equal to "
                f"n_iter_={before.n_estimators_} when warm_start==True; raise it, or fit with "
                "warm_start=False"
            )
        boosting = self._boosting_class() if before is None else copy(before)
        boosting._shown_name = type(self).__name__
        return boosting.set_params(
            **{name: getattr(self, name) for name in SAME},
            **self._parameters_of_loss(),
            n_estimators=n_rounds,
            max_features=fraction("max_features", self.max_features),
            min_hessian_leaf=MIN_HESSIAN_LEAF,
            random_state=seed,
        )

    def _parameters_of_loss(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def _row_weights(self, y: Any, weights: Any) -> Any:
        """The weights of the rows, times class weights in a classifier."""
        return weights

    def _should_stop(self, scores: Sequence[float]) -> bool:
        """Whether none of the last scores is better than the one before them."""
        n_recent = self.n_iter_no_change
        has_enough = len(scores) > n_recent
        return has_enough and max(scores[-n_recent:]) <= scores[-n_recent - 1] + self.tol

    # ---- a fitted model ------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return self._boosting is not None

    def _fitted(self) -> Any:
        """The fitted `GradientBoosting*`."""
        check_is_fitted(self)
        return self._boosting

    def predict(self, X: Any) -> np.ndarray:
        """Predicted values or, in a classifier, the most probable class of each row.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._fitted().predict(X)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predictions after each round; see `predict`.

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        yield from self._fitted().staged_predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of the predictions of a classifier, R2 of those of a regressor.

        Returns
        -------
        float
        """
        return self._fitted().score(X, y, sample_weight)

    def fingerprint(self) -> str:
        """SHA-256 of the trees, the bin edges, the codes of categories and the baseline.

        It is equal for equal data, parameters and seed, on any device, with any number of threads.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        return self._fitted().fingerprint()

    @property
    def feature_importances_(self) -> np.ndarray:
        """Fraction of the total gain per feature: ndarray of shape (n_features,)."""
        return self._fitted().feature_importances_

    prune, cost_complexity_pruning_path = pruning.refuse_to_prune, pruning.refuse_pruning_paths

    compile_predictor = exportable.compile_predictor
    save, to_onnx = exportable.save, exportable.to_onnx
    to_sklearn, to_treelite = exportable.to_sklearn, exportable.to_treelite

    def __sklearn_tags__(self) -> Any:
        return self._boosting_class().__sklearn_tags__()


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class HistGradientBoostingRegressor(RegressorMixin, HistGradientBoosting):
    """Gradient boosting for regression, with scikit-learn's parameters of histogram boosting.

    Parameters
    ----------
    loss : {'squared_error', 'absolute_error', 'gamma', 'poisson', 'quantile'} or object
        The loss that is minimised; `GradientBoostingRegressor` describes the methods of an object.
    quantile : float
        Quantile level of loss='quantile', from 0 to 1.
    """

    quantile: float | None = None

    _boosting_class = GradientBoostingRegressor
    _losses = ("squared_error", "absolute_error", "gamma", "poisson", "quantile")
    score = HistGradientBoosting.score  # in place of the mixin's

    def _parameters_of_loss(self) -> dict[str, Any]:
        if not (isinstance(self.loss, str) and self.loss == "quantile"):
            return {"loss": self.loss}
        if self.quantile is None:
            raise ValueError("loss='quantile' needs a level; pass quantile=, a number from 0 to 1")
        return {"loss": self.loss, "alpha": number_between("quantile", self.quantile, 0.0, 1.0)}


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class HistGradientBoostingClassifier(ClassifierMixin, HistGradientBoosting):
    """Gradient boosting for classification, with scikit-learn's parameters of histogram boosting.

    Parameters
    ----------
    loss : 'log_loss' or object
        The loss that is minimised; `GradientBoostingClassifier` describes the methods of an object.
    class_weight : dict or 'balanced'
        A dict maps class labels to weights; classes that it lacks have weight 1. 'balanced' makes
        the weight of a class inversely proportional to its number of rows. None means that all
        classes have weight 1. Class weights multiply ``sample_weight``, but not
        ``sample_weight_val``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    """

    if TYPE_CHECKING:  # fitted attributes
        classes_: np.ndarray = field(init=False)

    loss: Any = field(default="log_loss", kw_only=False)
    class_weight: Any = None

    _boosting_class = GradientBoostingClassifier
    _losses = ("log_loss",)
    score = HistGradientBoosting.score  # in place of the mixin's

    def _row_weights(self, y: Any, weights: Any) -> Any:
        """The weights of the rows times class weights."""
        check_class_weight(self.class_weight)
        if self.class_weight is None:
            return weights
        y, weights = copied_to_host(y, weights)
        of_class = compute_sample_weight(self.class_weight, y)
        return of_class if weights is None else of_class * np.asarray(weights)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_classes)
        """
        return self._fitted().predict_proba(X)

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Probabilities after each round; see `predict_proba`.

        Yields
        ------
        ndarray of float64 of shape (n_samples, n_classes)
        """
        yield from self._fitted().staged_predict_proba(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Raw predictions.

        Returns
        -------
        ndarray of float64 of shape (n_samples,) with two classes, else (n_samples, n_classes)
        """
        return self._fitted().decision_function(X)

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Raw predictions after each round; see `decision_function`.

        Yields
        ------
        ndarray of float64 of shape (n_samples,) with two classes, else (n_samples, n_classes)
        """
        yield from self._fitted().staged_decision_function(X)
