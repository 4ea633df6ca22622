"""Imported models of scikit-learn have its raw predictions, bit for bit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.ensemble as ensemble
import sklearn.tree
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression

import gpuboost
from tests.interchange.cases import assert_bits, hard_rows

N = 200
WITHOUT_MISSING = (
    *(ensemble.GradientBoostingClassifier, ensemble.GradientBoostingRegressor),
    *(ensemble.AdaBoostClassifier, ensemble.AdaBoostRegressor),
)


def estimator_of(seed: int, rng: np.random.Generator) -> Any:
    """An unfitted estimator with random parameters."""
    depth = rng.choice([1, 3, None])
    few = {"n_estimators": int(rng.integers(1, 10)), "random_state": seed}
    loss = ("squared_error", "huber", "quantile", "absolute_error")[seed % 4]
    hist = {"max_iter": few["n_estimators"], "min_samples_leaf": 3, "max_leaf_nodes": 9}
    makers = (
        lambda: sklearn.tree.DecisionTreeClassifier(max_depth=depth),
        lambda: sklearn.tree.ExtraTreeRegressor(max_depth=depth),
        lambda: ensemble.RandomForestClassifier(max_depth=depth, **few),
        lambda: ensemble.RandomForestRegressor(max_depth=depth, **few),
        lambda: ensemble.ExtraTreesClassifier(max_depth=depth, **few),
        lambda: ensemble.GradientBoostingClassifier(max_depth=2, **few),
        lambda: ensemble.GradientBoostingRegressor(max_depth=3, loss=loss, **few),
        lambda: ensemble.BaggingRegressor(max_features=0.7, **few),
        lambda: ensemble.BaggingClassifier(max_samples=0.9, **few),
        lambda: ensemble.HistGradientBoostingClassifier(**hist),
        lambda: ensemble.HistGradientBoostingRegressor(
            loss=("squared_error", "poisson", "gamma")[seed % 3], **hist
        ),
        lambda: sklearn.tree.DecisionTreeRegressor(max_depth=depth),
        lambda: ensemble.AdaBoostClassifier(
            sklearn.tree.DecisionTreeClassifier(max_depth=int(rng.integers(1, 4))), **few
        ),
        lambda: ensemble.AdaBoostRegressor(
            sklearn.tree.DecisionTreeRegressor(max_depth=int(rng.integers(1, 4))), **few
        ),
    )
    return makers[seed % len(makers)]()


def random_model(seed: int) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    estimator = estimator_of(seed, rng)
    n_features = int(rng.integers(2, 6))
    X = rng.normal(size=(N, n_features)).round(int(rng.integers(1, 8)))
    takes_missing = not isinstance(estimator, WITHOUT_MISSING)
    if takes_missing and seed % 3:
        X[rng.random(X.shape) < 0.1] = np.nan
    signal = np.nan_to_num(X[:, 0]) + 0.3 * np.nan_to_num(X[:, -1]) + rng.normal(size=N)
    y: Any = np.exp(signal)
    if isinstance(estimator, (sklearn.tree.DecisionTreeRegressor, ensemble.RandomForestRegressor)):
        y = np.column_stack([signal, y]) if seed % 2 else signal
    if "Classifier" in type(estimator).__name__:
        y = np.array(["low", "middle", "high"])[np.digitize(signal, [-0.5, 0.7])]
        y = y if seed % 2 else y == "low"
    estimator.fit(X, y)
    missing = takes_missing and seed % 3
    rows = rows_for(estimator, n_features, rng)
    return estimator, rows if missing else np.nan_to_num(rows, nan=0.25)


def rows_for(estimator: Any, n_features: int, rng: np.random.Generator) -> np.ndarray:
    imported = gpuboost.from_sklearn(estimator)
    trees = imported._model.ensemble
    sources = np.array([column.source for column in imported._model.columns.columns])
    thresholds: dict[int, Any] = {f: np.zeros(0) for f in range(n_features)}
    inner = trees.feature >= 0
    for feature in range(n_features):
        own = trees.threshold[inner][sources[trees.feature[inner]] == feature]
        thresholds[feature] = np.unique(own)
    return hard_rows(thresholds, n_features, rng, infinite=False)


def raw_of(estimator: Any, X: np.ndarray) -> np.ndarray:
    """scikit-learn's raw predictions."""
    if hasattr(estimator, "_raw_predict"):
        if isinstance(estimator, ensemble.GradientBoostingRegressor):
            return estimator.predict(X)
        return estimator._raw_predict(X.astype(np.float32) if hasattr(estimator, "init_") else X)
    if isinstance(estimator, ensemble.AdaBoostClassifier):
        return estimator.decision_function(X)
    return estimator.predict_proba(X) if hasattr(estimator, "classes_") else estimator.predict(X)


@pytest.mark.parametrize("seed", range(60))
def test_raw_predictions_are_sklearns(seed: int) -> None:
    estimator, X = random_model(seed)
    imported = gpuboost.from_sklearn(estimator)
    for device in ("numpy", "numba"):
        imported.set_params(device=device)
        assert_bits(imported.predict_raw(X), raw_of(estimator, X))
    if hasattr(estimator, "classes_"):
        wanted = estimator.predict_proba(X)
        np.testing.assert_allclose(imported.predict_proba(X), wanted, atol=1e-6)
        np.testing.assert_array_equal(imported.predict(X), estimator.predict(X))
    else:
        np.testing.assert_allclose(imported.predict(X), estimator.predict(X), rtol=1e-12)


@pytest.mark.parametrize("kind", ["strings", "numbers"])
def test_categories_of_histogram_boosting(kind: str) -> None:
    rng = np.random.default_rng(0)
    color = rng.choice(["red", "green", "blue", "grey", "pink"], N)
    number = rng.normal(size=N)
    y = (color == "red") * 2.0 + (color == "blue") + number + rng.normal(size=N) * 0.1
    hist = ensemble.HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=3)
    if kind == "strings":
        X: Any = pd.DataFrame({"x": number, "color": pd.Categorical(color)})
        X.loc[::9, "color"] = np.nan
        hist.set_params(categorical_features="from_dtype").fit(X, y)
        unseen = X.assign(color=pd.Categorical(["white"] * N))
        rows = [X, unseen]
    else:
        codes = np.unique(color, return_inverse=True)[1] * 2.5
        X = np.column_stack([number, codes])
        X[::9, 1] = np.nan
        hist.set_params(categorical_features=[1]).fit(X, y)
        rows = [X, np.column_stack([number, np.full(N, 99.0)])]
    imported = gpuboost.from_sklearn(hist)
    for own in rows:
        assert_bits(imported.predict(own), hist.predict(own))


@pytest.mark.parametrize("kind", ["tree", "forest", "extra-trees"])
def test_several_outputs_of_classes(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 3)), rng.normal(size=N)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.7])]
    both = np.column_stack([labels, np.where(X[:, 0] + y > 0.0, "yes", "no")])
    makers: dict[str, Any] = {
        "tree": lambda: sklearn.tree.DecisionTreeClassifier(max_depth=3),
        "forest": lambda: ensemble.RandomForestClassifier(5, max_depth=4),
        "extra-trees": lambda: ensemble.ExtraTreesClassifier(5, max_depth=4),
    }
    estimator = makers[kind]().fit(X, both)
    imported = gpuboost.from_sklearn(estimator)
    imported.save(tmp_path / "model.gpuboost")
    for model in (imported, gpuboost.load(tmp_path / "model.gpuboost")):
        for device in ("numpy", "numba"):
            found = model.set_params(device=device).predict_proba(X)
            for own, wanted in zip(found, estimator.predict_proba(X), strict=True):
                assert_bits(own, wanted)
        np.testing.assert_array_equal(model.predict(X), estimator.predict(X))
    assert [own.tolist() for own in model.classes_] == [own.tolist() for own in estimator.classes_]


def test_boosting_starts_from_an_imported_model() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    imported = gpuboost.from_sklearn(ensemble.RandomForestRegressor(3, max_depth=2).fit(X, y))
    with pytest.raises(TypeError, match="holds a model of scikit-learn and cannot be fitted"):
        imported.fit(X, y)
    boosting = gpuboost.GradientBoostingRegressor(n_estimators=3, init=FrozenEstimator(imported))
    boosting.fit(X, y)
    first = next(boosting.staged_predict(X)) - boosting.estimators_[0, 0].predict(X)
    np.testing.assert_allclose(first, imported.predict(X), rtol=1e-12)


def test_a_clone_has_the_model_and_its_own_parameters() -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    imported = gpuboost.from_sklearn(sklearn.tree.DecisionTreeRegressor().fit(X, X[:, 0]))
    copied = clone(imported).set_params(device="numpy")
    assert imported.device == "auto" and copied.fingerprint() == imported.fingerprint()
    np.testing.assert_array_equal(copied.predict(X), X[:, 0])


@pytest.mark.parametrize("kind", ["tree", "forest", "adaboost"])
def test_a_single_class(kind: str) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    makers: dict[str, Any] = {
        "tree": sklearn.tree.DecisionTreeClassifier,
        "forest": lambda: ensemble.RandomForestClassifier(3),
        "adaboost": lambda: ensemble.AdaBoostClassifier(n_estimators=2),
    }
    estimator = makers[kind]().fit(X, ["yes"] * 20)
    imported = gpuboost.from_sklearn(estimator)
    np.testing.assert_array_equal(imported.predict_proba(X), estimator.predict_proba(X))
    np.testing.assert_array_equal(imported.predict(X), estimator.predict(X))


class TreeOfItsRows(sklearn.tree.DecisionTreeClassifier):
    """A tree that bagging fits on some rows, not on all rows with weights."""

    def fit(self, X: Any, y: Any) -> Any:
        return super().fit(X, y)


def test_what_cannot_be_kept_is_refused() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    with pytest.raises(TypeError, match="from_sklearn takes decision trees"):
        gpuboost.from_sklearn(LinearRegression().fit(X, y))
    adaboost = ensemble.AdaBoostRegressor(LinearRegression(), n_estimators=2)
    with pytest.raises(ValueError, match=r"only AdaBoostRegressor of decision trees .* Lin"):
        gpuboost.from_sklearn(adaboost.fit(X, y))
    with pytest.raises(TypeError, match=r"of scikit-learn, got DecisionTreeRegressor"):
        gpuboost.from_sklearn(gpuboost.DecisionTreeRegressor(device="numpy").fit(X, y))
    boosting = ensemble.GradientBoostingRegressor(init=LinearRegression(), n_estimators=2)
    with pytest.raises(ValueError, match="predicts from X"):
        gpuboost.from_sklearn(boosting.fit(X, y))
    with pytest.raises(TypeError, match="IsolationForest"):
        gpuboost.from_sklearn(ensemble.IsolationForest(n_estimators=2).fit(X))
    bagging = ensemble.BaggingRegressor(LinearRegression(), n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match="of decision trees can be imported, got one of LinearReg"):
        gpuboost.from_sklearn(bagging)
    for base in (LogisticRegression(), ensemble.RandomForestClassifier(2)):
        bagging = ensemble.BaggingClassifier(base, n_estimators=2).fit(X, y > 0.0)
        message = f"only BaggingClassifier of decision trees .* got one of {type(base).__name__}$"
        with pytest.raises(ValueError, match=message):
            gpuboost.from_sklearn(bagging)
    few = ensemble.BaggingClassifier(TreeOfItsRows(), max_samples=2, random_state=0)
    with pytest.raises(ValueError, match=r"tree \d of this BaggingClassifier saw only 1 of 2 cla"):
        gpuboost.from_sklearn(few.fit(X, y > 0.0))


@pytest.mark.parametrize("seed", [2, 5, 9, 10])
def test_imported_models_are_saved_and_pickled(seed: int, tmp_path: Path) -> None:
    estimator, X = random_model(seed)
    imported = gpuboost.from_sklearn(estimator)
    imported.save(tmp_path / "model")
    for other in (gpuboost.load(tmp_path / "model"), pickle.loads(pickle.dumps(imported))):
        assert other.fingerprint() == imported.fingerprint()
        assert_bits(other.predict_raw(X), raw_of(estimator, X))
        np.testing.assert_array_equal(other.predict(X), imported.predict(X))
        assert other.source_ == "scikit-learn"


def of_two_classes(raw: float) -> Any:
    """A fitted boosting of scikit-learn with this raw prediction for all rows."""
    X, y = np.zeros((20, 1)), np.arange(20) % 2
    model = ensemble.GradientBoostingClassifier(n_estimators=1, init="zero").fit(X, y)
    model.estimators_[0, 0].tree_.value[:] = raw / model.learning_rate
    return model


@pytest.mark.parametrize("raw", [0.0, 1e-18, -1e-18])
def test_boosting_chooses_a_class_by_the_raw_prediction(raw: float, tmp_path: Path) -> None:
    X, source = np.zeros((5, 1)), of_two_classes(raw)
    gpuboost.from_sklearn(source).save(tmp_path / "model")
    imported = gpuboost.load(tmp_path / "model")
    assert imported.predict_raw(X)[0] == raw
    np.testing.assert_array_equal(imported.predict(X), source.predict(X))
    assert imported.fingerprint() == gpuboost.from_sklearn(source).fingerprint()


@pytest.mark.parametrize("raw", [0.0, 1e-18, -1e-18])
def test_histogram_boosting_chooses_a_class_by_the_raw_prediction(raw: float) -> None:
    X, y = np.zeros((40, 1)), np.arange(40) % 2
    source = ensemble.HistGradientBoostingClassifier(max_iter=1).fit(X, y)
    source._baseline_prediction[:] = raw
    imported = gpuboost.from_sklearn(source)
    assert imported.predict_raw(X)[0] == raw
    np.testing.assert_array_equal(imported.predict(X), source.predict(X))


def test_classes_whose_probabilities_are_equal() -> None:
    """Raw predictions of three classes whose differences the softmax loses."""
    X, y = np.arange(30.0)[:, None], np.arange(30) % 3
    source = ensemble.GradientBoostingClassifier(n_estimators=1, init="zero").fit(X, y)
    for k, tree in enumerate(source.estimators_[0]):
        tree.tree_.value[:] = k * 1e-17
    np.testing.assert_array_equal(gpuboost.from_sklearn(source).predict(X), source.predict(X))
    assert source.predict(X)[0] == 2
