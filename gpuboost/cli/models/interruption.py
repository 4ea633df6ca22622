"""Ctrl-C during a fit."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interruption:
    """Whether Ctrl-C was pressed, which raises KeyboardInterrupt as always.

    The estimator may handle this exception, so that only the attribute shows it.

    Attributes
    ----------
    is_pressed : bool
        Whether Ctrl-C was pressed.
    """

    is_pressed = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signal."""
        self.is_pressed = True
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Watch for Ctrl-C in this block."""
    interruption = Interruption()
    with ctrl_c_handled(interruption.handle):
        yield interruption


@contextmanager
def ctrl_c_handled(handler: Any) -> Iterator[None]:
    """Have Ctrl-C handled by ``handler`` in this block, which only the main thread can do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
