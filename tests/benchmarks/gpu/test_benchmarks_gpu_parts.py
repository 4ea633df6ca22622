"""Parts of the GPU benchmark that need no device: peers, counts, bounds."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu import cases, peers, text
from benchmarks.gpu.cases import CASES, CUML, EQUALITY, FIT, HISTOGRAM, PREDICTION, XGBOOST
from benchmarks.gpu.device import histogram, host_rounds
from benchmarks.gpu.device.counting import CountingRuntime, Counts
from benchmarks.peers.peers import OURS
from benchmarks.suite.settings import EXTRA_TREES, FOREST, Setting
from benchmarks.suite.tables import CLASSIFICATION, REGRESSION
from tests.cuda.shim_runtime import ShimRuntime

# ---- peers -------------------------------------------------------------------------------------


def test_xgboost_gets_the_settings_of_the_forest(monkeypatch: Any) -> None:
    asked: dict[str, Any] = {}
    fake = types.ModuleType("xgboost")
    fake.QuantileDMatrix = lambda X, y, max_bin: (len(X), max_bin)  # type: ignore[attr-defined]

    def train(words: dict[str, Any], matrix: Any, num_boost_round: int) -> str:
        asked.update(words, matrix=matrix, rounds=num_boost_round)
        return "booster"

    fake.train = train  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "xgboost", fake)
    X = np.zeros((10, 28), np.float32)
    data = peers.DeviceTable(X, X[:, 0], X, X[:, 0], CLASSIFICATION)
    peer = peers.XGBoostOnGpu()
    assert peer.fit(data, Setting(FOREST, CLASSIFICATION, 7, max_depth=4), 3) == "booster"
    assert asked["num_parallel_tree"] == 7 and asked["rounds"] == 1 and asked["device"] == "cuda"
    assert asked["colsample_bynode"] == pytest.approx(5 / 28) and asked["matrix"] == (10, 255)
    assert "random thresholds" in str(peer.refuses(Setting(EXTRA_TREES, REGRESSION)))


def test_cuml_gets_the_settings_of_the_forest(monkeypatch: Any) -> None:
    asked: dict[str, Any] = {}

    class Forest:
        def __init__(self, **words: Any) -> None:
            asked.update(words)

        def fit(self, X: Any, y: Any) -> Forest:
            asked["dtype"] = y.dtype
            return self

        def predict_proba(self, X: Any) -> Any:
            return np.column_stack([X[:, 0], X[:, 0]])

    fake = types.ModuleType("cuml.ensemble")
    fake.RandomForestClassifier = Forest  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuml.ensemble", fake)
    X = np.zeros((10, 28), np.float32)
    data = peers.DeviceTable(X, X[:, 0], X, X[:, 0], CLASSIFICATION)
    peer, setting = peers.CumlOnGpu(), Setting(FOREST, CLASSIFICATION, 7)
    model = peer.fit(data, setting, 3)
    assert asked["max_depth"] == peers.DEEPEST and asked["dtype"] == np.int32
    assert asked["bootstrap"] is True and "depth at most" in str(peer.remark(setting))
    assert peer.predict(model, X).shape == (10, 2)


def test_probabilities_of_either_form() -> None:
    second = np.array([0.25, 1.0])
    both = peers.as_two_columns(second, CLASSIFICATION)
    np.testing.assert_array_equal(both, [[0.75, 0.25], [0.0, 1.0]])
    assert peers.as_two_columns(both, CLASSIFICATION) is both
    assert peers.as_two_columns(second, REGRESSION) is second


# ---- counting ----------------------------------------------------------------------------------


def test_a_wait_is_a_copy_after_work() -> None:
    counts = Counts()
    runtime = CountingRuntime(ShimRuntime(), counts)
    array = runtime.xp.zeros(3)
    runtime.to_host(array)
    runtime.to_host(array)
    late = runtime.read_later(array)
    runtime.xp.full(2, 1.0)
    runtime.xp.empty(2)
    late()
    runtime.asarray(np.zeros(2))
    assert counts.of == {"array_calls": 2, "reads": 3, "waits": 2, "uploads": 1}
    assert counts.per(2)["reads_per_tree"] == 1.5 and counts.per(2)["launches_per_tree"] == 0.0
    counts.clear()
    runtime.to_host(array)
    assert counts.of == {"reads": 1}
    assert runtime.n_multiprocessors == 4


class OneByOne(ShimRuntime):
    """A runtime whose kernels do nothing, without graphs."""

    def kernel(self, *_: object) -> Any:
        return lambda grid, block, args, shared_mem=0: None


class Graphs(OneByOne):
    """A runtime whose kernels do nothing, with graphs."""

    def capture(self, launches: Any) -> Any:
        launches()
        return lambda: None


@pytest.mark.parametrize(("inner", "per_repeat"), [(OneByOne, 3), (Graphs, 1)])
def test_a_graph_is_one_launch(inner: Any, per_repeat: int) -> None:
    runtime = CountingRuntime(inner(), Counts())
    array = runtime.asarray(np.zeros(3, dtype=np.int32))
    runtime.upload(np.ones(3, dtype=np.int32), array)
    kernel = runtime.kernel("any.cu", "any", {})

    def launches() -> None:
        for _ in range(3):
            kernel((1,), (1,), (array,))

    repeat = runtime.capture(launches)
    for _ in range(2):
        repeat()
    assert runtime.counts.of == {"uploads": 2, "launches": 2 * per_repeat}


# ---- sums of histograms ------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["values", "two classes", "7 classes"])
def test_every_wrong_sum_is_detected(target: str) -> None:
    """The sums are compared with sums over rows."""
    case = next(case for case in CASES if case.kind == HISTOGRAM)
    shape = histogram.Shape(target, 3, 2)
    host = histogram._draw_rows(replace(case, rows=200, features=5), shape, 0)
    end = np.cumsum(host.count)
    found = np.zeros((3, 2, 2 + max(1, host.n_classes), histogram.WIDTH), dtype=np.int64)
    for node in range(3):
        for row in host.row[end[node] - host.count[node] : end[node]]:
            for place, feature in enumerate(host.listed[node]):
                cell = found[node, place, :, host.codes[feature, row]]
                cell[0] += 1
                cell[2 + (host.value[row] if host.n_classes else 0)] += (
                    1 if host.n_classes else host.value[row]
                )
    assert histogram._is_exact(found, host)
    for channel in (0, 2, -1):
        wrong = found.copy()
        wrong[2, 1, channel, 17] += 1
        assert not histogram._is_exact(wrong, host)


# ---- cases and bounds -------------------------------------------------------------------------


def test_names_of_gpu_cases_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.kind for case in CASES} == {EQUALITY, FIT, HISTOGRAM, PREDICTION}
    assert [case.kind for case in cases.choose("11m x 28")] == [HISTOGRAM, FIT]
    assert {case.kind for case in cases.choose("histograms", "the same")} == {EQUALITY, HISTOGRAM}
    assert cases.choose() == list(CASES)
    with pytest.raises(ValueError, match="no case contains 'nothing' or 'at all'"):
        cases.choose("nothing", "at all")
    for scale, rows in (("small", 22_000), ("tiny", 300)):
        sized = [case.sized(scale) for case in CASES]
        assert all(case.rows <= rows and not case.bounds for case in sized)
    assert all(case.sized("full") is case for case in CASES)


def test_verdicts_of_bounds() -> None:
    case = next(case for case in CASES if XGBOOST in case.bounds and CUML in case.bounds)
    common = {"case": case.name, "kind": FIT, "scale": "full", "bounds": dict(case.bounds)}
    records = [
        {**common, "who": OURS, "seconds": 0.6, "score": 0.5},
        {**common, "who": XGBOOST, "seconds": 1.0, "score": 0.5},
        {**common, "who": CUML, "seconds": 2.0, "score": 0.5},
    ]
    (sentence,) = text.missed_bounds(records)
    assert f"0.600 of {XGBOOST}'s time, 0.5 allowed" in sentence
    level = {"case": "h", "kind": HISTOGRAM, "who": "a", "scale": "full", "bounds": {"floor": 2.0}}
    assert text.missed_bounds([{**level, "of_ceiling": 0.5, "exact": True}]) == []
    missed = text.missed_bounds([{**level, "of_ceiling": 0.49, "exact": False}])
    assert missed == ["h, a: 49% of the ceiling", "h, a: wrong sums"]


def test_memory_bounds_apply_at_full_size() -> None:
    record = {"case": "c", "kind": FIT, "who": OURS, "scale": "full", "bounds": {}}
    record |= {"estimated_bytes": 1000, "memory_within": 0.15}
    for peak, sentences in ((850, 0), (849, 1), (1150, 0), (1151, 1)):
        assert len(text.missed_bounds([record | {"peak_bytes": peak}])) == sentences
    wrong = record | {"peak_bytes": 2000}
    assert text.missed_bounds([wrong]) == ["c: memory is 2.00 (1 ± 0.15) of its estimate"]
    assert text.missed_bounds([wrong | {"scale": "small"}]) == []
    del wrong["memory_within"]
    assert text.missed_bounds([wrong]) == [] and text.share_of_estimate(wrong) == "2.00"


def test_limits_of_the_cases_are_documented() -> None:
    limits = [case.limit for case in CASES]
    assert f"are {sum(limits):.0f} s together" in str(cases.__doc__)
    assert sum(limits) < 3 * 540 and max(limits) <= 540


# ---- the host of rounds -------------------------------------------------------------------------


@pytest.mark.parametrize("family", [host_rounds.boosting, host_rounds.adaboost])
def test_the_host_of_rounds_is_timed_while_they_are_replayed(family, monkeypatch):
    replays = []
    monkeypatch.setattr(host_rounds, "ROUNDS", 8)
    monkeypatch.setattr(host_rounds, "WARM_UP", 3)
    capture = lambda runtime, launches: lambda: replays.append(1)  # noqa: E731
    monkeypatch.setattr(host_rounds.AnsweringRuntime, "capture", capture)
    assert 0.0 < family(6) < 1.0
    assert len(replays) >= 5


def test_the_tree_of_a_timed_round_of_adaboost_is_full(monkeypatch):
    monkeypatch.setattr(host_rounds, "seconds_of_rounds", lambda boost: boost(1))
    found = host_rounds.adaboost(6)
    assert (found.error, found.read_tree().node_count) == (0.3, host_rounds.NODES[6])
