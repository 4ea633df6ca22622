"""Rows drawn by the CUDA kernels, run on the CPU, equal the sampler's to the last bit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuboost.backends.cuda.runtime.source import constant, file_text
from gpuboost.backends.cuda.sampling import device_sampler, real_weights
from gpuboost.backends.cuda.sampling import draw as drawing
from gpuboost.backends.cuda.sampling.device_sampler import DeviceSampler
from gpuboost.backends.cuda.sampling.draw import DeviceDrawing, draw_counts
from gpuboost.backends.cuda.sampling.rows import LeafColumns
from gpuboost.data.binning import bin_columns
from gpuboost.engine.fixed_point import planes_to_float
from gpuboost.engine.quantise import class_target, value_target
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.targets import ClassTarget, Target, ValueTarget
from gpuboost.engine.task import GrowTask, TreeOptions
from gpuboost.estimators.fitting.grow_plan import GrowPlan, grow_trees
from gpuboost.estimators.fitting.pipeline import Prepared
from gpuboost.estimators.inputs.parameters import Execution
from gpuboost.estimators.model.fitted import TreeBatch
from tests import cuda_shim
from tests.binning import fit_bin_mapper
from tests.cuda.shim_runtime import ShimBackend, ShimRuntime
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import barrier_mutants
from tests.engine.harness import make_weights

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

TREES = (0, 3, 2**31 + 5)
N = 900
METHODS = ("all", "bootstrap", "subset")
WEIGHTS = ("none", "integers", "real")
REWEIGHED = ("balance", "factor", "balance and factor")
SHORT = {"PART": 300, "DIGIT_PART": 500, "CLASS_COUNTS": 2}  # for several parts of few rows


def short_parts() -> dict[str, str]:
    """Kernel texts with small parts, so that few rows have several parts."""
    text = file_text("sampling/draw.cu")
    for name, size in SHORT.items():
        old = f"{name} = {constant('sampling/draw.cu', name)};"
        assert text.count(f" {old}") == 1
        text = text.replace(f" {old}", f" {name} = {size};")
    return {"sampling/draw.cu": text}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Use small parts in kernels and launches."""
    for module in (device_sampler, drawing, real_weights):
        monkeypatch.setattr(
            module, "constant", lambda file, name: SHORT.get(name) or constant(file, name)
        )
    return short_parts()


@dataclass(frozen=True)
class Asked:
    """A sampler and a target."""

    method: str
    weights: str = "none"
    reweighed: str = ""
    n: int = N
    n_draws: int | None = None
    n_classes: int = 5
    outputs: int = 0  # 0: the target is classes
    seed: int = 0

    def sampler(self) -> RowSampler:
        rng = np.random.default_rng(self.seed)
        n, weights = self.n, make_weights(rng, self.n, self.weights)
        codes, factor = self.codes(), None
        if "factor" in self.reweighed:
            factor = 10.0 ** rng.uniform(-4, 3, n)
            factor[rng.random(n) < 0.2] = 0.0
        balance = codes if "balance" in self.reweighed else None
        most = n if weights is None else np.count_nonzero(weights)
        n_draws = n if self.method == "bootstrap" else max(1, int(most) // 2)
        n_draws = n_draws if self.n_draws is None else self.n_draws
        return RowSampler(self.method, n, n_draws, 2**63 + self.seed, weights, balance, factor)

    def codes(self) -> np.ndarray:
        rng = np.random.default_rng(self.seed + 1)
        return np.minimum(rng.geometric(0.4, self.n) - 1, self.n_classes - 1).astype(np.int32)

    def target(self, sampler: RowSampler) -> Target:
        if not self.outputs:
            return class_target(self.codes(), self.n_classes, sampler.weight_facts)
        rng = np.random.default_rng(self.seed + 2)
        return value_target(rng.standard_normal((self.n, self.outputs)), sampler.weight_facts)


def task_of(sampler: RowSampler, target: Target) -> GrowTask:
    X = np.zeros((sampler.n_samples, 1))
    matrix = bin_columns(X, fit_bin_mapper(X, np.zeros(1, dtype=bool)))
    options = TreeOptions(criterion=0)
    return GrowTask(matrix, target, options, sampler.rows, TREES, sampler.seed, sampler=sampler)


def target_column(target: Target, row: np.ndarray) -> np.ndarray:
    if isinstance(target, ValueTarget):
        return target.values[row].T
    assert isinstance(target, ClassTarget)
    label = target.classes[row]
    return (label if target.n_classes > 2 else label == 1)[None].astype(np.int32)


def assert_same_leaf(
    leaf: LeafColumns | None, t: int, sampler: RowSampler, target: Target, tree: int
) -> None:
    """Assert equal columns for leaf sums: the tree's own, or the target's."""
    expected = sampler.rows(tree)
    if leaf is None:
        assert expected.wide is None and target.wide is None
        return
    wide = leaf.wide[leaf.wide_of[t]]
    assert wide.dtype == np.int64
    assert leaf.draws == expected.draws
    assert leaf.n_classes == target.n_classes
    if expected.wide is None:
        np.testing.assert_array_equal(wide, target.wide)
        return
    mask = expected.mask
    np.testing.assert_array_equal(wide[mask], expected.wide[mask])


def assert_same_rows(
    sampler: RowSampler, target: Target, runtime: ShimRuntime, trees: tuple[int, ...] = TREES
) -> None:
    """Compare every array of a batch with the sampler's, tree by tree."""
    drawer = DeviceDrawing(runtime, task_of(sampler, target))
    (rows, count, leaf, max_weight), start = drawer.rows(drawer._device.keys(trees)), 0
    assert count.dtype == np.int64
    assert len(rows) == len(trees) * drawer.rows_per_tree
    for t, tree in enumerate(trees):
        expected = sampler.rows(tree)
        row = np.flatnonzero(expected.mask)
        if target.is_multiclass:
            row = row[np.lexsort((row, target.classes[row]))]
        assert count[t] == len(row) <= drawer.rows_per_tree
        part = slice(start, start + len(row))
        np.testing.assert_array_equal(rows.row[part], row)
        np.testing.assert_array_equal(rows.weight[part], expected.weight[row])
        np.testing.assert_array_equal(rows.target[:, part], target_column(target, row))
        assert_same_leaf(leaf, t, sampler, target, tree)
        assert expected.weight.max() <= max_weight
        start += len(row)


def check(asked: Asked, runtime: ShimRuntime) -> None:
    sampler = asked.sampler()
    assert_same_rows(sampler, asked.target(sampler), runtime)


# Every kind of draw ---------------------------------------------------------------------------


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method(method: str, weights: str, short: dict[str, str]) -> None:
    for outputs in (0, 2):
        runtime = ShimRuntime(order_seed=5, sources=short)
        check(Asked(method, weights, outputs=outputs), runtime)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("reweighed", REWEIGHED)
@pytest.mark.parametrize("method", METHODS[1:])
def test_draws_times_weights(
    method: str, reweighed: str, weights: str, short: dict[str, str]
) -> None:
    for n_classes in (1, 2, 5):
        runtime = ShimRuntime(order_seed=6, sources=short)
        check(Asked(method, weights, reweighed, n_classes=n_classes), runtime)


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 20000])
def test_any_number_of_rows(n: int) -> None:
    for method in METHODS:
        for weights in WEIGHTS:
            check(Asked(method, weights, n=n), ShimRuntime())


@pytest.mark.parametrize("n_draws", [1, 7, 5 * N])
def test_any_number_of_draws(n_draws: int, short: dict[str, str]) -> None:
    for weights in WEIGHTS:
        asked = Asked("bootstrap", weights, "balance", n_draws=n_draws)
        check(asked, ShimRuntime(sources=short))
        check(replace(asked, reweighed=""), ShimRuntime(sources=short))


@pytest.mark.parametrize("n_draws", [1, 2, 449, N - 1, N])
def test_any_number_of_rows_kept(n_draws: int, short: dict[str, str]) -> None:
    check(Asked("subset", n_draws=n_draws), ShimRuntime(sources=short))


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.builds(
        Asked,
        method=st.sampled_from(METHODS[1:]),
        weights=st.sampled_from(WEIGHTS),
        reweighed=st.sampled_from(["", *REWEIGHED]),
        n=st.integers(1, 700),
        n_classes=st.integers(1, 4),
        seed=st.integers(0, 2**20),
    )
)
def test_any_draw(asked: Asked) -> None:
    check(asked, ShimRuntime(order_seed=1 + asked.seed % 7))


def test_many_trees_are_drawn_alike_in_any_batch() -> None:
    sampler = Asked("bootstrap", "real", "balance").sampler()
    target = Asked("bootstrap").target(sampler)
    assert_same_rows(sampler, target, ShimRuntime(), tuple(range(40)))
    assert_same_rows(sampler, target, ShimRuntime(), (17,))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("method", METHODS[1:])
def test_draw_counts(method: str, weights: str) -> None:
    sampler = Asked(method, weights).sampler()
    device = DeviceSampler(ShimRuntime(), sampler)
    found = draw_counts(device)(device.keys(TREES))
    for own, tree in zip(found, TREES, strict=True):
        np.testing.assert_array_equal(own, sampler.draw_counts(tree))


# Edge cases -----------------------------------------------------------------------------------


def test_ties_without_replacement_go_to_the_first_rows(short: dict[str, str]) -> None:
    """With tiny weights, keys overflow to infinity and tie, so the first rows win."""
    weights = np.full(N, 5e-324)
    weights[::7] = 1.0
    sampler = RowSampler("subset", N, 400, 1, weights)
    with np.errstate(over="ignore"):
        assert (sampler.draw_counts(0)[::7] == 1).all()
        target = class_target(Asked("subset").codes(), 5, sampler.weight_facts)
        assert_same_rows(sampler, target, ShimRuntime(sources=short))


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-9, 1e12, 1e300])
def test_factors_of_any_size(scale: float) -> None:
    """Exponents exceed those of a single float64 factor, and weights are denormal."""
    factor = np.random.default_rng(0).random(N) * scale
    sampler = RowSampler("bootstrap", N, N, 1, None, None, factor)
    codes = Asked("bootstrap").codes()
    target = class_target(codes, 5, sampler.weight_facts)
    assert_same_rows(sampler, target, ShimRuntime())
    rows = sampler.rows(0)
    assert rows.wide is not None and rows.exponents is not None
    total = planes_to_float(rows.wide.sum(axis=0), rows.exponents)[0]
    assert total == pytest.approx((sampler.draw_counts(0) * factor).sum(), rel=1e-13)


def test_factors_that_leaf_sums_could_not_hold_are_zero() -> None:
    factor = np.full(N, 2.0**-41)
    factor[::9] = 2.0**-40
    factor[0] = 1.0
    sampler = RowSampler("bootstrap", N, 3, 1, None, None, factor)
    target = class_target(Asked("bootstrap").codes(), 5, sampler.weight_facts)
    trees = tuple(t for t in range(30) if sampler.rows(t).mask.any())
    assert_same_rows(sampler, target, ShimRuntime(), trees)
    for tree in trees:
        rows = sampler.rows(tree)
        assert not rows.mask[factor == 2.0**-41].any()
        assert rows.wide is not None and rows.exponents is not None
        total = planes_to_float(rows.wide.sum(axis=0), rows.exponents)[0]
        assert total == (sampler.draw_counts(tree) * sampler.row_factor).sum() > 0


def test_a_tree_without_rows_is_an_error() -> None:
    factor = np.zeros(N)
    factor[0] = 1.0
    asked = Asked("bootstrap")
    sampler = RowSampler("bootstrap", N, 2, 1, None, None, factor)
    task = task_of(sampler, asked.target(sampler))
    plan: Any = GrowPlan(task.options, TreeBatch(range(5), sampler, None), task.target)
    nothing, backend = cast("Any", None), cast("Any", ShimBackend())
    labels: Any = SimpleNamespace(n_outputs=1)
    execution = Execution("cuda", 1, 0)
    prepared = Prepared(nothing, task.matrix, labels, plan, backend, execution)
    with pytest.raises(ValueError, match="all 2 rows drawn for tree 0 are of classes whose"):
        grow_trees(prepared)


def test_trees_may_have_no_rows() -> None:
    """If all drawn rows have classes of zero weight, the caller gets a root without rows."""
    factor = np.zeros(N)
    factor[0] = 1.0
    sampler = RowSampler("bootstrap", N, 2, 1, None, None, factor)
    target = class_target(Asked("bootstrap").codes(), 5, sampler.weight_facts)
    drawer = DeviceDrawing(ShimRuntime(), task_of(sampler, target))
    count = drawer.rows(drawer._device.keys(range(5)))[1]
    expected = [np.count_nonzero(sampler.rows(t).mask) for t in range(5)]
    assert count.tolist() == expected
    assert 0 in expected


def test_own_sums_of_trees_do_not_overflow() -> None:
    """Sums of a tree's planes are below 2**62 and keep 53 bits for any sizes of classes."""
    for codes in (np.zeros(N, np.int32), np.r_[np.zeros(N - 1), 1].astype(np.int32)):
        for factor in (None, np.where(codes == 1, 1e6, 1.0)):
            sampler = RowSampler("bootstrap", N, N, 1, None, codes, factor)
            wide = sampler.rows(0).wide
            assert wide is not None
            totals = [sum(abs(int(x)) for x in wide[:, k]) for k in range(2)]
            assert max(totals) < 2**62
            assert totals[0] >= 2**30


def test_launches_do_not_grow_with_trees() -> None:
    for asked in (Asked("bootstrap", "real", "balance"), Asked("subset"), Asked("all", "real")):
        sampler, counts = asked.sampler(), []
        for trees in (range(2), range(50)):
            runtime = ShimRuntime()
            drawer = DeviceDrawing(runtime, task_of(sampler, asked.target(sampler)))
            drawer.rows(drawer._device.keys(trees))
            counts.append(len(runtime.launches))
        assert counts[0] == counts[1]


# Soundness ------------------------------------------------------------------------------------


def sound_draws() -> list[Asked]:
    """Draws that use every kernel, with several parts."""
    small: dict[str, Any] = {"n": 620, "n_classes": 3}
    return [
        Asked("all", "integers", **small),
        Asked("bootstrap", "real", "balance and factor", **small),
        Asked("bootstrap", **small),
        Asked("subset", "real", **small),
    ]


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_kernels_are_sound(flavour: str, short: dict[str, str]) -> None:
    runtime = ShimRuntime(flavour=flavour, sources=short)
    for asked in sound_draws():
        check(asked, runtime)
    assert set(runtime.launches) >= set(
        cuda_shim.Module(
            short["sampling/draw.cu"], flavour, file_name="sampling/draw.cu"
        ).kernel_names
    )


RANK = "common/block_rank.cuh"


def with_rank(rank_text: str) -> str:
    """The kernel text with small parts and the included file replaced by ``rank_text``."""
    return short_parts()["sampling/draw.cu"].replace(f'#include "{RANK}"', rank_text)


MUTANTS = [
    *barrier_mutants(short_parts()["sampling/draw.cu"]),
    *(
        cuda_shim.Mutant(mutant.line, mutant.barrier, with_rank(mutant.source_text))
        for mutant in barrier_mutants(file_text(RANK))
    ),
]


def test_there_is_a_mutant_for_each_barrier() -> None:
    text = file_text("sampling/draw.cu") + file_text(RANK)
    assert len(MUTANTS) == text.count("__syncthreads();") + text.count("__syncwarp();") > 6


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.line))
def test_every_barrier_is_needed(mutant: cuda_shim.Mutant, short: dict[str, str]) -> None:
    runtime = ShimRuntime(flavour="race", sources={"sampling/draw.cu": mutant.source_text})
    with pytest.raises(KernelError):
        for asked in sound_draws():
            check(asked, runtime)
