"""Which backend runs a piece of work. Backends are imported here, on first use, and nowhere else.

All backends make the same model, so "auto" may choose by speed alone. Each backend's seconds are
estimated from a few constants, measured on two cores of a server processor. Being wrong by a factor
of two costs little; starting a compiler for a small fit would cost a minute.
"""

from __future__ import annotations

import importlib.util
import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from gpuboost.backends.compiled import GROW_MANY, GROW_ONE, PREDICT, compiled_programs

if TYPE_CHECKING:
    from gpuboost.backends.protocol import Backend
    from gpuboost.engine.ensemble import Ensemble

DEVICES = '"auto", "cpu", "cuda", "cuda:N", "numpy" or "numba"'
LOAD_SECONDS = 1.5  # import Numba and read compiled functions from disk
# A compiler takes up to a minute, but once for an installation: NumPy is left for work that would
# take this long with it, or every fit would go on with NumPy and none ever compile.
COMPILE_SECONDS = 10.0
NUMPY_CALL_SECONDS = 2e-4  # a feature, a level and a batch of trees, however few rows
NUMPY_BATCH_ROWS = 1 << 17  # rows of the trees that NumPy grows together


@dataclass(frozen=True)
class Work:
    """How long a piece of work takes in each backend, in seconds, once ``program`` is loaded."""

    program: str
    numpy: float
    numba: float


def growth_work(
    n_samples: int, n_looked_at: int, n_trees: int, max_depth: int, n_channels: int
) -> Work:
    """Growing trees: every level looks at so many features of every row.

    Most rows are in leaves after log2(n) levels; the last ones go about half as deep again.
    """
    depth = math.log2(max(2, n_samples))
    visits = float(n_trees) * n_samples * n_looked_at * min(depth, max_depth)
    n_batches = math.ceil(n_trees * n_samples / NUMPY_BATCH_ROWS)
    calls = float(n_batches) * n_looked_at * min(1.5 * depth, max_depth)
    program = GROW_ONE if n_channels == 1 else GROW_MANY
    numpy = 0.01 + NUMPY_CALL_SECONDS * calls + 50e-9 * visits
    return Work(program, numpy=numpy, numba=0.002 + 5e-9 * visits)


def prediction_work(n_samples: int, ensemble: Ensemble) -> Work:
    """Predicting: every row takes a step per level of every tree."""
    leaves = max(2.0, len(ensemble.left) / max(1, ensemble.n_trees) / 2)
    steps = float(n_samples) * ensemble.n_trees * 1.5 * math.log2(leaves)
    return Work(PREDICT, numpy=0.001 + 20e-9 * steps, numba=0.0005 + 3e-9 * steps)


def choose_backend(device: Any, work: Work) -> Backend:
    """The backend for a device.

    Parameters
    ----------
    device : str
        "auto" or "cpu": the faster of NumPy and Numba for the work; "numpy", "numba", "cuda" or
        "cuda:N": that one.
    work : Work

    Raises
    ------
    ValueError
        There is no such device.
    RuntimeError
        It cannot be used here; the message says why.
    """
    check_device(device)
    if device in ("auto", "cpu"):
        device = "numba" if _numba_pays(work) else "numpy"
    if device == "numpy":
        return _numpy_backend()
    _loaded_programs.add(work.program)
    return _numba_backend()


def check_device(device: Any) -> None:
    """Refuse what is no device, or cannot be used here, as `choose_backend` does."""
    if not isinstance(device, str) or not re.fullmatch(r"auto|cpu|numpy|numba|cuda(:\d+)?", device):
        raise ValueError(f"device must be {DEVICES}, got {device!r}")
    if device in ("auto", "cpu", "numpy"):
        return
    reason = _why_no_numba() if device == "numba" else why_no_cuda()
    if reason:
        raise RuntimeError(
            f'device={device!r} cannot be used: {reason}. device="auto" takes what there is'
        )


def available_backends() -> list[tuple[str, bool, str]]:
    """Name, whether it can be used, and if not why not, of every backend."""
    reasons = {"numpy": "", "numba": _why_no_numba(), "cuda": why_no_cuda()}
    return [(name, not reason, reason) for name, reason in reasons.items()]


_loaded_programs: set[str] = set()  # what Numba has run in this process


def _numba_pays(work: Work) -> bool:
    """Whether Numba is the faster, its start included."""
    return work.numba + _numba_start_seconds(work.program) < work.numpy and not _why_no_numba()


def _numba_start_seconds(program: str) -> float:
    """What is lost before Numba has loaded or compiled a program."""
    if program in _loaded_programs:
        return 0.0
    return LOAD_SECONDS if program in _programs_on_disk() else COMPILE_SECONDS


@cache
def _programs_on_disk() -> frozenset[str]:
    """Programs of the Numba backend that lie on disk as machine code, when first asked for."""
    return frozenset(compiled_programs())


@cache
def _numpy_backend() -> Backend:
    from gpuboost.backends.numpy import NumpyBackend

    return NumpyBackend()


@cache
def _numba_backend() -> Backend:
    from gpuboost.backends.numba import NumbaBackend

    return NumbaBackend()


@cache
def _why_no_numba() -> str:
    """Why Numba cannot be used, empty if it can. Numba is imported only where it is wanted."""
    if importlib.util.find_spec("numba") is None:
        return "Numba is not installed; pip install numba"
    try:
        _numba_backend()
    except Exception as error:  # a broken installation can raise anything; NumPy works without it
        return f"Numba does not work here ({type(error).__name__}: {error})"
    return ""


@cache
def why_no_cuda() -> str:
    """Why CUDA cannot be used."""
    if importlib.util.find_spec("cupy") is None:
        return (
            "CuPy is not installed; pip install gpuboost[cuda12] or gpuboost[cuda13], by the "
            "version of the driver"
        )
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy raises its own types, which cannot be named without it
        return f"CuPy finds no usable device ({type(error).__name__}: {error})"
    return (
        f"CuPy finds {count} device(s), but this version of gpuboost has no CUDA backend yet; use "
        'device="cpu"'
    )
