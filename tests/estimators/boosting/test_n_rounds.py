"""Predictions of gradient boosting by its first rounds."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import gpuboost


def fitted(n_classes: int, **words: Any) -> tuple[np.ndarray, Any]:
    """Rows, and a classifier that has been fitted to their classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    signal = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=300)
    y = np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))
    words = {"n_estimators": 8, "random_state": 0, **words}
    return X, gpuboost.GradientBoostingClassifier(**words).fit(X, y)


@pytest.mark.parametrize("device", ["numpy", "numba"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_first_rounds_predict_as_a_staged_prediction(n_classes: int, device: str) -> None:
    X, model = fitted(n_classes, device=device)
    staged = zip(
        model.staged_predict_proba(X),
        model.staged_decision_function(X),
        model.staged_predict(X),
        strict=True,
    )
    for n, (probability, raw, label) in enumerate(staged, start=1):
        np.testing.assert_allclose(model.predict_proba(X, n_rounds=n), probability, rtol=1e-12)
        np.testing.assert_allclose(model.decision_function(X, n_rounds=n), raw, rtol=1e-12)
        assert np.array_equal(model.predict(X, n_rounds=n), label)
    assert np.array_equal(model.predict_proba(X, n_rounds=8), model.predict_proba(X))


def test_they_equal_a_shorter_fit() -> None:
    X, model = fitted(2, categorical_features=[3])
    shorter = fitted(2, categorical_features=[3], n_estimators=5)[1]
    assert np.array_equal(model.decision_function(X, n_rounds=5), shorter.decision_function(X))
    copied = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copied.decision_function(X, n_rounds=5), shorter.decision_function(X))


def test_the_best_round() -> None:
    X, model = fitted(2, n_estimators=200, n_iter_no_change=5, learning_rate=0.5)
    assert model.best_iteration_ + 1 < model.n_estimators_
    best = model.predict_proba(X, n_rounds=model.best_iteration_ + 1)
    assert np.array_equal(model.predict_proba(X, n_rounds="best"), best)
    assert not np.array_equal(model.predict_proba(X), best)


def test_regressors_and_offsets() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    model = gpuboost.GradientBoostingRegressor(n_estimators=6, random_state=0).fit(X, X[:, 0])
    plain = model.predict(X, n_rounds=2)
    np.testing.assert_allclose(model.predict(X, np.full(100, 2.0), 2), plain + 2.0)


@pytest.mark.parametrize(
    ("n_rounds", "error", "message"),
    [
        (0, ValueError, "n_rounds must be an integer from 1 to 8"),
        (9, ValueError, "n_rounds must be an integer from 1 to 8"),
        (2.5, TypeError, "n_rounds must be an integer"),
        ("best", ValueError, "needs a fit with early stopping"),
        ("last", TypeError, "n_rounds must be an integer"),
    ],
)
def test_errors(n_rounds: Any, error: type[Exception], message: str) -> None:
    X, model = fitted(2)
    with pytest.raises(error, match=message):
        model.predict(X, n_rounds=n_rounds)
