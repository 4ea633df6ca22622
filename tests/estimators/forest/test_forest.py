"""Forests: sampling, out-of-bag estimates, warm starts, voting, importances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sklearn.ensemble
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification
from sklearn.inspection import partial_dependence
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score
from sklearn.model_selection import cross_val_score

from gpuboost import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import TREE_TYPES

CLASSIFIERS = [RandomForestClassifier, ExtraTreesClassifier]
REGRESSORS = [RandomForestRegressor, ExtraTreesRegressor]
SMALL = {"device": "numpy", "n_estimators": 12, "random_state": 0}


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def test_an_ensemble_of_all_its_trees_shares_their_arrays(cancer):
    forest = RandomForestClassifier(**SMALL).fit(*cancer)._ensemble
    trees = forest.trees
    again, other = Ensemble.of(trees), Ensemble.of(trees[1:] + trees[:1])
    for name in TREE_TYPES:
        whole = getattr(forest, name)
        if name != "masks":  # this forest has none
            assert getattr(again, name) is whole
        assert not np.shares_memory(getattr(other, name), whole)
    np.testing.assert_array_equal(again.offset, forest.offset)
    assert other.trees[-1].threshold.tobytes() == trees[0].threshold.tobytes()
    few = Ensemble.of(trees[:-1])
    assert few.n_trees == 11 and not np.shares_memory(few.value, forest.value)
    wide = Ensemble.of([replace(tree, count=tree.count.astype(np.uint32)) for tree in trees])
    assert wide.count.dtype == np.int64
    assert all(np.array_equal(getattr(wide, n), getattr(forest, n), True) for n in TREE_TYPES)


# ---- scores ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forest", "table", "margin"),
    [
        (RandomForestClassifier, "cancer", 0.015),
        (ExtraTreesClassifier, "cancer", 0.015),
        (RandomForestRegressor, "diabetes", 0.03),
        (ExtraTreesRegressor, "diabetes", 0.03),
    ],
)
def test_forests_score_like_scikit_learn(forest, table, margin, request):
    X, y = request.getfixturevalue(table)
    own = forest(n_estimators=60, random_state=0, device="numpy")
    peer = getattr(sklearn.ensemble, forest.__name__)(n_estimators=60, random_state=0)
    scores = [cross_val_score(model, X, y).mean() for model in (own, peer)]
    assert scores[0] > scores[1] - margin


# ---- the trees of a forest ---------------------------------------------------------------------


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_probability_is_the_mean_of_the_trees(model, cancer):
    X, y = cancer
    forest = model(max_depth=4, **SMALL).fit(X, y)
    trees = np.mean([tree.predict_proba(X) for tree in forest.estimators_], axis=0)
    np.testing.assert_allclose(forest.predict_proba(X), trees, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(forest.predict(X), forest.predict_proba(X).argmax(axis=1))
    np.testing.assert_array_equal(
        forest.predict_log_proba(X)[:, 1] > np.log(0.5), forest.predict_proba(X)[:, 1] > 0.5
    )


def test_hard_voting_counts_votes(cancer):
    X, y = cancer
    forest = RandomForestClassifier(max_depth=3, voting="hard", **SMALL).fit(X, y)
    votes = np.array([tree.predict(X) for tree in forest.estimators_])
    np.testing.assert_array_equal(forest.predict_proba(X)[:, 1], votes.sum(axis=0) / 12)
    soft = RandomForestClassifier(max_depth=3, **SMALL).fit(X, y)
    assert soft.fingerprint() == forest.fingerprint()
    assert (soft.predict_proba(X) != forest.predict_proba(X)).any()


def test_prediction_is_the_mean_of_the_trees(diabetes):
    X, y = diabetes
    Y = np.column_stack([y, -y, y**2])
    for target in (y, Y):
        forest = RandomForestRegressor(max_depth=5, **SMALL).fit(X, target)
        assert forest.predict(X).shape == target.shape
        trees = np.mean([tree.predict(X) for tree in forest.estimators_], axis=0)
        np.testing.assert_allclose(forest.predict(X), trees, rtol=1e-13)


def test_trees_are_fitted_estimators(cancer):
    X, y = cancer
    forest = ExtraTreesClassifier(max_depth=4, min_samples_leaf=2, **SMALL).fit(X, y)
    assert len(forest) == len(forest.estimators_) == 12 and forest[0] is forest.estimators_[0]
    assert [type(tree) for tree in forest] == [ExtraTreeClassifier] * 12
    assert isinstance(forest.estimator_, ExtraTreeClassifier)
    for tree in forest:
        assert tree.get_params()["min_samples_leaf"] == 2 and tree.get_depth() <= 4
        assert tree.tree_.node_count == 2 * tree.get_n_leaves() - 1
    assert not np.shares_memory(forest[0].tree_.value, forest[1].tree_.value)
    assert np.shares_memory(forest[0].tree_.impurity, forest._model.ensemble.impurity)


def test_apply_and_decision_path_are_those_of_the_trees(diabetes):
    X, y = diabetes
    forest = RandomForestRegressor(max_depth=5, **SMALL).fit(X, y)
    leaves = forest.apply(X)
    path, offsets = forest.decision_path(X)
    assert leaves.shape == (len(X), 12) and path.shape == (len(X), offsets[-1])
    for t, tree in enumerate(forest):
        np.testing.assert_array_equal(leaves[:, t], tree.apply(X))
        part = path[:, offsets[t] : offsets[t + 1]]
        np.testing.assert_array_equal(part.toarray(), tree.decision_path(X).toarray())


def test_a_forest_of_one_tree_without_sampling_is_that_tree(cancer, diabetes):
    X, y = cancer
    forest = RandomForestClassifier(
        n_estimators=1, bootstrap=False, max_features=None, device="numpy", random_state=5
    )
    tree = DecisionTreeClassifier(device="numpy", random_state=5)
    assert forest.fit(X, y).fingerprint() == tree.fit(X, y).fingerprint()
    X, y = diabetes
    forest = RandomForestRegressor(n_estimators=1, bootstrap=False, device="numpy", random_state=5)
    tree = DecisionTreeRegressor(device="numpy", random_state=5)
    assert forest.fit(X, y).fingerprint() == tree.fit(X, y).fingerprint()


# ---- sampling ----------------------------------------------------------------------------------


def test_about_one_in_e_rows_is_out_of_bag(cancer):
    X, y = cancer
    forest = RandomForestClassifier(n_estimators=200, max_depth=1, device="numpy").fit(X, y)
    drawn = forest.estimators_samples_
    assert all(len(rows) == len(y) for rows in drawn)
    left_out = np.mean([1 - len(np.unique(rows)) / len(y) for rows in drawn])
    assert left_out == pytest.approx(np.exp(-1), abs=0.01)
    often = np.bincount(np.concatenate(drawn))  # all rows are drawn equally often
    assert abs(often.mean() - 200) < 1e-9 and often.std() == pytest.approx(np.sqrt(200), rel=0.15)


@pytest.mark.parametrize(("max_samples", "count"), [(50, 50), (0.5, 284), (1.0, 569), (900, 900)])
def test_max_samples_rows_are_drawn(max_samples, count, cancer):
    X, y = cancer
    forest = RandomForestClassifier(max_samples=max_samples, **SMALL).fit(X, y)
    assert {len(rows) for rows in forest.estimators_samples_} == {count}
    assert {int(tree.tree_.weighted_n_node_samples[0]) for tree in forest} == {count}


def test_a_fraction_of_very_few_rows_warns(cancer):
    X, y = cancer
    with pytest.warns(UserWarning, match=r"when there are 569 rows results in a low number \(2\)"):
        RandomForestClassifier(max_samples=0.005, **SMALL).fit(X, y)


def test_a_fraction_of_large_weights_draws_many_rows_and_warns(cancer):
    X, y = cancer
    forest = RandomForestClassifier(max_samples=1.0, **SMALL)
    with pytest.warns(UserWarning, match="draws 28450 rows for each tree from 569; pass"):
        forest.fit(X, y, np.full(len(y), 50.0))
    assert {len(rows) for rows in forest.estimators_samples_} == {28450}


def test_partial_dependence_by_recursion_is_that_of_its_trees(diabetes):
    X, y = diabetes
    forest = RandomForestRegressor(**SMALL).fit(X, y)
    grids = {"features": [2], "method": "recursion", "grid_resolution": 9, "kind": "average"}
    found = partial_dependence(forest, X, **grids)["average"]
    one = [partial_dependence(tree, X, **grids)["average"] for tree in forest]
    np.testing.assert_allclose(found, np.mean(one, axis=0), rtol=1e-12)
    assert isinstance(forest, sklearn.ensemble.RandomForestRegressor)


def test_rows_are_drawn_in_proportion_to_their_weight(cancer):
    X, y = cancer
    weights = np.where(np.arange(len(y)) % 3 == 0, 4.0, 0.0)
    weights[1] = 40.0
    forest = RandomForestClassifier(n_estimators=100, device="numpy", random_state=0)
    drawn = np.bincount(
        np.concatenate(forest.fit(X, y, weights).estimators_samples_), minlength=len(y)
    )
    assert (drawn[weights == 0] == 0).all()
    expected = 100 * len(y) * weights / weights.sum()
    assert drawn[1] == pytest.approx(expected[1], rel=0.1)
    assert drawn[0::3].mean() == pytest.approx(expected[0], rel=0.02)


def test_class_weight_improves_the_recall_of_a_rare_class():
    X, y = make_classification(900, 8, weights=[0.93], flip_y=0.05, random_state=3)
    common = {"min_samples_leaf": 20, "n_estimators": 40, "device": "numpy", "random_state": 0}
    recall = {}
    for choice in (None, "balanced", "balanced_subsample", {0: 1.0, 1: 12.0}):
        forest = RandomForestClassifier(class_weight=choice, **common).fit(X, y)
        recall[str(choice)] = forest.predict(X)[y == 1].mean()
    assert all(recall[name] > recall["None"] + 0.1 for name in recall if name != "None")
    forest = RandomForestClassifier(class_weight="balanced_subsample", **common).fit(X, y)
    roots = np.array([tree.tree_.value[0, 0] for tree in forest])
    np.testing.assert_allclose(roots, 0.5, atol=1e-12)
    rest = {**common, "bootstrap": False}
    whole = [
        RandomForestClassifier(class_weight=c, **rest).fit(X, y).fingerprint()
        for c in ("balanced", "balanced_subsample")
    ]
    assert whole[0] == whole[1]  # without a draw, both balance the whole table


def test_trees_of_a_forest_draw_features_for_every_node():
    X, y = make_classification(400, 16, n_informative=8, random_state=1)
    forest = RandomForestClassifier(n_estimators=60, max_depth=1, device="numpy", random_state=0)
    roots = {int(tree.tree_.feature[0]) for tree in forest.fit(X, y)}
    assert len(roots) > 5
    forest.set_params(max_features=None, bootstrap=False).fit(X, y)
    assert len({int(tree.tree_.feature[0]) for tree in forest}) == 1


# ---- out-of-bag --------------------------------------------------------------------------------


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_out_of_bag_votes_are_those_of_the_trees_that_did_not_see_the_row(voting, cancer):
    X, y = cancer
    forest = RandomForestClassifier(
        n_estimators=25, oob_score=True, voting=voting, max_depth=5, device="numpy", random_state=1
    ).fit(X, y)
    votes, count = np.zeros((len(y), 2)), np.zeros(len(y))
    for tree, rows in zip(forest, forest.estimators_samples_, strict=True):
        outside = np.setdiff1d(np.arange(len(y)), rows)
        share = tree.predict_proba(X[outside])
        votes[outside] += share if voting == "soft" else np.eye(2)[share.argmax(axis=1)]
        count[outside] += 1
    np.testing.assert_allclose(forest.oob_decision_function_, votes / count[:, None], rtol=1e-13)
    assert forest.oob_score_ == accuracy_score(y, votes.argmax(axis=1))


def test_out_of_bag_prediction_of_regressions(diabetes):
    X, y = diabetes
    for target in (y, np.column_stack([y, -y])):
        forest = RandomForestRegressor(n_estimators=30, oob_score=True, device="numpy")
        forest.fit(X, target)
        assert forest.oob_prediction_.shape == target.shape
        assert forest.oob_score_ == r2_score(target, forest.oob_prediction_)
        assert 0.2 < forest.oob_score_ < forest.score(X, target)


def test_out_of_bag_score_can_be_a_function(cancer):
    X, y = cancer
    forest = RandomForestClassifier(
        n_estimators=30, oob_score=balanced_accuracy_score, device="numpy"
    )
    forest.fit(X, y)
    found = forest.oob_decision_function_.argmax(axis=1)
    assert forest.oob_score_ == balanced_accuracy_score(y, found)


def test_rows_without_out_of_bag_votes_are_nan_and_warn(cancer):
    X, y = cancer
    forest = RandomForestClassifier(n_estimators=2, oob_score=True, device="numpy", random_state=0)
    with pytest.warns(UserWarning, match="Some inputs do not have OOB scores"):
        forest.fit(X, y)
    nowhere = np.isnan(forest.oob_decision_function_).all(axis=1)
    seen_twice = np.intersect1d(*forest.estimators_samples_)
    np.testing.assert_array_equal(np.flatnonzero(nowhere), seen_twice)
    assert 0.8 < forest.oob_score_ <= 1


def test_out_of_bag_with_missing_values_and_categories():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), rng.integers(0, 9, size=500)])
    y = (X[:, 0] > 0) ^ np.isin(X[:, 1], [1, 4, 8])
    X[rng.random(X.shape) < 0.1] = np.nan
    forest = RandomForestClassifier(
        n_estimators=40, oob_score=True, categorical_features=[1], device="numpy", random_state=0
    ).fit(X, y)
    assert 0.75 < forest.oob_score_ < 0.95


# ---- warm start --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", CLASSIFIERS + REGRESSORS)
def test_adding_trees_gives_the_model_of_growing_all_at_once(model, cancer):
    X, y = cancer
    grown = model(n_estimators=4, warm_start=True, random_state=7, device="numpy").fit(X, y)
    for n in (5, 11):
        grown.set_params(n_estimators=n).fit(X, y)
    whole = model(n_estimators=11, random_state=7, device="numpy").fit(X, y)
    assert grown.fingerprint() == whole.fingerprint()
    for one, other in zip(grown.estimators_samples_, whole.estimators_samples_, strict=True):
        np.testing.assert_array_equal(one, other)


def test_warm_start_with_out_of_bag_score(cancer):
    X, y = cancer
    params = {"oob_score": True, "random_state": 7, "device": "numpy"}
    grown = RandomForestClassifier(n_estimators=20, warm_start=True, **params).fit(X, y)
    first = grown.oob_score_
    grown.set_params(n_estimators=30).fit(X, y)
    whole = RandomForestClassifier(n_estimators=30, **params).fit(X, y)
    np.testing.assert_array_equal(grown.oob_decision_function_, whole.oob_decision_function_)
    assert grown.oob_score_ == whole.oob_score_ and isinstance(first, float)


def test_warm_start_continues_its_seed_and_accepts_other_rows(cancer):
    X, y = cancer
    forest = RandomForestClassifier(n_estimators=3, warm_start=True, device="numpy").fit(X, y)
    before = [tree.tree_.threshold for tree in forest]
    forest.set_params(n_estimators=5).fit(X[:200], y[:200])
    assert forest._model.batches[0].sampler.seed == forest._model.batches[1].sampler.seed
    for old, tree in zip(before, forest, strict=False):
        np.testing.assert_array_equal(old, tree.tree_.threshold)
    assert [len(rows) for rows in forest.estimators_samples_] == [569] * 3 + [200] * 2


def test_warm_start_without_more_trees_warns_and_changes_nothing(cancer):
    X, y = cancer
    forest = RandomForestClassifier(warm_start=True, **SMALL).fit(X, y)
    before = forest.fingerprint()
    with pytest.warns(UserWarning, match="without increasing n_estimators"):
        forest.fit(X, y)
    assert forest.fingerprint() == before


# ---- importances -------------------------------------------------------------------------------


def test_importances_are_those_of_scikit_learn(diabetes):
    X, y = diabetes
    params = {"n_estimators": 100, "random_state": 0, "max_features": 0.5, "min_samples_leaf": 3}
    ours = RandomForestRegressor(device="numpy", **params).fit(X, y).feature_importances_
    theirs = sklearn.ensemble.RandomForestRegressor(**params).fit(X, y).feature_importances_
    assert ours.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(ours, theirs, atol=0.03)


def test_importance_of_noise_does_not_depend_on_its_column():
    """Splits of small nodes often tie, and the first column must not win these ties."""
    rng = np.random.default_rng(5)
    n, n_noise = 300, 8
    X = np.round(rng.normal(size=(n, n_noise + 1)), 1)
    y = rng.random(n) < softmax(np.column_stack([X[:, 4], -X[:, 4]]), axis=1)[:, 0]
    model = RandomForestClassifier(n_estimators=300, max_features=None, device="numpy")
    importance = model.set_params(random_state=0).fit(X, y).feature_importances_
    shifted = model.set_params(random_state=1).fit(X[:, ::-1], y).feature_importances_
    noise = np.delete(np.arange(n_noise + 1), 4)
    # A column keeps its importance when it is moved; its position must not add to it.
    moved = importance[noise] - shifted[::-1][noise]
    assert abs(moved).max() < 0.15 * importance[noise].mean()
    assert importance.argmax() == 4


def test_importances_of_stumps_without_a_split_are_zero():
    forest = RandomForestRegressor(**SMALL).fit(np.zeros((20, 3)), np.arange(20.0))
    np.testing.assert_array_equal(forest.feature_importances_, np.zeros(3))


def test_equal_columns_share_the_importance():
    """Their splits tie in every node, and each column wins equally often."""
    column = np.random.default_rng(2).normal(size=200).round(1)
    y = np.sin(3 * column)
    forest = RandomForestRegressor(n_estimators=150, device="numpy", random_state=0)
    importance = forest.fit(np.tile(column[:, None], 6), y).feature_importances_
    np.testing.assert_allclose(importance, 1 / 6, atol=0.05)
