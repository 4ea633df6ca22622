"""SHAP values by the CUDA kernels, run on the CPU, equal the reference's to the last bit."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import gpuboost
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.cuda.explain import explain, path_groups
from gpuboost.backends.cuda.runtime.source import kernel_source
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.explanations import additive as additive_models
from gpuboost.engine.explanations.path_trees import bytes_per_edge
from tests import cuda_shim
from tests.cuda import nvrtc
from tests.cuda.explain.models import REFERENCE, additive, assert_same_explanations
from tests.cuda.predict.test_cuda_predict import at_thresholds, grown, matrix
from tests.cuda.runtime.test_kernels_compile import SPILL_ADVICE, complaints, needs_nvrtc
from tests.cuda.shim_runtime import ShimRuntime
from tests.engine.harness import Problem, grow
from tests.fakes.fake_cupy import Machine
from tests.fakes.gpu_arrays import to_gpu

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


def rows(n: int, dtype: Any = np.float64) -> np.ndarray:
    """Rows for the trees of `grown`."""
    return matrix(np.random.default_rng(n), n, dtype)


def chain(depth: int, n_columns: int) -> Ensemble:
    """A tree in which each right child is split, on the columns in turn."""
    m = 2 * depth + 1
    inner = np.concatenate([[0], np.arange(2, m - 1, 2)])
    left, feature = np.zeros(m, np.int32), np.full(m, -1, np.int32)
    threshold, weight = np.full(m, np.nan), np.ones(m)
    left[inner], feature[inner] = np.arange(1, m, 2), np.arange(depth) % n_columns
    threshold[inner], weight[inner] = np.arange(depth), np.arange(depth, 0, -1) + 1.0
    none = np.zeros(m)
    return Ensemble(
        offset=np.array([0, m]),
        mask_offset=np.zeros(2, np.int64),
        feature=feature,
        threshold=threshold,
        code=np.zeros(m, np.int16),
        missing_left=np.arange(m) % 4 == 0,
        left=left,
        category=np.full(m, -1, np.int32),
        masks=np.zeros((0, 8), np.uint32),
        value=np.linspace(-3.0, 5.0, m)[:, None],
        impurity_decrease=none,
        impurity=none,
        weight=weight,
        count=np.zeros(m, np.int64),
    )


def leaf_only() -> Ensemble:
    """A tree that consists of a root."""
    return grow(Problem(np.zeros((9, 1)), np.arange(9) / 3.0, False, n_trees=1), REFERENCE)[0]


# Equality -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "order"), [(np.float32, "C"), (np.float64, "F")])
@pytest.mark.parametrize("target", ["two classes", "five classes", "values", "outputs"])
def test_every_kind_of_value(target: str, dtype: Any, order: Any) -> None:
    """Missing values, categories, values at thresholds, rows by row or by column."""
    model, X = additive(grown(target, n_trees=4)), rows(70, dtype)
    X[:35] = at_thresholds(model.ensemble, X[:35], 2)
    given = np.asarray(X, order=order)
    backend = CudaBackend(ShimRuntime(order_seed=5))
    assert_same_explanations(backend, model, given, given[:3])


def test_outputs_of_trees_and_features_of_several_columns() -> None:
    X = rows(80)[::2]  # neither in C nor in Fortran order
    model = additive(grown("values"), 4, feature_of_column=[2, 0, 1, 0, 2])
    assert_same_explanations(CudaBackend(ShimRuntime()), model, X, X[:3])


@pytest.mark.parametrize("n", [1, 32, 33, 300])
def test_any_number_of_rows(n: int) -> None:
    model = additive(grown("values", n_trees=2))
    assert_same_explanations(CudaBackend(ShimRuntime()), model, rows(n), rows(2))


def test_no_rows_and_no_splits() -> None:
    backend = CudaBackend(ShimRuntime())
    model = additive(grown("values"))
    assert_same_explanations(backend, model, rows(1)[:0], rows(2))
    assert_same_explanations(backend, model, rows(2), rows(1)[:0])
    split, lone = grown("values", n_trees=2).trees, leaf_only().trees
    mixed = Ensemble.of([*lone, split[0], *lone, split[1]])
    assert_same_explanations(backend, additive(mixed), rows(20), rows(2))
    none = additive(Ensemble.of(lone), feature_of_column=[0, 1])
    assert_same_explanations(backend, none, rows(20), rows(2))
    assert not backend.shap_values(none, rows(20), 1).any()


@pytest.mark.parametrize("shared_memory", [227 << 10, 600])
@pytest.mark.parametrize(("depth", "n_columns"), [(1, 1), (70, 3), (40, 40)])
def test_deep_trees(depth: int, n_columns: int, shared_memory: int) -> None:
    """Paths longer than a word has bits, of few and of many features, in either memory."""
    X = np.random.default_rng(0).uniform(-1, depth, (40, n_columns))
    X[::7, 0] = np.nan
    backend = CudaBackend(ShimRuntime(shared_memory=shared_memory, order_seed=1))
    assert_same_explanations(backend, additive(chain(depth, n_columns)), X, X[:3])


def test_forests_of_deep_trees() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 12))
    y = np.sin(3 * X[:, 0] * X[:, 1]) + rng.normal(size=300)
    ensemble = grow(Problem(X, y, False, n_trees=3, method="bootstrap"), REFERENCE)[0]
    model = additive(ensemble)
    assert max(model.path_tree(tree).n_points for tree in range(3)) > 3
    assert_same_explanations(CudaBackend(ShimRuntime()), model, X[:50], X[:3])


# Parts of the rows, groups of the trees, placement ------------------------------------------


def test_groups_of_trees_and_parts_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = additive(grown("five classes", n_trees=5)), rows(50)
    runtime = ShimRuntime()
    CudaBackend(runtime).interventional_shap(model, X, X[:2], 1)
    assert runtime.launches.count("interventional_shap") == 1
    monkeypatch.setattr(path_groups, "GROUP_BYTES", 1)
    runtime = ShimRuntime(budget=20 * 8 * (4 * 5 * 5 + 2 * 5))
    CudaBackend(runtime).interventional_shap(model, X, X[:2], 1)
    assert runtime.launches.count("interventional_shap") == 3 * 5
    assert_same_explanations(CudaBackend(runtime), model, X, X[:2])


def test_a_group_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    model = additive(grown("values", n_trees=8))
    trees = [model.path_tree(number) for number in range(8)]
    n_bytes = [t.n_edges * bytes_per_edge(2 * t.n_points, 1) for t in trees]
    monkeypatch.setattr(path_groups, "GROUP_BYTES", 2 * max(n_bytes))
    groups = [group for _, group in path_groups.tree_groups(model, by_points=False)]
    assert [tree for group in groups for tree in group] == trees
    assert 1 < max(map(len, groups)) < 8
    by_tree = dict(zip(map(id, trees), n_bytes, strict=True))
    assert all(sum(by_tree[id(t)] for t in group) <= 2 * max(n_bytes) for group in groups)


@pytest.mark.parametrize("is_large", [False, True])
def test_groups_of_small_models_stay_on_the_device(
    is_large: bool, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    backend, model, X = CudaBackend(CupyRuntime(0)), additive(grown("values")), rows(30)
    monkeypatch.setattr(additive_models, "KEPT_BYTES", 0 if is_large else 1 << 27)
    first = backend.shap_values(model, X, 1)
    before = machine.uploaded
    np.testing.assert_array_equal(backend.shap_values(model, X, 1), first)
    assert (machine.uploaded - before == X.nbytes) == (not is_large)
    assert (machine.live == 0) == is_large
    del model
    gc.collect()
    assert machine.live == 0


def test_kernels_are_compiled_for_few_numbers_of_points() -> None:
    rounded = [path_groups._rounded_up(n) for n in range(1, 65)]
    assert sorted(set(rounded)) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    assert all(n <= found < 1.5 * n for n, found in enumerate(rounded, 1))


@pytest.mark.parametrize("thread_bytes", [28, 172, 1100, 7000, 8000, 10**6])
@pytest.mark.parametrize(("n", "n_trees", "n_z"), [(1, 1, 1), (40, 7, 3), (10**6, 100, 1)])
def test_placement(n: int, n_trees: int, n_z: int, thread_bytes: int) -> None:
    """Paths fit shared memory, or a bounded part of global memory; no block is without work."""
    runtime = ShimRuntime(n_multiprocessors=132, budget=1 << 28)
    place = explain._Placement.choose(runtime, n, n_trees, n_z, thread_bytes)
    x, y, z = place.grid
    assert place.threads % 32 == 0 and (x - 1) * place.threads < n
    assert y <= n_trees and z <= n_z
    if place.shared:
        assert place.shared == place.threads * thread_bytes <= runtime.shared_memory
        assert x * place.threads >= n and place.scratch_longs == 1
        assert x * y * z >= min(x * n_trees * n_z, 1000)
    else:
        assert 32 * thread_bytes > runtime.shared_memory
        n_bytes = x * y * z * place.threads * thread_bytes
        assert n_bytes <= 8 * place.scratch_longs < n_bytes + 8 <= runtime.budget + 8
        assert 2 * n_bytes > runtime.budget or (x - 1) * place.threads < n <= x * place.threads


# Rows on the device -------------------------------------------------------------------------


@pytest.mark.parametrize("by_column", [False, True])
def test_rows_on_the_device(by_column: bool, machine: Machine) -> None:
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    backend = CudaBackend(CupyRuntime(0))
    X = rows(30, np.float32)
    model = additive(grown("outputs"))
    given = to_gpu(np.asfortranarray(X) if by_column else X)
    assert_same_explanations(backend, model, given, to_gpu(X[:3]))
    assert_same_explanations(backend, model, X, given[:3])
    del given, model
    gc.collect()
    assert machine.live == 0


@pytest.mark.parametrize("name", ["RandomForestClassifier", "GradientBoostingClassifier"])
def test_estimators(name: str, machine: Machine) -> None:
    X = rows(120, np.float32)
    y = np.digitize(np.nan_to_num(X[:, 0] + X[:, 2]), [-0.5, 1.0])
    binned = gpuboost.Dataset(X, categorical_features=[3, 4])
    model = getattr(gpuboost, name)(n_estimators=3, device="numpy", random_state=0).fit(binned, y)

    def found(given: Any, others: Any) -> list[np.ndarray]:
        return [
            *(model.shap_values(given), model.shap_interaction_values(given)),
            *(model.shap_values(given, background=others), model.shap_expected_value()),
        ]

    expected = found(X, X[:4])
    model.set_params(device="cuda")
    on_gpu = to_gpu(X)
    for table, others in ((X, X[:4]), (on_gpu, on_gpu[:4]), (binned, X[:4])):
        for own, right in zip(found(table, others), expected, strict=True):
            np.testing.assert_array_equal(own, right)
    assert {"shap_values", "shap_interactions", "interventional_shap"} <= set(machine.launches)


# Kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared_memory", [227 << 10, 600])
@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_kernels_are_sound(flavour: str, shared_memory: int) -> None:
    runtime = ShimRuntime(flavour=flavour, order_seed=3, shared_memory=shared_memory)
    model, X = additive(grown("outputs", n_trees=3)), rows(70)
    assert_same_explanations(CudaBackend(runtime), model, X, X[:2])
    outside, last = X.copy(), X.copy()
    outside[:5, 3:], last[:5, 3:] = 1e9, 255  # categories that no set of codes contains
    found = CudaBackend(runtime).shap_values(model, outside, 1)
    np.testing.assert_array_equal(found, REFERENCE.shap_values(model, last, 1))


def test_subtrees_that_no_row_reaches_are_skipped() -> None:
    """A row that equals the background row has values of 0, and reaches one leaf of each tree."""
    model, X = additive(grown("values")), np.repeat(rows(1), 40, axis=0)
    assert not CudaBackend(ShimRuntime()).interventional_shap(model, X, X[:2], 1).any()


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_75", "sm_120"])
@pytest.mark.parametrize("n_points", [1, 6, 16])
def test_kernels_of_other_numbers_of_points_are_lean(n_points: int, architecture: str) -> None:
    name = "explain/path_dependent.cu"
    source = kernel_source(name, {"POINTS": n_points})
    result = nvrtc.compile_source(source, architecture, file_name=name)
    assert not complaints(result), f"{result.log}\n{SPILL_ADVICE}"
