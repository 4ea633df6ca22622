"""Imported models of treelite have the raw predictions of its reference predictor."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.ensemble

import gpuboost
from tests.interchange import test_from_lightgbm, test_from_sklearn, test_from_xgboost
from tests.interchange.cases import assert_bits

treelite = pytest.importorskip("treelite")
SOURCES = ("xgboost", "lightgbm", "sklearn")


def random_model(seed: int) -> tuple[Any, np.ndarray]:
    """A model of treelite from one of three libraries, and hard rows for it."""
    source = SOURCES[seed % 3]
    if source == "xgboost":
        booster, X, _ = test_from_xgboost.random_model(seed)
        return treelite.frontend.from_xgboost(booster), X.astype(np.float32)
    if source == "lightgbm":
        booster, X = test_from_lightgbm.random_model(seed)
        return treelite.frontend.from_lightgbm(booster), X
    estimator, X = test_from_sklearn.random_model(seed)
    return treelite.sklearn.import_model(estimator), X


def readable_model(seed: int) -> tuple[Any, np.ndarray]:
    """`random_model` of the seed, or of the next of the same library that treelite reads."""
    for own in range(seed, seed + 12, 3):
        with contextlib.suppress(treelite.TreeliteError, NotImplementedError):
            return random_model(own)
    raise AssertionError(f"treelite does not read the models of seeds {seed} to {seed + 9}")


@pytest.mark.parametrize("seed", range(54))
def test_raw_predictions_are_those_of_gtil(seed: int) -> None:
    model, X = readable_model(seed)
    X = X.astype(np.float32 if model.input_type == "float32" else np.float64)
    imported = gpuboost.from_treelite(model)
    wanted = treelite.gtil.predict(model, X, nthread=1, pred_margin=True)
    for device in ("numpy", "numba"):
        imported.set_params(device=device)
        assert_bits(imported.predict_raw(X), wanted)
    predicted = treelite.gtil.predict(model, X, nthread=1)
    found = imported.predict_proba(X) if hasattr(imported, "classes_") else imported.predict(X)
    found = found[:, 1] if predicted[0].size == 1 and found.ndim == 2 else found
    np.testing.assert_allclose(found.reshape(predicted.shape), predicted, rtol=2e-6, atol=1e-6)


def one_split(kind: str, operator: str, threshold: float, default_left: bool) -> Any:
    """A model of one split, made by hand."""
    builder = treelite.model_builder
    model = builder.ModelBuilder(
        threshold_type=kind,
        leaf_output_type=kind,
        metadata=builder.Metadata(
            num_feature=1,
            task_type="kRegressor",
            average_tree_output=False,
            num_target=1,
            num_class=[1],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=builder.TreeAnnotation(num_tree=1, target_id=[0], class_id=[0]),
        postprocessor=builder.PostProcessorFunc(name="identity"),
        base_scores=[0.1],
    )
    model.start_tree()
    model.start_node(0)
    model.numerical_test(
        feature_id=0,
        threshold=threshold,
        default_left=default_left,
        opname=operator,
        left_child_key=1,
        right_child_key=2,
    )
    model.end_node()
    for key, value in ((1, 1.3), (2, 2.7)):
        model.start_node(key)
        model.leaf(value)
        model.end_node()
    model.end_tree()
    return model.commit()


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_every_comparison(kind: str, operator: str) -> None:
    dtype = np.dtype(kind).type
    for threshold in (0.5, 0.0, -0.0, 0.1, 1e-45, np.inf):
        for default_left in (True, False):
            model = one_split(kind, operator, threshold, default_left)
            near = [np.nextafter(dtype(threshold), dtype(end)) for end in (np.inf, -np.inf)]
            rest = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e30, -1e30]
            X = np.array([threshold, *near, *rest], dtype)[:, None]
            found = gpuboost.from_treelite(model).set_params(device="numpy").predict_raw(X)
            assert_bits(found, treelite.gtil.predict(model, X, pred_margin=True))


def test_several_outputs_of_classes() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    both = np.column_stack([np.digitize(y, [-0.5, 0.7]), X[:, 0] > 0.0])
    forest = sklearn.ensemble.RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, both)
    model = treelite.sklearn.import_model(forest)
    imported = gpuboost.from_treelite(model).set_params(device="numpy")
    wanted = treelite.gtil.predict(model, X, pred_margin=True)
    assert_bits(imported.predict_raw(X), wanted)
    first, second = imported.predict_proba(X)
    np.testing.assert_array_equal(first, wanted[:, 0])
    np.testing.assert_array_equal(second, wanted[:, 1, :2])
    np.testing.assert_array_equal(imported.predict(X), forest.predict(X))


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(ValueError, match="tests for equality"):
        gpuboost.from_treelite(one_split("float64", "==", 1.0, True))
    with pytest.raises(ValueError, match="compares with -inf"):
        gpuboost.from_treelite(one_split("float64", "<", -np.inf, True))
    with pytest.raises(TypeError, match=r"takes a treelite\.Model"):
        gpuboost.from_treelite("model.bin")
    forest = sklearn.ensemble.IsolationForest(n_estimators=2).fit(np.arange(20.0)[:, None])
    with pytest.raises(ValueError, match="isolation forests"):
        gpuboost.from_treelite(treelite.sklearn.import_model(forest))


def exported_model() -> tuple[Any, Any, pd.DataFrame]:
    """A model of gpuboost, its copy in treelite, and rows with names and categories."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    frame["word"] = pd.Categorical(rng.choice(["x", "y", "z"], 200))
    frame["number"] = pd.Categorical(rng.choice([3, 7, 9], 200))
    y = frame["a"] + (frame["word"] == "y") + 2.0 * (frame["number"] == 7)
    model = gpuboost.RandomForestRegressor(n_estimators=4, device="numpy").fit(frame, y)
    return model, model.to_treelite(), frame


def test_a_model_that_gpuboost_exported_keeps_names_and_categories(tmp_path: Path) -> None:
    model, exported, frame = exported_model()
    gpuboost.from_treelite(exported).save(tmp_path / "model")
    imported = gpuboost.load(tmp_path / "model").set_params(device="numpy")
    rows = frame.astype({"number": float})
    np.testing.assert_allclose(imported.predict(rows), model.predict(frame), rtol=1e-12)
    unknown = rows.assign(word=["?", *frame["word"][1:]])
    wanted = model.predict(frame.assign(word=unknown["word"]))
    np.testing.assert_allclose(imported.predict(unknown), wanted, rtol=1e-12)
    with pytest.raises(ValueError, match="must be in the same order"):
        imported.predict(rows[["b", "a", "word", "number"]])
    with pytest.raises(ValueError, match="the model of treelite does not hold the categories"):
        imported.predict(frame)


@pytest.mark.parametrize(
    "facts",
    [
        *([], {"feature_names": 3}, {"feature_names": ["a"]}, {"feature_names": list("aabc")}),
        *({"categories": []}, {"categories": {"x": []}}, {"categories": {"2": [1]}}),
        *({"categories": {"9": [["x", 0]]}}, {"categories": {"2": [[[], 0]]}}),
        *({"categories": {"2": [[None, 0]]}}, {"categories": {"-1": [["x", 0]]}}),
    ],
    ids=str,
)
def test_damaged_attributes_are_refused(facts: Any) -> None:
    exported = exported_model()[1]
    exported.get_header_accessor().set_field("attributes", json.dumps({"gpuboost": facts}))
    with pytest.raises(ValueError, match="attributes of this model are damaged"):
        gpuboost.from_treelite(exported)
