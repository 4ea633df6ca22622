"""Which backend runs a piece of work. Backends are imported here, on first use, and nowhere else.

All backends make the same model, so "auto" may choose by speed alone. Each backend's seconds are
estimated from a few constants, measured on two cores of a server processor. Being wrong by a factor
of two costs little; starting a compiler for a small fit would cost a minute.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuboost.backends.protocol import Backend
    from gpuboost.engine.ensemble import Ensemble

DEVICES = '"auto", "cpu", "cuda", "cuda:N", "numpy" or "numba"'
GROW_ONE, GROW_MANY, PREDICT = "grow one channel", "grow many channels", "predict"
LOAD_SECONDS = 1.5  # import Numba and read compiled functions from disk
# A compiler takes up to a minute, but once for an installation: NumPy is left for work that would
# take this long with it, or every fit would go on with NumPy and none ever compile.
COMPILE_SECONDS = 10.0
# Machine code on disk that each program needs: name of the file, and variants at least.
COMPILED = {GROW_ONE: ("grow.grow", 1), GROW_MANY: ("grow.grow", 2), PREDICT: ("prediction.", 1)}


@dataclass(frozen=True)
class Work:
    """How long a piece of work takes in each backend, in seconds, once ``program`` is loaded."""

    program: str
    numpy: float
    numba: float


def growth_work(
    n_samples: int, n_looked_at: int, n_trees: int, max_depth: int, n_channels: int
) -> Work:
    """Growing trees: every level looks at so many features of every row."""
    n_levels = max(1.0, min(math.log2(n_samples), max_depth))
    visits = float(n_trees) * n_samples * n_looked_at * n_levels
    program = GROW_ONE if n_channels == 1 else GROW_MANY
    return Work(program, numpy=0.01 + 50e-9 * visits, numba=0.002 + 5e-9 * visits)


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
    if not isinstance(device, str) or not re.fullmatch(r"auto|cpu|numpy|numba|cuda(:\d+)?", device):
        raise ValueError(f"device must be {DEVICES}, got {device!r}")
    if device in ("auto", "cpu"):
        device = "numba" if _numba_pays(work) else "numpy"
    if device == "numpy":
        return _numpy_backend()
    reason = _why_no_numba() if device == "numba" else why_no_cuda()
    if reason:
        raise RuntimeError(
            f'device={device!r} cannot be used: {reason}. device="auto" takes what there is'
        )
    _loaded_programs.add(work.program)
    return _numba_backend()


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
    name, n_variants = COMPILED[program]
    return LOAD_SECONDS if _compiled_variants(name) >= n_variants else COMPILE_SECONDS


@cache
def _compiled_variants(name: str) -> int:
    """Variants of a function of the Numba backend that lie on disk as machine code."""
    caches = [Path(__file__).parent / "numba" / "__pycache__"]
    caches += [Path(path) for path in [os.environ.get("NUMBA_CACHE_DIR")] if path]
    return sum(1 for folder in caches for _ in folder.rglob(f"{name}*.nbc"))


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
