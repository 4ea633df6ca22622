"""The device's ceilings: the highest rates of copies and of additions to shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.gpu.device.device import CEILINGS, Device

COPY_BYTES = 1 << 31  # several times any cache
ADD_ROUNDS = 4096
BLOCKS_PER_MULTIPROCESSOR = 4  # these have as many threads as a multiprocessor can run

Record = dict[str, Any]


@dataclass(frozen=True)
class Ceilings:
    """The highest rates that were measured on the device.

    Attributes
    ----------
    copy_rate : float
        Bytes of device memory read and written per second.
    add_rate : float
        Additions of single lanes to shared memory per second, without bank conflicts.
    """

    copy_rate: float
    add_rate: float

    def floor(self, n_bytes: float, additions: float) -> float:
        """Minimal seconds of a stage: the longer of the times of its bytes and its additions."""
        return max(n_bytes / self.copy_rate, additions / self.add_rate)

    def record(self) -> Record:
        """The record of the result file."""
        return {"copy_GB_per_s": self.copy_rate / 1e9, "adds_G_per_s": self.add_rate / 1e9}


def measure_ceilings(device: Device, share: float, repeat: int) -> Ceilings:
    """Measure both ceilings with ``share`` of the full size.

    Raises
    ------
    RuntimeError
        If a result is wrong, so that the rate means nothing.
    """
    xp = device.xp
    threads, lanes = _constant("CEILING_THREADS"), _constant("CEILING_LANES")
    words = max(1 << 10, int(COPY_BYTES * share) // 16)
    source = xp.arange(2 * words, dtype=xp.int64)
    target = xp.zeros_like(source)
    blocks = min(-(-words // threads), 64 * device.runtime.n_multiprocessors)
    copy = device.ceiling("copy_words")
    seconds = device.kernel_seconds(
        lambda: copy((blocks,), (threads,), (source, target, np.int64(words))), repeat
    )
    if not bool((source == target).all()):
        raise RuntimeError("the copy that measures bandwidth is not a copy")
    rounds = max(1, int(ADD_ROUNDS * share))
    blocks = BLOCKS_PER_MULTIPROCESSOR * device.runtime.n_multiprocessors
    total = xp.zeros(blocks, dtype=xp.uint32)
    add = device.ceiling("add_shared")
    shared = 4 * _constant("CEILING_BINS") * lanes
    each = threads * rounds * _constant("ADDS_AT_ONCE")
    adding = device.kernel_seconds(
        lambda: add(
            (blocks,), (threads,), (np.int32(rounds), np.uint32(1), total), shared_mem=shared
        ),
        repeat,
    )
    if not bool((total == np.uint32((repeat + 1) * each % 2**32)).all()):
        raise RuntimeError("additions to shared memory were lost")
    return Ceilings(32.0 * words / seconds, float(each) * blocks / adding)


def _constant(name: str) -> int:
    """A constant of ceilings.cu."""
    found = re.search(rf"\b{name} = (\d+);", CEILINGS.read_text(encoding="utf-8"))
    if found is None:
        raise LookupError(f"{CEILINGS.name} has no constant {name}")
    return int(found[1])
