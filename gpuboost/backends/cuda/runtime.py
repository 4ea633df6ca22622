"""What the level operations ask of whatever runs kernels: an array module and launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from gpuboost.engine.frontier import Array


class Launchable(Protocol):
    """A compiled kernel, called as CuPy's RawKernel is."""

    def __call__(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
    ) -> None:
        """Run the kernel; ``args`` are arrays and NumPy scalars of the very types it takes."""


class Runtime(Protocol):
    """A device, or what stands for one.

    Attributes
    ----------
    xp : module
        numpy or cupy; all arrays are of this module.
    shared_memory : int
        Bytes of shared memory that a block may have.
    n_multiprocessors : int
    """

    xp: Any
    shared_memory: int
    n_multiprocessors: int

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Launchable:
        """A kernel of one file, compiled with `source.kernel_source` once for each ``constants``.

        Launches may use up to ``shared_memory`` bytes.
        """

    def asarray(self, host: np.ndarray) -> Array:
        """Copy to the device (the array itself where it is there)."""

    def to_host(self, array: Array) -> np.ndarray:
        """Copy to a NumPy array (the array itself where it is one)."""
