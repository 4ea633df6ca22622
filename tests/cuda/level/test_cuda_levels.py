"""Trees grown by the CUDA kernels, run on the CPU, equal the reference's to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from gpuboost.backends.cuda.data.matrix import in_tiles
from gpuboost.backends.cuda.growth import subtrees as small
from gpuboost.backends.cuda.level import histograms, policy
from gpuboost.backends.cuda.level.histograms import HistogramBuilder, choose_tile
from gpuboost.backends.cuda.level.records import Search
from gpuboost.backends.cuda.runtime import grid as chunks
from gpuboost.backends.cuda.runtime.source import file_text
from gpuboost.backends.numpy.backend import NumpyBackend
from tests import cuda_shim
from tests.cuda.lock_step import LockStepBackend
from tests.cuda.shim_runtime import ShimBackend, ShimRuntime, with_text
from tests.cuda.shim_trees import (
    PROPERTY,
    TARGETS_AND_SCORES,
    N,
    assert_equal_trees,
    problem,
    small_problems,
)
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import barrier_mutants, vote_mutants
from tests.engine.harness import Problem, grow, make_columns, make_target
from tests.engine.strategies import median_problems, problems
from tests.pairs import every_pair

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

TURING = 64 << 10  # shared memory of a block on the oldest GPUs: narrow tiles
KERNEL_FILES = (
    *(
        "histogram/histogram_values.cu",
        "histogram/histogram_classes.cu",
        "level/candidates.cuh",
        "level/split.cuh",
        "level/split.cu",
        "level/select_split.cu",
        "level/next_feature.cu",
        "level/partition.cu",
    ),
    *("level/policy.cu", "common/running_sum.cuh", "level/sums.cu"),
)
INCLUDED_BY = {
    "level/candidates.cuh": ["level/split.cu", "level/next_feature.cu"],
    "level/split.cuh": ["level/split.cu", "level/next_feature.cu"],
}
INCLUDED_BY["common/running_sum.cuh"] = ["level/policy.cu"]


@pytest.fixture(autouse=True, scope="module")
def no_small_nodes() -> Iterator[None]:
    """Keep all nodes in the level loop; `test_cuda_subtrees.py` tests subtrees.

    There are few blocks, so each processes several nodes and pieces of rows in turn.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(small, "MAX_SUBTREE_ROWS", 0)
        monkeypatch.setattr(chunks, "STRIDING_BLOCKS", 1)
        yield


# Every step ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target_and_score", "weights", "thresholds"),
    every_pair(TARGETS_AND_SCORES, ("none", "real"), ("best", "random")),
    ids=str,
)
def test_every_step_equals_the_reference(
    target_and_score: tuple[str, int], weights: str, thresholds: str
) -> None:
    target, criterion = target_and_score
    asked = problem(target, weights, method="bootstrap" if weights == "none" else "all")
    asked = asked.with_options(criterion=criterion, random_thresholds=thresholds == "random")
    ensemble, fingerprint = grow(asked, LockStepBackend(ShimRuntime(order_seed=1)))
    assert fingerprint == grow(asked, NumpyBackend())[1]
    assert ensemble.offset[-1] > 30
    assert (ensemble.category >= 0).any()


@pytest.mark.parametrize(
    "limits",
    [
        {"max_features": 2},
        {"min_samples_leaf": 7},
        {"min_samples_leaf": 4, "random_thresholds": True},
        {"min_weight_fraction_leaf": 0.04},
        {"min_impurity_decrease": 0.005},
        {"max_depth": 0},
        {"max_depth": 3, "max_features": 1},
        {"max_leaf_nodes": 9},
        {"max_leaf_nodes": 9, "max_features": 2, "min_samples_split": 12},
    ],
    ids=lambda limits: "-".join(limits),
)
@pytest.mark.parametrize("target", ["two classes", "rare classes", "outputs"])
def test_every_limit_equals_the_reference(target: str, limits: dict[str, Any]) -> None:
    asked = problem(target, "integers", seed=3).with_options(**limits)
    fingerprint = grow(asked, LockStepBackend(ShimRuntime(order_seed=2)))[1]
    assert fingerprint == grow(asked, NumpyBackend())[1]


@pytest.mark.parametrize("method", ["all", "bootstrap"])
@pytest.mark.parametrize(
    ("target", "weights", "limits"),
    [
        ("values", "real", {}),
        ("heavy values", "integers", {"max_features": 2, "min_samples_leaf": 3}),
        ("outputs", "none", {"random_thresholds": True}),
        ("outputs", "real", {"max_leaf_nodes": 9}),
    ],
)
def test_every_step_of_medians_equals_the_reference(
    target: str, weights: str, limits: dict[str, Any], method: str
) -> None:
    asked = problem(target, weights, seed=4, method=method, by_median=True).with_options(**limits)
    if target == "outputs":  # many rows at the median, and ties of the halves
        asked = replace(asked, y=np.rint(asked.y * 3.0))
    ensemble, fingerprint = grow(asked, LockStepBackend(ShimRuntime(order_seed=5)))
    assert fingerprint == grow(asked, NumpyBackend())[1]
    assert ensemble.offset[-1] > 30


@settings(PROPERTY, max_examples=30)
@given(median_problems())
def test_any_problem_of_medians_equals_the_reference(problem: Problem) -> None:
    assert_equal_trees(problem, ShimRuntime(order_seed=1 + problem.seed % 1000))


@settings(PROPERTY, max_examples=15)
@given(problems())
def test_any_problem_equals_the_reference(problem: Problem) -> None:
    assert_equal_trees(problem, ShimRuntime(order_seed=1 + problem.seed % 1000))


@pytest.mark.slow
@settings(PROPERTY, max_examples=150)
@given(problems(max_rows=700))
def test_many_problems_equal_the_reference_at_every_step(problem: Problem) -> None:
    """`test_cuda_finishing.py` compares many trees of whole fits."""
    grow(problem, LockStepBackend(ShimRuntime(order_seed=problem.seed % 3)))


# Invariance ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["two classes", "five classes", "outputs"])
@pytest.mark.parametrize(
    ("budget", "n"),
    [
        (1, 60),  # every node on its own
        pytest.param(1, N, marks=pytest.mark.slow),
        (1 << 18, N),
        (1 << 21, N),
        (1 << 30, N),
    ],
)
def test_memory_budget_and_batches_do_not_matter(target: str, budget: int, n: int) -> None:
    asked = problem(target, n=n, method="bootstrap", n_trees=3)
    assert assert_equal_trees(asked, ShimRuntime(), memory_budget=budget) > n // 2


def test_large_budgets_build_fewer_histograms(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    build = HistogramBuilder.build

    def spy(self: HistogramBuilder, rows: Any, search: Search, slots: range, *rest: Any) -> None:
        pieces = slice(int(search.work.n_pieces[0]))
        inside = np.isin(search.work.slot[pieces], slots)
        built.append(int(search.work.rows[pieces][inside].sum()))
        build(self, rows, search, slots, *rest)

    monkeypatch.setattr(HistogramBuilder, "build", spy)
    asked = problem("values", n_trees=1)
    rows_read = []
    for budget in (1 << 30, 1):
        built.clear()
        grow(asked, ShimBackend(), memory_budget=budget)
        rows_read.append(sum(built))
    assert rows_read[0] < 0.6 * rows_read[1]


@pytest.mark.parametrize("order_seed", range(3))
def test_order_of_threads_and_blocks_does_not_matter(
    order_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "PIECE_ROWS", 40)
    for target in ("two classes", "five classes", "outputs"):
        asked = problem(target, "real", seed=order_seed).with_options(max_features=3)
        assert_equal_trees(asked, ShimRuntime(order_seed=100 * order_seed))


@pytest.mark.parametrize("shared_memory", [TURING, 227 << 10], ids=["narrow tiles", "wide tiles"])
@pytest.mark.parametrize("target", ["values", "five classes"])
def test_many_features_bins_and_blocks(
    target: str, shared_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are several tiles (the last is not full), several blocks per node, and 256 codes."""
    monkeypatch.setattr(histograms, "MIN_BLOCK_ROWS", 50)
    rng = np.random.default_rng(5)
    X = make_columns(rng, 1200, ["normal"] * 35, np.float64)
    X[rng.random(X.shape) < 0.02] = np.nan
    y, classification = make_target(rng, X, target)
    X[:, 32:] = X[:, :3]  # ties between features of one lane
    options = {"max_depth": 3, "min_samples_leaf": 3}
    asked = Problem(X, y, classification, n_trees=3).with_options(**options)
    assert asked.prepare()[0].width == 256
    runtime = ShimRuntime(shared_memory=shared_memory, order_seed=7, n_multiprocessors=60)
    assert assert_equal_trees(asked, runtime) > 8


def test_features_of_trees() -> None:
    asked = problem("two classes", tree_features=2, n_trees=4)
    assert_equal_trees(asked, ShimRuntime())
    assert_equal_trees(asked.with_options(max_features=1), ShimRuntime())


def test_weights_of_classes_per_tree() -> None:
    """Each tree has its own sums of leaves."""
    asked = problem("five classes", method="bootstrap", balance=True, n_trees=3)
    grow(asked, LockStepBackend(ShimRuntime()))
    assert_equal_trees(asked, ShimRuntime(), memory_budget=1)


def test_rows_of_zero_weight_do_not_make_a_node_impure() -> None:
    X = np.arange(40, dtype=np.float64)[:, None]
    weights = np.where(np.arange(40) % 4, 1e-12, 1.0)
    y = np.where(weights == 1, 3.0, np.arange(40.0))
    asked = Problem(X, y, False, weights)
    assert (asked.prepare()[2].rows(0).weight == 0).sum() == 30
    assert assert_equal_trees(asked, ShimRuntime()) == 2  # a leaf in each of two trees


def test_one_class_one_row_one_feature() -> None:
    X = np.zeros((1, 1), dtype=np.float32)
    assert_equal_trees(Problem(X, np.zeros(1, np.int32), True), ShimRuntime())
    X = np.arange(6, dtype=np.float64)[:, None]
    assert_equal_trees(Problem(X, np.zeros(6, np.int32), True), ShimRuntime())
    assert_equal_trees(Problem(X, np.arange(6.0), False), ShimRuntime())


# Real tables --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "classification"),
    [
        (load_breast_cancer, True),
        (load_diabetes, False),
        pytest.param(load_digits, True, marks=pytest.mark.slow),
    ],
)
def test_real_tables(load: Any, classification: bool) -> None:
    X, y = load(return_X_y=True)
    y = y.astype(np.int32 if classification else np.float64)
    asked = Problem(X, y, classification, method="bootstrap", n_trees=2)
    asked = asked.with_options(max_features=max(1, X.shape[1] // 3))
    assert assert_equal_trees(asked, ShimRuntime(order_seed=3)) > 20


# Tiles --------------------------------------------------------------------------------------


def test_tiles() -> None:
    codes = np.arange(5 * 3, dtype=np.uint8).reshape(5, 3)
    tiles = in_tiles(ShimRuntime(), codes, 4)
    assert tiles.shape == (2, 3, 4)
    np.testing.assert_array_equal(tiles[0], codes[:4].T)
    np.testing.assert_array_equal(tiles[1], [[12, 0, 0, 0], [13, 0, 0, 0], [14, 0, 0, 0]])


def test_choice_of_tiles() -> None:
    assert choose_tile(227 << 10, 256, 4) == 32
    assert choose_tile(TURING, 256, 4) == 16
    assert choose_tile(TURING, 128, 3) == 32
    with pytest.raises(MemoryError, match="lower max_bins"):
        choose_tile(32 << 10, 256, 4)


# Races --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_kernels_are_sound(flavour: str) -> None:
    for asked in small_problems():
        runtime = ShimRuntime(flavour=flavour)
        assert_equal_trees(asked, runtime)
        assert {"open_nodes", "split_features", "decide_splits", "make_children"} <= set(
            runtime.launches
        )


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_kernels_of_medians_are_sound(flavour: str) -> None:
    runtime = ShimRuntime(flavour=flavour)
    for weights in ("none", "real"):
        asked = problem("outputs", weights, n=290, max_bins=12, n_trees=1, by_median=True)
        assert_equal_trees(asked.with_options(max_depth=2), runtime)
    launched = {"count_ranks", "choose_rank_digits", "find_next_ranks", "put_signs", "median_sums"}
    assert launched <= set(runtime.launches)


def test_blocks_that_search_several_slots() -> None:
    """With features drawn per level, histograms are subtracted for all features."""
    asked = problem("two classes", "none", n=150, max_bins=12, n_trees=1)
    runtime = ShimRuntime("race", order_seed=5, n_multiprocessors=1)
    assert_equal_trees(asked.with_options(max_depth=4, level_features=3), runtime)


MUTANTS = [
    pytest.param(name, mutant, id=f"{name}:{mutant.line}")
    for name in KERNEL_FILES
    for mutant in barrier_mutants(file_text(name))
]


def test_there_are_mutants_of_each_kernel_with_barriers() -> None:
    names = [str(mutant.values[0]) for mutant in MUTANTS]
    assert set(names) == set(KERNEL_FILES) - {"level/select_split.cu", "level/sums.cu"}
    assert len(names) == sum(file_text(name).count("__syncthreads();") for name in KERNEL_FILES)


@pytest.mark.parametrize(("name", "mutant"), MUTANTS)
def test_every_barrier_is_needed(
    name: str, mutant: cuda_shim.Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A race in shared memory is reported; one in global memory makes other trees."""
    kernels = INCLUDED_BY.get(name, [name])
    if kernels[0] in ("level/policy.cu", "level/partition.cu"):  # several pieces per node
        monkeypatch.setattr(policy, "PIECE_ROWS", 16)
    sources = with_text(name, mutant.source_text, kernels)
    runtime = ShimRuntime(flavour="race", order_seed=4, sources=sources)
    with pytest.raises((KernelError, AssertionError)):
        for asked in small_problems():
            assert_equal_trees(replace(asked, weights=None), runtime)


VOTES = [
    pytest.param(name, mutant, id=f"{name}:{mutant.line}-{mutant.barrier}")
    for name in KERNEL_FILES
    for mutant in vote_mutants(file_text(name))
]


def test_there_are_mutants_of_each_kernel_with_votes() -> None:
    assert {str(vote.values[0]) for vote in VOTES} == {
        "histogram/histogram_classes.cu",
        "level/split.cu",
        "level/next_feature.cu",
    }


@pytest.mark.parametrize(("name", "mutant"), VOTES)
def test_every_vote_must_cover_the_whole_block(name: str, mutant: cuda_shim.Mutant) -> None:
    runtime = ShimRuntime("race", order_seed=4, sources={name: mutant.source_text})
    with pytest.raises((KernelError, AssertionError)):
        for asked in small_problems():
            assert_equal_trees(asked, runtime)
