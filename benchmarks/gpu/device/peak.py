"""The most memory of a device that is in use meanwhile, as CuPy's allocator sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

WITHIN = 0.15  # share by which a peak may differ from `gpuboost.estimate_memory`


def is_estimated(peak: int, estimate: int) -> bool:
    """Whether an estimate is near enough to what was measured."""
    return abs(peak - estimate) <= WITHIN * estimate


@dataclass
class Peak:
    """The highest of the values seen, and how much is there now."""

    now: int = 0
    highest: int = 0

    def add(self, change: int) -> None:
        """More, or less."""
        self.now += change
        self.highest = max(self.highest, self.now)


@contextmanager
def peak_memory(cupy: Any) -> Iterator[list[int]]:
    """Follow what is allocated meanwhile: the list has the peak, in bytes, at the end.

    What was there before does not count, nor what other libraries allocate.
    """
    peak, sizes = Peak(), {}  # only what is allocated meanwhile may be subtracted
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
