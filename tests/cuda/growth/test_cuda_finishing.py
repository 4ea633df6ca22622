"""Trees finished by the CUDA kernels, run on the CPU, equal those of `finish_tree`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuboost.backends.cuda.growth import finish as cuda_finishing
from gpuboost.backends.cuda.growth.best_first import SplitQueue
from gpuboost.backends.cuda.growth.grow import grow_finished
from gpuboost.backends.cuda.runtime.source import constant, file_text
from gpuboost.backends.host.finish import finish_grown
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.criteria import (
    ENTROPY,
    MISCLASSIFICATION,
    NEWTON,
    POISSON,
    TWOING,
    VARIANCE,
)
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.task import GrowTask, Regularisation
from tests import cuda_shim
from tests.cuda.growth.test_cuda_subtrees import set_small
from tests.cuda.shim_runtime import ShimRuntime, with_text
from tests.cuda.shim_trees import PROPERTY, problem
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import barrier_mutants
from tests.engine.exact import assert_same_fields
from tests.engine.harness import Problem
from tests.engine.strategies import median_problems, problems
from tests.estimators.device_cases import table
from tests.estimators.estimator_cases import make
from tests.pairs import every_pair

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

TARGETS = [
    ("two classes", VARIANCE),
    ("two classes", ENTROPY),
    ("five classes", VARIANCE),
    ("five classes", MISCLASSIFICATION),
    ("rare classes", ENTROPY),
    ("five classes", TWOING),
    ("class outputs", VARIANCE),
    ("class outputs", ENTROPY),
    ("class outputs", MISCLASSIFICATION),
    ("values", VARIANCE),
    ("heavy values", VARIANCE),
    ("outputs", VARIANCE),
    ("counts", POISSON),
    ("amounts", POISSON),
]


@pytest.fixture(autouse=True)
def on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if any tree is finished on the host."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a tree of the device was finished on the host")

    monkeypatch.setattr("gpuboost.backends.cuda.growth.grow.finish_grown", refuse)


def task_of(asked: Problem, **given: Any) -> GrowTask:
    _, matrix, sampler, target = asked.prepare()
    return asked.task(matrix, sampler, target, **given)


def assert_finished(asked: Problem, runtime: ShimRuntime, **given: Any) -> int:
    """Assert equal trees of device and host, field by field, and return the number of nodes."""
    task = task_of(asked, **given)
    expected = list(finish_grown(task, NumpyBackend().grow(task)))
    found = list(grow_finished(runtime, task))
    assert [tree for tree, _ in found] == [tree for tree, _ in expected]
    for (_, own), (_, other) in zip(found, expected, strict=True):
        assert_same_fields(*(Ensemble.of([each]).trees[0] for each in (own, other)), "finished")
    return sum(tree.node_count for _, tree in found)


# The same trees -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["none", "integers", "real"])
@pytest.mark.parametrize(("target", "criterion"), TARGETS)
def test_every_target_and_weight(target: str, criterion: int, weights: str) -> None:
    """Nodes come from the level loop and from subtrees of few rows."""
    asked = problem(target, weights, method="bootstrap" if weights == "none" else "all")
    asked = asked.with_options(criterion=criterion, random_thresholds=weights == "integers")
    assert assert_finished(asked, ShimRuntime(order_seed=1)) > 10


@pytest.mark.parametrize("method", ["bootstrap", "subset"])
@pytest.mark.parametrize("weights", ["integers", "real"])
def test_weights_multiply_draws(weights: str, method: str) -> None:
    for target in ("two classes", "rare classes"):
        asked = problem(target, weights, n=200, method=method, balance=True, n_trees=3)
        assert assert_finished(asked, ShimRuntime()) > 10


LIMITS: list[dict[str, Any]] = [
    {"max_depth": 0},
    {"max_depth": 3},
    {"max_depth": 13},  # the host reads the number of nodes
    {"min_samples_leaf": 6},
    {"min_samples_leaf": 6, "max_depth": 4},
    {"max_features": 1, "random_thresholds": True},
]


@pytest.mark.parametrize(
    ("limits", "small_rows", "target"),
    every_pair(LIMITS, (0, 7, 512), ("five classes", "values")),
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_every_limit(
    limits: dict[str, Any], small_rows: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_small(monkeypatch, small_rows)
    asked = problem(target, seed=3, method="bootstrap", n_trees=3).with_options(**limits)
    assert_finished(asked, ShimRuntime(order_seed=2))


@pytest.mark.parametrize("weights", ["none", "integers", "real"])
@pytest.mark.parametrize("target", ["values", "heavy values", "outputs"])
def test_medians(target: str, weights: str) -> None:
    asked = problem(target, weights, seed=4, method="bootstrap", by_median=True)
    if target == "outputs":
        asked = replace(asked, y=np.rint(asked.y * 3.0))
    assert assert_finished(asked, ShimRuntime(order_seed=5)) > 30


@pytest.mark.parametrize(
    ("limits", "takes_back"),
    [
        ({"max_leaf_nodes": 2}, False),
        ({"max_leaf_nodes": 9, "max_depth": 4}, True),
        ({"max_leaf_nodes": 13}, True),
        ({"max_leaf_nodes": 13, "min_impurity_decrease": 0.002, "max_features": 2}, True),
        ({"max_leaf_nodes": 13, "random_thresholds": True}, True),
    ],
    ids=lambda given: "-".join(map(str, given.values())) if isinstance(given, dict) else "",
)
def test_best_first_growth(
    limits: dict[str, Any], takes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Splits beyond the final leaves are removed from the node buffer, for every kind of sums."""
    found, cut = [], SplitQueue.cut

    def watched(self: SplitQueue, nodes: Any, adds: bool) -> Any:
        leaf = cut(self, nodes, adds)
        if isinstance(leaf, np.ndarray):  # not in a dry run
            found.append((leaf != np.arange(len(leaf)))[: nodes.size[0]].any())
        return leaf

    monkeypatch.setattr(SplitQueue, "cut", watched)
    for target, weights in (("five classes", "none"), ("two classes", "none"), ("values", "real")):
        asked = problem(target, weights, seed=3, n=150, method="bootstrap", n_trees=3)
        runtime = Counting(order_seed=1)
        n_nodes = assert_finished(asked.with_options(**limits), runtime)
        assert len(runtime.copied) == 13 and sum(runtime.copied) < 128 * (n_nodes + 3)
    asked = problem("outputs", "real", seed=4, n=100, n_trees=2, by_median=True)
    assert_finished(asked.with_options(**limits), ShimRuntime())
    assert any(found) == takes_back and len(found) == 4


HELD = Regularisation(monotonic=(1, -1, 0, 0, 0))
MONOTONIC: dict[str, dict[str, Any]] = {
    "newton": {"criterion": NEWTON, "regularisation": HELD},
    "variance": {"criterion": VARIANCE, "regularisation": HELD},
    "free": {"criterion": VARIANCE},
    "best first": {"criterion": NEWTON, "regularisation": HELD, "max_leaf_nodes": 9},
}


@pytest.mark.parametrize(
    ("kind", "target", "weights", "depth"),
    every_pair(tuple(MONOTONIC), ("two classes", "values"), ("none", "real"), (6, 40)),
)
def test_monotonic_values(kind: str, target: str, weights: str, depth: int) -> None:
    """With monotonic constraints, values of leaves are limited by those of their parents."""
    asked = problem(target, weights, seed=1, n_trees=3)
    asked = asked.with_options(**MONOTONIC[kind], max_depth=depth)
    n_nodes = assert_finished(asked, ShimRuntime(order_seed=1))
    assert n_nodes == 3 * 17 if kind == "best first" else n_nodes > 20


@pytest.mark.parametrize("weights", ["none", "real"])
def test_monotonic_medians(weights: str) -> None:
    asked = problem("values", weights, seed=1, n_trees=2, by_median=True)
    asked = asked.with_options(criterion=VARIANCE, regularisation=HELD, max_depth=6)
    assert assert_finished(asked, ShimRuntime(order_seed=1)) > 20


@settings(PROPERTY, max_examples=15)
@given(problems(), st.sampled_from((0, 7, 512)))
def test_any_problem(problem: Problem, small_rows: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        set_small(monkeypatch, small_rows)
        assert_finished(problem, ShimRuntime(order_seed=1 + problem.seed % 1000))


@settings(PROPERTY, max_examples=10)
@given(median_problems())
def test_any_problem_of_medians(problem: Problem) -> None:
    assert_finished(problem, ShimRuntime(order_seed=1 + problem.seed % 1000))


@pytest.mark.slow
@settings(PROPERTY, max_examples=100)
@given(st.one_of(problems(max_rows=700), median_problems()), st.sampled_from((0, 7, 33, 512)))
def test_many_problems(problem: Problem, small_rows: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        set_small(monkeypatch, small_rows)
        assert_finished(problem, ShimRuntime(order_seed=1 + problem.seed % 1000))


# Invariance ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 1 << 18, 1 << 30])
def test_memory_budget_and_batches(budget: int) -> None:
    for target in ("five classes", "outputs"):
        asked = problem(target, n=70, method="bootstrap", n_trees=5)
        assert_finished(asked, ShimRuntime(), memory_budget=budget)


@pytest.mark.parametrize("order_seed", range(3))
def test_order_of_threads_and_blocks(order_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are also fewer threads than nodes, so a thread processes several in turn."""
    monkeypatch.setattr(cuda_finishing, "_NODE_BLOCKS", 1)
    asked = problem("outputs", "real", seed=order_seed, n=500, n_trees=3, method="bootstrap")
    runtime = ShimRuntime(order_seed=1 + 100 * order_seed, n_multiprocessors=1)
    assert assert_finished(asked, runtime) > constant("growth/finish.cu", "FINISH_THREADS")


def test_replayed_batches_keep_the_trees_of_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay does not overwrite the trees of earlier batches."""
    monkeypatch.setattr("gpuboost.backends.cuda.growth.grow.trees_at_once", lambda *_: 2)
    asked = problem("rare classes", "real", n=120, n_trees=6, method="bootstrap")
    runtime = ShimRuntime()
    assert_finished(asked.with_options(max_depth=6), runtime)
    assert runtime.launches.count("finish_nodes") == runtime.launches.count("number_nodes") == 3


# Copies and work of the host ----------------------------------------------------------------------


class Counting(ShimRuntime):
    """Logs the sizes of copies to the host."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.copied: list[int] = []

    def to_host(self, array: np.ndarray) -> np.ndarray:
        self.copied.append(array.nbytes)
        return super().to_host(array)


@pytest.mark.parametrize(("target", "n_values"), [("two classes", 2), ("values", 1)])
def test_the_host_copies_only_finished_trees(target: str, n_values: int) -> None:
    """The host copies a table of the trees and each array of the finished trees, once."""
    copies = []
    for n_trees, n in ((1, 60), (5, 300)):
        asked = problem(target, n=n, n_trees=n_trees, is_categorical=None, method="bootstrap")
        runtime = Counting()
        n_nodes = assert_finished(asked.with_options(max_depth=9), runtime)
        assert sum(runtime.copied) == n_nodes * (40 + 8 * n_values) + 3 * 8 * (n_trees + 1)
        copies.append(len(runtime.copied))
    assert copies == [11, 11]


@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesRegressor"])
def test_the_host_finishes_no_tree_of_a_forest(
    name: str, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table(name)
    expected = make(name, device="numpy", max_depth=5).fit(X, y).fingerprint()

    def refuse(*_: Any) -> None:
        raise AssertionError("a tree of the device was finished on the host")

    monkeypatch.setattr("gpuboost.backends.host.finish.finish_tree", refuse)
    monkeypatch.setattr("gpuboost.engine.growth.tree.with_values", refuse)
    model = make(name, device="cuda", max_depth=5)
    assert model.fit(X, y).fingerprint() == expected
    with pytest.raises(AssertionError, match="finished on the host"):
        make(name, device="numpy", max_depth=5).fit(X, y)


def test_launches_do_not_grow_with_nodes_or_trees() -> None:
    own = {"store_level", "number_nodes", "place_trees", "finish_nodes"}
    found = []
    for n_trees, n in ((1, 60), (5, 300)):
        asked = problem("five classes", n=n, n_trees=n_trees, method="bootstrap")
        runtime = ShimRuntime()
        assert_finished(asked.with_options(max_depth=6), runtime)
        found.append([name for name in runtime.launches if name in own])
    levels = ["store_level"] * 7
    assert found == [
        [*levels, "number_nodes", "finish_nodes"],
        [*levels, "number_nodes", "place_trees", "finish_nodes"],
    ]


# Races, memory, barriers --------------------------------------------------------------------------


def sound_problems() -> Iterator[Problem]:
    """Small problems that cover every kind of finished node."""
    for target in ("five classes", "outputs"):
        yield problem(target, "real", n=60, max_bins=12)
    yield problem("values", n=60, by_median=True)
    asked = problem("two classes", n=60, max_bins=12)
    for criterion in (NEWTON, ENTROPY):
        yield asked.with_options(criterion=criterion, regularisation=HELD, max_depth=6)


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_the_kernels_are_sound(flavour: str) -> None:
    """Kernels of other files have their own tests."""
    for asked in sound_problems():
        assert_finished(asked, MixedRuntime(flavour))


class MixedRuntime(ShimRuntime):
    """Runs the kernels tested here in a flavour, and all others as usual."""

    def __init__(self, flavour: str, order_seed: int = 0, **sources: Any) -> None:
        super().__init__(order_seed=order_seed)
        self._own = ShimRuntime(flavour, order_seed, **sources)

    def kernel(self, file_name: str, name: str, constants: Any) -> Any:
        own = file_name in ("growth/node_buffer.cu", "growth/finish.cu")
        kernel: Callable[..., Any] = super().kernel
        return (self._own.kernel if own else kernel)(file_name, name, constants)


MUTANTS = [
    pytest.param(name, mutant, id=f"{name}:{mutant.line}")
    for name in ("growth/node_buffer.cu", "growth/finish.cu")
    for mutant in barrier_mutants(file_text(name))
]


@pytest.mark.parametrize(("name", "mutant"), MUTANTS)
def test_every_barrier_is_needed(name: str, mutant: cuda_shim.Mutant) -> None:
    sources = with_text(name, mutant.source_text, [name])
    with pytest.raises((KernelError, AssertionError)):
        for order_seed in range(1, 4):
            for asked in sound_problems():
                assert_finished(asked, MixedRuntime("plain", order_seed, sources=sources))
