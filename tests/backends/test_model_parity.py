"""Every estimator fits models with equal fingerprints on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

import gpuboost.estimators
from tests.estimators.estimator_cases import NAMES, ONE_OUTPUT

CLASSIFICATION = {"breast cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}
CLASSIFIERS = [name for name in NAMES if name.endswith("Classifier")]
REGRESSORS = [name for name in NAMES if name.endswith("Regressor")]
RUNS = (("numpy", 2), ("numba", 1), ("numba", 2))


def fitted(name: str, X: Any, y: Any, device: str, n_jobs: int, **words: Any) -> Any:
    for n_trees in {"n_estimators", "max_iter"} & set(getattr(gpuboost, name)().get_params()):
        words.setdefault(n_trees, 7)
    model = getattr(gpuboost, name)(random_state=3, device=device, n_jobs=n_jobs, **words)
    return model.fit(X, y)


def assert_one_model(name: str, X: Any, y: Any, **words: Any) -> None:
    expected = fitted(name, X, y, "numpy", 1, **words)
    for device, n_jobs in RUNS:
        model = fitted(name, X, y, device, n_jobs, **words)
        assert model.device_ == device
        assert model.fingerprint() == expected.fingerprint(), (device, n_jobs)
        assert np.array_equal(model.predict(X), expected.predict(X)), (device, n_jobs)
        if hasattr(model, "apply"):
            assert np.array_equal(model.apply(X), expected.apply(X)), (device, n_jobs)


@pytest.mark.parametrize("table", CLASSIFICATION)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name: str, table: str) -> None:
    X, y = CLASSIFICATION[table](return_X_y=True)
    assert_one_model(name, X, y)


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if "Gradient" not in name])
def test_twoing(name: str) -> None:
    X, y = load_wine(return_X_y=True)
    words: dict[str, Any] = {"criterion": "twoing"}
    if name == "BaggingClassifier":
        words = {"estimator": gpuboost.DecisionTreeClassifier(criterion="twoing")}
    assert_one_model(name, X, y, **words)


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name: str) -> None:
    X, y = load_diabetes(return_X_y=True)
    assert_one_model(name, X, y)
    if name not in ONE_OUTPUT:
        assert_one_model(name, X, np.column_stack([y, X[:, 2]]))


@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesClassifier"])
@pytest.mark.parametrize("class_weight", ["balanced", "balanced_subsample"])
def test_class_weights(name: str, class_weight: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    assert_one_model(name, X, y, class_weight=class_weight, bootstrap=True)


@pytest.mark.parametrize("name", ["RandomForestClassifier", "BaggingClassifier"])
def test_out_of_bag_votes(name: str) -> None:
    X, y = load_wine(return_X_y=True)
    votes = [
        fitted(name, X, y, device, n_jobs, oob_score=True, n_estimators=40).oob_decision_function_
        for device, n_jobs in RUNS
    ]
    assert all(np.array_equal(votes[0], other, equal_nan=True) for other in votes)


@pytest.mark.parametrize("name", ["ExtraTreeClassifier", "ExtraTreeRegressor"])
def test_random_splits_of_small_nodes_with_missing_values(name: str) -> None:
    """Trees grow to nodes of two rows, of which one has a missing value."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 3))
        X[rng.random(X.shape) < 0.25] = np.nan
        y = rng.integers(0, 2 + seed % 2, 40) if "Classifier" in name else rng.normal(size=40)
        fits = [
            getattr(gpuboost, name)(random_state=seed, device=device, max_features=1 + seed % 3)
            for device in ("numpy", "numba")
        ]
        assert len({model.fit(X, y).fingerprint() for model in fits}) == 1, seed
