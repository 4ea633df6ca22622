"""The CUDA devices that can be used, and why others cannot. CuPy is imported on the first call.

The results hold for one process: after `cuda_devices` has found a device, a forked child of the
process cannot use CUDA.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from functools import cache

OLDEST = 75  # lowest compute capability (times 10) for which tests compile the kernels
# In older versions a sort that ran out of memory for its workspace returned a wrong order without
# an error: https://github.com/cupy/cupy/issues/9894.
OLDEST_CUPY = (14, 1)


@dataclass(frozen=True)
class Device:
    """A CUDA device.

    Attributes
    ----------
    number : int
        N of "cuda:N".
    model : str
        Name of the model, such as "NVIDIA H200".
    capability : int
        Compute capability times 10, such as 90 for 9.0.
    memory : int
        Size of the device's memory in bytes.
    """

    number: int
    model: str
    capability: int
    memory: int


@dataclass(frozen=True)
class Found:
    """The devices that CuPy finds, or the reason why none can be used (else an empty string).

    The devices include those whose compute capability is below `OLDEST`.
    """

    devices: tuple[Device, ...]
    reason: str


def why_no_cuda(device: str = "cuda") -> str:
    """The reason why a device cannot be used, or an empty string if it can be used.

    Parameters
    ----------
    device : str
        "cuda", the current device, or "cuda:N".
    """
    found = cuda_devices()
    if found.reason:
        return found.reason
    number = device_number(device)
    if number >= len(found.devices):
        names = ", ".join(f"cuda:{one.number}" for one in found.devices)
        return f"CuPy finds {len(found.devices)} device(s): {names}"
    chosen = found.devices[number]
    if chosen.capability < OLDEST:
        return (
            f"{chosen.model} has compute capability {chosen.capability / 10:.1f}, the kernels need "
            f"{OLDEST / 10:.1f} or newer"
        )
    return ""


def device_number(device: str) -> int:
    """N of "cuda:N"; for "cuda", the current device of this thread."""
    _, colon, number = device.partition(":")
    if colon:
        return int(number)
    import cupy

    return int(cupy.cuda.runtime.getDevice())


def cuda_devices() -> Found:
    """All CUDA devices in the order of their numbers, or the reason why none can be used."""
    global _process
    if _process not in (None, os.getpid()):
        return Found((), "this process was forked from one that used CUDA; start it by spawn")
    found = _find(os.getpid())
    if found.devices:
        _process = os.getpid()
    return found


_process: int | None = None  # id of the process that found devices; a forked child inherits it


@cache
def _find(process: int) -> Found:
    if importlib.util.find_spec("cupy") is None:
        return Found(
            (),
            "CuPy is not installed; pip install gpuboost[cuda12] or gpuboost[cuda13], whichever "
            "the driver supports",
        )
    try:
        import cupy

        if tuple(map(int, cupy.__version__.split(".")[:2])) < OLDEST_CUPY:
            oldest = ".".join(map(str, OLDEST_CUPY))
            return Found(
                (),
                f"CuPy {cupy.__version__} sorts wrongly, without an error, if the device runs "
                "out of memory; pip install --upgrade gpuboost[cuda12] or gpuboost[cuda13] brings "
                f"{oldest} or newer",
            )
        devices = tuple(_read(number) for number in range(cupy.cuda.runtime.getDeviceCount()))
    except Exception as error:  # CuPy's exception types cannot be named before its import
        return Found((), f"CuPy finds no usable device ({type(error).__name__}: {error})")
    if not devices:
        return Found((), "CuPy finds no device")
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        return Found(
            (),
            f"CuPy finds no compiler ({type(error).__name__}: {str(error).strip()}); pip install "
            "gpuboost[cuda12] or gpuboost[cuda13] brings it",
        )
    return Found(devices, "")


def cuda_versions() -> str:
    """Versions of CuPy, of its compiler, and of the newest CUDA that the driver supports."""
    import cupy

    driver = cupy.cuda.runtime.driverGetVersion()
    compiler = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
    served = f"{driver // 1000}.{driver % 1000 // 10}"
    return f"CuPy {cupy.__version__}, NVRTC {compiler}, driver for CUDA {served}"


def _read(number: int) -> Device:
    """The device with this number, as CuPy describes it."""
    import cupy

    facts = cupy.cuda.runtime.getDeviceProperties(number)
    capability = 10 * facts["major"] + facts["minor"]
    return Device(number, facts["name"].decode(), capability, facts["totalGlobalMem"])
