"""The interface of a device that runs kernels: arrays, launches and copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from gpuboost.engine.growth.frontier import Array

# A compiled kernel, called with a grid, a block, arguments and bytes of dynamic shared memory. The
# arguments are arrays and NumPy scalars of the types that the kernel declares. If the grid has no
# blocks, nothing is launched.
Launchable = Callable[[Sequence[int], Sequence[int], Sequence[Any], int], None]


class Runtime(Protocol):
    """A device, or a substitute for a device in tests and dry runs.

    Attributes
    ----------
    name : str
        For example "cuda:0".
    xp : module
        The array module of all arrays: numpy, cupy, or an object that has those of their functions
        and types that are used. If its attribute ``separate`` is true, arrays that usually share
        one piece of memory are allocated one by one.
    shared_memory : int
        Maximum shared memory of a block, in bytes.
    n_multiprocessors : int
        Number of multiprocessors of the device.
    """

    name: str
    xp: Any
    shared_memory: int
    n_multiprocessors: int

    def active(self) -> AbstractContextManager[None]:
        """Return the context in which the other methods and the arrays must be used.

        If the device runs out of memory in this context, a MemoryError is raised.
        """

    def memory_budget(self) -> int:
        """Return the number of bytes that a fit may allocate."""

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Launchable:
        """Return a kernel of a file, compiled once for each set of ``constants``.

        The source comes from `source.kernel_source`. Launches can use up to ``shared_memory`` bytes
        of shared memory.
        """

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Return a function that repeats launches with the same arguments, on a GPU as one graph.

        ``launches`` must only launch kernels, each of which was launched before. The arrays must
        outlive the returned function.
        """

    def asarray(self, host: np.ndarray) -> Array:
        """Copy an array to the device, in C order; a device array in C order is not copied."""

    def upload(self, host: np.ndarray, array: Array) -> None:
        """Copy to a device array of the same shape and type, after pending reads of that array.

        The caller may change ``host`` as soon as the call returns.
        """

    def to_host(self, array: Array) -> np.ndarray:
        """Copy a device array to the host; a NumPy array is returned unchanged."""

    def read_later(self, array: Array) -> Callable[[], np.ndarray]:
        """Start to copy to the host; the returned function waits for the copy and returns it.

        The copy is in pinned memory, which is scarce and stays in use while the copy or a view of
        it exists. Callers copy values that they keep to other memory.
        """
