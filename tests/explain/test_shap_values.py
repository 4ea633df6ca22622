"""SHAP values of trees: against their definition, and equal on all backends."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuboost
from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numba.explain import explain as numba_explain
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.explanations import additive
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.explanations.quadrature import gauss_legendre, shapley_weights
from gpuboost.engine.growth.tree import Tree
from gpuboost.estimators.fitting.explanations import additive_model
from tests.explain import naive_shap

N_FEATURES = 5


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    """Rows with missing values and, in the last column, categories."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, N_FEATURES))
    X[rng.random(X.shape) < 0.15] = np.nan
    X[:, -1] = rng.integers(0, 9, len(X))
    known = np.nan_to_num(X)
    y = known[:, 0] * known[:, 1] + np.sin(3 * known[:, 2]) + (known[:, -1] % 3)
    return X, y + 0.1 * rng.standard_normal(len(X))


def tree_of(depth: int, table: tuple[np.ndarray, np.ndarray], n_outputs: int = 1) -> object:
    X, y = table
    targets = y if n_outputs == 1 else np.stack([(k + 1) * y**2 + k for k in range(n_outputs)], 1)
    model = gpuboost.DecisionTreeRegressor(max_depth=depth, categorical_features=[N_FEATURES - 1])
    return model.fit(X, targets)


@pytest.mark.parametrize("depth", [0, 1, 2, 4, 7])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_values_and_interactions_are_those_of_the_definition(table, depth: int, n_outputs: int):
    model = tree_of(max(depth, 1), table, n_outputs)
    if depth == 0:
        model = gpuboost.DecisionTreeRegressor().fit(
            table[0], np.full((len(table[0]), n_outputs), 2.0)
        )
    tree, rows = model._ensemble.trees[0], table[0][:6]
    found, pairs = model.shap_values(rows), model.shap_interaction_values(rows)
    largest = max(1.0, np.abs(tree.value).max())
    for row, own, both in zip(rows, found, pairs, strict=True):
        game = naive_shap.path_dependent(tree, row)
        values = naive_shap.shapley_values(game, N_FEATURES).reshape(own.shape)
        assert np.abs(own - values).max() <= 1e-12 * largest
        wanted = naive_shap.interactions(game, N_FEATURES).reshape(both.shape)
        assert np.abs(both - wanted).max() <= 1e-12 * largest


@pytest.mark.parametrize("depth", [1, 3, 7])
def test_interventional_values_are_those_of_the_definition(table, depth: int):
    model, (X, _) = tree_of(depth, table), table
    found = model.shap_values(X[:6], background=X[50:57])
    for row, own in zip(X[:6], found, strict=True):
        game = naive_shap.interventional(model.predict, row, X[50:57])
        wanted = naive_shap.shapley_values(game, N_FEATURES)
        assert np.abs(own - wanted).max() <= 1e-12 * np.abs(wanted).max()


def chain(depth: int, n_features: int) -> Tree:
    """A tree whose right children split again, on the features in turn."""
    rng, m = np.random.default_rng(depth), 2 * depth + 1
    inner = np.arange(0, m - 1, 2)
    feature, left = np.full(m, -1, np.int32), np.zeros(m, np.int32)
    feature[inner], left[inner] = np.arange(depth) % n_features, inner + 1
    weight = np.ones(m)
    for node in inner:
        share = rng.uniform(0.05, 0.95)
        weight[node + 1 : node + 3] = weight[node] * np.array([share, 1 - share])
    threshold = np.full(m, np.nan)
    threshold[inner] = rng.uniform(0.1, 0.6, depth)
    nothing = {"category": np.full(m, -1, np.int32), "masks": np.zeros((0, 8), np.uint32)}
    return Tree(
        **{"feature": feature, "left": left, "threshold": threshold, "weight": weight, **nothing},
        value=rng.standard_normal((m, 1)),
        code=np.zeros(m, np.int16),
        missing_left=np.zeros(m, bool),
        impurity_decrease=np.zeros(m),
        impurity=np.zeros(m),
        count=np.ones(m, np.int64),
    )


@pytest.mark.parametrize("n_features", [60, 30])
def test_paths_of_60_splits_are_exact(n_features: int):
    tree = chain(60, n_features)
    model = AdditiveModel(
        ensemble=Ensemble.of([tree]),
        cover=tree.weight,
        first_output=np.zeros(1, np.int32),
        base=np.zeros(1),
        divisor=1.0,
        feature_of_column=np.arange(n_features),
        n_features=n_features,
    )
    rows = np.random.default_rng(1).random((2, n_features)) ** 0.2  # most pass most splits
    found = NumpyBackend().shap_values(model, rows, 1)
    assert np.array_equal(found, NumbaBackend().shap_values(model, rows, 1))
    for row, own in zip(rows, found / model.scale(), strict=True):
        for feature in (0, n_features // 2, n_features - 1):
            assert abs(own[feature, 0] - naive_shap.exact_value(tree, row, feature)) <= 1e-14


def models(table) -> list:
    """One of each way in which trees add up to outputs."""
    X, y = table
    classes = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    few = {"n_estimators": 3, "random_state": 0}
    categories = {"categorical_features": [N_FEATURES - 1]}
    return [
        gpuboost.RandomForestRegressor(**few, **categories).fit(X, np.stack([y, y**2], axis=1)),
        gpuboost.RandomForestClassifier(**few, max_depth=6).fit(X, classes),
        gpuboost.ExtraTreesClassifier(**few, voting="hard", max_depth=5).fit(X, classes > 0),
        gpuboost.GradientBoostingClassifier(**few, **categories).fit(X, classes),
        gpuboost.AdaBoostClassifier(**few, max_depth=2).fit(X, classes),
    ]


@pytest.mark.parametrize("number", range(5))
def test_numba_has_the_bits_of_numpy(table, number: int):
    model, X = additive_model(models(table)[number]), table[0]
    numpy, numba = NumpyBackend(), NumbaBackend()
    rows, other = X[:130], X[200:204]
    wanted = numpy.shap_values(model, rows, 1)
    for n_threads in (1, 3):
        assert np.array_equal(wanted, numba.shap_values(model, rows, n_threads))
    parts = [numba.shap_values(model, rows[k : k + 50], 1) for k in range(0, 130, 50)]
    assert np.array_equal(wanted, np.concatenate(parts))
    assert np.array_equal(wanted[:1], numba.shap_values(model, np.asfortranarray(rows[:1]), 1))
    pairs = numpy.shap_interactions(model, rows[:70], 1)
    assert np.array_equal(pairs, numba.shap_interactions(model, rows[:70], 2))
    assert np.array_equal(pairs, pairs.transpose(0, 2, 1, 3))
    assert np.array_equal(pairs.sum(axis=2), wanted[:70])
    against = numpy.interventional_shap(model, rows, other, 1)
    assert np.array_equal(against, numba.interventional_shap(model, rows, other, 2))


def test_trees_that_are_not_kept_give_the_same_values(table, monkeypatch):
    wanted, rows = models(table)[1].shap_values(table[0]), table[0]
    monkeypatch.setattr(additive, "KEPT_BYTES", 0)
    monkeypatch.setattr(numba_explain, "EDGES_OF_A_GROUP", 1)
    assert np.array_equal(models(table)[1].set_params(device="numba").shap_values(rows), wanted)


@given(n=st.integers(1, 40))
@settings(max_examples=15, deadline=None)
def test_quadrature_is_exact_up_to_degree_2n_minus_1(n: int):
    nodes, weights = gauss_legendre(n)
    assert ((nodes > 0) & (nodes < 1)).all() and (np.diff(nodes) > 0).all()
    for degree in range(2 * n):
        terms = [
            Fraction(float(w)) * Fraction(float(t)) ** degree
            for t, w in zip(nodes, weights, strict=True)
        ]
        assert abs(sum(terms) - Fraction(1, degree + 1)) < Fraction(1, 2**50)


def test_shapley_weights_of_a_leaf_add_up():
    """With no other row, the leaf's value is divided among its features, and so on by symmetry."""
    weights = shapley_weights(30)
    for a in range(1, 31):
        assert abs(a * weights[a, 0] - 1.0) < 1e-15
        for b in range(31 - a):  # what features of one row gain, those of the other lose
            difference = a * weights[a, b] - b * weights[b, a]
            assert abs(difference) < 1e-15 or b == 0
