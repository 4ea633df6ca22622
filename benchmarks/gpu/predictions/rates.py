"""The rates of a GPU, the work of kernels, and the times that follow from both."""

from __future__ import annotations

from dataclasses import dataclass, fields

MULTIPROCESSORS = 132  # of an H200
CLOCK = 1.98e9


@dataclass(frozen=True)
class Rates:
    """Rates of an H200 per second. None of them was measured on a device here.

    Attributes
    ----------
    bytes : float
        Bytes of device memory, read or written: 90% of NVIDIA's 4.8 TB, as copies reach.
    instructions : float
        Warp instructions: one per clock cycle and scheduler, of which a multiprocessor has four
        (NVIDIA's tuning guide for Hopper).
    cycles : float
        Clock cycles of one warp, including dependency stalls: waits for its own results.
    additions : float
        Additions of lanes to shared memory without conflicts: 32 per clock cycle and
        multiprocessor.
    words : float
        Words of shared memory that are zeroed or read, at the same rate as additions.
    reductions : float
        64-bit additions to device memory, each in its own sector. Assumed: about one per clock
        cycle in each of some 90 slices of the L2 cache.
    operations : float
        float64 operations, not fused: 64 per clock cycle and multiprocessor.
    blocks : float
        Blocks that find nothing to do. Assumed.
    host_bytes : float
        Bytes copied to pinned memory of the host, and from there by four threads to newly allocated
        arrays. Assumed; on two busy cores, one thread copied 4 GB/s and two copied 5.7 GB/s.
    pageable_bytes : float
        Bytes copied to newly allocated arrays with the driver's own staging. Assumed, from a range
        of 2 to 5 GB/s.
    waits : float
        Waits of the host for a few bytes, 25 microseconds each. Assumed.
    calls : float
        Calls to CuPy that make an array, each taking the host 15 microseconds. Assumed.
    searches : float
        Searches of the host for the bins of one column among its cells, 1.4 milliseconds each,
        measured on one core.
    launches : float
        Launches of gpuboost's kernels, each taking the host 8 microseconds. Assumed.
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
    searches: float = 7e2
    launches: float = 1.25e5


GAP = 1.5e-6  # assumed seconds from the end of a kernel to the start of the next one
# Assumed seconds of a kernel that has hardly any work: its blocks start and make a few dependent
# reads, each taking 0.15 microseconds from the L2 cache or 0.4 microseconds from device memory.
LEAST = 1.5e-6


@dataclass(frozen=True)
class Work:
    """The work of a kernel, in the units of `Rates`."""

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
    searches: float = 0.0

    def __add__(self, other: Work) -> Work:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Work)}
        return Work(**sums)

    def times_of(self, rates: Rates) -> dict[str, float]:
        """Seconds of each resource; additions and words share the port of shared memory."""
        times = {f.name: getattr(self, f.name) / getattr(rates, f.name) for f in fields(Work)}
        times["additions"] += times.pop("words")
        return times

    def seconds(self, rates: Rates) -> tuple[float, str]:
        """Seconds and name of the slowest resource."""
        times = self.times_of(rates)
        slowest = max(times, key=times.__getitem__)
        return times[slowest], slowest

    def times(self, often: float) -> Work:
        """The work, repeated ``often`` times."""
        return Work(**{f.name: often * getattr(self, f.name) for f in fields(Work)})


@dataclass(frozen=True)
class Kernel:
    """Launches of one kernel, each of which starts after the launch before it has ended.

    Attributes
    ----------
    work : Work
        Work of all these launches. A launch uses all resources at the same time.
    launches : float
        Number of launches.
    """

    work: Work = Work()
    launches: float = 1.0

    def seconds(self, rates: Rates) -> dict[str, float]:
        """Seconds of the gaps before the launches, and of the slowest resource."""
        slowest, name = self.work.seconds(rates)
        if slowest <= self.launches * LEAST:
            return {"gaps": self.launches * (GAP + LEAST)}
        return {"gaps": self.launches * GAP, name: slowest}


@dataclass(frozen=True)
class Stage:
    """Kernels that run one after the other."""

    kernels: tuple[Kernel, ...] = ()

    @classmethod
    def of(cls, *kernels: Kernel | Work) -> Stage:
        """Make a stage of kernels in order; a `Work` stands for a kernel with one launch."""
        return cls(tuple(Kernel(one) if isinstance(one, Work) else one for one in kernels))

    def __add__(self, other: Stage) -> Stage:
        return Stage(self.kernels + other.kernels)

    def times(self, often: float) -> Stage:
        """The stage, repeated ``often`` times."""
        return Stage(tuple(Kernel(k.work.times(often), often * k.launches) for k in self.kernels))

    @property
    def launches(self) -> float:
        """Number of launches of all kernels."""
        return sum(kernel.launches for kernel in self.kernels)

    @property
    def work(self) -> Work:
        """The work of all kernels."""
        return sum((kernel.work for kernel in self.kernels), Work())

    def seconds(self, rates: Rates) -> tuple[float, str]:
        """Seconds of all kernels, and the resource that takes most of them."""
        parts: dict[str, float] = {"gaps": 0.0}
        for kernel in self.kernels:
            for name, seconds in kernel.seconds(rates).items():
                parts[name] = parts.get(name, 0.0) + seconds
        return sum(parts.values()), max(parts, key=parts.__getitem__)


def bare(launches: float) -> Kernel:
    """Launches that have hardly any work."""
    return Kernel(launches=launches)
