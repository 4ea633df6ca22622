"""Reduced-error pruning beside brute force; the pruned models; paths of the members' pruning."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError

import gpuboost
from gpuboost.engine.growth.reduced_error import exact_product
from gpuboost.engine.growth.tree import Tree
from gpuboost.estimators.model.fitted import FittedTrees
from tests.estimators.estimator_cases import NAMES, data_for, make

QUICK: dict[str, Any] = {"device": "numpy", "n_jobs": 1, "random_state": 0}
CAN_PRUNE = [name for name in NAMES if "Boost" not in name]
MEMBERS = [name for name in CAN_PRUNE if "Trees" in name or "Forest" in name or "Bagging" in name]


def halves(name: str) -> tuple[np.ndarray, ...]:
    """Rows to fit on and rows to prune on."""
    X, y = data_for(name)
    return X[::2], y[::2], X[1::2], y[1::2]


# ---- the pruned tree beside brute force ----------------------------------------------------------


def losses_of_subtrees(tree: Tree, losses: list[Fraction], node: int = 0) -> list[tuple[Any, int]]:
    """Loss and number of leaves of every pruned subtree of a node."""
    found, left = [(losses[node], 1)], int(tree.left[node])
    if left:
        pairs = (losses_of_subtrees(tree, losses, child) for child in (left, left + 1))
        on_left, on_right = pairs
        found += [(a + b, n + m) for a, n in on_left for b, m in on_right]
    return found


def naive_losses(model: Any, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> list[Fraction]:
    """Loss of each node as a leaf, row by row, in rational numbers."""
    tree, is_classifier = model._ensemble.trees[0], hasattr(model, "classes_")
    nodes, values = model.decision_path(X).toarray(), model.tree_.value
    found = [Fraction(0)] * tree.node_count
    columns, weights_of = y.reshape(len(y), -1), [Fraction(float(w)) for w in weights]
    several = model.n_outputs_ > 1
    classes = [] if not is_classifier else (model.classes_ if several else [model.classes_])
    for row, node in zip(*np.nonzero(nodes), strict=True):
        for output in range(columns.shape[1]):
            if is_classifier:
                predicted = classes[output][values[node, output].argmax()]
                loss = Fraction(int(predicted != columns[row, output]))
            else:
                error = Fraction(columns[row, output]) - Fraction(values[node, output, 0])
                loss = error * error
            found[node] += weights_of[row] * loss
    return found


@settings(deadline=None, max_examples=40, print_blob=True)
@given(st.integers(0, 2**31), st.booleans(), st.booleans(), st.integers(1, 2))
def test_no_pruned_subtree_has_a_smaller_loss(
    seed: int, of_classes: bool, has_weights: bool, n_outputs: int
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (80, 3)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, 3, (80, n_outputs)) if of_classes else rng.normal(size=(80, n_outputs))
    y = y + 1e6 * (not of_classes) * bool(seed % 2)  # far from 0
    y = y[:, 0] if n_outputs == 1 else y
    weights = rng.random(40) if has_weights else np.ones(40)
    kind = gpuboost.DecisionTreeClassifier if of_classes else gpuboost.DecisionTreeRegressor
    model = kind(max_depth=3, categorical_features=[2], **QUICK).fit(X[:40], y[:40])
    few = model.prune(X[40:], y[40:], weights if has_weights else None)
    losses = naive_losses(model, X[40:], y[40:], weights)
    best = min(losses_of_subtrees(model._ensemble.trees[0], losses))
    few_losses = naive_losses(few, X[40:], y[40:], weights)
    leaves = few._ensemble.trees[0].left == 0
    found = sum(loss for loss, leaf in zip(few_losses, leaves, strict=True) if leaf)
    assert (found, few.get_n_leaves()) == best


def test_products_are_exact() -> None:
    a, b = np.random.default_rng(0).uniform(-1, 1, (2, 500))
    for x, y, product, error in zip(a, b, *exact_product(a, b), strict=True):
        assert Fraction(x) * Fraction(y) == Fraction(product) + Fraction(error)


def test_a_split_that_does_not_help_is_removed() -> None:
    X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 0, 1])
    model = gpuboost.DecisionTreeClassifier(**QUICK).fit(X, y)
    assert model.get_n_leaves() == 2
    assert model.prune([[0.0]], [0]).get_n_leaves() == 1  # a tie, by rows that never reach a leaf
    model.fit(X, [0, 0, 1, 1])
    assert model.prune([[0.0], [1.0]], [0, 1]).get_n_leaves() == 2
    assert model.prune([[0.0], [1.0]], [1, 0]).get_n_leaves() == 1
    assert model.prune([[0.0], [1.0]], [1, 1], [0.0, 1.0]).get_n_leaves() == 2


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_targets_of_any_size(scale: float) -> None:
    X, y, X_val, y_val = halves("DecisionTreeRegressor")
    weights = np.random.default_rng(0).random(len(y_val))
    shapes = [
        gpuboost.DecisionTreeRegressor(max_depth=6, **QUICK)
        .fit(X, y * unit)
        .prune(X_val, y_val * unit, weights / unit)
        .tree_.feature.tolist()
        for unit in (2.0 ** np.round(np.log2(scale)), 1.0)
    ]
    assert shapes[0] == shapes[1] and len(shapes[0]) > 1


# ---- pruned models -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CAN_PRUNE)
def test_every_tree_loses_nothing_on_the_held_out_rows(name: str) -> None:
    X, y, X_val, y_val = halves(name)
    model = make(name).fit(X, y)
    before = model.fingerprint()
    few = model.prune(X_val, y_val)
    assert model.fingerprint() == before != few.fingerprint()
    whole_trees, trees = (getattr(each, "estimators_", [each]) for each in (model, few))
    features = getattr(model, "estimators_features_", [slice(None)] * len(trees))
    sizes = [tree.tree_.node_count for tree in whole_trees], [t.tree_.node_count for t in trees]
    assert sum(sizes[1]) < sum(sizes[0]) and all(np.less_equal(sizes[1], sizes[0]))
    own_y = np.searchsorted(model.classes_, y_val) if hasattr(model, "classes_") else y_val
    for whole, tree, own in zip(whole_trees, trees, features, strict=True):
        scores = [each.score(X_val[:, own], own_y) for each in (tree, whole)]
        assert scores[0] >= scores[1] - 1e-12
        again = tree.prune(X_val[:, own], own_y)
        assert again.fingerprint() == tree.fingerprint()  # pruning again changes nothing


@pytest.mark.parametrize("name", ["RandomForestRegressor", "BaggingClassifier"])
def test_a_pruned_model_is_a_model(name: str, tmp_path: Path) -> None:
    X, y, X_val, y_val = halves(name)
    model = make(name, oob_score=True, n_estimators=30, bootstrap=True).fit(X, y)
    few = model.prune(X_val, y_val)
    assert hasattr(model, "oob_score_") and not hasattr(few, "oob_score_")
    few.save(tmp_path / "model")
    loaded, unpickled = gpuboost.load(tmp_path / "model"), pickle.loads(pickle.dumps(few))
    assert few.fingerprint() == loaded.fingerprint() == unpickled.fingerprint()
    narrow = X_val.astype(np.float32)  # scikit-learn's trees round values to this type
    for other in (loaded, unpickled, few.to_sklearn(), few.compile_predictor()):
        np.testing.assert_array_equal(other.predict(narrow), few.predict(narrow))
    assert few.shap_values(X_val[:3]).shape[:2] == (3, X.shape[1])
    assert few.set_params(random_state=1).fit(X, y).fingerprint() != loaded.fingerprint()


@pytest.mark.parametrize("name", ["ExtraTreesRegressor", "RandomForestClassifier"])
def test_devices_and_orders_of_rows_give_the_same_trees(name: str) -> None:
    X, y, X_val, y_val = halves(name)
    weights = np.random.default_rng(1).random(len(y_val))
    order = np.random.default_rng(0).permutation(len(y_val))
    rows = [(X_val, y_val, weights), (X_val[order], y_val[order], weights[order])]
    found = {
        make(name, device=device).fit(X, y).prune(*own).fingerprint()
        for device in ("numpy", "numba")
        for own in rows
    }
    assert len(found) == 1


def test_kinds_of_input() -> None:
    X, y, X_val, y_val = halves("RandomForestClassifier")
    names = np.array(["x", "y", "z"])
    model = make("RandomForestClassifier").fit(gpuboost.Dataset(X), names[y])
    by_codes = model.prune(gpuboost.Dataset(X_val, reference=gpuboost.Dataset(X)), names[y_val])
    assert by_codes.classes_.tolist() == ["x", "y", "z"]
    seen = names[y_val] != "y"  # rows of some of the classes
    assert model.prune(X_val[seen], names[y_val][seen]).n_classes_ == 3
    with pytest.raises(ValueError, match=r"y_val has the classes .*'w'.*leave out the rows"):
        model.prune(X_val[:2], ["x", "w"])
    by_numbers = make("RandomForestClassifier").fit(X, y)
    with pytest.raises(ValueError, match=r"y_val has the classes \['0', '1', '2'\]"):
        by_numbers.prune(X_val, y_val.astype(str))
    with pytest.raises(ValueError, match=r"y_val has 2 outputs, but RandomForest.* fitted on 1"):
        model.prune(X_val, np.stack([names[y_val]] * 2, axis=1))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.prune(X_val, names[y_val][1:])
    with pytest.raises(NotFittedError):
        clone(model).prune(X_val, y_val)
    # A member of an ensemble encodes its classes.
    assert model[0].prune(X_val, y_val).get_n_leaves() <= model[0].get_n_leaves()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CAN_PRUNE])
def test_boosting_says_why_it_cannot_be_pruned(name: str) -> None:
    with pytest.raises(
        TypeError, match=r"grown to correct the errors of the trees before it.*Choo"
    ):
        make(name).fit(*data_for(name)).prune(*data_for(name))


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("Hist")])
def test_histogram_boosting_says_why_it_has_no_paths(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name} has no cost_.*no parameter ccp_alpha; use Grad"):
        make(name).cost_complexity_pruning_path(*data_for(name))


def test_learners_of_scikit_learn_cannot_be_pruned() -> None:
    from sklearn.neighbors import KNeighborsRegressor

    model = gpuboost.BaggingRegressor(KNeighborsRegressor()).fit(*load_diabetes(return_X_y=True))
    with pytest.raises(TypeError, match="prune needs gpuboost's trees"):
        model.prune(*load_diabetes(return_X_y=True))


# ---- cost-complexity pruning of members ----------------------------------------------------------


def with_alpha(name: str, alpha: float) -> Any:
    """A small ensemble whose trees are pruned with ``ccp_alpha``."""
    model = make(name)
    if hasattr(model, "ccp_alpha"):
        return model.set_params(ccp_alpha=alpha)
    tree = gpuboost.DecisionTreeClassifier if name.endswith("Classifier") else None
    tree = tree or gpuboost.DecisionTreeRegressor
    return model.set_params(estimator=tree(max_depth=5, ccp_alpha=alpha))


@pytest.mark.parametrize("name", MEMBERS)
def test_paths_of_members(name: str) -> None:
    X, y = data_for(name)
    model = with_alpha(name, 0.3)
    paths = model.cost_complexity_pruning_path(X, y)
    whole = with_alpha(name, 0.0).fit(X, y)
    assert len(paths) == 5 and not hasattr(model, "estimators_")
    alpha = paths[0].ccp_alphas[len(paths[0].ccp_alphas) // 2] * 1.000001
    few = with_alpha(name, alpha).fit(X, y)
    assert few._ensemble.offset[-1] < whole._ensemble.offset[-1]
    for path, tree in zip(paths, few._ensemble.trees, strict=True):
        leaves = tree.left == 0
        impurity = (tree.impurity * tree.weight)[leaves].sum() / tree.weight[0]
        step = np.searchsorted(path.ccp_alphas, alpha, side="right") - 1
        assert impurity == pytest.approx(path.impurities[step], abs=1e-9)


@pytest.mark.parametrize("name", [name for name in NAMES if "Boost" in name and "Hist" not in name])
def test_boosting_prunes_each_tree_before_the_next(name: str) -> None:
    X, y = data_for(name)
    whole = with_alpha(name, 0.0).fit(X, y)
    paths = with_alpha(name, 1e9).cost_complexity_pruning_path(X, y)
    assert len(paths) == whole._ensemble.n_trees
    assert len(paths[0].ccp_alphas) > 1
    few = with_alpha(name, paths[0].ccp_alphas[1]).fit(X, y)
    assert few._ensemble.trees[0].node_count < whole._ensemble.trees[0].node_count
    assert np.isnan(paths[0].impurities).all() == ("Gradient" in name)


def test_paths_need_trees_and_run_no_callbacks() -> None:
    X, y = load_iris(return_X_y=True)
    called: list[Any] = []
    forest = gpuboost.RandomForestClassifier(2, callbacks=called.append, **QUICK)
    assert len(forest.cost_complexity_pruning_path(X, y)) == 2 and not called
    assert isinstance(forest.fit(X, y)._model, FittedTrees) and len(called) == 2
    from sklearn.neighbors import KNeighborsClassifier

    bagging = gpuboost.BaggingClassifier(KNeighborsClassifier())
    with pytest.raises(TypeError, match="only trees"):
        bagging.cost_complexity_pruning_path(X, y)
