"""How many threads the machine has time for, by the processor time that they get.

If other processes use the cores, a thread that others wait for at a barrier does not run for some
milliseconds, many times in a round. With another process on each of two cores, 100 rounds of
10k x 20 take 49 times as long as on idle cores with two threads, and 2 to 3 times as long with one.
If waiting threads slept instead of yielding, the rounds would take 2 to 4 times as long there, and
1.9 times as long on idle cores.
"""

from __future__ import annotations

import time
from functools import cache

ENOUGH = 0.55  # with less than this fraction of the time, threads are delayed by others
WINDOW = 0.005  # seconds over which the fraction is measured
# Seconds before the full number of threads is tried again: longer each time that this is too many.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0
_COARSE = time.get_clock_info("process_time").resolution


class MachineLoad:
    """The number of threads that work together, fewer while they are delayed."""

    def __init__(self, n_threads: int) -> None:
        self._n_threads, self._now = n_threads, n_threads
        self._pause, self._retry_at = FIRST_PAUSE, 0.0

    def threads(self, at_most: int) -> int:
        """The number of threads for the next work."""
        if self._now < self._n_threads and time.perf_counter() > self._retry_at:
            self._now = self._n_threads
        return min(self._now, at_most)

    def note(self, share: float) -> None:
        """Note the share of the time that threads got."""
        if share < ENOUGH:
            self._now = max(1, self._now - max(1, self._now // 4))
            self._retry_at = time.perf_counter() + self._pause
            self._pause = min(2.0 * self._pause, LONGEST_PAUSE)
        elif self._now == self._n_threads:
            self._pause = FIRST_PAUSE


@cache
def load_of(n_threads: int) -> MachineLoad:
    """What this process knows of the load; a fit begins with the number that the last one ended."""
    return MachineLoad(n_threads)


class WorkClock:
    """Measures the processor time of the work of one pool of threads.

    Other work of the process counts, too, so while there is some, delays may go unnoticed.
    """

    def __init__(self, load: MachineLoad) -> None:
        self._load, self._window = load, max(WINDOW, 20.0 * _COARSE)
        self._wall = self._used = 0.0
        self._began = (0.0, 0.0)

    def begin(self) -> None:
        """Note the time before work of several threads."""
        self._began = time.perf_counter(), time.process_time()

    def end(self, n: int) -> None:
        """Note the time after work of ``n`` threads, all of which ran or checked for work."""
        self._wall += time.perf_counter() - self._began[0]
        self._used += (time.process_time() - self._began[1]) / n
        if self._wall >= self._window:
            self._load.note(self._used / self._wall)
            self._wall = self._used = 0.0
