"""``gpuboost convert``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from pyarrow import csv
from sklearn import ensemble

import gpuboost
from gpuboost.cli.models.json_trees import model_to_json
from tests.cli.conftest import FEATURES, FEW, drop, features, make_table


def predict_from_json(model: dict[str, Any], rows: list[dict[str, Any]]) -> np.ndarray:
    """Sums, means, votes or medians of the trees' leaves, by the JSON of a model."""
    columns = [[predicted_leaf(model, tree, row) for row in rows] for tree in model["trees"]]
    leaves = np.array(columns)  # (trees, rows, values)
    if model["combine"] == "mean":
        return leaves.mean(axis=0)
    if model["combine"].startswith("weighted"):
        return np.array([combined(model, leaves[:, row]) for row in range(len(rows))])
    per_round, total = model["trees_per_round"], np.tile(model["baseline"], (len(rows), 1))
    for number, values in enumerate(leaves):
        column = slice(None) if per_round == 1 else [number % per_round]
        total[:, column] += values
    return total


def combined(model: dict[str, Any], values: np.ndarray) -> Any:
    """A class or a value for the leaves of one row, (trees, values)."""
    weights = np.array(model["tree_weights"])
    if model["combine"] == "weighted_vote":
        sums = np.bincount(values.argmax(axis=1), weights, minlength=values.shape[1])
        return model["classes"][sums.argmax()]
    order = values[:, 0].argsort()
    reached = weights[order].cumsum()
    return values[order[np.argmax(2.0 * reached >= reached[-1])], 0]


def predicted_leaf(model: dict[str, Any], tree: list[Any], row: dict[str, Any]) -> list[float]:
    node = tree[0]
    while "value" not in node:
        value = row[model["features"][node["feature"]]["name"]]
        known = model["features"][node["feature"]]["categories"]
        if value is None or (known is not None and value not in known):
            node = tree[node["missing"]]
        elif known is not None:
            node = tree[node["left" if value in node["categories"] else "right"]]
        else:
            is_left = node["threshold"] is None or value <= node["threshold"]
            node = tree[node["left" if is_left else "right"]]
    return node["value"]


def test_json_predicts_what_the_model_does(trained: Path, run: Any) -> None:
    rows = [*features().to_pylist(), {"age": 50, "income": None, "city": "Unknown"}]
    table = csv.read_csv("v.csv").schema
    assert table.names[:3] == FEATURES
    X = pd.DataFrame(rows)
    for name, expected in (("c", "decision_function"), ("r", "predict")):
        assert run("convert", name, "--to", "json", "m.json") == (0, "", "wrote m.json\n")
        model = json.loads(Path("m.json").read_text(encoding="utf-8"))
        assert model["fingerprint"] == gpuboost.load(name).fingerprint()
        found = predict_from_json(model, rows)
        wanted = getattr(gpuboost.load(name), expected)(X)
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-12)


def test_json_of_a_forest(folder: Path, run_json: Any) -> None:
    run_json("train", "t.csv", "--target", "y", *drop("price", "count", "w"), "--out", "m", *FEW,
             "--model", "forest")  # fmt: skip
    model = gpuboost.load("m")
    form = model_to_json(model)
    found = predict_from_json(form, features().to_pylist())
    np.testing.assert_allclose(found, model.predict_proba(features()), rtol=1e-12)
    assert form["combine"] == "mean" and form["baseline"] is None


@pytest.mark.parametrize(
    ("name", "target", "combine"),
    [
        ("adaboost", "y", "weighted_vote"),
        ("adaboost", "count", "weighted_vote"),
        ("adaboost", "price", "weighted_median"),
        ("forest", "y", "weighted_vote"),
    ],
)
def test_json_of_models_whose_trees_vote(
    name: str, target: str, combine: str, folder: Path, run_json: Any
) -> None:
    others = drop(*({"y", "price", "count", "w"} - {target}))
    own = ("--set", "n_estimators=9", "--model", name)
    hard = ("--set", "voting=hard") if name == "forest" else ("--set", "estimator__max_depth=2")
    run_json("train", "t.csv", "--target", target, *others, "--out", "m", *FEW, *own, *hard)
    model = gpuboost.load("m")
    form = json.loads(json.dumps(model_to_json(model)))
    found = predict_from_json(form, features().to_pylist())
    assert form["combine"] == combine and len(set(found.tolist())) > 1
    assert found.tolist() == model.predict(features()).tolist()


def test_scikit_learn_gets_an_estimator(folder: Path, run: Any, run_json: Any) -> None:
    words = ("--target", "price", *drop("y", "city"), "--out", "m", *FEW)
    run_json("train", "v.csv", *words, "--model", "forest")
    assert run("convert", "m", "--to", "sklearn", "m.joblib") == (0, "", "wrote m.joblib\n")
    found, model = joblib.load("m.joblib"), gpuboost.load("m")
    assert isinstance(found, ensemble.RandomForestRegressor)
    X = make_table(100, seed=1).select(model.feature_names_in_.tolist()).to_pandas()
    assert (found.predict(X.astype(np.float32)) == model.predict(X.astype(np.float32))).all()


class TreeliteModel:
    """Stands for a model of treelite."""

    def serialize(self, path: str) -> None:
        Path(path).write_bytes(b"treelite")


def test_other_forms_are_methods_of_the_model(trained: Path, run: Any, monkeypatch: Any) -> None:
    kind = gpuboost.GradientBoostingClassifier
    monkeypatch.setattr(kind, "to_treelite", lambda self: TreeliteModel())
    monkeypatch.setattr(kind, "to_onnx", lambda self, path: Path(path).write_bytes(b"onnx"))
    for name in ("treelite", "onnx"):
        assert run("convert", "c", "--to", name, name)[0] == 0
        assert Path(name).read_bytes() == name.encode()


def test_conversions_that_cannot_be(trained: Path, run: Any, monkeypatch: Any) -> None:
    for name in ("treelite", "treelite.model_builder", "onnx"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("treelite", "onnx"):
        status, out, err = run("convert", "c", "--to", name, "m")
        assert (status, out) == (2, "") and f"pip install 'gpuboost[{name}]'" in err
        assert len(err.splitlines()) == 1 and not Path("m").exists()
    status, _, err = run("convert", "c", "--to", "sklearn", "m")
    assert status == 2 and "city" in err
    assert run("convert", "c", "--to", "xml", "m")[0] == 2
    for out, message in (("-", "name a file instead of -"), ("absent/m", "absent/m: No such file")):
        status, _, err = run("convert", "absent", "--to", "json", out)
        assert status == 2 and message in err and not Path("-").exists()
