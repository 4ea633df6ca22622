"""AdaBoost with the CUDA kernels, run on the CPU, fits NumPy's models to the last bit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuboost import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
)
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.cuda.runtime.source import file_text
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.ensembles import adaboost
from gpuboost.engine.ensembles.adaboost import WeightBits
from tests import cuda_shim
from tests.cuda.adaboost.test_cuda_row_weights import resampled
from tests.cuda.shim_runtime import ShimRuntime
from tests.engine.exact import assert_equal_models
from tests.fakes.gpu_arrays import to_gpu

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

Fit = Callable[..., Any]
FACTS = ("estimator_errors_", "estimator_weights_", "training_error_bound_")


def table(n: int = 120, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Features with missing values, one categorical; classes, or numbers if ``n_classes`` is 0."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4))
    X[:, 1] = rng.integers(9, size=n)
    signal = X[:, 0] + (X[:, 1] % 3) + 0.4 * rng.normal(size=n)
    X[rng.random(X.shape) < 0.15] = np.nan
    if n_classes == 0:
        return X, signal
    return X, np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))


def weights_of(kind: str, n: int = 120) -> np.ndarray | None:
    """Sample weights, some of them 0."""
    rng = np.random.default_rng(2)
    if kind == "real":
        return rng.exponential(size=n) * (rng.random(n) < 0.9)
    return rng.integers(4, size=n).astype(float) if kind == "counts" else None


def assert_same_fit(
    fit_on: Fit, make: Callable[[], Any], *data: Any, **runtime: Any
) -> ShimRuntime:
    """Assert equal fits on NumPy and on the shim, and return the shim's runtime."""
    device = ShimRuntime(**{"order_seed": 1, **runtime})
    expected = fit_on(NumpyBackend(), make(), *data)
    found = fit_on(CudaBackend(device), make(), *data)
    assert_equal_models(found, expected)
    for name in FACTS:
        if hasattr(expected, name):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    return device


def classifier(**words: Any) -> Callable[[], Any]:
    given = {"n_estimators": 5, "random_state": 4, "n_jobs": 1, **words}
    return lambda: AdaBoostClassifier(**given)


def regressor(**words: Any) -> Callable[[], Any]:
    given = {"n_estimators": 5, "random_state": 4, "n_jobs": 1, **words}
    return lambda: AdaBoostRegressor(**given)


# ---- the same models -----------------------------------------------------------------------------

CLASSES: list[dict[str, Any]] = [
    {},
    {"boosting": "resampling", "max_depth": 2},
    {"criterion": "entropy", "learning_rate": 0.5, "max_depth": 3},
    {"categorical_features": [1], "max_depth": 2, "criterion": "gini"},
    {"estimator": ExtraTreeClassifier(max_depth=4, class_weight="balanced")},
    {"estimator": DecisionTreeClassifier(max_depth=None, min_samples_leaf=8, ccp_alpha=0.002)},
    {"estimator": DecisionTreeClassifier(max_leaf_nodes=5, max_features=2)},
]
VALUES: list[dict[str, Any]] = [
    {"loss": "exponential"},
    {"loss": "square", "boosting": "reweighting", "categorical_features": [1]},
    {"loss": "linear", "boosting": "reweighting", "max_depth": 13, "learning_rate": 0.5},
    {"criterion": "absolute_error", "loss": "square"},
    {"estimator": DecisionTreeRegressor(max_leaf_nodes=7, max_features=2)},
]


WEIGHTS = ("none", "real", "counts")
PAIRS = [(a, b) for a in range(len(WEIGHTS)) for b in (2, 3)]  # weights and numbers of classes


def some(n_options: int, pairs: list[Any]) -> list[Any]:
    """Every option with one of the pairs in turn; the other combinations are marked slow."""
    return [
        pytest.param(option, *pair, marks=() if (option - at) % len(pairs) == 0 else SLOW)
        for option in range(n_options)
        for at, pair in enumerate(pairs)
    ]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(("option", "kind", "n_classes"), some(len(CLASSES), PAIRS))
def test_classes(option: int, kind: int, n_classes: int, fit_on: Fit) -> None:
    data = (*table(n_classes=n_classes), weights_of(WEIGHTS[kind]))
    assert_same_fit(fit_on, classifier(**CLASSES[option]), *data)


@pytest.mark.parametrize(("option", "kind"), some(len(VALUES), [(0,), (1,), (2,)]))
def test_values(option: int, kind: int, fit_on: Fit) -> None:
    data = (*table(n_classes=0), weights_of(WEIGHTS[kind]))
    assert_same_fit(fit_on, regressor(**VALUES[option]), *data)


def test_counts(fit_on: Fit) -> None:
    X, y = table(n_classes=4)
    asked = regressor(criterion="poisson", n_estimators=3)
    assert_same_fit(fit_on, asked, X, y.astype(float))


@pytest.mark.parametrize("boosting", ["reweighting", "resampling"])
@pytest.mark.parametrize("depth", [{"max_depth": 1}, {"max_depth": 1, "ccp_alpha": 1e-9}])
def test_trees_that_are_worse_than_chance_end_the_rounds(
    depth: dict[str, Any], boosting: str, fit_on: Fit
) -> None:
    X, y = table()
    base = DecisionTreeClassifier(class_weight={0: 1.0, 1: 3.0}, **depth)
    asked = classifier(estimator=base, boosting=boosting, n_estimators=20)
    assert_same_fit(fit_on, asked, X, y)
    alone = asked().set_params(device="numpy").fit(X, y)
    assert 1 <= len(alone.estimators_) < 20


def test_classes_of_zero_weight_count_in_the_errors(fit_on: Fit) -> None:
    for boosting in ("reweighting", "resampling"):
        base = DecisionTreeClassifier(max_depth=2, class_weight={0: 1.0, 1: 3.0, 2: 0.0})
        X, y = table(n_classes=3)
        keep = (y < 2) | (np.arange(len(y)) % 4 == 0)
        assert_same_fit(fit_on, classifier(estimator=base, boosting=boosting), X[keep], y[keep])


def test_monotonic_trees(fit_on: Fit) -> None:
    base = DecisionTreeClassifier(max_depth=2, monotonic_cst=[1, 0, 0, -1])
    assert_same_fit(fit_on, classifier(estimator=base, n_estimators=3), *table())
    base = DecisionTreeRegressor(max_depth=2, monotonic_cst=[1, 0, 0, -1])
    assert_same_fit(fit_on, regressor(estimator=base, n_estimators=2), *table(n_classes=0))


def test_the_first_of_equal_classes_is_predicted(fit_on: Fit) -> None:
    X, y = np.repeat([0.0, 1.0], 4)[:, None], np.array([0, 0, 1, 1, 1, 1, 1, 0])
    for classes in (y, np.r_[y[:7], 2]):
        model = classifier(n_estimators=2, criterion="gini")
        assert_same_fit(fit_on, model, X, classes)
    tie = model().set_params(device="numpy").fit(X, y).estimators_[0].tree_.value[1]
    assert tie.tolist() == [[0.5, 0.5]]


def test_votes_with_huge_learning_rates(fit_on: Fit) -> None:
    """With a huge learning rate, weights underflow to the smallest allowed weight."""
    weights = weights_of("real")
    assert_same_fit(fit_on, classifier(learning_rate=1e6), *table(), weights)
    assert_same_fit(fit_on, regressor(learning_rate=1e6), *table(n_classes=0), weights)
    by_weights = regressor(learning_rate=300.0, boosting="reweighting")
    assert_same_fit(fit_on, by_weights, *table(n_classes=0), weights)


def test_rounds_that_end_a_fit(fit_on: Fit) -> None:
    deep, X = regressor(max_depth=12, boosting="reweighting"), np.arange(40.0)[:, None]
    perfect = assert_same_fit(fit_on, deep, X, np.arange(40.0) % 8)
    assert perfect.launches.count("evaluate_values") == 1
    nothing = np.zeros((40, 1))
    assert_same_fit(fit_on, regressor(boosting="reweighting"), nothing, np.arange(40) % 2.0)
    one_class = assert_same_fit(fit_on, classifier(), nothing, np.ones(40, dtype=int))
    assert one_class.launches.count("evaluate_classes") == 1
    with pytest.raises(ValueError, match=r"error of 0\.5, which must be below 0\.5"):
        fit_on(CudaBackend(ShimRuntime()), classifier()(), nothing, np.arange(40) % 2)


@pytest.mark.slow
@pytest.mark.parametrize("boosting", ["reweighting", "resampling"])
@pytest.mark.parametrize("n_classes", [0, 2, 4])
def test_a_hundred_rounds(n_classes: int, boosting: str, fit_on: Fit) -> None:
    make = classifier if n_classes else regressor
    asked = make(n_estimators=100, boosting=boosting, max_depth=2)
    assert_same_fit(fit_on, asked, *table(400, n_classes))


# ---- launches, threads and copies ----------------------------------------------------------------


def test_kernels_have_the_numbers_of_the_host() -> None:
    text = file_text("adaboost/adaboost.cu")
    for name in ("FIXED_POINT", "MIN_WEIGHT", "LARGEST_VOTE", "LARGEST_STEP"):
        (found,) = re.findall(rf"\b{name} = ([^\s,;]+)[,;]", text)
        assert float(found) == getattr(adaboost, name)


@pytest.mark.parametrize("order_seed", [200])
def test_order_of_threads_and_blocks_does_not_matter(order_seed: int, fit_on: Fit) -> None:
    for make, n_classes in ((classifier, 3), (regressor, 0)):
        data = table(400, n_classes)
        asked = make(boosting="resampling", n_estimators=3)
        assert_same_fit(fit_on, asked, *data, order_seed=order_seed)


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_kernels_are_sound(flavour: str, fit_on: Fit) -> None:
    launched: set[str] = set()
    weights = weights_of("real")
    drawn = regressor(n_estimators=2, max_depth=1)
    data = (*table(n_classes=0), weights)
    launched |= set(assert_same_fit(fit_on, drawn, *data, flavour=flavour).launches)
    base = DecisionTreeClassifier(max_depth=1, class_weight="balanced")
    asked = classifier(estimator=base, n_estimators=2)
    data = (*table(n_classes=3), weights)
    launched |= set(assert_same_fit(fit_on, asked, *data, flavour=flavour).launches)
    resampled(np.linspace(0.0, 1.0, 300), WeightBits(1, 30), 0, flavour=flavour)
    kernels = set(re.findall(r"^(\w+)\(", file_text("adaboost/adaboost.cu"), re.MULTILINE))
    assert len(kernels) > 11 and kernels - {"cap_draws"} <= launched


@pytest.mark.parametrize("make", [classifier, regressor])
def test_on_the_fake_cupy(make: Callable[..., Any], machine: Any) -> None:
    X, y = table(80, n_classes=3 if make is classifier else 0)
    for words in ({"max_depth": 2}, {"max_depth": None, "n_estimators": 2}):
        expected = make(**words)().set_params(device="numpy").fit(X, y)
        found = make(**words)().set_params(device="cuda").fit(X, y)
        assert_equal_models(found, expected)
        np.testing.assert_array_equal(found.predict(X), expected.predict(X))
        del found
    assert machine.launches and machine.live == 0 and machine.current == 0


@pytest.mark.parametrize("make", [classifier, regressor])
def test_copies_to_the_host_do_not_grow_with_the_rows(
    make: Callable[..., Any], copied: list[int]
) -> None:
    """Features, targets and weights given on the device are not copied to the host."""
    sizes = []
    for n in (2000, 4000):
        X, y = table(n, n_classes=2 if make is classifier else 0)
        X = np.clip(np.round(2 * X), -4, 4)  # with the same cells for both n
        given = (X, y, np.random.default_rng(5).exponential(size=n))
        model = make(n_estimators=3, max_bins=16)()
        del copied[:]
        model.set_params(device="cuda").fit(*map(to_gpu, given))
        sizes.append(sorted(copied))
        model.predict(to_gpu(X))
        assert max(copied[len(sizes[-1]) :], default=0) < n / 2
    assert sizes[0] == sizes[1] != []
    expected = make(n_estimators=3, max_bins=16, device="numpy")().fit(*given)
    assert_equal_models(model, expected)
