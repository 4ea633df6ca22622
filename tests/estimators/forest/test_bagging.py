"""Bagging, pasting, random subspaces and random patches."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.ensemble
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import cross_val_score

from gpuboost import (
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    RandomForestClassifier,
)

SMALL = {"device": "numpy", "n_estimators": 12, "random_state": 0}
X, Y = load_breast_cancer(return_X_y=True)
X_VALUES, Y_VALUES = load_diabetes(return_X_y=True)


def test_scores_are_like_those_of_scikit_learn():
    params = {"n_estimators": 40, "random_state": 0, "max_samples": 0.7, "max_features": 0.6}
    for ours, theirs, data, slack in (
        (BaggingClassifier, sklearn.ensemble.BaggingClassifier, (X, Y), 0.015),
        (BaggingRegressor, sklearn.ensemble.BaggingRegressor, (X_VALUES, Y_VALUES), 0.03),
    ):
        a = cross_val_score(ours(device="numpy", **params), *data).mean()
        b = cross_val_score(theirs(**params), *data).mean()
        assert a > b - slack


def test_bagging_of_plain_trees_is_a_forest_with_all_features():
    forest = RandomForestClassifier(max_features=None, **SMALL).fit(X, Y)
    assert BaggingClassifier(**SMALL).fit(X, Y).fingerprint() == forest.fingerprint()


def test_parameters_of_the_base_tree_are_used():
    base = ExtraTreeClassifier(max_depth=3, min_samples_leaf=5, criterion="entropy")
    model = BaggingClassifier(base, 7, device="numpy", random_state=0).fit(X, Y)
    assert len(model) == 7 and isinstance(model.estimator_, ExtraTreeClassifier)
    for tree in model:
        assert tree.get_params()["criterion"] == "entropy" and tree.get_depth() <= 3
        assert tree.tree_.n_node_samples.min() >= 5
    assert (
        base.get_params()
        == ExtraTreeClassifier(max_depth=3, min_samples_leaf=5, criterion="entropy").get_params()
    )


def test_pasting_draws_without_replacement():
    model = BaggingClassifier(bootstrap=False, max_samples=100, **SMALL).fit(X, Y)
    for rows in model.estimators_samples_:
        assert len(rows) == len(np.unique(rows)) == 100
    assert len({tuple(rows) for rows in model.estimators_samples_}) == 12


def test_without_drawing_every_tree_sees_all_rows():
    model = BaggingRegressor(bootstrap=False, **SMALL).fit(X_VALUES, Y_VALUES)
    for rows in model.estimators_samples_:
        np.testing.assert_array_equal(rows, np.arange(len(Y_VALUES)))
    assert model.score(X_VALUES, Y_VALUES) == 1.0


@pytest.mark.parametrize("repeated", [False, True])
def test_random_subspaces(repeated):
    model = BaggingClassifier(
        bootstrap=False, max_features=9, bootstrap_features=repeated, **SMALL
    ).fit(X, Y)
    subspaces = model.estimators_features_
    assert {len(features) for features in subspaces} == {9}
    assert all((np.diff(features) >= (0 if repeated else 1)).all() for features in subspaces)
    assert len({tuple(features) for features in subspaces}) == 12
    distinct = {len(np.unique(features)) for features in subspaces}
    assert (distinct == {9}) != repeated
    used = [model._model.ensemble.trees[t].feature for t in range(12)]
    for features, tree in zip(subspaces, used, strict=True):
        assert set(tree[tree >= 0]) <= set(features)


def test_trees_of_a_subspace_take_only_their_own_features():
    """As in scikit-learn, each tree of `estimators_` predicts on ``X[:, features]``."""
    model = BaggingClassifier(max_features=0.4, max_samples=0.5, **SMALL).fit(X, Y)
    mean = np.mean(
        [
            tree.predict_proba(X[:, features])
            for tree, features in zip(model, model.estimators_features_, strict=True)
        ],
        axis=0,
    )
    np.testing.assert_allclose(model.predict_proba(X), mean, atol=1e-15, rtol=0)
    assert {tree.n_features_in_ for tree in model} == {12}


def test_all_features_by_default():
    model = BaggingClassifier(**SMALL).fit(X, Y)
    for features in model.estimators_features_:
        np.testing.assert_array_equal(features, np.arange(X.shape[1]))


def test_out_of_bag_of_random_patches():
    model = BaggingClassifier(n_estimators=60, max_features=0.5, oob_score=True, device="numpy")
    model.fit(X, Y)
    votes = np.zeros((len(Y), 2))
    for tree, rows, features in zip(
        model, model.estimators_samples_, model.estimators_features_, strict=True
    ):
        outside = np.setdiff1d(np.arange(len(Y)), rows)
        votes[outside] += tree.predict_proba(X[outside][:, features])
    share = votes / votes.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.oob_decision_function_, share, rtol=1e-12)
    assert model.oob_score_ == (share.argmax(axis=1) == Y).mean() > 0.9
    regressor = BaggingRegressor(n_estimators=60, oob_score=True, device="numpy")
    assert regressor.fit(X_VALUES, Y_VALUES).oob_score_ > 0.3


def test_hard_voting():
    model = BaggingClassifier(DecisionTreeClassifier(max_depth=2), voting="hard", **SMALL).fit(X, Y)
    votes = np.mean([tree.predict(X) for tree in model], axis=0)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], votes, rtol=0, atol=1e-15)


RARE = (np.arange(len(Y)) % 10 == 0).astype(int)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 9.0}])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_class_weight_of_the_base_tree_weights_its_drawn_rows(class_weight, bootstrap):
    """As in scikit-learn, class weights multiply the weights of drawn rows, but not the draws."""
    params = {"max_samples": 0.5, "bootstrap": bootstrap, **SMALL}
    base = DecisionTreeClassifier(class_weight=class_weight, max_depth=2)
    model = BaggingClassifier(base, **params).fit(X, RARE)
    plain = BaggingClassifier(DecisionTreeClassifier(max_depth=2), **params).fit(X, RARE)
    counts = np.bincount(RARE)
    factor = len(RARE) / (2 * counts) if class_weight == "balanced" else np.array([1.0, 9.0])
    for t, rows in enumerate(model.estimators_samples_):
        assert len(rows) == len(RARE) // 2
        np.testing.assert_array_equal(rows, plain.estimators_samples_[t])
        weight = factor[RARE[rows]]
        root = model.estimators_[t].tree_
        assert root.weighted_n_node_samples[0] == pytest.approx(weight.sum(), rel=1e-12)
        share = weight[RARE[rows] == 1].sum() / weight.sum()
        assert root.value[0, 0, 1] == pytest.approx(share, rel=1e-12)


def test_class_weight_without_drawing_is_a_sample_weight():
    base = DecisionTreeClassifier(class_weight={0: 1.0, 1: 9.0})
    params = {"bootstrap": False, "max_features": 0.5, **SMALL}
    few = np.round(100 * X / X.max(axis=0))  # one bin per value, whatever the weights
    one = BaggingClassifier(base, **params).fit(few, RARE)
    with pytest.warns(UserWarning, match="all trees use the same rows"):
        other = BaggingClassifier(**params).fit(few, RARE, 1.0 + 8 * RARE)
    assert one.fingerprint() == other.fingerprint()


def test_a_class_of_zero_weight_gets_out_of_bag_votes_only():
    base = DecisionTreeClassifier(class_weight={0: 1.0, 1: 0.0})
    model = BaggingClassifier(base, n_estimators=40, oob_score=True, device="numpy", random_state=0)
    model.fit(X, RARE)
    np.testing.assert_array_equal(model.oob_decision_function_[:, 1], np.zeros(len(X)))
    left_out = [np.setdiff1d(np.arange(len(X)), rows) for rows in model.estimators_samples_]
    assert len(np.concatenate(left_out)) < 0.5 * 40 * len(X)
    sure = BaggingClassifier(
        DecisionTreeClassifier(class_weight={0: 0.0, 1: 1.0}), max_samples=2, **SMALL
    )
    with pytest.raises(
        ValueError, match=r"rows drawn for tree \d+ are of classes whose class_weight is 0"
    ):
        sure.fit(X, RARE)


def test_weights_without_replacement_warn_and_favour_heavy_rows():
    weights = np.where(np.arange(len(Y)) < 200, 10.0, 1.0)
    model = BaggingClassifier(bootstrap=False, max_samples=150, **SMALL)
    with pytest.warns(UserWarning, match="recommended to use bootstrap=True"):
        model.fit(X, Y, weights)
    drawn = np.concatenate(model.estimators_samples_)
    assert (drawn < 200).mean() > 0.7


def test_warm_start_adds_trees():
    params = {"max_features": 0.5, "device": "numpy", "random_state": 3}
    grown = BaggingRegressor(n_estimators=4, warm_start=True, **params).fit(X_VALUES, Y_VALUES)
    grown.set_params(n_estimators=9).fit(X_VALUES, Y_VALUES)
    whole = BaggingRegressor(n_estimators=9, **params).fit(X_VALUES, Y_VALUES)
    assert grown.fingerprint() == whole.fingerprint()


def test_several_outputs():
    y = np.column_stack([Y_VALUES, Y_VALUES[::-1]])
    model = BaggingRegressor(DecisionTreeRegressor(max_depth=4), oob_score=True, **SMALL)
    with pytest.warns(UserWarning, match="OOB"):
        model.fit(X_VALUES, y)
    assert model.predict(X_VALUES).shape == model.oob_prediction_.shape == y.shape
