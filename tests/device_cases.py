"""What every device must make the same model of: estimators, their options, and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.estimator_cases import make


def table(name: str, n_rows: int = 160) -> tuple[np.ndarray, np.ndarray]:
    """Features of several kinds and a target for an estimator; three classes, or a number."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n_rows, 6))
    X[:, 1] = rng.integers(4, size=n_rows)  # few values
    X[:, 2] = np.where(rng.random(n_rows) < 0.2, np.nan, X[:, 2])
    X[:, 3] = np.exp(3 * X[:, 3])
    signal = X[:, 0] + 0.5 * X[:, 1] + np.nan_to_num(X[:, 2]) * X[:, 5]
    y = signal + 0.3 * rng.normal(size=n_rows)
    if name.endswith("Classifier"):
        return X, np.digitize(y, np.quantile(y, [0.5, 0.8]))
    return X, y


def assert_same_model(name: str, X: Any, y: Any, device: str, **words: Any) -> None:
    """Fit on NumPy and on the device: fingerprints and predictions are equal."""
    weight = words.pop("sample_weight", None)
    expected = make(name, **words).fit(X, y, weight)
    model = make(name, **words).set_params(device=device).fit(X, y, weight)
    assert model.device_.startswith("cuda:") and device in (model.device_, "cuda")
    assert model.fingerprint() == expected.fingerprint()
    for method in ("predict", "predict_proba", "apply"):
        if hasattr(expected, method):
            found = getattr(model, method)(X)
            np.testing.assert_array_equal(found, getattr(expected, method)(X))
    for votes in ("oob_decision_function_", "oob_prediction_"):
        if hasattr(expected, votes):
            np.testing.assert_array_equal(getattr(model, votes), getattr(expected, votes))


@dataclass(frozen=True)
class Case:
    """An estimator with parameters; ``rows`` says which rows and targets it gets."""

    name: str
    words: dict[str, Any] = field(default_factory=dict)
    weights: str = ""
    target: str = ""

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.words.items()]
        return "-".join(filter(None, [self.name, *words, self.weights, self.target]))

    def run(self, device: str, n_rows: int = 160) -> None:
        """Compare the device with NumPy."""
        X, y = table(self.name, n_rows)
        rng = np.random.default_rng(1)
        words = dict(self.words)
        if self.weights == "real":
            words["sample_weight"] = rng.exponential(size=n_rows)
        if self.weights == "counts":
            words["sample_weight"] = rng.integers(4, size=n_rows)
        if self.target == "binary":
            y = y > 0
        if self.target == "outputs":
            y = np.column_stack([y, X[:, 0]])
        if self.target == "many":
            y = rng.integers(11, size=n_rows)
        if self.target == "float32":
            X = X.astype(np.float32)
        if self.target == "categories":
            words["categorical_features"] = [1]
        assert_same_model(self.name, X, y, device, **words)


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
    Case(EXTRA, {"bootstrap": True}, weights="counts"),
    Case(EXTRA, target="categories"),
    Case("BaggingClassifier", {"max_features": 0.5, "bootstrap_features": True}),
    Case("BaggingRegressor", {"max_samples": 0.5, "bootstrap": False}),
    Case("AdaBoostClassifier", target="binary"),
    Case("AdaBoostClassifier", {"max_depth": 3, "criterion": "gini"}, "real", "categories"),
    Case("AdaBoostClassifier", {"boosting": "resampling"}, weights="counts"),
    Case("AdaBoostRegressor", {"boosting": "reweighting"}, weights="real"),
]
