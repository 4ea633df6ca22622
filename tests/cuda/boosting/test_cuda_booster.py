"""Boosting with the CUDA kernels, run on the CPU, fits NumPy's models to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuboost import GradientBoostingClassifier, GradientBoostingRegressor
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.cuda.runtime.arrays import allocate
from gpuboost.backends.cuda.runtime.source import file_text
from gpuboost.backends.numpy.backend import NumpyBackend
from tests import cuda_shim
from tests.cuda.shim_runtime import ShimRuntime, with_text
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import barrier_mutants
from tests.engine.exact import assert_equal_models

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

Fit = Callable[..., Any]
REGRESSION = (
    *("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"),
    "log_cosh",
)
BASE = {"random_state": 0, "n_estimators": 3, "n_jobs": 1, "max_depth": 3}


def table(n: int = 230, seed: int = 0, n_classes: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features with missing values, and a target (positive, or classes) that depends on three."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    signal = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=n)
    X[rng.random(X.shape) < 0.05] = np.nan
    if n_classes:
        return X, np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))
    return X, np.exp(0.5 * signal)


def assert_same_fit(fit_on: Fit, make: Callable[[], Any], X: Any, y: Any, **words: Any) -> Any:
    """Assert equal models and scores on NumPy and on the shim, and return the shim's model."""
    runtime = words.pop("runtime", None) or ShimRuntime(order_seed=1)
    expected = fit_on(NumpyBackend(), make(), X, y, **words)
    found = fit_on(CudaBackend(runtime), make(), X, y, **words)
    assert_equal_models(found, expected)
    for name in ("train_score_", "validation_score_", "oob_scores_", "oob_improvement_"):
        if hasattr(expected, name):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    if hasattr(expected, "evals_result_"):
        assert found.evals_result_ == expected.evals_result_
    assert {"differentiate", "list_round"} <= set(runtime.launches)
    return found


def regressor(**words: Any) -> Callable[[], Any]:
    return lambda: GradientBoostingRegressor(**{**BASE, **words})


def classifier(**words: Any) -> Callable[[], Any]:
    return lambda: GradientBoostingClassifier(**{**BASE, **words})


@pytest.mark.parametrize("loss", REGRESSION)
def test_losses_of_values(loss: str, fit_on: Fit) -> None:
    """Rounds with a subsample; `device_cases.BOOSTED` has fits with all rows."""
    assert_same_fit(fit_on, regressor(loss=loss, subsample=0.6), *table())


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_losses_of_classes(n_classes: int, strategy: str, fit_on: Fit) -> None:
    asked = classifier(multi_strategy=strategy, subsample=0.8)
    assert_same_fit(fit_on, asked, *table(n_classes=n_classes))


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "gamma"])
def test_several_outputs(loss: str, fit_on: Fit) -> None:
    X, y = table()
    outputs = np.column_stack([y, 1.0 / y])
    for strategy in ("auto", "one_output_per_tree"):
        assert_same_fit(fit_on, regressor(loss=loss, multi_strategy=strategy), X, outputs)


OPTIONS: list[dict[str, Any]] = [
    {"loss": "quantile", "alpha": [0.2, 0.5, 0.9]},
    {"monotonic_cst": [1, 0, -1, 0, 0]},
    {"interaction_cst": [[0, 1], [2, 3, 4]], "loss": "poisson"},
    {"l1_regularization": 0.5, "l2_regularization": 2.0, "max_delta_step": 0.3, "loss": "gamma"},
    {"min_hessian_leaf": 9.0, "loss": "poisson"},
    {"max_features": 2},
    {"max_leaf_nodes": 6, "max_depth": None},
    {"max_depth": None, "min_samples_leaf": 9},
    {"n_iter_no_change": 1, "n_estimators": 6, "learning_rate": 0.9},
    {"min_samples_leaf": 12, "min_impurity_decrease": 1e-4},
    {"init": "zero", "learning_rate": lambda number: 0.5 / (number + 1)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
def test_options(options: dict[str, Any], fit_on: Fit) -> None:
    assert_same_fit(fit_on, regressor(**options), *table())


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("subsample", [0.3, 0.9])
def test_rows_outside_the_subsample_go_by_thresholds(
    subsample: float, categorical: bool, fit_on: Fit
) -> None:
    """Rows outside the subsample may have values between the bins that the subsample occupies."""
    X, y = table(300)
    words: dict[str, Any] = {"subsample": subsample, "loss": "poisson", "max_depth": 6}
    if categorical:
        X[:, 3] = np.random.default_rng(1).integers(0, 60, len(X))
        X[:, 4] = np.random.default_rng(2).integers(0, 3, len(X))
        words["categorical_features"] = [3, 4]
    for more in ({}, {"n_iter_no_change": 2}):
        assert_same_fit(fit_on, regressor(**words, **more), X, y)


@pytest.mark.parametrize("kind", ["whole", "real", "equal"])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "tweedie"])
def test_weights(kind: str, loss: str, fit_on: Fit) -> None:
    X, y = table()
    rng = np.random.default_rng(3)
    weights = {
        "whole": rng.integers(0, 4, len(y)).astype(np.float64),
        "real": np.where(rng.random(len(y)) < 0.1, 0.0, 10.0 ** rng.uniform(-9, 0, len(y))),
        "equal": np.full(len(y), 0.3),
    }[kind]
    asked = regressor(loss=loss, subsample=0.7)
    assert_same_fit(fit_on, asked, X, y, sample_weight=weights)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_evaluation_sets(dtype: Any, fit_on: Fit) -> None:
    """Evaluation sets are predicted from raw values while the trees are on the device."""
    X, y = table()
    X, runtime = X.astype(dtype), ShimRuntime(order_seed=4)
    asked = regressor(loss="huber", subsample=0.5, max_depth=5)
    others = [(X[:50], y[:50]), (X[50:90] + dtype(0.01), y[50:90], np.arange(40.0))]
    assert_same_fit(fit_on, asked, X, y, eval_set=others, runtime=runtime)
    assert "add_leaves_by_value" in runtime.launches


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_evaluation_sets_with_values_inside_bins(power: float, fit_on: Fit) -> None:
    """Splits next to empty bins put the threshold inside a bin, at either end of it."""
    a = np.linspace(0.0, 1.0, 120) ** power
    middle = np.repeat([0.0, 1.0, 0.0], 40)
    X, y = np.column_stack([a, middle]), 10.0 * middle + np.repeat([0.0, 1.0], 60)
    grid = np.column_stack([np.linspace(-0.1, 1.1, 500), np.zeros(500)])
    for max_bins in (5, 6, 7, 9):
        asked = regressor(max_depth=2, max_bins=max_bins, n_estimators=2)
        assert_same_fit(fit_on, asked, X, y, eval_set=[(grid, grid[:, 0])])


@pytest.mark.parametrize("ccp_alpha", [0.0, 1e-4])
def test_categories(ccp_alpha: float, fit_on: Fit) -> None:
    """Evaluation sets have unseen categories; trees pruned on the host are copied back."""
    X, y = table()
    X[:, 3] = np.random.default_rng(1).integers(0, 30, len(X))
    asked = regressor(categorical_features=[3], loss="poisson", subsample=0.6, ccp_alpha=ccp_alpha)
    other = X[:40].copy()
    other[:3, 3] = 77
    assert_same_fit(fit_on, asked, X, y, eval_set=[(other, y[:40])])


class Pseudo:
    """The pseudo-Huber loss."""

    def gradient(self, y: Any, raw: Any) -> Any:
        return (raw - y) / (1.0 + (raw - y) ** 2) ** 0.5

    def hessian(self, y: Any, raw: Any) -> Any:
        return (1.0 + (raw - y) ** 2) ** -1.5

    def loss(self, y: Any, raw: Any) -> Any:
        return (1.0 + (raw - y) ** 2) ** 0.5 - 1.0


def test_custom_losses(fit_on: Fit) -> None:
    X, y = table()
    expected = fit_on(NumpyBackend(), regressor(loss=Pseudo())(), X, y)
    found = fit_on(CudaBackend(ShimRuntime()), regressor(loss=Pseudo())(), X, y)
    assert_equal_models(found, expected)
    np.testing.assert_array_equal(found.train_score_, expected.train_score_)


def nothing(_: Any) -> None:
    """A callback, with which the host waits for every round."""


NO_ROWS: list[dict[str, Any]] = [
    *({"loss": loss} for loss in ("squared_error", "huber", "poisson", Pseudo())),
    {"max_depth": None, "loss": "absolute_error"},
    {"max_depth": None, "loss": "absolute_error", "ccp_alpha": 1e-3},
    {"max_depth": None},
    {"max_depth": 20},
    {"max_leaf_nodes": 9},
    {"max_depth": None, "monotonic_cst": [1, 0, 0, 0, -1]},  # no node is small
    {"callbacks": nothing},
]


@pytest.mark.parametrize("options", NO_ROWS, ids=lambda options: "-".join(options))
def test_a_round_without_positive_weight_is_an_error(
    options: dict[str, Any], fit_on: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_of_ones(*given: Any) -> dict[str, np.ndarray]:
        """Allocate arrays filled with ones, which must not be read as nodes."""
        arrays = allocate(*given)
        for array in arrays.values():
            array.view(np.uint8)[...] = 1
        return arrays

    monkeypatch.setattr("gpuboost.backends.cuda.runtime.arrays.allocate", full_of_ones)
    X, y = table(60)
    weights = np.zeros(60)
    weights[:2] = 1.0
    asked, said = regressor(subsample=0.05, n_estimators=40, **options), []
    for backend in (NumpyBackend(), CudaBackend(ShimRuntime())):
        with pytest.raises(ValueError, match="has a positive sample_weight; raise subs") as caught:
            fit_on(backend, asked(), X, y, sample_weight=weights)
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
def test_losses_that_overflow_are_infinite_on_both_backends(fit_on: Fit) -> None:
    """The loss overflows even if the outlier is outside the round's subsample."""
    X, y = table(60)
    y[0] = 1e200
    for options in ({"subsample": 0.5}, {"n_iter_no_change": 9}):
        found = assert_same_fit(fit_on, regressor(n_estimators=1, **options), X, y)
        assert np.isinf(found.train_score_).all()


# Kernels and memory ------------------------------------------------------------------------


@pytest.mark.parametrize("order_seed", range(3))
def test_order_of_threads_and_blocks_does_not_matter(order_seed: int, fit_on: Fit) -> None:
    runtime = ShimRuntime(order_seed=100 * order_seed)
    X, y = table(n_classes=3)
    assert_same_fit(fit_on, classifier(subsample=0.7), X, y, runtime=runtime)


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_kernels_are_sound(flavour: str, fit_on: Fit) -> None:
    X, y = table(150, n_classes=3)
    runtime = ShimRuntime(flavour=flavour)
    asked = classifier(subsample=0.7, n_estimators=1, max_depth=2)
    words = {"sample_weight": np.linspace(0.0, 1.0, 150), "eval_set": [(X[:30], y[:30])]}
    assert_same_fit(fit_on, asked, X, y, runtime=runtime, **words)
    used = {"scale_round", "count_inside", "keep_leaves", "add_leaves", "row_losses"}
    assert used | {"finish_nodes", "add_leaves_by_value", "sum_planes"} <= set(runtime.launches)
    held = regressor(monotonic_cst=[1, 0, 0, 0, 0], n_estimators=1, max_depth=2)
    assert_same_fit(fit_on, held, *table(150), runtime=runtime)
    refitted = regressor(loss="huber", n_estimators=1, max_depth=2)
    assert_same_fit(fit_on, refitted, *table(150), runtime=runtime)
    deep = regressor(loss="huber", n_estimators=1, max_depth=13, min_samples_leaf=30)
    assert_same_fit(fit_on, deep, *table(150), runtime=runtime)
    pruned = regressor(loss="huber", n_estimators=1, max_depth=2, ccp_alpha=1e-3)
    assert_same_fit(fit_on, pruned, *table(150), runtime=runtime)
    used = {"hold_children", "order_values", "largest_terms", "sum_terms"}
    used |= {"mark_leaves", "count_leaves", "key_traversed"}
    assert used | {"find_above", "offset_leaves", "set_leaf_quantiles"} <= set(runtime.launches)


MUTATED = ("common/block_rank.cuh", "common/rounds.cuh")
MUTANTS = [(name, mutant) for name in MUTATED for mutant in barrier_mutants(file_text(name))]


@pytest.mark.parametrize(
    ("name", "mutant"), MUTANTS, ids=lambda part: str(getattr(part, "line", part))
)
def test_every_barrier_is_needed(name: str, mutant: cuda_shim.Mutant, fit_on: Fit) -> None:
    sources = with_text(name, mutant.source_text, ["boosting/gradients.cu"])
    runtime = ShimRuntime(flavour="race", order_seed=4, sources=sources)
    with pytest.raises((KernelError, AssertionError)):
        X, y = table(600)
        assert_same_fit(fit_on, regressor(subsample=0.7, n_estimators=1), X, y, runtime=runtime)


def test_there_are_mutants() -> None:
    texts = [file_text(name) for name in MUTATED]
    assert len(MUTANTS) == sum(text.count("__syncthreads();") for text in texts) == 4


@pytest.mark.parametrize("name", ["GradientBoostingRegressor", "GradientBoostingClassifier"])
def test_on_the_fake_cupy(name: str, machine: Any) -> None:
    n_classes = 3 if name.endswith("Classifier") else 0
    X, y = table(n_classes=n_classes)
    make = {True: classifier, False: regressor}[n_classes > 0]
    asked: list[dict[str, Any]] = [{}, {"subsample": 0.5, "n_iter_no_change": 3}]
    asked.append({"max_depth": None} if n_classes else {"subsample": 0.5, "loss": Pseudo()})
    for words in asked:
        expected = make(**words)().set_params(device="numpy").fit(X, y)
        found = make(**words)().set_params(device="cuda").fit(X, y)
        assert_equal_models(found, expected)
        np.testing.assert_array_equal(found.predict(X), expected.predict(X))
        if "loss" in words:  # sums of custom losses are the library's
            np.testing.assert_allclose(found.oob_scores_, expected.oob_scores_, rtol=1e-12)
        else:
            np.testing.assert_array_equal(found.train_score_, expected.train_score_)
        del found
    assert machine.launches and machine.live == 0 and machine.current == 0


@pytest.mark.slow
@pytest.mark.parametrize("loss", [*REGRESSION, "log_loss", "exponential", "classes"])
def test_a_hundred_rounds(loss: str, fit_on: Fit) -> None:
    """A long fit with constraints, subsampling and early stopping equals NumPy's."""
    words: dict[str, Any] = {"n_estimators": 100, "subsample": 0.7, "n_iter_no_change": 60}
    words |= {"interaction_cst": [[0, 1], [1, 2, 3], [4]], "l2_regularization": 1.0}
    if loss in REGRESSION:
        assert_same_fit(fit_on, regressor(loss=loss, **words), *table(400))
        return
    n_classes = 3 if loss == "classes" else 2
    words["loss"] = "exponential" if loss == "exponential" else "log_loss"
    assert_same_fit(fit_on, classifier(**words), *table(400, n_classes=n_classes))
