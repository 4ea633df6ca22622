"""Child processes with a limit of time, ended together with all that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

TERM_SECONDS = 5.0  # that a process has to end by itself after SIGTERM
INNER_TERM_SECONDS = 2.0  # the same for what it runs by `run_child` itself, which must end before


def run_child(
    command: Sequence[str], seconds: float, term_seconds: float = TERM_SECONDS, **given: Any
) -> int | None:
    """Run a command in a process group of its own, and leave no process of the group behind.

    A child that calls this itself must do so with fewer ``term_seconds`` and `exit_on_sigterm`.
    Only SIGKILL of this process leaves the child behind.

    Parameters
    ----------
    command : sequence of str
    seconds : float
        After which it is ended.
    term_seconds : float
        That it has to end by itself then.
    **given : object
        Other arguments of `subprocess.Popen`.

    Returns
    -------
    int or None
        The exit status, None if the command was ended.
    """
    child = subprocess.Popen(command, start_new_session=True, **given)
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end_group(child, term_seconds)


def _end_group(child: subprocess.Popen[Any], term_seconds: float) -> None:
    """End a child by SIGTERM, so that it ends its own children, and the rest by SIGKILL."""
    try:
        with suppress(subprocess.TimeoutExpired):
            if child.poll() is None:
                _signal_group(child.pid, signal.SIGTERM)
                child.wait(term_seconds)
    finally:  # also where SIGTERM ends this process while it waits
        _signal_group(child.pid, signal.SIGKILL)
        child.wait()


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS refuses where all have ended
        os.killpg(group, number)


def exit_on_sigterm() -> None:
    """Have the first SIGTERM raise SystemExit, so that ``finally`` blocks run."""

    def leave(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
