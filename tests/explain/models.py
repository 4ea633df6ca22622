"""Small models of every kind, rows for them, and a naive traversal of their trees."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.ensemble
import sklearn.tree

import gpuboost
from tests.interchange.export_cases import CASES, fitted, table, target

OWN = [
    *("tree-regressor", "tree-classifier", "tree-outputs", "stump-of-one-leaf", "median-tree"),
    *("extra-tree-regressor", "forest-classifier", "forest-votes", "forest-outputs"),
    *("forest-class-outputs", "forest-one-class", "extra-trees-classifier", "bagging-regressor"),
    *("bagging-classifier", "adaboost-two", "adaboost-three", "adaboost-regressor"),
    *("boosting-squared", "boosting-levels", "boosting-outputs", "boosting-two", "boosting-three"),
    *("boosting-vectors", "hist-regressor", "hist-two", "hist-three"),
]
CITIES = ["Rome", "Paris", "Oslo", "Bonn", "Bern, CH", "Kyiv"]
IMPORTED = [
    *("xgboost-frame", "xgboost-numbers", "lightgbm-frame", "lightgbm-zeros", "treelite"),
    *("sklearn-tree", "sklearn-forest", "sklearn-forest-values", "sklearn-adaboost"),
    *("sklearn-boosting", "sklearn-hist"),
]


def frame() -> pd.DataFrame:
    """300 rows with missing values, zeros and a categorical column."""
    X = numbers()
    found = pd.DataFrame(X[:, :3], columns=["age", "income", "size"])
    codes = np.where(np.isnan(X[:, 3]), -1, X[:, 3]).astype(int)
    found["city"] = pd.Categorical.from_codes(codes, CITIES)
    return found


def numbers() -> np.ndarray:
    """The rows of `frame` as numbers; categories are their indices."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).round(1)
    X[:, 3] = rng.integers(0, len(CITIES), 300)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, :3][rng.random((300, 3)) < 0.1] = 0.0
    return X


def classes(n: int = 2) -> np.ndarray:
    """Classes that depend on numbers, categories and missing values."""
    X = numbers()
    score = np.nan_to_num(X[:, 0]) + np.isin(X[:, 3], [1, 4]) + np.isnan(X[:, 1])
    return np.digitize(score, [0.5, 1.2][: n - 1])


def _xgboost(case: str) -> tuple[Any, Any]:
    xgboost = pytest.importorskip("xgboost")
    if case == "xgboost-frame":
        model = xgboost.XGBClassifier(
            n_estimators=4, max_depth=3, enable_categorical=True, max_cat_to_onehot=2, n_jobs=1
        )
        return gpuboost.from_xgboost(model.fit(frame(), classes())), frame()
    rows = xgboost.DMatrix(numbers(), classes())
    booster = xgboost.train({"max_depth": 3, "objective": "binary:logistic"}, rows, 3)
    if case == "xgboost-numbers":
        return gpuboost.from_xgboost(booster), numbers()
    treelite = pytest.importorskip("treelite")
    return gpuboost.from_treelite(treelite.frontend.from_xgboost(booster)), numbers()


def _lightgbm(case: str) -> tuple[Any, Any]:
    lightgbm = pytest.importorskip("lightgbm")
    given = {"n_estimators": 4, "num_leaves": 6, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
    if case == "lightgbm-frame":
        model = lightgbm.LGBMClassifier(**given, min_data_per_group=5, cat_smooth=1.0)
        return gpuboost.from_lightgbm(model.fit(frame(), classes(3))), frame()
    model = lightgbm.LGBMRegressor(**given, zero_as_missing=True)
    y = classes() + (numbers()[:, 1] == 0.0)
    return gpuboost.from_lightgbm(model.fit(numbers(), y)), numbers()


def _sklearn(case: str) -> tuple[Any, Any]:
    forest = {"n_estimators": 4, "max_depth": 4, "random_state": 0}
    X, filled = numbers(), np.nan_to_num(numbers())
    models: dict[str, tuple[Any, np.ndarray]] = {
        "sklearn-tree": (sklearn.tree.DecisionTreeClassifier(max_depth=4), X),
        "sklearn-forest": (sklearn.ensemble.RandomForestClassifier(**forest), X),
        "sklearn-forest-values": (sklearn.ensemble.RandomForestRegressor(**forest), X),
        "sklearn-adaboost": (sklearn.ensemble.AdaBoostClassifier(n_estimators=4), filled),
        "sklearn-boosting": (sklearn.ensemble.GradientBoostingClassifier(n_estimators=3), filled),
        "sklearn-hist": (
            sklearn.ensemble.HistGradientBoostingClassifier(
                max_iter=3, max_leaf_nodes=6, categorical_features=[3], early_stopping=False
            ),
            X,
        ),
    }
    model, rows = models[case]
    y = classes(2 if case == "sklearn-boosting" else 3)
    return gpuboost.from_sklearn(model.fit(rows, y)), rows


@cache
def model_and_rows(case: str) -> tuple[Any, Any]:
    """A fitted model, and rows that it predicts on."""
    if case in CASES:
        return fitted(case, True), table()
    makers = {"sklearn": _sklearn, "lightgbm": _lightgbm}
    return makers.get(case.split("-")[0], _xgboost)(case)


def target_of(case: str) -> np.ndarray:
    """Targets of the rows of a model of gpuboost."""
    return target(CASES[case][2])


def leaves_of(model: Any, X: Any) -> np.ndarray:
    """Leaf of each row in each tree: (n, n_trees)."""
    own = getattr(model, "_boosting", None) or model
    return own._leaves(X) if hasattr(own, "_leaves") else own.apply(X)


def held(model: Any) -> Any:
    """The model that holds the trees."""
    return (getattr(model, "_boosting", None) or model)._model


def leaves_from_left(left: np.ndarray) -> list[int]:
    """The leaves of a tree from left to right, by recursion."""

    def below(node: int) -> list[int]:
        if not left[node]:
            return [node]
        return below(left[node]) + below(left[node] + 1)

    return below(0)
