"""Recorded batches as graphs; the fake CuPy refuses what CUDA refuses during capture."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.growth import grow as cuda
from tests import cuda_shim
from tests.estimators.device_cases import REPLAYED_FORESTS, table
from tests.estimators.estimator_cases import make
from tests.fakes.fake_cupy import UPLOAD, WAIT
from tests.fakes.fake_errors import CUDARuntimeError
from tests.fakes.fake_streams import GRAPH

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
AT_ONCE = 2  # trees per batch


# ---- graphs ----------------------------------------------------------------------------------


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grow two trees at a time, regardless of the memory."""
    monkeypatch.setattr(cuda, "trees_at_once", lambda *_: AT_ONCE)


@needs_compiler
@pytest.mark.parametrize("case", REPLAYED_FORESTS, ids=str)
def test_forests_of_several_batches(case, machine, monkeypatch):
    monkeypatch.setattr(cuda, "trees_at_once", lambda *_: 4)
    case.run("cuda:1", n_rows=80)
    assert machine.launches.count(GRAPH) == case.words["n_estimators"] // 4 - 1
    assert machine.live == 0 and machine.current == 0


@needs_compiler
def test_launches_of_a_replayed_batch(machine, few_at_once, monkeypatch):
    """A replay is one upload, one graph, and one copy of each array of the trees."""
    grow_finished, batches = cuda.TreeGrower.grow_finished, []

    def watched(self, host, again):
        begun = len(machine.events)
        found = grow_finished(self, host, again)
        batches.append(machine.events[begun:])
        return found

    monkeypatch.setattr(cuda.TreeGrower, "grow_finished", watched)
    make("RandomForestClassifier", device="cuda", n_estimators=8, max_depth=6).fit(
        *table("RandomForestClassifier")
    )
    first, *replayed = batches
    assert len(replayed) == 3
    assert GRAPH not in first and len(set(first)) > 15
    for events in replayed:
        assert events[:2] == [UPLOAD, GRAPH]
        assert events[2:] == 11 * [WAIT]


@needs_compiler
def test_work_that_graphs_cannot_hold_ends_a_capture(machine):
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    runtime = CupyRuntime(1)
    with runtime.active():
        there, host = runtime.asarray(np.arange(4)), np.arange(4)
        for work in (
            lambda: runtime.xp.empty(3),
            lambda: runtime.asarray(host),
            lambda: runtime.upload(host, there),
            lambda: runtime.to_host(there),
            lambda: runtime.read_later(there),
            lambda: there + 1,
            lambda: there.fill(0),
            lambda: there.__setitem__(0, 1),
            lambda: int(there[0]),
        ):
            with pytest.raises(CUDARuntimeError, match="900"):
                runtime.capture(work)
            assert not machine.stream.is_capturing()
        graph = runtime.capture(lambda: None)
        graph()
    assert machine.launches == [GRAPH]


@needs_compiler
def test_a_graph_reads_the_current_contents_of_arrays(machine):
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime
    from gpuboost.backends.cuda.runtime.launch import fill

    runtime = CupyRuntime(0)
    with runtime.active():
        there: Any = runtime.asarray(np.arange(4, dtype=np.int32))
        graph = runtime.capture(partial(fill, runtime, there[1:3], 7))
        assert runtime.to_host(there).tolist() == [0, 1, 2, 3]
        graph()
        assert runtime.to_host(there).tolist() == [0, 7, 7, 3]
        runtime.upload(np.array([9, 9, 9, 9], dtype=np.int32), there)
        graph()
        assert runtime.to_host(there).tolist() == [9, 7, 7, 9]
        there = None  # a graph does not keep arrays alive
        with pytest.raises(CUDARuntimeError, match="700"):
            graph()


# ---- too little memory ---------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("step", [89, pytest.param(1, marks=pytest.mark.slow)])
def test_every_allocation_may_fail(step, machine, few_at_once):
    """After a failure, no arrays or graphs stay on the device, and the next fit works."""
    X, y = table("RandomForestClassifier", 60)
    model = make("RandomForestClassifier", n_estimators=6, max_depth=2, device="cuda:1")
    expected, begun = model.fit(X, y).fingerprint(), machine.allocations
    model.fit(X, y)
    n_allocations = machine.allocations - begun
    for nth in range(0, n_allocations, step):
        machine.fail_at = machine.allocations + nth
        with pytest.raises(MemoryError, match="cuda:1 is out of memory") as caught:
            model.fit(X, y)
        assert machine.live == 0 and machine.current == 0, (nth, caught)
    assert model.fit(X, y).fingerprint() == expected


@needs_compiler
@pytest.mark.parametrize("step", ["begin_capture", "end_capture", "upload", "launch"])
def test_a_graph_that_does_not_fit(step, machine, few_at_once, monkeypatch):
    from tests.fakes import fake_streams

    X, y = table("RandomForestClassifier")
    model = make("RandomForestClassifier", n_estimators=6, max_depth=2, device="cuda:1")
    expected = model.fit(X, y).fingerprint()

    def fail(*_: Any) -> None:
        raise CUDARuntimeError(2)

    owner = fake_streams.Stream if step.endswith("capture") else fake_streams.Graph
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, fail)
        with pytest.raises(MemoryError, match="cuda:1 is out of memory"):
            model.fit(X, y)
    assert machine.live == 0 and len(machine.streams) == 1
    assert model.fit(X, y).fingerprint() == expected
