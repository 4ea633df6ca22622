"""What the threads of a crew share while compiled code runs: tasks to claim, and meetings.

A team is int64 words, some on cache lines of their own. The tasks of a pass are claimed one by one;
between two passes threads meet, and the last one to come does alone what has to be done between:

    task = claim(team)
    while task < n_tasks:
        ...
        task = claim(team)
    if is_last(team):       the others wait meanwhile
        ...
        go_on(team)
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.intrinsics import acquire, let_others_run, raise_by_one, release

TASK, ARRIVED, TURN, THREADS, CALLED_OFF, N_WORDS = 0, 8, 16, 24, 25, 32
LOOKS = 1 << 12  # while others are likely to come soon; then they may want the core


def make_team(n_threads: int) -> np.ndarray:
    """Words of a team, for one call."""
    team = np.zeros(N_WORDS, np.int64)
    team[THREADS] = n_threads
    return team


def call_off(team: np.ndarray) -> None:
    """Not all threads will come: those in their first meeting leave it."""
    team[CALLED_OFF] = 1


def is_called_off(team: np.ndarray) -> bool:
    """Whether somebody said so."""
    return bool(team[CALLED_OFF])


@inlined
def claim(team):
    """The next task of this pass."""
    return raise_by_one(team, TASK)


@helper
def is_last(team):
    """Whether this thread is the last to come; else it waits until that one says `go_on`."""
    turn = acquire(team, TURN)
    if raise_by_one(team, ARRIVED) + 1 == team[THREADS]:
        return True
    looks = 0
    while acquire(team, TURN) == turn and acquire(team, CALLED_OFF) == 0:
        looks += 1
        if looks > LOOKS:
            let_others_run()
    return False


@inlined
def go_on(team):
    """Begin the next pass."""
    team[ARRIVED], team[TASK] = 0, 0
    release(team, TURN, team[TURN] + 1)


@inlined
def meet(team):
    """Wait for all threads; whether all came, which only the first meeting has to ask."""
    if is_last(team):
        go_on(team)
    return acquire(team, CALLED_OFF) == 0
