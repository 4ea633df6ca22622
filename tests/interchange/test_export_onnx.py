"""Models in the ONNX format predict the same in onnxruntime."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuboost
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.data.frames import apply_schema
from tests.interchange.export_cases import (
    CASES,
    N,
    assert_near,
    fitted,
    hard_rows,
    in_type,
    table,
    target,
    trees_of,
)

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

SUMS = {np.float64: 1e-12, np.float32: 1e-6}
needs_all = pytest.mark.parametrize(
    ("categories", "dtype"),
    [(False, np.float64), (True, np.float64), (False, np.float32), (True, np.float32)],
    ids=lambda value: getattr(value, "__name__", "categories" if value else "numbers"),
)


def run(model: Any, X: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs of a model for some rows, by name."""
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=providers)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


def wanted(model: Any, X: np.ndarray) -> dict[str, Any]:
    """What the outputs must be."""
    if not hasattr(model, "classes_"):
        return {"prediction": model.predict(X)}
    labels, probabilities = model.predict(X), model.predict_proba(X)
    if isinstance(probabilities, list):
        found = {f"label_{k}": labels[:, k] for k in range(labels.shape[1])}
        return found | {f"probabilities_{k}": own for k, own in enumerate(probabilities)}
    found = {"label": labels, "probabilities": probabilities}
    if hasattr(model, "decision_function"):
        found["decision_function"] = model.decision_function(X)
    return found


def leaves(exported: Any, ensemble: Any, X: np.ndarray) -> np.ndarray:
    """Leaf of each row in each tree, from a model whose leaves hold their numbers."""
    copy = onnx.ModelProto.FromString(exported.SerializeToString())
    node = next(node for node in copy.graph.node if node.op_type == "TreeEnsemble")
    is_leaf, starts = ensemble.left == 0, np.repeat(ensemble.offset[:-1], np.diff(ensemble.offset))
    tree = np.repeat(np.arange(ensemble.n_trees), np.diff(ensemble.offset))
    unused = len(node.attribute[[a.name for a in node.attribute].index("leaf_targetids")].ints)
    unused -= int(is_leaf.sum())
    numbers = np.append(np.zeros(unused), (np.arange(len(tree)) - starts)[is_leaf])
    changed = {
        "n_targets": ensemble.n_trees,
        "leaf_targetids": [0] * unused + tree[is_leaf].tolist(),
        "leaf_weights": onnx.numpy_helper.from_array(numbers.astype(X.dtype)),
    }
    kept = [attribute for attribute in node.attribute if attribute.name not in changed]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.extend(onnx.helper.make_attribute(*item) for item in changed.items())
    kind = onnx.helper.np_dtype_to_tensor_dtype(X.dtype)
    value = onnx.helper.make_tensor_value_info(node.output[0], kind, [None, ensemble.n_trees])
    place = [*copy.graph.node].index(node)
    del copy.graph.node[place + 1 :]
    del copy.graph.output[:]
    copy.graph.output.append(value)
    return run(copy, X)[node.output[0]]


@needs_all
@pytest.mark.parametrize("case", CASES)
def test_predictions_are_those_of_the_model(case: str, categories: bool, dtype: Any) -> None:
    model = fitted(case, categories)
    X, finite = in_type(hard_rows(model, categories), dtype)
    exported = model.to_onnx(dtype=np.dtype(dtype).name)
    found, expected = run(exported, X), wanted(model, finite)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if name.startswith("label"):
            np.testing.assert_array_equal(found[name], values)
        else:
            assert found[name].dtype == dtype
            assert_near(found[name], values, SUMS[dtype])


@needs_all
@pytest.mark.parametrize("case", ["forest-regressor", "bagging-regressor", "boosting-three"])
def test_leaves_are_equal(case: str, categories: bool, dtype: Any) -> None:
    model = fitted(case, categories)
    trees = trees_of(model)._model
    X, _ = in_type(hard_rows(model, categories), dtype)
    found = leaves(model.to_onnx(dtype=np.dtype(dtype).name), trees.ensemble, X)
    columns = apply_schema(X, trees.schema)
    np.testing.assert_array_equal(found, trees.apply(columns, NumpyBackend(), 1))


def test_each_output_of_a_classifier_has_its_own() -> None:
    exported = fitted("tree-outputs", False).to_onnx()
    names = [output.name for output in exported.graph.output]
    assert names == ["label_0", "probabilities_0", "label_1", "probabilities_1"]


def test_string_categories_are_their_places() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    words = np.array([f"word {k}" for k in range(400)])  # more than have a code of their own
    drawn = rng.integers(0, len(words), size=1500)
    X = pd.DataFrame({"word": pd.Categorical(words[drawn]), "x": rng.normal(size=len(drawn))})
    y = drawn % 5 + X["x"].to_numpy()
    model = gpuboost.RandomForestRegressor(n_estimators=4, device="numpy", random_state=0).fit(X, y)
    exported = model.to_onnx()
    facts = {entry.key: entry.value for entry in exported.metadata_props}
    assert json.loads(facts["feature_names"]) == ["word", "x"]
    assert (
        facts["fingerprint"] == model.fingerprint() and facts["estimator"] == type(model).__name__
    )
    numbers = dict(json.loads(facts["categories"])["0"])
    assert len(numbers) == len(set(drawn.tolist()))
    unknown = pd.DataFrame({"word": ["?", None], "x": [0.1, 0.2]})
    rows = pd.concat([X.astype({"word": object}), unknown], ignore_index=True)
    coded = np.column_stack([[numbers.get(word, -1.0) for word in rows["word"]], rows["x"]])
    assert_near(run(exported, coded)["prediction"], model.predict(rows), 1e-12)


def test_trees_of_one_category_set_on_each_side() -> None:
    """Sets of one and of all but one category, with missing values on both sides."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 250, size=(4000, 1)).astype(np.float64)
    X[rng.random(4000) < 0.1] = np.nan
    y = np.where(X[:, 0] == 17, 5.0, 0.0) + np.isnan(X[:, 0]) * 5.0 + (X[:, 0] == 200)
    for sign in (1.0, -1.0):
        model = gpuboost.DecisionTreeRegressor(categorical_features=[0], device="numpy")
        model.fit(X, sign * y)
        rows = np.append(np.arange(-2.0, 300.0), np.nan)[:, None]
        np.testing.assert_array_equal(run(model.to_onnx(), rows)["prediction"], model.predict(rows))


def test_a_category_matches_its_nearest_float32() -> None:
    X = np.array([0.1, 0.2, 0.3, 0.3000000001] * 30)[:, None]
    y = np.array([1.0, 2.0, 3.0, 4.0] * 30)
    model = gpuboost.DecisionTreeRegressor(categorical_features=[0], device="numpy").fit(X, y)
    rows = np.append(X[:4, 0], np.float32([0.1, 0.2, 0.3]).astype(np.float64))[:, None]
    np.testing.assert_array_equal(run(model.to_onnx(), rows)["prediction"], model.predict(rows))
    single = rows.astype(np.float32)
    found = run(model.to_onnx(dtype="float32"), single)["prediction"]
    np.testing.assert_array_equal(found, model.predict(single).astype(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("distance", [1.0, 0.125])
def test_categories_that_are_equal_in_float32(distance: float, dtype: str) -> None:
    numbers = (2.0**24 + np.array([0, 1, 2, 5, 7, 9, 11])) * distance
    X = np.repeat(numbers, 20)[:, None]
    y = np.repeat(np.arange(7.0) ** 2, 20)
    model = gpuboost.DecisionTreeRegressor(categorical_features=[0], device="numpy")
    model.fit(X, y)
    rows = np.append(numbers, numbers.astype(np.float32))[:, None].astype(dtype)
    found = run(model.to_onnx(dtype=dtype), rows)["prediction"]
    np.testing.assert_array_equal(found, model.predict(rows))


@pytest.mark.parametrize(
    "labels",
    [np.array([True, False]), np.array([1.0, 2.0]), np.array([3, 2**40]), np.array(["ä", "b"])],
    ids=lambda labels: labels.dtype.kind,
)
def test_labels_keep_their_type(labels: np.ndarray) -> None:
    X, y = table(), labels[target("two")]
    model = gpuboost.DecisionTreeClassifier(max_depth=3, device="numpy").fit(X, y)
    found = run(model.to_onnx(), X)["label"]
    assert found.dtype.kind in {"U": "O"}.get(labels.dtype.kind, labels.dtype.kind)
    np.testing.assert_array_equal(found, model.predict(X))


def test_the_model_is_written_to_a_file(tmp_path: Path) -> None:
    model = fitted("boosting-two", False)
    written = model.to_onnx(tmp_path / "model.onnx")
    read = onnx.load(tmp_path / "model.onnx")
    assert read == written and read.producer_name == "gpuboost"
    operators = {node.op_type for node in read.graph.node}
    assert "TreeEnsemble" in operators and "LabelEncoder" not in operators
    assert {opset.domain: opset.version for opset in read.opset_import}["ai.onnx.ml"] == 5


def test_examples_of_the_documentation_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that need optional libraries; tests/test_documents.py runs the others."""
    pytest.importorskip("treelite")
    monkeypatch.chdir(tmp_path)
    pages = sorted((Path(__file__).parents[2] / "docs").glob("interchange*.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    examples = re.findall(r"^```py\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert len(examples) >= 2
    for code in examples:
        exec(compile(code, "example", "exec"), {})


class OwnLoss:
    """Squared error of values or of class indicators."""

    def gradient(self, y: np.ndarray, raw: np.ndarray) -> np.ndarray:
        return raw - (y if y.shape == raw.shape else np.eye(raw.shape[1])[y])

    def hessian(self, y: np.ndarray, raw: np.ndarray) -> np.ndarray:
        return np.ones_like(raw)


class PredictingLoss(OwnLoss):
    def predict(self, raw: np.ndarray) -> np.ndarray:
        return np.exp(raw)[:, None]


def test_a_loss_of_the_user_has_the_usual_link() -> None:
    X = table()
    for name, kind in (("Regressor", "values"), ("Classifier", "two"), ("Classifier", "three")):
        model = getattr(gpuboost, f"GradientBoosting{name}")(
            loss=OwnLoss(), n_estimators=3, device="numpy"
        ).fit(X, target(kind))
        found, expected = run(model.to_onnx(), X), wanted(model, X)
        for output in found.keys() - {"label"}:
            assert_near(found[output], expected[output], 1e-12)


@pytest.mark.parametrize("method", ["to_onnx", "to_treelite"])
def test_what_depends_on_python_code_is_refused(method: str) -> None:
    pytest.importorskip("treelite")
    X, y = table(), target("values")
    params = {"n_estimators": 2, "device": "numpy"}
    own = gpuboost.GradientBoostingRegressor(loss=PredictingLoss(), **params).fit(X, y)
    with pytest.raises(ValueError, match="method predict, which is Python code"):
        getattr(own, method)()
    first = gpuboost.DecisionTreeRegressor(max_depth=1, device="numpy")
    started = gpuboost.GradientBoostingRegressor(init=first, **params).fit(X, y)
    with pytest.raises(ValueError, match="starts from the predictions of init=DecisionTree"):
        getattr(started, method)()
    with pytest.raises(ValueError, match="is not fitted"):
        getattr(gpuboost.RandomForestRegressor(), method)()


def test_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted("tree-regressor", False)
    with pytest.raises(ValueError, match="dtype must be one of"):
        model.to_onnx(dtype="float16")
    large = np.array([3, 2**63 + 1], dtype=np.uint64)[target("two")]
    too_large = gpuboost.DecisionTreeClassifier(device="numpy", max_depth=2).fit(table(), large)
    with pytest.raises(ValueError, match="class labels that are all integers"):
        too_large.to_onnx()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'gpuboost\[onnx\]'"):
        model.to_onnx()


def test_other_base_learners_are_refused() -> None:
    from sklearn.linear_model import Ridge

    bagging = gpuboost.BaggingRegressor(Ridge(), n_estimators=2).fit(
        np.nan_to_num(table()), target("values")
    )
    with pytest.raises(TypeError, match="needs gpuboost's trees"):
        bagging.to_onnx()
    assert type(bagging.to_sklearn()).__module__.startswith("sklearn.")
    assert len(bagging.to_sklearn().predict(np.zeros((N, 5)))) == N
