"""The command of the GPU benchmark, on a fake GPU, in several calls."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu import measure, peers, run
from benchmarks.gpu.cases import CASES, EQUALITY, FIT, HISTOGRAM, PREDICTION
from benchmarks.gpu.device import histogram
from benchmarks.gpu.device.device import CudaDevice
from benchmarks.gpu.first import children, copies
from benchmarks.report.results import Results
from tests import cuda_shim
from tests.benchmarks.gpu.gpu_cases import FakePeer, arguments, fake_cuda_device, tiny

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


@pytest.fixture
def cupy_device(machine: Any, monkeypatch: Any) -> CudaDevice:
    return fake_cuda_device(machine, monkeypatch)


# ---- the command -------------------------------------------------------------------------------


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "benchmarks.gpu", *arguments]
    return subprocess.run(words, capture_output=True, text=True, cwd=run.ROOT, timeout=120)


@pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import cupy"], capture_output=True).returncode == 0,
    reason="there may be a GPU",
)
def test_without_a_gpu_the_reason_is_printed(tmp_path: Path) -> None:
    done = command("--out", str(tmp_path / "gpu.json"))
    assert done.returncode == run.NO_DEVICE
    assert "there is no GPU to measure (ModuleNotFoundError" in done.stderr


def test_a_run_continues_after_a_crash_or_a_timeout(tmp_path: Path, monkeypatch: Any) -> None:
    fates = iter(["import sys; sys.exit(7)", "import time; time.sleep(60)", ""])
    ended: list[str] = []

    class Child(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, words: list[str], **given: Any) -> None:
            ended.append(words[words.index("--child") + 1])
            super().__init__([sys.executable, "-c", next(fates)], **given)

    monkeypatch.setattr(children.subprocess, "Popen", Child)
    monkeypatch.setattr(run, "GRACE", 0.0)
    monkeypatch.setattr(run, "choose", lambda *only: [replace(c, limit=2) for c in CASES[:3]])
    assert run.run(arguments(tmp_path)) == 1
    assert ended == [case.name for case in CASES[:3]]
    records = json.loads((tmp_path / "gpu.json").read_text())["records"]
    assert [r["failed"] for r in records] == ["exit status 7", "ended after 2 s"]
    fates = iter(["", "", ""])
    assert run.run(arguments(tmp_path)) == 0  # cases that succeeded have not failed
    assert json.loads((tmp_path / "gpu.json").read_text())["records"] == []
    assert ended[3:] == [CASES[n].name for n in (2, 0, 1)]  # failed cases come last


def test_a_case_stopped_by_the_budget_has_not_failed(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    class Child(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, words: list[str], **given: Any) -> None:
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **given)

    monkeypatch.setattr(children.subprocess, "Popen", Child)
    monkeypatch.setattr(run, "GRACE", 0.0)
    monkeypatch.setattr(run, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(run, "choose", lambda *only: CASES[:2])
    assert run.run(arguments(tmp_path, "--budget", "0.5")) == run.UNFINISHED
    said = capsys.readouterr().out
    assert "cut short by --budget" in said and "no time left; call again to go on" in said
    assert not (tmp_path / "gpu.json").exists()


def test_a_run_stops_when_its_time_is_over(tmp_path: Path, capsys: Any) -> None:
    assert run.run(arguments(tmp_path, "--budget", "1")) == run.UNFINISHED
    assert capsys.readouterr().out.count("no time left; call again to go on") == len(CASES)


def test_results_of_another_machine_are_kept(tmp_path: Path) -> None:
    own = tmp_path / "gpu.json"
    Results("gpu", own).add("a", {})
    content = json.loads(own.read_text())
    content["machine"]["cpu"] = "another"
    own.write_text(json.dumps(content))
    assert run.open_results(arguments(tmp_path)) == tmp_path / "gpu-2.json"
    (tmp_path / "gpu-2.json").write_text(own.read_text())
    assert run.open_results(arguments(tmp_path)) == tmp_path / "gpu-3.json"
    assert run.open_results(arguments(tmp_path, "--again")) == own
    assert not own.exists()


def test_results_of_another_machine_are_put_aside(tmp_path: Path) -> None:
    """Two machines use the same file in turn, and each finds its own results."""
    own, aside = tmp_path / "gpu.json", tmp_path / "aside"
    given = arguments(tmp_path, "--aside", str(aside))
    assert run.open_results(given) == own and not own.exists()
    Results("gpu", own).add("a", {})
    assert run.open_results(given) == own and not aside.exists()
    here = own.read_text()
    content = json.loads(here)
    content["machine"]["cpu"] = "another"
    for n_aside in (1, 2):
        own.write_text(json.dumps(content))
        assert run.open_results(given) == own and not own.exists()
        assert len(list(aside.iterdir())) == n_aside
    own.write_text(json.dumps(content))
    (aside / "gpu-9.json").write_text(here)
    assert run.open_results(given) == own and own.read_text() == here
    assert {path.name for path in aside.iterdir()} == {"gpu-1.json", "gpu-2.json", "gpu-3.json"}
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["gpu.json"]


def test_copies_and_binning_are_timed(cupy_device: CudaDevice) -> None:
    found = copies.measure_copies(cupy_device, 4096) | copies.measure_binning(cupy_device, 300)
    assert len(found) == 7 and min(found.values()) > 0


# ---- runs in several calls ---------------------------------------------------------------------


class InThisProcess:
    """Runs a child's command in this process; one case may simulate a crash."""

    def __init__(self, clock: Any, dies: str) -> None:
        self.clock, self.dies, self.begun = clock, dies, []  # type: ignore[var-annotated]

    def __call__(self, words: list[str], seconds: float, **given: Any) -> int:
        self.clock.now += 200.0
        parser = argparse.ArgumentParser()
        run.add_arguments(parser)
        args = parser.parse_args(words[words.index("--child") :])
        self.begun.append(args.child)
        return 9 if self.dies == args.child else run.run(args)


def test_a_whole_run_in_slices(
    cupy_device: CudaDevice, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Four kinds of cases in several calls with time for two; one case crashes at first."""
    kinds = (EQUALITY, FIT, HISTOGRAM, PREDICTION)
    cases = [replace(tiny(kind), limit=270.0, bounds={}) for kind in kinds]
    clock = SimpleNamespace(now=0.0)
    child = InThisProcess(clock, dies=cases[1].name)
    monkeypatch.setattr(run, "choose", lambda *only: list(cases))
    monkeypatch.setattr(run, "run_child", child)
    monkeypatch.setattr(run, "time", SimpleNamespace(perf_counter=lambda: clock.now))

    def choose_peers(names: tuple[str, ...], device: Any) -> list[Any]:
        return [peers.Ours(device), *(FakePeer(name) for name in names)]

    monkeypatch.setattr(measure, "choose_peers", choose_peers)
    monkeypatch.setattr(histogram, "SHAPES", histogram.SHAPES[:2])
    monkeypatch.setattr(measure, "memory_bound", lambda setting: {})  # none with so few rows
    given = arguments(tmp_path, "--repeat", "1", "--budget", "540")
    statuses, said = [], []
    for _ in range(4):
        statuses.append(run.run(given))
        said.append(capsys.readouterr().out)
        child.dies = ""
    equality, fit, levels, prediction = (case.name for case in cases)
    assert child.begun == [equality, fit, levels, prediction, fit]
    assert statuses == [run.UNFINISHED, run.UNFINISHED, 0, 0]
    assert "4 cases are not done, which take 1080 s at most" in said[0]
    assert said[0].count("call again to go on") == 2 and "FAILED exit status 9" in said[0]
    assert "FAILED" not in said[2] and "0 cases are not done" in said[3]
    records = json.loads((tmp_path / "gpu.json").read_text())["records"]
    assert {r["kind"] for r in records} == set(kinds)
    assert not [r for r in records if "failed" in r or r["who"] == run.PROCESS]
    assert all(r["exact"] for r in records if "exact" in r)
    assert [r["equal"] for r in records if "equal" in r] == [True]
