"""Base of gradient boosting: each round fits trees to the negative gradient of the loss."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from gpuboost.backends.cost_model import GrowthSize
from gpuboost.data.advice import warn_user
from gpuboost.data.arrays import copied_to_host
from gpuboost.data.parameters import one_of
from gpuboost.engine.array_modules import array_module, working_on
from gpuboost.engine.losses import Loss
from gpuboost.estimators.boosting.baseline import fitted_init, raw_of_init, read_offset
from gpuboost.estimators.boosting.further_rounds import fit_further_rounds
from gpuboost.estimators.boosting.inputs import BoostPlan, boost_plan, read_eval_set, start_of_rows
from gpuboost.estimators.boosting.metrics import warn_of_metrics
from gpuboost.estimators.boosting.model import BoostedRounds, model_facts
from gpuboost.estimators.boosting.parameters import IMPORTANCES, FeatureCounts, rounds_to_use
from gpuboost.estimators.boosting.training import BoostingFit, RoundSetup
from gpuboost.estimators.fitting.pipeline import (
    FitInputs,
    Prepared,
    RoundInputs,
    fitted_copy,
    memory_advice,
    run_fit,
)
from gpuboost.estimators.model.cached_view import ModelView
from gpuboost.estimators.model.predictor import CheckedRows
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
        Multiplies the contribution of each tree. A callable takes the number of the round, from
        0, and returns the learning rate of the round.
    n_estimators : int
        Number of rounds; with early stopping, the maximum number.
    subsample : float
        Fraction of the rows drawn for each round, without replacement (Friedman, Stochastic
        gradient boosting, 2002).
    min_hessian_leaf : float
        Minimum sum of hessians in a leaf. With 'squared_error', 'absolute_error', 'huber' and
        'quantile', the hessian of a row is its weight; with log loss, its weight times p (1 - p),
        where p is the predicted probability (for more than two classes, times
        n_classes / (n_classes - 1); if one tree holds all classes, the mean over these). All
        built-in losses but those whose hessian is the weight raise small hessians, so that the
        Newton step of a single row is at most 8.
    min_samples_category : int, float or 'auto'
        Categories with fewer rows than this in a node are rare: they go where missing values go
        and are never split off alone. Rows are counted by their hessians, in units of the tree's
        mean hessian per row; a float is a fraction of all rows. The parameter applies to features
        with more than 4 categories. 'auto' means 20 rows; with 'log_loss' and 'poisson', it means
        the number of rows with a total hessian of 5 before the first round, if that number is
        larger (105 if one row in 20 is positive). In small tables, 'auto' is at most one row in a
        hundred. With 0, no category is rare. HistGradientBoosting and LightGBM (``cat_smooth``) use
        10, and smooth in addition.
    max_features_per_level : int, float, 'sqrt', 'log2' or None
        Number of features drawn for each level from the features of the tree; a float is a fraction
        of these. None means all of them.
    max_features_per_tree : int, float, 'sqrt', 'log2' or None
        Number of features drawn for each tree; a float is a fraction of all features. None means
        all features.
    l1_regularization : float
        L1 penalty on leaf values: a leaf is 0 if the absolute value of the sum of its gradients is
        at most this value. With the losses 'absolute_error', 'huber' and 'quantile', whose leaf
        values follow from quantiles of residuals, this penalty, ``l2_regularization`` and
        ``max_delta_step`` affect only the splits.
    l2_regularization : float
        L2 penalty on leaf values.
    max_delta_step : float
        Maximum absolute value of a leaf, before the learning rate is applied. None means no limit.
    ccp_alpha : float
        Complexity parameter of minimal cost-complexity pruning, the cost of each leaf. Each tree
        is pruned before it is added to the model. The unit is the same as for
        ``min_impurity_decrease``: the variance of Newton steps, weighted by hessians.
        0 means no pruning.
    monotonic_cst : array-like of int of shape (n_features,), or dict
        1 if predictions must increase with the feature, -1 if they must decrease, 0 for no
        constraint; or a dict that maps names or indices of features to these numbers. Not supported
        for more than two classes, several outputs or several quantiles. With 'absolute_error',
        'huber' and 'quantile', only splits are constrained; leaf values can break the order.
    interaction_cst : 'pairwise', 'no_interactions', or sequence of sets of int or str
        Groups of features that can occur together on a path from the root to a leaf. Features
        in no group form one more group. 'pairwise' allows up to two features on a path,
        'no_interactions' a single feature. None means no constraint.
    multi_strategy : {'auto', 'one_output_per_tree', 'multi_output_tree'}
        Whether each round grows one tree per class, output or quantile level (a single tree for two
        classes), or one tree whose leaves hold the values of all classes or outputs. 'auto' grows
        one tree for all outputs of a regression with loss='squared_error', and otherwise one tree
        for each. 'multi_output_tree' is for this loss and for 'log_loss' of more than two classes.
    init : estimator or 'zero'
        Estimator whose predictions boosting starts from. None means the best constant (the median
        if there is no formula for the best constant; with a user-defined loss, its ``baseline``).
        'zero' means raw predictions of 0.
    validation_fraction : float
        Fraction of the rows set aside for early stopping, if ``n_iter_no_change`` is set and
        `fit` gets no ``eval_set``.
    n_iter_no_change : int
        Stop after this many rounds without an improvement (see ``tol``). These rounds stay in the
        model; ``best_iteration_`` is the last round that improved. None means no early stopping.
    tol : float
        A round is an improvement if its score is better than that of the last improvement by more
        than this.
    eval_metric : str, callable, or list of these
        Metrics evaluated in addition to the loss, on ``eval_set`` or on the rows set aside.
        Regressors: 'rmse', 'mse', 'mae', 'mape', 'r2', 'poisson_deviance', 'gamma_deviance',
        'tweedie_deviance' (of power 1.5). Classifiers: 'accuracy', 'balanced_accuracy', 'error',
        'log_loss', 'auc', 'average_precision'. Other usual names are understood, such as 'roc_auc',
        'logloss' and the names of these metrics in scikit-learn. A callable is called as
        ``metric(y_true, y_pred)``, and with the keyword ``sample_weight`` if the rows have weights
        other than 1 (from ``sample_weight``, ``class_weight`` or ``eval_set``); rows of weight 0
        are left out. In a classifier, the arguments are encoded classes and probabilities (with two
        classes, only those of the second). With a user-defined loss without ``predict``, metrics
        get raw predictions; with several quantile levels, predictions have a column for each, which
        needs a callable. Smaller values are better unless the callable has a true attribute
        ``greater_is_better``.
    criterion : str
        Deprecated in scikit-learn, and has no effect: splits are chosen by the gain of a Newton
        step.
    importance_type : {'gain', 'count'}
        Whether ``feature_importances_`` sums the gains of splits or counts splits.

    Attributes
    ----------
    estimators_ : ndarray of tree estimators of shape (n_estimators_, n_trees_per_iteration_)
        The fitted trees; read-only.
    n_estimators_ : int
        Number of rounds in the model.
    n_trees_per_iteration_ : int
        Number of trees grown in each round.
    max_features_ : int
        Number of candidate features at each node.
    baseline_ : ndarray of shape (columns,)
        Raw prediction before the first round, without offsets and the predictions of ``init``; with
        ``init``, it is 0. Its columns are those of ``offset`` in `fit`.
    init_ : estimator
        The fitted ``init`` estimator, if there is one.
    train_score_ : ndarray of shape (n_estimators_,)
        Mean loss after each round on the rows that the round was fitted on.
    evals_result_ : dict of dict of list
        Loss and metrics after each round of the last fit, first by row set ('validation' for rows
        set aside, 'validation_0' and so on for ``eval_set``), then by metric. The loss 'log_loss'
        of two classes is the deviance: twice what ``eval_metric='log_loss'`` computes.
    validation_score_ : ndarray
        Values of the last metric on the last row set of ``evals_result_``.
    best_iteration_ : int
        Number of the round of the last improvement, from 0, with ``n_iter_no_change``.
    oob_scores_ : ndarray of shape (n_estimators_,)
        Mean loss after each round on the rows not drawn for the round, if ``subsample`` is below 1;
        0 for rounds before a warm start that drew no rows.
    oob_improvement_ : ndarray of shape (n_estimators_,)
        Decrease of the out-of-bag loss in each round; 0 where ``oob_scores_`` has no loss.
    oob_score_ : float
        The last value of ``oob_scores_``.
    """

    if TYPE_CHECKING:  # fitted attributes
        n_estimators_: int = field(init=False)
        n_trees_per_iteration_: int = field(init=False)
        max_features_: int = field(init=False)
        baseline_: np.ndarray = field(init=False)
        init_: Any = field(init=False)
        train_score_: np.ndarray = field(init=False)
        evals_result_: dict[str, dict[str, list[float]]] = field(init=False)
        validation_score_: np.ndarray = field(init=False)
        best_iteration_: int = field(init=False)
        oob_scores_: np.ndarray = field(init=False)
        oob_improvement_: np.ndarray = field(init=False)
        oob_score_: float = field(init=False)

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
    init: Any = None  # type: ignore[misc]  # a parameter only here
    validation_fraction: float = 0.1
    n_iter_no_change: int | None = None
    tol: float = 1e-4
    eval_metric: Any = None
    importance_type: str = "gain"
    criterion: str = "deprecated"
    ccp_alpha: float = 0.0
    warm_start: bool = False
    verbose: int = 0

    _tree_class: ClassVar[type[SingleTree]] = DecisionTreeRegressor
    _had_offset: ClassVar[bool] = False  # set by fit
    _adds_rounds: ClassVar[bool] = False  # to those of an init_model

    @abstractmethod
    def _make_loss(self, labels: Any) -> Loss:
        """The loss for the given labels."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        monitor: Callable[..., Any] | None = None,
        *,
        offset: Any = None,
        eval_set: Any = None,
        init_model: Any = None,
    ) -> Self:
        """Fit the rounds.

        Parameters
        ----------
        monitor : callable, optional
            Called after each round with the number of the round, this estimator and a dict with the
            state of the fit; if the callable returns a true value, the fit ends.
        offset : array-like of shape (n_samples,) or (n_samples, columns), optional
            Raw prediction that each row starts from (base margin), such as the logarithm of an
            exposure. There is one column per output, quantile level or class, but only one for two
            classes. `predict` also needs the offsets of the rows that it predicts.
        eval_set : list of (X, y), (X, y, sample_weight) or (X, y, sample_weight, offset), optional
            Row sets whose loss and ``eval_metric`` are recorded in ``evals_result_``; a single
            tuple is allowed, too. With ``n_iter_no_change``, the last metric (the loss, if there is
            no other) of the last set decides when to stop, and no training rows are set aside.
        init_model : GradientBoosting* or HistGradientBoosting*, optional
            Fitted model of gpuboost, to whose rounds ``n_estimators`` rounds are added. It must
            have the same features, loss and classes, and does not change. Its bins, categories and
            baseline are kept, so ``max_bins`` and ``categorical_features`` have no effect.

        Returns
        -------
        self
        """
        with memory_advice():
            rounds = RoundInputs(X, y, monitor, offset, eval_set)
            if init_model is None:
                run_fit(self, X, y, sample_weight, rounds)
            else:
                fit_further_rounds(self, init_model, rounds, sample_weight)
        return self

    def _plan(self, inputs: FitInputs) -> tuple[BoostPlan, GrowthSize]:
        return boost_plan(self, inputs)

    def _grow(
        self, prepared: Prepared[BoostPlan], rounds: RoundInputs | None = None
    ) -> tuple[BoostedRounds, dict[str, Any]]:
        """Fit or keep ``init``, read offsets and evaluation sets, and run the rounds."""
        plan, before, given = prepared.plan, prepared.before, rounds or RoundInputs()
        init = before.init if before else None
        if before is None and self.init is not None:
            needed = "predict_proba" if plan.loss.is_classifier else "predict"
            own = given.X, given.y, plan.given_weights
            init = fitted_init(self.init, *own, needed, type(self).__name__)
        offsets = start_of_rows(given.X, given.offset, init, plan.loss, len(plan.y))
        has_offset = given.offset is not None and bool(np.any(copied_to_host(given.offset)[0]))
        evaluated = read_eval_set(given.eval_set, self, prepared, init, has_offset)
        fit = BoostingFit(RoundSetup(self, prepared, offsets, init, evaluated))
        if not fit.setup.monitored:
            warn_of_metrics(self.eval_metric, is_classifier(self))
        had_offset = before is not None and (prepared.resumed or self)._had_offset
        if had_offset and given.offset is None:
            warn_user("the rounds before this warm start had an offset; pass offset= again")
        fit.has_offset = has_offset or had_offset
        model = fit.run(given.monitor)
        return model, self._facts(fit, model)

    def _fitted_by(self, fit: BoostingFit) -> Any:
        """A fitted copy of this estimator, with the rounds of a fit so far."""
        model = fit.model()
        return fitted_copy(self, fit.setup.prepared, model, self._facts(fit, model))

    def _facts(self, fit: BoostingFit, model: BoostedRounds) -> dict[str, Any]:
        """The fitted attributes that are specific to gradient boosting."""

        def extended(name: str, new: list[float]) -> np.ndarray:
            """Scores of all rounds, including those before a warm start (0 without a score)."""
            before, resumed = fit.setup.before, fit.setup.prepared.resumed
            if before is None or resumed is not None:
                return np.array(new)
            return np.array([*getattr(self, name, np.zeros(before.n_rounds)), *new])

        facts: dict[str, Any] = {
            **model_facts(model),
            "max_features_": FeatureCounts.of(self, model.schema.n_features).node,
            "train_score_": extended("train_score_", fit.train_scores),
            "evals_result_": fit.results,
            "_had_offset": fit.has_offset,
        }
        if fit.oob_scores:
            facts["oob_improvement_"] = extended("oob_improvement_", fit.oob_improvements)
            facts["oob_scores_"] = extended("oob_scores_", fit.oob_scores)
            facts["oob_score_"] = fit.oob_scores[-1]
        if fit.results:
            facts["validation_score_"] = np.array(fit.scores)
        if fit.best_round is not None:
            facts["best_iteration_"] = fit.best_round
        return facts

    # ---- a fitted model ------------------------------------------------------------------------

    def _raw_predictions(self, X: Any, offset: Any = None, n_rounds: Any = None) -> np.ndarray:
        """Raw predictions by the first rounds: float64 (n, columns)."""
        if self._model is None:
            check_is_fitted(self)
        n = rounds_to_use(n_rounds, self._model.n_rounds, getattr(self, "best_iteration_", None))

        def raw(model: BoostedRounds, *rest: Any) -> np.ndarray:
            return (model if n == model.n_rounds else model.first_rounds(n)).raw(*rest)

        trees = self._run(X, raw)
        with working_on(trees):
            return trees + self._start(X, trees, offset)

    def _staged_raw(self, X: Any, offset: Any = None) -> Iterator[np.ndarray]:
        """Raw predictions after each round."""
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
        if offset is None and self._had_offset:
            warn_user(
                f"this {type(self).__name__} was fitted with an offset, and predicts as if it were "
                "0; pass offset= to predict, zeros if 0 is meant (score and other functions that "
                "call predict without one mean 0)"
            )
        if model.init is not None:
            given = X.rows if type(X) is CheckedRows else X
            own = array_module(trees).asarray(raw_of_init(model.init, given, model.loss))
            offsets = own if offsets is None else offsets + own
        return start if offsets is None else start + offsets

    @property
    def feature_importances_(self) -> np.ndarray:
        """Fraction of the total gain, or of the number of splits, that is due to each feature.

        ndarray of shape (n_features,); see ``importance_type``.
        """
        check_is_fitted(self)
        kind = one_of("importance_type", self.importance_type, IMPORTANCES)
        return self._model.importances(self.n_features_in_, kind)

    def _empty_tree(self) -> SingleTree:
        return self._tree_class(**{name: getattr(self, name) for name in OF_A_TREE})

    def _facts_of_trees(self) -> dict[str, Any]:
        return {"n_outputs_": self._ensemble.n_values}

    @ModelView
    def estimators_(self) -> np.ndarray:  # type: ignore[override]  # as in scikit-learn
        """The trees as fitted regressors that share the arrays of this model.

        ndarray of shape (n_estimators_, n_trees_per_iteration_). A tree predicts its contribution
        to the raw prediction, including the learning rate; impurities are NaN.
        """
        trees = [self._tree_estimator(t, batch) for t, batch in self._trees_and_batches()]
        shown = np.empty((self._model.n_rounds, self._model.trees_per_round), dtype=object)
        shown.ravel()[:] = trees
        shown.flags.writeable = False
        return shown
