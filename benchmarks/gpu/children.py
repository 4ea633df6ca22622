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


def run_child(command: Sequence[str], seconds: float, **given: Any) -> int | None:
    """Run a command in a process group of its own, and leave no process of the group behind.

    Parameters
    ----------
    command : sequence of str
    seconds : float
        After which it is ended.
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
        _end_group(child)


def _end_group(child: subprocess.Popen[Any]) -> None:
    """End a child by SIGTERM, so that it ends its own children, and the rest by SIGKILL."""
    with suppress(subprocess.TimeoutExpired):
        if child.poll() is None:
            _signal_group(child.pid, signal.SIGTERM)
            child.wait(TERM_SECONDS)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS refuses where all have ended
        os.killpg(group, number)


def exit_on_sigterm() -> None:
    """Have SIGTERM raise SystemExit, so that ``finally`` blocks run."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
