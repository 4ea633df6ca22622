"""Child processes with a time limit, which end together with all processes that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

TERM_SECONDS = 5.0  # a process has this long to end by itself after SIGTERM
INNER_TERM_SECONDS = 2.0  # less for its own children of `run_child`, which must end before it


def run_child(
    command: Sequence[str], seconds: float, term_seconds: float = TERM_SECONDS, **given: Any
) -> int | None:
    """Run a command in its own process group, and leave no process of the group behind.

    A child that calls this function itself must use fewer ``term_seconds``, and must call
    `exit_on_sigterm`. Only SIGKILL of this process leaves the child behind.

    Parameters
    ----------
    command : sequence of str
    seconds : float
        Seconds after which the command is ended.
    term_seconds : float
        Seconds that it then has to end by itself, before SIGKILL.
    **given : object
        Other arguments of `subprocess.Popen`.

    Returns
    -------
    int or None
        The exit status, or None if the command exceeded its time and was ended.
    """
    child = subprocess.Popen(command, start_new_session=True, **given)
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end_group(child, term_seconds)


def _end_group(child: subprocess.Popen[Any], term_seconds: float) -> None:
    """End a child by SIGTERM, so that it can end its own children, and the others by SIGKILL."""
    try:
        with suppress(subprocess.TimeoutExpired):
            if child.poll() is None:
                _signal_group(child.pid, signal.SIGTERM)
                child.wait(term_seconds)
    finally:  # also if SIGTERM ends this process while it waits
        _signal_group(child.pid, signal.SIGKILL)
        child.wait()


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS refuses if all have ended
        os.killpg(group, number)


def exit_on_sigterm() -> None:
    """Make the first SIGTERM raise SystemExit, so that ``finally`` blocks run."""

    def leave(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
