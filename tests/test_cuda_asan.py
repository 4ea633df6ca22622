"""The kernels under AddressSanitizer: the whole backend in a process that has it loaded."""

from __future__ import annotations

import ast

import pytest

from tests import cuda_shim
from tests.cuda_shim import run_under_asan

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
        reason=str(cuda_shim.why_not_available()),
    ),
]

GROW = """
from gpuboost.backends.cuda import small
from tests.shim_runtime import ShimRuntime
from tests.shim_trees import assert_equal_trees, small_problems

runtime = ShimRuntime(flavour="asan")
for small.MOST_ROWS in (0, 100):
    for asked in small_problems():
        assert_equal_trees(asked, runtime)
print(sorted(set(runtime.launches)))
"""
BIN_AND_PREDICT = """
import numpy as np
from gpuboost import RandomForestClassifier
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.data.bins import BinRule
from tests.shim_runtime import ShimRuntime

rng = np.random.default_rng(0)
runtime = ShimRuntime(flavour="asan")
backend = CudaBackend(runtime)
for dtype in (np.float32, np.float64):
    X = rng.normal(size=(333, 5)).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 4] = rng.integers(0, 9, 333)
    y = (X[:, 4] % 3).astype(int)
    model = RandomForestClassifier(5, device="numpy", categorical_features=[4], random_state=0)
    trees = model.fit(X, y)._model.ensemble
    backend.fit_bins(X, BinRule(np.arange(5) == 4, 30), 1)
    columns = np.asfortranarray(X)
    assert (backend.predict(trees, columns, 1).argmax(axis=1) == model.predict(X)).all()
    assert (backend.apply(trees, columns, 1) == model.apply(X)).all()
print(sorted(set(runtime.launches)))
"""


@pytest.mark.parametrize(
    ("program", "kernels"),
    [
        (GROW, {"open_nodes", "split_features", "walk_on", "grow_small", "grow_tiny"}),
        (BIN_AND_PREDICT, {"bin_values", "sort_keys"}),
    ],
    ids=["grow", "bin and predict"],
)
def test_kernels_keep_within_their_arrays(program: str, kernels: set[str]) -> None:
    done = run_under_asan(program, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert kernels <= set(ast.literal_eval(done.stdout))
