"""Peak device memory of a block of code, measured through CuPy's allocator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

WITHIN = 0.15  # fraction by which a peak may differ from `gpuboost.estimate_memory`


def is_estimated(peak: int, estimate: int) -> bool:
    """Whether a peak differs from its estimate by at most `WITHIN` of the estimate."""
    return abs(peak - estimate) <= WITHIN * estimate


@dataclass
class Peak:
    """The bytes in use, and the largest number that were in use."""

    now: int = 0
    highest: int = 0

    def add(self, change: int) -> None:
        """Add a change of the bytes in use."""
        self.now += change
        self.highest = max(self.highest, self.now)


@contextmanager
def peak_memory(cupy: Any) -> Iterator[list[int]]:
    """Follow the allocations of a block of code; at its end, the list holds their peak in bytes.

    Memory that was allocated earlier, or by other libraries, does not count.
    """
    peak, sizes = Peak(), {}  # only memory that is allocated in the block may be subtracted
    found: list[int] = []

    class Follow(cupy.cuda.MemoryHook):
        name = "peak of what is in use"

        def malloc_postprocess(self, **given: Any) -> None:
            sizes[given["pmem_id"]] = given["mem_size"]
            peak.add(given["mem_size"])

        def free_postprocess(self, **given: Any) -> None:
            peak.add(-sizes.pop(given["pmem_id"], 0))

    with Follow():
        yield found
    found.append(peak.highest)
