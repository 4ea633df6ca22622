"""What a user calls: estimators with scikit-learn's names, parameters and methods."""

from gpuboost.estimators.adaboost import AdaBoostClassifier, AdaBoostRegressor
from gpuboost.estimators.bagging import BaggingClassifier, BaggingRegressor
from gpuboost.estimators.boosting import GradientBoostingClassifier, GradientBoostingRegressor
from gpuboost.estimators.forest import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuboost.estimators.tree import (
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
    "RandomForestClassifier",
    "RandomForestRegressor",
]
