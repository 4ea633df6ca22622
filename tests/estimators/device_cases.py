"""Cases in which every device must fit the same model: estimators, parameters and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gpuboost
from gpuboost.engine.numerics import exp
from tests.engine.exact import assert_equal_models
from tests.estimators.estimator_cases import make
from tests.runs.gpu_runs import rows

# Fitted attributes other than the trees.
FACTS = (
    *("oob_decision_function_", "oob_prediction_", "oob_scores_", "oob_improvement_"),
    *("train_score_", "validation_score_", "estimator_weights_", "estimator_errors_"),
)


def table(name: str, n_rows: int = 160) -> tuple[np.ndarray, np.ndarray]:
    """Features of several kinds, and a target of three classes or of numbers.

    `tests.runs.gpu_runs.rows` may cap the number of rows.
    """
    n_rows = rows(n_rows)
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n_rows, 6))
    X[:, 1] = rng.integers(4, size=n_rows)  # few values
    X[:, 2] = np.where(rng.random(n_rows) < 0.2, np.nan, X[:, 2])
    X[:, 3] = exp(3 * X[:, 3])  # NumPy's differs between processors
    signal = X[:, 0] + 0.5 * X[:, 1] + np.nan_to_num(X[:, 2]) * X[:, 5]
    y = signal + 0.3 * rng.normal(size=n_rows)
    if name.endswith("Classifier"):
        return X, np.digitize(y, np.quantile(y, [0.5, 0.8]))
    return X, y


def assert_same_model(name: str, X: Any, y: Any, device: str, **words: Any) -> None:
    """Fit on NumPy and on the device, and assert equal fingerprints and predictions."""
    weight = words.pop("sample_weight", None)
    expected = make(name, **words).fit(X, y, weight)
    model = make(name, **words).set_params(device=device).fit(X, y, weight)
    assert model.device_.startswith("cuda:") and device in (model.device_, "cuda")
    assert_equal_models(model, expected)
    for method in ("predict", "predict_proba", "predict_log_proba", "apply"):
        if hasattr(expected, method):
            found = getattr(model, method)(X)
            np.testing.assert_array_equal(found, getattr(expected, method)(X))
    for fact in FACTS:
        if hasattr(expected, fact):
            np.testing.assert_array_equal(getattr(model, fact), getattr(expected, fact))


@dataclass(frozen=True)
class Case:
    """An estimator with parameters, and the kinds of sample weights and target of its fit."""

    name: str
    words: dict[str, Any] = field(default_factory=dict)
    weights: str = ""
    target: str = ""

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.words.items()]
        return "-".join(filter(None, [self.name, *words, self.weights, self.target]))

    def run(self, device: str, n_rows: int = 160) -> None:
        """Compare the device with NumPy."""
        X, y, words = self.given(n_rows)
        assert_same_model(self.name, X, y, device, **words)

    def given(self, n_rows: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Features, target, and parameters with ``sample_weight`` among them."""
        X, y = table(self.name, n_rows)
        n_rows = len(X)
        rng = np.random.default_rng(1)
        words = dict(self.words)
        if self.weights == "real":
            words["sample_weight"] = rng.exponential(size=n_rows)
        if self.weights == "counts":
            words["sample_weight"] = rng.integers(4, size=n_rows)
        if self.target == "binary":
            y = y > 0
        if self.target == "positive":
            y = exp(0.3 * y)
        if self.target == "outputs":
            y = np.column_stack([y, X[:, 0]])
        if self.target == "counts":
            y = rng.poisson(exp(np.clip(y, -3, 3))).astype(float)
        if self.target == "many":
            y = rng.integers(11, size=n_rows)
        if self.target == "float32":
            X = X.astype(np.float32)
        if self.target == "categories":
            words["categorical_features"] = [1]
        return X, y, words


FEW_LEAVES = gpuboost.DecisionTreeClassifier(max_leaf_nodes=7)
PRUNED = gpuboost.DecisionTreeClassifier(max_depth=6, ccp_alpha=0.002)
TREE, FOREST, EXTRA = "DecisionTreeClassifier", "RandomForestClassifier", "ExtraTreesRegressor"
CASES = [
    *(Case(TREE, {"criterion": one}) for one in ("gini", "entropy", "log_loss")),
    Case("DecisionTreeRegressor", {"criterion": "squared_error"}),
    *(Case(TREE, {"max_depth": depth}, target="binary") for depth in (1, 4)),
    Case(TREE, {"max_leaf_nodes": 7}),
    Case(TREE, {"min_samples_leaf": 9, "min_samples_split": 30}),
    Case(TREE, {"min_weight_fraction_leaf": 0.1}, weights="real"),
    Case(TREE, {"min_impurity_decrease": 0.01}, weights="counts"),
    Case(TREE, {"class_weight": "balanced"}, target="many"),
    Case("ExtraTreeClassifier", {"max_features": 2}, target="many"),
    Case(FOREST, {"oob_score": True, "n_estimators": 20, "max_samples": 0.3}),
    Case(FOREST, {"class_weight": "balanced_subsample"}, weights="real"),
    Case(FOREST, {"max_samples": 0.4}, target="binary"),
    Case(FOREST, {"bootstrap": False, "max_features": None}, weights="counts"),
    Case(FOREST, target="float32"),
    Case(FOREST, {"max_bins": 7}, target="categories"),
    Case("RandomForestRegressor", {"oob_score": True, "n_estimators": 20, "max_samples": 0.3}),
    Case("RandomForestRegressor", target="outputs"),
    Case("RandomForestRegressor", {"criterion": "poisson"}, weights="counts", target="counts"),
    Case("RandomForestRegressor", {"criterion": "absolute_error"}, weights="counts"),
    Case("DecisionTreeRegressor", {"criterion": "absolute_error"}, "real", "outputs"),
    Case(EXTRA, {"bootstrap": True}, weights="counts"),
    Case(EXTRA, target="categories"),
    Case("BaggingClassifier", {"max_features": 0.5, "bootstrap_features": True}),
    Case("BaggingRegressor", {"max_samples": 0.5, "bootstrap": False}),
    Case("AdaBoostClassifier", target="binary"),
    Case("AdaBoostClassifier", {"max_depth": 3, "criterion": "gini"}, "real", "categories"),
    Case("AdaBoostClassifier", {"boosting": "resampling"}, weights="counts"),
    Case("AdaBoostRegressor", {"boosting": "reweighting"}, weights="real"),
    Case("AdaBoostClassifier", {"max_depth": 7, "n_estimators": 3}, target="many"),
    Case("AdaBoostClassifier", {"max_depth": 20, "boosting": "resampling", "n_estimators": 3}),
    Case("AdaBoostRegressor", {"max_depth": 13, "n_estimators": 3}, weights="counts"),
    Case("AdaBoostClassifier", {"estimator": FEW_LEAVES}, "real", "categories"),
    Case("AdaBoostClassifier", {"estimator": PRUNED}, target="binary"),
]

# Forests whose batches of four trees are recorded as graphs and replayed.
REPLAYED_FORESTS = [
    Case("RandomForestClassifier", {"n_estimators": 13, "max_depth": 8}),
    Case("RandomForestClassifier", {"n_estimators": 12, "max_depth": 12}, weights="real"),
    Case("RandomForestClassifier", {"n_estimators": 12, "max_depth": 6, "max_features": None}),
    Case("RandomForestRegressor", {"n_estimators": 12, "max_depth": 8}, target="outputs"),
    Case("ExtraTreesRegressor", {"n_estimators": 12, "max_depth": 8}, target="categories"),
    Case("RandomForestClassifier", {"n_estimators": 13, "max_depth": 16}, target="many"),
    Case("RandomForestRegressor", {"n_estimators": 12, "max_depth": 32}, weights="counts"),
    Case("ExtraTreesClassifier", {"n_estimators": 12, "max_depth": 20}, target="categories"),
    Case("RandomForestClassifier", {"n_estimators": 12, "max_leaf_nodes": 40}),
    Case(
        "BaggingClassifier",
        {
            "n_estimators": 12,
            "estimator": gpuboost.DecisionTreeClassifier(max_depth=8),
            "bootstrap": False,
            "max_samples": 0.5,
            "max_features": 0.5,
        },
    ),
]

VALUES, CLASSES = "GradientBoostingRegressor", "GradientBoostingClassifier"
MONOTONIC = {"monotonic_cst": [1, 0, 0, -1, 0, 0]}
# With 50 000 rows, the buffer of a round is too large to be copied to the host in one transfer.
LARGE_TREES = Case(VALUES, {"max_depth": 20, "min_samples_leaf": 1, "n_estimators": 3})
# Boosting of bounded depth, whose rounds are recorded as graphs and replayed.
REPLAYED_ROUNDS = [
    Case(VALUES),
    Case(VALUES, {"loss": "absolute_error"}, weights="real"),
    Case(VALUES, {"loss": "huber", "subsample": 0.5, "max_depth": 4}),
    Case(VALUES, {"loss": "quantile", "alpha": [0.2, 0.8]}, weights="counts"),
    Case(VALUES, {"loss": "poisson", "interaction_cst": "pairwise"}, "counts", "positive"),
    Case(VALUES, {"loss": "gamma", "n_iter_no_change": 2}, target="positive"),
    Case(VALUES, {"loss": "tweedie", "max_features": 2, "subsample": 0.7}, target="positive"),
    Case(VALUES, {**MONOTONIC, "l2_regularization": 2.0}),
    Case(VALUES, {**MONOTONIC, "loss": "absolute_error", "subsample": 0.6}),
    Case(VALUES, {"l1_regularization": 1.0, "max_delta_step": 0.5}, target="outputs"),
    Case(CLASSES, {"subsample": 0.6, "n_iter_no_change": 2}, target="binary"),
    Case(CLASSES, {"loss": "exponential"}, "real", "binary"),
    Case(CLASSES, {"max_features_per_level": 3, "n_estimators": 3}, target="categories"),
    Case(CLASSES, {"multi_strategy": "multi_output_tree"}, target="many"),
    Case(CLASSES, {"subsample": 0.5, "min_samples_leaf": 3, "n_estimators": 3}, target="many"),
    Case(VALUES, {"max_depth": 14, "min_samples_leaf": 9, "n_estimators": 3}, target="categories"),
    Case(VALUES, {"max_leaf_nodes": 6, "loss": "huber"}),
    Case(CLASSES, {"max_depth": None, "max_leaf_nodes": 9, "n_estimators": 3}, target="categories"),
    LARGE_TREES,
    Case(VALUES, {"max_depth": 32, "loss": "absolute_error", "subsample": 0.5, "n_estimators": 3}),
    Case(CLASSES, {"max_depth": 17, "min_samples_leaf": 3, "n_estimators": 3}, target="binary"),
]
BOOSTED = [
    *REPLAYED_ROUNDS,
    Case(VALUES, {"max_depth": None, "min_samples_leaf": 15, "n_estimators": 2}, target="float32"),
    Case(VALUES, {"max_depth": None, "max_leaf_nodes": 70, "n_estimators": 2}),
    Case(VALUES, {"ccp_alpha": 0.01, "subsample": 0.7, "n_estimators": 3}, weights="real"),
    Case(CLASSES, {"ccp_alpha": 0.002, "max_depth": 20, "n_estimators": 2}, weights="counts"),
    Case("AdaBoostRegressor", {"loss": "exponential", "learning_rate": 0.5}),
    Case("AdaBoostClassifier", {"max_depth": 2, "n_estimators": 3}, target="many"),
]
