"""What a GPU does in a second, how often a kernel needs it, and how kernels add up."""

from __future__ import annotations

from dataclasses import dataclass, fields

MULTIPROCESSORS = 132  # of an H200
CLOCK = 1.98e9


@dataclass(frozen=True)
class Rates:
    """What an H200 is taken to do in a second. Nothing of it was measured by us.

    Attributes
    ----------
    bytes : float
        Device memory, read and written: nine tenths of NVIDIA's 4.8 TB, as copies reach.
    instructions : float
        Warp instructions: one a clock from each of the four schedulers of a multiprocessor
        (NVIDIA's tuning guide for Hopper).
    cycles : float
        The clock, for a chain of instructions in which each waits for the one before.
    additions : float
        Lanes adding to shared memory without conflicts: 32 a clock of a multiprocessor.
    words : float
        Words of shared memory zeroed or read, as many.
    reductions : float
        64-bit additions to device memory, each in a sector of its own: assumed, about one a clock
        from each of some 90 slices of the second cache.
    operations : float
        float64 operations, not fused: 64 lanes a multiprocessor.
    blocks : float
        Blocks that begin and end, doing nothing: assumed.
    host_bytes : float
        Copies into pinned memory of the host, and from there by four threads into arrays that
        nobody has touched: assumed. On two busy cores one thread copied 4 GB a second, two 5.7.
    pageable_bytes : float
        Copies right into such memory, by the staging of the driver: assumed, 2 to 5 GB.
    waits : float
        Times that the host waits for a few bytes, 25 microseconds each: assumed.
    calls : float
        Calls of CuPy that make an array, 15 microseconds of the host each: assumed.
    launches : float
        Launches of our kernels, 8 microseconds of the host each: assumed.
    """

    bytes: float = 4.3e12
    instructions: float = 4 * MULTIPROCESSORS * CLOCK
    cycles: float = CLOCK
    additions: float = 32 * MULTIPROCESSORS * CLOCK
    words: float = 32 * MULTIPROCESSORS * CLOCK
    reductions: float = 1.6e11
    operations: float = 64 * MULTIPROCESSORS * CLOCK
    blocks: float = 5e8
    host_bytes: float = 1e10
    pageable_bytes: float = 3e9
    waits: float = 4e4
    calls: float = 6.7e4
    launches: float = 1.25e5


GAP = 1.5e-6  # seconds from the end of a kernel to the beginning of the one that waits for it
# Seconds of a kernel that has hardly any work: blocks begin, and a few reads follow from one
# another, 0.15 microseconds each from the second cache and 0.4 from memory. Assumed, like the gap.
LEAST = 1.5e-6


@dataclass(frozen=True)
class Work:
    """How often a kernel needs each of `Rates`."""

    bytes: float = 0.0
    instructions: float = 0.0
    cycles: float = 0.0
    additions: float = 0.0
    words: float = 0.0
    reductions: float = 0.0
    operations: float = 0.0
    blocks: float = 0.0
    host_bytes: float = 0.0
    waits: float = 0.0
    calls: float = 0.0

    def __add__(self, other: Work) -> Work:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Work)}
        return Work(**sums)

    def times_of(self, rates: Rates) -> dict[str, float]:
        """Seconds of each resource. Shared memory has one port for additions and words."""
        times = {f.name: getattr(self, f.name) / getattr(rates, f.name) for f in fields(Work)}
        times["additions"] += times.pop("words")
        return times

    def seconds(self, rates: Rates) -> tuple[float, str]:
        """Time of the slowest resource, and which it is."""
        times = self.times_of(rates)
        slowest = max(times, key=times.__getitem__)
        return times[slowest], slowest

    def times(self, often: float) -> Work:
        """The same so many times."""
        return Work(**{f.name: often * getattr(self, f.name) for f in fields(Work)})


@dataclass(frozen=True)
class Kernel:
    """Launches of one kernel, none of which begins before what was launched before it has ended.

    Attributes
    ----------
    work : Work
        Of all these launches. What one of them needs overlaps.
    launches : float
    """

    work: Work = Work()
    launches: float = 1.0

    def seconds(self, rates: Rates) -> dict[str, float]:
        """The gaps before the launches, and the time of the slowest resource."""
        slowest, name = self.work.seconds(rates)
        if slowest <= self.launches * LEAST:
            return {"gaps": self.launches * (GAP + LEAST)}
        return {"gaps": self.launches * GAP, name: slowest}


@dataclass(frozen=True)
class Stage:
    """Kernels one after the other."""

    kernels: tuple[Kernel, ...] = ()

    @classmethod
    def of(cls, *kernels: Kernel | Work) -> Stage:
        """Kernels in order; work alone is that of one launch."""
        return cls(tuple(Kernel(one) if isinstance(one, Work) else one for one in kernels))

    def __add__(self, other: Stage) -> Stage:
        return Stage(self.kernels + other.kernels)

    def times(self, often: float) -> Stage:
        """The same so many times."""
        return Stage(tuple(Kernel(k.work.times(often), often * k.launches) for k in self.kernels))

    @property
    def launches(self) -> float:
        """Those of all kernels."""
        return sum(kernel.launches for kernel in self.kernels)

    @property
    def work(self) -> Work:
        """What all kernels need."""
        return sum((kernel.work for kernel in self.kernels), Work())

    def seconds(self, rates: Rates) -> tuple[float, str]:
        """The times of all kernels added up, and what most of it goes to."""
        parts: dict[str, float] = {"gaps": 0.0}
        for kernel in self.kernels:
            for name, seconds in kernel.seconds(rates).items():
                parts[name] = parts.get(name, 0.0) + seconds
        return sum(parts.values()), max(parts, key=parts.__getitem__)


def bare(launches: float) -> Kernel:
    """Kernels that have hardly any work."""
    return Kernel(launches=launches)
