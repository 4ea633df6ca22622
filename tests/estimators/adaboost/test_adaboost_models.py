"""AdaBoost: fitted models, equal models on every device, scikit-learn's models, parameters."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import sklearn.ensemble
import sklearn.tree
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_wine,
    make_friedman1,
    make_hastie_10_2,
)
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, train_test_split

import gpuboost
from gpuboost import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
)
from gpuboost.engine.ensembles.traversal import leaves_of_codes
from tests import cuda_shim
from tests.estimators.adaboost.adaboost_cases import QUICK, binary, with_missing_values
from tests.estimators.device_cases import table
from tests.estimators.estimator_cases import frame_of, make

# ---- a fitted model ----------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_stages_of_a_classifier(load):
    X, y = load(return_X_y=True)
    model = AdaBoostClassifier(n_estimators=9, criterion="gini", **QUICK).fit(X, y)
    decisions = list(model.staged_decision_function(X))
    shares, found = list(model.staged_predict_proba(X)), list(model.staged_predict(X))
    scores = list(model.staged_score(X, y))
    assert len(decisions) == len(shares) == len(found) == len(scores) == 9
    for t in range(9):
        few = clone(model).set_params(n_estimators=t + 1).fit(X, y)
        np.testing.assert_allclose(decisions[t], few.decision_function(X), atol=1e-12)
        np.testing.assert_allclose(shares[t], few.predict_proba(X), atol=1e-12)
        np.testing.assert_array_equal(found[t], few.predict(X))
        assert scores[t] == few.score(X, y)
        np.testing.assert_array_equal(few.estimator_weights_, model.estimator_weights_[: t + 1])
    weights = np.random.default_rng(0).random(len(y))
    assert list(model.staged_score(X, y, weights))[-1] == model.score(X, y, weights)


def test_stages_of_a_regressor():
    X, y = load_diabetes(return_X_y=True)
    model = AdaBoostRegressor(n_estimators=6, **QUICK).fit(X, y)
    for t, (found, score) in enumerate(
        zip(model.staged_predict(X), model.staged_score(X, y), strict=True)
    ):
        few = clone(model).set_params(n_estimators=t + 1).fit(X, y)
        np.testing.assert_array_equal(found, few.predict(X))
        assert score == few.score(X, y)
    assert t == 5


def test_medians_do_not_depend_on_the_rows_at_a_time(monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    model = AdaBoostRegressor(n_estimators=7, **QUICK).fit(X, y)
    expected = model.predict(X)
    monkeypatch.setattr("gpuboost.estimators.adaboost.estimators.LEAVES_AT_A_TIME", 50)
    np.testing.assert_array_equal(model.predict(X), expected)


def test_importances_are_weighted_by_the_trees():
    X, y = load_wine(return_X_y=True)
    model = AdaBoostClassifier(n_estimators=10, max_depth=2, criterion="gini", **QUICK).fit(X, y)
    each = np.array([tree.feature_importances_ for tree in model.estimators_])
    expected = model.estimator_weights_ @ each / model.estimator_weights_.sum()
    np.testing.assert_allclose(model.feature_importances_, expected)
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_predictions_are_labels_of_any_type():
    X, y, _ = binary(200, 6)
    names = np.array(["no", "yes"])[y]
    model = AdaBoostClassifier(n_estimators=8, **QUICK).fit(X, names)
    plain = AdaBoostClassifier(n_estimators=8, **QUICK).fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"] and model.fingerprint() == plain.fingerprint()
    np.testing.assert_array_equal(model.predict(X), np.array(["no", "yes"])[plain.predict(X)])
    np.testing.assert_array_equal(list(model.staged_predict(X))[-1], model.predict(X))


def test_a_single_class_is_always_predicted():
    X = np.arange(12.0).reshape(6, 2)
    model = AdaBoostClassifier(**QUICK).fit(X, np.full(6, 7))
    assert len(model.estimators_) == 1 and (model.predict(X) == 7).all()
    assert model.predict_proba(X).tolist() == [[1.0]] * 6
    assert model.decision_function(X).tolist() == [[0.0]] * 6


def test_the_fingerprint_depends_on_the_votes():
    X, y, _ = binary(200, 7)
    model = AdaBoostClassifier(n_estimators=4, **QUICK).fit(X, y)
    before = model.fingerprint()
    model._model.tree_votes[2] *= 1.5
    assert model.fingerprint() != before


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("max_depth", [1, 2, None])
def test_leaves_of_codes_are_those_of_apply(seed, max_depth):
    X, y = with_missing_values(seed)
    data = gpuboost.Dataset(X, categorical_features=[1])
    tree = ExtraTreeClassifier(max_depth=max_depth, device="numpy", random_state=seed).fit(data, y)
    found = leaves_of_codes(tree._ensemble.trees[0], data.binned)
    np.testing.assert_array_equal(found, tree.apply(data))
    root = DecisionTreeClassifier(device="numpy").fit(data, np.zeros(len(y)))._ensemble.trees[0]
    assert not leaves_of_codes(root, data.binned).any()


# ---- one model on every device -----------------------------------------------------------------

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("Classifier", {"criterion": "gini", "max_depth": 3}),
    ("Classifier", {"criterion": "entropy", "learning_rate": 0.5}),
    ("Classifier", {"boosting": "resampling", "max_depth": 2}),
    ("Classifier", {"categorical_features": [1]}),
    ("Classifier", {"estimator": ExtraTreeClassifier(max_depth=4, class_weight="balanced")}),
    ("Regressor", {"loss": "exponential"}),
    ("Regressor", {"boosting": "reweighting", "loss": "square", "categorical_features": [1]}),
    ("Regressor", {"estimator": DecisionTreeRegressor(max_leaf_nodes=7, max_features=2)}),
]


@pytest.mark.parametrize(("kind", "options"), OPTIONS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_one_model_on_every_device(kind, options, weighted):
    X, y = with_missing_values(1)
    if kind == "Regressor":
        y = y + np.nan_to_num(X[:, 2])
    weights = np.random.default_rng(2).exponential(size=len(y)) if weighted else None
    models = [
        getattr(gpuboost, f"AdaBoost{kind}")(
            n_estimators=20, random_state=4, device=device, n_jobs=n_jobs, **options
        ).fit(X, y, weights)
        for device, n_jobs in (("numpy", 1), ("numba", 1), ("numba", 2))
    ]
    assert len({model.fingerprint() for model in models}) == 1
    assert len(models[0].estimators_) > 5
    for model in models[1:]:
        np.testing.assert_array_equal(model.estimator_errors_, models[0].estimator_errors_)
        np.testing.assert_array_equal(model.predict(X), models[0].predict(X))


def test_a_hundred_rounds_on_every_device():
    X, y = load_breast_cancer(return_X_y=True)
    models = [
        AdaBoostClassifier(n_estimators=100, device=device, random_state=1).fit(X, y)
        for device in ("numpy", "numba")
    ]
    assert models[0].fingerprint() == models[1].fingerprint()
    np.testing.assert_array_equal(models[0].training_error_bound_, models[1].training_error_bound_)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_tables_with_categories(kind):
    frame, y = frame_of(kind)
    model = AdaBoostClassifier(n_estimators=20, max_depth=3, criterion="gini", **QUICK)
    assert model.fit(frame, y).score(frame, y) > 0.9
    assert AdaBoostRegressor(n_estimators=20, **QUICK).fit(frame, y).score(frame, y) > 0.9


# ---- scikit-learn ------------------------------------------------------------------------------


def test_with_exact_bins_rounds_are_those_of_scikit_learn():
    rng = np.random.default_rng(3)
    X = rng.integers(60, size=(400, 4)).astype(float)
    y = (X[:, 0] + 0.5 * X[:, 1] + 12 * rng.normal(size=400) > 45).astype(int)
    weights = rng.uniform(0.5, 1.5, size=400)
    ours = AdaBoostClassifier(n_estimators=12, criterion="gini", **QUICK).fit(X, y, weights)
    other = sklearn.ensemble.AdaBoostClassifier(n_estimators=12).fit(X, y, weights)
    np.testing.assert_allclose(ours.estimator_errors_, other.estimator_errors_, rtol=1e-9)
    np.testing.assert_allclose(ours.estimator_weights_, other.estimator_weights_, rtol=1e-9)
    np.testing.assert_allclose(ours.decision_function(X), other.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(ours.feature_importances_, other.feature_importances_, atol=1e-6)
    np.testing.assert_allclose(list(ours.staged_score(X, y)), list(other.staged_score(X, y)))


def test_several_classes_vote_as_in_scikit_learn():
    rng = np.random.default_rng(4)
    X = rng.integers(50, size=(400, 4)).astype(float)
    y = np.digitize(X[:, 0] + 0.4 * X[:, 1] + 6 * rng.normal(size=400), [25, 45])
    weights = rng.uniform(0.5, 1.5, size=400)
    shared = {"n_estimators": 6, "learning_rate": 0.7}
    ours = AdaBoostClassifier(max_depth=2, criterion="gini", **shared, **QUICK).fit(X, y, weights)
    base = sklearn.tree.DecisionTreeClassifier(max_depth=2)
    other = sklearn.ensemble.AdaBoostClassifier(base, **shared).fit(X, y, weights)
    np.testing.assert_allclose(ours.estimator_weights_, other.estimator_weights_, rtol=1e-9)
    np.testing.assert_allclose(ours.decision_function(X), other.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(X), atol=1e-9)


def paired_differences(ours: Any, other: Any, X: np.ndarray, y: np.ndarray, n: int) -> np.ndarray:
    """Scores minus scikit-learn's scores on the same splits."""
    found = []
    for seed in range(n):
        train, test, y_train, y_test = train_test_split(X, y, random_state=seed)
        pair = [clone(m).set_params(random_state=seed).fit(train, y_train) for m in (ours, other)]
        found.append(pair[0].score(test, y_test) - pair[1].score(test, y_test))
    return np.array(found)


@pytest.mark.parametrize("criterion", ["misclassification", "gini"])
def test_as_accurate_as_scikit_learn(criterion):
    X, y = make_hastie_10_2(1500, random_state=0)
    ours = AdaBoostClassifier(n_estimators=60, criterion=criterion, device="numba")
    other = sklearn.ensemble.AdaBoostClassifier(n_estimators=60)
    found = paired_differences(ours, other, X, y, 6)
    slack = {"gini": 0.004, "misclassification": 0.03}[criterion]
    assert found.mean() > -slack - 2 * found.std() / len(found) ** 0.5, found


def test_regression_is_as_accurate_as_scikit_learn():
    X, y = make_friedman1(700, noise=1.0, random_state=0)
    ours = AdaBoostRegressor(device="numba", n_estimators=30)
    other = sklearn.ensemble.AdaBoostRegressor(n_estimators=30)
    found = paired_differences(ours, other, X, y, 6)
    assert found.mean() > -0.006 - 2 * found.std() / len(found) ** 0.5, found


def test_rare_classes_are_found():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 5))
    y = (X[:, 0] + X[:, 1] > 2.4).astype(int)
    assert y.mean() < 0.06
    model = AdaBoostClassifier(n_estimators=60, **QUICK).fit(X[:2000], y[:2000])
    found = model.predict(X[2000:])
    rare = y[2000:] == 1
    assert accuracy_score(y[2000:][rare], found[rare]) > 0.6 and np.mean(found != y[2000:]) < 0.03


# ---- base learners and parameters --------------------------------------------------------------


def test_max_depth_and_criterion_are_those_of_the_estimator():
    X, y, weights = binary(200, 8)
    short = AdaBoostClassifier(max_depth=2, criterion="gini", n_estimators=5, **QUICK)
    base = DecisionTreeClassifier(max_depth=2)
    for estimator in (base, sklearn.tree.DecisionTreeClassifier(max_depth=2, random_state=8)):
        model = AdaBoostClassifier(estimator, n_estimators=5, **QUICK).fit(X, y, weights)
        assert model.fingerprint() == short.fit(X, y, weights).fingerprint()
        assert isinstance(model.estimator_, DecisionTreeClassifier)
    extra = AdaBoostClassifier(ExtraTreeClassifier(max_depth=2), n_estimators=5, **QUICK)
    theirs = clone(extra).set_params(estimator=sklearn.tree.ExtraTreeClassifier(max_depth=2))
    assert extra.fit(X, y).fingerprint() == theirs.fit(X, y).fingerprint()
    assert isinstance(theirs.estimators_[0], ExtraTreeClassifier)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"estimator": sklearn.tree.DecisionTreeRegressor()}, TypeError, "DecisionTreeClassifier"),
        ({"estimator": DecisionTreeRegressor()}, TypeError, "DecisionTreeClassifier or Extra"),
        ({"estimator": "stump"}, TypeError, "or an estimator that is no tree, got 'stump'"),
        ({"estimator": DecisionTreeClassifier(device="numba")}, ValueError, "pass it to AdaBoost"),
        ({"estimator": DecisionTreeClassifier(), "max_depth": 3}, ValueError, "max_depth=3 was"),
        ({"estimator": DecisionTreeClassifier(), "criterion": "gini"}, ValueError, "criterion="),
        ({"n_estimators": 0}, ValueError, "n_estimators must be an integer of at least 1"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate must be a number > 0"),
        ({"learning_rate": "fast"}, TypeError, "learning_rate must be a number > 0"),
        ({"boosting": "weights"}, ValueError, "boosting must be one of 'reweighting', 'resam"),
        ({"criterion": "squared_error"}, ValueError, "criterion must be one of"),
        ({"max_depth": 0}, ValueError, "max_depth must be an integer of at least 1"),
    ],
    ids=str,
)
def test_wrong_parameters_of_a_classifier(options, error, message):
    X, y, _ = binary(60, 9)
    with pytest.raises(error, match=message):
        AdaBoostClassifier(**QUICK).set_params(**options).fit(X, y)


def test_wrong_parameters_and_targets_of_a_regressor():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match="loss must be one of 'linear', 'square', 'exponential'"):
        AdaBoostRegressor(loss="huber", **QUICK).fit(X, y)
    with pytest.raises(ValueError, match=r"shape \(442, 2\).*MultiOutputRegressor"):
        AdaBoostRegressor(**QUICK).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="criterion must be one of"):
        base = sklearn.tree.DecisionTreeRegressor(criterion="mae")
        AdaBoostRegressor(base, **QUICK).fit(X, y)


def test_a_search_over_parameters_of_the_trees():
    X, y = load_breast_cancer(return_X_y=True)
    model = AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=3, **QUICK)
    search = GridSearchCV(model, {"estimator__max_depth": [1, 2], "learning_rate": [0.5]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.9
    assert search.best_params_["learning_rate"] == 0.5


def test_estimated_memory_does_not_grow_with_the_rounds():
    sizes = [
        gpuboost.estimate_memory(
            AdaBoostClassifier(n_estimators=n), 10**6, 28, memory_budget=4 * 2**30
        )
        for n in (1, 50)
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
@pytest.mark.parametrize("kind", ["counts", "real"])
@pytest.mark.parametrize("name", ["AdaBoostClassifier", "AdaBoostRegressor"])
def test_targets_and_weights_on_the_device(name, kind, machine):
    cupy = sys.modules["cupy"]
    X, y = table(name, 60)
    rng = np.random.default_rng(0)
    weights = rng.integers(4, size=60).astype(float) if kind == "counts" else rng.random(60)
    model = make(name, n_estimators=3, boosting="reweighting", device="cuda")
    given = [cupy.asarray(each) for each in (X, y, weights)]
    expected = clone(model).set_params(device="numpy").fit(X, y, weights).fingerprint()
    assert model.fit(*given).fingerprint() == expected
