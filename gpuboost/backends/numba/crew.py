"""Threads that do the passes of one tree together, for as long as a round lasts."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")


class Crew:
    """The calling thread and ``n_threads`` - 1 others; none is left running after `dismiss`."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._pool: ThreadPoolExecutor | None = None

    def share(self, work: Callable[[int, np.ndarray], Any], together: bool = True) -> None:
        """``work(thread, counter)`` on every thread; tasks are claimed from ``counter``.

        Not ``together``: on the calling thread alone, for work too small to share.
        """
        counter = np.zeros(1, np.int64)
        if self.n_threads == 1 or not together:
            work(0, counter)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads - 1, thread_name_prefix="gpuboost")
        others = [self._pool.submit(work, i, counter) for i in range(1, self.n_threads)]
        try:
            work(0, counter)
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
