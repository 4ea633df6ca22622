"""SHAP values beside shap, XGBoost and LightGBM, on the same trees; shap's explainers, and lime."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import gpuboost

shap = pytest.importorskip("shap")
RNG = np.random.default_rng(2)
X = RNG.standard_normal((600, 6)).astype(np.float32).astype(np.float64)
Y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.1 * RNG.standard_normal(600)
CLASSES = np.digitize(Y, [-0.5, 0.5])
FEW = {"n_estimators": 5, "random_state": 0}
TARGETS = {"values": Y, "two classes": CLASSES > 0, "classes": CLASSES}


def close(found, wanted, tolerance: float) -> bool:
    """Whether the largest difference is within a share of the largest value."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    return (
        found.shape == wanted.shape
        and np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()
    )


@pytest.mark.parametrize("target", TARGETS)
def test_values_of_xgboost(target: str):
    xgboost = pytest.importorskip("xgboost")
    kind = xgboost.XGBRegressor if target == "values" else xgboost.XGBClassifier
    rows = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    booster = kind(n_estimators=10, max_depth=5).fit(rows, TARGETS[target]).get_booster()
    model, data = gpuboost.from_xgboost(booster), xgboost.DMatrix(rows[:80])
    wanted = booster.predict(data, pred_contribs=True)
    wanted = np.moveaxis(wanted, 1, 2) if wanted.ndim == 3 else wanted
    assert close(model.shap_values(rows[:80]), wanted[:, :-1], 1e-5)
    assert close(model.shap_expected_value(), wanted[0, -1], 1e-5)
    if target != "classes":
        pairs = booster.predict(data, pred_interactions=True)[:, :-1, :-1]
        assert close(model.shap_interaction_values(rows[:80]), pairs, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_values_of_lightgbm(target: str):
    lightgbm = pytest.importorskip("lightgbm")
    kind = lightgbm.LGBMRegressor if target == "values" else lightgbm.LGBMClassifier
    rows = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    rows[:, 5] = RNG.integers(0, 8, len(rows))
    library = kind(n_estimators=10, max_depth=5, verbose=-1)
    library.fit(rows, TARGETS[target], categorical_feature=[5])
    model = gpuboost.from_lightgbm(library)
    wanted = library.predict(rows[:80], pred_contrib=True).reshape(80, -1, 7)
    wanted = np.moveaxis(wanted, 1, 2) if target == "classes" else wanted[:, 0]
    assert close(model.shap_values(rows[:80]), wanted[:, :-1], 1e-9)
    assert close(model.shap_expected_value(), wanted[0, -1], 1e-9)


def our_models() -> dict[str, tuple]:
    """Estimators of gpuboost, and their trees as shap reads them from scikit-learn's estimators."""
    made = {
        "tree": gpuboost.DecisionTreeClassifier(max_depth=6).fit(X, CLASSES),
        "forest": gpuboost.RandomForestRegressor(**FEW).fit(X, Y),
        "forest of classes": gpuboost.ExtraTreesClassifier(**FEW).fit(X, CLASSES),
        "boosting": gpuboost.GradientBoostingClassifier(**FEW).fit(X, CLASSES > 0),
    }
    return {name: (model, model.to_sklearn()) for name, model in made.items()}


@pytest.mark.parametrize("name", ["tree", "forest", "forest of classes", "boosting"])
def test_values_of_shap(name: str):
    model, copy = our_models()[name]
    theirs, ours = shap.TreeExplainer(copy), shap.TreeExplainer(model)
    assert type(ours).__module__.startswith("gpuboost") and isinstance(ours, shap.TreeExplainer)
    assert close(model.shap_values(X[:50]), theirs.shap_values(X[:50]), 1e-9)
    assert close(np.ravel(ours.expected_value), np.ravel(theirs.expected_value), 1e-9)
    assert close(ours.shap_interaction_values(X[:20]), theirs.shap_interaction_values(X[:20]), 1e-9)
    explained, wanted = ours(X[:50]), theirs(X[:50])
    assert close(explained.values, wanted.values, 1e-9)
    assert close(explained.base_values, wanted.base_values, 1e-9)
    assert np.array_equal(explained.data, wanted.data)
    # shap has float32 weights of background rows
    against = shap.TreeExplainer(model, X[:30]), shap.TreeExplainer(copy, X[:30])
    assert close(*(each.shap_values(X[:9], check_additivity=False) for each in against), 1e-6)


def test_shap_explainers_take_all_estimators():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["town"] = pd.Categorical(np.array(["Rome", "Oslo", "Bonn"])[CLASSES])
    boosting = gpuboost.HistGradientBoostingClassifier(max_iter=5).fit(frame, CLASSES)
    for model in (boosting, gpuboost.BaggingRegressor(**FEW).fit(frame, Y)):
        found = shap.Explainer(model)(frame)
        assert found.feature_names == [*"abcdef", "town"]
        assert np.array_equal(found.values, model.shap_values(frame))
        against = shap.Explainer(model, frame[:300])
        assert len(against.data) == 100  # shap's sample
        wanted = model.shap_values(frame[:5], background=against.data)
        assert np.array_equal(against.shap_values(frame[:5]), wanted)
    explainer = pickle.loads(pickle.dumps(shap.TreeExplainer(boosting)))
    assert np.array_equal(explainer.shap_values(frame[:3]), boosting.shap_values(frame[:3]))

    ada = gpuboost.AdaBoostClassifier(**FEW).fit(X, CLASSES)
    assert shap.TreeExplainer(ada)(X[:5]).shape == (5, 6, 3)
    one = shap.TreeExplainer(ada).shap_values(X[0])
    assert np.array_equal(one, ada.shap_values(X[:1])[0])
    median = gpuboost.AdaBoostRegressor(**FEW).fit(X, Y)
    found = shap.Explainer(median, X[:20])(X[:3])  # by predictions, as there are no exact values
    assert np.abs(found.values.sum(axis=1) + found.base_values - median.predict(X[:3])).max() < 1e-9
    with pytest.raises(ValueError, match="weighted median"):
        shap.TreeExplainer(median)


def test_shap_explainers_join_several_outputs_of_classes():
    model = gpuboost.RandomForestClassifier(**FEW).fit(X, np.stack([CLASSES, Y > 0], axis=1))
    values, expected = model.shap_values(X[:5]), model.shap_expected_value()
    explainer = shap.TreeExplainer(model)
    found = explainer(X[:5])
    assert np.array_equal(found.values, np.concatenate(values, axis=2))
    assert np.array_equal(found.base_values[0], np.concatenate(expected))
    assert found.output_names == ["0: 0", "0: 1", "0: 2", "1: 0", "1: 1"]
    assert np.array_equal(explainer.shap_values(X[0]), found.values[0])
    forest = gpuboost.ExtraTreesClassifier(**FEW).fit(X, CLASSES)
    assert shap.TreeExplainer(forest)(X[:2]).output_names == ["0", "1", "2"]


def test_models_without_exact_values_are_explained_by_their_predictions():
    from sklearn.linear_model import LogisticRegression

    init = gpuboost.DecisionTreeClassifier(max_depth=1)
    labels = np.where(CLASSES > 0, "yes", "no")
    boosting = gpuboost.GradientBoostingClassifier(**FEW, init=init).fit(X, labels)
    bagging = gpuboost.BaggingClassifier(LogisticRegression(), n_estimators=2).fit(X, labels)
    for model in (boosting, bagging):
        found = shap.Explainer(model, X[:20])(X[:2])
        total = found.values.sum(axis=1) + found.base_values
        assert np.abs(total - model.predict_proba(X[:2])).max() < 1e-9
    with pytest.raises(NotFittedError):
        shap.Explainer(gpuboost.RandomForestRegressor(), X)


def test_imported_models_have_explainers_and_background():
    xgboost = pytest.importorskip("xgboost")
    model = gpuboost.from_xgboost(xgboost.XGBRegressor(n_estimators=4).fit(X, Y))
    explainer = shap.TreeExplainer(model, X[:9])
    found = explainer(X[:5])
    assert close(found.values.sum(axis=1) + found.base_values, model.predict(X[:5]), 1e-5)
    with pytest.raises(TypeError, match=r"background: .* predicts on dense arrays"):
        model.shap_values(X[:5], background=gpuboost.Dataset(X))


def test_shap_explainers_refuse_what_they_do_not_have():
    forest = gpuboost.RandomForestClassifier(**FEW).fit(X, CLASSES)
    boosting = gpuboost.GradientBoostingClassifier(**FEW).fit(X, CLASSES)
    assert shap.TreeExplainer(forest, model_output="probability").shap_values(X).shape == (
        600,
        6,
        3,
    )
    with pytest.raises(
        ValueError, match="model_output='probability' is not available for Gradient"
    ):
        shap.TreeExplainer(boosting, model_output="probability")
    with pytest.raises(ValueError, match="needs background rows"):
        shap.TreeExplainer(forest, feature_perturbation="interventional")
    with pytest.raises(ValueError, match="allowed are 'auto'"):
        shap.TreeExplainer(forest, feature_perturbation="observational")
    with pytest.raises(ValueError, match="approximate"):
        shap.TreeExplainer(forest).shap_values(X, approximate=True)
    with pytest.raises(ValueError, match="interaction values are path-dependent"):
        shap.TreeExplainer(forest, X).shap_interaction_values(X)
    with pytest.raises(ValueError, match="a link other than identity"):
        shap.Explainer(forest, X, link=shap.links.logit)
    with pytest.raises(TypeError, match="feature_pertubation"):
        shap.TreeExplainer(forest, feature_pertubation="auto")
    other = shap.TreeExplainer(forest, X, feature_perturbation="tree_path_dependent")
    assert np.array_equal(other.shap_values(X), forest.shap_values(X))


def test_other_models_are_left_to_shap():
    copy = our_models()["forest"][1]
    assert type(shap.TreeExplainer(copy)) is shap.TreeExplainer
    assert type(shap.Explainer(copy)).__module__.startswith("shap")
    assert type(shap.Explainer(copy.predict, X[:9])).__module__.startswith("shap")


@pytest.mark.parametrize("first", ["gpuboost", "shap"])
def test_either_import_can_come_first(first: str):
    second = {"gpuboost": "shap", "shap": "gpuboost"}[first]
    program = (
        f"import {first}, {second}; import numpy as np; X = np.arange(20.0).reshape(10, 2); "
        "model = gpuboost.DecisionTreeRegressor().fit(X, X[:, 0]); "
        "print(type(shap.TreeExplainer(model)).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "GpuboostExplainer"


def test_plots_of_shap_draw_our_values():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    frame = pd.DataFrame(X, columns=list("abcdef"))
    found = shap.TreeExplainer(gpuboost.RandomForestRegressor(**FEW).fit(frame, Y))(frame[:60])
    for plot in (shap.plots.beeswarm, shap.plots.bar, shap.plots.heatmap):
        plot(found, show=False)
        pyplot.close("all")
    shap.plots.waterfall(found[0], show=False)
    pyplot.close("all")
    shap.plots.scatter(found[:, 0], show=False)
    pyplot.close("all")


def test_lime_explains_our_estimators():
    tabular = pytest.importorskip("lime.lime_tabular")
    explainer = tabular.LimeTabularExplainer(X, discretize_continuous=False, random_state=0)
    model = gpuboost.RandomForestClassifier(**FEW).fit(X, CLASSES)
    found = explainer.explain_instance(X[0], model.predict_proba, num_features=6)
    assert len(found.as_list()) == 6
    regression = tabular.LimeTabularExplainer(X, mode="regression", random_state=0)
    line = gpuboost.GradientBoostingRegressor(n_estimators=100).fit(X, 3 * X[:, 4])
    weights = dict(regression.explain_instance(X[0], line.predict, num_features=6).as_map()[1])
    assert max(weights, key=lambda feature: abs(weights[feature])) == 4
