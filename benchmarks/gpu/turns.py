"""Runs of several libraries in turns, so that a device that gets slower is so for all of them."""

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
    """One who is timed.

    Attributes
    ----------
    run : callable
        What is timed, given the number of the run: 0 for the first one, which may compile.
    before, after : callable
        What comes before and after each run, given its number, and is not timed.
    first : float
        Seconds of the first run, which counts for nothing else.
    runs : list of float
        Seconds of the others.
    failed : str
        How a run failed, empty if none did.
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
        """Whether one more run is wanted and ends within ``seconds``, as its latest run did."""
        latest = self.runs[-1] if self.runs else self.first
        return not self.failed and len(self.runs) < repeat and latest < seconds

    def _timed(self, device: Device, number: int) -> float:
        """Seconds of a run; 0 where it failed."""

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
        """The times of a record: the median of the runs after the first one, if there are any."""
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
    """Time all of them in turns, and yield each as soon as its runs are over.

    Everyone runs once before anyone runs again. In each turn the fastest goes first, and who has no
    time left for one more run drops out, so a fast contender runs at least as often as a slow one.

    Parameters
    ----------
    contenders : sequence of Contender
    device : Device
    seconds : float
        That all runs together may take.
    repeat : int
        Runs of each after the first one, at most.
    begun : callable
        Told of each whose first run is over.
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
    """A clock that tells how many of these seconds are left."""
    end = time.perf_counter() + seconds
    return lambda: end - time.perf_counter()


def guarded(call: Callable[[], Record]) -> Record:
    """The record of a call, or how it failed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a peer's advice must not end a run
            return call()
    except Exception as error:
        return {"failed": described(error)}


def described(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
