"""Imported models of LightGBM have its raw predictions, bit for bit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import gpuboost
from tests.interchange.cases import assert_bits, hard_rows

lgb = pytest.importorskip("lightgbm")

N = 400
OBJECTIVES = (
    *("regression", "binary", "multiclass", "poisson", "gamma", "tweedie", "quantile", "huber"),
    *("multiclassova", "cross_entropy", "cross_entropy_lambda", "regression_l1", "lambdarank"),
)


def random_model(seed: int) -> tuple[Any, np.ndarray]:
    """A small model with random parameters, and hard rows for it."""
    rng = np.random.default_rng(seed)
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    n_features = int(rng.integers(2, 6))
    X = rng.normal(size=(N, n_features)).round(int(rng.integers(1, 8)))
    X[rng.random(X.shape) < 0.15] = 0.0
    if seed % 3:
        X[rng.random(X.shape) < 0.1] = np.nan
    signal = np.nan_to_num(X[:, 0]) + 0.3 * np.nan_to_num(X[:, -1]) + rng.normal(size=N)
    categorical: list[int] = []
    if seed % 2:
        X[:, -1] = rng.integers(0, int(rng.choice([3, 12, 60])), N)
        categorical = [n_features - 1]
    parameters = {
        "objective": objective,
        "num_leaves": int(rng.integers(2, 30)),
        "learning_rate": float(rng.choice([0.1, 0.5])),
        "min_data_in_leaf": 3,
        "min_data_per_group": 5,
        "max_cat_to_onehot": int(rng.choice([1, 8])),
        "zero_as_missing": bool(rng.integers(0, 2)),
        "use_missing": bool(seed % 5),
        "sigmoid": float(rng.choice([1.0, 0.7])),
        "verbose": -1,
        "num_threads": 1,
        "seed": seed,
    }
    if seed % 7 == 2 and objective != "lambdarank":
        parameters |= {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}
    if seed % 7 == 5:
        parameters |= {"boosting": "dart", "drop_rate": 0.4}
    group = [N // 2, N - N // 2] if objective == "lambdarank" else None
    y, extra = target(objective, signal)
    data = lgb.Dataset(X, y, group=group, categorical_feature=categorical, free_raw_data=False)
    booster = lgb.train({**parameters, **extra}, data, int(rng.integers(1, 12)))
    return booster, rows_for(booster, X, categorical, rng)


def target(objective: str, signal: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    if objective.startswith("multi"):
        return np.digitize(signal, [-0.5, 0.7]), {"num_class": 3}
    if objective in ("binary", "lambdarank"):
        return (signal > 0.0).astype(int), {}
    if objective.startswith("cross"):
        return 1.0 / (1.0 + np.exp(-signal)), {}
    if objective in ("poisson", "gamma", "tweedie"):
        return np.exp(signal), {}
    return signal, {"reg_sqrt": True} if objective == "regression" else {}


def rows_for(booster: Any, X: np.ndarray, categorical: list[int], rng: Any) -> np.ndarray:
    thresholds: dict[int, set[float]] = {}
    for block in booster.model_to_string().split("\nTree=")[1:]:
        features = re.search(r"^split_feature=(.*)$", block, re.M)
        limits = re.search(r"^threshold=(.*)$", block, re.M)
        if features and limits:
            pairs = zip(features[1].split(), limits[1].split(), strict=True)
            for f, t in pairs:
                thresholds.setdefault(int(f), set()).add(float(t))
    categories = {f: np.unique(X[:, f]) for f in categorical}
    known = {f: np.array(sorted(own)) for f, own in thresholds.items()}
    return hard_rows(known, X.shape[1], rng, categories)


@pytest.mark.parametrize("seed", range(50))
def test_raw_predictions_are_lightgbms(seed: int) -> None:
    booster, X = random_model(seed)
    imported = gpuboost.from_lightgbm(booster.model_to_string())
    wanted = booster.predict(X, raw_score=True, num_threads=1)
    for device in ("numpy", "numba"):
        imported.set_params(device=device)
        assert_bits(imported.predict_raw(X), wanted)
    probable = booster.predict(X)
    if hasattr(imported, "classes_"):
        found = imported.predict_proba(X)
        np.testing.assert_allclose(
            found[:, 1] if probable.ndim == 1 else found, probable, atol=1e-6
        )
    else:
        np.testing.assert_allclose(imported.predict(X), probable, rtol=1e-6, atol=1e-6)


def small_model(frame: Any, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    model = lgb.LGBMRegressor(n_estimators=4, min_child_samples=3, verbose=-1, n_jobs=1)
    return model.fit(frame, frame.iloc[:, 0] + rng.normal(size=len(frame)), **options)


def test_names_with_spaces_are_those_of_the_frame() -> None:
    X = np.random.default_rng(1).normal(size=(N, 3))
    frame = pd.DataFrame(X, columns=["a b", "c\td", "e\u00a0 f"])
    model = small_model(frame)
    imported = gpuboost.from_lightgbm(model).set_params(device="numpy")
    assert imported.feature_names_in_.tolist() == ["a_b", "c\td", "e\u00a0_f"]
    for own in (frame, frame.set_axis(model.booster_.feature_name(), axis=1)):
        np.testing.assert_array_equal(imported.predict(own), model.predict(own))
    with pytest.raises(ValueError, match="feature names should match"):
        imported.predict(frame.set_axis(["a-b", "c\td", "e\u00a0 f"], axis=1))


def test_categories_that_the_model_does_not_hold() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=N), "c": rng.integers(0, 5, N)})
    model = small_model(frame, categorical_feature=["c"])
    imported = gpuboost.from_lightgbm(model).set_params(device="numpy")
    np.testing.assert_array_equal(imported.predict(frame), model.predict(frame))
    with pytest.raises(
        ValueError, match=r"'c'\) has categories that are numbers .* the model of LightGBM"
    ):
        imported.predict(frame.astype({"c": "category"}))


def test_text_and_bytes_of_a_file_and_objects_that_are_not_fitted() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 2)))
    model = small_model(frame)
    wanted, text = gpuboost.from_lightgbm(model).fingerprint(), model.booster_.model_to_string()
    for given in (text, text.encode()):
        assert gpuboost.from_lightgbm(given).fingerprint() == wanted
    with pytest.raises(NotFittedError):
        gpuboost.from_lightgbm(lgb.LGBMRegressor())
