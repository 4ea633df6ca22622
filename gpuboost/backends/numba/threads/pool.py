"""A pool of threads that share the passes of a fit."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
from numba import types

from gpuboost.backends.compiling import Item, Result, cancel_waits_if, shared_items
from gpuboost.backends.numba.references import Reference
from gpuboost.backends.numba.threads.barrier import (
    ARRIVED,
    CALLED_OFF,
    TASK,
    THREADS,
    call_off,
    is_called_off,
    make_barrier,
)
from gpuboost.backends.numba.threads.commands import (
    COMMAND,
    FIRST_THREAD,
    FUNCTION,
    LEAVE,
    MAX_THREADS,
    N_DONE,
    STAYS,
    WORDS,
    SharedFunction,
    follow,
    lead,
    post,
    wait_until_done,
)
from gpuboost.backends.numba.threads.load import WorkClock, load_of


class ThreadPool:
    """The calling thread and up to ``n_threads`` - 1 other threads.

    The other threads start when they first have work, and end with `dismiss` or with the pool.
    Threads that meet at a barrier in compiled code must all run at once, which
    `concurrent.futures.ThreadPoolExecutor` does not guarantee.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads, self._load = n_threads, load_of(n_threads)
        self._clock = WorkClock(self._load)
        self._others: list[_Other] = []
        self._words = np.zeros(FIRST_THREAD + 8 * n_threads, np.int64)  # see `commands`
        weakref.finalize(self, _dismiss, self._others, self._words)

    def run(self, function: SharedFunction, record: Reference, at_most: int) -> None:
        """Run a function on all or ``at_most`` threads, at least on this one; wait for all of them.

        ``at_most`` can be the number of whole tasks, so that none is smaller than the effort to
        share it. While other processes use the cores, there are fewer threads (`load`).
        """
        n = max(self._load.threads(at_most), 1)
        self._start(n)
        words = self._words
        words[FUNCTION : FUNCTION + 2] = function.address(record), record.address
        words[TASK] = words[ARRIVED] = words[CALLED_OFF] = words[N_DONE] = words[LEAVE] = 0
        words[THREADS] = n
        if n == 1:
            lead(words, 0)
            return
        number = (int(words[COMMAND]) // MAX_THREADS + 1) * MAX_THREADS + n
        self._clock.begin()
        try:
            some_are_parked = post(words, number)
            if some_are_parked:
                self._wake(n)
            lead(words, n - 1)
            if not some_are_parked:
                self._clock.end(n)
        except BaseException:  # Ctrl-C before `lead`
            call_off(words)
            post(words, number)
            self._wake(n)
            wait_until_done(words, n - 1)
            raise

    def _start(self, n: int) -> None:
        """Start the threads that are missing for ``n`` threads, the calling one included."""
        if len(self._others) < n - 1:
            follow.compile((WORDS, types.int64))  # so that no thread waits for the compiler
        while len(self._others) < n - 1:
            self._others.append(_Other(len(self._others) + 1))

    def _wake(self, n: int) -> None:
        """Send the parked ones of ``n`` threads to `commands.follow`."""
        for thread, other in enumerate(self._others[: n - 1], 1):
            if not self._words[FIRST_THREAD + 8 * thread + STAYS]:
                other.tasks.put(partial(follow, self._words))

    def share(self, work: Callable[[int, np.ndarray], Any], together: bool = True) -> None:
        """Run ``work(thread, barrier)`` on all threads, and wait for all of them.

        ``thread`` is a number, 0 for the calling thread; ``barrier`` is an array of
        `barrier.make_barrier`. If not ``together``, the work is too small to share and runs on the
        calling thread only. An error in any thread cancels the call and is raised here.
        """
        n = self.n_threads if together else 1
        self._start(n)
        if n == 1:
            work(0, make_barrier(1))
            return
        self._words[LEAVE] = 1
        barrier, done, n_started, took_part = make_barrier(n), SimpleQueue[Any](), 0, False
        try:
            for other in self._others[: n - 1]:
                other.tasks.put(partial(_take_part, work, barrier, done))
                n_started += 1
            work(0, barrier)
            took_part = True
        finally:
            if not took_part:
                call_off(barrier)
            errors = _errors(n_started, barrier, done)
        for error in errors:
            if error is not None:
                raise error

    def results(
        self, work: Callable[[Item], Result], items: Sequence[Item], together: bool = True
    ) -> list[Result]:
        """Results of ``work`` for all items, in order; ``together`` is as in `share`."""
        found, take = shared_items(work, items)
        self.share(lambda *_: take(), together and len(items) > 1)
        return found

    def dismiss(self) -> None:
        """End the other threads; if there is work later, new ones start."""
        _dismiss(self._others, self._words)


class _Other:
    """A thread that waits for tasks: functions of its number, or None to end."""

    def __init__(self, number: int) -> None:
        self.tasks: SimpleQueue[Any] = SimpleQueue()
        given = (self.tasks, number)
        self.thread = Thread(target=_serve, args=given, name=f"gpuboost-{number}", daemon=True)
        self.thread.start()


def _serve(tasks: SimpleQueue[Any], number: int) -> None:
    """Carry out queued tasks until None arrives."""
    while (task := tasks.get()) is not None:
        task(number)
        del task


def _errors(n_started: int, barrier: np.ndarray, done: SimpleQueue[Any]) -> list[Any]:
    """Wait for the other threads; return the error, or None, of each. Ctrl-C cancels the call."""
    try:
        return [done.get() for _ in range(n_started)]
    except BaseException:
        call_off(barrier)
        raise


def _take_part(
    work: Callable[[int, np.ndarray], Any], barrier: np.ndarray, done: SimpleQueue[Any], number: int
) -> None:
    """Do the work of one thread unless the call is cancelled.

    Its error, or None, is put into ``done``. An error cancels the call, which releases the waiting
    threads.
    """
    cancel_waits_if(partial(is_called_off, barrier))
    found = None
    try:
        if not is_called_off(barrier):
            work(number, barrier)
    except BaseException as error:
        call_off(barrier)
        found = error
    done.put(found)


def _dismiss(others: list[_Other], words: np.ndarray) -> None:
    words[LEAVE] = words[CALLED_OFF] = 1
    for other in others:
        other.tasks.put(None)
    for other in others:
        other.thread.join()
    others.clear()
