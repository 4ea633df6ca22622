"""Runs of several libraries in turns, so that a device that gets slower is so for all of them."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.gpu.device import Device

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

    def _timed(self, device: Device, number: int) -> float:
        """Seconds of a run; 0 where it failed."""

        def once() -> Record:
            self.before(number)
            device.make_room()
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


def take_turns(
    contenders: Sequence[Contender],
    device: Device,
    seconds: float,
    repeat: int,
    begun: Callable[[Contender], None] = lambda one: None,
) -> None:
    """Time all of them: each a first run, then one of each in turn, ``repeat`` times at most.

    Parameters
    ----------
    contenders : sequence of Contender
    device : Device
    seconds : float
        That all of it may take; who is slow runs less often.
    repeat : int
    begun : callable
        Told of each whose first run is over.
    """
    started = time.perf_counter()
    for one in contenders:
        one.begin(device)
        begun(one)
    sound = [one for one in contenders if not one.failed]
    left = seconds - (time.perf_counter() - started)
    counts = runs_of([one.first for one in sound], left, repeat)
    for turn in range(max(counts, default=0)):
        for one, count in zip(sound, counts, strict=True):
            if turn < count and not one.failed:
                one.again(device)


def runs_of(firsts: Sequence[float], seconds: float, repeat: int) -> list[int]:
    """How often each is run, by what its first run took: all have equal parts of the time.

    What a fast one leaves of its part goes to the others.
    """
    counts = [0] * len(firsts)
    order = sorted(range(len(firsts)), key=lambda one: firsts[one])
    for position, one in enumerate(order):
        counts[one] = runs_in(seconds / (len(order) - position), firsts[one], repeat)
        seconds -= counts[one] * firsts[one]
    return counts


def runs_in(seconds: float, first: float, repeat: int) -> int:
    """How often what took ``first`` seconds is repeated."""
    return int(min(repeat, max(0.0, seconds) // max(first, 1e-9)))


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
