"""What the benchmark of GPUs knows of its device, over what stands for CuPy."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import device as device_module
from benchmarks.gpu import run
from benchmarks.gpu.cases import EQUALITY, FIT, HISTOGRAM, PREDICTION
from benchmarks.gpu.device import CudaDevice
from benchmarks.gpu.run import Kept
from benchmarks.peers import OURS
from tests import cuda_shim, fake_cupy, nvrtc
from tests.gpu_cases import arguments, kept, measured, tiny

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


@pytest.fixture
def keep(tmp_path: Path) -> Kept:
    return kept(tmp_path)


class Hook:
    """``cupy.cuda.MemoryHook``."""

    def __enter__(self) -> None:
        self.malloc_postprocess(device_id=0, size=90, mem_size=512, mem_ptr=8, pmem_id=3)
        self.malloc_postprocess(device_id=0, size=600, mem_size=1024, mem_ptr=9, pmem_id=4)
        self.free_postprocess(device_id=0, mem_size=512, mem_ptr=8, pmem_id=3)
        self.free_postprocess(device_id=0, mem_size=512, mem_ptr=7, pmem_id=2)  # from before
        self.malloc_postprocess(device_id=0, size=90, mem_size=512, mem_ptr=8, pmem_id=3)

    def __exit__(self, *reason: object) -> None:
        pass


@pytest.fixture
def cupy_device(machine: Any, monkeypatch: Any) -> CudaDevice:
    """What measures a GPU, over what stands for CuPy."""
    cupy: Any = sys.modules["cupy"]

    class RawKernel:
        def __init__(self, text: str, name: str, options: tuple[str, ...]) -> None:
            self.function = fake_cupy.Function(machine, cuda_shim.Module(text), name)

        def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
            self.function(grid, block, args, shared_mem)

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    properties |= {"name": b"NVIDIA X", "totalGlobalMem": 2**33, "multiProcessorCount": 4}
    added = {
        "getDeviceProperties": lambda number: properties,
        "driverGetVersion": lambda: 13000,
        "runtimeGetVersion": lambda: 12090,
        "deviceSynchronize": lambda: None,
    }
    for name, value in added.items():
        monkeypatch.setattr(cupy.cuda.runtime, name, value, raising=False)
    monkeypatch.setattr(cupy, "RawKernel", RawKernel, raising=False)
    monkeypatch.setattr(cupy.cuda, "MemoryHook", Hook, raising=False)
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda a, b: 2.0, raising=False)
    pinned = types.SimpleNamespace(free_all_blocks=lambda: None)
    monkeypatch.setattr(cupy, "get_default_pinned_memory_pool", lambda: pinned, raising=False)
    monkeypatch.setattr(device_module, "AHEAD_BYTES", 64)
    return CudaDevice()


def test_a_gpu_is_named(cupy_device: CudaDevice) -> None:
    facts = cupy_device.facts()
    assert facts["name"] == "NVIDIA X" and facts["cupy"] == "14.2.0" and facts["memory_gb"] == 9
    assert facts["nvrtc"] == "12.9" and "driver" in facts


def test_memory_of_a_gpu_is_followed(cupy_device: CudaDevice) -> None:
    with cupy_device.peak_memory() as peak:
        pass
    assert peak == [1536]
    assert cupy_device.free_bytes() == 100 << 20


def test_kernels_are_timed_by_events(cupy_device: CudaDevice) -> None:
    calls: list[int] = []
    assert cupy_device.kernel_seconds(lambda: calls.append(1), 3) == pytest.approx(2e-3)
    assert len(calls) == 4  # the first one warms up


@pytest.mark.parametrize("kind", [EQUALITY, FIT, HISTOGRAM, PREDICTION])
def test_every_kind_runs_on_arrays_of_the_device(
    kind: str, cupy_device: CudaDevice, keep: Kept
) -> None:
    measured(tiny(kind), cupy_device, keep)
    records = [r for r in keep.results.records if r["who"].startswith(OURS)]
    assert records and [r["failed"] for r in records if "failed" in r] == []
    assert not [name for r in records for name in r if name.startswith("no_")]


def test_a_child_measures_its_case(
    cupy_device: CudaDevice, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    case = tiny(HISTOGRAM)
    monkeypatch.setattr(run, "choose", lambda only: [case])
    assert run.run(arguments(tmp_path, "--child", case.name, "--repeat", "1")) == 0
    records = json.loads((tmp_path / "gpu.json").read_text())["records"]
    assert {r["gpu"]["name"] for r in records} == {"NVIDIA X"} and len(records) > 4
    assert "shared memory" in capsys.readouterr().out


@pytest.mark.skipif(
    nvrtc.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(nvrtc.why_not_available()),
)
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_ceilings_are_what_the_machine_can_do(architecture: str) -> None:
    made = nvrtc.compile_source(device_module.ceilings_text(), architecture)
    assert made.sass["copy_words"].count("LDG.E.128") >= 5
    assert made.sass["add_shared"].count("ATOMS.ADD") >= 8
    assert "ATOMS.POPC" not in made.sass["add_shared"]
    for used in made.resources.values():
        assert used.stack == used.spill_stores == used.spill_loads == 0
