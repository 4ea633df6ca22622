"""What a GPU does in a second, and how often a stage needs it."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Rates:
    """What an H200 is taken to do in a second.

    Attributes
    ----------
    bytes : float
        Device memory, read and written; seen in a copy.
    additions : float
        Lanes adding to shared memory without conflicts: 132 multiprocessors, 32 lanes, 1.98 GHz.
    words : float
        Words of shared memory zeroed or read, as many.
    atomics : float
        64-bit additions to device memory.
    operations : float
        float64 operations, not fused: 64 lanes a multiprocessor.
    nodes : float
        Nodes that one block decides about: 1024 in about 12 microseconds, over all of policy.cu and
        children.cu.
    blocks : float
        Blocks that begin and end, doing nothing.
    small_searches, tiny_searches : float
        Nodes of few rows searched for one feature, by a block of small.cu and a warp of tiny.cu:
        1500 and 400 cycles, taken to be so; two blocks and 12 warps on each multiprocessor.
    launches : float
        Launches: 8 microseconds of the host each.
    replays : float
        Kernels of a recorded round, one after the other: 1.5 microseconds each, of the device.
    host_bytes : float
        Copies to pageable memory of the host.
    """

    bytes: float = 4.3e12
    additions: float = 8.4e12
    words: float = 8.4e12
    atomics: float = 1.6e11
    operations: float = 1.67e13
    nodes: float = 8.5e7
    blocks: float = 5e8
    small_searches: float = 3.5e8
    tiny_searches: float = 7.8e9
    launches: float = 1.25e5
    replays: float = 6.7e5
    host_bytes: float = 1e10


@dataclass(frozen=True)
class Work:
    """How often a stage needs each of `Rates`."""

    bytes: float = 0.0
    additions: float = 0.0
    words: float = 0.0
    atomics: float = 0.0
    operations: float = 0.0
    nodes: float = 0.0
    blocks: float = 0.0
    small_searches: float = 0.0
    tiny_searches: float = 0.0
    launches: float = 0.0
    replays: float = 0.0
    host_bytes: float = 0.0

    def __add__(self, other: Work) -> Work:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Work)}
        return Work(**sums)

    def seconds(self, rates: Rates) -> tuple[float, str]:
        """Time of the slowest resource, and which it is. Shared memory has one port for both."""
        times = {f.name: getattr(self, f.name) / getattr(rates, f.name) for f in fields(Work)}
        times["additions"] += times.pop("words")
        slowest = max(times, key=times.__getitem__)
        return times[slowest], slowest

    def times(self, often: int) -> Work:
        """The same so many times."""
        return Work(**{f.name: often * getattr(self, f.name) for f in fields(Work)})
