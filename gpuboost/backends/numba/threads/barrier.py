"""A barrier for the threads that run one compiled call, and counters of their tasks.

Threads take the tasks of a pass one by one. Between two passes, all threads wait for the last
thread to arrive, which alone does the work between the passes:

    task = next_task(barrier)
    while task < n_tasks:
        ...
        task = next_task(barrier)
    if last_arrives(barrier):       the others wait
        ...
        release(barrier)

In passes over nodes, and over rows that are read twice (`boosting.order_statistics`), `near_task`
gives each thread a contiguous share of the tasks, and steals from other shares when it is done. So
a thread mostly works on rows that it worked on before, which its cache holds. On two cores without
a common L3 cache, boosting of 200k x 28 with a quantile loss takes 0.88 of the time for shares in
passes over nodes, on others as long as without them (2026-11; two threads).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.intrinsics import (
    let_others_run,
    load_acquire,
    raise_by_one,
    store_release,
)

# Indices of the words: threads that have arrived, number of the pass, whether the call is cancelled
# and, for each thread, 8 words apart, number of tasks taken from its share. The words between
# `OF_COMMANDS` and `N_TAKEN` are those of `commands`.
ARRIVED, TURN, IS_CANCELLED, OF_COMMANDS, N_TAKEN = 0, 8, 16, 24, 56
MAX_SPINS = 1 << 12  # number of checks before a waiting thread yields its core to others


class Barrier(NamedTuple):
    """A barrier, as one of its threads sees it.

    Attributes
    ----------
    words : int64 (`N_TAKEN` + 8 * threads,)
        State of the barrier. The words of one thread are 64 bytes from those of the next.
    thread, n_threads : int
        Number of the thread, and of all threads.
    """

    words: np.ndarray
    thread: int
    n_threads: int


def new_words(n_threads: int) -> np.ndarray:
    """Words of a barrier for at most so many threads."""
    return np.zeros(N_TAKEN + 8 * n_threads, np.int64)


def reset(words: np.ndarray) -> None:
    """Prepare the words for the first pass of a call."""
    words[N_TAKEN::8] = words[ARRIVED] = words[IS_CANCELLED] = 0


def cancel(words: np.ndarray) -> None:
    """Cancel the call because not all threads will arrive; waiting threads continue."""
    words[IS_CANCELLED] = 1


def is_cancelled(words: np.ndarray) -> bool:
    """Whether `cancel` was called."""
    return bool(words[IS_CANCELLED])


@inlined
def next_task(barrier):
    """Take the next task of this pass; return its number."""
    return raise_by_one(barrier.words, N_TAKEN)


@helper
def near_task(barrier, n_tasks):
    """Take a task of this thread's share, or steal another's; ``n_tasks`` if none is left."""
    words, n_threads = barrier.words, barrier.n_threads
    for distance in range(n_threads):
        owner = (barrier.thread + distance) % n_threads
        first, last = n_tasks * owner // n_threads, n_tasks * (owner + 1) // n_threads
        if load_acquire(words, N_TAKEN + 8 * owner) < last - first:
            task = first + raise_by_one(words, N_TAKEN + 8 * owner)
            if task < last:
                return task
    return np.int64(n_tasks)


@helper
def last_arrives(barrier):
    """Whether this thread is the last to arrive.

    The others wait until it calls `release`, or until the call is cancelled by `cancel`.
    """
    words, spins = barrier.words, 0
    turn = load_acquire(words, TURN)
    if raise_by_one(words, ARRIVED) + 1 == barrier.n_threads:
        return True
    while load_acquire(words, TURN) == turn and load_acquire(words, IS_CANCELLED) == 0:
        spins += 1
        if spins > MAX_SPINS:
            let_others_run()
    return False


@inlined
def release(barrier):
    """Begin the next pass: the waiting threads continue."""
    words = barrier.words
    words[ARRIVED] = 0
    for thread in range(barrier.n_threads):
        words[N_TAKEN + 8 * thread] = 0
    store_release(words, TURN, words[TURN] + 1)


@inlined
def barrier_wait(barrier):
    """Wait for all threads; return whether all arrived, which callers check at the first wait."""
    if last_arrives(barrier):
        release(barrier)
    return load_acquire(barrier.words, IS_CANCELLED) == 0
