"""Gradient boosting: each tree is fitted to the gradients of the loss after those before it."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.backends.device_arrays import inverse_link
from gpuboost.data.arrays import array_module, working_on
from gpuboost.engine.losses import USER, make_loss, user_loss
from gpuboost.engine.losses.links import LOGIT, SOFTMAX
from gpuboost.estimators.boosting.baseline import fitted_init, raw_of_init, read_offset
from gpuboost.estimators.boosting.docstrings import OF_CLASSIFIER, OF_REGRESSOR
from gpuboost.estimators.boosting.inputs import (
    BoostPlan,
    EvaluationReader,
    boost_plan,
    start_of_rows,
)
from gpuboost.estimators.boosting.model import BoostedRounds, predictions
from gpuboost.estimators.boosting.parameters import IMPORTANCES, FeatureCounts
from gpuboost.estimators.boosting.training import BoostingFit, RoundSetup
from gpuboost.estimators.docstrings import OF_A_FIT, documented, takes
from gpuboost.estimators.fitting.mixins import Classifier, Regressor
from gpuboost.estimators.fitting.pipeline import memory_advice, run_fit
from gpuboost.estimators.inputs.parameters import check_option
from gpuboost.estimators.model.cached_view import ModelView
from gpuboost.estimators.trees.many_trees import ManyTrees
from gpuboost.estimators.trees.tree import DecisionTreeRegressor, SingleTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuboost.backends.select import Growth
    from gpuboost.engine.losses import Loss
    from gpuboost.estimators.fitting.pipeline import FitInputs, Prepared

OF_A_TREE = (
    *("max_depth", "min_samples_split", "min_samples_leaf", "min_weight_fraction_leaf"),
    *("max_features", "max_leaf_nodes", "min_impurity_decrease", "ccp_alpha"),
)


@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoosting(ManyTrees):
    """Base of gradient boosting for classification and for regression."""

    loss: Any = "squared_error"
    learning_rate: Any = 0.1
    n_estimators: int = 100
    subsample: float = 1.0
    max_depth: int | None = 3
    max_leaf_nodes: int | None = None
    min_samples_split: float = 2
    min_samples_leaf: float = 1
    min_weight_fraction_leaf: float = 0.0
    min_impurity_decrease: float = 0.0
    min_hessian_leaf: float = 0.0
    min_samples_category: float | str = "auto"
    max_features: float | str | None = None
    max_features_per_level: float | str | None = None
    max_features_per_tree: float | str | None = None
    l1_regularization: float = 0.0
    l2_regularization: float = 0.0
    max_delta_step: float | None = None
    monotonic_cst: Any = None
    interaction_cst: Any = None
    multi_strategy: str = "auto"
    init: Any = None
    validation_fraction: float = 0.1
    n_iter_no_change: int | None = None
    tol: float = 1e-4
    eval_metric: Any = None
    callbacks: Any = None
    importance_type: str = "gain"
    criterion: str = "deprecated"
    ccp_alpha: float = 0.0
    warm_start: bool = False
    verbose: int = 0

    _model: ClassVar[Any] = None

    @abstractmethod
    def _make_loss(self, labels: Any) -> Loss:
        """The loss for these labels."""

    # ---- fit -----------------------------------------------------------------------------------

    @takes("X", "y", "sample_weight", told=OF_A_FIT)
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        monitor: Callable[..., Any] | None = None,
        *,
        offset: Any = None,
        eval_set: Any = None,
    ) -> Any:
        """Fit the rounds.

        Parameters
        ----------
        monitor : callable, optional
            Called after each round with its number, this estimator and the facts of the fit; if it
            returns true, the fit ends.
        offset : array-like of shape (n_samples,) or (n_samples, columns), optional
            Raw prediction that each row starts from (base margin), such as the logarithm of an
            exposure. The same must be given to `predict`.
        eval_set : list of (X, y), (X, y, sample_weight) or (X, y, sample_weight, offset), optional
            Rows whose loss and ``eval_metric`` are kept in ``evals_result_``. With
            ``n_iter_no_change`` the last metric of the last one decides when to stop, in place of
            rows set aside.

        Returns
        -------
        self
        """
        with memory_advice():
            run_fit(self, X, y, sample_weight, X, y, monitor, offset, eval_set)
        return self

    def _plan(self, inputs: FitInputs) -> tuple[BoostPlan, Growth]:
        return boost_plan(self, inputs)

    def _grow(
        self,
        prepared: Prepared,
        X: Any = None,
        y: Any = None,
        monitor: Callable[..., Any] | None = None,
        offset: Any = None,
        eval_set: Any = None,
    ) -> tuple[BoostedRounds, dict[str, Any]]:
        """Fit or keep ``init``, read offsets and evaluation sets, and run the rounds."""
        plan, before = prepared.plan, prepared.before
        init = None if before is None else before.init
        if before is None and self.init is not None:
            init = fitted_init(self.init, X, y, plan.given_weights)
        offsets = start_of_rows(X, offset, init, plan.loss, len(plan.y))
        evaluated = EvaluationReader(self, prepared, init).read(eval_set)
        fit = BoostingFit(RoundSetup(self, prepared, offsets, init, evaluated))
        model = fit.run(monitor)
        return model, self._facts(fit, model)

    def _facts(self, fit: BoostingFit, model: BoostedRounds) -> dict[str, Any]:
        """The fitted attributes that other estimators do not have."""

        def extended(name: str, new: list[float]) -> np.ndarray:
            """Scores of all rounds, those before a warm start included."""
            return np.array([*(getattr(self, name, ()) if fit.setup.before else ()), *new])

        facts: dict[str, Any] = {
            "n_estimators_": model.n_rounds,
            "n_trees_per_iteration_": model.trees_per_round,
            "max_features_": FeatureCounts.of(self, model.schema.n_features).node,
            "baseline_": model.baseline,
            "train_score_": extended("train_score_", fit.train_scores),
            "evals_result_": fit.results,
        }
        if fit.oob_scores:
            facts["oob_improvement_"] = extended("oob_improvement_", fit.oob_improvements)
            facts["oob_scores_"] = extended("oob_scores_", fit.oob_scores)
            facts["oob_score_"] = fit.oob_scores[-1]
        if fit.results:
            facts["validation_score_"] = np.array(fit.scores)
        if fit.best_round is not None:
            facts["best_iteration_"] = fit.best_round
        if model.init is not None:
            facts["init_"] = model.init
        return facts

    # ---- a fitted model ------------------------------------------------------------------------

    def _raw_predictions(self, X: Any, offset: Any = None) -> np.ndarray:
        """Raw predictions: float64 (n, columns)."""
        trees = self._run(X, BoostedRounds.raw)
        with working_on(trees):
            return trees + self._start(X, trees, offset)

    def _staged_raw(self, X: Any, offset: Any = None) -> Iterator[np.ndarray]:
        """The same after each round."""
        start = None
        for trees in self._run(X, BoostedRounds.staged_raw):
            with working_on(trees):
                start = self._start(X, trees, offset) if start is None else start
                raw = trees + start
            yield raw

    def _start(self, X: Any, trees: np.ndarray, offset: Any) -> np.ndarray:
        """Raw predictions before the first round: (n or 1, columns), on the device of ``trees``."""
        model: BoostedRounds = self._model
        start = array_module(trees).asarray(model.baseline[None])
        offsets = read_offset(offset, len(trees), model.loss.columns, near=trees)
        if model.init is not None:
            own = array_module(trees).asarray(raw_of_init(model.init, X, model.loss))
            offsets = own if offsets is None else offsets + own
        return start if offsets is None else start + offsets

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the gains of all splits, or in their number.

        See ``importance_type``; ndarray of shape (n_features,).
        """
        check_is_fitted(self)
        kind = check_option("importance_type", self.importance_type, IMPORTANCES)
        return self._model.importances(self.n_features_in_, kind)

    def fingerprint(self) -> str:
        """SHA-256 of what prediction reads; see the other estimators.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        sha = hashlib.sha256(super().fingerprint().encode())
        sha.update(f"{self._model.trees_per_round}".encode())
        sha.update(np.ascontiguousarray(self._model.baseline).tobytes())
        return sha.hexdigest()

    def _empty_tree(self) -> SingleTree:
        return DecisionTreeRegressor(**{name: getattr(self, name) for name in OF_A_TREE})

    def _facts_of_trees(self) -> dict[str, Any]:
        return {"n_outputs_": self._ensemble.n_values}

    @ModelView
    def estimators_(self) -> np.ndarray:
        """The trees as fitted regressors that share the arrays of this model.

        ndarray of shape (n_estimators_, trees per round). A tree's value is what it adds to the raw
        prediction, the learning rate included; impurities are not known (NaN).
        """
        check_is_fitted(self)
        trees = [self._tree_estimator(t, batch) for t, batch in self._trees_and_batches()]
        shown = np.empty((self._model.n_rounds, self._model.trees_per_round), dtype=object)
        shown.ravel()[:] = trees
        shown.flags.writeable = False
        return shown


@documented("Gradient boosting for regression.", OF_REGRESSOR)
@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingRegressor(Regressor, GradientBoosting):
    loss: Any = "squared_error"
    alpha: Any = 0.9
    tweedie_power: float = 1.5

    def _make_loss(self, labels: Any) -> Loss:
        n_outputs = 1 if labels.values.ndim == 1 else labels.values.shape[1]
        if not isinstance(self.loss, str):
            return user_loss(self.loss, n_outputs)
        return make_loss(self.loss, n_outputs=n_outputs, alpha=self.alpha, power=self.tweedie_power)

    @takes("X", "offset")
    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Predicted values.

        Returns
        -------
        ndarray of float64 of shape (n_samples,) or (n_samples, n_outputs)
            With several levels of ``loss="quantile"``, (n_samples, n_levels).
        """
        return self._shaped(self._raw_predictions(X, offset))

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[np.ndarray]:
        """Predicted values after each round; see `predict`."""
        return map(self._shaped, self._staged_raw(X, offset))

    def _shaped(self, raw: np.ndarray) -> np.ndarray:
        return _of_one_column(predictions(self._model.loss, raw))


@documented("Gradient boosting for classification.", OF_CLASSIFIER)
@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingClassifier(Classifier, GradientBoosting):
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

    @takes("X", "offset")
    def decision_function(self, X: Any, offset: Any = None) -> np.ndarray:
        """Raw predictions.

        Returns
        -------
        ndarray of float64 of shape (n_samples,) or (n_samples, n_classes)
        """
        return _of_one_column(self._raw_predictions(X, offset))

    def staged_decision_function(self, X: Any, offset: Any = None) -> Iterator[np.ndarray]:
        """Raw predictions after each round; see `decision_function`."""
        return map(_of_one_column, self._staged_raw(X, offset))

    @takes("X", "offset")
    def predict_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """Probability of each class.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_classes)
        """
        return self._probabilities(self._raw_predictions(X, offset))

    def staged_predict_proba(self, X: Any, offset: Any = None) -> Iterator[np.ndarray]:
        """Probabilities after each round; see `predict_proba`."""
        return map(self._probabilities, self._staged_raw(X, offset))

    @takes("X", "offset")
    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Most probable class of each row, the first of equals.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._most_probable(self.predict_proba(X, offset))

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[np.ndarray]:
        """Classes after each round; see `predict`."""
        return map(self._most_probable, self.staged_predict_proba(X, offset))

    def _most_probable(self, shares: np.ndarray) -> np.ndarray:
        with working_on(shares):
            return self._labels_at(shares.argmax(axis=1))

    def _probabilities(self, raw: np.ndarray) -> np.ndarray:
        """Probability of each class, logistic if a user's loss does not define ``predict``."""
        loss: Loss = self._model.loss
        if loss.formula != USER or hasattr(self.loss, "predict"):
            found = predictions(loss, raw)
            with working_on(found):
                both = array_module(found).stack
                return found if found.ndim == 2 else both([1.0 - found, found], axis=1)
        return inverse_link(LOGIT if raw.shape[1] == 1 else SOFTMAX, raw)

    @takes("X")
    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree.

        Returns
        -------
        ndarray of int64 of shape (n_samples, n_estimators_, trees per round)
        """
        leaves = self._leaves(X)
        return leaves.reshape(len(leaves), self._model.n_rounds, -1)


def _of_one_column(raw: np.ndarray) -> np.ndarray:
    """A single column without its axis."""
    with working_on(raw):
        return raw[:, 0] if raw.shape[1] == 1 else raw
