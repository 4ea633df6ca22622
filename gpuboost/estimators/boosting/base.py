"""Base of gradient boosting: each tree is fitted to the gradients of the loss before it."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.backends.cost_model import Growth
from gpuboost.data.parameters import one_of
from gpuboost.engine.array_modules import array_module, working_on
from gpuboost.engine.losses import Loss
from gpuboost.estimators.boosting.baseline import fitted_init, raw_of_init, read_offset
from gpuboost.estimators.boosting.inputs import (
    BoostPlan,
    boost_plan,
    read_eval_set,
    start_of_rows,
)
from gpuboost.estimators.boosting.model import BoostedRounds
from gpuboost.estimators.boosting.parameters import IMPORTANCES, FeatureCounts
from gpuboost.estimators.boosting.training import BoostingFit, RoundSetup
from gpuboost.estimators.fitting.pipeline import FitInputs, Prepared, memory_advice, run_fit
from gpuboost.estimators.model.cached_view import ModelView
from gpuboost.estimators.trees.many_trees import ManyTrees
from gpuboost.estimators.trees.tree import DecisionTreeRegressor, SingleTree

OF_A_TREE = (
    *("max_depth", "min_samples_split", "min_samples_leaf", "min_weight_fraction_leaf"),
    *("max_features", "max_leaf_nodes", "min_impurity_decrease", "ccp_alpha"),
)


@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoosting(ManyTrees):
    """Base of gradient boosting for classification and for regression.

    Parameters
    ----------
    learning_rate : float or callable
        Multiplies what each tree adds; a function is called with the round, from 0.
    n_estimators : int
        Rounds, at most so many where fitting stops early.
    subsample : float
        Share of the rows drawn for each round, without replacement (Friedman, Stochastic
        gradient boosting, 2002).
    min_hessian_leaf : float
        Smallest sum of hessians of a leaf: of weights where the loss is a squared error, of
        p (1 - p) in a classification.
    min_samples_category : int, float or 'auto'
        Categories with fewer rows in a node go where missing values go: none is split off
        alone. Rows are counted by their hessians, the tree's mean being one row; a float is a
        share of all rows. Only of features with more than 4 levels. 'auto': 20 rows, or with
        log loss and poisson as many as have a hessian of 5 before the first round, if that is
        more: 105 where one row in 20 is positive; at most one row in a hundred. 0: no category
        is too rare.
        HistGradientBoosting and LightGBM (``cat_smooth``) ask for 10 and smooth beside that.
    max_features_per_level : int, float, 'sqrt', 'log2' or None
        Features drawn for each level of a tree from those of the tree. None: all.
    max_features_per_tree : int, float, 'sqrt', 'log2' or None
        Features drawn for each tree. None: all.
    l1_regularization : float
        Weight of the absolute values of leaves: gradients of a leaf smaller than this give 0.
    l2_regularization : float
        Weight of the squared values of leaves.
    max_delta_step : float
        Largest absolute value of a leaf, before the learning rate. None: no limit.
    ccp_alpha : float
        What a leaf costs when a tree is pruned, before its values are added, in the units of
        ``min_impurity_decrease``: those of the variance of Newton's steps, weighted by hessian.
        0: the whole tree.
    monotonic_cst : array-like of int of shape (n_features,), or dict
        1 where predictions must rise with a feature, -1 where they must fall, 0 where they may
        do both; or these by name.
    interaction_cst : 'pairwise', 'no_interactions', or sequence of sets of int or str
        Groups of features that may follow one another on a path. Features in no group are one
        of their own. None: all may.
    multi_strategy : {'auto', 'one_output_per_tree', 'multi_output_tree'}
        A tree for each class or output in every round, or one whose leaves hold all of them.
        'auto': the first for classes, the second for outputs of a regression.
    init : estimator or 'zero'
        Predicts where boosting starts. None: the best constant.
    validation_fraction : float
        Share of the rows set aside to decide when to stop, where ``n_iter_no_change`` says so
        and `fit` is given no ``eval_set``.
    n_iter_no_change : int
        Stop when so many rounds brought no improvement of more than ``tol``. The rounds stay in
        the model; ``best_iteration_`` tells the best. None: do not stop early.
    tol : float
        The least improvement that counts.
    eval_metric : str, callable, or list of these
        Followed beside the loss on ``eval_set``, or on the rows set aside. Regressors: 'rmse',
        'mse', 'mae', 'mape', 'r2', 'poisson_deviance', 'gamma_deviance', 'tweedie_deviance';
        classifiers: 'accuracy', 'balanced_accuracy', 'error', 'log_loss', 'auc',
        'average_precision'; or ``metric(truth, prediction)``, smaller being better unless it
        has ``greater_is_better``, of classifiers with numbered classes and probabilities.
    callbacks : callable, or list of these
        Called after each round with its number, learning rate and scores; one that returns True
        ends the fit.
    criterion : str
        Deprecated in scikit-learn; splits are chosen by the gain of Newton's step.
    importance_type : {'gain', 'count'}
        What ``feature_importances_`` adds up: gains of splits, or splits.

    Attributes
    ----------
    estimators_ : ndarray of fitted trees of shape (n_estimators_, n_trees_per_iteration_)
    n_estimators_ : int; rounds in the model
    n_trees_per_iteration_ : int; trees of a round
    max_features_ : int; features that a node looks at
    baseline_ : ndarray; raw prediction before the first round
    init_ : the fitted ``init`` estimator, where there is one
    train_score_ : ndarray; mean loss of the training rows after each round
    evals_result_ : dict; by name of a set of rows and of a metric, its value after each round
    validation_score_ : ndarray; the last metric of the last set after each round, where
        there are such sets
    best_iteration_ : int; the best round, with ``n_iter_no_change``
    oob_scores_ : ndarray; mean loss after each round of the rows not drawn for it, with
        ``subsample``
    oob_improvement_ : ndarray; what each round lowered that loss by
    oob_score_ : float; the last of ``oob_scores_``
    """

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

    _tree_class: ClassVar[type[SingleTree]] = DecisionTreeRegressor

    @abstractmethod
    def _make_loss(self, labels: Any) -> Loss:
        """The loss for these labels."""

    # ---- fit -----------------------------------------------------------------------------------

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
        evaluated = read_eval_set(eval_set, self, prepared, init)
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
        kind = one_of("importance_type", self.importance_type, IMPORTANCES)
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
        return self._tree_class(**{name: getattr(self, name) for name in OF_A_TREE})

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
