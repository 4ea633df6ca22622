"""How many threads the machine has time for, by the processor time that threads get.

If other processes use the cores, a thread that others wait for at a barrier does not run for some
milliseconds, many times in a round. With another process on each of two cores, 100 rounds of
10k x 20 take 49 times as long as on idle cores with two threads, and 3 times as long with one.
(If waiting threads sleep and do not yield, they take 2 to 4 times as long, but 1.9 times as long on
idle cores.)
"""

from __future__ import annotations

import time
from functools import cache

ENOUGH = 0.7  # threads that get this fraction of the time are not delayed by others
# Seconds over which the fraction is measured, and before the full number of threads is tried again:
# longer each time that this is too many.
WINDOW, FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.2, 2.0
_COARSE = max(time.get_clock_info(name).resolution for name in ("process_time", "thread_time"))


class MachineLoad:
    """The number of threads that work together, fewer while they are delayed."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads, self._now = n_threads, n_threads
        self._window = max(WINDOW, 20.0 * _COARSE)
        self._pause, self._retry_at = FIRST_PAUSE, 0.0
        self._wall = self._own = self._all = 0.0
        self._began = (0.0, 0.0, 0.0)

    def threads(self, at_most: int) -> int:
        """The number of threads for the next work."""
        if self._now < self.n_threads and time.perf_counter() > self._retry_at:
            self._now = self.n_threads
        return min(self._now, at_most)

    def begin(self) -> None:
        """Note the time before work of several threads."""
        self._began = time.perf_counter(), time.thread_time(), time.process_time()

    def end(self, n: int) -> None:
        """Note the time after work of ``n`` threads, all of which ran or checked for work."""
        now = time.perf_counter()
        wall, own, whole = self._began
        self._wall += now - wall
        self._own += time.thread_time() - own
        self._all += (time.process_time() - whole) / n
        if self._wall < self._window:
            return
        if min(self._own, self._all) < ENOUGH * self._wall:
            self._now = max(1, n - max(1, n // 4))
            self._retry_at = now + self._pause
            self._pause = min(2.0 * self._pause, LONGEST_PAUSE)
        elif n == self.n_threads:
            self._pause = FIRST_PAUSE
        self._wall = self._own = self._all = 0.0


@cache
def load_of(n_threads: int) -> MachineLoad:
    """What this process knows of the load; a fit begins with the number that the last one ended."""
    return MachineLoad(n_threads)
