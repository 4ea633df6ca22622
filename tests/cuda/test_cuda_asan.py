"""The CUDA backend and its kernels in a process with AddressSanitizer loaded."""

from __future__ import annotations

import ast

import pytest

from gpuboost.backends.cuda.runtime.signatures import find_kernels
from gpuboost.backends.cuda.runtime.source import file_text
from tests import cuda_shim
from tests.cuda_shim.asan import run_under_asan

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
        reason=str(cuda_shim.why_not_available()),
    ),
]

GROW = """
from gpuboost.backends.cuda.growth import subtrees as small
from tests.cuda.shim_runtime import ShimRuntime
from tests.cuda.shim_trees import assert_equal_trees, small_problems

runtime = ShimRuntime(flavour="asan")
for small.MAX_SUBTREE_ROWS in (0, 100):
    for asked in small_problems():
        assert_equal_trees(asked, runtime)
print(sorted(set(runtime.launches)))
"""
BIN_AND_PREDICT = """
import numpy as np
from gpuboost import RandomForestClassifier
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.engine.bins import BinRule
from tests.cuda.shim_runtime import ShimRuntime

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
EXPLAIN = """
from gpuboost.backends.cuda.backend import CudaBackend
from tests.cuda.explain import test_cuda_explain as explain
from tests.cuda.shim_runtime import ShimRuntime

runtimes = [ShimRuntime("asan", shared_memory=n) for n in (600, 227 << 10)]
for runtime in runtimes:
    model, X = explain.additive(explain.grown("outputs", n_trees=3)), explain.rows(70)
    explain.assert_same_explanations(CudaBackend(runtime), model, X, X[:2])
print(sorted(set(runtimes[0].launches) & set(runtimes[1].launches)))
"""
ROUNDS = """
import numpy as np
import pytest
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.estimators.fitting import pipeline as template
from tests.cuda.adaboost import test_cuda_adaboost
from tests.cuda.boosting import test_cuda_booster, test_cuda_boosting, test_cuda_quantiles
from tests.cuda.growth import test_cuda_best_first
from tests.cuda.level import test_cuda_levels
from tests.cuda.predict import test_cuda_links
from tests.engine.exact import assert_equal_models
from tests.cuda.shim_runtime import ShimRuntime
from tests.cuda.predict.test_cuda_links import Doubled

launched, kernel = set(), ShimRuntime.kernel

def noted(runtime, file_name, name, constants):
    assert runtime.flavour in ("asan", "plain")
    launched.update([name] if runtime.flavour == "asan" else [])
    return kernel(runtime, file_name, name, constants)

def fit_on(backend, model, *data, **words):
    patch.setattr(template, "choose_backend", lambda device, work: backend)
    return model.fit(*data, **words)

with pytest.MonkeyPatch.context() as patch:
    patch.setattr(ShimRuntime, "kernel", noted)
    test_cuda_booster.test_kernels_are_sound("asan", fit_on)
    X, y = test_cuda_booster.table(150)
    X, small = X.astype(np.float32), {"n_estimators": 1, "max_depth": 2}
    for words, sets in (({"subsample": 0.5}, [(X[:30], y[:30])]), ({"loss": Doubled()}, None)):
        make, own = test_cuda_booster.regressor(**small, **words), CudaBackend(ShimRuntime("asan"))
        fits = [fit_on(by, make(), X, y, eval_set=sets) for by in (NumpyBackend(), own)]
        assert_equal_models(fits[1], fits[0])
    test_cuda_boosting.test_kernels_of_rounds_are_sound("asan")
    test_cuda_adaboost.test_kernels_are_sound("asan", fit_on)
    test_cuda_levels.test_kernels_of_medians_are_sound("asan")
    test_cuda_quantiles.test_kernels_are_sound("asan")
    test_cuda_best_first.test_kernels_are_sound("asan", fit_on)
    for name in test_cuda_links.LINKS:
        test_cuda_links.test_links_have_the_bits_of_the_engine(name, "asan")
    test_cuda_links.test_logarithms_of_probabilities("asan")
print(sorted(launched))
"""
FILES_OF_ROUNDS = """
    adaboost/adaboost growth/best_first boosting/gradients level/constraints boosting/leaves
    predict/links level/median boosting/quantiles boosting/leaf_quantiles
"""


def kernels_of(names: str) -> set[str]:
    """All kernels of the given files."""
    texts = [file_text(f"{name}.cu") for name in names.split()]
    return {kernel.name for text in texts for kernel in find_kernels(text)}


@pytest.mark.parametrize(
    ("program", "kernels"),
    [
        (
            GROW,
            {
                "open_nodes",
                "split_features",
                "try_next_features",
                "grow_subtrees",
                "finish_nodes",
            },
        ),
        (BIN_AND_PREDICT, {"bin_values", "count_leading_cells", "count_cells"}),
        (EXPLAIN, kernels_of("explain/columns explain/path_dependent explain/interventional")),
        (ROUNDS, kernels_of(FILES_OF_ROUNDS)),
    ],
    ids=["grow", "bin and predict", "explain", "rounds"],
)
def test_kernels_keep_within_their_arrays(program: str, kernels: set[str]) -> None:
    done = run_under_asan(program, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    missed = kernels - set(ast.literal_eval(done.stdout))
    assert not missed
