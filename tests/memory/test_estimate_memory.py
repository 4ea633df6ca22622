"""`estimate_memory` is close to the peak of a fit, and accepts all parameters of estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuboost
from gpuboost import GradientBoostingClassifier, GradientBoostingRegressor, estimate_memory
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.cuda.runtime.shape_arrays import Meter
from tests import cuda_shim
from tests.memory.metered_runtime import TrackedRuntime

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


# ---- Comparison with fits on the CPU shim -------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    ("estimator", "given"),
    [
        (gpuboost.DecisionTreeClassifier(max_depth=6), {}),
        (gpuboost.DecisionTreeRegressor(max_depth=6), {"n_outputs": 2}),
        (gpuboost.RandomForestClassifier(4, max_depth=6), {"n_classes": 3}),
        (gpuboost.RandomForestClassifier(4, max_depth=6, class_weight="balanced"), {}),
        (gpuboost.RandomForestClassifier(4, max_depth=6, class_weight="balanced_subsample"), {}),
        (gpuboost.RandomForestRegressor(4, max_depth=6, max_samples=0.5), {"weighted": True}),
        (gpuboost.ExtraTreesRegressor(4, max_depth=6), {}),
        (
            gpuboost.DecisionTreeRegressor(max_depth=6, criterion="absolute_error"),
            {"weighted": True, "n_outputs": 2},
        ),
        (gpuboost.BaggingClassifier(gpuboost.DecisionTreeClassifier(max_depth=6), 3), {}),
        (
            gpuboost.BaggingRegressor(
                gpuboost.DecisionTreeRegressor(max_depth=6), 4, max_features=0.5
            ),
            {},
        ),
        (gpuboost.DecisionTreeRegressor(max_depth=9, categorical_features=[1, 4]), {}),
        (gpuboost.RandomForestRegressor(5, max_leaf_nodes=20), {}),
        (gpuboost.ExtraTreesClassifier(6, max_depth=9, categorical_features=[1, 4]), {}),
        (
            gpuboost.RandomForestClassifier(9, max_depth=9, categorical_features=[1, 4]),
            {"n_categorical": 2, "n_classes": 3},
        ),
        (gpuboost.DecisionTreeClassifier(max_depth=6), {"n_outputs": 3, "weighted": True}),
        (gpuboost.RandomForestClassifier(4, max_depth=6), {"n_classes": 4, "n_outputs": 2}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "-".join(value),
)
def test_an_estimate_is_near_the_peak_of_a_fit(
    estimator: Any, given: dict[str, Any], meter: Meter, monkeypatch: Any
) -> None:
    compare_with_a_fit(estimator, given, meter, monkeypatch)


BOOSTED: list[tuple[Any, dict[str, Any]]] = [
    (GradientBoostingRegressor(max_depth=5, loss="poisson"), {"weighted": True}),
    (GradientBoostingRegressor(max_depth=5, loss="huber", subsample=0.5), {}),
    (GradientBoostingRegressor(max_depth=6, loss="quantile", alpha=[0.2, 0.7]), {}),
    (
        GradientBoostingRegressor(max_depth=5, monotonic_cst=[1, 0, 0, 0, 0, 0]),
        {"weighted": True},
    ),
    (GradientBoostingRegressor(max_depth=5, categorical_features=[1, 4]), {"n_outputs": 3}),
    (GradientBoostingClassifier(max_depth=5, n_iter_no_change=3), {}),
    (GradientBoostingRegressor(max_depth=13, min_samples_leaf=30, n_iter_no_change=2), {}),
    (GradientBoostingClassifier(max_depth=4, interaction_cst="pairwise"), {"n_classes": 4}),
    (GradientBoostingClassifier(max_depth=None, max_leaf_nodes=31), {"n_classes": 3}),
    (GradientBoostingRegressor(max_depth=6, max_leaf_nodes=12, loss="huber"), {}),
]


@needs_compiler
@pytest.mark.parametrize(("estimator", "given"), BOOSTED, ids=map(str, range(len(BOOSTED))))
def test_an_estimate_of_boosting_is_near_the_peak(
    estimator: Any, given: dict[str, Any], meter: Meter, monkeypatch: Any
) -> None:
    estimator.set_params(n_estimators=2)
    compare_with_a_fit(estimator, given, meter, monkeypatch)


REWEIGHTED: list[tuple[Any, dict[str, Any]]] = [
    (gpuboost.AdaBoostClassifier(n_estimators=4), {}),
    (gpuboost.AdaBoostClassifier(n_estimators=4, max_depth=6), {"weighted": True, "n_classes": 3}),
    (
        gpuboost.AdaBoostClassifier(
            n_estimators=4, boosting="resampling", categorical_features=[1, 4]
        ),
        {},
    ),
    (gpuboost.AdaBoostClassifier(n_estimators=1, max_depth=5), {}),
    (
        gpuboost.AdaBoostClassifier(
            gpuboost.DecisionTreeClassifier(max_depth=4, class_weight="balanced"), n_estimators=4
        ),
        {},
    ),
    (gpuboost.AdaBoostRegressor(n_estimators=4, max_depth=6), {"weighted": True}),
    (
        gpuboost.AdaBoostRegressor(
            gpuboost.DecisionTreeRegressor(max_leaf_nodes=15), n_estimators=4
        ),
        {},
    ),
    (gpuboost.AdaBoostRegressor(n_estimators=4, max_depth=4, boosting="reweighting"), {}),
]


@needs_compiler
@pytest.mark.parametrize(("estimator", "given"), REWEIGHTED, ids=map(str, range(len(REWEIGHTED))))
def test_an_estimate_of_adaboost_is_near_the_peak(
    estimator: Any, given: dict[str, Any], meter: Meter, monkeypatch: Any
) -> None:
    compare_with_a_fit(estimator, given, meter, monkeypatch)


def compare_with_a_fit(
    estimator: Any, given: dict[str, Any], meter: Meter, monkeypatch: Any
) -> None:
    """Assert that the estimate is close to the peak of a fit on the shim."""
    from gpuboost.estimators.fitting import pipeline as template

    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6), dtype=np.float32)
    X[::7, 0] = np.nan
    X[:, 1], X[:, 4] = rng.integers(0, 4, 1500), rng.integers(0, 90, 1500)
    n_classes, n_outputs = given.get("n_classes", 2), given.get("n_outputs", 1)
    shape = (1500, n_outputs) if n_outputs > 1 else 1500
    y: Any = rng.integers(0, n_classes, shape)
    if not hasattr(estimator, "predict_proba"):
        y = rng.exponential(size=shape)
    weights = rng.uniform(0.5, 1, 1500) if given.get("weighted") else None
    backend = CudaBackend(TrackedRuntime(budget=1 << 30, n_multiprocessors=132))
    monkeypatch.setattr(template, "choose_backend", lambda device, work: backend)
    estimator.set_params(random_state=0).fit(X, y, weights)
    estimated = estimate_memory(estimator, 1500, 6, memory_budget=1 << 30, **given)
    assert abs(estimated / meter.peak - 1) < 0.15, (estimated, meter.peak)


# ---- Dependence on the arguments ----------------------------------------------------------------


def test_with_a_smaller_budget_fewer_trees_grow_at_once() -> None:
    forest = gpuboost.RandomForestClassifier(100, max_depth=12)
    whole = estimate_memory(forest, 100_000, 28)
    parts = [estimate_memory(forest, 100_000, 28, memory_budget=1 << b) for b in (26, 30, 33, 50)]
    assert parts == sorted(parts) and parts[-1] == whole
    lasting = 100_000 * (28 + 32 + 4)
    assert all(parts[i] <= (1 << b) + 1.2 * lasting for i, b in ((1, 30), (2, 33)))


def test_larger_tasks_take_more_memory() -> None:
    def estimate(rows: int = 10_000, features: int = 20, **given: Any) -> int:
        forest = gpuboost.RandomForestClassifier(10, max_depth=8)
        return estimate_memory(forest, rows, features, **given)

    least = estimate()
    assert estimate(rows=20_000) > least and estimate(features=80) > least
    assert estimate(n_classes=9) > least
    tall = gpuboost.DecisionTreeClassifier(max_depth=2)
    sizes = [estimate_memory(tall, 10**6, 20, dtype=d) for d in (np.float32, "float64")]
    assert sizes[1] > 1.5 * sizes[0] > 1.5 * 10**6 * 20 * 4
    tree = gpuboost.DecisionTreeClassifier(max_depth=8)
    assert estimate_memory(tree, 10_000, 20, weighted=True) > estimate_memory(tree, 10_000, 20)


def test_masks_of_categories_take_memory() -> None:
    tree = gpuboost.DecisionTreeClassifier(max_depth=11)
    numbers = estimate_memory(tree, 20_000, 6)
    found = estimate_memory(tree, 20_000, 6, n_categorical=2)
    assert found > numbers + 2**11 * 64
    for listed in ([0, 3], ["a", "b"], [True, False, False, True, False, False]):
        tree.set_params(categorical_features=listed)
        assert estimate_memory(tree, 20_000, 6) == found
        assert estimate_memory(tree, 20_000, 6, n_categorical=0) == numbers
    with pytest.raises(ValueError, match="n_categorical must be an integer from 0 to 6, got 7"):
        estimate_memory(tree, 20_000, 6, n_categorical=7)


def test_an_estimate_leaves_the_estimator_alone() -> None:
    state = np.random.RandomState(0)
    tree = gpuboost.DecisionTreeClassifier(max_depth=3, random_state=state)
    estimate_memory(tree, 100, 3)
    assert tree.random_state is state and not hasattr(tree, "classes_")
    assert state.randint(1000) == np.random.RandomState(0).randint(1000)


def test_an_estimate_of_histogram_boosting_is_that_of_its_boosting() -> None:
    own = gpuboost.HistGradientBoostingClassifier(max_iter=5, max_depth=4, max_leaf_nodes=None)
    same = gpuboost.GradientBoostingClassifier(n_estimators=5, max_depth=4, min_samples_leaf=20)
    assert estimate_memory(own, 10_000, 6) == estimate_memory(same, 10_000, 6)
    own.class_weight = "balanced"
    assert estimate_memory(own, 10_000, 6) == estimate_memory(same, 10_000, 6, weighted=True)


def test_estimates_of_large_tables_take_no_memory() -> None:
    tree = gpuboost.DecisionTreeClassifier(max_depth=6)
    assert estimate_memory(tree, 50_000_000, 100, memory_budget=1 << 34) > 50_000_000 * 200


def test_invalid_arguments_are_refused() -> None:
    tree = gpuboost.DecisionTreeClassifier()
    with pytest.raises(TypeError, match="estimator must be an estimator of gpuboost, got int"):
        estimate_memory(3, 10, 10)
    with pytest.raises(ValueError, match="n_samples"):
        estimate_memory(tree, 0, 10)
    with pytest.raises(ValueError, match="dtype must be"):
        estimate_memory(tree, 10, 10, dtype=np.int8)
    with pytest.raises(ValueError, match="memory_budget"):
        estimate_memory(tree, 10, 10, memory_budget=0)
    with pytest.raises(ValueError, match="max_depth"):
        estimate_memory(gpuboost.DecisionTreeClassifier(max_depth=0), 10, 10)
    for name in ("AdaBoostRegressor", "AdaBoostClassifier", "GradientBoostingClassifier"):
        with pytest.raises(ValueError, match=f"n_outputs=2 was given, but {name} has one output"):
            estimate_memory(getattr(gpuboost, name)(), 10, 10, n_outputs=2)


def test_boosting_of_many_rows_and_features_by_name() -> None:
    def estimate(n: int = 10**6, **words: Any) -> int:
        return estimate_memory(GradientBoostingRegressor(**words), n, 28, memory_budget=1 << 34)

    least = 10**6 * (28 + 32 + 3 * 8 + 16)  # codes twice, values of rows, sums of leaves
    assert least < estimate(max_depth=6) < 2 * least
    assert estimate(max_depth=6, monotonic_cst={"a": 1}) > estimate(max_depth=6)
    assert estimate(max_depth=6, interaction_cst=[["a", "b"], [3]]) > estimate(max_depth=6)
    assert estimate(max_depth=6, subsample=0.1) < estimate(max_depth=6)
    deep = estimate(max_depth=None)
    assert estimate(max_depth=None, max_leaf_nodes=31) < deep / 4
    with pytest.raises(ValueError, match="max_depth"):
        estimate(max_depth=0)
