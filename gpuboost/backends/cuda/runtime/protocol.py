"""The interface between level operations and what runs kernels: arrays, launches and copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from gpuboost.engine.growth.frontier import Array

# A compiled kernel, called with a grid, a block, arguments and bytes of dynamic shared memory. The
# arguments are arrays and NumPy scalars of the types that it declares. If the grid has no blocks,
# nothing is launched.
Launchable = Callable[[Sequence[int], Sequence[int], Sequence[Any], int], None]


class Runtime(Protocol):
    """A device, or a stand-in for one.

    Attributes
    ----------
    name : str
        For example "cuda:0".
    xp : module
        numpy or cupy; all arrays are of this module. If its attribute ``separate`` is true, arrays
        that usually share one piece of memory are allocated one by one.
    shared_memory : int
        Bytes of shared memory that a block may have.
    n_multiprocessors : int
    """

    name: str
    xp: Any
    shared_memory: int
    n_multiprocessors: int

    def active(self) -> AbstractContextManager[None]:
        """Context in which all other methods and all arrays are used.

        If the device runs out of memory there, a MemoryError is raised.
        """

    def memory_budget(self) -> int:
        """Bytes that a fit may allocate."""

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Launchable:
        """A kernel of one file, compiled with `source.kernel_source` once for each ``constants``.

        Launches may use up to ``shared_memory`` bytes.
        """

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Return a call that repeats launches with the same arguments, on a GPU as one graph.

        ``launches`` only launches kernels, all of which have been launched before. Its arrays must
        outlive the call.
        """

    def asarray(self, host: np.ndarray) -> Array:
        """Copy to the device; an array on the device is returned unchanged."""

    def upload(self, host: np.ndarray, array: Array) -> None:
        """Copy to a device array of the same shape and type, after pending reads of it."""

    def to_host(self, array: Array) -> np.ndarray:
        """Copy to a NumPy array; a NumPy array is returned unchanged."""

    def read_later(self, array: Array) -> Callable[[], np.ndarray]:
        """Start to copy to the host; the returned call waits for the copy and returns it.

        The copy is in pinned memory, which is scarce and is held as long as the copy or a view of
        it exists. So copy what is to be kept.
        """
