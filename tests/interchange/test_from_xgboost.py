"""Imported models of XGBoost have its raw predictions, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import gpuboost
from tests.interchange.cases import assert_bits, hard_rows

xgb = pytest.importorskip("xgboost")

N = 300
OBJECTIVES = (
    *("reg:squarederror", "binary:logistic", "multi:softprob", "count:poisson", "reg:gamma"),
    *("reg:tweedie", "reg:logistic", "binary:logitraw", "binary:hinge", "reg:absoluteerror"),
    *("reg:quantileerror", "reg:pseudohubererror", "rank:ndcg", "survival:cox", "multi:softmax"),
)


def target(objective: str, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    signal = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, -1]) * 0.3 + rng.normal(size=len(X))
    if objective.startswith("multi"):
        return np.digitize(signal, [-0.5, 0.7])
    if objective.startswith(("binary", "rank")):
        return (signal > 0.0).astype(int)
    if objective == "reg:logistic":
        return 1.0 / (1.0 + np.exp(-signal))
    return signal if objective.startswith("reg:") and "m" not in objective[4:5] else np.exp(signal)


def random_model(seed: int) -> tuple[Any, np.ndarray, list[str]]:
    """A small model with random parameters, and hard rows for it."""
    rng = np.random.default_rng(seed)
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    n_features = int(rng.integers(2, 6))
    X = rng.normal(size=(N, n_features)).round(int(rng.integers(1, 8))).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    types = ["q"] * n_features
    if seed % 2:
        types[-1] = "c"
        X[:, -1] = rng.integers(0, int(rng.choice([3, 12, 60])), N)
    y = target(objective, X, rng)
    if objective in ("reg:gamma", "reg:tweedie", "count:poisson", "survival:cox"):
        y = np.abs(y) + 0.1
    data = xgb.DMatrix(X, y, feature_types=types, enable_categorical=True)
    if objective.startswith("rank"):
        data.set_group([N // 2, N - N // 2])
    parameters = {
        "objective": objective,
        "max_depth": int(rng.integers(1, 7)),
        "learning_rate": float(rng.choice([0.1, 0.5, 1.0])),
        "num_parallel_tree": int(rng.choice([1, 1, 3])),
        "max_cat_to_onehot": int(rng.choice([1, 4, 100])),
        "subsample": 0.8,
        "seed": seed,
        "booster": "dart" if seed % 7 == 3 else "gbtree",
        "verbosity": 0,
    }
    if parameters["booster"] == "dart":
        parameters |= {"rate_drop": 0.4}
    if objective.startswith("multi"):
        parameters["num_class"] = 3
    if objective == "reg:quantileerror":
        parameters["quantile_alpha"] = [0.2, 0.8]
    if rng.random() < 0.5 and objective != "reg:quantileerror":
        parameters["base_score"] = float(rng.random())
    booster = xgb.train(parameters, data, int(rng.integers(1, 12)))
    return booster, rows_for(booster, n_features, rng, X, types), types


def rows_for(
    booster: Any, n_features: int, rng: Any, X: np.ndarray, types: list[str]
) -> np.ndarray:
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    trees = (model.get("gbtree", model))["model"]["trees"]
    thresholds: dict[int, list[float]] = {}
    for tree in trees:
        for f, t, c in zip(
            tree["split_indices"], tree["split_conditions"], tree["left_children"], strict=True
        ):
            if c >= 0:
                thresholds.setdefault(f, []).append(np.float64(np.float32(t)))
    categories = {f: np.unique(X[:, f]) for f, kind in enumerate(types) if kind == "c"}
    return hard_rows(
        {f: np.unique(own) for f, own in thresholds.items()},
        n_features,
        rng,
        categories,
        infinite=False,
        dtype=np.float64,
    )


def margins(booster: Any, X: np.ndarray, types: list[str], **options: Any) -> np.ndarray:
    data = xgb.DMatrix(X, feature_types=types, enable_categorical=True)
    return booster.predict(data, **options)


@pytest.mark.parametrize("seed", range(50))
def test_raw_predictions_are_xgboosts(seed: int) -> None:
    booster, X, types = random_model(seed)
    wanted = margins(booster, X, types, output_margin=True)
    imported = gpuboost.from_xgboost(booster)
    for device in ("numpy", "numba"):
        imported.set_params(device=device)
        assert_bits(imported.predict_raw(X), wanted)
    probable = margins(booster, X, types)
    if imported._model.link.name == "softmax" and probable.ndim == 1:  # classes
        np.testing.assert_array_equal(imported.predict(X), probable)
    elif hasattr(imported, "classes_"):
        found = imported.predict_proba(X)
        np.testing.assert_allclose(
            found[:, 1] if probable.ndim == 1 else found, probable, atol=1e-6
        )
    else:
        np.testing.assert_allclose(imported.predict(X), probable, rtol=2e-6, atol=1e-6)


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    return X, X[:, 0] + rng.normal(size=N)


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:absoluteerror", "binary:logistic"])
@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_several_outputs(objective: str, strategy: str) -> None:
    X, y = table()
    Y = np.column_stack([y, -y + X[:, 1]])
    Y = (Y > 0.0).astype(float) if objective == "binary:logistic" else Y
    parameters = {"objective": objective, "multi_strategy": strategy, "max_depth": 3}
    booster = xgb.train(parameters, xgb.DMatrix(X, Y), 4)
    imported = gpuboost.from_xgboost(booster).set_params(device="numpy")
    data = xgb.DMatrix(X)
    assert_bits(imported.predict_raw(X), booster.predict(data, output_margin=True))
    np.testing.assert_allclose(imported.predict(X), booster.predict(data), atol=1e-6)


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson"])
def test_base_scores_have_the_bits_of_xgboost(objective: str) -> None:
    X, y = table()
    booster = xgb.train({"objective": objective, "max_depth": 1}, xgb.DMatrix(X, y > 0.0), 1)
    content, data = json.loads(booster.save_raw("json")), xgb.DMatrix(X[:20])
    rng = np.random.default_rng(0)
    for score in (*rng.random(200), *10.0 ** -rng.uniform(0, 8, 100), 1.0 - 2.0**-24):
        content["learner"]["learner_model_param"]["base_score"] = f"[{np.float32(score):.9E}]"
        again = xgb.Booster()
        again.load_model(bytearray(json.dumps(content).encode()))
        imported = gpuboost.from_xgboost(json.dumps(content).encode()).set_params(device="numpy")
        assert_bits(imported.predict_raw(X[:20]), again.predict(data, output_margin=True))


def test_early_stopping_files_and_wrappers(tmp_path: Path) -> None:
    X, y = table()
    model = xgb.XGBClassifier(n_estimators=60, early_stopping_rounds=2, learning_rate=1.0)
    model.fit(X[:200], y[:200] > 0.0, eval_set=[(X[200:], y[200:] > 0.0)], verbose=False)
    assert model.best_iteration < len(model.get_booster().get_dump()) - 1
    wrapped = gpuboost.from_xgboost(model).set_params(device="numpy")
    wanted = model.predict(X, output_margin=True)
    assert_bits(wrapped.predict_raw(X), wanted)
    np.testing.assert_array_equal(wrapped.predict(X), model.predict(X))
    booster = model.get_booster()
    for name in ("model.json", "model.ubj"):
        booster.save_model(tmp_path / name)
        best = gpuboost.from_xgboost(str(tmp_path / name), n_rounds="best")
        assert_bits(best.set_params(device="numpy").predict_raw(X), wanted)
        whole = gpuboost.from_xgboost(tmp_path / name).set_params(device="numpy")
        assert whole.n_trees_ == len(booster.get_dump())
    short = gpuboost.from_xgboost(booster, n_rounds=1)
    wanted = booster.predict(xgb.DMatrix(X), output_margin=True, iteration_range=(0, 1))
    assert_bits(short.set_params(device="numpy").predict_raw(X), wanted)
    with pytest.raises(ValueError, match="n_rounds must be an integer from 1"):
        gpuboost.from_xgboost(booster, n_rounds=10_000)


@pytest.mark.parametrize("categories", [["red", "green", "blue"], [10, 20, 30]])
def test_categories_of_data_frames(categories: list[Any]) -> None:
    X, y = table()
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": X[:, 0], "c": pd.Categorical(rng.choice(categories, N))})
    y = y + (frame["c"] == categories[0]).to_numpy()
    data = xgb.DMatrix(frame, y, enable_categorical=True)
    booster = xgb.train({"max_depth": 3, "max_cat_to_onehot": 1}, data, 4)
    imported = gpuboost.from_xgboost(booster).set_params(device="numpy")
    other = frame.assign(c=frame["c"].cat.set_categories(categories[::-1]))
    for own in (frame, other):
        wanted = booster.predict(xgb.DMatrix(own, enable_categorical=True))
        assert_bits(imported.predict_raw(own), wanted)


@pytest.mark.parametrize("n_categories", [255, 256, 1000])
def test_splits_that_name_many_categories(n_categories: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, n_categories, 3000), rng.normal(size=3000)])
    X = X.astype(np.float32)
    options: dict[str, Any] = {"feature_types": ["c", "q"], "enable_categorical": True}
    data = xgb.DMatrix(X, np.sin(X[:, 0] * 7) + X[:, 1], **options)
    parameters = {"max_depth": 4, "max_cat_to_onehot": 1, "max_cat_threshold": 2000}
    booster = xgb.train(parameters, data, 8)
    odd = [n_categories, n_categories + 1, 5e5, 2.0**24, -1, -0.5, np.nan, 1.5, n_categories - 0.5]
    rows = np.concatenate([X, np.column_stack([odd, np.zeros(len(odd))])]).astype(np.float32)
    wanted = booster.predict(xgb.DMatrix(rows, **options), output_margin=True)
    imported = gpuboost.from_xgboost(booster)
    imported.save(tmp_path / "model.gpuboost")
    for model in (imported, gpuboost.load(tmp_path / "model.gpuboost")):
        shared = [column.codes is not None for column in model._model.columns.columns]
        assert any(shared) == (n_categories == 1000)
        for device in ("numpy", "numba"):
            assert_bits(model.set_params(device=device).predict_raw(rows), wanted)
    assert model.fingerprint() == imported.fingerprint()


def test_what_cannot_be_kept_is_refused() -> None:
    X, y = table()
    linear = xgb.train({"booster": "gblinear"}, xgb.DMatrix(X, y), 1)
    with pytest.raises(ValueError, match="booster='gblinear' has no trees"):
        gpuboost.from_xgboost(linear)
    content = json.loads(xgb.train({}, xgb.DMatrix(X, y), 1).save_raw("json"))
    content["learner"]["objective"]["name"] = "reg:new"
    with pytest.raises(ValueError, match="objective 'reg:new' is unknown"):
        gpuboost.from_xgboost(json.dumps(content).encode())
    with pytest.raises(TypeError, match="from_xgboost takes a path"):
        gpuboost.from_xgboost(3)


@pytest.mark.parametrize("missing", [-999.0, 0.0, 0.1, np.inf, np.nan])
def test_the_missing_value_of_a_wrapper_is_kept(missing: float, tmp_path: Path) -> None:
    X, y = table()
    X[np.random.default_rng(1).random(X.shape) < 0.3] = missing
    model = xgb.XGBRegressor(n_estimators=10, max_depth=3, missing=missing).fit(X, y)
    X[::7] = np.nan
    wanted, imported = model.predict(X, output_margin=True), gpuboost.from_xgboost(model)
    imported.save(tmp_path / "model")
    for own in (imported, gpuboost.load(tmp_path / "model")):
        for device in ("numpy", "numba"):
            assert_bits(own.set_params(device=device).predict_raw(X), wanted)
        assert own.fingerprint() == imported.fingerprint()
    without = gpuboost.from_xgboost(model.get_booster())
    assert (without.fingerprint() == imported.fingerprint()) == np.isnan(missing)


@pytest.mark.parametrize("n_classes", [1, 3])
@pytest.mark.parametrize("n_parallel", [1, 2])
def test_old_files_do_not_say_where_rounds_end(n_classes: int, n_parallel: int) -> None:
    X, y = table()
    parameters: dict[str, Any] = {"num_parallel_tree": n_parallel, "max_depth": 2}
    if n_classes > 1:
        parameters |= {"objective": "multi:softprob", "num_class": n_classes}
        y = np.digitize(y, [-0.5, 0.7])
    booster = xgb.train(parameters, xgb.DMatrix(X, y), 4)
    content = json.loads(booster.save_raw("json"))
    del content["learner"]["gradient_booster"]["model"]["iteration_indptr"]
    content["learner"]["attributes"]["best_iteration"] = "2"
    given = json.dumps(content)
    for n_rounds, stop in ((None, 4), (2, 2), ("best", 3)):
        imported = gpuboost.from_xgboost(given, n_rounds=n_rounds).set_params(device="numpy")
        options: dict[str, Any] = {"output_margin": True, "iteration_range": (0, stop)}
        assert_bits(imported.predict_raw(X), booster.predict(xgb.DMatrix(X), **options))
    content["learner"]["gradient_booster"]["model"]["gbtree_model_param"]["num_parallel_tree"] = "3"
    with pytest.raises(ValueError, match=r"\d+ trees, but \d+ in each round"):
        gpuboost.from_xgboost(json.dumps(content), n_rounds=1)


def test_a_field_that_is_lacking_is_named() -> None:
    X, y = table()
    content = json.loads(xgb.train({}, xgb.DMatrix(X, y), 1).save_raw("json"))
    del content["learner"]["gradient_booster"]["model"]["tree_info"]
    with pytest.raises(ValueError, match="has no field 'tree_info'"):
        gpuboost.from_xgboost(json.dumps(content))


def test_text_and_bytes_of_a_file_and_objects_that_are_not_fitted() -> None:
    X, y = table()
    booster = xgb.train({}, xgb.DMatrix(X, y), 1)
    wanted = gpuboost.from_xgboost(booster).fingerprint()
    content = bytes(booster.save_raw("json"))
    for given in (content, content.decode(), json.dumps(json.loads(content), indent=1)):
        assert gpuboost.from_xgboost(given).fingerprint() == wanted
    for unfitted in (xgb.Booster(), xgb.XGBRegressor()):
        with pytest.raises(NotFittedError) as caught:
            gpuboost.from_xgboost(unfitted)
        assert "Stack trace" not in str(caught.value)


def test_categories_that_the_model_does_not_hold() -> None:
    X, y = table()
    frame = pd.DataFrame({"x": X[:, 0], "c": pd.Categorical(["rot", "grün", "blau"] * (N // 3))})
    model = xgb.XGBRegressor(n_estimators=2, enable_categorical=True).fit(frame, y)
    imported = gpuboost.from_xgboost(model).set_params(device="numpy")
    with pytest.raises(ValueError, match=r"'c'\) has cat.*but the model of XGBoost does not hold"):
        imported.predict(frame)
    coded = frame.assign(c=frame["c"].cat.codes)
    np.testing.assert_array_equal(imported.predict(coded), model.predict(frame))


def test_a_missing_value_that_is_a_category_is_refused() -> None:
    rng, (X, y) = np.random.default_rng(0), table()
    X = np.where(rng.random(X.shape) < 0.2, -1.0, X.round(1))
    frame = pd.DataFrame({"x": X[:, 0], "c": pd.Categorical(rng.choice(["a", "b", "c"], N))})
    for missing in (-1.0, 0.0):
        options: dict[str, Any] = {"missing": missing, "enable_categorical": True}
        model = xgb.XGBRegressor(n_estimators=5, max_depth=3, **options).fit(frame, y)
        if missing == 0.0:
            with pytest.raises(ValueError, match=r"missing=0\.0 is also the code of a category"):
                gpuboost.from_xgboost(model)
            continue
        imported = gpuboost.from_xgboost(model).set_params(device="numpy")
        other = frame.assign(c=frame["c"].cat.set_categories(["c", "b", "a"]))
        for own in (frame, other):
            assert_bits(imported.predict_raw(own), model.predict(own, output_margin=True))
