"""Quantiles of groups by radix selection, with kernels run on the CPU, equal the engine's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.boosting import quantiles as cuda_quantiles
from gpuboost.backends.cuda.boosting.quantiles import GroupedNumbers, SizesQuantile, pieces_of
from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet
from gpuboost.backends.cuda.runtime import grid as chunks
from gpuboost.backends.cuda.runtime.source import constant, file_text
from gpuboost.engine import order_statistics
from gpuboost.engine.ensembles.boosting_task import RowSet
from gpuboost.engine.losses import Predicted, make_loss
from tests import cuda_shim
from tests.cuda.shim_runtime import ShimRuntime
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import barrier_mutants

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
PIECE = constant("boosting/quantiles.cuh", "QUANTILE_PIECE")


def keys_of(values: np.ndarray) -> np.ndarray:
    """Unsigned keys in the order of the values."""
    bits = (values + 0.0).view(np.uint64)
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)


def quantiles(
    runtime: ShimRuntime, values: np.ndarray, weights: np.ndarray | None, counts: Any, level: float
) -> np.ndarray:
    """Quantile of each group; the groups are contiguous in ``values``."""
    count = np.array(counts, dtype=np.int64)
    pieces = pieces_of(runtime, np.cumsum(count) - count, count, PIECE)
    size, key = np.array([len(count)], dtype=np.int32), keys_of(values)
    made = GroupedNumbers.empty(np, size, len(count) + 3, pieces, key, weights)
    made.quantile_level[...] = level
    found = np.full(len(count) + 3, np.nan)
    made.find(runtime, found)
    assert np.isnan(found[len(count) :]).all()
    return found[: len(count)]


def expected(values: np.ndarray, weights: Any, counts: Any, level: float) -> np.ndarray:
    groups = order_statistics.groups_of(np.repeat(np.arange(len(counts)), counts), len(counts))
    whole = np.ones(len(values), dtype=np.int64) if weights is None else weights
    return order_statistics.weighted_quantiles(values, whole, groups, level)


@pytest.mark.parametrize("seed", range(16))
def test_quantiles_are_those_of_the_engine(seed: int) -> None:
    """The values have ties, both zeros, huge and tiny numbers, and rows of zero weight."""
    rng, runtime = np.random.default_rng(seed), ShimRuntime(order_seed=1 + seed)
    counts = rng.integers(1, 60, int(rng.integers(1, 12)))
    n = int(counts.sum())
    values = np.round(rng.normal(size=n), int(rng.integers(0, 9)))
    values *= 10.0 ** rng.choice([0, 0, 0, -308, 300], n)
    values[rng.random(n) < 0.1] *= 0.0
    weights = None if seed % 3 == 0 else rng.choice([0, 1, 1, 7, 2**40], n).astype(np.int64)
    level = float(rng.choice([0.5, 0.1, 0.93, 0.25]))
    found = quantiles(runtime, values, weights, counts, level)
    right = expected(values, weights, counts, level)
    np.testing.assert_array_equal(found.view(np.int64), right.view(np.int64))


def test_groups_of_many_pieces() -> None:
    """Sums of weights exceed 32 bits within one piece."""
    rng, counts = np.random.default_rng(0), [2 * PIECE + 77, 1, PIECE]
    values = rng.normal(size=sum(counts))
    for weights in (None, rng.integers(1, 2**33, len(values))):
        found = quantiles(ShimRuntime(order_seed=5), values, weights, counts, 0.5)
        np.testing.assert_array_equal(found, expected(values, weights, counts, 0.5))


def test_more_groups_than_are_counted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are also more pieces and groups than blocks."""
    text = file_text("boosting/quantiles.cu").replace(
        "GROUPS_AT_ONCE = 65536", "GROUPS_AT_ONCE = 32"
    )
    monkeypatch.setattr(cuda_quantiles, "_at_once", lambda: 32)
    rng = np.random.default_rng(2)
    runtime = ShimRuntime(
        order_seed=3, n_multiprocessors=1, sources={"boosting/quantiles.cu": text}
    )
    monkeypatch.setattr(chunks, "STRIDING_BLOCKS", 2)
    counts = rng.integers(1, 9, 75)
    values = rng.normal(size=counts.sum())
    found = quantiles(runtime, values, None, counts, 0.5)
    np.testing.assert_array_equal(found, expected(values, None, counts, 0.5))
    assert runtime.launches.count("count_key_digits") == 3 * 8


def rows_of(rng: np.random.Generator, n: int, loss: Any, weights: Any) -> DeviceRowSet:
    y = rng.normal(size=n) * 10.0 ** rng.integers(-9, 4, n)
    raw = rng.choice([0.0, 0.0, 0.5], (n, loss.columns))
    given = RowSet(np.zeros((n, 1)), y, weights, raw)
    return DeviceRowSet.of(ShimRuntime(), given, np.zeros((1, n), np.uint8))


@pytest.mark.parametrize("weighted", [False, True])
def test_quantile_of_absolute_residuals(weighted: bool) -> None:
    """The quantile of all rows, of which some have zero weight."""
    rng, n = np.random.default_rng(3), 90
    loss = make_loss("huber", n_outputs=1, alpha=0.8)
    weights = rng.choice([0.0, 0.3, 2.0], n) if weighted else None
    rows = rows_of(rng, n, loss, weights)
    whole = order_statistics.integer_weights(weights, n) if weighted else None
    found = np.zeros(1)
    SizesQuantile(ShimRuntime(order_seed=2), rows, whole, 0.8).find(found)
    right = loss.round_parameter(Predicted(rows.given.y, rows.given.raw, weights))
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_kernels_are_sound(flavour: str) -> None:
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=300), rng.integers(0, 9, 300)
    found = quantiles(ShimRuntime(flavour=flavour), values, weights, [200, 1, 99], 0.5)
    np.testing.assert_array_equal(found, expected(values, weights, [200, 1, 99], 0.5))


MUTANTS = list(barrier_mutants(file_text("boosting/quantiles.cu")))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.line))
def test_every_barrier_is_needed(mutant: cuda_shim.Mutant) -> None:
    sources = {"boosting/quantiles.cu": mutant.source_text}
    runtime = ShimRuntime(flavour="race", order_seed=4, sources=sources)
    values = np.random.default_rng(0).normal(size=600)
    with pytest.raises((KernelError, AssertionError)):
        found = quantiles(runtime, values, None, [600], 0.5)
        np.testing.assert_array_equal(found, expected(values, None, [600], 0.5))


def test_there_are_mutants() -> None:
    text = file_text("boosting/quantiles.cu")
    assert len(MUTANTS) >= text.count("__syncthreads();") + text.count("__syncwarp();") > 0
