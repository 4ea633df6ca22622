"""Threads that do the passes of one tree together, for as long as a round lasts."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from gpuboost.backends.numba.team import call_off, make_team

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

Item = TypeVar("Item")
Result = TypeVar("Result")


class Crew:
    """The calling thread and ``n_threads`` - 1 others; none is left running after `dismiss`."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._pool: ThreadPoolExecutor | None = None

    def share(self, work: Callable[[int, np.ndarray], Any], together: bool = True) -> None:
        """``work(thread, team)`` on every thread; see `team` for how they share it.

        Not ``together``: on the calling thread alone, for work too small to share.
        """
        if self.n_threads == 1 or not together:
            work(0, make_team(1))
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads - 1, thread_name_prefix="gpuboost")
        team, others = make_team(self.n_threads), []
        try:
            for thread in range(1, self.n_threads):
                others.append(self._pool.submit(_take_part, work, thread, team))
            work(0, team)
        except BaseException:  # also between two calls of compiled code
            call_off(team)
            raise
        finally:
            for other in others:
                other.result()

    def results(
        self, work: Callable[[Item], Result], items: Sequence[Item], together: bool = True
    ) -> list[Result]:
        """``work`` of every item, in their order; ``together`` as in `share`."""
        found: dict[int, Result] = {}
        left = deque(enumerate(items))

        def take(_: int, __: np.ndarray) -> None:
            while left:
                try:
                    i, item = left.popleft()
                except IndexError:  # somebody else took the last one
                    return
                found[i] = work(item)

        self.share(take, together and len(items) > 1)
        return [found[i] for i in range(len(items))]

    def dismiss(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None


def _take_part(work: Callable[[int, np.ndarray], Any], thread: int, team: np.ndarray) -> None:
    """Work of one thread; if it fails, nobody waits for it."""
    try:
        work(thread, team)
    except BaseException:
        call_off(team)
        raise
