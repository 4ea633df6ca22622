"""Bagging, pasting, random subspaces and random patches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sklearn.ensemble

from gpuboost.data.advice import warn_user
from gpuboost.data.parameters import boolean
from gpuboost.engine.sampling import ALL_ROWS, WITH_REPLACEMENT, WITHOUT_REPLACEMENT
from gpuboost.estimators.docstrings import documented
from gpuboost.estimators.fitting.mixins import Classifier, Regressor
from gpuboost.estimators.forest.ensemble import TreeEnsemble
from gpuboost.estimators.inputs.parameters import draw_count, whole_or_share
from gpuboost.estimators.inputs.targets import MultiOutputClassLabels
from gpuboost.estimators.model.fitted import FeatureDraw
from gpuboost.estimators.trees.base_learners import checked_tree
from gpuboost.estimators.trees.sklearn_fallback import SklearnFallback, falls_back_to
from gpuboost.estimators.trees.tree import DecisionTreeClassifier, DecisionTreeRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class Bagging(SklearnFallback, TreeEnsemble):
    """Base of bagging classifiers and regressors.

    Parameters
    ----------
    max_features : int or float
        Number of features drawn for each tree (random subspaces); a float is a fraction of all
        features.
    bootstrap_features : bool
        Whether the features of a tree are drawn with replacement.

    Attributes
    ----------
    estimators_features_ : list of ndarray
        The features drawn for each tree.
    """

    estimator: Any = field(default=None, kw_only=False)
    n_estimators: int = field(default=10, kw_only=False)
    max_features: float = 1.0
    bootstrap_features: bool = False

    @property
    def _tree(self) -> Any:
        if self.estimator is None:
            return self._tree_class()
        return checked_tree(self.estimator, self._tree_class, type(self).__name__)

    def _row_draw(self, n_samples: int, weights: np.ndarray | None) -> tuple[str, int]:
        n_draws = draw_count(self.max_samples, n_samples, weights, 1.0)
        if self.bootstrap:
            return WITH_REPLACEMENT, n_draws
        if weights is not None:
            reason = "all trees use the same rows"
            if n_draws < n_samples:
                reason = "weights only decide which rows are drawn, so they have too little effect"
            warn_user(
                f"When fitting {type(self).__name__} with sample_weight it is recommended to use "
                f"bootstrap=True: without it, {reason}"
            )
        if n_draws > n_samples:
            raise ValueError(
                f"max_samples={n_draws} must be <= n_samples={n_samples} to be able to sample "
                f"without replacement. max_samples={self.max_samples!r} was given; lower it or use "
                "bootstrap=True"
            )
        return (ALL_ROWS, n_samples) if n_draws == n_samples else (WITHOUT_REPLACEMENT, n_draws)

    def _feature_draw(self, n_features: int) -> FeatureDraw | None:
        repeated = boolean("bootstrap_features", self.bootstrap_features)
        allowed = f"an integer from 1 to {n_features} (the number of features) or a float in (0, 1]"
        count = whole_or_share("max_features", self.max_features, n_features, allowed)
        if count > n_features:
            raise ValueError(f"max_features must be {allowed}, got {self.max_features!r}")
        if count == n_features and not repeated:
            return None
        return FeatureDraw(n_features, count, repeated)

    @property
    def estimators_features_(self) -> list[np.ndarray]:
        """Features drawn for each tree, ascending; a feature drawn several times is repeated."""
        drawn = [batch.features(t) for t, batch in self._trees_and_batches()]
        return [np.arange(self.n_features_in_) if f is None else f for f in drawn]


@falls_back_to(sklearn.ensemble.BaggingClassifier)
@documented
@dataclass(kw_only=True, eq=False, repr=False)
class BaggingClassifier(Classifier, Bagging):
    """Bagging of decision trees for classification."""

    _labels = MultiOutputClassLabels

    voting: str = "soft"

    _tree_class = DecisionTreeClassifier

    def _row_factor(self, labels: Any, weights: np.ndarray | None) -> np.ndarray | None:
        """Class weight of each row, from the ``class_weight`` of the base tree.

        `_weights` does not include class weights, so that rows are not drawn in proportion to them.
        """
        return self._class_factor(labels, weights)


@falls_back_to(sklearn.ensemble.BaggingRegressor)
@documented
@dataclass(kw_only=True, eq=False, repr=False)
class BaggingRegressor(Regressor, Bagging):
    """Bagging of decision trees for regression."""

    _tree_class = DecisionTreeRegressor
