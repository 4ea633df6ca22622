"""The public estimators, with scikit-learn's names, parameters and methods."""

from gpuboost.estimators.adaboost.estimators import AdaBoostClassifier, AdaBoostRegressor
from gpuboost.estimators.boosting.estimators import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)
from gpuboost.estimators.boosting.hist_gradient_boosting import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from gpuboost.estimators.forest.bagging import BaggingClassifier, BaggingRegressor
from gpuboost.estimators.forest.forest import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuboost.estimators.trees.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

__all__ = [
    "AdaBoostClassifier",
    "AdaBoostRegressor",
    "BaggingClassifier",
    "BaggingRegressor",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "ExtraTreeClassifier",
    "ExtraTreeRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
    "HistGradientBoostingClassifier",
    "HistGradientBoostingRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
]
