"""Ctrl-C during a fit: the trees so far become the model."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interruption:
    """Whether Ctrl-C was pressed; a callback of fits, which ends them then.

    Attributes
    ----------
    is_pressed : bool
        Whether Ctrl-C was pressed.
    raises : bool
        Whether it raises KeyboardInterrupt at once. Without this, only the second one does.
    """

    def __init__(self, raises: bool) -> None:
        self.is_pressed, self.raises = False, raises

    def __call__(self, result: Any) -> bool:
        """Whether to end the fit after this tree."""
        return self.is_pressed

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signal."""
        again, self.is_pressed = self.is_pressed, True
        if again or self.raises:
            raise KeyboardInterrupt


@contextmanager
def interruptible(raises: bool) -> Iterator[Interruption]:
    """Handle Ctrl-C by an `Interruption` in this block."""
    interruption = Interruption(raises)
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = signal.signal(signal.SIGINT, interruption.handle)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, before)
