"""What the level operations ask of whatever runs kernels: an array module and launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from gpuboost.engine.growth.frontier import Array

# A compiled kernel, called with a grid, a block, arguments and bytes of dynamic shared memory. The
# arguments are arrays and NumPy scalars of the types that it declares. A grid without
# blocks is no launch.
Launchable = Callable[[Sequence[int], Sequence[int], Sequence[Any], int], None]


class Runtime(Protocol):
    """A device, or what stands for one.

    Attributes
    ----------
    name : str
        Such as "cuda:0".
    xp : module
        numpy or cupy; all arrays are of this module. If it says that it is ``separate``, arrays
        that are usually cut from one piece of memory are asked of it one by one.
    shared_memory : int
        Bytes of shared memory that a block may have.
    n_multiprocessors : int
    """

    name: str
    xp: Any
    shared_memory: int
    n_multiprocessors: int

    def active(self) -> AbstractContextManager[None]:
        """All else, and all use of arrays, happens in ``with runtime.active():``.

        Memory that the device does not have is a MemoryError there.
        """

    def memory_budget(self) -> int:
        """Bytes that a fit may use for arrays of its own."""

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Launchable:
        """A kernel of one file, compiled with `source.kernel_source` once for each ``constants``.

        Launches may use up to ``shared_memory`` bytes.
        """

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """A call that repeats some launches with the same arguments: on a GPU one graph.

        ``launches`` launches kernels that have been launched before, and does nothing else. The
        arrays that it names must outlive the call.
        """

    def asarray(self, host: np.ndarray) -> Array:
        """Copy to the device (the array itself where it is there)."""

    def upload(self, host: np.ndarray, array: Array) -> None:
        """Copy to an array of the device of the same shape and type, after what reads it now."""

    def to_host(self, array: Array) -> np.ndarray:
        """Copy to a NumPy array (the array itself where it is one)."""

    def read_later(self, array: Array) -> Callable[[], np.ndarray]:
        """Start to copy to the host; the call waits for the copy and returns it.

        It lies in memory that is dear (pinned), and is there as long as somebody has it or a view
        of it: who wants to keep something copies that.
        """
