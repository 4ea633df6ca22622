"""The criterion 'poisson': its precision, comparison with scikit-learn's trees, and accuracy.

The tests of all criteria (`tests.engine.strategies`) check that backends follow the contract.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from itertools import combinations

import numpy as np
import pytest
import sklearn.tree
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_poisson_deviance

import gpuboost
from gpuboost import (
    AdaBoostRegressor,
    BaggingRegressor,
    DecisionTreeRegressor,
    ExtraTreeRegressor,
    ExtraTreesRegressor,
    RandomForestRegressor,
)
from gpuboost.engine import criteria, numerics
from gpuboost.engine.fixed_point import WeightFacts, planes_to_float
from gpuboost.engine.quantise import value_target
from tests.backends.test_model_parity import assert_one_model
from tests.estimators.trees.test_tree import SHARE_COMPARED, few_values, same_splits

REGRESSORS = [
    DecisionTreeRegressor,
    ExtraTreeRegressor,
    RandomForestRegressor,
    ExtraTreesRegressor,
]
TREE = {"criterion": "poisson", "device": "numpy", "random_state": 0}
FOREST = {**TREE, "n_estimators": 5, "n_jobs": 1}


def some_counts(n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Integer features, and counts that depend on them; many counts are zero."""
    X, signal = few_values(n_samples, 6, seed)
    rng = np.random.default_rng(seed)
    return X, rng.poisson(np.exp(np.clip(signal / 150 - 0.5, -6, 4))).astype(np.float64)


# ---- Precision of gains --------------------------------------------------------------------------


def exact_half_deviance(x: Decimal) -> Decimal:
    ratio = 1 + x
    return ratio * ratio.ln() - x if ratio > 0 else Decimal(1)


def test_half_deviance_keeps_its_precision_where_terms_cancel() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [[-1.0, np.nextafter(-1.0, 0.0), 0.25, -0.25, np.nextafter(0.25, 0.0)]]
        + [sign * 10.0 ** rng.uniform(-30, top, 300) for sign, top in ((1.0, 18), (-1.0, 0))]
    )
    found = numerics.half_deviance(x)
    with localcontext() as context:
        context.prec = 90
        expected = [exact_half_deviance(Decimal(float(value))) for value in x]
        errors = [abs(Decimal(float(a)) / b - 1) for a, b in zip(found, expected, strict=True)]
    assert max(errors) < 20 * 2.0**-52
    none = numerics.half_deviance(np.array([0.0, -0.0]))
    assert none.tolist() == [0.0, 0.0] and not np.signbit(none).any()


def gain_of(gl: int, g: int, hl: int, h: int) -> float:
    """Gain of a split with one output."""
    parts = [np.array([float(x)]) for x in (gl, g, hl, h)]
    return float(criteria.poisson_score((criteria.poisson_term(*parts), 0.0, 0.0), *parts[2:])[0])


@given(st.integers(1, 2**28), st.integers(1, 2**20), st.integers(2, 2**4))
def test_equal_means_have_a_gain_of_exactly_zero(gl: int, hl: int, times: int) -> None:
    found = gain_of(gl, gl * times, hl, hl * times)
    assert found == 0.0 and not np.signbit(found)


@given(*[st.integers(1, 2**24)] * 2, *[st.integers(1, 2**14)] * 2)
def test_gains_of_nearly_equal_means_are_accurate(gl: int, gr: int, hl: int, hr: int) -> None:
    """Holds while products are below 2**53, even where the naive formula is rounding noise."""
    for a, b in ((gr, hr), (gl * 64 + gr % 3 - 1, hl * 64)):  # any means, and nearly equal ones
        if a == 0:
            continue
        found = gain_of(gl, gl + a, hl, hl + b)
        with localcontext() as context:
            context.prec = 90
            parts = [(gl, hl, 1), (a, b, 1), (gl + a, hl + b, -1)]
            exact = sum(sign * Decimal(x) * (Decimal(x) / Decimal(y)).ln() for x, y, sign in parts)
            assert abs(Decimal(found) - exact) <= Decimal(2.0**-46) * exact + Decimal("1e-60")
        assert found == gain_of(a, gl + a, b, hl + b)  # the sides may be swapped


def test_a_side_with_only_zeros_is_not_a_valid_split() -> None:
    assert gain_of(0, 5, 3, 9) == gain_of(5, 5, 3, 9) == gain_of(0, 0, 3, 9) == -1.0
    assert gain_of(1, 5, 3, 9) > 0.0
    two = np.array([[0.0, 5.0, 3.0, 9.0], [1.0, 5.0, 3.0, 9.0]])
    terms = criteria.poisson_term(*two.T).sum(keepdims=True)
    assert criteria.poisson_score((terms, 0.0, 0.0), two[:1, 2], two[:1, 3])[0] == -1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_targets_are_not_centred(weighted: bool) -> None:
    """Quantised targets keep zeros, positive values and equal values."""
    y = np.array([[0.0, 7.0], [1e-30, 0.0], [1.0, 7.0], [0.0, 0.0], [1e6, 2.0]])
    real = np.array([0.5, 1.0, 0.25, 0.0, 0.75]) if weighted else None
    facts = WeightFacts(5.0, 1.0, real, None if real is None else real > 0.0)
    target = value_target(y, facts, criteria.POISSON)
    assert target.mean.tolist() == [0.0, 0.0]
    assert target.values[:, 0].tolist() == [0, 1, *np.rint(np.array([1.0, 0.0, 1e6]) * 2.0**8)]
    assert target.values[0, 1] == target.values[2, 1] > target.values[4, 1] > 0
    columns = planes_to_float(target.wide, target.exponents)
    by = np.ones(5) if real is None else real
    np.testing.assert_allclose(columns[:, :2], y * by[:, None], rtol=1e-15, atol=1e-12)
    scaled = np.where(y > 0.0, y * 2.0**-20, 1.0)
    expected = (scaled * np.log(scaled)).sum(axis=1) * by
    np.testing.assert_allclose(columns[:, 2], expected, rtol=1e-14, atol=1e-30)


# ---- Against scikit-learn ------------------------------------------------------------------------

LIMITS = [
    {"max_depth": 6},
    {"min_samples_leaf": 7},
    {"min_weight_fraction_leaf": 0.02},
    {"min_impurity_decrease": 0.002},
    {"max_leaf_nodes": 17},
]


@pytest.mark.parametrize("limits", LIMITS, ids=lambda limits: "-".join(limits))
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_splits_and_impurities_are_those_of_scikit_learn(limits: dict, n_outputs: int) -> None:
    X, y = some_counts(900, n_outputs)
    y = np.column_stack([y, np.abs(X[:, 4]) * (y + 0.5)])[:, :n_outputs]
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(np.float64)
    for sample_weight in (None, weights):
        ours = DecisionTreeRegressor(**TREE, **limits).fit(X, y, sample_weight)
        theirs = sklearn.tree.DecisionTreeRegressor(
            criterion="poisson", random_state=0, **limits
        ).fit(X, y, sample_weight)
        assert theirs.tree_.node_count > 10
        assert same_splits(ours.tree_, theirs.tree_) > SHARE_COMPARED
        np.testing.assert_allclose(
            ours.feature_importances_, theirs.feature_importances_, rtol=0.02, atol=0.01
        )


def test_pruning_is_that_of_scikit_learn() -> None:
    X, y = some_counts(300, 1)
    options = {"max_depth": 5, "random_state": 0}
    ours = DecisionTreeRegressor(criterion="poisson", device="numpy", **options)
    theirs = sklearn.tree.DecisionTreeRegressor(criterion="poisson", **options)
    found, expected = (m.cost_complexity_pruning_path(X, y) for m in (ours, theirs))
    assert len(expected.ccp_alphas) > 10
    np.testing.assert_allclose(found.ccp_alphas, expected.ccp_alphas, atol=1e-12)
    np.testing.assert_allclose(found.impurities, expected.impurities, rtol=1e-9)


def test_every_leaf_has_a_positive_mean() -> None:
    """Many counts are zero, and squared error makes leaves that hold only zeros."""
    X, y = some_counts(600, 3)
    model = DecisionTreeRegressor(**TREE).fit(X, y)
    assert model.predict(X).min() > 0.0 and model.tree_.n_leaves > 50
    assert DecisionTreeRegressor(device="numpy").fit(X, y).predict(X).min() == 0.0
    assert mean_poisson_deviance(y, model.predict(X)) < 0.5 * mean_poisson_deviance(
        y, np.full(len(y), y.mean())
    )


def test_an_output_with_only_zeros_allows_no_split() -> None:
    X, y = some_counts(60, 4)
    outputs = np.column_stack([y, np.zeros(60)])
    ours = DecisionTreeRegressor(**TREE).fit(X, outputs)
    theirs = sklearn.tree.DecisionTreeRegressor(criterion="poisson").fit(X, outputs)
    assert ours.tree_.node_count == theirs.tree_.node_count == 1
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-14)
    assert np.isfinite(ours.tree_.impurity).all()


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_unit_of_counts_does_not_matter(scale: float) -> None:
    """Deviance is linear in the scale of y, so impurities are `scale` times as large."""
    X, y = some_counts(300, 5)
    one = DecisionTreeRegressor(**TREE, max_depth=5).fit(X, y)
    other = DecisionTreeRegressor(**TREE, max_depth=5).fit(X, y * scale)
    np.testing.assert_array_equal(one.tree_.feature, other.tree_.feature)
    np.testing.assert_allclose(one.predict(X) * scale, other.predict(X), rtol=1e-12)
    np.testing.assert_allclose(
        one.tree_.impurity * scale, other.tree_.impurity, rtol=1e-9, atol=1e-12 * scale
    )
    assert one.tree_.impurity[0] == pytest.approx(
        0.5 * mean_poisson_deviance(y, np.full(len(y), y.mean())), rel=1e-12
    )


def test_integer_weights_equal_repeated_rows() -> None:
    X, y = some_counts(250, 6)
    times = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = DecisionTreeRegressor(**TREE, max_depth=6).fit(X, y, times.astype(float))
    repeated = DecisionTreeRegressor(**TREE, max_depth=6).fit(X.repeat(times, 0), y.repeat(times))
    for name in ("feature", "threshold", "value"):
        np.testing.assert_array_equal(getattr(weighted.tree_, name), getattr(repeated.tree_, name))


def test_categories_in_the_order_of_their_means_hold_the_best_set() -> None:
    """No other division of seven categories decreases the deviance more."""
    rng = np.random.default_rng(7)
    level = rng.integers(0, 7, 200)
    y = rng.poisson(np.array([3.0, 0.2, 1.0, 8.0, 0.5, 2.0, 0.1])[level]).astype(np.float64)
    model = DecisionTreeRegressor(**TREE, max_depth=1, categorical_features=[0])
    model.fit(level[:, None].astype(float), y)
    found = mean_poisson_deviance(y, model.predict(level[:, None].astype(float)))
    best = np.inf
    for chosen in (set(c) for size in (1, 2, 3) for c in combinations(range(7), size)):
        left = np.isin(level, list(chosen))
        means = np.where(left, y[left].mean(), y[~left].mean())
        best = min(best, mean_poisson_deviance(y, means) if means.min() > 0.0 else np.inf)
    assert found == pytest.approx(best, rel=1e-12)


# ---- Estimators ----------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", REGRESSORS)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.0, 1.0, -2.0, 4.0], r"Some value\(s\) of y are negative .* smallest value is -2; corr"),
        ([0.0, 0.0, 0.0, 0.0], "not strictly positive .* in any row of positive weight"),
    ],
)
def test_targets_that_are_no_counts_are_refused(
    estimator: type, y: list[float], message: str
) -> None:
    X = np.arange(4.0)[:, None]
    with pytest.raises(ValueError, match=message):
        estimator(criterion="poisson", device="numpy").fit(X, y)
    estimator(device="numpy").fit(X, y)


def test_counts_of_zero_weight_are_ignored() -> None:
    X, y, weight = np.arange(4.0)[:, None], [0.0, 0.0, 0.0, 4.0], [1.0, 1.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="Sum of y is not strictly positive"):
        DecisionTreeRegressor(**TREE).fit(X, y, weight)
    assert DecisionTreeRegressor(**TREE).fit(X, y[::-1], weight).predict(X)[0] > 1.0


def test_monotonic_constraints_hold() -> None:
    X, y = some_counts(500, 8)
    tree = DecisionTreeRegressor(**TREE, monotonic_cst=[1, 0, 0, 0, 0, 0]).fit(X, y)
    more = X.copy()
    more[:, 0] += 1.0
    assert (tree.predict(more) >= tree.predict(X)).all()


def test_base_estimators_keep_their_criterion() -> None:
    """Bagging and AdaBoost accept such base estimators, scikit-learn's trees included."""
    X, y = some_counts(300, 9)
    base = DecisionTreeRegressor(criterion="poisson", max_depth=4)
    bagged = BaggingRegressor(base, random_state=0, device="numpy").fit(X, y)
    same = RandomForestRegressor(
        **{**FOREST, "n_estimators": 10}, max_depth=4, max_features=None
    ).fit(X, y)
    np.testing.assert_array_equal(bagged.predict(X), same.predict(X))
    theirs = sklearn.tree.DecisionTreeRegressor(criterion="poisson", max_depth=4)
    options = {"n_estimators": 5, "random_state": 0, "device": "numpy"}
    boosted = [AdaBoostRegressor(each, **options).fit(X, y) for each in (base, theirs)]
    assert boosted[0].fingerprint() == boosted[1].fingerprint()
    assert boosted[0].predict(X).min() > 0.0
    first = AdaBoostRegressor(base, **{**options, "n_estimators": 1}, boosting="reweighting")
    alone = DecisionTreeRegressor(**TREE, max_depth=4).fit(X, y)  # the first weights are equal
    np.testing.assert_allclose(first.fit(X, y).predict(X), alone.predict(X), rtol=1e-12)


@pytest.mark.parametrize("name", ["ExtraTreesRegressor", "AdaBoostRegressor"])
def test_one_model_on_any_device(name: str) -> None:
    X, y = some_counts(300, 10)
    X[::7, 1] = np.nan
    words = {"max_features": 2} if name == "ExtraTreesRegressor" else {}
    assert_one_model(name, X, y, criterion="poisson", **words)


# ---- Accuracy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "wins"),
    [
        ("DecisionTreeRegressor", {"max_leaf_nodes": 8}, True),
        ("DecisionTreeRegressor", {"max_depth": 6, "min_samples_leaf": 20}, False),
        ("RandomForestRegressor", {"n_estimators": 5, "min_samples_leaf": 10}, True),
    ],
)
def test_held_out_deviance_is_not_worse_than_by_squared_error(
    name: str, options: dict, wins: bool
) -> None:
    """Over eight seeds, the deviance is lower, or at most two standard errors higher."""
    differences = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2400, 4))
        rate = np.exp(1.2 * X[:, 0] - 1.5 + np.where(X[:, 1] > 1, 1.5 * np.abs(X[:, 2]), 0.0))
        y = rng.poisson(rate).astype(np.float64)
        found = []
        for criterion in ("poisson", "squared_error"):
            model = getattr(gpuboost, name)(
                criterion=criterion, random_state=0, device="numpy", **options
            )
            model.fit(X[:1200], y[:1200])
            found.append(mean_poisson_deviance(y[1200:], np.maximum(model.predict(X[1200:]), 0.01)))
        differences.append(found[0] - found[1])
    mean, error = np.mean(differences), np.std(differences, ddof=1) / np.sqrt(len(differences))
    assert mean < (0.0 if wins else 2.0 * error)


def test_targets_whose_sum_overflows_are_refused() -> None:
    y = np.full(300, 1e306)
    with pytest.raises(ValueError, match="Scale the target down"):
        DecisionTreeRegressor(criterion="poisson", device="numpy").fit(np.arange(300)[:, None], y)
