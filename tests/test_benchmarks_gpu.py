"""The benchmark of GPUs runs on the CPU, so that nothing in it fails where there is one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import (
    ceilings,
    histogram,
    measure,
    peers,
    run,
    text,
)
from benchmarks.gpu import device as device_module
from benchmarks.gpu.cases import (
    CASES,
    EQUALITY,
    FIT,
    HISTOGRAM,
    PREDICTION,
)
from benchmarks.gpu.device import Device, Served
from benchmarks.gpu.run import Kept
from benchmarks.peers import OURS
from benchmarks.results import Results
from benchmarks.settings import ADABOOST, BOOSTING, Setting
from benchmarks.tables import CLASSIFICATION
from tests import cuda_shim
from tests.gpu_cases import ROWS, arguments, kept, measured, tiny
from tests.shim_runtime import ShimRuntime

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


class ShimDevice(Device):
    """The kernels on the CPU."""

    def __init__(self, **given: Any) -> None:
        super().__init__(ShimRuntime(**given), compile_on_cpu)

    @contextmanager
    def peak_memory(self) -> Any:
        found: list[int] = []
        yield found
        found.append(12345)


def compile_on_cpu(source: str, name: str) -> Any:
    return cuda_shim.Module(source).get_function(name)


@pytest.fixture(scope="module")
def device() -> Device:
    return ShimDevice()


@pytest.fixture
def keep(tmp_path: Path) -> Kept:
    return kept(tmp_path)


def only(keep: Kept, who: str = OURS) -> dict[str, Any]:
    (record,) = (r for r in keep.results.records if r["who"] == who)
    return record


# ---- every kind of case ------------------------------------------------------------------------


def test_the_models_are_compared(device: Device, keep: Kept) -> None:
    assert "equal" in measured(tiny(EQUALITY), device, keep)[0]
    assert only(keep)["equal"] is True and only(keep)["leaves"] > 2
    assert measured(tiny(EQUALITY), device, keep) == []  # done


def test_another_model_is_a_missed_bound(device: Device, keep: Kept, monkeypatch: Any) -> None:
    original = peers.Ours.fit
    monkeypatch.setattr(
        peers.Ours, "fit", lambda self, data, setting, seed: original(self, data, setting, seed + 1)
    )
    assert "NOT EQUAL" in measured(tiny(EQUALITY), device, keep)[0]
    assert len(text.missed_bounds(keep.results.records)) == 1


@pytest.mark.parametrize("position", range(sum(case.kind == FIT for case in CASES)))
def test_every_fit_is_measured(position: int, device: Device, keep: Kept) -> None:
    case = tiny(FIT, position)
    said = measured(case, device, keep)
    assert len(said) == 1 + len(case.peers)
    record = only(keep)
    assert len(record["runs"]) == 2 and 0 < record["grow_seconds"] < record["seconds"]
    assert record["score"] > (0.5 if case.setting.task == CLASSIFICATION else -0.2)
    assert 0 < record["reading_seconds"] < record["seconds"]
    assert record["waits_before_growing"] >= case.features
    assert record["launches_per_tree"] > 5 and record["waits_per_tree"] > 0
    assert record["peak_bytes"] == 12345
    if case.setting.family != BOOSTING or "no_estimate" not in record:
        assert record["estimated_bytes"] > 0
    for peer in case.peers:
        assert "not installed" in only(keep, peer).get("left_out", "not installed")


def test_histograms_are_held_against_the_ceilings(device: Device, keep: Kept) -> None:
    said = measured(tiny(HISTOGRAM), device, keep)
    assert len(said) == 1 + len(histogram.SHAPES)
    levels = [r for r in keep.results.records if "of_ceiling" in r]
    assert all(r["exact"] for r in levels) and len(levels) == len(histogram.SHAPES)
    for r in levels:
        assert r["of_ceiling"] == pytest.approx(max(r["of_copy"], r["of_adds"]))
    assert "G additions/s" in text.summary(keep.results.records)[0]


@pytest.mark.parametrize("shape", histogram.SHAPES, ids=lambda shape: shape.name)
def test_wrong_histograms_are_seen(shape: histogram.Shape, device: Device) -> None:
    level = histogram.make_level(tiny(HISTOGRAM), device, shape, 0)
    assert not level.check()  # not built yet
    level.build()
    assert level.check()


def test_predictions_are_measured(device: Device, keep: Kept) -> None:
    measured(tiny(PREDICTION), device, keep)
    record = only(keep)
    assert record["rows_per_second"] == round(700 / record["seconds"])
    assert record["metric"] == "AUC" and record["score"] > 0.5


def test_ceilings_count_what_they_do(device: Device, monkeypatch: Any) -> None:
    found = ceilings.measure_ceilings(device, 1e-6, 1)
    assert found.copy_rate > 0 and found.add_rate > 0
    sound = device_module.ceilings_text()
    lossy = sound.replace("cells + bin * CEILING_LANES + lane, value", "cells + lane, j & 1")
    assert lossy != sound
    monkeypatch.setattr(device_module, "ceilings_text", lambda: lossy)
    with pytest.raises(RuntimeError, match="additions to shared memory were lost"):
        ceilings.measure_ceilings(device, 1e-6, 1)


# ---- peers -------------------------------------------------------------------------------------


class FakePeer:
    """Learns nothing, takes the time it is told."""

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


def with_peers(monkeypatch: Any, *others: FakePeer) -> None:
    monkeypatch.setattr(
        measure, "choose_peers", lambda names, device: [peers.Ours(device), *others]
    )


@pytest.mark.parametrize("kind", [FIT, PREDICTION])
def test_a_peer_that_fails_is_a_record(
    kind: str, device: Device, keep: Kept, monkeypatch: Any
) -> None:
    def fail() -> None:
        raise RuntimeError("no kernel image\nis available")

    with_peers(monkeypatch, FakePeer("broken", fail), FakePeer("b"))
    said = measured(tiny(kind), device, keep)
    assert "FAILED RuntimeError: no kernel image is available" in said[1]
    assert "seconds" in only(keep) and "seconds" in only(keep, "b")
    table = text.summary(keep.results.records)[0]
    assert "| of b's time |" in table and "FAILED:" in table
    repaired = FakePeer("broken")
    with_peers(monkeypatch, repaired, FakePeer("b"))
    assert len(measured(tiny(kind), device, keep)) == 1  # what failed, and nothing else
    assert "seconds" in only(keep, "broken")


def test_times_outlive_what_fails_after_them(device: Device, keep: Kept, monkeypatch: Any) -> None:
    def fail(*given: Any) -> None:
        raise ValueError("no")

    with_peers(monkeypatch)
    for name in ("scored", "_leaves", "_memory"):
        monkeypatch.setattr(measure, name, fail)
    measured(tiny(FIT), device, keep)
    record = only(keep)
    assert len(record["runs"]) == 2 and "failed" not in record
    assert {record[f"no_{what}"] for what in ("score", "leaves", "memory")} == {"ValueError: no"}
    assert f"{record['seconds']:.3f} |" in text.summary(keep.results.records)[0]


def test_who_has_no_time_left_counts_the_first_run(
    device: Device, keep: Kept, monkeypatch: Any
) -> None:
    with_peers(monkeypatch)
    measured(tiny(FIT), device, keep, seconds=0.0)
    record = only(keep)
    assert record["runs"] == [] and round(record["seconds"], 6) == record["first_seconds"]


def test_runs_fit_the_time() -> None:
    assert measure.runs_in(10.0, 1.0, 5) == 5
    assert measure.runs_in(3.5, 1.0, 5) == 3
    assert measure.runs_in(-1.0, 1.0, 5) == 0


def test_the_chosen_backend_comes_back(device: Device) -> None:
    from gpuboost.estimators import base, boosting_reading, template

    places = (base, template, boosting_reading)
    before = [place.choose_backend for place in places]
    with pytest.raises(ZeroDivisionError), Served(device):
        assert all(place.choose_backend("cpu", None) is device.backend for place in places)
        raise ZeroDivisionError
    assert [place.choose_backend for place in places] == before


def test_all_trees_of_a_fit_are_counted_together(device: Device, keep: Kept) -> None:
    (case,) = (case for case in CASES if case.setting.family == ADABOOST)
    few, more = (replace(case.setting, n_estimators=n) for n in (2, 6))
    counts = []
    for setting in (few, more):
        data, _ = measure.device_tables(replace(case, rows=ROWS), device, 0)
        peers.Ours(device).fit(data, setting, 0)
        counts.append(sum(device.counts.of.values()))
    assert counts[1] > 1.5 * counts[0]


# ---- the command -------------------------------------------------------------------------------


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "benchmarks.gpu", *arguments]
    return subprocess.run(words, capture_output=True, text=True, cwd=run.ROOT, timeout=120)


@pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import cupy"], capture_output=True).returncode == 0,
    reason="there may be a GPU",
)
def test_without_a_gpu_the_reason_is_said(tmp_path: Path) -> None:
    done = command("--out", str(tmp_path / "gpu.json"))
    assert done.returncode == 2
    assert "there is no GPU to measure (ModuleNotFoundError" in done.stderr


def test_a_case_that_dies_or_hangs_ends_no_run(tmp_path: Path, monkeypatch: Any) -> None:
    fates = iter(["import sys; sys.exit(7)", "import time; time.sleep(60)", ""])
    ended: list[str] = []

    class Child(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, words: list[str], **given: Any) -> None:
            ended.append(words[words.index("--child") + 1])
            super().__init__([sys.executable, "-c", next(fates)], **given)

    monkeypatch.setattr(run.subprocess, "Popen", Child)
    monkeypatch.setattr(run, "GRACE", 0.0)
    monkeypatch.setattr(run, "choose", lambda only: [replace(c, limit=2) for c in CASES[:3]])
    assert run.run(arguments(tmp_path)) == 0
    assert ended == [case.name for case in CASES[:3]]
    records = json.loads((tmp_path / "gpu.json").read_text())["records"]
    assert [r["failed"] for r in records] == ["exit status 7", "ended after 2 s"]


def test_a_run_stops_when_its_time_is_over(tmp_path: Path, capsys: Any) -> None:
    assert run.run(arguments(tmp_path, "--budget", "1")) == 0
    assert capsys.readouterr().out.count("no time left; call again to go on") == len(CASES)


def test_results_of_another_machine_stay(tmp_path: Path) -> None:
    own = tmp_path / "gpu.json"
    Results("gpu", own).add("a", {})
    content = json.loads(own.read_text())
    content["machine"]["cpu"] = "another"
    own.write_text(json.dumps(content))
    assert run.open_results(arguments(tmp_path)) == tmp_path / "gpu-2.json"
    assert run.open_results(arguments(tmp_path, "--again")) == own
    assert not own.exists()


def test_what_does_not_fit_is_left_out(device: Device, keep: Kept, monkeypatch: Any) -> None:
    monkeypatch.setattr(device, "free_bytes", lambda: 1000)
    assert "left out: needs" in measured(tiny(FIT), device, keep)[0]
    assert keep.results.records == []
