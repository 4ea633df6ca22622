"""Time several libraries alternately, so that all are affected alike if the device slows down."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchmarks.gpu.device.device import Device

Record = dict[str, Any]


@dataclass
class Contender:
    """A library whose runs are timed.

    Attributes
    ----------
    run : callable
        Timed; takes the number of the run, which is 0 for the first one. That one may compile.
    before, after : callable
        Called before and after each run with its number, untimed.
    first : float
        Seconds of the first run, which are not part of the median.
    runs : list of float
        Seconds of the other runs.
    failed : str
        How a run failed; empty if none did.
    """

    run: Callable[[int], None]
    before: Callable[[int], None] = lambda number: None
    after: Callable[[int], None] = lambda number: None
    first: float = 0.0
    runs: list[float] = field(default_factory=list)
    failed: str = ""

    def begin(self, device: Device) -> None:
        """Run for the first time."""
        self.first = self._timed(device, 0)

    def again(self, device: Device) -> None:
        """Run once more."""
        seconds = self._timed(device, len(self.runs) + 1)
        if not self.failed:
            self.runs.append(seconds)

    def may_run(self, repeat: int, seconds: float) -> bool:
        """Whether another run is wanted and, if as long as the latest one, fits in ``seconds``."""
        latest = self.runs[-1] if self.runs else self.first
        return not self.failed and len(self.runs) < repeat and latest < seconds

    def _timed(self, device: Device, number: int) -> float:
        """Seconds of a run, or 0 if it failed."""

        def once() -> Record:
            self.before(number)
            device.free_memory()
            seconds = device.seconds(lambda: self.run(number))
            self.after(number)
            return {"seconds": seconds}

        found = guarded(once)
        self.failed = found.get("failed", "")
        return found.get("seconds", 0.0)

    @property
    def times(self) -> Record:
        """The times of a record, with the median of the runs after the first, if there are any."""
        found: Record = {"seconds": statistics.median(self.runs)} if self.runs else {}
        runs = [round(seconds, 6) for seconds in self.runs]
        return found | {"runs": runs, "first_seconds": round(self.first, 6)}


C = TypeVar("C", bound=Contender)


def take_turns(
    contenders: Sequence[C],
    device: Device,
    seconds: float,
    repeat: int,
    begun: Callable[[C], None] = lambda one: None,
) -> Iterator[C]:
    """Time all contenders alternately, and yield each as soon as its runs are done.

    Every contender runs once before any runs again. In each turn the fastest goes first, and one
    without enough time for another run drops out, so a fast contender runs at least as often as a
    slow one.

    Parameters
    ----------
    contenders : sequence of Contender
    device : Device
    seconds : float
        Seconds that all runs together may take.
    repeat : int
        Maximal number of runs of each contender after the first one.
    begun : callable
        Called with each contender after its first run.
    """
    left = countdown(seconds)
    for one in contenders:
        one.begin(device)
        begun(one)
    waiting = sorted(contenders, key=lambda one: one.first)
    while waiting:
        for one in tuple(waiting):
            if one.may_run(repeat, left()):
                one.again(device)
            if not one.may_run(repeat, left()):
                waiting.remove(one)
                yield one


def countdown(seconds: float) -> Callable[[], float]:
    """Start a clock; return a function that returns how many of the seconds are left."""
    end = time.perf_counter() + seconds
    return lambda: end - time.perf_counter()


def guarded(call: Callable[[], Record]) -> Record:
    """Return the record that a call makes, or a record of its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a peer's warnings must not end a run
            return call()
    except Exception as error:
        return {"failed": described(error)}


def described(error: Exception) -> str:
    """Describe an error in one line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
