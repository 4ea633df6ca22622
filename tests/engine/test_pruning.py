"""Cost-complexity pruning: comparison with scikit-learn and brute force, on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.ensemble
import sklearn.tree
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

import gpuboost
from gpuboost import (
    AdaBoostClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    RandomForestClassifier,
)
from gpuboost.engine.growth.pruning import pruned, pruning_path
from gpuboost.engine.growth.tree import Tree, levels
from tests import cuda_shim
from tests.estimators.boosting.boosting_cases import classifier, regressor, table

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
QUICK: dict[str, Any] = {"device": "numpy", "n_jobs": 1, "random_state": 0}
ALPHAS = (0.0, 0.002, 0.01, 0.05, 20.0)


def grid(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features with exact bins (one is categorical) and missing values."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 60, (n, 4)).astype(float)
    y = 0.1 * X[:, 0] + (X[:, 1] > 20) * (X[:, 2] > 10) + 0.5 * rng.normal(size=n)
    return X, y


# ---- the pruned tree ---------------------------------------------------------------------------


def shapes_of(tree: Tree, node: int = 0) -> list[tuple[float, frozenset[int]]]:
    """Total impurity decrease and splits of every pruned subtree of a node."""
    found: list[tuple[float, frozenset[int]]] = [(0.0, frozenset())]
    left = int(tree.left[node])
    if left:
        for gain_left, on_left in shapes_of(tree, left):
            for gain_right, on_right in shapes_of(tree, left + 1):
                gain = float(tree.impurity_decrease[node]) + gain_left + gain_right
                found.append((gain, on_left | on_right | {node}))
    return found


def nodes_that_stay(whole: Tree, few: Tree) -> frozenset[int]:
    """Nodes of ``whole`` that are still split in ``few``; everything else of them must be equal."""
    stays, pairs = set(), [(0, 0)]
    while pairs:
        node, place = pairs.pop()
        for name in ("weight", "count", "impurity"):
            assert getattr(whole, name)[node] == getattr(few, name)[place]
        np.testing.assert_array_equal(whole.value[node], few.value[place])
        if not few.left[place]:
            assert (
                few.feature[place] == few.category[place] == -1
                and few.impurity_decrease[place] == 0
            )
            assert np.isnan(few.threshold[place]) and not few.missing_left[place]
            continue
        stays.add(node)
        for name in ("feature", "code", "missing_left", "impurity_decrease"):
            assert getattr(whole, name)[node] == getattr(few, name)[place]
        np.testing.assert_array_equal(whole.threshold[node], few.threshold[place])
        if whole.category[node] >= 0:
            own, other = whole.masks[whole.category[node]], few.masks[few.category[place]]
            np.testing.assert_array_equal(own, other)
        left, its_left = int(whole.left[node]), int(few.left[place])
        pairs += [(left, its_left), (left + 1, its_left + 1)]
    return frozenset(stays)


@settings(deadline=None, max_examples=60, print_blob=True)
@given(st.integers(0, 2**31), st.floats(1e-4, 0.2))
def test_the_pruned_tree_has_the_lowest_cost(seed: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (40, 3)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, 3, 40)
    model = DecisionTreeClassifier(max_depth=3, categorical_features=[2], **QUICK).fit(X, y)
    whole = model._ensemble.trees[0]
    few = pruned(whole, alpha)
    stays = nodes_that_stay(whole, few)
    assert len(few.left) == 1 + 2 * len(stays) == levels(few.left)[-1].stop
    assert len(few.masks) == (few.category >= 0).sum()
    costs = {splits: alpha * len(splits) - gain for gain, splits in shapes_of(whole)}
    assert costs[stays] <= min(costs.values()) + 1e-12


def test_a_split_worth_exactly_alpha_is_pruned() -> None:
    """Of several trees of equal cost, the smallest is kept."""
    X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0.0, 0.0, 1.0, 1.0])
    model = DecisionTreeRegressor(**QUICK)
    assert model.fit(X, y).tree_.impurity[0] == 0.25
    for alpha, leaves in ((0.0, 2), (0.2499, 2), (0.25, 1)):
        assert clone(model).set_params(ccp_alpha=alpha).fit(X, y).get_n_leaves() == leaves


def test_a_split_without_gain_is_kept_for_the_splits_below() -> None:
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5)
    y = X[:, 0] ^ X[:, 1]
    model = DecisionTreeClassifier(ccp_alpha=0.1, **QUICK).fit(X, y)
    assert model.get_n_leaves() == 4 and model.score(X, y) == 1.0
    assert model.set_params(ccp_alpha=0.17).fit(X, y).get_n_leaves() == 1


# ---- trees and forests -------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_trees_of_classes_are_those_of_scikit_learn(criterion: str) -> None:
    X, y = grid()
    y = np.digitize(y, [1.5, 2.8, 3.5])
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    ours = DecisionTreeClassifier(criterion=criterion, min_samples_leaf=9, **QUICK)
    theirs = sklearn.tree.DecisionTreeClassifier(criterion=criterion, min_samples_leaf=9)
    same_trees(ours, theirs, X, y, weights)


def test_trees_of_values_are_those_of_scikit_learn() -> None:
    X, y = grid()
    ours = DecisionTreeRegressor(min_samples_leaf=9, **QUICK)
    theirs = sklearn.tree.DecisionTreeRegressor(min_samples_leaf=9)
    same_trees(ours, theirs, X, y, None)
    both = np.column_stack([y, -y + X[:, 3] / 20])
    same_trees(ours, theirs, X, both, None)


def same_trees(ours: Any, theirs: Any, X: np.ndarray, y: np.ndarray, weights: Any) -> None:
    """Assert equal numbers of leaves and predictions for every alpha, and equal pruning paths."""
    sizes = set()
    for alpha in ALPHAS:
        own, other = (
            clone(m).set_params(ccp_alpha=alpha).fit(X, y, weights) for m in (ours, theirs)
        )
        assert own.get_n_leaves() == other.get_n_leaves()
        np.testing.assert_allclose(own.predict(X), other.predict(X), rtol=1e-9)
        sizes.add(own.get_n_leaves())
    assert len(sizes) > 3 and 1 in sizes
    own, other = (m.cost_complexity_pruning_path(X, y, weights) for m in (ours, theirs))
    np.testing.assert_allclose(own.ccp_alphas, other.ccp_alphas, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(own.impurities, other.impurities, rtol=1e-6, atol=1e-9)


def test_the_path_has_the_alphas_at_which_nodes_are_pruned() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = DecisionTreeRegressor(min_samples_leaf=8, ccp_alpha=5.0, **QUICK)
    path = model.cost_complexity_pruning_path(X, y)
    assert model.ccp_alpha == 5.0 and path.ccp_alphas[0] == 0.0
    assert (np.diff(path.ccp_alphas) >= 0).all() and (np.diff(path.impurities) >= 0).all()
    whole = model.set_params(ccp_alpha=0.0).fit(X, y)._ensemble.trees[0]
    for step in range(1, len(path.ccp_alphas) - 1, 5):
        at, after = path.ccp_alphas[step : step + 2]
        if after - at < 1e-9 * after:
            continue
        few = pruned(whole, 0.5 * (at + after))
        leaves = few.left == 0
        left = (few.impurity * few.weight)[leaves].sum() / few.weight[0]
        assert left == pytest.approx(path.impurities[step], rel=1e-6)
    assert pruned(whole, 1.001 * path.ccp_alphas[-1]).node_count == 1
    assert pruned(whole, 0.999 * path.ccp_alphas[-1]).node_count > 1
    root = pruning_path(pruned(whole, 1e9))
    assert root[0].tolist() == [0.0] and root[1] == pytest.approx(np.var(y))


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer, load_wine])
def test_every_alpha_of_the_path_gives_its_impurity(load: Any, criterion: str) -> None:
    """Each alpha gives exactly its tree although gains are rounded; the last one gives the root."""
    X, y = load(return_X_y=True)
    model = DecisionTreeClassifier(criterion=criterion, **QUICK)
    path = model.cost_complexity_pruning_path(X, y)
    whole = model.fit(X, y)._ensemble.trees[0]
    last = np.append(np.diff(path.ccp_alphas) > 0, True)  # the last of equal alphas
    for alpha, impurity in zip(path.ccp_alphas[last], path.impurities[last], strict=True):
        few = pruned(whole, alpha)
        leaves = few.left == 0
        left = (few.impurity * few.weight)[leaves].sum() / few.weight[0]
        assert left == pytest.approx(impurity, rel=1e-9, abs=1e-12)
    assert model.set_params(ccp_alpha=path.ccp_alphas[-1]).fit(X, y).tree_.node_count == 1


def test_ensembles_prune_each_of_their_trees() -> None:
    X, y = load_iris(return_X_y=True)
    options: dict[str, Any] = {"n_estimators": 6, **QUICK}
    whole = RandomForestClassifier(**options).fit(X, y)
    few = RandomForestClassifier(ccp_alpha=0.02, **options).fit(X, y)
    for own, other in zip(few._ensemble.trees, whole._ensemble.trees, strict=True):
        nodes_that_stay(other, own)
        assert own.node_count == pruned(other, 0.02).node_count < other.node_count
    assert few.score(X, y) > 0.9
    base = DecisionTreeRegressor(ccp_alpha=1e9)
    stubs = BaggingRegressor(base, **options).fit(X, X[:, 0])
    assert [tree.get_n_leaves() for tree in stubs.estimators_] == [1] * 6
    deep = DecisionTreeClassifier(max_depth=5, ccp_alpha=0.01)
    boosted = AdaBoostClassifier(deep, **options).fit(X, y)
    assert max(t.get_n_leaves() for t in boosted.estimators_) < 12 and boosted.score(X, y) > 0.95


# ---- boosting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.01, 0.05])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_boosting_of_exact_bins_is_that_of_scikit_learn(loss: str, alpha: float) -> None:
    X, y = grid(201)
    options: dict[str, Any] = {"n_estimators": 12, "max_depth": 4, "ccp_alpha": alpha, "loss": loss}
    ours = regressor(**options).fit(X, y)
    theirs = sklearn.ensemble.GradientBoostingRegressor(random_state=0, **options).fit(X, y)
    sizes = [t.get_n_leaves() for t in ours.estimators_[:, 0]]
    if loss == "squared_error":
        assert sizes == [t.get_n_leaves() for t in theirs.estimators_[:, 0]]
        np.testing.assert_allclose(ours.train_score_, theirs.train_score_, rtol=1e-6)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)
    assert max(sizes) < 16
    stages = [np.full(len(y), ours.baseline_[0]), *ours.staged_predict(X)]
    np.testing.assert_array_equal(stages[-1], ours.predict(X))
    assert len(stages) == 13


def test_a_leaf_of_a_pruned_tree_has_the_median_of_its_rows() -> None:
    X, y = grid(301)
    model = regressor(loss="absolute_error", ccp_alpha=0.05, learning_rate=1.0, max_depth=4)
    model.fit(X, y)
    before = np.full(len(y), model.baseline_[0])
    for tree, after in zip(model.estimators_[:, 0], model.staged_predict(X), strict=True):
        leaf = tree.apply(X)
        for node in np.unique(leaf):
            middle = np.median((y - before)[leaf == node])
            assert tree.tree_.value[node, 0, 0] == pytest.approx(middle, abs=1e-12)
        before = after
    assert 1 < model.estimators_[0, 0].get_n_leaves() < 16


@pytest.mark.parametrize(
    ("loss", "n_classes"), [("log_loss", 2), ("log_loss", 3), ("exponential", 2)]
)
def test_a_large_alpha_prunes_trees_to_their_roots(loss: str, n_classes: int) -> None:
    X, y = table(n_classes=n_classes)
    dear = classifier(loss=loss, ccp_alpha=1e3, n_estimators=3).fit(X, y)
    assert {t.get_n_leaves() for t in dear.estimators_.ravel()} == {1}
    np.testing.assert_allclose(dear.predict_proba(X), np.tile(dear.predict_proba(X[:1]), (300, 1)))
    cheap = classifier(loss=loss, ccp_alpha=0.02, max_depth=5).fit(X, y)
    whole = classifier(loss=loss, max_depth=5).fit(X, y)
    sizes, all_sizes = ([t.get_n_leaves() for t in m.estimators_.ravel()] for m in (cheap, whole))
    assert 1 < np.mean(sizes) < np.mean(all_sizes) and cheap.score(X, y) > 0.8


def test_early_stopping_follows_the_pruned_trees() -> None:
    X, y = table(600)
    options: dict[str, Any] = {"n_estimators": 200, "n_iter_no_change": 3, "learning_rate": 0.5}
    model = regressor(ccp_alpha=0.002, max_depth=6, **options).fit(X, y)
    assert model.n_estimators_ == model.best_iteration_ + 4 < 200
    assert model.validation_score_.argmin() == model.best_iteration_
    watched = regressor(ccp_alpha=0.002, max_depth=6, n_estimators=9).fit(X, y, eval_set=[(X, y)])
    np.testing.assert_allclose(
        watched.evals_result_["validation_0"]["squared_error"], watched.train_score_, rtol=1e-12
    )


def test_a_warm_start_prunes_as_one_fit_does() -> None:
    X, y = table()
    whole = regressor(ccp_alpha=0.01, max_depth=5).fit(X, y)
    parts = regressor(ccp_alpha=0.01, max_depth=5, n_estimators=4, warm_start=True).fit(X, y)
    parts.set_params(n_estimators=10).fit(X, y)
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), rtol=1e-9)


# ---- one model on every device -----------------------------------------------------------------

BOOSTED: list[tuple[str, dict[str, Any]]] = [
    ("Regressor", {"loss": "squared_error", "subsample": 0.7}),
    ("Regressor", {"loss": "absolute_error", "max_leaf_nodes": 12, "ccp_alpha": 0.05}),
    ("Regressor", {"loss": "poisson", "l2_regularization": 1.0, "n_iter_no_change": 4}),
    ("Regressor", {"monotonic_cst": [1, 0, 0, 0]}),
    ("Classifier", {}),
    ("Classifier", {"multi_strategy": "multi_output_tree"}),
]


@pytest.mark.parametrize(
    ("kind", "options", "device"),
    [
        *((*case, "numba") for case in BOOSTED),
        *(pytest.param(*case, "cuda", marks=needs_compiler) for case in BOOSTED[:2]),
        *(
            pytest.param(*case, "cuda", marks=[needs_compiler, pytest.mark.slow])
            for case in BOOSTED[2:]
        ),
    ],
    ids=str,
)
def test_one_boosted_model_on_every_device(
    kind: str,
    options: dict[str, Any],
    device: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpuboost.backends.numba.boosting.level_wise_rounds.ALL_SMALL", 1)
    if device == "cuda":
        request.getfixturevalue("machine")
    X, y = grid(160)
    X[::9, 0] = np.nan
    y = np.digitize(y, [1.5, 3.0]) if kind == "Classifier" else np.maximum(y, 0.0)
    weights = np.random.default_rng(2).integers(1, 4, len(y)).astype(float)
    model = getattr(gpuboost, f"GradientBoosting{kind}")(
        n_estimators=5, max_depth=5, random_state=4, n_jobs=2, device="numpy", ccp_alpha=0.01
    ).set_params(categorical_features=[3], **options)
    expected = clone(model).fit(X, y, weights)
    found = clone(model).set_params(device=device).fit(X, y, weights)
    assert found.fingerprint() == expected.fingerprint()
    assert found.evals_result_ == expected.evals_result_
    np.testing.assert_array_equal(found.train_score_, expected.train_score_)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    whole = model.set_params(ccp_alpha=0.0).fit(X, y, weights)
    assert len(expected._ensemble.value) < 0.8 * len(whole._ensemble.value)
