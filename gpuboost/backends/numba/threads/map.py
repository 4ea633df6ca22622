"""Maps on threads. Each call has its own pool: a process with idle threads cannot fork safely."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpuboost.backends.compiling import Item, Result, worker_threads

RESULTS_AHEAD = 2  # number of results per thread that can wait for the consumer


def map_in_order(
    work: Callable[[Item], Result], items: Sequence[Item], n_threads: int
) -> Iterator[Result]:
    """Yield ``work(item)`` in order; at most `RESULTS_AHEAD` items per thread are done ahead.

    With one thread, each item is done when its result is asked for.
    """
    n_threads = min(n_threads, len(items))
    if n_threads <= 1:
        yield from map(work, items)
        return
    with worker_threads(n_threads) as pool:
        n_ahead = RESULTS_AHEAD * n_threads
        waiting = deque(pool.submit(work, item) for item in items[:n_ahead])
        for i in range(len(items)):
            done = waiting.popleft().result()
            if i + n_ahead < len(items):
                waiting.append(pool.submit(work, items[i + n_ahead]))
            yield done


def row_chunks(n_rows: int, size: int) -> list[slice]:
    """Slices of at most ``size`` rows."""
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def contiguous(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The array as ``dtype``, native, aligned, C-contiguous and writeable; copied only if needed.

    With one layout for all arrays, each function is compiled once.
    """
    if array.dtype == dtype and array.flags.carray and array.dtype.isnative:
        return array
    return np.require(array, dtype=np.dtype(dtype).newbyteorder("="), requirements=["C", "W", "A"])
