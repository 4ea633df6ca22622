"""Random forests and extra-trees."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn import ensemble as sklearn_ensemble

from gpuboost.engine.sampling import ALL_ROWS, WITH_REPLACEMENT
from gpuboost.estimators.docstrings import documented
from gpuboost.estimators.fitting.mixins import Classifier, Regressor
from gpuboost.estimators.forest.ensemble import TreeEnsemble
from gpuboost.estimators.inputs.parameters import draw_count, without_friedman
from gpuboost.estimators.inputs.targets import MultiOutputClassLabels
from gpuboost.estimators.trees.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    SingleTree,
)


@dataclass(kw_only=True, eq=False, repr=False)
class Forest(TreeEnsemble):
    """Base of random forests and extra-trees."""

    n_estimators: int = field(default=100, kw_only=False)
    criterion: str = "squared_error"
    max_depth: int | None = None
    min_samples_split: float = 2
    min_samples_leaf: float = 1
    min_weight_fraction_leaf: float = 0.0
    max_features: float | str | None = 1.0
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    ccp_alpha: float = 0.0
    monotonic_cst: Any = None

    _tree_class: ClassVar[type[SingleTree]]

    @property
    def estimator(self) -> SingleTree:
        """The unfitted template of the trees, as ``estimator_`` has it after a fit."""
        return self._empty_tree()

    @property
    def splitter(self) -> str:
        """The rule that chooses thresholds, which is the default of the tree class."""
        return self._tree_class.splitter

    def _row_draw(self, n_samples: int, weights: np.ndarray | None) -> tuple[str, int]:
        if self.bootstrap:
            return WITH_REPLACEMENT, draw_count(self.max_samples, n_samples, weights, math.inf)
        if self.max_samples is not None:
            raise ValueError(
                "`max_sample` cannot be set if `bootstrap=False`. Either switch to "
                "`bootstrap=True` or set `max_sample=None`. Without bootstrap, every tree sees all "
                f"rows; got max_samples={self.max_samples!r}, use max_samples=None"
            )
        return ALL_ROWS, n_samples

    def _empty_tree(self) -> SingleTree:
        """A tree with the forest's parameters, except class_weight.

        The row weights of the forest already include the class weights.
        """
        own = self.get_params(deep=False)
        names = set(self._tree_class().get_params()) & set(own) - {"class_weight"}
        return self._tree_class(**{name: own[name] for name in names})


BALANCES = ("balanced", "balanced_subsample")  # values of class_weight


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class RandomForestClassifier(Classifier, Forest):
    """A random forest for classification."""

    _labels = MultiOutputClassLabels

    criterion: str = "gini"
    max_features: float | str | None = "sqrt"
    class_weight: Any = None
    voting: str = "soft"

    _class_weights = BALANCES
    _tree_class = DecisionTreeClassifier


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class RandomForestRegressor(Regressor, Forest):
    """A random forest for regression."""

    _tree_class = DecisionTreeRegressor

    def __post_init__(self) -> None:
        self.criterion = without_friedman(self.criterion)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreesClassifier(Classifier, Forest):
    """Extremely randomised trees for classification: split thresholds are drawn at random."""

    _labels = MultiOutputClassLabels

    criterion: str = "gini"
    max_features: float | str | None = "sqrt"
    class_weight: Any = None
    voting: str = "soft"
    bootstrap: bool = False

    _class_weights = BALANCES
    _tree_class = ExtraTreeClassifier


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreesRegressor(Regressor, Forest):
    """Extremely randomised trees for regression: split thresholds are drawn at random."""

    bootstrap: bool = False

    _tree_class = ExtraTreeRegressor

    def __post_init__(self) -> None:
        self.criterion = without_friedman(self.criterion)


# scikit-learn's partial_dependence chooses recursion by itself for instances of its own class.
sklearn_ensemble.RandomForestRegressor.register(RandomForestRegressor)
