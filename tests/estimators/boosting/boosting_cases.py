"""Models and tables for the tests of gradient boosting."""

from __future__ import annotations

import numpy as np

from gpuboost import GradientBoostingClassifier, GradientBoostingRegressor


def regressor(**params):
    return GradientBoostingRegressor(
        **{"device": "numpy", "n_jobs": 1, "random_state": 0, "n_estimators": 10, **params}
    )


def classifier(**params):
    return GradientBoostingClassifier(
        **{"device": "numpy", "n_jobs": 1, "random_state": 0, "n_estimators": 10, **params}
    )


def table(n=300, seed=0, n_classes=0):
    """Features and a target (positive values, or classes) that depends on three of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    signal = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=n)
    if n_classes:
        return X, np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))
    return X, np.exp(0.5 * signal)
