"""Bins learnt and codes made by the CUDA kernels, run on the CPU, equal the reference's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuboost import RandomForestRegressor
from gpuboost.backends.cuda.data import binning, edges, features
from gpuboost.backends.cuda.runtime.source import file_text, kernel_source
from gpuboost.data.binning import bin_columns
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule
from tests import cuda_shim
from tests.binning import fit_bin_mapper
from tests.cuda import nvrtc
from tests.cuda.runtime.test_kernels_compile import (
    SPILL_ADVICE,
    complaints,
    needs_nvrtc,
    on_architectures,
)
from tests.cuda.shim_runtime import ShimRuntime
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import barrier_mutants
from tests.engine.harness import COLUMN_KINDS, make_columns, make_weights
from tests.fakes.fake_cupy import Machine
from tests.fakes.gpu_arrays import to_gpu

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

FLOATS = (np.float32, np.float64)
SHAPES = ((1, 1), (7, 3), (300, 9), (900, 20))
EXTREME = (
    np.nan,
    -np.nan,
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1e-45,
    -1e-45,
    3.4e38,
    -3.4e38,
    1e308,
    -1e308,
)


def column(rng: np.random.Generator, n: int, kind: str, dtype: Any) -> np.ndarray:
    """A column of a kind that quantiles may stumble over."""
    with np.errstate(over="ignore"):
        values = {
            "few heavy": rng.choice([1.0, 2.0, 3.0], n) + (rng.random(n) < 0.3) * rng.random(n),
            "rounded": np.round(rng.standard_normal(n), 2),
            "geometric": np.floor(-np.log2(rng.random(n)) * 20),
            "missing": np.full(n, np.nan),
            "extreme": rng.choice(EXTREME, n),
            "mostly one": np.where(rng.random(n) < 0.9, 4.0, rng.standard_normal(n)),
        }[kind]
        values = values.astype(dtype)
    values[np.isinf(values)] = np.finfo(dtype).max
    return values


OWN_KINDS = ("few heavy", "rounded", "geometric", "missing", "extreme", "mostly one")


def matrix(seed: int, n: int, kinds: list[str], dtype: Any) -> np.ndarray:
    """Columns of any kind, some of it missing in every second one."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            column(rng, n, kind, dtype)
            if kind in OWN_KINDS
            else make_columns(rng, n, [kind], dtype)[:, 0]
            for kind in kinds
        ]
    )
    holes = rng.random(X.shape) < 0.1
    holes[:, ::2] = False
    X[holes] = np.nan
    return X


def bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.int64)


def assert_same_bins(found: BinMapper, expected: BinMapper) -> None:
    """Edges, and what is known of the values of bins, equal to the last bit."""
    np.testing.assert_array_equal(found.n_bins, expected.n_bins)
    np.testing.assert_array_equal(found.is_categorical, expected.is_categorical)
    for name in ("lowest", "highest", "centers"):
        np.testing.assert_array_equal(bits(getattr(found, name)), bits(getattr(expected, name)))
    for own, other in zip(found.edges, expected.edges, strict=True):
        np.testing.assert_array_equal(bits(own), bits(other))


def assert_same_codes(runtime: ShimRuntime, found: BinnedMatrix, expected: BinnedMatrix) -> None:
    """Codes, which lie on the device, and what is missing."""
    assert isinstance(found.codes, runtime.xp.ndarray)
    assert found.codes.dtype == np.uint8
    np.testing.assert_array_equal(runtime.to_host(found.codes), expected.codes)
    assert found.n_missing.dtype == np.int64
    np.testing.assert_array_equal(found.n_missing, expected.n_missing)


def assert_equal_binning(
    runtime: ShimRuntime,
    X: np.ndarray,
    kinds: np.ndarray | None = None,
    max_bins: int = 255,
    weights: np.ndarray | None = None,
    given: Any = None,
) -> BinMapper:
    """Bins and codes of X (as ``given`` to the device) equal the reference's."""
    kinds = np.zeros(X.shape[1], dtype=bool) if kinds is None else kinds
    expected = fit_bin_mapper(X, kinds, max_bins, weights)
    rule = BinRule(kinds, max_bins, weights)
    found = binning.fit_bins(runtime, X if given is None else given, rule)
    assert_same_bins(found.mapper, expected)
    assert_same_codes(runtime, found, bin_columns(X, expected))
    return expected


# Equality -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("weights", ["none", "integers", "real"])
@pytest.mark.parametrize("max_bins", [2, 3, 40, 255])
def test_every_kind_of_column(max_bins: int, weights: str, dtype: Any) -> None:
    X = matrix(max_bins, 700, [*COLUMN_KINDS, *OWN_KINDS], dtype)
    rng = np.random.default_rng(1)
    given_weights = make_weights(rng, len(X), weights)
    assert_equal_binning(ShimRuntime(order_seed=3), X, None, max_bins, given_weights)


@settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
@given(
    st.integers(0, 2**20),
    st.sampled_from((1, 2, 40, 300, 1500)),
    st.lists(st.sampled_from((*COLUMN_KINDS, *OWN_KINDS)), min_size=1, max_size=20),
    st.sampled_from(FLOATS),
    st.sampled_from(("none", "integers", "real")),
    st.sampled_from((2, 7, 16, 255)),
    st.booleans(),
)
def test_any_matrix(
    seed: int, n: int, kinds: list[str], dtype: Any, weights: str, max_bins: int, by_column: bool
) -> None:
    X = matrix(seed, n, kinds, dtype)
    X = np.asfortranarray(X) if by_column else X
    rng = np.random.default_rng(seed)
    runtime = ShimRuntime(order_seed=seed % 5)
    assert_equal_binning(runtime, X, None, max_bins, make_weights(rng, n, weights))


@pytest.mark.parametrize("dtype", FLOATS)
def test_categories(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    X = rng.integers(0, [1, 3, 255, 9], (400, 4)).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.nan
    kinds = np.array([True, True, True, True])
    mapper = assert_equal_binning(ShimRuntime(), X, kinds)
    unknown = np.array([[1, 3, 255, 1], [0, 0, 0, 0], [500, np.nan, 254, 1e30]], dtype=dtype)
    runtime = ShimRuntime()
    found = binning.bin_matrix(runtime, unknown, mapper)
    assert_same_codes(runtime, found, bin_columns(unknown, mapper))
    assert (found.codes == mapper.missing_code).sum() == 7


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_at_edges(dtype: Any) -> None:
    """Values equal to an edge, and their neighbours, of a mapper learnt from doubles."""
    rng = np.random.default_rng(3)
    train = matrix(5, 900, ["normal", "heavy", "denormal", "huge", "integers"], np.float64)
    mapper = fit_bin_mapper(train, np.zeros(5, dtype=bool))
    X = np.full((800, 5), np.nan, dtype=dtype)
    for f, own in enumerate(mapper.edges):
        with np.errstate(over="ignore", under="ignore"):
            near = own.astype(dtype)
        near = np.concatenate([near, np.nextafter(near, dtype(np.inf)), -near])
        X[:, f] = rng.choice(near[np.isfinite(near)], len(X))
    runtime = ShimRuntime()
    assert_same_codes(runtime, binning.bin_matrix(runtime, X, mapper), bin_columns(X, mapper))


def test_many_rows_share_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binning, "ROWS_PER_BLOCK", 512)
    X = matrix(1, 2000, ["normal"] * 33, np.float32)
    assert_equal_binning(ShimRuntime(n_multiprocessors=1, order_seed=4), X)


@pytest.mark.parametrize("dtype", FLOATS)
def test_all_columns_are_read_together(dtype: Any, machine: Machine) -> None:
    """A pass is one launch for all columns, and columns need few passes."""
    X = matrix(1, 600, [*COLUMN_KINDS, *OWN_KINDS], dtype)
    runtime = device_runtime()
    assert_equal_binning(runtime, X)
    launches = str(machine.launches)
    assert launches.count("count_leading_cells") == 1
    assert launches.count("count_cells") + launches.count("find_cell_extremes") <= 9


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("weights", ["none", "real"])
def test_columns_are_searched_in_groups(
    weights: str, by_column: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group is read where it lies in the matrix, and the memory of a pass is bounded."""
    monkeypatch.setattr(edges, "COLUMNS_AT_ONCE", 5)
    X = matrix(3, 400, [*COLUMN_KINDS, *OWN_KINDS], np.float32)
    runtime = ShimRuntime(flavour="guard")
    own_weights = make_weights(np.random.default_rng(1), len(X), weights)
    given_array = np.asfortranarray(X) if by_column else X
    assert_equal_binning(runtime, X, weights=own_weights, given=given_array)
    assert runtime.launches.count("count_leading_cells") == -(-X.shape[1] // 5) > 2


@dataclass
class CopyCounter(ShimRuntime):
    """The shim, with the number of elements of every copy to the host."""

    copied: list[int] = field(default_factory=list)

    def to_host(self, array: np.ndarray) -> np.ndarray:
        self.copied.append(array.size)
        return super().to_host(array)


def test_copies_to_the_host_do_not_grow_with_the_rows() -> None:
    """Without equal values, the number of cells is bounded."""
    totals, rule = [], BinRule(np.zeros(1, dtype=bool))
    for n in (1 << 17, 1 << 18):
        runtime = CopyCounter()
        X = np.random.default_rng(n).standard_normal((n, 1)).astype(np.float32)
        binning.fit_mapper(runtime, X, rule)
        totals.append(sum(runtime.copied))
    assert max(totals) < n / 6 and totals[1] < 1.2 * totals[0]


def test_only_cells_with_values_are_copied() -> None:
    X = np.random.default_rng(0).choice(np.linspace(-3, 5, 100), (3000, 3))
    runtime = CopyCounter()
    binning.fit_mapper(runtime, X, BinRule(np.zeros(3, dtype=bool)))
    assert max(runtime.copied) <= 2 * 3 * 100  # per column, of each value at most two numbers


# Matrix on host and device ------------------------------------------------------------------


def device_runtime() -> Any:
    """Kernels on arrays that NumPy's never meet; for tests with a `machine`."""
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    return CupyRuntime(0)


@pytest.mark.parametrize("weights", ["none", "real"])
@pytest.mark.parametrize("order", ["rows", "columns", "every other column"])
def test_a_matrix_of_the_device_stays_there(order: str, weights: str, machine: Machine) -> None:
    X = matrix(1, 300, ["normal", "few heavy", "extreme", "binary"], np.float32)
    kinds = np.array([False, False, False, True])
    runtime = device_runtime()
    if order == "every other column":
        given_array = runtime.xp.asarray(np.repeat(X, 2, axis=1))[:, ::2]
    else:
        given_array = runtime.xp.asarray(np.asfortranarray(X) if order == "columns" else X)
    given_weights = make_weights(np.random.default_rng(1), len(X), weights)
    assert_equal_binning(runtime, X, kinds, 16, given_weights, given_array)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("budget", [1 << 28, 9000, 1])
def test_a_matrix_of_the_host_is_copied_within_the_budget(
    budget: int, by_column: bool, monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    monkeypatch.setattr(features, "HOST_BYTES", 5000)
    X = matrix(1, 300, ["normal", "few heavy", "extreme", "binary"], np.float64)
    X = np.asfortranarray(X) if by_column else X
    runtime = device_runtime()
    monkeypatch.setattr(runtime, "memory_budget", lambda: budget)
    assert_equal_binning(runtime, X, np.array([False, False, False, True]))
    assert str(machine.launches).count("bin_values") == (1 if budget == 1 << 28 else 2)


# Kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_kernels_are_sound(flavour: str, dtype: Any) -> None:
    X = matrix(1, 600, ["normal", "extreme", "binary", "heavy"] * 5, dtype)
    kinds = np.tile([False, False, True, False], 5)
    runtime = ShimRuntime(flavour=flavour, n_multiprocessors=1)
    assert_equal_binning(runtime, X, kinds)
    assert_equal_binning(runtime, np.asfortranarray(X), kinds)


MUTANTS = [
    pytest.param(file, m, id=f"{file} {m.line}")
    for file in ("data/bin.cu", "data/cells.cu")
    for m in barrier_mutants(file_text(file))
]


def test_there_are_mutants() -> None:
    assert len(MUTANTS) == 4


@pytest.mark.parametrize(("file", "mutant"), MUTANTS)
def test_every_barrier_is_needed(file: str, mutant: cuda_shim.Mutant) -> None:
    X = matrix(1, 2000, ["normal"] * 3, np.float32)
    runtime = ShimRuntime(flavour="race", sources={file: mutant.source_text}, n_multiprocessors=1)
    with pytest.raises(KernelError, match="race"):
        assert_equal_binning(runtime, X)


@needs_nvrtc
@pytest.mark.parametrize(
    ("file", "architecture"), on_architectures(["data/bin.cu", "data/cells.cu"])
)
def test_doubles_compile_to_lean_code(file: str, architecture: str) -> None:
    source = kernel_source(file, {"DOUBLE": 1})
    result = nvrtc.compile_source(source, architecture, file_name=file)
    assert not complaints(result), f"{result.log}\n{SPILL_ADVICE}"


def test_sparse_features_with_targets_and_weights_on_the_device(machine: Machine) -> None:
    rng = np.random.default_rng(0)
    X = scipy.sparse.random(120, 30, density=0.1, random_state=rng, format="csr")
    y, weights = np.asarray(X.sum(axis=1)).ravel(), rng.integers(0, 3, 120) * 0.5
    wanted = RandomForestRegressor(3, device="numpy", random_state=0).fit(X, y, weights)
    model = RandomForestRegressor(3, device="cuda", random_state=0)
    for own in ((y, weights), (y, to_gpu(weights)), (to_gpu(y), to_gpu(weights))):
        assert model.fit(X, *own).fingerprint() == wanted.fingerprint()
