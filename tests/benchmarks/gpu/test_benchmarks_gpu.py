"""The GPU benchmark, run on the CPU, so that errors are found before it runs on a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu import measure, peers, text, turns
from benchmarks.gpu.cases import CASES, EQUALITY, FIT, HISTOGRAM, PREDICTION
from benchmarks.gpu.device import ceilings, histogram
from benchmarks.gpu.device import device as device_module
from benchmarks.gpu.device.device import Device, Served
from benchmarks.gpu.run import Kept
from benchmarks.peers.peers import OURS
from benchmarks.report.results import Results
from benchmarks.suite.settings import ADABOOST, BOOSTING
from benchmarks.suite.tables import CLASSIFICATION
from tests import cuda_shim
from tests.benchmarks.gpu.gpu_cases import ROWS, FakePeer, ShimDevice, kept, measured, only, tiny

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


@pytest.fixture(scope="module")
def device() -> Device:
    return ShimDevice()


@pytest.fixture
def keep(tmp_path: Path) -> Kept:
    return kept(tmp_path)


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
    said = measured(case, device, keep, repeat=1)
    assert len(said) == 1 + len(case.peers)
    record = only(keep)
    assert len(record["runs"]) == 1 and 0 < record["grow_seconds"] < record["seconds"]
    assert record["score"] > (0.5 if case.setting.task == CLASSIFICATION else -0.2)
    assert 0 < record["reading_seconds"] < record["seconds"]
    assert record["waits_before_growing"] > 0  # the columns are counted together
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
    assert not level.check()  # not implemented yet
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
    assert len(measured(tiny(kind), device, keep)) == 1  # only the failed part
    assert "seconds" in only(keep, "broken")


def test_times_are_kept_if_later_steps_fail(device: Device, keep: Kept, monkeypatch: Any) -> None:
    def fail(*given: Any) -> None:
        raise ValueError("no")

    with_peers(monkeypatch)
    for name in ("scored", "_leaves"):
        monkeypatch.setattr(measure, name, fail)
    monkeypatch.setattr(peers.Ours, "fit_from_host", fail)
    measured(tiny(FIT), device, keep)
    record = only(keep)
    assert len(record["runs"]) == 2 and "failed" not in record
    assert {record[f"no_{what}"] for what in ("score", "leaves", "memory")} == {"ValueError: no"}
    assert f"{record['seconds']:.3f} |" in text.summary(keep.results.records)[0]


@pytest.mark.parametrize("kind", [FIT, PREDICTION])
def test_a_warm_up_alone_gives_no_time(
    kind: str, device: Device, keep: Kept, monkeypatch: Any
) -> None:
    with_peers(monkeypatch, FakePeer("b"))
    said = measured(tiny(kind), device, keep, seconds=0.0)
    assert "no time for runs" in said[0]
    record = only(keep)
    assert record["runs"] == [] and record["first_seconds"] > 0 and "seconds" not in record
    shown, missed = text.summary(keep.results.records)
    assert missed == [] and f"{OURS} had no time for a run after the first" in shown
    assert kind == PREDICTION or record["no_memory"].startswith("TimeoutError")


@pytest.mark.parametrize("kind", [FIT, PREDICTION])
def test_results_of_gpuboost_are_saved_before_peers_begin(
    kind: str, device: Device, keep: Kept, monkeypatch: Any
) -> None:
    """gpuboost's runs, score and memory are saved first; then the peers take turns."""
    order, found = [], []

    def begin(name: str) -> None:
        order.append(name)
        found.append(Kept(Results("gpu", keep.results.path), "full", {}))

    with_peers(monkeypatch, *(FakePeer(name, lambda name=name: begin(name)) for name in "ab"))
    measured(tiny(kind), device, keep)
    record = only(found[0])
    assert len(record["runs"]) == 2 and record["score"] > 0 and "failed" not in record
    assert kind == PREDICTION or record["peak_bytes"] == 12345
    assert order[:2] == ["a", "b"]
    if kind == FIT:
        assert [set(order[turn : turn + 2]) for turn in (2, 4)] == [{"a", "b"}] * 2
    assert len(only(keep, "a")["runs"]) == len(only(keep, "b")["runs"]) == 2


def contender(name: str, seconds: float, clock: Any, order: list[str]) -> turns.Contender:
    def run(number: int) -> None:
        order.append(name)
        if name == "breaks" and number == 2:
            raise RuntimeError("no")
        clock.now += seconds

    return turns.Contender(run)


def test_slow_contenders_run_less_often(device: Device, monkeypatch: Any) -> None:
    clock, order = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(turns, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr(device, "seconds", lambda call: timed_by(clock, call))
    slow, fast = contender("slow", 10.0, clock, order), contender("fast", 1.0, clock, order)
    ended = []
    for one in turns.take_turns([slow, fast], device, 37.0, 5):
        ended.append((one, len(order)))
    assert order == ["slow", "fast", "fast", "slow", "fast", "slow", *["fast"] * 3]
    assert ended == [(slow, 6), (fast, 9)]  # as soon as its runs are finished
    assert slow.runs == [10.0, 10.0] and len(fast.runs) == 5


def test_a_failing_contender_does_not_stop_the_others(device: Device, monkeypatch: Any) -> None:
    clock, order = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(device, "seconds", lambda call: timed_by(clock, call))
    both = contender("breaks", 1.0, clock, order), contender("sound", 1.0, clock, order)
    assert list(turns.take_turns(both, device, 99.0, 3)) == [*both]
    assert both[0].failed == "RuntimeError: no" and len(both[1].runs) == 3


def timed_by(clock: Any, call: Any) -> float:
    before = clock.now
    call()
    return clock.now - before


def test_interrupted_contenders_are_measured_again(
    device: Device, keep: Kept, monkeypatch: Any
) -> None:
    def end() -> None:
        raise KeyboardInterrupt

    with_peers(monkeypatch, FakePeer("b", end))
    with pytest.raises(KeyboardInterrupt):
        measured(tiny(FIT), device, keep)
    assert "seconds" in only(keep) and keep.done(tiny(FIT), OURS)
    assert not keep.done(tiny(FIT), "b")
    with_peers(monkeypatch)
    monkeypatch.setattr(measure.Fits, "again", lambda self, device: end())
    keep.results.drop(keep.key(tiny(FIT), OURS))
    with pytest.raises(KeyboardInterrupt):
        measured(tiny(FIT), device, keep)
    assert only(keep)["failed"] == measure.CUT_SHORT and not keep.done(tiny(FIT), OURS)


def test_peers_that_refuse_get_no_data(device: Device, keep: Kept, monkeypatch: Any) -> None:
    peer = FakePeer("b")
    monkeypatch.setattr(peer, "refuses", lambda setting: "b is not installed")
    with_peers(monkeypatch, peer)
    case = tiny(FIT)
    assert not measure.is_done(case, keep)
    measured(case, device, keep)
    assert only(keep, "b")["left_out"] == "b is not installed"
    monkeypatch.setattr(measure, "device_tables", None)
    assert measured(case, device, keep) == ["  b          b is not installed"]
    assert measure.is_done(case, keep)
    monkeypatch.setattr(peer, "refuses", lambda setting: None)
    assert not measure.is_done(case, keep)


def test_data_are_on_the_device_of_the_peers(device: Device, monkeypatch: Any) -> None:
    case = tiny(FIT)
    data, _ = measure.device_tables(case, device, 0)
    given: list[Any] = []
    monkeypatch.setattr(peers.Ours, "_fit", lambda self, X, y, setting, seed: given.extend([X, y]))
    peers.Ours(device).fit(data, case.setting, 0)
    assert given[0] is data.X and given[1] is data.y
    peers.Ours(device).fit_from_host(data, case.setting, 0)
    assert given[2] is data.X_host and given[3] is data.y_host


def test_the_choice_of_backend_is_restored(device: Device) -> None:
    from gpuboost.estimators.fitting import base
    from gpuboost.estimators.fitting import pipeline as template

    places = (base, template)
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


def test_cases_that_do_not_fit_are_left_out(device: Device, keep: Kept, monkeypatch: Any) -> None:
    monkeypatch.setattr(device, "free_bytes", lambda: 1000)
    assert "left out: needs" in measured(tiny(FIT), device, keep)[0]
    assert keep.results.records == []
