"""The criterion 'absolute_error': leaves predict medians, splits use signs about the node's median.

The tests of all targets check that the backends follow the contract, on problems drawn by
`tests.engine.strategies.median_problems`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sklearn.tree
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor as TheirForest
from sklearn.metrics import mean_absolute_error

import gpuboost
from gpuboost import (
    AdaBoostRegressor,
    BaggingRegressor,
    DecisionTreeRegressor,
    ExtraTreeRegressor,
    ExtraTreesRegressor,
    RandomForestRegressor,
)
from tests.backends.test_model_parity import assert_one_model
from tests.estimators.trees.test_tree import few_values, impurity_decrease

TREE: dict[str, Any] = {"criterion": "absolute_error", "device": "numpy", "random_state": 0}
FOREST = {**TREE, "n_estimators": 5, "n_jobs": 1}


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """Weighted median, the midpoint of both middle values in a tie, by exact fractions."""
    order = np.argsort(values)
    half, reached = sum(map(Fraction, weights)) / 2, Fraction(0)
    lower = upper = None
    for value, weight in zip(values[order], map(Fraction, weights[order]), strict=True):
        reached += weight
        lower = value if lower is None and reached >= half else lower
        upper = value if upper is None and reached > half else upper
    assert lower is not None and upper is not None
    return float(0.5 * lower + 0.5 * upper)


# ---- Medians -------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["numpy", "numba"])
@pytest.mark.parametrize("weights", ["none", "whole", "real"])
def test_every_node_has_the_median_of_its_rows(weights: str, device: str) -> None:
    X, y = few_values(300, 4, 0)
    y, rng = np.rint(y / 10), np.random.default_rng(0)  # many rows at the median
    own = {
        "none": np.ones(300),
        "whole": rng.integers(0, 4, 300).astype(float),
        "real": rng.exponential(size=300),
    }[weights]
    model = DecisionTreeRegressor(**{**TREE, "device": device}, min_samples_leaf=3)
    tree = model.fit(X, y, None if weights == "none" else own).tree_
    path = model.decision_path(X).toarray().astype(bool)
    assert tree.node_count > 80
    for node in range(tree.node_count):
        inside = path[:, node] & (own > 0)
        values, weight = y[inside], own[inside]
        median = weighted_median(values, weight)
        assert tree.value[node, 0, 0] == median
        deviation = np.average(np.abs(values - median), weights=weight)
        assert tree.impurity[node] == pytest.approx(deviation, rel=1e-11, abs=1e-12)
        assert tree.weighted_n_node_samples[node] == pytest.approx(weight.sum(), rel=1e-12)
        assert tree.n_node_samples[node] == inside.sum()


def test_roots_and_stumps_are_those_of_scikit_learn() -> None:
    X = np.arange(9.0)[:, None]
    y = np.array([0.0, 1.0, 0.0, 2.0, 50.0, 51.0, 49.0, 70.0, 50.0])
    for outputs in (y, np.column_stack([y, -2.0 * y])):
        ours = DecisionTreeRegressor(**TREE, max_depth=1).fit(X, outputs).tree_
        theirs = sklearn.tree.DecisionTreeRegressor(criterion="absolute_error", max_depth=1)
        theirs = theirs.fit(X, outputs).tree_
        np.testing.assert_array_equal(ours.value, theirs.value)
        np.testing.assert_array_equal(ours.threshold[:1], theirs.threshold[:1])
        np.testing.assert_allclose(ours.impurity, theirs.impurity, rtol=1e-13)


def test_integer_weights_equal_repeated_rows() -> None:
    X, y = few_values(250, 5, 6)
    times = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = DecisionTreeRegressor(**TREE, max_depth=6).fit(X, y, times.astype(float))
    repeated = DecisionTreeRegressor(**TREE, max_depth=6).fit(X.repeat(times, 0), y.repeat(times))
    assert weighted.tree_.node_count > 40
    for name in ("feature", "threshold", "value"):
        np.testing.assert_array_equal(getattr(weighted.tree_, name), getattr(repeated.tree_, name))
    np.testing.assert_allclose(weighted.tree_.impurity, repeated.tree_.impurity, rtol=1e-12)


# ---- Splits --------------------------------------------------------------------------------------


def test_splits_depend_only_on_the_order_of_targets() -> None:
    X, y = few_values(300, 5, 1)
    trees = [
        DecisionTreeRegressor(**TREE).fit(X, target).tree_ for target in (y, np.exp(y / 20), y**3)
    ]
    assert trees[0].node_count > 300
    for other in trees[1:]:
        np.testing.assert_array_equal(other.feature, trees[0].feature)
        np.testing.assert_array_equal(other.threshold, trees[0].threshold)


def test_splits_use_signs_about_the_median_of_each_node() -> None:
    """Signs about the root's median would be equal within each child, and give no splits."""
    x = np.random.default_rng(2).permutation(128)
    model = DecisionTreeRegressor(**TREE, max_depth=7).fit(x[:, None], x * x)
    assert model.get_n_leaves() == 128
    np.testing.assert_array_equal(model.predict(x[:, None]), x * x)
    halves = model.tree_.threshold[:3]
    np.testing.assert_array_equal(halves, [63.5, 31.5, 95.5])


def test_an_outlier_costs_no_precision() -> None:
    """With squared error, all other targets count as equal, and a warning says so."""
    X, y = np.arange(40.0)[:, None], 1.0 + np.arange(40.0) * 1e-9
    y[7] = 1e200
    model = DecisionTreeRegressor(**TREE).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
    with pytest.warns(UserWarning, match="count as"):
        DecisionTreeRegressor(device="numpy").fit(X, y)


def test_equal_outputs_give_the_model_of_one() -> None:
    X, y = few_values(200, 4, 3)
    one = DecisionTreeRegressor(**TREE).fit(X, y).tree_
    two = DecisionTreeRegressor(**TREE).fit(X, np.column_stack([y, y])).tree_
    np.testing.assert_array_equal(two.threshold, one.threshold)
    np.testing.assert_array_equal(two.value[:, 1], one.value[:, 0])
    np.testing.assert_allclose(two.impurity, one.impurity, rtol=1e-12)


# ---- Impurity decreases --------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{}, {"max_leaf_nodes": 40}], ids=["all", "best first"])
def test_min_impurity_decrease_removes_splits(limits: dict[str, Any]) -> None:
    X, y = few_values(400, 5, 4)
    X[:, 4] = np.abs(X[:, 4]) // 20  # categories
    kinds = {"categorical_features": [4]}
    whole = DecisionTreeRegressor(**TREE, **kinds, **limits).fit(X, y).tree_
    least = 0.3
    model = DecisionTreeRegressor(**TREE, **kinds, **limits, min_impurity_decrease=least).fit(X, y)
    tree, pairs = model.tree_, [(0, 0)]
    assert 10 < tree.node_count < whole.node_count
    for a, b in pairs:
        for name in ("impurity", "n_node_samples", "value"):
            assert getattr(tree, name)[a] == getattr(whole, name)[b], name
        splits = whole.children_left[b] >= 0 and impurity_decrease(whole, b) >= least * len(y)
        assert (tree.children_left[a] >= 0) == splits
        if splits:
            assert tree.feature[a] == whole.feature[b]
            for side in ("children_left", "children_right"):
                pairs.append((getattr(tree, side)[a], getattr(whole, side)[b]))
        else:
            assert tree.feature[a] == -2
    assert len(pairs) == tree.node_count
    leaves = np.bincount(model.apply(X), minlength=tree.node_count)
    np.testing.assert_array_equal(leaves[tree.feature < 0], tree.n_node_samples[tree.feature < 0])


def test_importances_are_shares_of_the_decrease() -> None:
    X, y = few_values(300, 5, 5)
    model = DecisionTreeRegressor(**TREE, max_depth=5).fit(X, y)
    decrease = np.zeros(5)
    for node in np.flatnonzero(model.tree_.feature >= 0):
        decrease[model.tree_.feature[node]] += impurity_decrease(model.tree_, node)
    np.testing.assert_allclose(model.feature_importances_, decrease / decrease.sum(), rtol=1e-6)
    assert model.feature_importances_.argmax() == 2


# ---- Estimators ----------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{}, {"max_leaf_nodes": 9}, {"ccp_alpha": 0.01}])
def test_monotonic_constraints_hold(limits: dict[str, Any]) -> None:
    X, y = few_values(300, 6, 8)
    of_tree = {"criterion": "absolute_error", "monotonic_cst": [1, 0, 0, -1, 0, 0], **limits}
    tree = DecisionTreeRegressor(**of_tree)
    missing = X.astype(float)
    missing[::7, 0] = np.nan
    for given in (X, missing):
        for model in (
            DecisionTreeRegressor(**{**TREE, **of_tree}),
            BaggingRegressor(tree, n_estimators=3, device="numpy", random_state=0),
        ):
            model.fit(given, y)
            more, less = X.copy(), X.copy()
            more[:, 0] += 1
            less[:, 3] -= 1
            assert (model.predict(more) >= model.predict(X)).all()
            assert (model.predict(less) >= model.predict(X)).all()


def test_a_warm_start_adds_the_same_trees() -> None:
    X, y = few_values(120, 4, 9)
    model = RandomForestRegressor(**{**FOREST, "n_estimators": 2}, warm_start=True).fit(X, y)
    model.set_params(n_estimators=5).fit(X, y)
    assert model.fingerprint() == RandomForestRegressor(**FOREST).fit(X, y).fingerprint()


def test_out_of_bag_rows_are_predicted_by_medians() -> None:
    X, y = few_values(80, 4, 10)
    model = RandomForestRegressor(**{**FOREST, "n_estimators": 40}, oob_score=True).fit(X, y)
    total, count = np.zeros(80), np.zeros(80)
    for tree, drawn in zip(model.estimators_, model.estimators_samples_, strict=True):
        out = ~np.isin(np.arange(80), drawn)
        total[out] += tree.predict(X[out])
        count += out
    np.testing.assert_allclose(model.oob_prediction_, total / count, rtol=1e-12)


def test_base_estimators_keep_their_criterion() -> None:
    """Bagging and AdaBoost accept such base estimators, scikit-learn's trees included."""
    X, y = few_values(200, 5, 11)
    base = DecisionTreeRegressor(criterion="absolute_error", max_depth=4)
    bagged = BaggingRegressor(base, random_state=0, device="numpy").fit(X, y)
    same = RandomForestRegressor(**{**FOREST, "n_estimators": 10}, max_depth=4).fit(X, y)
    np.testing.assert_array_equal(bagged.predict(X), same.predict(X))
    theirs = sklearn.tree.DecisionTreeRegressor(criterion="absolute_error", max_depth=4)
    options = {"n_estimators": 5, "random_state": 0, "device": "numpy"}
    boosted = [AdaBoostRegressor(each, **options).fit(X, y) for each in (base, theirs)]
    assert boosted[0].fingerprint() == boosted[1].fingerprint()
    assert np.isin(boosted[0].predict(X), boosted[0]._ensemble.value).all()
    plain = AdaBoostRegressor(max_depth=4, **options).fit(X, y)
    assert plain.fingerprint() != boosted[0].fingerprint()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("RandomForestRegressor", {"max_features": 3, "min_impurity_decrease": 0.2}),
        ("ExtraTreesRegressor", {"max_leaf_nodes": 20}),
        ("AdaBoostRegressor", {"boosting": "reweighting"}),
    ],
)
def test_one_model_on_any_device(name: str, words: dict[str, Any]) -> None:
    X, y = load_diabetes(return_X_y=True)
    X[::7, 1] = np.nan
    assert_one_model(name, X, y, criterion="absolute_error", **words)


def test_several_thousand_rows_are_sampled_for_their_median() -> None:
    """The compiled selection starts from a sample of the rows and gives the same model."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(6000, 3)).astype(np.float32)
    y = np.rint(X[:, 0] * 5 + rng.standard_cauchy(6000))
    weights = rng.exponential(size=6000)
    found = [
        DecisionTreeRegressor(**{**TREE, "device": device}, max_depth=4).fit(X, y, weights)
        for device in ("numpy", "numba")
    ]
    assert found[0].fingerprint() == found[1].fingerprint()
    np.testing.assert_array_equal(found[0].tree_.impurity, found[1].tree_.impurity)


# ---- Accuracy ------------------------------------------------------------------------------------


def held_out(model: Any, seed: int, noise: str) -> float:
    """Mean absolute error on held-out rows."""
    rng, n = np.random.default_rng(seed), 500
    X = rng.normal(size=(4 * n, 5))
    signal = 2 * np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + (X[:, 3] > 0)
    draws = {"normal": rng.normal(size=4 * n), "heavy": rng.standard_t(1.3, size=4 * n)}
    y = signal + draws[noise]
    return mean_absolute_error(y[n:], model.fit(X[:n], y[:n]).predict(X[n:]))


def paired(ours: Any, other: Any, noise: str) -> tuple[float, float]:
    """Mean difference between the models' errors over eight seeds, and its standard error."""
    found = [held_out(ours, seed, noise) - held_out(other, seed, noise) for seed in range(8)]
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(len(found)))


TREE_OPTIONS = {"max_depth": 6, "min_samples_leaf": 5}
FOREST_OPTIONS = {"n_estimators": 10, "min_samples_leaf": 3, "max_features": 0.6}


@pytest.mark.parametrize("noise", ["normal", "heavy"])
@pytest.mark.parametrize("many", [False, True], ids=["tree", "forest"])
def test_held_out_error_is_that_of_scikit_learn(many: bool, noise: str) -> None:
    """The error is at most two standard errors higher."""
    options = FOREST_OPTIONS if many else TREE_OPTIONS
    ours: Any = RandomForestRegressor if many else DecisionTreeRegressor
    theirs: Any = TheirForest if many else sklearn.tree.DecisionTreeRegressor
    model = theirs(criterion="absolute_error", random_state=0, **options)
    mean, error = paired(ours(**TREE, **options), model, noise)
    assert mean < 2 * error


@pytest.mark.parametrize(
    "kind", [DecisionTreeRegressor, ExtraTreeRegressor, RandomForestRegressor, ExtraTreesRegressor]
)
def test_error_with_heavy_tails_is_lower_than_by_squared_error(kind: Any) -> None:
    options = FOREST_OPTIONS if hasattr(kind(), "n_estimators") else TREE_OPTIONS
    other = kind(device="numpy", random_state=0, **options)
    mean, error = paired(kind(**TREE, **options), other, "heavy")
    assert mean < -2 * error


def test_every_tree_regressor_accepts_absolute_error() -> None:
    X, y = few_values(60, 3, 13)
    for name in ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees"):
        model = getattr(gpuboost, f"{name}Regressor")(criterion="absolute_error", device="numpy")
        assert model.fit(X, y).score(X, y) > 0.4
    with pytest.raises(ValueError, match=r"criterion must be one of .*'absolute_error'"):
        DecisionTreeRegressor(criterion="mae").fit(X, y)
