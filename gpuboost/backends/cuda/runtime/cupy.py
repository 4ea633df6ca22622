"""Kernels and arrays on an NVIDIA GPU, through CuPy. The only file that imports it from the start.

What is used of CuPy 14: arrays and their functions, `cupy.cuda.Device` as a context, its pool and
its pinned memory, events, NVRTC, and modules of machine code. Everything runs on the stream that is
current where a method is called, as CuPy's own work does.
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

MEMORY_SHARE = 0.8  # of what is free; the rest is for the binned matrix and for others
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY
_COMPILER_OUT_OF_MEMORY = 1  # NVRTC_ERROR_OUT_OF_MEMORY
# When a sort runs out of memory, CuPy raises a plain MemoryError or RuntimeError whose message ends
# with one of these: its sorts are C++, which knows no errors of CuPy's.
_SORT_OUT_OF_MEMORY = ("std::bad_alloc", "cudaErrorMemoryAllocation: out of memory")


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel that can be launched."""

    function: Any

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0
    ) -> None:
        """Launch it; not at all where the grid has no blocks (CuPy would launch one)."""
        if 0 not in grid:
            self.function(tuple(grid), tuple(block), args, shared_mem)


class PendingRead:
    """An array on its way to the host: into pinned memory, or what the system gives instead."""

    def __init__(self, array: Array) -> None:
        pinned = pinned_memory(cupy, max(1, array.nbytes))
        flat: np.ndarray = np.frombuffer(pinned, array.dtype, array.size)
        self._host = flat.reshape(array.shape)
        self._copied = cupy.cuda.Event(disable_timing=True)
        array.get(out=self._host, blocking=False)
        self._copied.record()

    def __call__(self) -> np.ndarray:
        """Wait for it. Nobody gets the pinned memory as long as somebody has what lies there."""
        self._wait()
        return self._host

    def _wait(self) -> None:
        if hasattr(self, "_copied"):
            self._copied.synchronize()
            del self._copied

    def __del__(self) -> None:
        # Nobody may get the pinned memory while the device still writes to it.
        self._wait()


class Active:
    """The device of a runtime is the current one, and its errors of memory are MemoryErrors."""

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

    May be used by several threads at once. All of it needs ``with runtime.active()``.
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
        """Make this the current device of the thread, in ``with runtime.active():``.

        Raises
        ------
        MemoryError
            The device ran out of memory. What was allocated inside is given back.
        RuntimeError
            The process was forked from one that used the device.
        """
        self._check_process()
        return Active(self)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self.name} cannot be used in this process: it was forked from one that had used "
                'CUDA, which CUDA does not survive. Start processes by "spawn" or "forkserver" '
                '(multiprocessing.set_start_method), or use device="cpu" here'
            )

    def memory_error(self, reason: str) -> MemoryError:
        """What to say of memory that was not there, after all that is unused is given back."""
        gc.collect()
        with self.device:
            cupy.get_default_memory_pool().free_all_blocks()
            free, total = cupy.cuda.runtime.memGetInfo()
        return MemoryError(
            f"{self.name} is out of memory: {reason}. Of its {total:,} bytes, {free:,} are free "
            'now that this work has stopped. End what else uses the device, or use device="cpu"'
        )

    def memory_budget(self) -> int:
        """Bytes that a fit may use: a share of what the driver and CuPy's pool have free."""
        pool = cupy.get_default_memory_pool()
        with self.device:
            free = cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
            limit = pool.get_limit()
            if limit:
                free = min(free, max(0, limit - pool.used_bytes()))
        return int(MEMORY_SHARE * free)

    # ---- kernels -------------------------------------------------------------------------------

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Launchable:
        """A kernel of one file, compiled or read from disk at its first use in this process."""
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
        """A graph of launches; the call launches it on the stream that is current then.

        It is captured on a stream of its own that does not wait for the default one, so work of
        other threads there goes on. What is launched is not run.
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
        """Copy to the device (the array itself where it is there), in C order."""
        if not isinstance(host, np.ndarray):
            return cupy.ascontiguousarray(host)
        array = cupy.empty(host.shape, dtype=host.dtype.newbyteorder("="))
        self._uploads.copy(host, array)
        return array

    def upload(self, host: np.ndarray, array: Array) -> None:
        """Copy to an array of the device of the same shape and type, after what reads it now."""
        self._uploads.copy(host, array)

    def to_host(self, array: Array) -> np.ndarray:
        """Copy to a NumPy array (the array itself where it is one)."""
        return array if isinstance(array, np.ndarray) else self._downloads.copy(array)

    def read_later(self, array: Array) -> Callable[[], np.ndarray]:
        """Start to copy to pinned memory; the call waits for the copy and returns it."""
        return PendingRead(array)


def _allow_shared_memory(function: Any, capacity: int) -> None:
    """Let launches have up to ``capacity`` bytes of shared memory, own arrays included."""
    driver = cupy.cuda.driver
    own = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function.ptr)
    attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.funcSetAttribute(function.ptr, attribute, capacity - own)


def _forget_frames(error: BaseException | None) -> None:
    """Let go of the arrays that the frames of an error hold, as long as anybody keeps the error."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the device or its compiler had too little memory; NumPy's errors are not meant."""
    if isinstance(error, cupy.cuda.memory.OutOfMemoryError):
        return True
    from_cuda = (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)
    if isinstance(error, from_cuda):
        return error.status == _OUT_OF_MEMORY
    if type(error) in (MemoryError, RuntimeError) and str(error).endswith(_SORT_OUT_OF_MEMORY):
        return True
    cause = error.__cause__
    return isinstance(cause, cupy.cuda.nvrtc.NVRTCError) and cause.status == _COMPILER_OUT_OF_MEMORY
