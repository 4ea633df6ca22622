"""Partial dependence by recursion: every estimator has it, exactly, through scikit-learn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.ensemble
from sklearn.inspection import PartialDependenceDisplay, partial_dependence

import gpuboost
from gpuboost.engine.explanations import dependence

FAST = {"device": "numpy", "random_state": 0}
RNG = np.random.default_rng(0)
X = np.rint(8.0 * RNG.normal(size=(300, 4))) / 8.0  # exact in float32
Y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * RNG.normal(size=300)
CLASSES = (Y > 0).astype(int) + (Y > 1)
MANY = {"n_estimators": 4}
REGRESSORS = {
    "DecisionTreeRegressor": {},
    "ExtraTreeRegressor": {},
    "RandomForestRegressor": MANY,
    "ExtraTreesRegressor": MANY,
    "BaggingRegressor": {**MANY, "max_features": 0.5},
    "GradientBoostingRegressor": MANY,
    "HistGradientBoostingRegressor": {"max_iter": 4},
}
CLASSIFIERS = {
    "DecisionTreeClassifier": {},
    "ExtraTreeClassifier": {},
    "RandomForestClassifier": MANY,
    "ExtraTreesClassifier": {**MANY, "voting": "hard"},
    "BaggingClassifier": MANY,
    "AdaBoostClassifier": {**MANY, "max_depth": 2},
    "GradientBoostingClassifier": MANY,
    "HistGradientBoostingClassifier": {"max_iter": 4},
}
# scikit-learn's "auto" is recursion for its classes of these names.
TREES = ("DecisionTreeRegressor", "ExtraTreeRegressor", "RandomForestRegressor")
BY_ITSELF = (*TREES, "GradientBoosting", "HistGradient")


def fitted(name: str, y: Any, X: Any = X) -> Any:
    parameters = {**REGRESSORS, **CLASSIFIERS}[name]
    return getattr(gpuboost, name)(**FAST, **parameters).fit(X, y)


def naive(model: Any, values: dict[int, float]) -> np.ndarray:
    """Mean output if some features have given values, node by node: (n_outputs,)."""
    own = getattr(model, "_boosting", None) or model
    additive = own._additive_model()
    loss = getattr(own._model, "loss", None)
    by_count = loss is not None and not loss.constant_hessian
    total = np.zeros(additive.n_outputs)
    for number, tree in enumerate(additive.ensemble.trees):
        share = tree.count if by_count else tree.weight

        def mean(node: int, tree: Any = tree, share: Any = share) -> np.ndarray:
            left = int(tree.left[node])
            if not left:
                return tree.value[node]
            x = values.get(int(additive.feature_of_column[tree.feature[node]]))
            if x is None:
                both = share[left] * mean(left) + share[left + 1] * mean(left + 1)
                return both / share[node]
            goes_left = tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
            return mean(left if goes_left else left + 1)

        first, found = additive.first_output[number], mean(0)
        total[first : first + len(found)] += found
    return additive.base + total / additive.divisor


def shown_by_scikit_learn(outputs: np.ndarray, model: Any) -> np.ndarray:
    """The outputs that partial dependence has: of two probabilities, the second."""
    return outputs[1:] if len(outputs) == 2 and hasattr(model, "classes_") else outputs


@pytest.mark.parametrize("features", [[1], [(0, 1)]], ids=["one", "two"])
@pytest.mark.parametrize("name", [*REGRESSORS, *CLASSIFIERS])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_recursion_is_that_of_the_trees(name: str, features: Any, n_classes: int) -> None:
    y = np.minimum(CLASSES, n_classes - 1) if name in CLASSIFIERS else Y
    model = fitted(name, y)
    found = partial_dependence(model, X, features, method="recursion", grid_resolution=4)
    grids = np.meshgrid(*found["grid_values"], indexing="ij")
    places = np.ravel(features).tolist()
    points = zip(*(grid.ravel() for grid in grids), strict=True)
    rows = [naive(model, dict(zip(places, point, strict=True))) for point in points]
    expected = shown_by_scikit_learn(np.array(rows).T, model)
    shape = (len(expected), *grids[0].shape)
    np.testing.assert_allclose(found["average"], expected.reshape(shape), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [*REGRESSORS, *CLASSIFIERS])
def test_auto_is_what_it_is_for_scikit_learns_class(name: str) -> None:
    model, own = fitted(name, CLASSES if name in CLASSIFIERS else Y), name.startswith(BY_ITSELF)
    average = {}
    for method in ("auto", "recursion", "brute"):
        is_raw = method == "brute" and own and name in CLASSIFIERS
        response = {"response_method": "decision_function"} if is_raw else {}
        options = {"method": method, "grid_resolution": 4, **response}
        average[method] = partial_dependence(model, X[:50], [0], **options)["average"]
    same = "recursion" if own else "brute"
    np.testing.assert_array_equal(average["auto"], average[same])
    assert not np.array_equal(average["recursion"], average["brute"])


@pytest.mark.parametrize("name", ["GradientBoosting", "HistGradientBoosting", "RandomForest"])
def test_recursion_is_that_of_scikit_learn(name: str) -> None:
    """scikit-learn's boosting leaves out the baseline, which is a constant."""
    ours = fitted(f"{name}Regressor", Y)
    options = {"method": "recursion", "grid_resolution": 9}
    one, other = (
        partial_dependence(m, X, [(0, 1)], **options)["average"] for m in (ours, ours.to_sklearn())
    )
    baseline = 0.0 if name == "RandomForest" else Y.mean()
    np.testing.assert_allclose(one, other + baseline, rtol=0, atol=1e-6)  # theirs has float32 grids


def test_recursion_is_brute_force_where_features_are_independent() -> None:
    """If X is a full factorial design, the shares of rows are the same in each of its cells."""
    design = np.stack(np.meshgrid(*[np.arange(3.0)] * 3), axis=-1).reshape(-1, 3)
    y = design[:, 0] * design[:, 1] + design[:, 2]
    for model in (
        gpuboost.DecisionTreeRegressor(**FAST),
        gpuboost.GradientBoostingRegressor(n_estimators=5, **FAST),
        gpuboost.DecisionTreeClassifier(**FAST),
    ):
        model.fit(design, y)
        found = [
            partial_dependence(model, design, [0], method=method)["average"]
            for method in ("recursion", "brute")
        ]
        np.testing.assert_allclose(*found, rtol=0, atol=1e-10)


def test_trees_in_several_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted("RandomForestRegressor", Y)
    whole = partial_dependence(model, X, [0], method="recursion")["average"]
    monkeypatch.setattr(dependence, "LEVEL_BYTES", 1000)
    np.testing.assert_array_equal(
        partial_dependence(model, X, [0], method="recursion")["average"], whole
    )


def test_outputs_of_a_regression_are_rows() -> None:
    both = np.column_stack([Y, -2.0 * Y])
    model = gpuboost.RandomForestRegressor(**MANY, **FAST).fit(X, both)
    found = partial_dependence(model, X, [0], method="recursion", grid_resolution=5)["average"]
    assert found.shape == (2, 5)
    np.testing.assert_allclose(found[1], -2.0 * found[0], rtol=1e-9)


def test_a_missing_value_goes_where_the_trees_send_it() -> None:
    gone = X.copy()
    gone[RNG.random(300) < 0.3, 0] = np.nan
    model = fitted("HistGradientBoostingRegressor", np.where(np.isnan(gone[:, 0]), 3.0, Y), gone)
    found = model._compute_partial_dependence_recursion(np.array([[np.nan], [0.5]]), np.array([0]))
    expected = [naive(model, {0: np.nan})[0], naive(model, {0: 0.5})[0]]
    np.testing.assert_allclose(found[0], expected, atol=1e-12)
    assert found[0, 0] > found[0, 1] + 0.1


def frame_and_target() -> tuple[pd.DataFrame, np.ndarray]:
    colors = np.array(["red", "green", "blue"])[RNG.integers(0, 3, 300)]
    table = pd.DataFrame({"color": pd.Categorical(colors), "size": X[:, 0]})
    return table, (colors == "red") * 2.0 + X[:, 0]


def test_categories_are_given_by_name() -> None:
    table, y = frame_and_target()
    options = {"features": ["color"], "categorical_features": ["color"], "method": "recursion"}
    for model in (
        gpuboost.HistGradientBoostingRegressor(max_iter=5, **FAST),
        gpuboost.GradientBoostingClassifier(n_estimators=5, **FAST),
    ):
        model.fit(table, y > 1.0 if hasattr(model, "predict_proba") else y)
        found = partial_dependence(model, table, **options)
        assert found["grid_values"][0].tolist() == ["blue", "green", "red"]
        assert found["average"][0].argmax() == 2


def imported(kind: str) -> Any:
    theirs = getattr(sklearn.ensemble, kind)(random_state=0).fit(X, Y)
    return gpuboost.from_sklearn(theirs)


@pytest.mark.parametrize("kind", ["RandomForestRegressor", "GradientBoostingRegressor"])
def test_imported_models(kind: str) -> None:
    model = imported(kind)
    found = partial_dependence(model, X, [1], method="recursion", grid_resolution=3)
    expected = [naive(model, {1: x})[0] for x in found["grid_values"][0].tolist()]
    np.testing.assert_allclose(found["average"][0], expected, rtol=1e-12)


@pytest.mark.parametrize("from_frame", [True, False], ids=["names", "numbers"])
def test_categories_of_imported_models(from_frame: bool) -> None:
    """If only the color matters, the dependence on it is the prediction."""
    table, _ = frame_and_target()
    if from_frame:
        given: Any = table.assign(size=0.0)
        each: Any = pd.DataFrame({"color": ["blue", "green", "red"], "size": 0.0})
        grid = np.array([["blue"], ["green"], ["red"]], dtype=object)
        options: Any = {"categorical_features": "from_dtype"}
    else:
        given = np.column_stack([table["color"].cat.codes, np.zeros(300)]).astype(float)
        each, grid = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]), np.arange(3.0)[:, None]
        options = {"categorical_features": [0]}
    theirs = sklearn.ensemble.HistGradientBoostingRegressor(max_iter=5, **options)
    model = gpuboost.from_sklearn(theirs.fit(given, (table["color"] == "red") * 2.0))
    found = model._compute_partial_dependence_recursion(grid, np.array([0]))
    np.testing.assert_allclose(found[0], model.predict(each), rtol=1e-6)
    assert found[0, 2] > found[0, 0] + 0.1


def without_sum(kind: str) -> Any:
    if kind == "median":
        return gpuboost.AdaBoostRegressor(n_estimators=3, **FAST).fit(X, Y)
    init = sklearn.ensemble.RandomForestRegressor(2)
    return gpuboost.GradientBoostingRegressor(n_estimators=3, init=init, **FAST).fit(X, Y)


@pytest.mark.parametrize("kind", ["median", "init"])
def test_predictions_that_are_no_sum_of_trees_need_brute_force(kind: str) -> None:
    model = without_sum(kind)
    with pytest.raises(ValueError, match="no partial dependence by recursion; use method='brute'"):
        partial_dependence(model, X, [0], method="recursion")
    assert partial_dependence(model, X[:20], [0], grid_resolution=3)["average"].shape == (1, 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: (fitted("ExtraTreesClassifier", CLASSES), {"target": 2}),
        lambda: (fitted("BaggingRegressor", Y), {}),
        lambda: (fitted("HistGradientBoostingClassifier", CLASSES), {"target": 0}),
    ],
    ids=["forest", "bagging", "boosting"],
)
def test_the_display_of_scikit_learn_draws_it(make: Callable[[], tuple[Any, Any]]) -> None:
    from matplotlib.figure import Figure

    model, target = make()
    options = {"method": "recursion", "grid_resolution": 4, **target}
    axes = Figure().subplots(1, 2)
    shown = PartialDependenceDisplay.from_estimator(model, X, [0, (0, 1)], ax=axes, **options)
    assert len(shown.lines_.flat[0].get_xdata()) == 4 and shown.contours_.flat[1] is not None


def test_trees_import_no_ensembles_of_scikit_learn() -> None:
    """Yet scikit-learn accepts them for recursion, once it has imported its ensembles."""
    program = (
        "import sys; from gpuboost import DecisionTreeClassifier as Tree; import numpy as np; "
        "assert 'sklearn.ensemble' not in sys.modules; X = np.arange(40.0).reshape(40, 1); "
        "from sklearn.inspection import partial_dependence; "
        "print(partial_dependence(Tree().fit(X, X[:, 0] > 20), X, [0], method='recursion').average)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and "1." in done.stdout, done.stderr
