"""Single trees: comparison with scikit-learn's trees, and invariance to changes of the data."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.tree
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.inspection import partial_dependence

import gpuboost
from gpuboost import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)


def few_values(n_samples: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Integer features with at most 200 values each, and a noisy target."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-100, 100, size=(n_samples, n_features)).astype(np.float64)
    y = X[:, 0] * X[:, 1] / 50 + 3 * X[:, 2] + rng.normal(scale=40, size=n_samples)
    return X, y


def as_classes(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Classes of equal size, by the rank of y."""
    return np.argsort(np.argsort(y)) * n_classes // len(y)


def impurity_decrease(tree, node: int) -> float:
    """Weighted impurity decrease of a split."""
    left, right = tree.children_left[node], tree.children_right[node]
    weighted = tree.impurity * tree.weighted_n_node_samples
    return weighted[node] - weighted[left] - weighted[right]


def same_splits(ours, theirs) -> float:
    """Compare two trees from the root down, and return the share of ``theirs`` that was compared.

    Where the splits differ, both must decrease the impurity equally: they tie.
    """
    stack, compared, tiny = [(0, 0)], 0, 1e-9 * theirs.impurity[0]
    while stack:
        a, b = stack.pop()
        compared += 1
        assert ours.n_node_samples[a] == theirs.n_node_samples[b]
        np.testing.assert_allclose(ours.impurity[a], theirs.impurity[b], rtol=1e-7, atol=tiny)
        np.testing.assert_allclose(ours.value[a], theirs.value[b], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            ours.weighted_n_node_samples[a], theirs.weighted_n_node_samples[b], rtol=1e-12
        )
        pure = theirs.impurity[b] < tiny
        if ours.feature[a] == theirs.feature[b] and ours.threshold[a] == theirs.threshold[b]:
            if ours.feature[a] >= 0:
                stack.append((ours.children_left[a], theirs.children_left[b]))
                stack.append((ours.children_right[a], theirs.children_right[b]))
        elif not pure:
            assert ours.feature[a] >= 0 and theirs.feature[b] >= 0
            assert impurity_decrease(ours, a) == pytest.approx(
                impurity_decrease(theirs, b), rel=1e-6, abs=tiny
            )
    return compared / theirs.node_count


SHARE_COMPARED = 0.7  # splits of small nodes often tie, and nodes below are not compared
LIMITS = [
    {"max_depth": 6},
    {"min_samples_leaf": 7},
    {"min_samples_split": 0.05, "min_samples_leaf": 0.01},
    {"min_weight_fraction_leaf": 0.02},
    {"min_impurity_decrease": 0.002},
    {"max_leaf_nodes": 17},
]


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("criterion", ["gini", "entropy", "log_loss"])
def test_classifier_chooses_the_splits_of_scikit_learn(limits, n_classes, criterion):
    X, y = few_values(1500, 6, seed=n_classes)
    y = as_classes(y, n_classes)
    params = {"criterion": criterion, "random_state": 0, **limits}
    ours = DecisionTreeClassifier(device="numpy", **params).fit(X, y)
    theirs = sklearn.tree.DecisionTreeClassifier(**params).fit(X, y)
    assert same_splits(ours.tree_, theirs.tree_) > SHARE_COMPARED
    decrease = np.zeros(6)
    for node in np.flatnonzero(ours.tree_.feature >= 0):
        decrease[ours.tree_.feature[node]] += impurity_decrease(ours.tree_, node)
    np.testing.assert_allclose(ours.feature_importances_, decrease / decrease.sum(), rtol=1e-6)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_regressor_chooses_the_splits_of_scikit_learn(limits, n_outputs):
    X, y = few_values(1500, 6, seed=n_outputs)
    y = np.column_stack([y, y**2, -y + X[:, 3]])[:, :n_outputs]
    if "min_impurity_decrease" in limits:
        limits = {"min_impurity_decrease": 0.002 * float(y.var(axis=0).mean())}
    ours = DecisionTreeRegressor(device="numpy", random_state=0, **limits).fit(X, y)
    theirs = sklearn.tree.DecisionTreeRegressor(random_state=0, **limits).fit(X, y)
    assert same_splits(ours.tree_, theirs.tree_) > SHARE_COMPARED
    assert ours.predict(X).shape == theirs.predict(X).shape


def test_weighted_splits_are_those_of_scikit_learn():
    X, y = few_values(1200, 5, seed=3)
    weights = np.random.default_rng(0).integers(0, 5, size=len(y))
    for ours, theirs, target in (
        (DecisionTreeRegressor, sklearn.tree.DecisionTreeRegressor, y),
        (DecisionTreeClassifier, sklearn.tree.DecisionTreeClassifier, as_classes(y, 3)),
    ):
        a = ours(device="numpy", max_depth=7, random_state=0).fit(X, target, weights)
        b = theirs(max_depth=7, random_state=0).fit(
            X[weights > 0], target[weights > 0], weights[weights > 0]
        )
        assert same_splits(a.tree_, b.tree_) > SHARE_COMPARED


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 7.5, 2: 0.25}])
def test_class_weight_is_a_sample_weight(class_weight):
    X, y = few_values(600, 4, seed=4)
    y = np.digitize(y, [-100, 200])
    counts = np.bincount(y)
    of_class = len(y) / (3 * counts) if class_weight == "balanced" else np.array([1.0, 7.5, 0.25])
    weighted = DecisionTreeClassifier(device="numpy", random_state=0, class_weight=class_weight)
    plain = DecisionTreeClassifier(device="numpy", random_state=0)
    one = weighted.fit(X, y).fingerprint()
    # Weights also influence bin edges, but here every value has its own bin.
    assert one == plain.fit(X, y, of_class[y]).fingerprint()


def test_tree_arrays_have_the_shapes_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    ours = DecisionTreeClassifier(device="numpy").fit(X, y).tree_
    theirs = sklearn.tree.DecisionTreeClassifier().fit(X, y).tree_
    for name in dir(theirs):
        if name.startswith("_"):
            continue
        a, b = getattr(ours, name), getattr(theirs, name)
        if isinstance(b, np.ndarray) and b.ndim:
            assert a.dtype == b.dtype and a.shape[1:] == b.shape[1:], name
            assert name == "n_classes" or len(a) == ours.node_count, name
    leaves = ours.children_left == -1
    assert (ours.children_right[leaves] == -1).all() and (ours.feature[leaves] == -2).all()
    assert (ours.threshold[leaves] == -2).all() and (ours.n_node_samples > 0).all()
    assert ours.n_leaves == leaves.sum() and ours.n_leaves * 2 - 1 == ours.node_count
    assert ours.compute_node_depths().max() == ours.max_depth + 1
    np.testing.assert_allclose(ours.value.sum(axis=2), 1.0)


def test_tree_arrays_describe_the_predictions():
    X, y = load_diabetes(return_X_y=True)
    model = DecisionTreeRegressor(device="numpy", max_depth=5).fit(X, y)
    tree, leaves = model.tree_, model.apply(X)
    np.testing.assert_array_equal(tree.value[leaves, 0, 0], model.predict(X))
    np.testing.assert_array_equal(tree.predict(X)[:, 0, 0], model.predict(X))
    np.testing.assert_array_equal(tree.apply(X), leaves)
    np.testing.assert_array_equal(
        np.bincount(leaves, minlength=tree.node_count)[leaves], tree.n_node_samples[leaves]
    )
    for row, leaf in zip(X[:50], leaves[:50], strict=True):
        node = 0
        while tree.children_left[node] >= 0:
            left = row[tree.feature[node]] <= tree.threshold[node]
            node = tree.children_left[node] if left else tree.children_right[node]
        assert node == leaf


def test_decision_path_walks_from_the_root_to_the_leaf():
    X, y = load_diabetes(return_X_y=True)
    model = DecisionTreeRegressor(device="numpy", max_depth=6).fit(X, y)
    path, tree = model.decision_path(X), model.tree_
    assert isinstance(path, csr_matrix) and path.shape == (len(X), tree.node_count)
    assert path.has_sorted_indices
    np.testing.assert_array_equal(path.sum(axis=0).A1, tree.n_node_samples)
    depth = tree.compute_node_depths()
    np.testing.assert_array_equal(path.sum(axis=1).A1, depth[model.apply(X)])
    np.testing.assert_array_equal(tree.decision_path(X).toarray(), path.toarray())


def test_export_functions_of_scikit_learn_take_our_trees():
    X, y = load_breast_cancer(return_X_y=True)
    ours = DecisionTreeClassifier(device="numpy", max_depth=2, random_state=0).fit(X, y)
    text = sklearn.tree.export_text(ours)
    assert text.count("class:") == ours.get_n_leaves()
    assert "digraph" in sklearn.tree.export_graphviz(ours)
    regressor = DecisionTreeRegressor(device="numpy", max_depth=2).fit(X, y)
    assert sklearn.tree.export_text(regressor).count("value:") == regressor.get_n_leaves()


def test_plot_tree_of_scikit_learn_takes_our_trees():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = load_breast_cancer(return_X_y=True)
    ours = DecisionTreeClassifier(device="numpy", max_depth=2, random_state=0).fit(X, y)
    assert len(sklearn.tree.plot_tree(ours)) >= ours.tree_.node_count


@pytest.mark.parametrize("features", [[2], [0, 2]])
def test_partial_dependence_by_recursion_is_that_of_scikit_learn(features):
    X, y = few_values(400, 4, seed=9)
    ours = DecisionTreeRegressor(device="numpy", max_depth=4, random_state=0).fit(X, y)
    theirs = sklearn.tree.DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, y)
    grids = {"features": features, "method": "recursion", "grid_resolution": 9}
    a, b = (partial_dependence(m, X, kind="average", **grids) for m in (ours, theirs))
    np.testing.assert_allclose(a["average"], b["average"], rtol=1e-9)


# ---- the same tree on changed data -------------------------------------------------------------


def test_a_monotone_transform_of_a_feature_changes_nothing_but_thresholds():
    X, y = few_values(800, 5, seed=5)
    warped = X.copy()
    warped[:, 1] = np.exp(X[:, 1] / 20)
    for model in (
        DecisionTreeRegressor(device="numpy", random_state=0),
        DecisionTreeRegressor(device="numpy", random_state=0, max_features=2),
    ):
        a = model.fit(X, y).predict(X)
        np.testing.assert_array_equal(a, model.fit(warped, y).predict(warped))


@pytest.mark.parametrize("model", [DecisionTreeRegressor, ExtraTreeRegressor])
def test_row_order_changes_nothing(model):
    X, y = few_values(800, 5, seed=6)
    order = np.random.default_rng(1).permutation(len(y))
    one = model(device="numpy", random_state=3).fit(X, y)
    other = model(device="numpy", random_state=3).fit(X[order], y[order])
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_repeated_rows_equal_integer_weights(kind):
    X, y = few_values(700, 5, seed=7)
    repeats = np.random.default_rng(2).integers(0, 4, size=len(y))
    if kind == "classes":
        y, model = as_classes(y, 3), DecisionTreeClassifier(device="numpy", random_state=0)
    else:
        y, model = np.rint(y), DecisionTreeRegressor(device="numpy", random_state=0)
    weighted = model.fit(X, y, repeats).tree_
    repeated = model.fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats)).tree_
    for name in ("feature", "threshold", "children_left", "weighted_n_node_samples"):
        np.testing.assert_array_equal(getattr(weighted, name), getattr(repeated, name))
    # Targets are centred on the mean of all rows, which differs, so values differ by rounding.
    np.testing.assert_allclose(weighted.value, repeated.value, rtol=1e-12, atol=1e-12)


def test_categories_split_as_one_hot_columns_do():
    rng = np.random.default_rng(8)
    level = rng.integers(0, 4, size=600)
    X = np.column_stack([level, rng.integers(0, 50, size=600)]).astype(np.float64)
    y = (level == 2) * 10.0 + (level == 0) * 3.0 + X[:, 1] / 10
    one_hot = np.column_stack([level[:, None] == np.arange(4), X[:, 1]]).astype(np.float64)
    params = {"device": "numpy", "max_depth": 4, "random_state": 0}
    native = DecisionTreeRegressor(categorical_features=[0], **params).fit(X, y)
    encoded = DecisionTreeRegressor(**params).fit(one_hot, y)
    np.testing.assert_allclose(native.predict(X), encoded.predict(one_hot), rtol=1e-12)


def test_tree_has_the_categories_of_a_split():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 12, size=(500, 1)).astype(np.float64)
    y = np.isin(X[:, 0], [1, 5, 7, 11]) * 1.0
    model = DecisionTreeRegressor(categorical_features=[0], device="numpy", max_depth=1).fit(X, y)
    tree = model.tree_
    assert tree.is_categorical.tolist() == [True, False, False] and tree.feature[0] == 0
    left = set(tree.categories_left(0).tolist()) & set(range(12))  # others go with missing values
    assert left in ({1, 5, 7, 11}, set(range(12)) - {1, 5, 7, 11})
    with pytest.raises(ValueError, match="not a categorical split"):
        tree.categories_left(1)
    grid, out = np.array([[1.0], [2.0]]), np.zeros(2)
    tree.compute_partial_dependence(grid, np.array([0]), out)
    np.testing.assert_array_equal(out, model.predict(grid))


def test_missing_values_are_used_in_splits():
    X, y = few_values(900, 3, seed=11)
    rng = np.random.default_rng(3)
    gone = rng.random(len(y)) < 0.3
    y = y + 500 * gone
    X[gone, 0] = np.nan
    model = DecisionTreeRegressor(device="numpy", max_depth=3).fit(X, y)
    theirs = sklearn.tree.DecisionTreeRegressor(max_depth=3).fit(X, y)
    assert model.score(X, y) >= theirs.score(X, y) - 1e-9
    assert model.tree_.feature[0] == 0


def test_xor_is_split_although_the_first_split_has_no_gain():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)
    y = [0, 1, 1, 0]
    model = DecisionTreeClassifier(device="numpy", random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0 and model.get_depth() == 2


@pytest.mark.parametrize("model", [ExtraTreeClassifier, ExtraTreeRegressor])
def test_random_thresholds_depend_on_the_seed_and_fit_the_data(model):
    X, y = few_values(500, 4, seed=12)
    y = as_classes(y, 2)
    prints = {model(device="numpy", random_state=s).fit(X, y).fingerprint() for s in range(5)}
    assert len(prints) == 5
    assert model(device="numpy", random_state=0).fit(X, y).score(X, y) == 1.0


def test_friedman_mse_warns_and_is_squared_error():
    X, y = few_values(100, 3, seed=0)
    with pytest.warns(FutureWarning, match="friedman_mse"):
        old = DecisionTreeRegressor(criterion="friedman_mse", device="numpy", random_state=0)
    new = DecisionTreeRegressor(device="numpy", random_state=0).fit(X, y)
    assert old.fit(X, y).fingerprint() == new.fingerprint()
    changed = DecisionTreeRegressor(device="numpy", random_state=0)
    with pytest.warns(FutureWarning, match="friedman_mse"):
        changed.set_params(criterion="friedman_mse").fit(X, y)
    assert changed.fingerprint() == new.fingerprint()


def test_misclassification_criterion():
    X, y = few_values(800, 4, seed=13)
    y = as_classes(y, 3)
    model = DecisionTreeClassifier(criterion="misclassification", device="numpy").fit(X, y)
    assert model.score(X, y) == 1.0
    tree = model.tree_
    np.testing.assert_allclose(tree.impurity, 1 - tree.value[:, 0].max(axis=1))


def test_twoing_of_two_classes_is_gini():
    X, y = few_values(800, 4, seed=13)
    y = as_classes(y, 2)
    twoing, gini = (
        DecisionTreeClassifier(
            criterion=criterion, device="numpy", max_depth=5, random_state=0
        ).fit(X, y)
        for criterion in ("twoing", "gini")
    )
    assert twoing.fingerprint() == gini.fingerprint()
    np.testing.assert_array_equal(twoing.feature_importances_, gini.feature_importances_)


@pytest.mark.parametrize("name", ["DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees"])
@pytest.mark.parametrize(
    ("kind", "criterion"),
    [
        *(("Classifier", each) for each in ("gini", "entropy")),
        *(("Regressor", each) for each in ("squared_error", "absolute_error", "poisson")),
    ],
)
@pytest.mark.parametrize("direction", [1, -1])
def test_monotonic_constraints_hold_everywhere(name, kind, criterion, direction):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=400)
    y = y > 0 if kind == "Classifier" else np.exp(y) if criterion == "poisson" else y
    parameters = {"criterion": criterion, "monotonic_cst": [direction, 0, 0], "random_state": 0}
    models = [
        getattr(gpuboost, name + kind)(**parameters, device=device).fit(X, y)
        for device in ("numpy", "numba")
    ]
    assert models[0].fingerprint() == models[1].fingerprint()
    model = models[0]
    grid, line = np.linspace(-3, 3, 100), np.zeros((100, 3))
    line[:, 0] = grid
    for rest in rng.normal(size=(20, 2)):
        line[:, 1:] = rest
        values = model.predict_proba(line)[:, 1] if kind == "Classifier" else model.predict(line)
        assert (direction * np.diff(values) >= 0).all()


def test_monotonic_constraints_that_cannot_be_kept_are_refused():
    X, y = load_iris(return_X_y=True)
    tree = DecisionTreeClassifier(monotonic_cst=[1, 0, 0, 0])
    with pytest.raises(ValueError, match="not supported with multiclass classification"):
        tree.fit(X, y)
    with pytest.raises(ValueError, match="needs criterion 'gini', 'entropy'"):
        tree.set_params(criterion="twoing").fit(X, y > 0)
