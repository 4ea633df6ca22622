"""AdaBoost's row weights, and rows drawn by them, are equal on the device and on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.adaboost.row_weights import RowWeights
from gpuboost.backends.cuda.adaboost.rows import ClassFactors, Resampling
from gpuboost.backends.cuda.runtime.source import file_text
from gpuboost.backends.cuda.sampling.device_sampler import DeviceSampler
from gpuboost.data.binning import bin_columns
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.ensembles import adaboost
from gpuboost.engine.ensembles.adaboost import WeightBits
from gpuboost.engine.ensembles.adaboost_task import (
    RESAMPLING,
    ClassObjective,
    ReweightTask,
    ValueObjective,
)
from gpuboost.engine.sampling import ALL_ROWS, RowSampler
from gpuboost.engine.task import TreeOptions
from tests import cuda_shim
from tests.binning import fit_bin_mapper
from tests.cuda.shim_runtime import ShimRuntime, with_text
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import barrier_mutants

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


def judged(weights: np.ndarray, device: ShimRuntime, by_class: bool) -> tuple[RowWeights, Any]:
    """Row weights on the device, for a fit of classes or of values."""
    n = len(weights)
    X = np.zeros((n, 1))
    matrix = bin_columns(X, fit_bin_mapper(X, np.zeros(1, dtype=bool)))
    objective: Any = ClassObjective.of(np.zeros(n, dtype=np.int32), 1, 1.0)
    if not by_class:
        objective = ValueObjective.of(np.arange(n, dtype=np.float64), "linear", 1.0, None, VARIANCE)
    sampler = RowSampler(ALL_ROWS, n, n, 5)
    task = ReweightTask(matrix, objective, TreeOptions(VARIANCE), sampler, RESAMPLING, 1)
    return RowWeights(device, task, matrix.codes, weights.copy()), task


@pytest.mark.parametrize("by_class", [True, False])
def test_updated_weights_are_those_of_the_host(by_class: bool) -> None:
    """Weights never fall below the smallest allowed weight; zero weights stay zero."""
    rng = np.random.default_rng(1)
    weights = adaboost.normalised(10.0 ** rng.uniform(-60, 0, 700) * (rng.random(700) < 0.9))
    least = np.where(weights > 0.0, adaboost.MIN_WEIGHT, 0.0)
    wrong, losses = rng.random(700) < 0.3, rng.random(700) ** 9
    for vote in (0.3, 5.0, 700.0):
        own, _ = judged(weights, ShimRuntime(order_seed=3), by_class)
        if by_class:
            expected = adaboost.class_round(weights, wrong, 1.0 / (1.0 + np.exp(vote)), 2, 1.0)
            factors, _ = adaboost.class_factors(expected.error, expected.vote)
            own._seen[:], own.factors[:] = wrong, factors
        else:
            expected = adaboost.value_round(weights, losses, 1.0 / (1.0 + np.exp(vote)), 1.0)
            own._seen[:] = np.where(weights > 0.0, losses, -1.0)
            own.factors[:] = adaboost.value_step(expected.vote)
        own.reweigh()
        np.testing.assert_array_equal(own.values, np.maximum(expected.weights, least))
    assert (expected.weights < least).any() and (weights == 0.0).any()


def resampled(weights: np.ndarray, bits: WeightBits, tree: int, **runtime: Any) -> np.ndarray:
    """Number of times the device draws each row."""
    device = ShimRuntime(**runtime)
    own, task = judged(weights, device, by_class=True)
    sampler = DeviceSampler(device, task.sampler)
    drawing = Resampling(sampler, own, ClassFactors(device, task, own.known), bits)
    return drawing.draw(sampler.keys([tree]))[0]


@pytest.mark.parametrize("n", [1, 7, 4097])
def test_draws_are_those_of_the_host(n: int) -> None:
    rng = np.random.default_rng(n)
    weights = 10.0 ** rng.uniform(-30, 0, size=n) * (rng.random(n) < 0.9)
    weights[n // 2] = 0.5
    for given in (weights, np.full(n, 0.25), np.where(weights < 1e-3, 0.0, weights)):
        for bits in (WeightBits(28, 28), WeightBits(2, 30)):
            expected = adaboost.resampled_rows(given, bits, 5, 3).weight
            np.testing.assert_array_equal(resampled(given, bits, 3), expected)
            assert n < 10 or bits.largest > 2 or expected.max() == 4


RUNNING_SUMS = list(barrier_mutants(file_text("common/running_sum.cuh")))


@pytest.mark.parametrize("mutant", RUNNING_SUMS, ids=lambda mutant: str(mutant.line))
def test_every_barrier_of_the_running_sum_is_needed(mutant: cuda_shim.Mutant) -> None:
    assert "__syncthreads" not in file_text("adaboost/adaboost.cu")
    sources = with_text("common/running_sum.cuh", mutant.source_text, ["adaboost/adaboost.cu"])
    with pytest.raises((KernelError, AssertionError)):
        weights = np.random.default_rng(0).random(1500)
        given = {"flavour": "race", "order_seed": 4, "sources": sources}
        found = resampled(weights, WeightBits(28, 28), 0, **given)
        expected = adaboost.resampled_rows(weights, WeightBits(28, 28), 5, 0).weight
        np.testing.assert_array_equal(found, expected)
