"""Small fitted models of every kind, and the rows on which an export must agree with them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import gpuboost

N, FEATURES = 300, 5
NUMBERS, INTEGERS = 3, 4  # categorical features: of any numbers, and of integers from 0
HUGE = {np.float64: 1e300, np.float32: 3e38}  # stands for infinity, which `predict` refuses

# Name of the case: class, parameters, and kind of target.
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "tree-regressor": ("DecisionTreeRegressor", {}, "values"),
    "tree-classifier": ("DecisionTreeClassifier", {"max_depth": 5}, "three"),
    "tree-outputs": ("DecisionTreeClassifier", {"max_depth": 4}, "both"),
    "stump-of-one-leaf": ("DecisionTreeRegressor", {"min_samples_leaf": N}, "values"),
    "median-tree": (
        "DecisionTreeRegressor",
        {"criterion": "absolute_error", "max_depth": 4},
        "values",
    ),
    "twoing-tree": ("DecisionTreeClassifier", {"criterion": "twoing", "max_depth": 4}, "three"),
    "extra-tree-regressor": ("ExtraTreeRegressor", {"max_depth": 5}, "values"),
    "extra-tree-classifier": ("ExtraTreeClassifier", {}, "two"),
    "forest-regressor": ("RandomForestRegressor", {"max_depth": 6}, "values"),
    "forest-classifier": ("RandomForestClassifier", {"max_depth": 5}, "words"),
    "forest-votes": ("RandomForestClassifier", {"max_depth": 3, "voting": "hard"}, "two"),
    "forest-outputs": ("RandomForestRegressor", {"max_depth": 4}, "pairs"),
    "forest-class-outputs": ("RandomForestClassifier", {"max_depth": 4}, "both"),
    "forest-one-class": ("RandomForestClassifier", {}, "one"),
    "extra-trees-regressor": ("ExtraTreesRegressor", {"max_depth": 5}, "values"),
    "extra-trees-classifier": ("ExtraTreesClassifier", {"max_depth": 6}, "three"),
    "bagging-regressor": (
        "BaggingRegressor",
        {"max_features": 0.6, "bootstrap_features": True},
        "values",
    ),
    "bagging-classifier": ("BaggingClassifier", {"max_features": 0.6}, "three"),
    "bagging-votes": ("BaggingClassifier", {"voting": "hard", "max_samples": 0.3}, "three"),
    "bagging-extra-trees": (
        "BaggingRegressor",
        {"estimator": gpuboost.ExtraTreeRegressor(max_depth=4)},
        "pairs",
    ),
    "adaboost-two": ("AdaBoostClassifier", {}, "words2"),
    "adaboost-three": ("AdaBoostClassifier", {"max_depth": 3}, "three"),
    "adaboost-one-class": ("AdaBoostClassifier", {}, "one"),
    "adaboost-regressor": ("AdaBoostRegressor", {}, "values"),
    "boosting-squared": ("GradientBoostingRegressor", {}, "values"),
    "boosting-huber": ("GradientBoostingRegressor", {"loss": "huber"}, "values"),
    "boosting-absolute": ("GradientBoostingRegressor", {"loss": "absolute_error"}, "values"),
    "boosting-quantile": ("GradientBoostingRegressor", {"loss": "quantile"}, "values"),
    "boosting-levels": (
        "GradientBoostingRegressor",
        {"loss": "quantile", "alpha": [0.1, 0.5, 0.9]},
        "values",
    ),
    "boosting-outputs": ("GradientBoostingRegressor", {}, "pairs"),
    "boosting-poisson": ("GradientBoostingRegressor", {"loss": "poisson"}, "positive"),
    "boosting-gamma": ("GradientBoostingRegressor", {"loss": "gamma"}, "positive"),
    "boosting-tweedie": ("GradientBoostingRegressor", {"loss": "tweedie"}, "positive"),
    "boosting-log-cosh": ("GradientBoostingRegressor", {"loss": "log_cosh"}, "values"),
    "boosting-two": ("GradientBoostingClassifier", {}, "two"),
    "boosting-three": ("GradientBoostingClassifier", {}, "words"),
    "boosting-exponential": ("GradientBoostingClassifier", {"loss": "exponential"}, "two"),
    "boosting-vectors": (
        "GradientBoostingClassifier",
        {"multi_strategy": "multi_output_tree"},
        "three",
    ),
    "boosting-from-zero": ("GradientBoostingClassifier", {"init": "zero"}, "three"),
    "hist-regressor": ("HistGradientBoostingRegressor", {}, "values"),
    "hist-gamma": ("HistGradientBoostingRegressor", {"loss": "gamma"}, "positive"),
    "hist-quantile": (
        "HistGradientBoostingRegressor",
        {"loss": "quantile", "quantile": 0.3},
        "values",
    ),
    "hist-two": ("HistGradientBoostingClassifier", {}, "two"),
    "hist-three": ("HistGradientBoostingClassifier", {}, "three"),
}


def table() -> np.ndarray:
    """Rows with missing values and, in the features `NUMBERS` and `INTEGERS`, categories."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, FEATURES)).round(2)
    X[:, NUMBERS] = rng.choice([-1.5, 0.0, 0.25, 3.0, 8.0, 100.0], size=N)
    X[:, INTEGERS] = rng.integers(0, 60, size=N)
    X[rng.random((N, FEATURES)) < 0.1] = np.nan
    return X


def target(kind: str) -> np.ndarray:
    """A target that depends on all features of `table`."""
    X, rng = table(), np.random.default_rng(1)
    y = np.nan_to_num(X[:, 0]) + np.isnan(X[:, 1]) + rng.normal(size=N) * 0.2
    y += np.isin(X[:, NUMBERS], [-1.5, 3.0, 8.0]) + (X[:, INTEGERS] % 7 > 3)
    two, three = (y > 1.0).astype(int), np.digitize(y, [0.5, 1.6])
    targets = {
        "values": y,
        "positive": np.abs(y) + 0.1,
        "pairs": np.column_stack([y, -y * y]),
        "two": two,
        "three": three,
        "both": np.column_stack([two, three]),
        "one": np.full(N, 7),
        "words": np.array(["low", "middle", "high"])[three],
        "words2": np.array(["no", "yes"])[two],
    }
    return targets[kind]


@cache
def fitted(case: str, categories: bool) -> Any:
    """The fitted model of a case; without ``categories``, all features are numeric."""
    name, params, kind = CASES[case]
    model = getattr(gpuboost, name)(device="numpy", n_jobs=1, random_state=0)
    size = "max_iter" if name.startswith("Hist") else "n_estimators"
    if size in model.get_params():
        model.set_params(**{size: 8})
    if "Boosting" in name:
        model.set_params(learning_rate=0.4)
    if categories:
        model.set_params(categorical_features=[NUMBERS, INTEGERS])
    return model.set_params(**params).fit(table(), target(kind))


def trees_of(model: Any) -> Any:
    """The fitted trees of a model."""
    return getattr(model, "_boosting", None) or model


def hard_rows(model: Any, categories: bool, fractions: bool = True) -> np.ndarray:
    """Training rows, and rows with each threshold, its neighbours, and special values.

    Special values are NaN, infinities, zeros of both signs, and unknown categories, which have
    fractions if ``fractions``.
    """
    rng, X = np.random.default_rng(2), table()
    ensemble = trees_of(model)._model.ensemble
    is_numeric = (ensemble.feature >= 0) & np.isfinite(ensemble.threshold)
    pairs = sorted(
        set(zip(ensemble.feature[is_numeric], ensemble.threshold[is_numeric], strict=True))
    )
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, -3.0, 7.0, 300.0, 1e9]
    for feature in range(FEATURES):
        pairs += [(feature, value) for value in special]
    if categories and fractions:
        pairs += [(feature, value) for feature in (NUMBERS, INTEGERS) for value in (0.5, 3.5, -0.5)]
    rows = [X]
    for feature, value in pairs:
        near = np.nextafter(value, np.inf), np.nextafter(value, -np.inf)
        is_category = categories and feature in (NUMBERS, INTEGERS)
        for own in (value,) if is_category else (value, *near):
            row = X[rng.integers(N)].copy()
            row[feature] = own
            rows.append(row[None])
    return np.concatenate(rows)


def in_type(X: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows in a type, and the same with huge numbers in place of infinities."""
    with np.errstate(over="ignore"):
        typed = X.astype(dtype)
    return typed, np.where(np.isinf(typed), np.sign(typed) * HUGE[dtype], typed).astype(dtype)


def assert_near(found: Any, wanted: Any, tolerance: float) -> None:
    """Equal shapes, and values within ``tolerance`` of max(1, |wanted|)."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert (np.abs(found - wanted) <= tolerance * np.maximum(1.0, np.abs(wanted))).all()
