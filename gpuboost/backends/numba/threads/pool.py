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
from gpuboost.backends.numba.threads import commands
from gpuboost.backends.numba.threads.barrier import Barrier, cancel, is_cancelled, new_words, reset
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
        self._words = new_words(n_threads)
        weakref.finalize(self, _dismiss, self._others, self._words)

    def run(self, function: commands.SharedFunction, record: Reference, at_most: int) -> None:
        """Run a function on all or ``at_most`` threads, at least on this one; wait for all of them.

        ``at_most`` can be the number of whole tasks, so that none is smaller than the effort to
        share it. While other processes use the cores, there are fewer threads (`load`).
        """
        n = max(self._load.threads(at_most), 1)
        self._start(n)
        words = self._words
        words[commands.FUNCTION : commands.FUNCTION + 2] = function.address(record), record.address
        words[commands.N_DONE] = words[commands.LEAVE] = 0
        reset(words)
        if n == 1:
            commands.lead(words, 0)
            return
        number = commands.next_number(words, n)
        self._clock.begin()
        try:
            some_are_parked = commands.post(words, number)
            if some_are_parked:
                self._wake(n)
            commands.lead(words, n - 1)
            if not some_are_parked:
                self._clock.end(n)
        except BaseException:  # Ctrl-C before `lead`
            cancel(words)
            commands.post(words, number)
            self._wake(n)
            commands.wait_until_done(words, n - 1)
            raise

    def _start(self, n: int) -> None:
        """Start the threads that are missing for ``n`` threads, the calling one included."""
        if len(self._others) < n - 1:
            # So that no thread waits for the compiler.
            commands.follow.compile((commands.WORDS, types.int64))
        while len(self._others) < n - 1:
            self._others.append(_Other(len(self._others) + 1))

    def _wake(self, n: int) -> None:
        """Send the parked ones of ``n`` threads to `commands.follow`."""
        for thread, other in enumerate(self._others[: n - 1], 1):
            if not self._words[commands.STAYS + 8 * thread]:
                other.tasks.put(partial(commands.follow, self._words))

    def share(self, work: Callable[[Barrier], Any], together: bool = True) -> None:
        """Run ``work(barrier)`` on all threads, and wait for all; the calling one has number 0.

        If not ``together``, the work is too small to share and runs on the calling thread only. An
        error in any thread cancels the call and is raised here.
        """
        n = self.n_threads if together else 1
        barrier = Barrier(new_words(n), 0, n)
        self._start(n)
        if n == 1:
            work(barrier)
            return
        self._words[commands.LEAVE] = 1
        done, n_started, took_part = SimpleQueue[Any](), 0, False
        try:
            for other in self._others[: n - 1]:
                other.tasks.put(partial(_take_part, work, barrier, done))
                n_started += 1
            work(barrier)
            took_part = True
        finally:
            if not took_part:
                cancel(barrier.words)
            errors = _errors(n_started, barrier.words, done)
        for error in errors:
            if error is not None:
                raise error

    def results(
        self, work: Callable[[Item], Result], items: Sequence[Item], together: bool = True
    ) -> list[Result]:
        """Results of ``work`` for all items, in order; ``together`` is as in `share`."""
        found, take = shared_items(work, items)
        self.share(lambda _: take(), together and len(items) > 1)
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


def _errors(n_started: int, words: np.ndarray, done: SimpleQueue[Any]) -> list[Any]:
    """Wait for the other threads; return the error, or None, of each. Ctrl-C cancels the call."""
    try:
        return [done.get() for _ in range(n_started)]
    except BaseException:
        cancel(words)
        raise


def _take_part(
    work: Callable[[Barrier], Any], barrier: Barrier, done: SimpleQueue[Any], number: int
) -> None:
    """Do the work of one thread unless the call is cancelled.

    Its error, or None, is put into ``done``. An error cancels the call, which releases the waiting
    threads.
    """
    cancel_waits_if(partial(is_cancelled, barrier.words))
    found = None
    try:
        if not is_cancelled(barrier.words):
            work(barrier._replace(thread=number))
    except BaseException as error:
        cancel(barrier.words)
        found = error
    done.put(found)


def _dismiss(others: list[_Other], words: np.ndarray) -> None:
    words[commands.LEAVE] = 1
    cancel(words)
    for other in others:
        other.tasks.put(None)
    for other in others:
        other.thread.join()
    others.clear()
