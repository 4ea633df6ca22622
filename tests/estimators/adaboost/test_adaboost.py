"""AdaBoost: theorems, comparisons with a plain implementation, and when boosting stops."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import sklearn.ensemble
import sklearn.tree
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_friedman1,
)

from gpuboost import AdaBoostClassifier, AdaBoostRegressor, DecisionTreeClassifier
from gpuboost.engine.ensembles import adaboost
from tests.estimators.adaboost.adaboost_cases import QUICK, binary, weighted_share

# ---- theorems ----------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["misclassification", "gini", "entropy"])
@pytest.mark.parametrize("learning_rate", [1.0, 0.4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_training_error_is_at_most_the_product_of_all_normalisers(
    criterion, learning_rate, weighted
):
    """Theorem 1 of Schapire and Singer (1999); at learning rate 1, Freund and Schapire (1997)."""
    X, y, weights = binary(300, 1)
    weights = weights if weighted else np.ones(len(y))
    model = AdaBoostClassifier(
        n_estimators=60, criterion=criterion, learning_rate=learning_rate, **QUICK
    )
    model.fit(X, y, weights if weighted else None)
    bounds, errors = model.training_error_bound_, model.estimator_errors_
    assert len(bounds) == len(errors) == len(model.estimators_) == 60
    for bound, found in zip(bounds, model.staged_predict(X), strict=True):
        assert weighted_share(found != y, weights) <= bound
    assert (np.diff(bounds) < 0).all() and bounds[-1] < 0.85
    if learning_rate == 1.0:
        edges = np.exp(-2 * np.cumsum((0.5 - errors) ** 2))
        assert (bounds <= edges).all()
        np.testing.assert_allclose(bounds, np.cumprod(2 * np.sqrt(errors * (1 - errors))))


@pytest.mark.parametrize("load", [load_wine, load_digits])
def test_the_bound_holds_for_several_classes(load):
    X, y = load(return_X_y=True)
    model = AdaBoostClassifier(n_estimators=25, max_depth=3, criterion="gini", **QUICK).fit(X, y)
    for bound, found in zip(model.training_error_bound_, model.staged_predict(X), strict=True):
        assert np.mean(found != y) <= bound


def stumps(X: np.ndarray) -> list[np.ndarray]:
    """Predictions of all stumps: -1 on one side of the threshold, 1 on the other, and reversed."""
    found = []
    for column in X.T:
        values = np.unique(column)
        for threshold in (values[1:] + values[:-1]) / 2:
            side = np.where(column <= threshold, -1.0, 1.0)
            found += [side, -side]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_forward_stagewise_addition_with_exponential_loss_is_adaboost(seed):
    """Friedman et al. (2000): each step minimises the sum of w exp(-y (F + beta h))."""
    X, y, weights = binary(40, seed)
    signs = np.where(y == 1, 1.0, -1.0)
    model = AdaBoostClassifier(n_estimators=12, **QUICK).fit(X, y, weights)
    raw = np.zeros(len(y))
    for t, tree in enumerate(model.estimators_):
        loss = weights * np.exp(-signs * raw)
        best = min(stumps(X), key=lambda h: math.fsum(loss[h != signs]))
        error = weighted_share(best != signs, loss)
        beta = 0.5 * math.log((1 - error) / error)
        np.testing.assert_array_equal(np.where(tree.predict(X) == 1, 1.0, -1.0), best)
        assert model.estimator_weights_[t] == pytest.approx(2 * beta, rel=1e-9)
        raw += beta * best
    total = 0.5 * model.estimator_weights_.sum()
    np.testing.assert_allclose(model.decision_function(X), 2 * raw / total, atol=1e-12)


# ---- comparison with plain Python --------------------------------------------------------------


def best_stump(X: list[list[float]], y: list[int], w: list[float], n_classes: int) -> list[int]:
    """Classes predicted by the stump with the lowest weighted error."""
    least, best = math.inf, []
    for f in range(len(X[0])):
        values = sorted({row[f] for row in X})
        for low, high in pairwise(values):
            left = [row[f] <= (low + high) / 2 for row in X]
            said = {}
            for side in (True, False):
                of_class = [
                    math.fsum(w[i] for i in range(len(y)) if left[i] == side and y[i] == k)
                    for k in range(n_classes)
                ]
                said[side] = of_class.index(max(of_class))
            found = [said[side] for side in left]
            error = math.fsum(w[i] for i in range(len(y)) if found[i] != y[i])
            if error < least:
                least, best = error, found
    return best


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("learning_rate", [1.0, 0.5])
def test_samme_matches_an_implementation_in_plain_python(n_classes, learning_rate):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(45, 3))
    signal = X[:, 0] + np.abs(X[:, 1])
    y = np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))
    weights = rng.uniform(0.5, 1.5, size=45)
    model = AdaBoostClassifier(n_estimators=8, learning_rate=learning_rate, **QUICK)
    model.fit(X, y, weights)
    rows, classes, w = X.tolist(), y.tolist(), weights.tolist()
    for t, tree in enumerate(model.estimators_):
        total = math.fsum(w)
        w = [each / total for each in w]
        found = best_stump(rows, classes, w, n_classes)
        assert tree.predict(X).tolist() == found
        wrong = [a != b for a, b in zip(found, classes, strict=True)]
        error = math.fsum(each for each, miss in zip(w, wrong, strict=True) if miss)
        vote = learning_rate * (math.log((1 - error) / error) + math.log(n_classes - 1))
        assert model.estimator_errors_[t] == pytest.approx(error, rel=1e-9)
        assert model.estimator_weights_[t] == pytest.approx(vote, rel=1e-9)
        w = [each * math.exp(vote * miss) for each, miss in zip(w, wrong, strict=True)]
    assert t == 7


@pytest.mark.parametrize("loss", ["linear", "square", "exponential"])
@pytest.mark.parametrize("boosting", ["reweighting", "resampling"])
def test_adaboost_r2_matches_an_implementation_in_plain_python(loss, boosting):
    """Drucker (1997): losses, votes, weights and the weighted median, computed from the trees."""
    X, y = make_friedman1(120, noise=2.0, random_state=1)
    model = AdaBoostRegressor(n_estimators=12, loss=loss, boosting=boosting, **QUICK).fit(X, y)
    trees = np.column_stack([tree.predict(X) for tree in model.estimators_])
    assert trees.shape == (120, 12)
    w = [1 / 120] * 120
    for t in range(12):
        misses = [abs(a - b) for a, b in zip(trees[:, t], y, strict=True)]
        ratio = [miss / max(misses) for miss in misses]
        how = {"linear": float, "square": lambda r: r * r, "exponential": lambda r: -math.expm1(-r)}
        losses = [how[loss](r) for r in ratio]
        total = math.fsum(w)
        error = math.fsum(a * b for a, b in zip(w, losses, strict=True)) / total
        vote = -math.log(error / (1 - error))
        assert model.estimator_errors_[t] == pytest.approx(error, rel=1e-9)
        assert model.estimator_weights_[t] == pytest.approx(vote, rel=1e-9)
        w = [a * math.exp(vote * (b - 1)) / total for a, b in zip(w, losses, strict=True)]
    found = model.predict(X)
    for i, row in enumerate(trees.tolist()):
        pairs = sorted(zip(row, model.estimator_weights_.tolist(), strict=True))
        half, reached, median = 0.5 * math.fsum(vote for _, vote in pairs), 0.0, -math.inf
        for value, vote in pairs:
            if reached < half:
                reached, median = reached + vote, value
        assert found[i] == median


def test_trees_of_resampling_are_fitted_to_their_draws():
    X, y, _ = binary(200, 4)
    model = AdaBoostClassifier(n_estimators=3, boosting="resampling", **QUICK).fit(X, y)
    rows = adaboost.resampled_rows(np.full(200, 1 / 200), adaboost.ADABOOST_CLASS_BITS, 0, 0)
    assert rows.weight.sum() == 200 and len(np.unique(rows.weight)) > 2
    alone = DecisionTreeClassifier(max_depth=1, criterion="misclassification", **QUICK)
    np.testing.assert_array_equal(
        model.estimators_[0].predict(X), alone.fit(X, y, rows.weight).predict(X)
    )


def test_integer_weights_are_unbiased_and_keep_small_ones():
    rng = np.random.default_rng(0)
    weights = 10.0 ** rng.uniform(-14, 0, size=5000)
    weights[::7] = 0.0
    weights /= weights.sum()
    for bits in (adaboost.ADABOOST_CLASS_BITS, adaboost.ADABOOST_VALUE_BITS):
        sums = np.zeros(5000)
        for seed in range(400):
            rows = adaboost.reweighted_rows(weights, bits, seed, 3)
            assert rows.weight.min() == 0 and rows.weight.max() <= 2**bits.largest
            np.testing.assert_array_equal(rows.inside, weights > 0)
            sums += rows.weight * rows.unit
        small = (weights > 0) & (weights * 400 / rows.unit > 1e4)
        np.testing.assert_allclose(sums[small] / 400, weights[small], rtol=0.02)
        assert sums.sum() / 400 == pytest.approx(1.0, abs=20 * 5000**0.5 * rows.unit)
    even = adaboost.reweighted_rows(np.full(8, 0.125), adaboost.ADABOOST_CLASS_BITS, 0, 0)
    assert even.inside is None and (even.weight == 2**25).all()


# ---- when to stop ------------------------------------------------------------------------------


def test_a_first_tree_worse_than_chance_is_an_error():
    """Class weights of the base tree make it misclassify more than half of the weight."""
    X, y, _ = binary(300, 2)
    y = (y & (np.arange(300) % 3 == 0)).astype(int)
    base = DecisionTreeClassifier(max_depth=1, class_weight={0: 1.0, 1: 60.0})
    alone = clone(base).set_params(**QUICK).fit(X, y)
    assert np.mean(alone.predict(X) != y) > 0.5
    with pytest.raises(ValueError, match="pass sample_weight in place of a class_weight"):
        AdaBoostClassifier(base, n_estimators=6, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="worse than random"):
        sklearn.ensemble.AdaBoostClassifier(
            sklearn.tree.DecisionTreeClassifier(max_depth=1, class_weight={0: 1.0, 1: 60.0})
        ).fit(X, y)


def test_a_later_tree_worse_than_chance_ends_the_rounds():
    """As scikit-learn does, the trees before it are kept."""
    X, y, _ = binary(300, 2)
    base = DecisionTreeClassifier(max_depth=1, class_weight={0: 1.0, 1: 3.0})
    model = AdaBoostClassifier(base, n_estimators=40, **QUICK).fit(X, y)
    assert 1 < len(model.estimators_) < 40 and (model.estimator_errors_ < 0.5).all()


def test_monotonic_trees_vote_in_their_direction():
    X, y, _ = binary(300, 2)
    base = DecisionTreeClassifier(max_depth=3, monotonic_cst=[1, 0, -1])
    model = AdaBoostClassifier(base, n_estimators=15, **QUICK).fit(X, y)
    assert len(model.estimators_) > 5
    rows = np.repeat(X[:40], 30, axis=0)
    for feature, sign in ((0, 1), (2, -1)):
        moved = rows.copy()
        moved[:, feature] = np.tile(np.linspace(-3, 3, 30), 40)
        steps = np.diff(model.decision_function(moved).reshape(40, 30), axis=1)
        assert (sign * steps >= 0).all() and steps.any()


def test_a_tree_without_errors_is_the_last():
    X, y = load_breast_cancer(return_X_y=True)
    model = AdaBoostClassifier(max_depth=None, criterion="gini", **QUICK).fit(X, y)
    assert len(model.estimators_) == 1 and model.score(X, y) == 1.0
    assert model.estimator_errors_.tolist() == [0.0] and model.estimator_weights_.tolist() == [1.0]
    assert model.training_error_bound_ == pytest.approx(math.exp(-0.5), rel=1e-15)
    X, y = load_diabetes(return_X_y=True)
    deep = AdaBoostRegressor(max_depth=None, boosting="reweighting", **QUICK).fit(X, y)
    assert len(deep.estimators_) == 1 and deep.score(X, y) == 1.0


def test_a_tree_no_better_than_chance_is_left_out():
    y = np.array([0] * 30 + [1] * 50)
    model = AdaBoostClassifier(**QUICK).fit(np.zeros((80, 2)), y)
    assert len(model.estimators_) == 1 and (model.predict(np.zeros((3, 2))) == 1).all()
    assert model.estimator_errors_.tolist() == [pytest.approx(30 / 80)]
    assert model.feature_importances_.tolist() == [0.0, 0.0]


def test_the_first_tree_must_be_better_than_chance():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5)
    y = X[:, 0] ^ X[:, 1]
    with pytest.raises(ValueError, match=r"error of 0\.5, which must be below 0\.5.*max_depth"):
        AdaBoostClassifier(**QUICK).fit(X, y)
    assert AdaBoostClassifier(max_depth=2, **QUICK).fit(X, y).score(X, y) == 1.0


def test_the_first_tree_of_a_regression_is_kept_whatever_its_error():
    y = np.array([0.0, 1.0] * 20)
    model = AdaBoostRegressor(boosting="reweighting", **QUICK).fit(np.zeros((40, 1)), y)
    assert len(model.estimators_) == 1 and model.estimator_errors_[0] >= 0.5
    np.testing.assert_allclose(model.predict(np.zeros((2, 1))), 0.5)


def test_a_huge_learning_rate_gives_finite_results():
    X, y, _ = binary(200, 3)
    model = AdaBoostClassifier(n_estimators=30, learning_rate=1e6, **QUICK).fit(X, y)
    for told in (model.estimator_weights_, model.training_error_bound_, model.decision_function(X)):
        assert np.isfinite(told).all()


@pytest.mark.parametrize("boosting", ["reweighting", "resampling"])
def test_a_huge_learning_rate_gives_finite_predictions(boosting):
    X, y = make_friedman1(60, noise=2.0, random_state=0)
    for learning_rate in (10.0, 1e3, 1e6):
        given = {"boosting": boosting, "learning_rate": learning_rate, "n_estimators": 8}
        model = AdaBoostRegressor(**given, **QUICK)
        model.fit(X, y)
        assert np.isfinite(model.estimator_weights_).all() and len(model.estimators_) > 2
        assert np.isfinite(model.predict(X)).all()


def test_rows_that_are_always_right_keep_a_positive_weight():
    X, y, _ = binary(150, 5)
    model = AdaBoostClassifier(n_estimators=300, max_depth=2, **QUICK).fit(X, y)
    assert len(model.estimators_) == 300 and np.isfinite(model.training_error_bound_).all()
    assert (model.estimators_[-1].tree_.n_node_samples[0]) == 150
