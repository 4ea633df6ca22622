"""The measurements of a case: what each peer took, and what it scored."""

from __future__ import annotations

import importlib
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from benchmarks.gpu.cases import EQUALITY, FIT, HISTOGRAM, PREDICTION, GpuCase
from benchmarks.gpu.device import Device
from benchmarks.gpu.histogram import measure_histograms
from benchmarks.gpu.peers import DeviceTable, GpuPeer, Ours, as_two_columns, choose_peers
from benchmarks.scores import metric_name
from benchmarks.tables import CLASSIFICATION, LARGE_MAKERS, Table

TEST_ROWS = 50_000
FEW_ROWS = 1_000

Say = Callable[[str], None]
Record = dict[str, Any]


class Keep(Protocol):
    """Where finished records go."""

    def done(self, case: GpuCase, who: str) -> bool:
        """Whether this was measured before."""

    def add(self, case: GpuCase, who: str, record: Record) -> None:
        """Keep a record for good."""


@dataclass(frozen=True)
class Plan:
    """How a case is measured.

    Attributes
    ----------
    seconds : float
        That the case may take; what is slow is repeated less often.
    repeat : int
    seed : int
    """

    seconds: float
    repeat: int = 5
    seed: int = 0


def measure(case: GpuCase, device: Device, plan: Plan, keep: Keep, say: Say) -> None:
    """Measure what is not done yet of a case; a failure of one peer is its record."""
    _KINDS[case.kind](case, device, plan, keep, say)


# ---- equality ----------------------------------------------------------------------------------


def _measure_equality(case: GpuCase, device: Device, plan: Plan, keep: Keep, say: Say) -> None:
    """The fingerprint of the device's model beside that of NumPy's, which needs no device."""
    peer = Ours(device)
    if keep.done(case, peer.name):
        return
    data, _ = device_tables(case, device, plan.seed)
    gpuboost = importlib.import_module("gpuboost")
    words = case.setting.keywords(1, plan.seed)
    expected = getattr(gpuboost, case.setting.estimator)(device="numpy", **words)
    expected.fit(data.X_host, data.y_host)
    record: Record = {"equal": False}
    try:
        found = peer.fit(data, case.setting, plan.seed)
        record = {"equal": found.fingerprint() == expected.fingerprint()}
        record["leaves"] = int(_leaves(found))
    except Exception as error:
        record["failed"] = described(error)
    why = f": {record['failed']}" if "failed" in record else ""
    say(f"  {peer.name:10s} {'equal' if record['equal'] else 'NOT EQUAL'}{why}")
    keep.add(case, peer.name, record)


# ---- fits --------------------------------------------------------------------------------------


def _measure_fits(case: GpuCase, device: Device, plan: Plan, keep: Keep, say: Say) -> None:
    peers = choose_peers(case.peers, device)
    missing = [peer for peer in peers if not keep.done(case, peer.name)]
    if not missing:
        return
    started = time.perf_counter()
    data, test = device_tables(case, device, plan.seed)
    left = plan.seconds - (time.perf_counter() - started)
    for position, peer in enumerate(missing):
        share = max(left - (time.perf_counter() - started), 0.0) / (len(missing) - position)
        record = _guarded(partial(_fit_record, peer, case, device, plan, (data, test), share))
        say(f"  {peer.name:10s} {said(record)}")
        keep.add(case, peer.name, record)
        device.give_memory_back()


def _fit_record(
    peer: GpuPeer,
    case: GpuCase,
    device: Device,
    plan: Plan,
    tables: tuple[DeviceTable, Table],
    seconds: float,
) -> Record:
    """What one peer took and scored."""
    data, test = tables
    refusal = peer.refuses(case.setting)
    if refusal:
        return {"left_out": refusal}
    models: list[Any] = []
    grown: list[float] = []

    def fit(seed: int) -> None:
        models[:] = [peer.fit(data, case.setting, seed)]

    with device.peak_memory() as peak:
        first = device.seconds(partial(fit, plan.seed))
        counted = device.counts.per(case.setting.n_estimators)
    runs = []
    for turn in range(runs_in(seconds - first, first, plan.repeat)):
        runs.append(device.seconds(partial(fit, plan.seed + turn)))
        if isinstance(peer, Ours):
            grown.append(time.perf_counter() - device.backend.growing_since)
    reading = device.counts.reading_seconds
    record = timed(runs, first)
    record |= _noted("score", lambda: scored(peer.predict(models[0], device.asarray(test.X)), test))
    if isinstance(peer, Ours):
        record |= {"grow_seconds": statistics.median(grown)} if grown else {}
        record |= {"reading_seconds": reading}
        record |= {"waits_before_growing": device.backend.waits_before}
        record |= counted | _noted("leaves", lambda: {"leaves": int(_leaves(models[0]))})
        record |= _noted("memory", lambda: _memory(models[0], peak, data))
    remark = peer.remark(case.setting)
    return record | ({"remark": remark} if remark else {})


def _noted(what: str, call: Callable[[], Record]) -> Record:
    """What belongs to a record beside its times, which must not be lost where it fails."""
    found = _guarded(call)
    return {f"no_{what}": found["failed"]} if "failed" in found else found


def _memory(model: Any, peak: list[int], data: DeviceTable) -> Record:
    """Peak of a fit on the device beside what was foretold."""
    gpuboost = importlib.import_module("gpuboost")
    rows, features = data.X_host.shape
    n_classes = int(data.y_host.max()) + 1 if data.task == CLASSIFICATION else 1
    found = {"peak_bytes": peak[0]} if peak else {}

    def estimated() -> Record:
        estimate = gpuboost.estimate_memory(model, rows, features, n_classes=n_classes)
        return {"estimated_bytes": int(estimate)}

    return found | _noted("estimate", estimated)


# ---- predictions -------------------------------------------------------------------------------


def _measure_predictions(case: GpuCase, device: Device, plan: Plan, keep: Keep, say: Say) -> None:
    peers = choose_peers(case.peers, device)
    missing = [peer for peer in peers if not keep.done(case, peer.name)]
    if not missing:
        return
    started = time.perf_counter()
    data, test = device_tables(case, device, plan.seed, case.predict_rows)
    X = device.asarray(test.X)
    left = plan.seconds - (time.perf_counter() - started)
    for position, peer in enumerate(missing):
        share = max(left - (time.perf_counter() - started), 0.0) / (len(missing) - position)
        tables = data, test, X
        record = _guarded(partial(_prediction_record, peer, case, device, plan, tables, share))
        say(f"  {peer.name:10s} {said(record)}")
        keep.add(case, peer.name, record)
        device.give_memory_back()


def _prediction_record(
    peer: GpuPeer,
    case: GpuCase,
    device: Device,
    plan: Plan,
    tables: tuple[DeviceTable, Table, Any],
    seconds: float,
) -> Record:
    data, test, X = tables
    refusal = peer.refuses(case.setting)
    if refusal:
        return {"left_out": refusal}
    started = time.perf_counter()
    model = peer.fit(data, case.setting, plan.seed)
    peer.predict(model, X[:FEW_ROWS])
    outcome: list[Any] = []

    def predict() -> None:
        outcome[:] = [peer.predict(model, X)]

    first = device.seconds(predict)
    left = seconds - (time.perf_counter() - started)
    runs = [device.seconds(predict) for _ in range(runs_in(left, first, plan.repeat))]
    some = slice(0, TEST_ROWS)
    record = timed(runs, first) | scored(outcome[0][some], test.take(np.arange(len(test.y))[some]))
    if isinstance(peer, Ours):
        record["leaves"] = int(_leaves(model))
    record["rows_per_second"] = round(len(test.y) / record["seconds"])
    remark = peer.remark(case.setting)
    return record | ({"remark": remark} if remark else {})


# ---- what all share ----------------------------------------------------------------------------


def device_tables(
    case: GpuCase, device: Device, seed: int, test_rows: int = 0
) -> tuple[DeviceTable, Table]:
    """Training data on the device, and test data on the host."""
    n_test = test_rows or min(TEST_ROWS, max(500, case.rows // 5))
    both = LARGE_MAKERS[case.data](case.rows + n_test, case.features, seed)
    X, y = both.X[: case.rows], both.y[: case.rows]
    on_device = device.asarray(X), device.asarray(y.astype(np.float32))
    data = DeviceTable(*on_device, X, y, both.task)
    test = Table(both.name, both.X[case.rows :], both.y[case.rows :], both.task)
    return data, test


def runs_in(seconds: float, first: float, repeat: int) -> int:
    """How often what took ``first`` seconds is repeated."""
    return int(min(repeat, max(0.0, seconds) // max(first, 1e-9)))


def timed(runs: list[float], first: float) -> Record:
    """The times of a record; where there was time for one run alone, the first one counts."""
    found: Record = {"seconds": statistics.median(runs) if runs else first}
    return found | {"runs": [round(s, 6) for s in runs], "first_seconds": round(first, 6)}


def scored(outcome: Any, test: Table) -> Record:
    """AUC of two classes, R2 of values."""
    from sklearn.metrics import r2_score, roc_auc_score

    host = as_two_columns(outcome, test.task)
    if test.task == CLASSIFICATION:
        score = roc_auc_score(test.y, host[:, 1])
    else:
        score = r2_score(test.y, host)
    return {"metric": metric_name(test), "score": float(score)}


def _leaves(model: Any) -> float:
    """Mean leaves of a tree of ours."""
    trees = np.ravel(getattr(model, "estimators_", [model]))
    return float(np.mean([tree.get_n_leaves() for tree in trees[:10]]))


def _guarded(call: Callable[[], Record]) -> Record:
    """The record of a call, or how it failed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a peer's advice must not end a run
            return call()
    except Exception as error:
        return {"failed": described(error)}


def described(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:500]


def said(record: Record) -> str:
    """A record in one line."""
    if "seconds" not in record:
        return record.get("left_out") or f"FAILED {record['failed']}"
    counts = f"{len(record['runs'])} runs, first {record['first_seconds']:.3f} s"
    score = f"   {record['metric']} {record['score']:.4f}" if "score" in record else ""
    return f"{record['seconds']:9.4f} s{score}   ({counts})"


_KINDS: dict[str, Callable[..., None]] = {
    EQUALITY: _measure_equality,
    FIT: _measure_fits,
    HISTOGRAM: measure_histograms,
    PREDICTION: _measure_predictions,
}
