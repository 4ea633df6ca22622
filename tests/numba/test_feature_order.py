"""Features are considered in the order of their ranks, however many of them nodes consider."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from gpuboost import ExtraTreesRegressor, RandomForestClassifier

N_FEATURES = 300


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    """A table most of whose columns are constant in most nodes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, N_FEATURES)).astype(np.float32)
    X[:, 20:200] = rng.random((400, 180)) < 0.01
    X[:, 200:250] = 1.0
    return X, (X[:, 0] + X[:, 30] + rng.standard_normal(400) > 0).astype(np.int32)


@pytest.mark.parametrize("model", [RandomForestClassifier, ExtraTreesRegressor])
@pytest.mark.parametrize("max_features", [1, 7, 50, 51, 52, 200, N_FEATURES - 1, N_FEATURES])
def test_nodes_of_wide_tables_are_those_of_numpy(
    table: tuple[np.ndarray, np.ndarray], model: Any, max_features: int
) -> None:
    """More ranks than are collected at once are needed if many features cannot split a node.

    With ``max_features`` around 51, about as many ranks are collected as are sorted by counting.
    """
    found = [
        model(3, max_features=max_features, random_state=1, device=device).fit(*table)
        for device in ("numpy", "numba")
    ]
    assert found[0].fingerprint() == found[1].fingerprint()


def test_thousands_of_sparse_features() -> None:
    """Most features cannot split a node, so that ranks are collected several times."""
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.random((80, 2_000)) < 0.004, dtype=np.float32)
    y = (X[:, :50].sum(axis=1).A1 > 0).astype(np.int32)
    for model in (RandomForestClassifier, ExtraTreesRegressor):
        found = {
            model(1, random_state=1, device=device).fit(X, y).fingerprint()
            for device in ("numpy", "numba")
        }
        assert len(found) == 1
