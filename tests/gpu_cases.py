"""Small cases of the benchmark of GPUs, and what keeps their results."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gpu import run
from benchmarks.gpu.cases import CASES, GpuCase
from benchmarks.gpu.device import Device
from benchmarks.gpu.measure import Plan
from benchmarks.gpu.run import Kept
from benchmarks.results import Results

ROWS = 300


def tiny(kind: str, position: int = 0) -> GpuCase:
    """A case of a kind as it is, but small."""
    case = [case for case in CASES if case.kind == kind][position]
    deepest = min(case.setting.max_depth or 3, 3)
    setting = replace(case.setting, n_estimators=2, max_depth=deepest)
    few = min(case.predict_rows, 700)
    return replace(case, rows=ROWS, setting=setting, predict_rows=few)


def measured(case: GpuCase, device: Device, keep: Kept, seconds: float = 60.0) -> list[str]:
    """What is said of a case."""
    said: list[str] = []
    run.measure_case(case, device, Plan(seconds, repeat=2), keep, said.append)
    return said


def arguments(tmp_path: Path, *given: str) -> Any:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return parser.parse_args(["--out", str(tmp_path / "gpu.json"), *given])


def kept(tmp_path: Path) -> Kept:
    """Results of a run in a folder."""
    return Kept(Results("gpu", tmp_path / "gpu.json"), "full", {"name": "shim"})
