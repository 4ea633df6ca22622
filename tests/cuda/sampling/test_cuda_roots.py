"""The first kernels of a batch of trees, and constant arrays, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.runtime.arena import Arena, ArenaPlan, plan_arena
from gpuboost.backends.cuda.runtime.launch import count_up, fill, full, launch, zeros
from gpuboost.backends.cuda.runtime.source import file_text
from gpuboost.engine.growth.policy import smallest_hessian
from gpuboost.engine.task import NO_LIMIT
from tests import cuda_shim
from tests.cuda.shim_runtime import ShimRuntime, record, with_text
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import barrier_mutants

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
FLAVOURS = ("plain", "race", "undefined", "guard")
MANY = 2100  # more than two trees per thread


# ---- arrays of one value ---------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("n", [0, 1, 257, 5000])
@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0, np.uint8),
        (-1, np.int32),
        (2**31 - 1, np.int32),
        (7, np.uint32),
        (-(2**40), np.int64),
        (1.0, np.float64),
        (-0.1, np.float64),
    ],
)
def test_full(value: float, dtype: Any, n: int) -> None:
    runtime = ShimRuntime(order_seed=2)
    found = full(runtime, (n, 2), value, dtype)
    np.testing.assert_array_equal(found, np.full((n, 2), value, dtype=dtype))
    assert found.dtype == dtype and len(runtime.launches) == (n > 0)
    assert not zeros(runtime, n, dtype).any()


@needs_compiler
def test_fill_writes_to_its_array_alone() -> None:
    whole = np.zeros(700, dtype=np.int32)
    fill(ShimRuntime(flavour="guard"), whole[3:600], -5)
    assert (whole[3:600] == -5).all() and not whole[:3].any() and not whole[600:].any()


@needs_compiler
@pytest.mark.parametrize("step", [0, 1, 3])
def test_count_up(step: int) -> None:
    found = np.full(1000, 9, dtype=np.int32)
    count_up(ShimRuntime(), found, step)
    np.testing.assert_array_equal(found, step * np.arange(1000))


# ---- roots -----------------------------------------------------------------------------------


def check_parts(runtime: ShimRuntime, n_trees: int, n_parts: int) -> None:
    kept = np.random.default_rng(0).integers(0, 5, (n_trees, n_parts)) << 33
    first, count = np.empty_like(kept), np.empty(n_trees, dtype=np.int64)
    sizes = {"n_trees": n_trees, "n_parts": n_parts}
    launch(runtime, "place_parts", 1, kept=kept, first=first, count=count, **sizes)
    np.testing.assert_array_equal(first.ravel(), np.cumsum(kept) - kept.ravel())
    np.testing.assert_array_equal(count, kept.sum(axis=1))


def check_roots(runtime: ShimRuntime, n_trees: int) -> None:
    rng = np.random.default_rng(1)
    count = rng.integers(0, 9, n_trees) << 31
    key = rng.integers(0, 2**63, n_trees, dtype=np.uint64)
    types = {"size": np.int32, "tree": np.int32, "key": np.uint64, "start": np.int64}
    types |= {"count": np.int64, "parent": np.int32}
    out = {name: np.empty(1 if name == "size" else n_trees, t) for name, t in types.items()}
    own = {"count": count, "key": key, "n_trees": n_trees}
    launch(runtime, "make_roots", 1, out=record(**out), **own)
    expected = {"size": [n_trees], "tree": np.arange(n_trees), "key": key, "count": count}
    expected |= {"start": np.cumsum(count) - count, "parent": np.full(n_trees, -1)}
    for name, column in expected.items():
        np.testing.assert_array_equal(out[name], column, err_msg=name)


@needs_compiler
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("n_trees", "n_parts"), [(1, 1), (1, 40), (40, 1), (33, 70), (MANY, 2)])
def test_parts_and_roots(flavour: str, n_trees: int, n_parts: int) -> None:
    runtime = ShimRuntime(flavour=flavour, order_seed=3)
    check_parts(runtime, n_trees, n_parts)
    check_roots(runtime, n_trees)


@needs_compiler
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("least", [1, 50])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_limits(share: float, least: int, flavour: str) -> None:
    hessian = np.random.default_rng(0).integers(1, 2**50, MANY) >> np.arange(MANY) % 50
    found, rare = np.empty_like(hessian), np.empty_like(hessian)
    given = {"hessian": hessian, "n_trees": MANY, "minimum": np.array([least])}
    given |= {"share": share, "category_share": 0.3 * share}
    runtime = ShimRuntime(flavour=flavour)
    launch(runtime, "limit_hessian", 1, smallest=found, min_category=rare, **given)
    np.testing.assert_array_equal(found, smallest_hessian(np, share, hessian, least))
    np.testing.assert_array_equal(rare, smallest_hessian(np, 0.3 * share, hessian, 0))


@needs_compiler
def test_scales_of_weights_of_any_size() -> None:
    weights = np.r_[0.0, 5e-324, 1e-310, 2.0**-1022, 2.0 ** np.arange(-1074, 1024), 1.5, 0.9, 1e308]
    for most in (NO_LIMIT, 30, -5):
        found, unit = np.empty(len(weights), dtype=np.int32), np.empty(len(weights))
        given = {"largest": weights.view(np.uint64), "n_trees": len(weights), "bits": 16}
        given |= {"capacity": most, "exponent": found, "unit": unit}
        launch(ShimRuntime(), "scale_trees", 1, **given)
        np.testing.assert_array_equal(found, np.minimum(16 - np.frexp(weights)[1], most))
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(unit, np.ldexp(1.0, -found))


@needs_compiler
@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("n_trees", "n_classes"), [(1, 2), (70, 3), (5, 100)])
def test_balanced_classes(n_trees: int, n_classes: int, flavour: str) -> None:
    in_class = np.random.default_rng(0).integers(0, 4, (n_trees, n_classes))
    found = np.empty((n_trees, n_classes))
    given = {"in_class": in_class, "n_trees": n_trees, "n_classes": n_classes, "n_draws": 777}
    launch(ShimRuntime(flavour=flavour), "balance_classes", 1, class_weight=found, **given)
    present = (in_class > 0).sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(found, 777 / (present * np.maximum(in_class, 1)))


KERNEL_FILES = ("sampling/roots.cu", "common/running_sum.cuh")
MUTANTS = [
    pytest.param(name, mutant, id=f"{name}:{mutant.line}")
    for name in KERNEL_FILES
    for mutant in barrier_mutants(file_text(name))
]


def test_there_is_a_mutant_for_each_barrier() -> None:
    barriers = [file_text(name).count("__syncthreads();") for name in KERNEL_FILES]
    assert len(MUTANTS) == sum(barriers) and barriers == [1, 2]


@needs_compiler
@pytest.mark.parametrize(("name", "mutant"), MUTANTS)
def test_every_barrier_is_needed(name: str, mutant: cuda_shim.Mutant) -> None:
    """A race in shared memory is reported; one in global memory makes other sums."""
    sources = with_text(name, mutant.source_text, ["sampling/roots.cu"])
    with pytest.raises((KernelError, AssertionError)):
        for seed in range(1, 4):
            runtime = ShimRuntime(flavour="race", order_seed=seed, sources=sources)
            check_parts(runtime, MANY, 3)
            check_roots(runtime, MANY)


# ---- the arena -------------------------------------------------------------------------------


def lives(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    sizes = 512 * rng.integers(0, 40, n)
    return sizes, np.arange(n) + 1 + rng.geometric(0.3, n)


@pytest.mark.parametrize("seed", range(20))
def test_arrays_alive_at_the_same_time_do_not_overlap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, ends = lives(rng, int(rng.integers(1, 80)))
    plan = plan_arena(sizes.tolist(), ends.tolist())
    for i, (size, place, end) in enumerate(zip(sizes, plan.places, ends, strict=True)):
        assert place >= 0 and place + size <= plan.total
        for j in range(i + 1, min(end, len(sizes))):
            other = plan.places[j]
            assert place + size <= other or other + sizes[j] <= place
    together = [sum(sizes[: i + 1][ends[: i + 1] > i]) for i in range(len(sizes))]
    assert max(together) <= plan.total <= max(1.6 * max(together), sizes.max())


def test_memory_is_reused() -> None:
    assert plan_arena([], []).total == 0
    assert plan_arena([512, 1024, 512], [1, 2, 3]).total == 1024
    # Each level is twice as large as the one before; two are alive at a time.
    sizes = [512 << level for level in range(8)]
    assert plan_arena(sizes, [level + 2 for level in range(8)]).total == sum(sizes[-2:])


def test_an_arena_allocates_only_the_planned_arrays() -> None:
    arena = Arena(np, ArenaPlan([512, 1024], [1024, 0], 1536))
    first, second = arena.take((2, 8), np.int32), arena.take(100, np.float64)
    first[:], second[:] = 1, 2.0
    assert first.shape == (2, 8) and (first == 1).all() and second.shape == (100,)
    with pytest.raises(RuntimeError, match="array 2 of a recorded batch takes 1 bytes, but 0"):
        arena.take(1, np.uint8)
    with pytest.raises(RuntimeError, match="array 3 of a recorded batch takes 0 bytes, but 0"):
        arena.take(0, np.uint8)
    with pytest.raises(RuntimeError, match="takes 516 bytes, but 512 were planned"):
        Arena(np, ArenaPlan([512], [0], 512)).take(129, np.int32)
