"""Row-major codes of small nodes: when they are made, and that models do not depend on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from gpuboost import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestClassifier
from gpuboost.backends.numba.boosting import booster
from gpuboost.backends.numba.common import row_major
from gpuboost.backends.numba.depth_first import tree_grower
from gpuboost.backends.numba.threads.pool import ThreadPool

N_ROWS = 3_000
MODELS = (RandomForestClassifier, ExtraTreesRegressor)


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, 65)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 2] = rng.integers(0, 9, N_ROWS)
    wanted = np.nan_to_num(X[:, 0]) + (X[:, 2] > 4) + rng.standard_normal(N_ROWS) > 0
    return X, wanted.astype(np.int32)


@pytest.fixture
def widths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Widths of the rows of codes that growers make, 0 without row-major codes."""
    found: list[int] = []

    class Noting(tree_grower.DepthFirstGrower):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            found.append(0 if self.by_row is None else self.by_row.shape[1])

    monkeypatch.setattr("gpuboost.backends.numba.backend.DepthFirstGrower", Noting)
    monkeypatch.setattr(booster, "DepthFirstGrower", Noting)
    return found


@pytest.mark.parametrize(
    "n_features, width", [(3, 0), (4, 8), (9, 16), (63, 64), (64, 64), (65, 0)]
)
def test_small_nodes_read_rows_of_4_to_64_features(
    table: tuple[np.ndarray, np.ndarray], widths: list[int], n_features: int, width: int
) -> None:
    X, y = table[0][:, :n_features], table[1]
    for model in MODELS:
        found = {
            model(2, categorical_features=[2], random_state=1, device=device)
            .fit(X, y)
            .fingerprint()
            for device in ("numpy", "numba")
        }
        assert len(found) == 1
    assert widths == [width] * len(MODELS)


@pytest.mark.parametrize(
    "limits, width",
    [({"max_depth": 6}, 0), ({"max_depth": 7}, 8), ({"max_leaf_nodes": 7}, 0)],
)
def test_shallow_trees_read_columns(
    table: tuple[np.ndarray, np.ndarray], widths: list[int], limits: dict[str, int], width: int
) -> None:
    RandomForestClassifier(1, device="numba", **limits).fit(table[0][:, :8], table[1])
    assert widths == [width]


def test_few_rows_and_sparse_matrices_have_columns_only(
    table: tuple[np.ndarray, np.ndarray], widths: list[int]
) -> None:
    X, y = np.nan_to_num(table[0][:, :8]), table[1]
    RandomForestClassifier(1, device="numba").fit(X[:63], y[:63])
    RandomForestClassifier(1, device="numba").fit(csr_matrix(X > 2.0, dtype=np.float32), y)
    assert widths == [0, 0]


def test_a_copy_that_does_not_fit_is_not_needed(
    table: tuple[np.ndarray, np.ndarray], widths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table[0][:, :8], table[1]
    expected = RandomForestClassifier(2, random_state=0, device="numba").fit(X, y).fingerprint()

    def no_memory(codes: np.ndarray, pool: Any) -> np.ndarray:
        raise MemoryError(codes.nbytes)

    monkeypatch.setattr(tree_grower, "row_major", no_memory)
    found = RandomForestClassifier(2, random_state=0, device="numba").fit(X, y).fingerprint()
    assert widths == [8, 0] and found == expected


def test_boosting_makes_one_copy_of_its_rows(
    table: tuple[np.ndarray, np.ndarray], widths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Growth and the leaves of rows that no tree has drawn read the same row-major codes."""
    made: list[Any] = []

    def noted(codes: np.ndarray, pool: Any) -> np.ndarray:
        made.append(codes.shape)
        return row_major.row_major(codes, pool)

    monkeypatch.setattr(tree_grower, "row_major", noted)
    monkeypatch.setattr(booster, "row_major", noted)
    monkeypatch.setattr(booster, "grows_by_levels", lambda task: False)
    settings = {"n_estimators": 3, "max_depth": 8, "subsample": 0.5, "random_state": 0}
    X, y = table[0][:, :8], table[1].astype(float)
    found = {
        GradientBoostingRegressor(**settings, device=device).fit(X, y).fingerprint()
        for device in ("numpy", "numba")
    }
    assert len(found) == 1 and made == [(8, N_ROWS)]
    assert widths == [8] * 3


@pytest.mark.parametrize(
    ("n_columns", "width"),
    [
        (3, 8),
        (28, 32),
        (54, 56),
        (57, 64),
        (72, 72),
        (120, 128),
        (400, 448),
        (512, 576),
        (1000, 1088),
    ],
)
def test_wide_rows_of_codes_start_at_cache_lines(n_columns: int, width: int) -> None:
    codes = np.random.default_rng(0).integers(0, 256, (n_columns, 50), dtype=np.uint8)
    pool = ThreadPool(1)
    found = row_major.row_major(codes, pool)
    pool.dismiss()
    assert found.shape == (50, width) and found.ctypes.data % 64 == 0
    assert np.array_equal(found[:, :n_columns], codes.T) and not found[:, n_columns:].any()
