"""Importances: out-of-bag permutation beside a naive version, gains and counts, selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFECV, SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression

import gpuboost
from gpuboost.backends.cost_model import WorkTimes
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.backends.prediction_cost import prediction_work
from gpuboost.backends.select import choose_backend
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.randomness import PERMUTE_ROWS, hash_index, stream_key
from gpuboost.estimators.fitting import base
from gpuboost.explain import feature_importances
from tests.estimators.estimator_cases import NAMES, data_for, make

SAMPLED = [name for name in NAMES if "Bagging" in name or "Forest" in name or "Trees" in name]


def few_informative(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Ten features, of which the first two decide."""
    if name.endswith("Classifier"):
        shape = {"n_samples": 240, "n_features": 10, "n_redundant": 0, "n_clusters_per_class": 1}
        return make_classification(**shape, n_informative=2, shuffle=False, random_state=0)
    X, _ = make_regression(240, 10, random_state=0)
    return X, 3.0 * X[:, 0] + 2.0 * X[:, 1] + 0.1 * X[:, 2:].sum(axis=1)


# ---- permutation of out-of-bag rows --------------------------------------------------------------


def naive_importances(model: Any, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Increase of each tree's mean loss when a feature of its out-of-bag rows is permuted."""
    found = np.full((X.shape[1], len(model.estimators_)), np.nan)
    seed = model._model.batches[0].sampler.seed
    features_of = getattr(model, "estimators_features_", [np.arange(X.shape[1])] * found.shape[1])
    columns = y.reshape(len(y), -1)

    def loss(tree: Any, rows: np.ndarray, values: np.ndarray, own: np.ndarray) -> float:
        predicted = tree.predict(values[:, own]).reshape(len(rows), -1)
        if hasattr(model, "classes_"):
            classes = model.classes_ if columns.shape[1] > 1 else [model.classes_]
            names = [c[codes.astype(int)] for c, codes in zip(classes, predicted.T, strict=True)]
            losses = (np.stack(names, axis=1) != columns[rows]).mean(axis=1)
        else:
            losses = ((predicted - columns[rows]) ** 2).mean(axis=1)
        return float(np.average(losses, weights=weights[rows]))

    for number, (tree, drawn) in enumerate(
        zip(model.estimators_, model.estimators_samples_, strict=True)
    ):
        rows = np.setdiff1d(np.arange(len(X)), drawn)
        rows = rows[weights[rows] > 0]
        own = features_of[number]
        before = loss(tree, rows, X[rows], own)
        for feature in range(X.shape[1]):
            key = hash_index(stream_key(seed, PERMUTE_ROWS, number), np.array([feature], np.uint64))
            order = np.argsort(hash_index(key, rows.astype(np.uint64)))
            values = X[rows].copy()
            values[:, feature] = values[order, feature]
            found[feature, number] = loss(tree, rows, values, own) - before
    return found


@pytest.mark.parametrize("name", SAMPLED)
def test_beside_a_naive_version(name: str) -> None:
    X, y = few_informative(name)
    X, rng = X.copy(), np.random.default_rng(2)
    X[rng.random(X.shape) < 0.05] = np.nan
    model = make(name, bootstrap=True)
    if "Bagging" in name:
        model.set_params(max_features=0.6)
    model.fit(X, y)
    weights = rng.integers(0, 3, len(y)).astype(float)
    for given in (np.ones(len(y)), weights):
        found = model.oob_permutation_importance(X, y, given)
        expected = naive_importances(model, X, y, given)
        np.testing.assert_allclose(found.importances, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.importances_mean, expected.mean(axis=1), atol=1e-12)
        np.testing.assert_allclose(found.importances_std, expected.std(axis=1), atol=1e-12)


def test_features_of_noise_have_no_importance() -> None:
    X, y = few_informative("RandomForestRegressor")
    y = y + np.random.default_rng(2).normal(size=len(y))
    model = make("RandomForestRegressor", n_estimators=30).fit(X, y)
    found = model.oob_permutation_importance(X, y)
    errors = found.importances_std / np.sqrt(30)
    assert (found.importances_mean[:2] > 10 * errors[:2]).all()
    assert (np.abs(found.importances_mean[2:]) < 0.05 * found.importances_mean[1]).all()
    stump = make("RandomForestRegressor", max_depth=1, max_features=None).fit(X, y)
    unused = feature_importances(stump, "count") == 0.0
    assert unused.any() and not stump.oob_permutation_importance(X, y).importances[unused].any()


def test_several_outputs() -> None:
    X, y = few_informative("RandomForestRegressor")
    for name, targets in (
        ("RandomForestRegressor", np.stack([y, -y], axis=1)),
        ("RandomForestClassifier", np.stack([y > 0, y > 9, y < -9], axis=1).astype(int)),
    ):
        model = make(name).fit(X, targets)
        found = model.oob_permutation_importance(X, targets).importances
        expected = naive_importances(model, X, targets, np.ones(len(X)))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_devices_and_kinds_of_data_give_the_same_importances() -> None:
    X, y = few_informative("RandomForestClassifier")
    X = np.round(8.0 * np.where(np.abs(X) < 0.4, 0.0, X)) / 8.0
    model = make("RandomForestClassifier").fit(X, y)
    expected = model.oob_permutation_importance(X, y).importances
    for device in ("numba", "numpy"):
        model.set_params(device=device)
        for given in (X, X.astype(np.float32), csr_matrix(X), gpuboost.Dataset(X)):
            found = model.oob_permutation_importance(given, y).importances
            np.testing.assert_array_equal(found, expected)
    sparse = gpuboost.Dataset(csr_matrix(X))
    np.testing.assert_array_equal(model.oob_permutation_importance(sparse, y).importances, expected)


def test_categories_of_a_frame() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    color = rng.choice(["red", "green", "blue", "grey", "pink", "black"], 200)
    frame = pd.DataFrame({"color": pd.Categorical(color), "size": rng.normal(size=200)})
    y = np.isin(color, ["red", "blue", "black"]).astype(str)
    model = make("RandomForestClassifier", max_features=None).fit(frame, y)
    found = model.oob_permutation_importance(frame, y)
    assert found.importances_mean[0] > 0.3 and found.importances_mean[1] == 0.0


def test_trees_without_out_of_bag_rows() -> None:
    X, y = few_informative("RandomForestRegressor")
    model = make("RandomForestRegressor", n_estimators=2, bootstrap=False, warm_start=True)
    with pytest.raises(ValueError, match="no tree of this RandomForestRegressor has out-of-bag"):
        model.fit(X, y).oob_permutation_importance(X, y)
    model.set_params(n_estimators=5, bootstrap=True).fit(X, y)
    found = model.oob_permutation_importance(X, y)
    assert np.isnan(found.importances).all(axis=0).tolist() == [True] * 2 + [False] * 3
    np.testing.assert_array_equal(found.importances_mean, found.importances[:, 2:].mean(axis=1))
    with pytest.raises(ValueError, match=r"X has 7 rows, but trees were grown on 240.*pass these"):
        model.oob_permutation_importance(X[:7], y[:7])
    with pytest.raises(NotFittedError):
        make("RandomForestRegressor").oob_permutation_importance(X, y)


def test_only_rows_below_a_split_are_predicted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature 0 decides; features 1 and 2 matter on one side of it each."""
    X = np.random.default_rng(0).choice([-1.0, 1.0], (200, 3))
    y = 9.0 * X[:, 0] + np.where(X[:, 0] > 0, X[:, 1], X[:, 2])
    model = make("RandomForestRegressor", max_features=None, device="numpy").fit(X, y)
    log: list[int] = []
    apply = NumpyBackend.apply

    def counted(self: Any, ensemble: Any, values: np.ndarray, n_threads: int) -> np.ndarray:
        log.append(len(values))
        return apply(self, ensemble, values, n_threads)

    monkeypatch.setattr(NumpyBackend, "apply", counted)
    found = model.oob_permutation_importance(X, y)
    every = np.arange(len(X))
    out = [X[np.setdiff1d(every, rows)] for rows in model.estimators_samples_]
    expected = [(len(own), len(own), *(own[:, 0] > 0).nonzero()[0].shape) for own in out]
    assert log == [n for a, b, right in expected for n in (a, b, right, a - right)]
    np.testing.assert_allclose(found.importances, naive_importances(model, X, y, np.ones(200)))


def test_the_device_is_chosen_for_all_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = few_informative("RandomForestRegressor")
    model = make("RandomForestRegressor", max_depth=3).fit(X, y)
    works: list[WorkTimes] = []

    def chosen(device: Any, work: WorkTimes) -> Any:
        works.append(work)
        return choose_backend(device, work)

    monkeypatch.setattr(base, "choose_backend", chosen)
    model.oob_permutation_importance(X, y)
    n_passes = sum(1 + len(set(tree.tree_.feature) - {-2}) for tree in model.estimators_)
    assert n_passes > 10
    row_bytes = X.shape[1] * X.itemsize
    one = prediction_work(len(X), row_bytes, Ensemble.of((model._ensemble.trees[0],)))
    assert [works[0].numpy, works[0].numba, works[0].cuda] == [
        n_passes * each for each in (one.numpy, one.numba, one.cuda)
    ]


# ---- gains and counts ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_gains_and_counts(name: str) -> None:
    X, y = data_for(name)
    model = make(name).fit(X, y)
    gains = feature_importances(model)
    np.testing.assert_array_equal(gains, model.feature_importances_)
    own = getattr(model, "_boosting", model)
    features = own._ensemble.feature[own._ensemble.feature >= 0]
    counts = [(features == feature).sum() / len(features) for feature in range(X.shape[1])]
    np.testing.assert_allclose(feature_importances(model, "count"), counts, rtol=1e-15)
    if hasattr(own, "importance_type"):
        own.set_params(importance_type="count")
        np.testing.assert_array_equal(
            feature_importances(model, "count"), model.feature_importances_
        )
        np.testing.assert_array_equal(feature_importances(model), gains)


def test_importances_of_other_models() -> None:
    X, y = data_for("RandomForestRegressor")
    forest = make("RandomForestRegressor").fit(X, y)
    imported = gpuboost.from_sklearn(forest.to_sklearn())
    np.testing.assert_allclose(
        feature_importances(imported, "count"), feature_importances(forest, "count")
    )
    np.testing.assert_array_equal(feature_importances(imported), imported.feature_importances_)
    with pytest.raises(ValueError, match=r"kind must be.*'gain'.*'count'.*'cover'"):
        feature_importances(forest, "cover")
    with pytest.raises(TypeError, match="takes a model of gpuboost's trees, got Linear"):
        feature_importances(LinearRegression().fit(X, y))
    with pytest.raises(NotFittedError):
        feature_importances(make("RandomForestRegressor"))
    with pytest.raises(NotFittedError):
        _ = make("HistGradientBoostingRegressor").feature_importances_


# ---- scikit-learn's selection of features --------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_selection_finds_the_features_that_decide(name: str) -> None:
    X, y = few_informative(name)
    model = make(name)
    if hasattr(model, "min_samples_leaf"):
        model.set_params(min_samples_leaf=5)
    if hasattr(model, "max_features") and "Bagging" not in name:
        model.set_params(max_features=1.0)
    selected = SelectFromModel(model, max_features=2, threshold=-np.inf).fit(X, y)
    assert selected.get_support(indices=True).tolist() == [0, 1]
    by_counts = SelectFromModel(
        model, importance_getter=lambda own: feature_importances(own, "count")
    )
    assert by_counts.fit(X, y).transform(X).shape[1] < 10
    eliminated = RFECV(model, step=4, cv=2, min_features_to_select=2).fit(X, y)
    assert eliminated.support_[:2].all()
    assert sorted(eliminated.cv_results_["n_features"]) == [2, 6, 10]
    found = permutation_importance(model.fit(X, y), X, y, n_repeats=2, random_state=0)
    assert set(found.importances_mean.argsort()[-2:]) == {0, 1}
