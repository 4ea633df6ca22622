"""A barrier for the threads that run one compiled call, and a counter of their tasks.

A barrier is an array of int64 words, some on separate cache lines. Threads take the tasks of a pass
one by one. Between two passes, all threads wait for the last thread to arrive, which alone does the
work between the passes:

    task = next_task(barrier)
    while task < n_tasks:
        ...
        task = next_task(barrier)
    if last_arrives(barrier):       the others wait
        ...
        release(barrier)
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.intrinsics import (
    let_others_run,
    load_acquire,
    raise_by_one,
    store_release,
)

# Indices of the words: next task, threads that have arrived, number of the pass, number of threads,
# whether the call is cancelled. The first three are on separate cache lines.
TASK, ARRIVED, TURN, THREADS, CALLED_OFF, N_WORDS = 0, 8, 16, 24, 25, 32
MAX_SPINS = 1 << 12  # number of checks before a waiting thread yields its core to others


def make_barrier(n_threads: int) -> np.ndarray:
    """Make a barrier for one call."""
    barrier = np.zeros(N_WORDS, np.int64)
    barrier[THREADS] = n_threads
    return barrier


def call_off(barrier: np.ndarray) -> None:
    """Cancel the call because not all threads will arrive; waiting threads continue."""
    barrier[CALLED_OFF] = 1


def is_called_off(barrier: np.ndarray) -> bool:
    """Whether `call_off` was called."""
    return bool(barrier[CALLED_OFF])


@inlined
def next_task(barrier):
    """Take the next task of this pass; return its number."""
    return raise_by_one(barrier, TASK)


@helper
def last_arrives(barrier):
    """Whether this thread is the last to arrive.

    The others wait until it calls `release`, or until the call is cancelled by `call_off`.
    """
    turn = load_acquire(barrier, TURN)
    if raise_by_one(barrier, ARRIVED) + 1 == barrier[THREADS]:
        return True
    spins = 0
    while load_acquire(barrier, TURN) == turn and load_acquire(barrier, CALLED_OFF) == 0:
        spins += 1
        if spins > MAX_SPINS:
            let_others_run()
    return False


@inlined
def release(barrier):
    """Begin the next pass: the waiting threads continue."""
    barrier[ARRIVED], barrier[TASK] = 0, 0
    store_release(barrier, TURN, barrier[TURN] + 1)


@inlined
def barrier_wait(barrier):
    """Wait for all threads; return whether all arrived, which callers check at the first wait."""
    if last_arrives(barrier):
        release(barrier)
    return load_acquire(barrier, CALLED_OFF) == 0
