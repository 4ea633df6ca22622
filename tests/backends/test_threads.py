"""Fits in several threads at once, and in a forked process after a fit."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpuboost import GradientBoostingRegressor, RandomForestClassifier
from gpuboost.backends.numba.references import by_reference
from gpuboost.backends.numba.threads import commands, load
from gpuboost.backends.numba.threads.barrier import (
    barrier_wait,
    last_arrives,
    near_task,
    release,
)
from gpuboost.backends.numba.threads.commands import SharedFunction
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.backends.packed import PackedEnsembles
from gpuboost.engine.array_modules import is_cupy_array
from gpuboost.estimators.model.cached_view import VIEWS

DEVICES = ("numpy", "numba")


def forest(device: str, seed: int) -> str:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 6))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = RandomForestClassifier(12, random_state=seed, device=device, n_jobs=2)
    return model.fit(X, y).fingerprint()


@pytest.mark.parametrize("device", DEVICES)
def test_fits_in_several_threads_at_once(device: str) -> None:
    alone = [forest(device, seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: forest(device, seed), range(4)))
    assert together == alone
    assert len(set(alone)) == 4


SWITCHED = """
import sys
import numpy as np
from gpuboost import BaggingRegressor, ExtraTreesClassifier, RandomForestClassifier
sys.setswitchinterval(1e-6)  # in place of 5 ms, between lines of Python
X = np.random.default_rng(0).normal(size=(300, 6))
y, found = (X[:, 0] * X[:, 1] > 0.0).astype(int), set()
for _ in range(40):
    for kind in (RandomForestClassifier, ExtraTreesClassifier, BaggingRegressor):
        model = kind(n_estimators=6, random_state=0, n_jobs=4, device="numba").fit(X, y)
        found.add((kind, model.fingerprint()))
assert len(found) == 3
"""


def test_threads_that_switch_all_the_time_grow_the_same_forests() -> None:
    done = subprocess.run([sys.executable, "-c", SWITCHED], capture_output=True, timeout=240.0)
    assert done.returncode == 0, done.stderr.decode()


FORKED = """
import os, sys, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of any fork of a process that had threads
from tests.backends.test_threads import forest
before = forest(sys.argv[1], 1)
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.write(writer, forest(sys.argv[1], 1).encode())
    os._exit(0)
os.close(writer)
found = os.read(reader, 64).decode()
_, status = os.waitpid(child, 0)
assert status == 0, status
assert found == before == forest(sys.argv[1], 1)
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system has no fork")
@pytest.mark.parametrize("device", DEVICES)
def test_a_forked_child_can_fit(device: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, device], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


# ---- the thread pool ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("together", [False, True])
def test_results_of_a_thread_pool_are_in_order(n_threads: int, together: bool) -> None:
    pool = ThreadPool(n_threads)
    found = pool.results(lambda i: (time.sleep(0.001 * (i % 3)), i)[1], list(range(20)), together)
    pool.dismiss()
    assert found == list(range(20))
    assert pool.results(str, []) == []


def test_an_error_in_a_thread_pool_reaches_the_caller() -> None:
    pool = ThreadPool(2)
    with pytest.raises(ZeroDivisionError):
        pool.results(lambda i: 1 // (i - 5), list(range(8)))
    pool.dismiss()


class Turns(NamedTuple):
    """Each of some turns adds 1 to all sums."""

    sums: np.ndarray
    n_turns: int


def add_turns(record: Any, barrier: Any) -> None:
    """Take the sums one by one in each turn; all threads wait for the end of a turn."""
    if not barrier_wait(barrier):
        return
    for _ in range(record.n_turns):
        task = near_task(barrier, record.sums.size)
        while task < record.sums.size:
            record.sums[task] += 1
            task = near_task(barrier, record.sums.size)
        if last_arrives(barrier):
            release(barrier)


ADD_TURNS = SharedFunction(add_turns)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_threads_run_compiled_functions_together(n_threads: int) -> None:
    """Threads that wait, that are parked, that run Python functions, or that are new, take part."""
    pool, sums = ThreadPool(n_threads), np.zeros(23, np.int64)
    record = by_reference(Turns(sums, 3))
    for i in range(200):
        pool.run(ADD_TURNS, record, i % n_threads + 1)
    time.sleep(0.05)
    pool.run(ADD_TURNS, record, n_threads)
    seen: list[int] = []
    pool.share(lambda barrier: seen.append(barrier.thread))
    pool.run(ADD_TURNS, record, n_threads)
    pool.run(ADD_TURNS, record, 0)
    pool.dismiss()
    assert sorted(seen) == list(range(n_threads))
    assert not any(thread.name.startswith("gpuboost-") for thread in threading.enumerate())
    pool.run(ADD_TURNS, record, n_threads)
    pool.dismiss()
    assert (sums == 3 * 204).all()


@pytest.mark.parametrize("is_posted", [False, True])
@pytest.mark.parametrize("n_threads", [2, 4])
def test_an_interrupt_before_a_compiled_function_leaves_no_thread_behind(
    n_threads: int, is_posted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, record = ThreadPool(n_threads), by_reference(Turns(np.zeros(9, np.int64), 2))
    pool.run(ADD_TURNS, record, n_threads)

    def interrupt(*given: Any) -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        with monkeypatch.context() as patch:
            if is_posted:
                patch.setattr(commands, "lead", interrupt)
            else:
                real = commands.post
                calls = iter((interrupt, real))
                patch.setattr(commands, "post", lambda *given, calls=calls: next(calls)(*given))
            with pytest.raises(KeyboardInterrupt):
                pool.run(ADD_TURNS, record, n_threads)
        pool.run(ADD_TURNS, record, n_threads)
    pool.dismiss()


class Clocks:
    """The clocks that `load` reads: of the wall, and of the process."""

    wall = used = 1.0

    def perf_counter(self) -> float:
        return self.wall

    def process_time(self) -> float:
        return self.used


def test_fewer_threads_work_while_others_use_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks()
    monkeypatch.setattr(load, "time", clocks)
    monkeypatch.setattr(load, "ENOUGH", 0.7)
    found = load.MachineLoad(8)
    clock, other = load.WorkClock(found), load.WorkClock(found)

    def work(share: float, seconds: float = 0.1, at_most: int = 8) -> int:
        """Work in threads that get a share of the time; return the number of the next work."""
        n = found.threads(at_most)
        clock.begin()
        clocks.wall += seconds
        clocks.used += share * n * seconds
        clock.end(n)
        return found.threads(8)

    assert work(1.0) == 8
    assert work(0.5, load.WINDOW / 2) == 8  # too short to tell
    assert work(0.5) == 6
    assert work(0.5, at_most=2) == 5
    other.begin()
    assert [work(0.5, 0.006) for _ in range(5)] == [4, 3, 2, 1, 1]
    other.end(1)
    assert found.threads(8) == 1
    clocks.wall += load.LONGEST_PAUSE + 0.1
    assert found.threads(8) == 8 and found.threads(3) == 3
    assert work(1.0) == 8
    assert work(0.5) == 6
    clocks.wall += load.FIRST_PAUSE + 0.01  # short again after good work
    assert found.threads(8) == 8


def test_a_fit_leaves_no_threads() -> None:
    """No threads are left, even if the fit raises an error."""
    rng = np.random.default_rng(0)
    X, seen = rng.standard_normal((40_000, 3)), []

    def stop(result: object) -> None:
        seen.append(sum(thread.name.startswith("gpuboost") for thread in threading.enumerate()))
        raise KeyError("enough")

    model = GradientBoostingRegressor(n_estimators=2, device="numba", n_jobs=3, callbacks=[stop])
    with pytest.raises(KeyError):
        model.fit(X, X[:, 0])
    assert seen[0] >= 2
    assert not any(thread.name.startswith("gpuboost") for thread in threading.enumerate())


def test_arrays_are_told_apart_while_another_thread_imports_cupy(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))  # with no attributes yet
    assert not is_cupy_array(np.zeros(1))


def test_an_interrupted_packing_leaves_no_copy(monkeypatch: Any) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    class Owner:
        pass

    kept, owner = PackedEnsembles[int](), Owner()
    monkeypatch.setattr("gpuboost.backends.packed.weakref.finalize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept.of((owner,), "layout", lambda: 1)
    monkeypatch.undo()
    assert not kept
    assert kept.of((owner,), "layout", lambda: 2) == 2
    del owner
    assert not kept


class Watched(dict[str, Any]):
    """Attributes of a fitted estimator that are changed one by one."""

    def pop(self, name: str, *default: Any) -> Any:
        found = super().pop(name, *default)
        assert self["_model"] is not None  # so another thread can predict
        return found


def test_a_model_can_be_used_while_it_is_fitted_again() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = RandomForestClassifier(2, device="numpy").fit(X, X[:, 0] > 0)
    vars(model).update(n_estimators=5)
    model.__dict__ = Watched(vars(model))
    assert len(model.estimators_) == 2
    before = type(model).estimators_._make

    def made_late(estimator: Any) -> list[Any]:
        """The trees, of which another thread reads the old ones during the fit."""
        found = before(estimator)
        if len(found) == 2:
            model.fit(X, X[:, 0] > 0)
        return found

    vars(model).pop(VIEWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model).estimators_, "_make", made_late)
        assert len(model.estimators_) == 2
    assert len(model.estimators_) == 5
