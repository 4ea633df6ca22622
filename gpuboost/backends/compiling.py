"""Waits for a compiler, and worker threads, both of which an interrupt ends.

A compiler runs in a thread of its own (`gpuboost.backends.numba.background`). The thread that needs
the compiled code waits here in short steps, so Ctrl-C ends a wait in the main thread at once. The
threads of a pool end their waits when the work they belong to is cancelled.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, cast

STEP_SECONDS = 0.1  # between two checks of a wait
NOTICE_SECONDS = 2.0  # a process that has waited longer in all prints `NOTICE`
NOTICE = (
    "gpuboost: compiling for this machine, once per installation; "
    "`gpuboost warmup` compiles everything ahead"
)

Item = TypeVar("Item")
Result = TypeVar("Result")

_of_thread = threading.local()  # `is_cancelled`: whether the work of the thread is cancelled


class Waits:
    """The waits of this process, and who observes them.

    Attributes
    ----------
    seconds : float
        Time in which at least one thread waited.
    observers : list of callable
        Called with True while a thread waits, at each check, and with False afterwards.
    is_announced : bool
        Whether `NOTICE` was printed, or need not be printed.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.observers: list[Callable[[bool], Any]] = []
        self.is_announced = False
        self._lock = threading.Lock()
        self._n_waiting, self._counted = 0, 0.0

    def change(self, by: int) -> None:
        """Count the time until now; then ``by`` more threads wait."""
        with self._lock:
            now = time.monotonic()
            self.seconds += (now - self._counted) * (self._n_waiting > 0)
            self._counted, self._n_waiting = now, self._n_waiting + by

    def notify(self) -> None:
        """Tell observers that a thread waits, and print `NOTICE` once if it is due."""
        self.change(0)
        for observer in tuple(self.observers):  # other fits end and remove theirs
            observer(True)
        with self._lock:
            is_due = self.seconds > NOTICE_SECONDS and not self.is_announced
            self.is_announced |= is_due
        if is_due:
            tqdm = sys.modules.get("tqdm")
            if tqdm is not None:  # print above its progress bars
                tqdm.tqdm.write(NOTICE, file=sys.stderr)
            else:
                print(NOTICE, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Tell observers that a thread no longer waits."""
        self.change(-1)
        for observer in tuple(self.observers):  # other fits end and remove theirs
            observer(False)


waits = Waits()


def wait_for(done: threading.Event) -> None:
    """Wait for an event that a compiler's thread sets.

    Raises
    ------
    CancelledError
        The work of the calling thread was cancelled, see `cancel_waits_if`.
    """
    if done.wait(STEP_SECONDS):  # most code is read from disk: nobody need know
        return
    waits.change(1)
    try:
        waits.notify()
        while not done.wait(STEP_SECONDS):
            check_cancelled()
            waits.notify()
    finally:
        waits.end()


def check_cancelled() -> None:
    """Raise CancelledError if the work of the calling thread was cancelled."""
    if getattr(_of_thread, "is_cancelled", bool)():
        raise CancelledError


def cancel_waits_if(is_cancelled: Callable[[], bool]) -> None:
    """Let the waits of the calling thread end with CancelledError once ``is_cancelled()``."""
    _of_thread.is_cancelled = is_cancelled


@contextmanager
def worker_threads(n_threads: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of threads; if the block is left by an exception, their waits and tasks end."""
    left = threading.Event()
    pool = ThreadPoolExecutor(n_threads, "gpuboost", cancel_waits_if, (left.is_set,))
    try:
        yield pool
    except BaseException:
        left.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=left.is_set())


def shared_items(
    task: Callable[[Item], Result], items: Sequence[Item]
) -> tuple[list[Result], Callable[[], None]]:
    """A list of results, which is filled once some threads call the function beside it.

    Each takes the next item until none is left; after an error, none begins another one.
    """
    found, left = cast("list[Result]", [None] * len(items)), iter(range(len(items)))

    def take() -> None:
        try:
            for i in left:
                found[i] = task(items[i])
        except BaseException:
            deque(left, maxlen=0)
            raise

    return found, take


class Workers:
    """Threads for many short calls, one after another; a new pool takes 0.3 ms more for each.

    The calling thread does its share. A task must not call `map` of the same object, whose threads
    may all wait then.

    Parameters
    ----------
    n_threads : int
    pool : ThreadPoolExecutor or None
        The other threads; None lets the calling thread do everything.
    """

    def __init__(self, n_threads: int = 1, pool: ThreadPoolExecutor | None = None) -> None:
        self.n_threads, self._pool = n_threads, pool

    def map(self, task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Call a function with each item by `shared_items`; results are in the order of items."""
        if self._pool is None:
            return [task(item) for item in items]
        given, pool = list(items), self._pool
        found, take = shared_items(task, given)
        others = [pool.submit(take) for _ in range(min(self.n_threads, len(given)) - 1)]
        take()
        for other in others:
            other.result()  # not cancelled, which would leave the task and its arrays in a queue
        return found


CALLING_THREAD = Workers()


@contextmanager
def workers(n_threads: int) -> Iterator[Workers]:
    """`Workers` of a pool, which end as those of `worker_threads`."""
    if n_threads <= 1:
        yield CALLING_THREAD
        return
    with worker_threads(n_threads - 1) as pool:
        yield Workers(n_threads, pool)


def parallel(task: Callable[[Any], Any], items: Iterable[Any], n_threads: int) -> list[Any]:
    """Do `Workers.map` in threads that end with the call: a process with idle ones cannot fork."""
    with workers(n_threads) as own:
        return own.map(task, items)


@contextmanager
def observed_by(observer: Callable[[bool], Any]) -> Iterator[None]:
    """Call ``observer`` with True while a thread waits for a compiler, with False afterwards."""
    waits.observers.append(observer)
    try:
        yield
    finally:
        waits.observers.remove(observer)


def omit_notice() -> None:
    """Print no `NOTICE` in this process, because it has said that it compiles."""
    waits.is_announced = True
