"""Choice of the backend. Only this module creates backends; each is imported on first use.

All backends make the same model, so "auto" chooses by speed alone: the seconds estimated by
`gpuboost.backends.cost_model` plus the time to start the backend. A GPU is chosen if it is at least
`CUDA_LEAD` times faster than NumPy and Numba. The choice depends on earlier work in the process: a
backend that is already started costs nothing to start, and in the choice between NumPy and Numba,
the estimated time that NumPy has run in place of Numba is subtracted from the time to start Numba.
Numba starts separately for each program (`cache.PROGRAMS`), such as growth or prediction.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from gpuboost.backends.cache import BIN, PREDICT, cache_folder, compiled_programs
from gpuboost.backends.cost_model import CUDA_START_SECONDS, WorkTimes, slowness
from gpuboost.backends.devices import device_number, why_no_cuda
from gpuboost.backends.protocol import Backend

if TYPE_CHECKING:
    from gpuboost.backends.cuda.backend import CudaBackend

DEVICES = '"auto", "cpu", "cuda", "cuda:N", "numpy" or "numba"'
# Seconds that count for the start of Numba on a machine that has the default `cost_model.Speed`: to
# compile, or half of the time to import Numba and to read compiled code from disk, because a first
# fit is rarely the last. The seconds that NumPy has run instead are subtracted.
LOAD_SECONDS, COMPILE_SECONDS = 0.1, 2.5
# The same of small programs: binning and prediction. If Numba runs already, as after a fit, loading
# the code for predictions only reads it from disk.
START_SECONDS = {BIN: (0.1, 0.7), PREDICT: (0.2, 0.6)}
PREDICT_READ_SECONDS = 0.05
# A prediction by NumPy counts as at least this, because a process that predicts few rows again and
# again, as a service does, will do so for long: with Numba's code on disk, it starts Numba after
# at most 40 calls.
MIN_PREDICTION_SECONDS = 5e-3
CUDA_COMPILE_SECONDS = 5.0  # all kernels, once per installation
CUDA_LEAD = 2.0  # a GPU must be this many times faster: it may be shared, and estimates are rough


def choose_backend(device: Any, work: WorkTimes) -> Backend:
    """Choose the backend for a device.

    Parameters
    ----------
    device : str
        "auto": the fastest usable backend for the work, where a GPU (the current device) needs a
        lead of `CUDA_LEAD`; "cpu": the faster of NumPy and Numba, or NumPy if Numba does not work;
        "numpy", "numba", "cuda" (the current device) or "cuda:N": this backend and device.
    work : WorkTimes
        Estimated seconds of the work in each backend.

    Raises
    ------
    ValueError
        ``device`` is none of these.
    RuntimeError
        The device cannot be used here; the message says why.
    """
    check_device(device)
    if device == "auto" and _cuda_pays(work):
        device = "cuda"
    if device.startswith("cuda"):
        return cuda_backend(device_number(device))
    if device in ("auto", "cpu"):
        device = "numba" if _numba_pays(work) else "numpy"
        if device == "numpy":
            smallest = MIN_PREDICTION_SECONDS if work.program == PREDICT else 0.0
            _spent[work.program] = _spent.get(work.program, 0.0) + max(work.numpy, smallest)
    if device == "numpy":
        return numpy_backend()
    _loaded_programs.add(work.program)
    return _numba_backend()


def backend_of(array: Any) -> CudaBackend:
    """The backend of the device that a CuPy array is on."""
    return cuda_backend(array.device.id)


def check_device(device: Any) -> None:
    """Check that a device exists and can be used here; raise as `choose_backend` does."""
    if device in ("auto", "cpu", "numpy"):
        return
    if not isinstance(device, str) or not re.fullmatch(r"numba|cuda(:\d+)?", device):
        raise ValueError(f"device must be {DEVICES}, got {device!r}")
    reason = _why_no_numba() if device == "numba" else why_no_cuda(device)
    if reason:
        raise RuntimeError(
            f'device={device!r} cannot be used: {reason}. device="auto" uses a backend that works'
        )


def available_backends() -> list[tuple[str, bool, str]]:
    """The name of every backend, whether it can be used, and the reason if it cannot.

    "cuda" stands for the current device.
    """
    reasons = {"numpy": "", "numba": _why_no_numba(), "cuda": why_no_cuda()}
    return [(name, not reason, reason) for name, reason in reasons.items()]


_loaded_programs: set[str] = set()  # programs that Numba has run in this process
_spent: dict[str, float] = {}  # estimated seconds of NumPy in place of a Numba program
_started_cuda: set[int] = set()  # ids of processes that started CUDA; a forked child has a new id


def _numba_pays(work: WorkTimes) -> bool:
    """Whether Numba can be used and is faster than NumPy.

    The time to start Numba counts, minus the time that NumPy has run in place of this program.
    """
    saved = work.numpy - work.numba
    lost = _numba_start_seconds(work.program) - _spent.get(work.program, 0.0)
    return saved > max(lost, 0.0) and not _why_no_numba()


def _cuda_pays(work: WorkTimes) -> bool:
    """Whether a GPU is `CUDA_LEAD` times faster than the other backends, and can be used.

    Whether it can be used is checked last, since that imports CuPy. Whether Numba can be used is
    not checked.
    """
    fastest = min(work.numpy, work.numba + _numba_start_seconds(work.program))
    if CUDA_LEAD * work.cuda >= fastest:
        return False
    return CUDA_LEAD * (work.cuda + _cuda_start_seconds()) < fastest and not why_no_cuda()


def _cuda_start_seconds() -> float:
    """Seconds to start CUDA in this process: 0 if it has been started."""
    if os.getpid() in _started_cuda:
        return 0.0
    compiled = any((cache_folder() / "kernels").glob("*.cubin"))
    return CUDA_START_SECONDS + (0.0 if compiled else CUDA_COMPILE_SECONDS)


def _numba_start_seconds(program: str) -> float:
    """Seconds that count for loading or compiling a program with Numba: 0 if it is loaded."""
    if program in _loaded_programs:
        return 0.0
    load, compilation = START_SECONDS.get(program, (LOAD_SECONDS, COMPILE_SECONDS))
    if program == PREDICT and _loaded_programs:
        load = PREDICT_READ_SECONDS
    return slowness() * (load if program in _programs_on_disk() else compilation)


@cache
def _programs_on_disk() -> frozenset[str]:
    """Programs of the Numba backend whose machine code was on disk at the first call."""
    return frozenset(compiled_programs())


@cache
def numpy_backend() -> Backend:
    """The NumPy backend."""
    from gpuboost.backends.numpy.backend import NumpyBackend

    return NumpyBackend()


def numba_runs(program: str) -> bool:
    """Whether this process has started a program of Numba."""
    return program in _loaded_programs


def cpu_predictor() -> Backend:
    """The backend that predicts fastest in repeated calls on the CPU: Numba if it works."""
    return choose_backend("cpu", WorkTimes(PREDICT, numpy=math.inf, numba=0.0))


@cache
def _numba_backend() -> Backend:
    from gpuboost.backends.numba.backend import NumbaBackend

    return NumbaBackend()


def cuda_backend(number: int) -> CudaBackend:
    """The backend of the CUDA device with this number."""
    _started_cuda.add(os.getpid())
    return _backend_of(number)


@cache
def _backend_of(number: int) -> CudaBackend:
    from gpuboost.backends.cuda.backend import CudaBackend
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    return CudaBackend(CupyRuntime(number), _host_backend)


def _host_backend() -> Backend:
    """The backend of the host for large fits: Numba if it can be used."""
    return numpy_backend() if _why_no_numba() else _numba_backend()


@cache
def _why_no_numba() -> str:
    """The reason why Numba cannot be used, empty if it can. This imports Numba if installed."""
    if importlib.util.find_spec("numba") is None:
        return "Numba is not installed; pip install numba"
    try:
        _numba_backend()
    except Exception as error:  # a broken installation can raise anything; NumPy works without it
        return f"Numba does not work here ({type(error).__name__}: {error})"
    return ""
