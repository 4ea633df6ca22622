"""Small cases, devices and peers for the tests of the GPU benchmark."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gpu import run
from benchmarks.gpu.cases import CASES, GpuCase
from benchmarks.gpu.device import device as device_module
from benchmarks.gpu.device.device import CudaDevice, Device
from benchmarks.gpu.plan import Plan
from benchmarks.gpu.run import Kept
from benchmarks.peers.peers import OURS
from benchmarks.report.results import Results
from benchmarks.suite.settings import Setting
from tests import cuda_shim
from tests.cuda.shim_runtime import ShimRuntime

ROWS = 300


class ShimDevice(Device):
    """A benchmark device that runs kernels on the CPU."""

    def __init__(self, **given: Any) -> None:
        super().__init__(ShimRuntime(**given), compile_on_cpu)

    @contextmanager
    def peak_memory(self) -> Any:
        found: list[int] = []
        yield found
        found.append(12345)


def compile_on_cpu(source: str, name: str) -> Any:
    return cuda_shim.Module(source).get_function(name)


def tiny(kind: str, position: int = 0) -> GpuCase:
    """A small version of the benchmark case of a kind at a position."""
    case = [case for case in CASES if case.kind == kind][position]
    deepest = min(case.setting.max_depth or 3, 3)
    setting = replace(case.setting, n_estimators=2, max_depth=deepest)
    few = min(case.predict_rows, 700)
    return replace(case, rows=ROWS, setting=setting, predict_rows=few)


def measured(
    case: GpuCase, device: Device, keep: Kept, seconds: float = 60.0, repeat: int = 2
) -> list[str]:
    """Measure a case, and return the printed lines."""
    said: list[str] = []
    run.measure_case(case, device, Plan(seconds, repeat), keep, said.append)
    return said


def only(keep: Kept, who: str = OURS) -> dict[str, Any]:
    (record,) = (r for r in keep.results.records if r["who"] == who)
    return record


class FakePeer:
    """A peer that learns nothing; ``fit`` is called by its fit."""

    def __init__(self, name: str, fit: Callable[[], None] = lambda: None) -> None:
        self.name, self._fit = name, fit

    def refuses(self, setting: Setting) -> str | None:
        return None

    def fit(self, data: Any, setting: Setting, seed: int) -> Any:
        self._fit()
        return "model"

    def predict(self, model: Any, X: Any) -> Any:
        return X[:, 0] if model == "model" else None

    def remark(self, setting: Setting) -> str | None:
        return "fake"


def arguments(tmp_path: Path, *given: str) -> Any:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return parser.parse_args(["--out", str(tmp_path / "gpu.json"), *given])


def kept(tmp_path: Path) -> Kept:
    """Results of a run in a temporary folder."""
    return Kept(Results("gpu", tmp_path / "gpu.json"), "full", {"name": "shim"})


def fake_cuda_device(machine: Any, monkeypatch: Any) -> CudaDevice:
    """The benchmark's CUDA device, over the stand-in for CuPy."""
    machine.total = 2**33
    monkeypatch.setattr(sys.modules["cupy"].cuda, "get_elapsed_time", lambda a, b: 2.0)
    monkeypatch.setattr(device_module, "AHEAD_BYTES", 64)
    monkeypatch.setattr(device_module, "driver_version", lambda: "1.2")
    return CudaDevice()
