"""Waits for the compiler: the notice, the progress bar, Ctrl-C and cancellation."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError
from types import SimpleNamespace

import pytest

from gpuboost.backends import compiling
from gpuboost.backends.compiling import (
    cancel_waits_if,
    observed_by,
    parallel,
    wait_for,
    worker_threads,
    workers,
)
from gpuboost.backends.numba.background import compile_in_background, used_functions
from gpuboost.backends.numba.threads.barrier import Barrier
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.estimators.fitting.grow_plan import with_progress


@pytest.fixture(autouse=True)
def waits(monkeypatch) -> compiling.Waits:
    """No waits so far; the notice is due soon."""
    monkeypatch.setattr(compiling, "STEP_SECONDS", 0.01)
    monkeypatch.setattr(compiling, "NOTICE_SECONDS", 0.1)
    monkeypatch.setattr(compiling, "waits", compiling.Waits())
    return compiling.waits


def wait(seconds: float) -> None:
    done = threading.Event()
    timer = threading.Timer(seconds, done.set)
    timer.start()
    wait_for(done)
    timer.join()


def test_one_line_says_why_after_a_while(capsys, waits) -> None:
    wait(0.05)
    assert capsys.readouterr().err == "" and 0.0 < waits.seconds < 0.1
    wait(0.1)  # waits add up
    assert capsys.readouterr().err == f"{compiling.NOTICE}\n"
    wait(0.1)
    assert capsys.readouterr().err == ""


def test_waits_at_the_same_time_count_once(waits) -> None:
    threads = [threading.Thread(target=wait, args=(0.2,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.1 < waits.seconds < 0.6


def test_no_notice_where_the_process_says_that_it_compiles(capsys) -> None:
    compiling.omit_notice()
    wait(0.2)
    assert capsys.readouterr() == ("", "")


def test_observers_are_called_during_a_wait() -> None:
    seen: list[bool] = []
    with observed_by(seen.append):
        wait(0.0)
        assert seen == []
        wait(0.05)
    assert seen[:-1] == [True] * (len(seen) - 1) and seen[-1] is False
    wait(0.05)
    assert compiling.waits.observers == []


def test_the_progress_bar_says_compiling(capsys) -> None:
    for step in with_progress(range(3), 3, verbose=1):
        if step == 1:
            wait(0.15)
    shown = capsys.readouterr().err
    assert shown.index("growing trees") < shown.index("compiling:") < shown.index(compiling.NOTICE)
    assert shown.rindex("growing trees") > shown.rindex("compiling:")


def test_a_cancelled_thread_ends_its_wait() -> None:
    left, ended = threading.Event(), threading.Event()

    def work() -> None:
        cancel_waits_if(left.is_set)
        with pytest.raises(CancelledError):
            wait_for(threading.Event())
        ended.set()

    threading.Thread(target=work).start()
    assert not ended.wait(0.1)
    left.set()
    assert ended.wait(10.0)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("in_caller", [True, False])
@pytest.mark.parametrize("threads", ["workers", "pool"])
def test_no_item_begins_after_an_error(
    error: type[BaseException], in_caller: bool, threads: str
) -> None:
    caller, done, both = threading.get_ident(), list[int](), threading.Barrier(2, timeout=10)

    def work(item: int) -> None:
        if item < 2:
            both.wait()
        if (threading.get_ident() == caller) == in_caller:
            raise error
        time.sleep(0.05)
        done.append(item)

    pool = ThreadPool(2)
    with pytest.raises(error):
        parallel(work, range(100), 2) if threads == "workers" else pool.results(work, range(100))
    pool.dismiss()
    assert len(done) < 10


@pytest.mark.parametrize("n_threads", [0, 1, 2, 5])
def test_results_of_maps_are_in_order(n_threads: int) -> None:
    with workers(n_threads) as own:
        assert own.map(str, range(20)) == [str(i) for i in range(20)]
        assert own.map(str, []) == []
    assert parallel(abs, (-i for i in range(5)), n_threads) == [0, 1, 2, 3, 4]


def test_an_error_ends_the_waits_of_worker_threads() -> None:
    with pytest.raises(KeyError), worker_threads(2) as pool:
        results = [pool.submit(wait_for, threading.Event()) for _ in range(5)]
        raise KeyError
    assert all(each.done() for each in results)


def test_an_error_ends_the_waits_of_a_thread_pool() -> None:
    def work(barrier: Barrier) -> None:
        if barrier.thread == 0:
            raise KeyError
        wait_for(threading.Event())

    pool = ThreadPool(3)
    with pytest.raises(KeyError):
        pool.share(work)
    pool.dismiss()


class Dispatcher:
    """A compiled function of Numba, as far as `compile_in_background` sees it."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.__name__ = "function"
        self.stats = SimpleNamespace(cache_misses=Counter(), cache_path=None)

    def compile(self, signature: str) -> str:
        self.threads.append(threading.current_thread().name)
        if signature == "wrong":
            raise TypeError(signature)
        self.stats.cache_misses[signature] += 1
        return f"compiled for {signature}"


def test_a_background_thread_compiles() -> None:
    function = Dispatcher()
    compile_in_background(function)
    assert function.compile("int64") == "compiled for int64"
    with pytest.raises(TypeError, match="wrong"):
        function.compile("wrong")
    assert used_functions[-1].name.endswith(".functionint64") and used_functions[-1].is_new
    assert function.threads == ["gpuboost-compiler"] * 2
    assert "gpuboost-compiler" not in {thread.name for thread in threading.enumerate()}


FIT = """
import sys
import numpy as np
import gpuboost
X = np.random.default_rng(0).normal(size=(20_000, 10))
model = gpuboost.{}(device="numba", n_jobs={}, verbose=1)
import gpuboost.backends.numba.backend
print("begins", flush=True)
try:
    model.fit(X, X[:, 0])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
"""
FOREST, BOOSTING = "RandomForestRegressor", "GradientBoostingRegressor"


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process")
@pytest.mark.parametrize(
    ("name", "n_jobs"),
    [(BOOSTING, 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in
                      ((BOOSTING, 1), (FOREST, 1), (FOREST, 2)))],
)  # fmt: skip
def test_ctrl_c_ends_a_compiling_fit_within_a_second(name, n_jobs, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-c", FIT.format(name, n_jobs)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == "begins\n"
        lines = iter(process.stderr.readline, "")
        assert any(compiling.NOTICE in line for line in lines)  # after two seconds of waiting
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        raised = time.monotonic() - began
        out, err = process.communicate(timeout=60)
        ended = time.monotonic() - began
    assert process.returncode == -signal.SIGINT and out == ""
    assert err.rstrip().endswith("KeyboardInterrupt") and "Fatal" not in err
    assert raised < 1.0 and ended < 3.0  # Python also has to end all threads, on busy cores
