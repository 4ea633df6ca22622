"""Classification of several outputs at once, by trees, forests and bagging."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import sklearn.tree

import gpuboost
from tests.estimators.estimator_cases import make

NAMES = (
    "DecisionTreeClassifier",
    "ExtraTreeClassifier",
    "RandomForestClassifier",
    "ExtraTreesClassifier",
    "BaggingClassifier",
)
FORESTS = NAMES[2:4]


def data(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Features, and labels of outputs with three, two and four classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    first = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    labels = np.column_stack([first, X[:, 2] > X[:, 1], np.digitize(X[:, 3], [-1, 0, 1])])
    return X, labels.astype(int)


def impurity(criterion: str, labels: np.ndarray) -> float:
    """Impurity of some rows, averaged over outputs."""
    found = []
    for column in labels.T:
        p = np.unique(column, return_counts=True)[1] / len(column)
        of = {"gini": 1 - (p**2).sum(), "entropy": -(p * np.log2(p)).sum()}
        found.append(of.get(criterion, 1 - p.max()))
    return float(np.mean(found))


@pytest.mark.parametrize("criterion", ["gini", "entropy", "misclassification"])
def test_a_stump_has_the_best_of_all_splits(criterion: str) -> None:
    X, y = data(60)
    whole = impurity(criterion, y)
    best = -1.0
    for f in range(X.shape[1]):
        for x in np.sort(X[:, f])[:-1]:
            left = X[:, f] <= x
            parts = [left.mean() * impurity(criterion, y[left])]
            parts.append((1 - left.mean()) * impurity(criterion, y[~left]))
            best = max(best, whole - sum(parts))
    stump = gpuboost.DecisionTreeClassifier(criterion=criterion, max_depth=1).fit(X, y).tree_
    assert stump.impurity[0] == pytest.approx(whole)
    children = stump.impurity[1:] @ stump.weighted_n_node_samples[1:] / len(X)
    assert whole - children == pytest.approx(best)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_trees_equal_those_of_scikit_learn(criterion: str) -> None:
    X, y = data()
    words: dict[str, Any] = {"criterion": criterion, "max_depth": 3, "random_state": 0}
    ours = gpuboost.DecisionTreeClassifier(**words).fit(X, y)
    theirs = sklearn.tree.DecisionTreeClassifier(**words).fit(X, y)
    assert ours.tree_.value.shape == theirs.tree_.value.shape
    for own, other in zip(ours.predict_proba(X), theirs.predict_proba(X), strict=True):
        np.testing.assert_allclose(own, other)
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_)


def test_several_copies_of_one_output_give_its_tree() -> None:
    X, y = data()
    for criterion in ("gini", "entropy", "misclassification", "twoing"):
        tree = gpuboost.DecisionTreeClassifier(criterion=criterion, random_state=0)
        alone = tree.fit(X, y[:, 2]).predict_proba(X)
        found = tree.fit(X, y[:, [2, 2]]).predict_proba(X)
        assert np.array_equal(found[0], alone) and np.array_equal(found[1], alone)


@pytest.mark.parametrize("name", FORESTS)
def test_balanced_draws_of_classes_that_are_rare_in_all_outputs(name: str) -> None:
    """The weight of such a row is up to the number of draws to the power of the outputs."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = np.zeros((40, 3), dtype=int)
    y[7] = 1
    given = {"class_weight": "balanced_subsample", "bootstrap": True, "random_state": 0}
    fits = [
        getattr(gpuboost, name)(20, device=device, **given).fit(X, y)
        for device in ("numpy", "numba")
    ]
    assert fits[0].fingerprint() == fits[1].fingerprint()
    assert (fits[0].predict(X[[7]]) == 1).all()


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_types(name: str) -> None:
    X, y = data()
    model = make(name, random_state=0).fit(X, y)
    assert model.n_outputs_ == 3 and list(model.n_classes_) == [3, 2, 4]
    assert [own.tolist() for own in model.classes_] == [[0, 1, 2], [0, 1], [0, 1, 2, 3]]
    found = model.predict_proba(X)
    assert [own.shape for own in found] == [(200, 3), (200, 2), (200, 4)]
    for own in found:
        np.testing.assert_allclose(own.sum(axis=1), 1.0)
    for own, other in zip(model.predict_log_proba(X), found, strict=True):
        np.testing.assert_allclose(np.exp(own), other)
    predicted = model.predict(X)
    assert predicted.shape == y.shape and predicted.dtype == y.dtype
    assert (predicted == y).mean() > 0.8
    copied = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copied.predict(X), predicted)


def test_labels_of_several_types() -> None:
    X, y = data()
    words = np.array(["no", "yes"])[y[:, 1]]
    model = gpuboost.DecisionTreeClassifier().fit(X, np.column_stack([words, words[::-1]]))
    assert np.array_equal(model.predict(X)[:, 0], words)
    mixed = np.column_stack([y[:, 0].astype(object), words])
    found = gpuboost.DecisionTreeClassifier().fit(X, mixed).predict(X)
    assert found.dtype == object and np.array_equal(found, mixed)


@pytest.mark.parametrize("name", FORESTS)
def test_trees_of_a_forest_have_encoded_classes(name: str) -> None:
    X, y = data()
    model = make(name, n_estimators=4, random_state=0).fit(X, 10 * y)
    per_tree = [tree.predict_proba(X) for tree in model.estimators_]
    for k, own in enumerate(model.predict_proba(X)):
        np.testing.assert_allclose(own, np.mean([found[k] for found in per_tree], axis=0))
    assert model.estimators_[0].classes_[2].tolist() == [0, 1, 2, 3]


def test_hard_voting_counts_votes_of_each_output() -> None:
    X, y = data()
    model = gpuboost.RandomForestClassifier(5, max_depth=2, voting="hard", random_state=0)
    model.fit(X, y)
    for k, own in enumerate(model.predict_proba(X)):
        votes = np.array([tree.predict(X)[:, k] for tree in model.estimators_])
        expected = [(votes == c).mean(axis=0) for c in range(own.shape[1])]
        np.testing.assert_allclose(own, np.transpose(expected))


def test_out_of_bag_estimates_of_two_classes_each() -> None:
    X, y = data()
    labels = np.column_stack([y[:, 0] > 0, y[:, 1]]).astype(int)
    model = gpuboost.RandomForestClassifier(30, oob_score=True, random_state=0).fit(X, labels)
    assert model.oob_decision_function_.shape == (200, 2, 2)
    np.testing.assert_allclose(model.oob_decision_function_.sum(axis=1), 1.0)
    assert 0.6 < model.oob_score_ <= 1.0
    with pytest.raises(ValueError, match=r"The type of target .* \[3, 2, 4\] classes"):
        model.fit(X, y)


def test_class_weights_are_multiplied_over_outputs() -> None:
    X, y = data()
    given = [{0: 2.0}, {0: 1.0, 1: 3.0}, {3: 0.5}]
    weights = np.prod(
        [[own.get(label, 1.0) for label in y[:, k]] for k, own in enumerate(given)], axis=0
    )
    tree = gpuboost.DecisionTreeClassifier(max_depth=4, random_state=0)
    expected = tree.fit(X, y, weights).fingerprint()
    assert tree.set_params(class_weight=given).fit(X, y).fingerprint() == expected


@pytest.mark.parametrize("device", ["numpy", "numba"])
@pytest.mark.parametrize("name", ["RandomForestClassifier", "BaggingClassifier"])
def test_weights_of_the_rows_drawn_for_a_tree(name: str, device: str) -> None:
    """Copies of one output have its classes balanced once for each copy."""
    X, y = data()
    words: dict[str, Any] = {"n_estimators": 4, "random_state": 0, "device": device}
    if name == "BaggingClassifier":
        given = [{0: 3.0, 2: 0.5}, {1: 2.0}]
        tree = gpuboost.DecisionTreeClassifier(class_weight=given, max_depth=3)
        model = gpuboost.BaggingClassifier(tree, **words)
    else:
        words |= {"class_weight": "balanced_subsample", "max_depth": 3}
        model = gpuboost.RandomForestClassifier(**words)
    model.fit(X, y[:, :2])
    for tree, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
        weights = np.ones(len(rows))
        for k in range(2):
            labels = y[rows, k]
            if name == "BaggingClassifier":
                weights *= [given[k].get(label, 1.0) for label in labels]
            else:
                found = np.unique(labels, return_counts=True)
                weights *= (len(rows) / len(found[0]) / found[1])[labels]
        leaf = tree.apply(X[rows])
        for node in np.unique(leaf):
            inside = leaf == node
            total = weights[inside].sum()
            for k in range(2):
                share = weights[inside & (y[rows, k] == 1)].sum() / total
                assert tree.tree_.value[node, k, 1] == pytest.approx(share)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"class_weight": {0: 1.0}}, "For multi-output, class_weight should be a list of dicts"),
        ({"class_weight": [{}]}, r"should match number of outputs. Got a list of 1 for 3 outputs"),
        ({"monotonic_cst": [1, 0, 0, 0]}, "not supported with multiple outputs"),
    ],
)
def test_errors(words: dict[str, Any], message: str) -> None:
    X, y = data()
    with pytest.raises(ValueError, match=message):
        gpuboost.RandomForestClassifier(3, **words).fit(X, y)


def test_classifiers_of_one_output_say_what_to_use() -> None:
    X, y = data()
    for name in ("AdaBoostClassifier", "GradientBoostingClassifier"):
        with pytest.raises(ValueError, match=r"shape \(200, 3\).* use a tree or a forest"):
            make(name).fit(X, y)


def test_a_warm_start_needs_the_same_outputs() -> None:
    X, y = data()
    model = gpuboost.RandomForestClassifier(2, warm_start=True, random_state=0).fit(X, y)
    at_once = gpuboost.RandomForestClassifier(4, random_state=0).fit(X, y)
    assert model.set_params(n_estimators=4).fit(X, y).fingerprint() == at_once.fingerprint()
    with pytest.raises(ValueError, match="must have the same"):
        model.set_params(n_estimators=6).fit(X, y[:, :2])
    with pytest.raises(ValueError, match="same classes_"):
        model.fit(X, y[:, 0])
