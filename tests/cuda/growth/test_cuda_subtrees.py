"""Subtrees that one block grows to their leaves equal the reference's to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes

from gpuboost.backends.cuda.growth import subtrees as small
from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer, Numbers
from gpuboost.backends.cuda.growth.subtrees import small_bytes, small_rows_for, tiny_bytes
from gpuboost.backends.cuda.runtime.source import constant, file_text, kernel_source
from gpuboost.engine.task import NO_LIMIT
from tests import cuda_shim
from tests.cuda import nvrtc
from tests.cuda.shim_runtime import ShimRuntime, with_text
from tests.cuda.shim_trees import PROPERTY, TARGETS_AND_SCORES, assert_equal_trees, problem
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import barrier_mutants, vote_mutants
from tests.engine.harness import Problem
from tests.engine.strategies import problems
from tests.pairs import every_pair

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

SIZES = (1, 7, 33, 512)  # rows of a small node; at the last, roots are small


@pytest.fixture
def small_nodes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A function that sets the maximum number of rows of a small node."""

    def of(rows: int) -> None:
        set_small(monkeypatch, rows)

    return of


def set_small(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(small, "MIN_SUBTREE_ROWS", rows)
    monkeypatch.setattr(small, "MAX_SUBTREE_ROWS", rows)


def stored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that receives the number of nodes of each batch that subtrees have added."""
    sizes: list[int] = []
    keep, number = NodeBuffer.keep, NodeBuffer.number

    def count(self: NodeBuffer, frontier: Any, *given: Any) -> None:
        if isinstance(frontier.size, np.ndarray):  # not a shape array
            sizes[-1] -= int(frontier.size[0])
        keep(self, frontier, *given)

    def spy(self: NodeBuffer, *given: Any) -> Numbers:
        if isinstance(self.nodes.size, np.ndarray):
            sizes[-1] += int(self.nodes.size[0])
            sizes.append(0)
        return number(self, *given)

    sizes.append(0)
    monkeypatch.setattr(NodeBuffer, "keep", count)
    monkeypatch.setattr(NodeBuffer, "number", spy)
    return sizes


# The same trees ------------------------------------------------------------------------------


HAVE_SMALL_NODES = [each for each in TARGETS_AND_SCORES if each[0] != "class outputs"]


@pytest.mark.parametrize(
    ("target_and_score", "weights", "thresholds", "rows"),
    every_pair(HAVE_SMALL_NODES, ("none", "real"), ("best", "random"), (33, 512)),
    ids=str,
)
def test_every_score_and_target(
    target_and_score: tuple[str, int],
    weights: str,
    thresholds: str,
    rows: int,
    small_nodes: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = stored(monkeypatch)
    target, criterion = target_and_score
    asked = problem(target, weights, method="bootstrap" if weights == "none" else "all")
    asked = asked.with_options(criterion=criterion, random_thresholds=thresholds == "random")
    small_nodes(rows)
    n_nodes = assert_equal_trees(asked, ShimRuntime(order_seed=rows))
    assert sizes[0] > 0 and n_nodes > 30
    assert sizes[-2] == n_nodes - asked.n_trees or rows == 33  # at 512 rows, roots are small too


LIMITS: list[dict[str, Any]] = [
    {"max_features": 2},
    {"min_samples_leaf": 7},
    {"min_samples_leaf": 4, "random_thresholds": True},
    {"min_weight_fraction_leaf": 0.04},
    {"min_impurity_decrease": 0.005},
    {"max_depth": 0},
    {"max_depth": 3, "max_features": 1},
    {"max_leaf_nodes": 9},
    {"max_features": 2, "min_samples_split": 12},
]


@pytest.mark.parametrize(
    ("limits", "rows", "target"),
    every_pair(LIMITS, SIZES, ("two classes", "rare classes", "outputs")),
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_every_limit(
    limits: dict[str, Any], rows: int, target: str, small_nodes: Callable[[int], None]
) -> None:
    small_nodes(rows)
    asked = problem(target, "integers", seed=3).with_options(**limits)
    assert_equal_trees(asked, ShimRuntime(order_seed=2))


@settings(PROPERTY, max_examples=15)
@given(problems(), st.sampled_from(SIZES))
def test_any_problem(problem: Problem, rows: int) -> None:
    assert_equal_with_small(problem, rows)


@pytest.mark.slow
@PROPERTY
@given(problems(), st.sampled_from(SIZES))
def test_many_problems(problem: Problem, rows: int) -> None:
    assert_equal_with_small(problem, rows)


def assert_equal_with_small(problem: Problem, rows: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        set_small(monkeypatch, rows)
        assert_equal_trees(problem, ShimRuntime(order_seed=1 + problem.seed % 1000))


def test_nodes_of_as_many_rows_as_fit(small_nodes: Callable[[int], None]) -> None:
    """Nodes have two rows per thread, 256 codes, several tiles of features and equal columns."""
    small_nodes(512)
    rng = np.random.default_rng(4)
    X = rng.standard_normal((512, 35))
    X[rng.random(X.shape) < 0.02] = np.nan
    X[:, 32:] = X[:, :3]
    y = X[:, 0] + rng.standard_normal(512)
    asked = Problem(X, np.nan_to_num(y), False, n_trees=1)
    assert asked.prepare()[0].width == 256
    assert_equal_trees(asked.with_options(max_features=4), ShimRuntime())
    assert_equal_trees(asked.with_options(max_depth=3), ShimRuntime(shared_memory=64 << 10))


@pytest.mark.parametrize("classification", [True, False])
def test_histograms_of_small_nodes_give_those_of_larger_siblings(
    classification: bool, small_nodes: Callable[[int], None]
) -> None:
    """The histogram of a large node is its parent's minus that of its small sibling.

    Here the sibling has leaves with more rows than a warp; the rows of such leaves are not kept.
    """
    small_nodes(130)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((700, 3)).astype(np.float32)
    right = X[:, 0] > 1
    assert (right & (X[:, 1] > 0)).sum() > 33 and right.sum() <= 130
    y = np.where(right, X[:, 1] > 0, rng.random(700) < 0.1)
    y = y.astype(np.int32 if classification else np.float64)
    assert_equal_trees(Problem(X, y, classification), ShimRuntime())
    assert_equal_trees(Problem(X, y, classification), ShimRuntime(), memory_budget=1 << 15)


def test_first_features_may_not_split(small_nodes: Callable[[int], None]) -> None:
    rng = np.random.default_rng(7)
    X = np.where(np.arange(9) < 7, 0.0, rng.integers(0, 3, (150, 9))).astype(np.float32)
    asked = Problem(X, rng.standard_normal(150), False).with_options(max_features=1)
    for rows in (40, 512):
        small_nodes(rows)
        assert assert_equal_trees(asked, ShimRuntime()) > 4


def test_features_and_weights_of_trees(small_nodes: Callable[[int], None]) -> None:
    for rows in (50, 512):
        small_nodes(rows)
        asked = problem("two classes", tree_features=2, n_trees=4)
        assert_equal_trees(asked.with_options(max_features=1), ShimRuntime())
        asked = problem("five classes", method="bootstrap", balance=True, n_trees=3)
        assert_equal_trees(asked, ShimRuntime(), memory_budget=1)


def test_rows_of_zero_weight_in_subtrees(small_nodes: Callable[[int], None]) -> None:
    small_nodes(512)
    X = np.arange(40, dtype=np.float64)[:, None]
    weights = np.where(np.arange(40) % 4, 1e-12, 1.0)
    y = np.where(weights == 1, 3.0, np.arange(40.0))
    assert assert_equal_trees(Problem(X, y, False, weights), ShimRuntime()) == 2


def test_one_class_one_row_one_feature(small_nodes: Callable[[int], None]) -> None:
    small_nodes(512)
    X = np.zeros((1, 1), dtype=np.float32)
    assert_equal_trees(Problem(X, np.zeros(1, np.int32), True), ShimRuntime())
    X = np.arange(6, dtype=np.float64)[:, None]
    assert_equal_trees(Problem(X, np.zeros(6, np.int32), True), ShimRuntime())
    assert_equal_trees(Problem(X, np.arange(6.0), False), ShimRuntime())


@pytest.mark.parametrize(
    ("load", "classification"), [(load_breast_cancer, True), (load_diabetes, False)]
)
def test_real_tables(load: Any, classification: bool) -> None:
    """The size of small nodes is the default."""
    X, y = load(return_X_y=True)
    y = y.astype(np.int32 if classification else np.float64)
    asked = Problem(X, y, classification, method="bootstrap", n_trees=2)
    asked = asked.with_options(max_features=max(1, X.shape[1] // 3))
    assert assert_equal_trees(asked, ShimRuntime(order_seed=3)) > 20


# Invariance and limits ------------------------------------------------------------------------


@pytest.mark.parametrize("order_seed", range(3))
def test_order_of_threads_and_blocks(
    order_seed: int, small_nodes: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are also fewer blocks than nodes, so a block processes several in turn."""
    monkeypatch.setattr(small, "BLOCKS", 1 + order_seed)
    small_nodes(20)
    for target in ("two classes", "five classes", "outputs"):
        asked = problem(target, "real", seed=order_seed).with_options(max_features=3)
        runtime = ShimRuntime(order_seed=1 + 100 * order_seed, n_multiprocessors=1)
        assert_equal_trees(asked, runtime)


def test_deep_trees_leave_the_level_loop(
    small_nodes: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a chain of splits of one row each, the stack stays short and there are few levels."""
    X = np.arange(300.0)[:, None]
    asked = Problem(X, np.exp2(np.arange(300.0)), False, n_trees=1)
    levels = {}
    for rows in (0, 512):
        small_nodes(rows)
        runtime = ShimRuntime()
        assert_equal_trees(asked, runtime)
        levels[rows] = runtime.launches.count("open_nodes")
    assert levels[512] <= 2 < 12 < levels[0]


def test_maximum_number_of_rows_of_small_nodes() -> None:
    def of(asked: Problem, n_rows: int, weight: int = 1, **settings: Any) -> int:
        _, matrix, sampler, target = asked.prepare()
        runtime = ShimRuntime(n_multiprocessors=10, **settings)
        return small_rows_for(runtime, asked.task(matrix, sampler, target), n_rows, weight)

    asked = problem("values", n=200)
    assert of(asked, 100) == 32  # the minimum
    assert of(asked, 80 * 200) == 200  # eight subtrees for each multiprocessor
    assert of(asked, 10**9) == 512 == constant("growth/block_state.cuh", "SMALL_ROWS")
    assert of(asked, 10**9, weight=2**28) == 15  # sums of 16 could wrap
    assert of(asked.with_options(max_leaf_nodes=9), 10**9) == 0
    many = replace(asked, y=np.arange(200, dtype=np.int32) // 2, classification=True)
    assert of(many, 10**9) == 512
    assert of(many, 10**9, shared_memory=24 << 10) == 0
    assert_equal_trees(many.with_options(max_depth=4), ShimRuntime(shared_memory=48 << 10))


def test_trees_with_max_leaf_nodes_stay_in_the_level_loop() -> None:
    assert problem("values").options.max_leaf_nodes == NO_LIMIT
    runtime = ShimRuntime()
    assert_equal_trees(problem("values").with_options(max_leaf_nodes=5), runtime)
    assert "grow_subtrees" not in runtime.launches


# Races, memory, machine code --------------------------------------------------------------------


def sound_problems() -> Iterator[Problem]:
    """Small problems with every kind of split, and nodes of more rows than a block has threads."""
    for target in ("five classes", "outputs"):
        asked = problem(target, n=290, max_bins=12, n_trees=1)
        for random_thresholds in (False, True):
            options = {"random_thresholds": random_thresholds, "max_depth": 8}
            yield asked.with_options(**options, min_samples_leaf=2)
            yield asked.with_options(**options, max_features=2)


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_the_kernel_is_sound(flavour: str, step: int, small_nodes: Callable[[int], None]) -> None:
    for rows in (100, 512):
        small_nodes(rows)
        for asked in islice(sound_problems(), 0, None, step):
            runtime = ShimRuntime(flavour=flavour)
            assert_equal_trees(asked, runtime)
            assert runtime.launches.count("grow_subtrees") >= 2  # blocks, then warps


KERNEL = "growth/subtrees.cu"
KERNEL_FILES = (KERNEL, "growth/block_state.cuh", "growth/subtree.cuh")
MUTANTS = [
    pytest.param(name, mutant, id=f"{name}:{mutant.line}")
    for name in KERNEL_FILES
    for mutant in barrier_mutants(file_text(name))
]


def test_there_are_mutants_of_each_kernel_with_barriers() -> None:
    names = {str(mutant.values[0]) for mutant in MUTANTS}
    assert names == set(KERNEL_FILES) - {"growth/block_state.cuh"}


@pytest.mark.parametrize(("name", "mutant"), MUTANTS)
def test_every_barrier_is_needed(
    name: str,
    mutant: cuda_shim.Mutant,
    small_nodes: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(small, "BLOCKS", 1)
    sources = with_text(name, mutant.source_text, [KERNEL])
    runtime = ShimRuntime("race", order_seed=4, n_multiprocessors=1, sources=sources)
    with pytest.raises((KernelError, AssertionError)):
        for rows in (512, 100):
            small_nodes(rows)
            for asked in sound_problems():
                assert_equal_trees(asked, runtime)


VOTES = list(vote_mutants(file_text("growth/block_state.cuh")))


@pytest.mark.parametrize("mutant", VOTES, ids=lambda m: m.barrier)
def test_every_vote_must_cover_the_whole_block(
    mutant: cuda_shim.Mutant, small_nodes: Callable[[int], None]
) -> None:
    sources = with_text("growth/block_state.cuh", mutant.source_text, [KERNEL])
    runtime = ShimRuntime("race", order_seed=4, sources=sources)
    small_nodes(512)
    with pytest.raises((KernelError, AssertionError)):
        for asked in sound_problems():
            assert_equal_trees(asked, runtime)


@pytest.mark.skipif(
    nvrtc.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(nvrtc.why_not_available()),
)
def test_static_shared_memory_of_a_block() -> None:
    for by_warp in (0, 1):
        source = kernel_source(KERNEL, {"BY_WARP": by_warp})
        resources = nvrtc.compile_source(source, "sm_90").resources
        used = resources["grow_subtrees"].static_shared
        assert used <= small.STATIC_BYTES
        assert by_warp or used > 0.75 * small.STATIC_BYTES


def test_dynamic_shared_memory_of_a_block() -> None:
    """The size is the sum of the parts that `layout` of block_state.cuh defines."""
    _, matrix, sampler, target = problem("outputs").prepare()
    asked = problem("outputs").task(matrix, sampler, target)
    gradients, sums, cells = 2 * 8, 2 * 2 * (2 + 2) * 4, (1 + 2 * 2) * 4
    assert small_bytes(asked) == gradients + sums + cells * matrix.width + 2 * 512 * 4
    assert tiny_bytes(asked) == gradients + sums + cells * 33 + 2 * 32 * 4
    counted = replace(asked, options=replace(asked.options, min_samples_leaf=2))
    assert small_bytes(counted) == small_bytes(asked) + matrix.width * 4
    _, matrix, sampler, target = problem("five classes").prepare()
    asked = problem("five classes").task(matrix, sampler, target)
    gradients, sums, cells = 5 * 8, 2 * 2 * (5 + 2) * 4, (1 + 5) * 4
    assert small_bytes(asked) == gradients + sums + cells * matrix.width + 512 * 4
