"""Imported models predict the same by the CUDA kernels, which run on the CPU here."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

import gpuboost
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.numpy.backend import NumpyBackend
from tests import cuda_shim
from tests.cuda.shim_runtime import ShimRuntime
from tests.interchange import test_from_lightgbm, test_from_sklearn, test_from_xgboost
from tests.interchange.cases import assert_bits

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


@cache
def cuda() -> Any:
    return CudaBackend(ShimRuntime())


def imported(source: str, seed: int) -> tuple[Any, np.ndarray]:
    """The model of another library that a test of it makes, and its hard rows."""
    if source == "xgboost":
        booster, X, _ = test_from_xgboost.random_model(seed)
        return gpuboost.from_xgboost(booster), X
    if source == "lightgbm":
        booster, X = test_from_lightgbm.random_model(seed)
        return gpuboost.from_lightgbm(booster), X
    estimator, X = test_from_sklearn.random_model(seed)
    return gpuboost.from_sklearn(estimator), X


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("source", ["xgboost", "lightgbm", "sklearn"])
def test_cuda_kernels_give_the_same_bits(source: str, seed: int) -> None:
    model, X = imported(source, seed)
    X[0], X[1] = np.inf, -np.inf
    trees = model._model
    assert_bits(trees.apply(X, cuda(), 1), trees.apply(X, NumpyBackend(), 1))
    assert_bits(trees.raw(X, cuda(), 1), trees.raw(X, NumpyBackend(), 1))


@pytest.mark.parametrize("seed", [1, 2, 5, 10])
@pytest.mark.parametrize("source", ["xgboost", "lightgbm", "sklearn"])
def test_an_array_on_a_gpu_gives_predictions_there(machine: Any, source: str, seed: int) -> None:
    cupy: Any = sys.modules["cupy"]
    model, X = imported(source, seed)
    there = cupy.asarray(X)
    for name in ("predict_raw", "apply", "predict_proba", "predict"):
        if hasattr(model, name):
            wanted = getattr(model.set_params(device="numpy"), name)(X)
            found = getattr(model.set_params(device="auto"), name)(there)
            if not isinstance(found, np.ndarray):
                found = cupy.asnumpy(found)
            else:
                assert name == "predict" and hasattr(model, "classes_"), name
            np.testing.assert_array_equal(found, wanted)


def test_a_missing_value_on_a_gpu(machine: Any) -> None:
    cupy: Any = sys.modules["cupy"]
    xgb = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).integers(0, 4, (200, 3)).astype(np.float32)
    source = xgb.XGBRegressor(n_estimators=3, max_depth=3, missing=0.0).fit(X, X.sum(axis=1))
    found = gpuboost.from_xgboost(source).predict_raw(cupy.asarray(X))
    assert_bits(cupy.asnumpy(found), source.predict(X, output_margin=True))
