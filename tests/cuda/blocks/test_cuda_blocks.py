"""Fits on codes in blocks on a device give NumPy's models, and copy only what it cannot keep."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import gpuboost as gb
from gpuboost import Dataset
from gpuboost.backends import select as choice
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.cuda.blocks.codes import DeviceCodes
from gpuboost.backends.cuda.blocks.growth import BlockGrowth
from gpuboost.backends.cuda.runtime.source import file_text
from gpuboost.backends.numba.blocks.search import CompiledBlockOps
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.backends.numpy.blocks.level_ops import BlockLevelOps
from gpuboost.blocks.spill import SpilledCodes
from tests import cuda_shim
from tests.blocks.test_block_growth import CLASS_FITS, FITS, in_blocks, make_table
from tests.cuda.shim_runtime import ShimRuntime
from tests.cuda_shim import KernelError
from tests.cuda_shim.mutants import barrier_mutants

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
N, ROWS, F = 250, 100, 5  # of the table; a block has ROWS rows
CODES = F * N
SOME = CODES * 3 // 4  # bytes for the codes of the last two of three blocks
# Memory limits: histograms of a level at once, in shared memory; or of one node, mostly not.
UNLIMITED, ONE_NODE = 10**8, 1000
HOST, KERNELS = choice._host_backend, "blocks/block_rows.cu"
LITTLE_SHARED = 2000  # bytes
BY_NODE = ("boosting", "medians", "tree", "boosting of classes", "AdaBoost of classes")


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host searches histograms by NumPy, so that nothing is compiled."""
    monkeypatch.setattr(choice, "_host_backend", NumpyBackend)


@pytest.fixture
def keep(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that sets how many bytes of codes stay on the device."""
    start = DeviceCodes.__init__

    def keep(capacity: int) -> None:
        patched = lambda self, runtime, blocks, given: start(self, runtime, blocks, capacity)  # noqa: E731
        monkeypatch.setattr(DeviceCodes, "__init__", patched)

    return keep


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The numbers of codes that the device got in chunks and in columns."""
    found = {"chunks": 0, "columns": 0}
    chunks, columns = SpilledCodes.chunks, DeviceCodes.columns

    def counted(self: Any, *given: Any) -> Any:
        for chunk in chunks(self, *given):
            found["chunks"] += chunk.codes.size
            yield chunk

    def counted_columns(self: Any, *given: Any) -> Any:
        codes, is_whole = columns(self, *given)
        found["columns"] += 0 if is_whole else codes.size
        return codes, is_whole

    monkeypatch.setattr(SpilledCodes, "chunks", counted)
    monkeypatch.setattr(DeviceCodes, "columns", counted_columns)
    return found


def assert_same_fit(
    model: Any, limit: int, monkeypatch: Any, y: Any = None, weights: Any = None
) -> None:
    """A fit in blocks on a device is one of NumPy in memory."""
    table, target = make_table(N)
    y = target if y is None else y
    whole, blocks = Dataset(table), in_blocks(table, monkeypatch, ROWS, limit)
    model = clone(model).set_params(random_state=0)
    expected = clone(model).set_params(device="numpy").fit(whole, y, weights)
    found = clone(model).set_params(device="cuda:0").fit(blocks, y, weights)
    assert found.fingerprint() == expected.fingerprint()
    assert found.device_ == "cuda:0"
    assert np.array_equal(found.predict(blocks), expected.predict(whole))
    assert getattr(found, "oob_score_", None) == getattr(expected, "oob_score_", None)


def assert_same(name: str, limit: int, monkeypatch: Any) -> None:
    y = make_table(N)[1]
    y = np.digitize(y, [0.0, 2.0, 3.0]) if name in CLASS_FITS else y
    assert_same_fit((FITS | CLASS_FITS)[name], limit, monkeypatch, y)


@pytest.mark.parametrize(
    ("name", "limit"),
    [(name, UNLIMITED) for name in (*FITS, *CLASS_FITS)] + [(name, ONE_NODE) for name in BY_NODE],
)
def test_fits(name: str, limit: int, machine: Any, keep: Any, monkeypatch: Any) -> None:
    """Two of three blocks stay on the device, and rows stay in blocks to the end."""
    monkeypatch.setattr(BlockLevelOps, "_fit_memory", lambda ops, n_open: False)
    keep(SOME)
    if limit == ONE_NODE:
        choice.cuda_backend(0).runtime.shared_memory = LITTLE_SHARED
    assert_same(name, limit, monkeypatch)
    assert ("add_block_rows" if limit == ONE_NODE else "sum_block_rows") in machine.launches
    assert machine.live == 0


@pytest.mark.parametrize("name", ["boosting of classes", "medians", "forest"])
def test_rows_are_loaded_for_many_nodes(name: str, machine: Any, monkeypatch: Any) -> None:
    """If histograms need several passes, the host loads rows that fit its memory."""
    loaded: list[int] = []
    load = BlockLevelOps._keep_open_rows

    def counted(ops: Any, *given: Any) -> Any:
        loaded.append(ops._depth)
        return load(ops, *given)

    monkeypatch.setattr(BlockLevelOps, "_keep_open_rows", counted)
    monkeypatch.setattr(
        BlockLevelOps, "_fit_memory", lambda ops, n: ops._depth + 1 < ops.task.options.deepest
    )
    machine.free = 10**12
    assert_same(name, ONE_NODE, monkeypatch)
    assert loaded
    loaded.clear()
    assert_same(name, UNLIMITED, monkeypatch)
    assert not loaded


def test_weights_and_several_outputs(machine: Any, monkeypatch: Any) -> None:
    y = make_table(N)[1]
    several, weights = np.stack([y, y**2, -y], axis=1), np.abs(y) * (y > -1)
    boosting = gb.GradientBoostingRegressor(n_estimators=2)
    forest = gb.RandomForestClassifier(n_estimators=3, max_depth=4)
    assert_same_fit(boosting, UNLIMITED, monkeypatch, several, weights)
    assert_same_fit(forest, UNLIMITED, monkeypatch, np.digitize(several, [0.0, 2.0]), weights)
    assert_same_fit(forest, UNLIMITED, monkeypatch, y > 1, weights)


def test_numba_on_the_host(machine: Any, monkeypatch: Any) -> None:
    """If Numba works, it searches the histograms and runs the rounds of boosting."""
    monkeypatch.setattr(choice, "_host_backend", HOST)
    searched: list[int] = []
    search = CompiledBlockOps._search_tree

    def counted(ops: Any, *given: Any) -> None:
        searched.append(len(given[1]))
        search(ops, *given)

    monkeypatch.setattr(CompiledBlockOps, "_search_tree", counted)
    assert_same("boosting", UNLIMITED, monkeypatch)
    assert searched


def fit_on(runtime: ShimRuntime, monkeypatch: Any, *names: str) -> None:
    """Compare fits on a runtime whose kernels run on the CPU."""
    monkeypatch.setattr(choice, "why_no_cuda", lambda device: "")
    monkeypatch.setattr(choice, "cuda_backend", lambda number: CudaBackend(runtime))
    for name in names:
        assert_same(name, UNLIMITED, monkeypatch)


@pytest.mark.parametrize("flavour", ["plain", "race", "undefined", "guard"])
def test_kernels_are_sound(flavour: str, monkeypatch: Any) -> None:
    """Threads run in random order; with many nodes, rows are counted in global memory."""
    text = file_text(KERNELS)
    few = text.replace("COUNTED_NODES = 1024", "COUNTED_NODES = 2")
    assert few != text
    runtime = ShimRuntime(flavour, order_seed=3, sources={KERNELS: few})
    fit_on(runtime, monkeypatch, "boosting")
    assert {"route_block_rows", "sum_block_rows"} <= set(runtime.launches)
    runtime.shared_memory = 4 << 10
    fit_on(runtime, monkeypatch, "AdaBoost of classes")
    assert "add_block_rows" in runtime.launches


MUTANTS = list(barrier_mutants(file_text(KERNELS)))


def test_there_is_a_mutant_of_each_barrier() -> None:
    assert len(MUTANTS) == file_text(KERNELS).count("__syncthreads();") == 4


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.line))
def test_every_barrier_is_needed(mutant: cuda_shim.Mutant, monkeypatch: Any) -> None:
    runtime = ShimRuntime("race", order_seed=4, sources={KERNELS: mutant.source_text})
    with pytest.raises((KernelError, AssertionError)):
        fit_on(runtime, monkeypatch, "boosting")


@pytest.mark.parametrize(("capacity", "other"), [(0, N), (SOME, ROWS), (CODES, 0)])
def test_codes_are_copied_once_a_level(
    capacity: int, other: int, machine: Any, keep: Any, read: dict[str, int], monkeypatch: Any
) -> None:
    """A tree of three levels copies codes that do not stay on the device three times."""
    table, y = make_table(N)
    blocks = in_blocks(table, monkeypatch, ROWS, UNLIMITED)
    keep(capacity)
    model = gb.DecisionTreeRegressor(max_depth=3, device="cuda")
    machine.uploaded = 0
    model.fit(blocks, y)
    assert read["chunks"] == CODES + 2 * F * other
    assert (read["columns"] > 0) == (other > 0)
    of_rows, tables = 4 * 3 + 8 * 4, 16 * (4 * 256 + 64)
    rest = machine.uploaded - read["chunks"] - read["columns"]
    assert N * of_rows <= rest <= N * of_rows + tables


@pytest.mark.parametrize(
    "model",
    [gb.GradientBoostingRegressor(n_estimators=4, max_depth=3), FITS["AdaBoost"], FITS["forest"]],
    ids=["boosting", "AdaBoost", "forest"],
)
def test_codes_stay_for_a_whole_fit(
    model: Any, machine: Any, read: dict[str, int], monkeypatch: Any
) -> None:
    """Rounds and trees share the codes on the device."""
    table, y = make_table(N)
    blocks = in_blocks(table, monkeypatch, ROWS, UNLIMITED)
    sizes: list[int] = []
    own = DeviceCodes.chunks

    def chunks(self: Any) -> Any:
        before = read["chunks"]
        yield from own(self)
        sizes.append(read["chunks"] - before)

    monkeypatch.setattr(DeviceCodes, "chunks", chunks)
    # Some seeds leave a row without an out-of-bag tree, which a forest warns of.
    clone(model).set_params(device="cuda", random_state=0).fit(blocks, y)
    assert sizes[0] == CODES and not any(sizes[1:]) and len(sizes) > 4


def test_batches_fit_the_memory_of_the_device(machine: Any, monkeypatch: Any) -> None:
    """A fit of 20 trees whose rows fit in memory only two at a time."""
    sizes: list[int] = []
    chosen = BlockGrowth.batch_size

    def batch_size(self: Any, *given: Any) -> int:
        sizes.append(chosen(self, *given))
        return sizes[-1]

    monkeypatch.setattr(BlockGrowth, "batch_size", batch_size)
    machine.free, machine.pool_free = 60_000, 0
    assert_same("forest", UNLIMITED, monkeypatch)
    assert sizes == [2]


@pytest.mark.parametrize("nth", [0, 5, 20, 60])
def test_an_allocation_may_fail(nth: int, machine: Any, monkeypatch: Any) -> None:
    table, y = make_table(N)
    blocks = in_blocks(table, monkeypatch, ROWS, UNLIMITED)
    model = gb.GradientBoostingRegressor(n_estimators=2, random_state=0, device="cuda:1")
    expected = model.fit(blocks, y).fingerprint()
    machine.fail_at = machine.allocations + nth
    with pytest.raises(MemoryError, match="cuda:1 is out of memory"):
        model.fit(blocks, y)
    assert machine.live == 0 and machine.current == 0
    assert model.fit(blocks, y).fingerprint() == expected


def test_explanations(machine: Any, monkeypatch: Any) -> None:
    table, y = make_table(N)
    blocks = in_blocks(table, monkeypatch, ROWS, UNLIMITED)
    model = gb.GradientBoostingRegressor(n_estimators=3, random_state=0)
    expected = model.set_params(device="numpy").fit(Dataset(table), y).shap_values(Dataset(table))
    model.set_params(device="cuda").fit(blocks, y)
    begun = len(machine.launches)
    assert np.array_equal(model.shap_values(blocks), expected)
    assert len(machine.launches) > begun


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_targets_on_the_device(machine: Any, tensors: None, monkeypatch: Any) -> None:
    """They and evaluation sets are copied to the host, which runs the rounds."""
    table, y = make_table(N)
    table = table.select(range(3))
    X = np.column_stack([column.to_numpy() for column in table.columns])
    blocks = in_blocks(table, monkeypatch, ROWS, UNLIMITED)
    model = gb.GradientBoostingRegressor(
        n_estimators=3, n_iter_no_change=2, random_state=0, device="cuda"
    )
    expected = model.fit(blocks, y, eval_set=[(X, y)])
    cupy = sys.modules["cupy"]
    on_device = cupy.asarray(X), cupy.asarray(y)
    found = clone(model).fit(blocks, on_device[1], cupy.ones(N), eval_set=[on_device])
    assert found.fingerprint() == expected.fingerprint()
    assert np.array_equal(found.validation_score_, expected.validation_score_)


def test_auto_chooses_a_cpu(machine: Any, monkeypatch: Any) -> None:
    table, y = make_table(N)
    blocks = in_blocks(table, monkeypatch, ROWS, UNLIMITED)
    monkeypatch.setattr(choice, "_cuda_pays", lambda work: True)
    monkeypatch.setattr(choice, "_numba_pays", lambda work: False)
    model = gb.DecisionTreeRegressor(max_depth=2)
    assert model.fit(Dataset(table), y).device_ == "cuda:0"
    assert model.fit(blocks, y).device_ == "numpy"
    assert not any("block" in name for name in machine.launches)
