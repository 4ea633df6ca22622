"""Models of treelite predict the same in its predictor GTIL."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import matplotlib
import numpy as np
import pytest
import sklearn.tree

import gpuboost
from tests.interchange.export_cases import (
    CASES,
    assert_near,
    fitted,
    hard_rows,
    in_type,
    table,
    target,
)

treelite = pytest.importorskip("treelite")

WITHOUT_MEDIAN = [case for case in CASES if case != "adaboost-regressor"]
with_and_without_categories = pytest.mark.parametrize(
    "categories", [False, True], ids=["numbers", "categories"]
)


def facts_of(exported: Any) -> dict[str, Any]:
    """What gpuboost writes to the attributes of a model."""
    return json.loads(field(exported.get_header_accessor(), "attributes"))["gpuboost"]


def field(accessor: Any, name: str) -> Any:
    """A field of a model or tree of treelite, a text or an array."""
    value = accessor.get_field(name)
    return value if isinstance(value, str) else np.asarray(value)


def as_numbers(X: np.ndarray, exported: Any) -> np.ndarray:
    """Rows with categories replaced by the numbers that the model lists; others become -1."""
    X = X.copy()
    for feature, pairs in facts_of(exported)["categories"].items():
        numbers, column = dict(pairs), X[:, int(feature)]
        known = [v if np.isnan(v) else numbers.get(v, -1.0) for v in column.tolist()]
        X[:, int(feature)] = known
    return X


def probabilities_of(found: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    """Class probabilities of each output, from treelite's array (n, targets, classes)."""
    if found.shape[2] == 1 and sizes == [2]:
        found = np.concatenate([1.0 - found, found], axis=2)
    return [found[:, k, :size] for k, size in enumerate(sizes)]


@with_and_without_categories
@pytest.mark.parametrize("case", WITHOUT_MEDIAN)
def test_predictions_are_those_of_the_model(case: str, categories: bool) -> None:
    model = fitted(case, categories)
    exported = treelite.Model.deserialize_bytes(model.to_treelite().serialize_bytes())
    X, finite = in_type(hard_rows(model, categories, fractions=False), np.float64)
    X = as_numbers(X, exported)
    found = treelite.gtil.predict(exported, X)
    raw = treelite.gtil.predict(exported, X, pred_margin=True)
    if not hasattr(model, "classes_"):
        values = model.predict(finite).reshape(len(X), -1)
        is_raw = field(exported.get_header_accessor(), "postprocessor") != "exponential"
        assert_near(found[:, :, 0], values, 1e-12 if is_raw else 1e-6)
        if not is_raw:
            assert_near(raw[:, :, 0], np.log(values), 1e-12)
        return
    wanted = model.predict_proba(finite)
    wanted = wanted if isinstance(wanted, list) else [wanted]
    own = probabilities_of(found, [each.shape[1] for each in wanted])
    for one, other in zip(own, wanted, strict=True):
        assert_near(one, other, 1e-6)
    if hasattr(model, "decision_function"):
        decision = model.decision_function(finite).reshape(len(X), -1)
        is_adaboost = case.startswith("adaboost")
        decision /= max(decision.shape[1] - 1, 1) if is_adaboost else 1
        assert_near(raw[:, 0], decision, 1e-12)
    else:
        assert_near(raw[:, 0, : wanted[0].shape[1]], wanted[0], 1e-12)


def test_string_categories_are_their_places() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "grey"])
    drawn = rng.integers(0, 4, size=300)
    X = pd.DataFrame({"color": pd.Categorical(words[drawn]), "x": rng.normal(size=300)})
    model = gpuboost.GradientBoostingRegressor(n_estimators=4, device="numpy")
    model.fit(X, (drawn == 2) * 2.0 + (drawn == 0) + X["x"])
    exported = model.to_treelite()
    facts = facts_of(exported)
    numbers = dict(facts["categories"]["0"])
    assert facts["feature_names"] == ["color", "x"] and set(numbers) == set(words)
    coded = np.column_stack([[numbers[word] for word in X["color"]], X["x"]])
    assert_near(treelite.gtil.predict(exported, coded)[:, 0, 0], model.predict(X), 1e-12)


def test_nodes_have_their_counts_and_gains() -> None:
    model = fitted("boosting-squared", True)
    accessor, tree = model.to_treelite().get_tree_accessor(0), model._model.ensemble.trees[0]
    for name, own in (("data_count", tree.count), ("sum_hess", tree.weight)):
        np.testing.assert_array_equal(field(accessor, name), own)
    inner = tree.left > 0
    np.testing.assert_array_equal(field(accessor, "gain")[inner], tree.impurity_decrease[inner])
    numeric = inner & (tree.category < 0)
    np.testing.assert_array_equal(field(accessor, "threshold")[numeric], tree.threshold[numeric])


def test_what_treelite_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="weighted median of its trees, which treelite does not"):
        fitted("adaboost-regressor", False).to_treelite()
    monkeypatch.setitem(sys.modules, "treelite.model_builder", None)
    with pytest.raises(ImportError, match=r"pip install 'gpuboost\[treelite\]'"):
        fitted("tree-regressor", False).to_treelite()


def test_models_come_back() -> None:
    X = table()
    for case in ("forest-classifier", "boosting-three", "hist-gamma"):
        model = fitted(case, False)
        exported = model.to_treelite()
        again = gpuboost.from_treelite(exported)
        method = "predict_proba" if hasattr(model, "classes_") else "predict"
        assert_near(getattr(again, method)(X), getattr(model, method)(X), 1e-12)
        for other in ("to_treelite", "to_sklearn", "to_onnx"):
            with pytest.raises(TypeError, match="only models with trees that gpuboost has grown"):
                getattr(import_module(f"gpuboost.interchange.export.{other}"), other)(again)


# ---- treelite's importer of models of scikit-learn ---------------------------------------------


def test_the_importer_for_scikit_learn_refuses_trees_with_categories() -> None:
    """It takes our forest for scikit-learn's, and would ignore the categories."""
    forest = gpuboost.RandomForestRegressor(n_estimators=3, device="numpy", random_state=0)
    forest.fit(table(), target("values"))
    imported = treelite.sklearn.import_model(forest)
    X, finite = in_type(hard_rows(forest, False), np.float64)
    assert_near(treelite.gtil.predict(imported, X)[:, 0, 0], forest.predict(finite), 1e-12)
    with pytest.raises(TypeError, match="this tree splits on categories, so its thresholds"):
        treelite.sklearn.import_model(fitted("forest-regressor", True))


def test_thresholds_of_trees_with_categories_are_read_node_by_node() -> None:
    tree = fitted("tree-regressor", True).tree_
    split, others = (
        np.flatnonzero(own).tolist() for own in (tree.is_categorical, ~tree.is_categorical)
    )
    assert len(tree.threshold) == tree.node_count
    assert all(isinstance(tree.threshold[node], np.float64) for node in others)
    assert split and all(len(tree.categories_left(node)) for node in split)
    for read in (
        lambda: np.asarray(tree.threshold),
        lambda: np.isnan(tree.threshold),
        lambda: tree.threshold[tree.feature >= 0],
        lambda: tree.threshold[:2],
        lambda: tree.threshold.dtype,
    ):
        with pytest.raises(TypeError, match="cannot be read as an array"):
            read()
    matplotlib.use("Agg")
    for show in (sklearn.tree.export_text, sklearn.tree.export_graphviz, sklearn.tree.plot_tree):
        with pytest.raises(TypeError, match=r"splits on categories and has no threshold"):
            show(fitted("tree-regressor", True))
