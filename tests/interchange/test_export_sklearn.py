"""Estimators of scikit-learn made of ours predict the same, and work with its tools."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import sklearn.ensemble
import sklearn.inspection
import sklearn.tree
from sklearn.base import clone

import gpuboost
from tests.interchange.export_cases import (
    CASES,
    INTEGERS,
    NUMBERS,
    assert_near,
    fitted,
    hard_rows,
    table,
    target,
    trees_of,
)

REFUSED = {
    "boosting-levels": "3 outputs or quantile levels",
    "boosting-outputs": "2 outputs or quantile levels",
    "boosting-tweedie": "minimises 'tweedie', which scikit-learn",
    "boosting-log-cosh": "minimises 'log_cosh', which scikit-learn",
}
HIST = {"boosting-poisson", "boosting-gamma"}  # only its histogram boosting has these losses


def rows_for(case: str) -> np.ndarray:
    """Rows of float32 that scikit-learn's estimator takes."""
    X = hard_rows(fitted(case, False), False)
    X = X[(np.abs(np.nan_to_num(X)) < 3e38).all(axis=1)].astype(np.float32)
    tags = fitted(case, False).to_sklearn().__sklearn_tags__()
    return X if tags.input_tags.allow_nan else X[~np.isnan(X).any(axis=1)]


@pytest.mark.parametrize("case", [case for case in CASES if case not in REFUSED])
def test_predictions_are_those_of_the_model(case: str) -> None:
    model, X = fitted(case, False), rows_for(case)
    theirs = pickle.loads(pickle.dumps(model.to_sklearn()))
    name = type(model).__name__
    assert type(theirs).__name__ == ("HistGradientBoostingRegressor" if case in HIST else name)
    assert type(theirs).__module__.startswith("sklearn.")
    assert len(X) > 100 and theirs.n_features_in_ == X.shape[1]
    exact = not case.startswith(("adaboost", "boosting", "hist"))
    if not hasattr(model, "classes_"):
        assert_near(theirs.predict(X), model.predict(X), 0.0 if exact else 1e-12)
    else:
        np.testing.assert_array_equal(theirs.predict(X), model.predict(X))
        own, found = model.predict_proba(X), theirs.predict_proba(X)
        for one, other in zip(found, own, strict=True):
            assert_near(one, other, 0.0 if exact else 1e-12)
        if hasattr(model, "decision_function"):
            assert_near(theirs.decision_function(X), model.decision_function(X), 1e-12)
    importances = all(hasattr(each, "feature_importances_") for each in (model, theirs))
    if importances and case != "twoing-tree":  # its gains are no differences of impurities
        assert_near(theirs.feature_importances_, model.feature_importances_, 1e-6)
    refitted = clone(theirs)
    assert not hasattr(refitted, "n_features_in_")


@pytest.mark.parametrize("case", REFUSED)
def test_losses_and_outputs_that_scikit_learn_lacks_are_refused(case: str) -> None:
    with pytest.raises(ValueError, match=REFUSED[case]):
        fitted(case, False).to_sklearn()


@pytest.mark.parametrize("case", ["tree-classifier", "forest-regressor", "hist-three"])
def test_categories_are_refused_by_name(case: str) -> None:
    expected = f"categories of feature {NUMBERS}, feature {INTEGERS}"
    with pytest.raises(ValueError, match=expected):
        fitted(case, True).to_sklearn()


def test_other_models_that_scikit_learn_lacks_are_refused() -> None:
    X, y = table(), target("both")
    bagging = gpuboost.BaggingClassifier(n_estimators=2, device="numpy").fit(X, y)
    with pytest.raises(ValueError, match="scikit-learn's bagging classifies one"):
        bagging.to_sklearn()
    tree = gpuboost.DecisionTreeClassifier(max_depth=1, device="numpy")
    boosting = gpuboost.GradientBoostingClassifier(init=tree, n_estimators=2, device="numpy")
    with pytest.raises(ValueError, match="starts from the predictions of init"):
        boosting.fit(X, target("two")).to_sklearn()

    class Loss:
        def gradient(self, y: np.ndarray, raw: np.ndarray) -> np.ndarray:
            return raw - y

        def hessian(self, y: np.ndarray, raw: np.ndarray) -> np.ndarray:
            return np.ones_like(raw)

    own = gpuboost.HistGradientBoostingRegressor(loss=Loss(), max_iter=2, device="numpy")
    with pytest.raises(ValueError, match="minimises a user-defined loss"):
        own.fit(X, target("values")).to_sklearn()
    with pytest.raises(ValueError, match="is not fitted"):
        gpuboost.RandomForestRegressor().to_sklearn()


def test_nodes_are_those_that_scikit_learn_grows() -> None:
    """On this table both grow the same tree, so that all arrays of nodes are equal."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, size=(500, 4)).astype(np.float64)
    y = X[:, 0] + np.sin(X[:, 1]) * 9 + (X[:, 2] > X[:, 3]) * 5
    params = {"max_depth": 4, "random_state": 0}
    theirs = sklearn.tree.DecisionTreeRegressor(**params).fit(X, y).tree_
    ours = gpuboost.DecisionTreeRegressor(device="numpy", **params).fit(X, y).to_sklearn().tree_
    exact = ("children_left", "children_right", "feature", "n_node_samples", "threshold")
    for name in (*exact, "weighted_n_node_samples", "max_depth", "n_leaves", "n_outputs"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    for name in ("value", "impurity"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)


def test_nodes_keep_counts_impurities_and_missing_values() -> None:
    model, X = fitted("extra-tree-classifier", False), rows_for("extra-tree-classifier")
    tree = model.to_sklearn().tree_
    ours, theirs = model.apply(X), tree.apply(X)
    for name in ("n_node_samples", "impurity", "weighted_n_node_samples", "value"):
        np.testing.assert_array_equal(getattr(tree, name)[theirs], getattr(model.tree_, name)[ours])
    order = np.argsort(tree.children_left, kind="stable")
    assert (tree.children_left[order][-1] > 0) and tree.node_count == model.tree_.node_count
    assert tree.missing_go_to_left.sum() == model.tree_.missing_go_to_left.sum()
    inner = tree.children_left >= 0
    np.testing.assert_array_equal(tree.children_left[inner], np.flatnonzero(inner) + 1)


@pytest.mark.parametrize(
    ("name", "kind", "weight"),
    [("Regressor", "values", 0.0), ("Classifier", "two", 1e-9), ("Classifier", "three", 1e-9)],
)
def test_extreme_baselines_are_kept(name: str, kind: str, weight: float) -> None:
    X, y = np.nan_to_num(table()), target(kind)
    weights = np.where(y == y[0], 1.0, weight) if weight else None
    y = y + 1e6 if name == "Regressor" else y
    model = getattr(gpuboost, f"GradientBoosting{name}")(n_estimators=3, device="numpy")
    theirs, single = model.fit(X, y, weights).to_sklearn(), X.astype(np.float32)
    assert type(theirs.init_).__name__ == f"Dummy{name}"
    assert_near(theirs.predict(single), model.predict(single), 1e-12)
    if name == "Classifier":
        wanted = model.decision_function(single)
        assert_near(theirs.decision_function(single), wanted, 1e-12)


def test_a_baseline_that_is_no_prior_moves_to_the_first_trees() -> None:
    X, y = np.nan_to_num(table()), target("three")
    offset = np.random.default_rng(0).normal(size=(len(y), 3))
    model = gpuboost.GradientBoostingClassifier(n_estimators=3, device="numpy")
    theirs = model.fit(X, y, offset=offset).to_sklearn()
    assert theirs.init_ == "zero"
    single = X.astype(np.float32)
    wanted = model.decision_function(single, offset=np.zeros_like(offset))
    assert_near(theirs.decision_function(single), wanted, 1e-12)


def test_an_init_estimator_of_a_regressor_is_kept() -> None:
    X, y = np.nan_to_num(table()).astype(np.float32), target("values")
    first = sklearn.tree.DecisionTreeRegressor(max_depth=1)
    model = gpuboost.GradientBoostingRegressor(init=first, n_estimators=3, device="numpy")
    theirs = model.fit(X, y).to_sklearn()
    assert_near(theirs.predict(X), model.predict(X), 1e-12)


def test_parameters_and_reports_are_copied() -> None:
    forest = gpuboost.RandomForestClassifier(
        n_estimators=30, max_depth=4, criterion="twoing", oob_score=True, device="numpy"
    ).fit(table(), target("words"))
    theirs = forest.to_sklearn()
    assert theirs.max_depth == 4 and theirs.oob_score_ == forest.oob_score_
    assert theirs.criterion == "gini"  # scikit-learn has no 'twoing'
    assert theirs.classes_.tolist() == forest.classes_.tolist() and len(theirs.estimators_) == 30
    boosting = fitted("boosting-three", False).to_sklearn()
    assert boosting.learning_rate == 1.0 and boosting.estimators_.shape == (8, 3)


def test_a_fitted_forest_works_with_scikit_learns_tools() -> None:
    X = np.nan_to_num(table())
    forest = fitted("forest-regressor", False).to_sklearn()
    assert "feature_0 <=" in sklearn.tree.export_text(forest.estimators_[0])
    curve = sklearn.inspection.partial_dependence(forest, X[:50], [0], grid_resolution=5)
    ours = fitted("forest-regressor", False)
    same = sklearn.inspection.partial_dependence(ours, X[:50], [0], grid_resolution=5)
    np.testing.assert_allclose(curve["average"], same["average"], rtol=1e-9)
    hist = fitted("hist-regressor", False).to_sklearn()
    found = sklearn.inspection.partial_dependence(hist, X[:50], [0], grid_resolution=5)
    assert np.isfinite(found["average"]).all()


CONVERTED = ("forest-regressor", "extra-trees-classifier", "boosting-squared", "boosting-three")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CONVERTED)
def test_skl2onnx_converts_the_estimator(case: str) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    model, X = fitted(case, False), np.nan_to_num(table()).astype(np.float32)
    options: Any = {"options": {"zipmap": False}} if hasattr(model, "classes_") else {}
    converted = skl2onnx.to_onnx(model.to_sklearn(), X[:1], **options)
    session = onnxruntime.InferenceSession(
        converted.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {session.get_inputs()[0].name: X})
    if hasattr(model, "classes_"):
        assert_near(found[1], model.predict_proba(X), 1e-5)
    else:
        assert_near(found[0][:, 0], model.predict(X), 1e-5)


@pytest.mark.parametrize("case", ["forest-classifier", "boosting-three", "boosting-squared"])
def test_treelite_imports_the_estimator(case: str) -> None:
    treelite = pytest.importorskip("treelite")
    model, X = fitted(case, False), np.nan_to_num(table())
    imported = treelite.sklearn.import_model(model.to_sklearn())
    found = treelite.gtil.predict(imported, X.astype(np.float32).astype(np.float64))[:, 0]
    single = X.astype(np.float32)
    wanted = model.predict_proba(single) if hasattr(model, "classes_") else model.predict(single)
    assert_near(found, wanted.reshape(found.shape), 1e-6)
    assert trees_of(model).fingerprint() == fitted(case, False).fingerprint()
