"""Boosting rounds grown by the CUDA kernels on the CPU equal NumPy's to the last bit."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from gpuboost.backends.cuda.growth import subtrees as small
from gpuboost.backends.cuda.level.constraints import group_words
from gpuboost.backends.cuda.runtime.compile_flags import CONSTANTS_OF, CompileFlags
from gpuboost.backends.cuda.runtime.source import file_text, kernel_source
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.criteria import NEWTON, POISSON, TWOING, VARIANCE
from gpuboost.engine.losses.table import TABLE
from gpuboost.engine.task import Regularisation
from tests import cuda_shim
from tests.cuda import nvrtc
from tests.cuda.lock_step import LockStepBackend
from tests.cuda.runtime.test_kernels_compile import (
    ARCHITECTURES,
    complaints,
    needs_nvrtc,
    on_architectures,
)
from tests.cuda.shim_runtime import ShimBackend, ShimRuntime
from tests.cuda.shim_trees import PROPERTY, N, assert_equal_trees
from tests.engine.harness import Problem, grow, make_columns, make_target, make_weights
from tests.engine.strategies import boosting_problems
from tests.pairs import every_pair

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

REGULAR = Regularisation(l1=2.0**20, l2=2.0**12, max_value=2.0**8)


def problem(
    boosting: str, target: str = "values", seed: int = 0, n: int = N, **given: Any
) -> Problem:
    """Numeric and two categorical columns, of few and of many categories, with missing values."""
    rng = np.random.default_rng(seed)
    X = make_columns(rng, n, ["normal", "heavy", "integers", "binary", "binary"], np.float32)
    y, _ = make_target(rng, X, target)
    X[:, 3], X[:, 4] = rng.integers(0, 4, n), rng.integers(0, 40, n)
    X[rng.random(X.shape) < 0.15] = np.nan
    weights = make_weights(rng, n, "integers") if boosting == "real" else None
    kinds = np.array([0, 0, 0, 1, 1], dtype=bool)
    defaults: dict[str, Any] = {"weights": weights, "is_categorical": kinds, "max_bins": 40}
    asked = Problem(X, y, False, boosting=boosting, **{**defaults, **given})
    return asked.with_options(hashed_order=False, needs_gain=True)


CONSTRAINTS: list[dict[str, Any]] = [
    {},
    {"random_thresholds": True},
    {"max_features": 2, "hashed_order": True},
    {"max_features": 1},
    {"level_features": 2},
    {"level_features": 2, "max_features": 1, "hashed_order": True},
    {"interactions": ((0, 1), (1, 2, 3), (4,))},
    {"interactions": tuple((f,) for f in range(5)) * 7 + ((0, 1, 2), (2, 3, 4))},  # two words
    {"min_hessian": 2**15, "min_samples_leaf": 3},
    {"max_leaf_nodes": 7},
    {"max_depth": 3, "min_impurity_decrease": 1e-6},
]


@pytest.mark.parametrize(
    ("options", "boosting", "criterion", "target"),
    every_pair(CONSTRAINTS, ("whole", "real"), (VARIANCE, NEWTON), ("values", "outputs")),
    ids=lambda value: "-".join(value) or "none" if isinstance(value, dict) else None,
)
def test_every_step_equals_the_reference(
    options: dict[str, Any],
    boosting: str,
    criterion: int,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(small, "MAX_SUBTREE_ROWS", 0)
    asked = problem(boosting, target).with_options(criterion=criterion, regularisation=REGULAR)
    asked = asked.with_options(**options)
    fingerprint = grow(asked, LockStepBackend(ShimRuntime(order_seed=1)))[1]
    assert fingerprint == grow(asked, NumpyBackend())[1]


@pytest.mark.parametrize("interactions", [None, ((0, 1), (1, 2, 3, 4))])
@pytest.mark.parametrize("boosting", ["whole", "real"])
def test_monotonic_features(boosting: str, interactions: Any) -> None:
    regular = Regularisation(l2=1.0, monotonic=(1, -1, 1, 0, 0))
    asked = problem(boosting, n=290).with_options(
        criterion=NEWTON, regularisation=regular, interactions=interactions
    )
    fingerprint = grow(asked, LockStepBackend(ShimRuntime(order_seed=3)))[1]
    assert fingerprint == grow(asked, NumpyBackend())[1]
    assert assert_equal_trees(asked, ShimRuntime()) > 20


def test_constraints_also_hold_for_regression_trees() -> None:
    """Constraints also hold for regression trees, since the grower is the same."""
    asked = problem("", n=150).with_options(hashed_order=True, needs_gain=False)
    regular = Regularisation(l2=3.0, monotonic=(1, 0, 0, 0, 0))
    for options in ({"criterion": NEWTON, "regularisation": regular}, {"level_features": 2}):
        grow(asked.with_options(**options), LockStepBackend(ShimRuntime()))
        assert_equal_trees(asked.with_options(**options), ShimRuntime())


@settings(PROPERTY, max_examples=15)
@given(boosting_problems())
def test_any_round_equals_the_reference(problem: Problem) -> None:
    assert_equal_trees(problem, ShimRuntime(order_seed=1 + problem.seed % 1000))


@pytest.mark.slow
@settings(PROPERTY, max_examples=60)
@given(boosting_problems(max_rows=700))
def test_many_rounds_equal_the_reference_at_every_step(problem: Problem) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            small, "MAX_SUBTREE_ROWS", 0
        )  # the reference has no subtrees to compare with
        expected = grow(problem, LockStepBackend(ShimRuntime()))[1]
    runtime = ShimRuntime(order_seed=1 + problem.seed % 1000)
    assert grow(problem, ShimBackend(runtime))[1] == expected


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_kernels_of_rounds_are_sound(flavour: str) -> None:
    regular = Regularisation(l1=2.0**20, l2=1.0, monotonic=(1, -1, 0, 0, 0))
    asked = problem("real", n=150, n_trees=1).with_options(criterion=NEWTON, max_depth=3)
    for options in (
        {"regularisation": REGULAR},
        {"regularisation": regular, "interactions": ((0, 1, 2), (2, 3, 4)), "level_features": 4},
        {"max_features": 1},
    ):
        assert_equal_trees(asked.with_options(**options), ShimRuntime(flavour=flavour))


def test_groups_beyond_one_word() -> None:
    groups = tuple((f % 7,) for f in range(70))
    words = group_words(groups, 7, 1)
    assert words.shape == (7, 3)
    bits = (words[:, :, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)).reshape(7, 96)
    expected = np.zeros((7, 96), dtype=np.uint32)
    expected[np.arange(70) % 7, np.arange(70)] = 1
    np.testing.assert_array_equal(bits, expected)
    assert group_words((), 7, 0).shape == (7, 0)


# Compiled variants of kernels ---------------------------------------------------------------

VARIANTS = {
    "newton": CompileFlags(gradients=True, criterion=NEWTON, by_number=True),
    "held": CompileFlags(True, NEWTON, None, True, True, True, True, rare_categories=True),
    "outputs": CompileFlags(scored_together=3),
    "poisson": CompileFlags(criterion=POISSON),
    "twoing": CompileFlags(criterion=TWOING, rare_categories=True),
    "two classes": CompileFlags(binary_targets=True),
}
COMPILED = [
    (name, flags)
    for name in CONSTANTS_OF
    for flags, own in VARIANTS.items()
    if own.constants(name)  # forests need none
]


def test_forests_need_no_constants() -> None:
    assert all(CompileFlags().constants(name) == {} for name in CONSTANTS_OF)


def test_constants_are_those_of_the_prelude() -> None:
    prelude = file_text("common/common.cuh")
    for name, constants in CONSTANTS_OF.items():
        assert all(f"#ifndef {constant}\n" in prelude for constant in constants), name
        found = [flags.constants(name) for flags in VARIANTS.values()]
        assert set().union(*found) == set(constants), name


def name_of(value: Any) -> str:
    return value if isinstance(value, str) else "-".join(value)


@needs_nvrtc
@pytest.mark.parametrize(("compiled", "architecture"), on_architectures(COMPILED), ids=name_of)
def test_variants_compile_to_lean_code(compiled: tuple[str, str], architecture: str) -> None:
    name, flags = compiled
    text = kernel_source(name, VARIANTS[flags].constants(name))
    assert not complaints(nvrtc.compile_source(text, architecture, file_name=name))


@needs_nvrtc
@pytest.mark.parametrize(("formula", "architecture"), zip(range(len(TABLE)), cycle(ARCHITECTURES)))
def test_losses_compile_to_lean_code(formula: int, architecture: str) -> None:
    text = kernel_source("boosting/gradients.cu", {"FORMULA": formula})
    assert not complaints(
        nvrtc.compile_source(text, architecture, file_name="boosting/gradients.cu")
    )
