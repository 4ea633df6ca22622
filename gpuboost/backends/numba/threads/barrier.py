"""What the threads of a crew share while compiled code runs: tasks to claim, and meetings.

A team is int64 words, some on cache lines of their own. The tasks of a pass are claimed one by one;
between two passes threads meet, and the last one to come does alone what has to be done between:

    task = claim(team)
    while task < n_tasks:
        ...
        task = claim(team)
    if last_arrives(team):       the others wait meanwhile
        ...
        release(team)
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.intrinsics import (
    let_others_run,
    load_acquire,
    raise_by_one,
    store_release,
)

TASK, ARRIVED, TURN, THREADS, CALLED_OFF, N_WORDS = 0, 8, 16, 24, 25, 32
LOOKS = 1 << 12  # while others are likely to come soon; then they may want the core


def make_barrier(n_threads: int) -> np.ndarray:
    """Words of a team, for one call."""
    barrier = np.zeros(N_WORDS, np.int64)
    barrier[THREADS] = n_threads
    return barrier


def call_off(barrier: np.ndarray) -> None:
    """Not all threads will come: those in their first meeting leave it."""
    barrier[CALLED_OFF] = 1


def is_called_off(barrier: np.ndarray) -> bool:
    """Whether somebody said so."""
    return bool(barrier[CALLED_OFF])


@inlined
def next_task(barrier):
    """The next task of this pass."""
    return raise_by_one(barrier, TASK)


@helper
def last_arrives(barrier):
    """Whether this thread is the last to come; else it waits until that one says `release`."""
    turn = load_acquire(barrier, TURN)
    if raise_by_one(barrier, ARRIVED) + 1 == barrier[THREADS]:
        return True
    looks = 0
    while load_acquire(barrier, TURN) == turn and load_acquire(barrier, CALLED_OFF) == 0:
        looks += 1
        if looks > LOOKS:
            let_others_run()
    return False


@inlined
def release(barrier):
    """Begin the next pass."""
    barrier[ARRIVED], barrier[TASK] = 0, 0
    store_release(barrier, TURN, barrier[TURN] + 1)


@inlined
def barrier_wait(barrier):
    """Wait for all threads; whether all came, which only the first meeting has to ask."""
    if last_arrives(barrier):
        release(barrier)
    return load_acquire(barrier, CALLED_OFF) == 0
