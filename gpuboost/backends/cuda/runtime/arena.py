"""Memory of a recorded batch: one allocation, in which arrays with disjoint lifetimes overlap.

Replayed launches read and write at the recorded addresses, so the memory of their arrays must not
be used for anything else as long as the recording exists. A dry run measures the lifetimes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True)
class ArenaPlan:
    """Offsets of arrays in an arena, in the order in which the arrays are allocated.

    Attributes
    ----------
    sizes : sequence of int
        Bytes of each array.
    places : sequence of int
        Offset of each array in bytes.
    total : int
        Size of the arena in bytes.
    """

    sizes: Sequence[int]
    places: Sequence[int]
    total: int


def plan_arena(sizes: Sequence[int], ends: Sequence[int]) -> ArenaPlan:
    """Place arrays, the largest first, each at the lowest offset that is free in its lifetime.

    Parameters
    ----------
    sizes : sequence of int
        Bytes of each array, multiples of the alignment.
    ends : sequence of int
        Allocation ``i`` is freed before allocation ``ends[i]`` is made; ``len(sizes)`` if it is
        not freed before all allocations are made.

    References
    ----------
    Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020: greedy by
    size. They choose the smallest gap that is large enough, instead of the lowest.
    """
    size, end = np.array(sizes, dtype=np.int64), np.array(ends, dtype=np.int64)
    start = np.arange(len(size))
    place = np.full(len(size), -1, dtype=np.int64)
    for i in np.argsort(-size, kind="stable"):
        overlapping = np.flatnonzero((place >= 0) & (start < end[i]) & (end > start[i]))
        overlapping = overlapping[np.argsort(place[overlapping], kind="stable")]
        # End of the memory used below each of these arrays. The first large enough gap is used.
        taken = np.maximum.accumulate(np.append(0, place[overlapping] + size[overlapping]))
        gaps = np.append(place[overlapping] - taken[:-1], size[i])
        place[i] = taken[int(np.argmax(gaps >= size[i]))]
    total = int((place + size).max(initial=0))
    return ArenaPlan(size.tolist(), place.tolist(), total)


class Arena:
    """One allocation that provides the arrays of a plan, in the order of the plan.

    Parameters
    ----------
    xp : module
    plan : ArenaPlan
    """

    def __init__(self, xp: Any, plan: ArenaPlan) -> None:
        self._plan, self._next = plan, 0
        self._memory: Array = xp.empty(plan.total, dtype=np.uint8)

    def take(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Return the next array.

        Raises
        ------
        RuntimeError
            The array is larger than planned, or the plan has no more arrays.
        """
        shape = shape if isinstance(shape, tuple) else (shape,)
        size = np.dtype(dtype).itemsize * math.prod(int(n) for n in shape)
        nth, self._next = self._next, self._next + 1
        planned = self._plan.sizes[nth : nth + 1]  # empty after the last planned array
        if not planned or size > planned[0]:
            raise RuntimeError(
                f"array {nth} of a recorded batch takes {size} bytes, but {sum(planned)} were "
                "planned; the host code made other arrays in the dry run"
            )
        at = self._plan.places[nth]
        return self._memory[at : at + size].view(dtype).reshape(shape)
