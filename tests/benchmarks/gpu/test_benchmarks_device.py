"""The device of the GPU benchmark, over the stand-in for CuPy."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import run
from benchmarks.gpu.cases import EQUALITY, FIT, HISTOGRAM, PREDICTION
from benchmarks.gpu.device import device as device_module
from benchmarks.gpu.device.device import CudaDevice
from benchmarks.gpu.first import facts
from benchmarks.gpu.run import Kept
from benchmarks.peers.peers import OURS
from tests import cuda_shim
from tests.benchmarks.gpu.gpu_cases import arguments, fake_cuda_device, kept, measured, tiny
from tests.cuda import nvrtc
from tests.fakes.fake_errors import CUDARuntimeError

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


@pytest.fixture
def keep(tmp_path: Path) -> Kept:
    return kept(tmp_path)


@pytest.fixture
def cupy_device(machine: Any, monkeypatch: Any) -> CudaDevice:
    return fake_cuda_device(machine, monkeypatch)


def test_a_gpu_is_named(cupy_device: CudaDevice) -> None:
    found = cupy_device.facts()
    assert found["name"] == "NVIDIA Fake" and found["cupy"] == "14.2.0" and found["memory_gb"] == 9
    assert found["nvrtc"] == "12.9" and found["driver"] == "1.2"


@pytest.mark.parametrize(
    ("status", "driver", "expected", "said"),
    [
        (100, None, run.NO_DEVICE, "there is no GPU to measure"),
        (35, None, run.NO_DEVICE, "there is no GPU to measure"),
        (
            35,
            "1.2",
            facts.UNUSABLE,
            "the GPU cannot be used (CUDARuntimeError",
        ),  # driver too old
        (802, None, facts.UNUSABLE, "the GPU cannot be used (CUDARuntimeError"),
    ],
)
def test_only_a_missing_gpu_gives_none(
    status: int,
    driver: str | None,
    expected: int,
    said: str,
    cupy_device: CudaDevice,
    monkeypatch: Any,
    capsys: Any,
) -> None:
    def zeros(shape: Any) -> Any:
        raise CUDARuntimeError(status)

    monkeypatch.setattr(device_module, "driver_version", lambda: driver)
    monkeypatch.setattr(sys.modules["cupy"], "zeros", zeros)
    assert facts.main() == expected
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "status", "expected"),
    [("NVIDIA X, 1.2", 0, "1.2"), ("No devices were found", 6, None), ("", 0, None)],
)
def test_the_driver_version_is_read(
    said: str, status: int, expected: str | None, tmp_path: Path, monkeypatch: Any
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho '{said}'\nexit {status}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert device_module.driver_version() == expected


def test_memory_of_a_gpu_is_followed(cupy_device: CudaDevice) -> None:
    xp = cupy_device.xp
    before = xp.empty(5000, dtype=xp.uint8)
    with cupy_device.peak_memory() as peak:
        first, second = xp.empty(90, dtype=xp.uint8), xp.empty(600, dtype=xp.uint8)
        del before, first  # earlier allocations are not counted
        third = xp.empty(9, dtype=xp.uint8)
        del second, third
    assert peak == [512 + 1024]
    assert cupy_device.free_bytes() == 100 << 20


def test_the_pool_is_freed_if_little_memory_is_left(cupy_device: CudaDevice, machine: Any) -> None:
    freed = machine.freed
    machine.free = machine.total // 2
    cupy_device.free_memory()
    assert machine.freed == freed
    machine.free -= 1
    cupy_device.free_memory()
    assert machine.freed == freed + 1


def test_kernels_are_timed_by_events(cupy_device: CudaDevice) -> None:
    calls: list[int] = []
    assert cupy_device.kernel_seconds(lambda: calls.append(1), 3) == pytest.approx(2e-3)
    assert len(calls) == 4  # the first is a warm-up


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
    assert {r["gpu"]["name"] for r in records} == {"NVIDIA Fake"} and len(records) > 4
    assert "shared memory" in capsys.readouterr().out


@pytest.mark.skipif(
    nvrtc.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(nvrtc.why_not_available()),
)
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_ceilings_are_limits_of_the_machine(architecture: str) -> None:
    made = nvrtc.compile_source(device_module.ceilings_text(), architecture)
    assert made.sass["copy_words"].count("LDG.E.128") >= 5
    assert made.sass["add_shared"].count("ATOMS.ADD") >= 8
    assert "ATOMS.POPC" not in made.sass["add_shared"]
    for used in made.resources.values():
        assert used.stack == used.spill_stores == used.spill_loads == 0
