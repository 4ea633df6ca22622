"""Every damaged model is refused with a ValueError, or predicts within bounds.

``python -m tests.interchange.test_damaged_models N SEED`` tries N changes of each kind.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import gpuboost
from tests.interchange.damaged import as_json, damaged_bytes, damaged_json, damaged_text

xgb = pytest.importorskip("xgboost")
lgb = pytest.importorskip("lightgbm")

N_CHANGES = 120
KINDS = ("values of JSON", "bytes of JSON", "bytes of UBJSON", "words of text")


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[:, 2] = rng.integers(0, 6, 200)
    return X, X[:, 0] + X[:, 2] % 3


@cache
def xgboost_models() -> list[Any]:
    X, y = table()
    given = {"feature_types": ["q", "q", "c"], "enable_categorical": True}
    targets = y, np.digitize(y, [0, 1]), y > 1, np.column_stack([y, -y])
    parameters: tuple[dict[str, Any], ...] = (
        {"max_depth": 3, "max_cat_to_onehot": 1},
        {"max_depth": 2, "objective": "multi:softprob", "num_class": 3},
        {"max_depth": 2, "objective": "binary:logistic", "booster": "dart", "rate_drop": 0.5},
        {"max_depth": 2, "multi_strategy": "multi_output_tree"},
    )
    models = []
    for own, target in zip(parameters, targets, strict=True):
        known = {} if "multi_strategy" in own else given
        models.append(xgb.train(own, xgb.DMatrix(X.astype(np.float32), target, **known), 3))
    return models


@cache
def lightgbm_models() -> list[Any]:
    X, y = table()
    few = {"verbose": -1, "min_data_in_leaf": 3, "num_leaves": 6, "max_cat_to_onehot": 1}
    parameters: tuple[dict[str, Any], ...] = (
        {"objective": "regression"},
        {"objective": "multiclass", "num_class": 3},
        {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    )
    models = []
    for own, target in zip(parameters, (y, np.digitize(y, [0, 1]), y > 1), strict=True):
        data = lgb.Dataset(X, target, categorical_feature=[2])
        models.append(lgb.train({"min_data_per_group": 2, **few, **own}, data, 3))
    return models


def damages(kind: str) -> tuple[Callable[[Any], Any], Callable[[int, Any], Any]]:
    """The reader of damaged models of a kind, and a function that damages the model of a number."""
    if kind == "words of text":
        texts = [model.model_to_string() for model in lightgbm_models()]
        read = gpuboost.from_lightgbm
        return read, lambda number, rng: damaged_text(texts[number % 3], rng) + "\n"
    models = xgboost_models()
    if kind == "values of JSON":
        values = [json.loads(model.save_raw("json")) for model in models]
        return gpuboost.from_xgboost, lambda k, rng: as_json(damaged_json(values[k % 4], rng))
    contents = [bytes(m.save_raw("ubj" if "UBJSON" in kind else "json")) for m in models]
    return gpuboost.from_xgboost, lambda k, rng: damaged_bytes(contents[k % 4], rng)


def outcome(read: Callable[[Any], Any], content: Any, X: np.ndarray) -> str:
    """Whether a model was refused or read; its predictions must be finite."""
    try:
        model = read(content).set_params(device="numpy")
    except ValueError as error:
        assert str(error)
        return "refused"
    bound = np.abs(model._model.ensemble.value).sum() + np.abs(model._model.leaf_sum.base).max()
    if model.n_features_in_ == X.shape[1]:
        raw = model.predict_raw(X)
        assert np.isfinite(raw).all() and np.abs(raw).max() <= bound * 1.001
        assert len(model.predict(X)) == len(X)
    assert len(model.fingerprint()) == 64
    return "read"


def rows() -> np.ndarray:
    return np.concatenate([table()[0][:20], np.full((1, 3), np.nan), np.full((1, 3), 1e30)])


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_models_are_refused_or_predict_within_bounds(kind: str) -> None:
    read, damage = damages(kind)
    rng, X = np.random.default_rng(0), rows()
    found = Counter(outcome(read, damage(k, rng), X) for k in range(N_CHANGES))
    assert found["refused"] > N_CHANGES / 5, found


def changed(place: tuple[Any, ...], value: Any, model: int = 0) -> bytes:
    """The JSON of a model of XGBoost with another value at a place in the first tree."""
    content = json.loads(xgboost_models()[model].save_raw("json"))
    owner = content["learner"]["gradient_booster"]["model"]["trees"][0]
    for key in place[:-1]:
        owner = owner[key]
    owner[place[-1]] = value
    return as_json(content)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("left_children", 0), 10**6, "out of range"),
        (("left_children", 1), 0, "two parents, or is below itself"),
        (("right_children", 0), 1, "two parents"),
        (("left_children", 0), 1.5, "not integers from -1"),
        (("split_indices", 0), 3, "feature 3 of 3"),
        (("split_conditions", 0), float("nan"), "not finite"),
        (("split_conditions", 0), float("-inf"), "not finite"),
        (("default_left", 0), 2, "not integers from 0 to 1"),
        (("split_type",), [1] * 3, "not a list of"),
        (("categories_sizes",), [10**6], "is damaged|out of range"),
        (("tree_param", "size_leaf_vector"), "9" * 30, "not an integer from"),
    ],
)
def test_the_error_names_what_is_wrong(place: tuple[Any, ...], value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gpuboost.from_xgboost(changed(place, value))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"{}",
        b"{L",
        b"binf" + bytes(40),
        b'{"learner": ' * 100_000,
        b"{L" + bytes(7) + b"\x07learner" + b"[" * 100_000,
        # Nested containers of constants, which take no bytes, would be larger than any memory.
        b"{i\x01a" + b"[$[#l" + (9).to_bytes(4, "big") + b"$Z#l\x00\x00\x00\x40" * 9 + bytes(64),
    ],
)
def test_what_is_no_model_is_refused_at_once(content: bytes) -> None:
    with pytest.raises(ValueError):
        gpuboost.from_xgboost(content)


def test_a_lightgbm_model_without_a_line_is_refused() -> None:
    text = lightgbm_models()[0].model_to_string()
    with pytest.raises(ValueError, match="field twice"):
        gpuboost.from_lightgbm(text.replace("\n\n\nTree=1\n", "\n"))
    with pytest.raises(ValueError, match="cut short"):
        gpuboost.from_lightgbm(text[: len(text) // 3])
    with pytest.raises(ValueError, match="not the text of a LightGBM model"):
        gpuboost.from_lightgbm("a\nb\n")


if __name__ == "__main__":
    n_changes, seed = int(sys.argv[1]), int(sys.argv[2])
    for name in KINDS:
        reader, change = damages(name)
        random = np.random.default_rng(seed)
        print(
            name,
            dict(Counter(outcome(reader, change(k, random), rows()) for k in range(n_changes))),
        )
