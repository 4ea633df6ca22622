"""Measure the cases: times and scores of each peer, and equality with NumPy's model."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from benchmarks.gpu.cases import EQUALITY, FIT, HISTOGRAM, PREDICTION, GpuCase
from benchmarks.gpu.device.device import Device
from benchmarks.gpu.device.histogram import measure_histograms, shapes_left
from benchmarks.gpu.device.peak import WITHIN
from benchmarks.gpu.peers import DeviceTable, GpuPeer, Ours, as_two_columns, choose_peers
from benchmarks.gpu.plan import Keep, Plan, Record, Say
from benchmarks.gpu.turns import Contender, countdown, described, guarded, take_turns
from benchmarks.quality.scores import metric_name
from benchmarks.suite.settings import Setting
from benchmarks.suite.tables import CLASSIFICATION, LARGE_MAKERS, Table

TEST_ROWS = 50_000
FEW_ROWS = 1_000
CUT_SHORT = "ended before its runs were done"
OUR_SHARE = 0.5  # of the time of a case is for gpuboost, if peers follow


def measure(case: GpuCase, device: Device, plan: Plan, keep: Keep, say: Say) -> None:
    """Measure what is left of a case; if a peer fails, its record says how."""
    _KINDS[case.kind](case, device, plan, keep, say)


# ---- equality ----------------------------------------------------------------------------------


def _measure_equality(case: GpuCase, device: Device, plan: Plan, keep: Keep, say: Say) -> None:
    """Compare the fingerprint of the device's model with that of the NumPy backend's model."""
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
    peers = _willing(case, device, keep, say)
    if not peers:
        return
    left = countdown(plan.seconds)
    data, test = device_tables(case, device, plan.seed)
    fits = [Fits(peer, case, device, plan, data) for peer in peers]
    for one in _ours_first(fits, case, device, plan, keep, left):
        _finish(one, partial(one.record, test, left()), case, keep, say)
        device.give_memory_back()


class Fits(Contender):
    """The timed fits of one peer; the last model is kept."""

    def __init__(
        self, peer: GpuPeer, case: GpuCase, device: Device, plan: Plan, data: DeviceTable
    ) -> None:
        super().__init__(run=self._fit, before=self._forget, after=self._note)
        self.peer, self._case, self._device = peer, case, device
        self._seed, self._data = plan.seed, data
        self._model: Any = None
        self._counted: Record = {}
        self._grown: list[float] = []

    def _forget(self, number: int) -> None:
        self._model = None

    def _fit(self, number: int) -> None:
        seed = self._seed + max(0, number - 1)  # run 0 is the warm-up
        self._model = self.peer.fit(self._data, self._case.setting, seed)

    def _note(self, number: int) -> None:
        if not isinstance(self.peer, Ours):
            return
        counts, backend = self._device.counts, self._device.backend
        if number > 0:
            self._grown.append(time.perf_counter() - backend.growing_since)
        self._counted = counts.per(self._case.setting.n_estimators)
        self._counted |= {"reading_seconds": counts.reading_seconds}
        self._counted |= {"waits_before_growing": backend.waits_before}

    def record(self, test: Table, seconds: float) -> Record:
        """The peer's times, score and other facts; ``seconds`` are left for untimed work."""
        record, model, peer = self.times, self._model, self.peer
        X = self._device.asarray(test.X)
        record |= _noted("score", lambda: scored(peer.predict(model, X), test))
        if isinstance(peer, Ours):
            record |= {"grow_seconds": statistics.median(self._grown)} if self._grown else {}
            record |= self._counted | _noted("leaves", lambda: {"leaves": int(_leaves(model))})
            record |= _noted("memory", partial(self._memory, peer, seconds))
        remark = peer.remark(self._case.setting)
        return record | ({"remark": remark} if remark else {})

    def _memory(self, ours: Ours, seconds: float) -> Record:
        """Peak memory of a fit with data from the host, and the estimate of it."""
        if seconds < self.first:
            raise TimeoutError(f"{seconds:.0f} s are left for a fit whose memory is followed")
        setting, rows = self._case.setting, self._data.X_host.shape
        self._model = None
        self._device.give_memory_back()
        with self._device.peak_memory() as peak:
            model = ours.fit_from_host(self._data, setting, self._seed)
        found: Record = {"peak_bytes": peak[0]} if peak else {}
        n_classes = int(self._data.y_host.max()) + 1 if setting.task == CLASSIFICATION else 1

        def estimated() -> Record:
            gpuboost = importlib.import_module("gpuboost")
            estimate = int(gpuboost.estimate_memory(model, *rows, n_classes=n_classes))
            return {"estimated_bytes": estimate, **memory_bound(setting)}

        return found | _noted("estimate", estimated)


def memory_bound(setting: Setting) -> Record:
    """The allowed deviation of an estimate; without a maximal depth, there is no bound."""
    return {} if setting.max_depth is None else {"memory_within": WITHIN}


def _noted(what: str, call: Callable[[], Record]) -> Record:
    """Part of a record that is not timed; if it fails, the times in the record are kept."""
    found = guarded(call)
    return {f"no_{what}": found["failed"]} if "failed" in found else found


# ---- predictions -------------------------------------------------------------------------------


def _measure_predictions(case: GpuCase, device: Device, plan: Plan, keep: Keep, say: Say) -> None:
    peers = _willing(case, device, keep, say)
    if not peers:
        return
    left = countdown(plan.seconds)
    data, test = device_tables(case, device, plan.seed, case.predict_rows)
    X = device.asarray(test.X)
    found = [Predictions(peer, case, plan, data, X) for peer in peers]
    for one in _ours_first(found, case, device, plan, keep, left):
        _finish(one, partial(one.record, test), case, keep, say)
        device.give_memory_back()


class Predictions(Contender):
    """The timed predictions of one peer, with a model that is trained beforehand."""

    def __init__(self, peer: GpuPeer, case: GpuCase, plan: Plan, data: DeviceTable, X: Any) -> None:
        super().__init__(run=self._predict, before=self._train)
        self.peer, self._case, self._plan, self._data, self._X = peer, case, plan, data, X
        self._model: Any = None
        self._outcome: Any = None

    def _train(self, number: int) -> None:
        self._outcome = None
        if number > 0:
            return
        self._model = self.peer.fit(self._data, self._case.setting, self._plan.seed)
        self.peer.predict(self._model, self._X[:FEW_ROWS])

    def _predict(self, number: int) -> None:
        self._outcome = self.peer.predict(self._model, self._X)

    def record(self, test: Table) -> Record:
        """The peer's times, score and other facts."""
        some = np.arange(min(TEST_ROWS, len(test.y)))
        record = self.times | scored(self._outcome[: len(some)], test.take(some))
        if isinstance(self.peer, Ours):
            record["leaves"] = int(_leaves(self._model))
        if "seconds" in record:
            record["rows_per_second"] = round(len(test.y) / record["seconds"])
        remark = self.peer.remark(self._case.setting)
        return record | ({"remark": remark} if remark else {})


# ---- shared by all kinds -----------------------------------------------------------------------

T = TypeVar("T", Fits, Predictions)


def peers_left(case: GpuCase, device: Device | None, keep: Keep) -> list[GpuPeer]:
    """The peers of a case that have no record yet, including those that cannot run the case."""
    return [peer for peer in choose_peers(case.peers, device) if not keep.done(case, peer.name)]


def is_done(case: GpuCase, keep: Keep) -> bool:
    """Whether everything of a case is measured; needs neither a device nor data."""
    if case.kind == HISTOGRAM:
        return not shapes_left(case, keep)
    return all(peer.refuses(case.setting) for peer in peers_left(case, None, keep))


def _willing(case: GpuCase, device: Device, keep: Keep, say: Say) -> list[GpuPeer]:
    """The peers that are left and can run the case; records say why others cannot."""
    found = []
    for peer in peers_left(case, device, keep):
        refusal = peer.refuses(case.setting)
        if refusal:
            say(f"  {peer.name:10s} {refusal}")
            keep.add(case, peer.name, {"left_out": refusal})
        else:
            found.append(peer)
    return found


def _ours_first(
    contenders: Sequence[T],
    case: GpuCase,
    device: Device,
    plan: Plan,
    keep: Keep,
    left: Callable[[], float],
) -> Iterator[T]:
    """Time gpuboost, then the peers alternately; yield each as soon as its runs are done.

    The caller stores gpuboost's record before the first peer begins, so no peer's failure loses it.
    """

    def begun(one: T) -> None:
        record = {"failed": one.failed or CUT_SHORT, "first_seconds": round(one.first, 6)}
        keep.add(case, one.peer.name, record)

    ours = [one for one in contenders if isinstance(one.peer, Ours)]
    others = [one for one in contenders if not isinstance(one.peer, Ours)]
    share = OUR_SHARE if others else 1.0
    yield from take_turns(ours, device, share * left(), plan.repeat, begun)
    yield from take_turns(others, device, left(), plan.repeat, begun)


def _finish(
    one: Fits | Predictions, make: Callable[[], Record], case: GpuCase, keep: Keep, say: Say
) -> None:
    record = {"failed": one.failed} if one.failed else guarded(make)
    say(f"  {one.peer.name:10s} {said(record)}")
    keep.add(case, one.peer.name, record)


def device_tables(
    case: GpuCase, device: Device, seed: int, test_rows: int = 0
) -> tuple[DeviceTable, Table]:
    """Make the training data on the device and the test data on the host."""
    n_test = test_rows or min(TEST_ROWS, max(500, case.rows // 5))
    both = LARGE_MAKERS[case.data](case.rows + n_test, case.features, seed)
    X, y = both.X[: case.rows], both.y[: case.rows]
    on_device = device.asarray(X), device.asarray(y.astype(np.float32))
    data = DeviceTable(*on_device, X, y, both.task)
    test = Table(both.name, both.X[case.rows :], both.y[case.rows :], both.task)
    return data, test


def scored(outcome: Any, test: Table) -> Record:
    """Score a prediction: AUC for two classes, R2 for a regression."""
    from sklearn.metrics import r2_score, roc_auc_score

    host = as_two_columns(outcome, test.task)
    if test.task == CLASSIFICATION:
        score = roc_auc_score(test.y, host[:, 1])
    else:
        score = r2_score(test.y, host)
    return {"metric": metric_name(test), "score": float(score)}


def _leaves(model: Any) -> float:
    """Mean number of leaves in gpuboost's first ten trees."""
    trees = np.ravel(getattr(model, "estimators_", [model]))
    return float(np.mean([tree.get_n_leaves() for tree in trees[:10]]))


def said(record: Record) -> str:
    """Describe a record in one line."""
    if "failed" in record:
        return f"FAILED {record['failed']}"
    counts = f"{len(record['runs'])} runs, first {record['first_seconds']:.3f} s"
    score = f"   {record['metric']} {record['score']:.4f}" if "score" in record else ""
    seconds = f"{record['seconds']:9.4f} s" if "seconds" in record else "no time for runs"
    return f"{seconds}{score}   ({counts})"


_KINDS: dict[str, Callable[..., None]] = {
    EQUALITY: _measure_equality,
    FIT: _measure_fits,
    HISTOGRAM: measure_histograms,
    PREDICTION: _measure_predictions,
}
