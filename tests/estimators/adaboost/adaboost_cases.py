"""Tables and parameters for the tests of AdaBoost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

QUICK: dict[str, Any] = {"device": "numpy", "n_jobs": 1, "random_state": 0}


def binary(n: int, seed: int, n_features: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, two classes that no stump separates, and real weights without ties."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    y = (X[:, 0] * X[:, 1] + X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
    return X, y, rng.uniform(0.5, 1.5, size=n)


def with_missing_values(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numeric features with missing values, a categorical feature, and three classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    X[:, 1] = rng.integers(9, size=300)
    y = np.digitize(X[:, 0] + (X[:, 1] % 3) + 0.4 * rng.normal(size=300), [0.5, 1.6])
    X[rng.random(X.shape) < 0.15] = np.nan
    return X, y


def weighted_share(wrong: np.ndarray, weights: np.ndarray) -> float:
    return math.fsum(weights[wrong]) / math.fsum(weights)
