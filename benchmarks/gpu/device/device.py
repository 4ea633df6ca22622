"""The device that a run measures: its kernels, timers, memory and facts."""

from __future__ import annotations

import importlib
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.device.counting import WAIT, CountingRuntime, Counts
from benchmarks.gpu.device.peak import peak_memory

CEILINGS = Path(__file__).with_name("ceilings.cu")
AHEAD_BYTES = 1 << 31  # filling these keeps the device busy for about half a millisecond
_INTERCEPTED = "choose_backend"
_WHERE = tuple(f"gpuboost.estimators.fitting.{name}" for name in ("base", "pipeline"))
_DRIVER_QUERY = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")


_NO_DEVICE_STATUS = (35, 100)  # cudaErrorInsufficientDriver (also without a driver), NoDevice


class NoDeviceError(RuntimeError):
    """This machine has no GPU, or no driver for one."""


class Device:
    """A device that runs kernels through a runtime, with timers and facts.

    Parameters
    ----------
    runtime : gpuboost.backends.cuda.runtime.protocol.Runtime
    compile_text : callable
        Takes the source text and the name of a kernel, and returns a kernel that is called like
        CuPy's RawKernel.
    """

    name = "cpu"

    def __init__(self, runtime: Any, compile_text: Callable[[str, str], Any]) -> None:
        self.counts = Counts()
        self.runtime = CountingRuntime(runtime, self.counts)
        self.compile_text = compile_text

    @property
    def xp(self) -> Any:
        """The array module, whose calls are not counted."""
        return self.runtime.inner.xp

    @cached_property
    def backend(self) -> Any:
        """The backend of all fits and predictions."""
        module = importlib.import_module("gpuboost.backends.cuda.backend")
        return StagedBackend(module.CudaBackend(self.runtime), self)

    def asarray(self, host: np.ndarray) -> Any:
        """Copy an array to the device; the copy is not counted."""
        return self.xp.asarray(host)

    def facts(self) -> dict[str, Any]:
        """Names and versions on which the results depend."""
        return {"name": self.name, "multiprocessors": self.runtime.n_multiprocessors}

    def wait(self) -> None:
        """Wait until the device has done everything."""

    def give_memory_back(self) -> None:
        """Release the memory that the allocator keeps, so that other libraries can use it."""

    def free_memory(self) -> None:
        """Make sure that the next run has enough free memory."""

    def free_bytes(self) -> int | None:
        """Bytes of free memory, or None if unknown."""
        return None

    @contextmanager
    def peak_memory(self) -> Iterator[list[int]]:
        """Yield a list that holds the peak of allocated bytes at the end; empty if unknown."""
        yield []

    def seconds(self, call: Callable[[], Any]) -> float:
        """Wall-clock seconds of a call, until the device is done with it."""
        self.wait()
        started = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - started

    def kernel_seconds(self, call: Callable[[], Any], repeat: int) -> float:
        """Median seconds of the launches in a call, without the time of the host."""
        call()
        return statistics.median(self.seconds(call) for _ in range(repeat))

    def ceiling(self, name: str) -> Any:
        """A kernel of ceilings.cu."""
        return self.compile_text(ceilings_text(), name)


class CudaDevice(Device):
    """An NVIDIA GPU, used through CuPy.

    Parameters
    ----------
    ahead_bytes : int
        Bytes that the device fills before a timed kernel, while the host launches the kernel.

    Raises
    ------
    NoDeviceError
        If there is no device.
    RuntimeError
        If there is a device that CuPy cannot use.
    """

    name = "cuda"

    def __init__(self, ahead_bytes: int = AHEAD_BYTES) -> None:
        self._ahead_bytes = ahead_bytes
        try:
            self._cupy = importlib.import_module("cupy")
            self._cupy.zeros(1)
        except Exception as error:  # CuPy raises many kinds of errors if there is no device
            if not _is_missing(error):
                raise RuntimeError(
                    f"the GPU cannot be used ({type(error).__name__}: {error})"
                ) from error
            raise NoDeviceError(
                f"there is no GPU to measure ({type(error).__name__}: {error}); install CuPy for "
                "the version of the driver on a machine with an NVIDIA GPU"
            ) from error
        module = importlib.import_module("gpuboost.backends.cuda.runtime.cupy")
        super().__init__(module.CupyRuntime(0), self._compile)

    def _compile(self, text: str, name: str) -> Any:
        return self._cupy.RawKernel(text, name, options=("-std=c++17",))

    def facts(self) -> dict[str, Any]:
        api = self._cupy.cuda.runtime
        properties = api.getDeviceProperties(0)
        return {
            "name": properties["name"].decode(),
            "driver": driver_version(),
            "cuda_driver": api.driverGetVersion(),
            "cuda_runtime": api.runtimeGetVersion(),
            "nvrtc": ".".join(map(str, self._cupy.cuda.nvrtc.getVersion())),
            "cupy": self._cupy.__version__,
            "memory_gb": round(properties["totalGlobalMem"] / 1e9),
            "multiprocessors": properties["multiProcessorCount"],
        }

    def wait(self) -> None:
        self._cupy.cuda.runtime.deviceSynchronize()

    def give_memory_back(self) -> None:
        self.wait()
        self._cupy.get_default_memory_pool().free_all_blocks()
        self._cupy.get_default_pinned_memory_pool().free_all_blocks()

    def free_memory(self) -> None:
        free, total = self._cupy.cuda.runtime.memGetInfo()
        if free < total // 2:  # otherwise the pool keeps its memory, as it does for users
            self.give_memory_back()

    def free_bytes(self) -> int | None:
        return int(self._cupy.cuda.runtime.memGetInfo()[0])

    @contextmanager
    def peak_memory(self) -> Iterator[list[int]]:
        self.give_memory_back()
        with peak_memory(self._cupy) as found:
            yield found

    def kernel_seconds(self, call: Callable[[], Any], repeat: int) -> float:
        event = self._cupy.cuda.Event
        ahead = self._cupy.empty(self._ahead_bytes, dtype=self._cupy.uint8)
        call()
        found = []
        for _ in range(repeat):
            begin, end = event(), event()
            ahead.fill(0)  # the host launches meanwhile, so no gaps between kernels are timed
            begin.record()
            call()
            end.record()
            end.synchronize()
            found.append(1e-3 * self._cupy.cuda.get_elapsed_time(begin, end))
        return statistics.median(found)


def _is_missing(error: Exception) -> bool:
    """Whether CuPy's error means that there is no device, and nvidia-smi finds none either."""
    is_said = isinstance(error, ImportError) or getattr(error, "status", 0) in _NO_DEVICE_STATUS
    return is_said and driver_version() is None


def ceilings_text() -> str:
    """Source text of the ceilings' kernels, with the prelude that they need."""
    source = importlib.import_module("gpuboost.backends.cuda.runtime.source")
    parts = {
        source.PRELUDE: source.spliced(source.PRELUDE),
        CEILINGS.name: CEILINGS.read_text("utf-8"),
    }
    return "\n".join(f'#line 1 "{name}"\n{text}' for name, text in parts.items())


def driver_version() -> str | None:
    """Version of the driver from nvidia-smi, or None if that finds no driver or device."""
    try:
        said = subprocess.run(_DRIVER_QUERY, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if said.returncode:
        return None
    return said.stdout.partition("\n")[0].rpartition(",")[2].strip() or None


class StagedBackend:
    """A backend that resets the counts when growing begins, so that they only cover growing.

    Attributes
    ----------
    growing_since : float
        Value of `time.perf_counter` when the last fit began to grow, after it had read, binned and
        quantised its data.
    waits_before : int
        Number of waits of the host until then.
    """

    def __init__(self, backend: Any, device: Device) -> None:
        self._backend, self._device = backend, device
        self.growing_since, self.waits_before = 0.0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def grow(self, task: Any) -> Iterator[Any]:
        """Grow the trees of a task."""
        self._begin()
        return self._backend.grow(task)

    def grow_finished(self, task: Any) -> Iterator[Any]:
        """Grow the trees of a task and finish them."""
        self._begin()
        return self._backend.grow_finished(task)

    def booster(self, task: Any) -> Any:
        """Start a fit of gradient boosting."""
        self._begin()
        return self._backend.booster(task)

    def reweighter(self, task: Any) -> Any:
        """Start a fit of AdaBoost."""
        self._begin()
        return self._backend.reweighter(task)

    def _begin(self) -> None:
        self._device.wait()
        self.waits_before = self._device.counts.of.get(WAIT, 0)
        self._device.counts.clear()
        self.growing_since = time.perf_counter()


class Served:
    """A context in which estimators use a device's backend instead of choosing one."""

    def __init__(self, device: Device) -> None:
        self._backend = device.backend
        self._modules = [importlib.import_module(name) for name in _WHERE]

    def __enter__(self) -> None:
        self._chosen = [getattr(module, _INTERCEPTED) for module in self._modules]
        for module in self._modules:
            setattr(module, _INTERCEPTED, lambda device, work: self._backend)

    def __exit__(self, *reason: object) -> None:
        for module, chosen in zip(self._modules, self._chosen, strict=True):
            setattr(module, _INTERCEPTED, chosen)


def on_host(array: Any) -> np.ndarray:
    """Copy an array of any device to a NumPy array."""
    return array.get() if hasattr(array, "get") else np.asarray(array)
