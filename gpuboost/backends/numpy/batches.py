"""Batches of trees that share a frontier; each thread grows one batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from gpuboost.backends.compiling import worker_threads
from gpuboost.engine.task import GrowTask

ROWS_PER_BATCH = 1 << 17  # rows of all trees of a batch, so that its arrays fit the CPU caches
WATCHED_TREES = 4  # of a batch, if callbacks or an interrupt can end the fit after any tree
_LARGEST_KEPT = (32 << 20) - (1 << 16)  # bytes; larger blocks do not raise glibc's threshold

Grown = TypeVar("Grown")


def in_batches(task: GrowTask, grow: Callable[[Sequence[int]], Grown]) -> Iterator[Grown]:
    """Yield the result of ``grow`` for the trees of each batch, in order.

    A batch has one tree, or several that together have at most `ROWS_PER_BATCH` rows, where all
    rows of the matrix count for each tree. It has no more trees than each thread gets if they are
    divided equally, and at most `WATCHED_TREES` trees if callbacks wait for them.
    """
    # Make glibc keep freed memory for later temporaries instead of returning it to the system. The
    # amount that it keeps grows with the largest block freed so far, so a block is allocated and
    # freed here without being written to. Without this, page faults take a tenth of the time to fit
    # a forest on 10,000 rows.
    np.empty(_LARGEST_KEPT, dtype=np.uint8)
    size = max(1, ROWS_PER_BATCH // task.matrix.n_samples)
    size = max(1, min(size, -(-len(task.trees) // task.n_threads)))
    size = min(size, WATCHED_TREES) if task.is_watched else size
    batches = [task.trees[i : i + size] for i in range(0, len(task.trees), size)]
    if task.n_threads == 1 or len(batches) == 1:
        yield from map(grow, batches)
        return
    with worker_threads(task.n_threads) as pool:
        yield from pool.map(grow, batches)
