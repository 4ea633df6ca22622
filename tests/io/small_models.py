"""Small models of all kinds, whose files are damaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    AdaBoostRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)

import gpuboost
from gpuboost.estimators.imported.columns import SET
from gpuboost.estimators.imported.estimators import ImportedRegressor
from gpuboost.estimators.imported.model import ImportedTrees, LeafSum, PredictionLink
from gpuboost.interchange.fields import no_schema
from gpuboost.interchange.trees import CategorySplit, SourceTree, ensemble_of
from tests.io.mutations import frame

FEW = {"device": "numpy", "random_state": 0, "n_estimators": 3}


def stump() -> Any:
    X, _, y = frame()
    return gpuboost.DecisionTreeRegressor(max_depth=1, device="numpy").fit(X[["a", "b"]], y)


def forest() -> Any:
    X, _, y = frame()
    return gpuboost.RandomForestRegressor(max_depth=2, bootstrap=False, **FEW).fit(X[["b"]], y)


def pasting() -> Any:
    X, _, y = frame()
    model = gpuboost.BaggingRegressor(bootstrap=False, max_samples=0.5, **FEW)
    with pytest.warns(UserWarning, match="use bootstrap=True"):
        return model.fit(X, y, np.random.default_rng(0).random(len(y)) + 0.1)


def by_category() -> Any:
    X, _, y = frame()
    return gpuboost.DecisionTreeRegressor(max_depth=2, device="numpy").fit(X[["color"]], y)


def two_outputs() -> Any:
    X, classes, _ = frame()
    both = np.column_stack([classes, classes == "no"])
    return gpuboost.DecisionTreeClassifier(max_depth=2, device="numpy").fit(X, both)


def rounds() -> Any:
    X, classes, _ = frame()
    return gpuboost.GradientBoostingClassifier(max_depth=1, **FEW).fit(X[["b"]], classes)


def after_classifier() -> Any:
    X, classes, _ = frame()
    init = gpuboost.DecisionTreeClassifier(max_depth=1, device="numpy")
    return gpuboost.GradientBoostingClassifier(init=init, **FEW).fit(X, classes)


def after_regressor(loss: str = "poisson") -> Any:
    X, _, y = frame()
    init = gpuboost.DecisionTreeRegressor(max_depth=1, device="numpy")
    return gpuboost.GradientBoostingRegressor(init=init, loss=loss, **FEW).fit(X, np.exp(y))


def after_boosting() -> Any:
    X, _, y = frame()
    init = gpuboost.GradientBoostingRegressor(loss="poisson", **FEW)
    model = gpuboost.GradientBoostingRegressor(init=init, loss="gamma", **FEW)
    return model.fit(X, np.exp(y))


def tweedie() -> Any:
    X, _, y = frame()
    return gpuboost.GradientBoostingRegressor(loss="tweedie", **FEW).fit(X, np.exp(y))


def histogram_classifier() -> Any:
    X, classes, _ = frame()
    return gpuboost.HistGradientBoostingClassifier(max_iter=2, device="numpy").fit(X, classes)


def imported_classifier() -> Any:
    X, classes, _ = frame()
    boosting = GradientBoostingClassifier(n_estimators=2, max_depth=1, random_state=0)
    return gpuboost.from_sklearn(boosting.fit(X[["b"]], classes == "no"))


def imported_forest() -> Any:
    X, classes, _ = frame()
    forest = RandomForestClassifier(n_estimators=2, max_depth=1, random_state=0)
    return gpuboost.from_sklearn(forest.fit(X[["a", "b"]].fillna(0.0), classes))


def imported_with_categories() -> Any:
    X, _, y = frame()
    boosting = HistGradientBoostingRegressor(max_iter=2, categorical_features="from_dtype")
    return gpuboost.from_sklearn(boosting.fit(X[["color"]], y))


def imported_adaboost() -> Any:
    X, _, y = frame()
    adaboost = AdaBoostRegressor(n_estimators=2, random_state=0)
    return gpuboost.from_sklearn(adaboost.fit(X[["b"]], y))


def imported_with_shared_codes() -> Any:
    """A model with a split that names more categories than there are codes."""
    left, right = np.array([1, -1, -1]), np.array([2, -1, -1])
    zeros, value = np.zeros(3), np.array([[0.0], [1.0], [2.0]])
    split = CategorySplit(frozenset(range(0, 600, 2)), go_left=True)
    tree = SourceTree(left, right, zeros, zeros, zeros > 0.0, value, by_category={0: split})
    ensemble, columns = ensemble_of([tree], 1, False, SET)
    rule = LeafSum(np.zeros(1, np.int32), np.zeros(1))
    schema = no_schema(1)
    trees = ImportedTrees(ensemble, columns, rule, PredictionLink("identity"), schema, "treelite")
    return ImportedRegressor.of(trees)


def adaboost() -> Any:
    X, _, y = frame()
    return gpuboost.AdaBoostRegressor(**FEW).fit(X, y)
