"""Kernels and arrays on an NVIDIA GPU through CuPy.

No other module imports CuPy at its top. gpuboost uses these parts of CuPy 14: arrays and their
functions, `cupy.cuda.Device` as a context, memory pools and pinned memory, events, streams and
their capture as graphs, NVRTC, modules of machine code, a few functions and errors of
`cupy.cuda.runtime` and `cupy.cuda.driver`, and `cupyx.scipy.sparse.csr_matrix`. As in CuPy, work
runs on the stream that is current when a method is called.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from gpuboost.backends.cache import cache_folder
from gpuboost.backends.cuda.runtime.compile import FOLDER, CubinStore
from gpuboost.backends.cuda.runtime.protocol import Launchable
from gpuboost.backends.cuda.runtime.source import kernel_source
from gpuboost.backends.cuda.runtime.staging import Downloads, Uploads, pinned_memory
from gpuboost.engine.growth.frontier import Array

MEMORY_SHARE = 0.8  # of the free memory; the rest is for the binned matrix and other programs
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY
_COMPILER_OUT_OF_MEMORY = 1  # NVRTC_ERROR_OUT_OF_MEMORY
# When a sort runs out of memory, CuPy raises a plain MemoryError or RuntimeError whose message ends
# with one of these: its sorts are C++ code, which cannot raise CuPy's own errors.
_SORT_OUT_OF_MEMORY = ("std::bad_alloc", "cudaErrorMemoryAllocation: out of memory")


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel that can be launched."""

    function: Any

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0
    ) -> None:
        """Launch the kernel, unless the grid has no blocks (CuPy would launch one block)."""
        if 0 not in grid:
            self.function(tuple(grid), tuple(block), args, shared_mem)


class PendingRead:
    """A copy of an array to the host that may still be running, into pinned memory if possible."""

    def __init__(self, array: Array) -> None:
        pinned = pinned_memory(cupy, max(1, array.nbytes))
        flat: np.ndarray = np.frombuffer(pinned, array.dtype, array.size)
        self._host = flat.reshape(array.shape)
        self._copied = cupy.cuda.Event(disable_timing=True)
        array.get(out=self._host, blocking=False)
        self._copied.record()

    def __call__(self) -> np.ndarray:
        """Wait for the copy and return it; its memory is not reused while it or a view exists."""
        self._wait()
        return self._host

    def _wait(self) -> None:
        if hasattr(self, "_copied"):
            self._copied.synchronize()
            del self._copied

    def __del__(self) -> None:
        # The pinned memory must not be reused while the device still writes to it.
        self._wait()


class Active:
    """Context of a current device, which raises MemoryError if the device runs out of memory."""

    def __init__(self, runtime: CupyRuntime) -> None:
        self._runtime = runtime

    def __enter__(self) -> None:
        self._runtime.device.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._runtime.device.__exit__(kind, error, trace)
        if not isinstance(error, Exception) or not _is_out_of_memory(error):
            return
        del trace
        _forget_frames(error)
        raise self._runtime.memory_error(str(error)) from None


class CupyRuntime:
    """One GPU; see `gpuboost.backends.cuda.runtime.protocol.Runtime`.

    Several threads can use one object at once. Methods must be called in ``with runtime.active()``.
    """

    xp: Any = cupy

    def __init__(self, device_id: int) -> None:
        self.name = f"cuda:{device_id}"
        self.device = cupy.cuda.Device(device_id)
        attributes = self.device.attributes
        self.shared_memory: int = attributes["MaxSharedMemoryPerBlockOptin"]
        self.n_multiprocessors: int = attributes["MultiProcessorCount"]
        capability = int(self.device.compute_capability)
        self._cubins = CubinStore(cupy.cuda.nvrtc, capability, cache_folder() / FOLDER)
        self._kernels: dict[tuple[Any, ...], LoadedKernel] = {}
        self._modules: dict[tuple[Any, ...], Any] = {}
        self._uploads, self._downloads = Uploads(cupy), Downloads(cupy)
        self._lock = threading.Lock()
        self._process = os.getpid()

    # ---- the device and its memory -------------------------------------------------------------

    def active(self) -> Active:
        """Return a context in which this is the current device of the thread.

        Raises
        ------
        MemoryError
            At the end of the context: the device or its compiler ran out of memory. Arrays that
            only the functions called in the context referred to are freed.
        RuntimeError
            The process was forked from a process that had used the device.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self.name} cannot be used in this process: it was forked from one that had used "
                'CUDA, and CUDA does not work after a fork. Start processes by "spawn" or '
                '"forkserver" (multiprocessing.set_start_method), or use device="cpu" here'
            )
        return Active(self)

    def memory_error(self, reason: str) -> MemoryError:
        """Free CuPy's unused memory and return an error that reports the number of free bytes."""
        gc.collect()
        with self.device:
            cupy.get_default_memory_pool().free_all_blocks()
            free, total = cupy.cuda.runtime.memGetInfo()
        return MemoryError(
            f"{self.name} is out of memory: {reason}. Of its {total:,} bytes, {free:,} are free "
            'now that this work has stopped. End other programs on the device, or use device="cpu"'
        )

    def memory_budget(self) -> int:
        """Return `MEMORY_SHARE` of the free bytes of the driver and of CuPy's memory pool.

        Bytes beyond the limit of the pool, if it has one, do not count as free.
        """
        pool = cupy.get_default_memory_pool()
        with self.device:
            free = cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
            limit = pool.get_limit()
            if limit:
                free = min(free, max(0, limit - pool.used_bytes()))
        return int(MEMORY_SHARE * free)

    # ---- kernels -------------------------------------------------------------------------------

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Launchable:
        """Return a kernel of a file, which is compiled, or read from disk, on its first use."""
        key = (file_name, tuple(sorted(constants.items())))
        found = self._kernels.get((name, *key))
        if found is not None:
            return found
        with self._lock, self.device:
            if key not in self._modules:
                text = kernel_source(file_name, constants)
                module = cupy.cuda.Module()
                module.load(self._cubins.machine_code(text, file_name))
                self._modules[key] = module
            function = self._modules[key].get_function(name)
            _allow_shared_memory(function, self.shared_memory)
            return self._kernels.setdefault((name, *key), LoadedKernel(function))

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Capture launches as a graph; the returned function launches it on the current stream.

        Capturing does not run the launches. It uses a new stream that does not wait for the default
        stream, so other threads can keep working on the default stream.
        """
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            try:
                launches()
            except BaseException:
                with suppress(Exception):
                    stream.end_capture()
                raise
            graph = stream.end_capture()
        graph.upload()
        return graph.launch

    # ---- arrays --------------------------------------------------------------------------------

    def asarray(self, host: np.ndarray) -> Array:
        """Copy an array to the device, in C order; a device array in C order is not copied."""
        if not isinstance(host, np.ndarray):
            return cupy.ascontiguousarray(host)
        array = cupy.empty(host.shape, dtype=host.dtype.newbyteorder("="))
        self._uploads.copy(host, array)
        return array

    def upload(self, host: np.ndarray, array: Array) -> None:
        """Copy to a device array of the same shape and type, after pending reads of that array."""
        self._uploads.copy(host, array)

    def to_host(self, array: Array) -> np.ndarray:
        """Copy a device array to the host; a NumPy array is returned unchanged."""
        return array if isinstance(array, np.ndarray) else self._downloads.copy(array)

    def read_later(self, array: Array) -> Callable[[], np.ndarray]:
        """Start to copy to the host; the returned function waits for the copy and returns it.

        The copy is in pinned memory, if the system can pin enough.
        """
        return PendingRead(array)


def _allow_shared_memory(function: Any, capacity: int) -> None:
    """Let launches use up to ``capacity`` bytes of shared memory, including static arrays."""
    driver = cupy.cuda.driver
    own = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function.ptr)
    attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.funcSetAttribute(function.ptr, attribute, capacity - own)


def _forget_frames(error: BaseException | None) -> None:
    """Drop the tracebacks of an error and of its causes; their frames would keep arrays alive."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the device or its compiler, rather than NumPy, ran out of memory."""
    if isinstance(error, cupy.cuda.memory.OutOfMemoryError):
        return True
    from_cuda = (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)
    if isinstance(error, from_cuda):
        return error.status == _OUT_OF_MEMORY
    if type(error) in (MemoryError, RuntimeError) and str(error).endswith(_SORT_OUT_OF_MEMORY):
        return True
    cause = error.__cause__
    return isinstance(cause, cupy.cuda.nvrtc.NVRTCError) and cause.status == _COMPILER_OUT_OF_MEMORY
