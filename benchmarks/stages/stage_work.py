"""What the timings of stages share: the size of the data, the backends, and facts of a result."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from gpuboost.backends.numpy.backend import NumpyBackend

ROWS_VARIABLE = "GPUBOOST_STAGE_ROWS"
N_ROWS = int(os.environ.get(ROWS_VARIABLE, 100_000))
N_FEATURES = 28
N_THREADS = 2
SIZE = f"{N_ROWS:,} x {N_FEATURES}"


def has_numba() -> bool:
    """Whether the Numba backend can be used."""
    try:
        backend("numba")
    except ImportError:
        return False
    return True


@cache
def backend(name: str) -> Any:
    """A backend by name."""
    if name == "numpy":
        return NumpyBackend()
    from gpuboost.backends.numba.backend import NumbaBackend

    return NumbaBackend()


def note(benchmark: Any, stage: str, size: str, backend: str | None = None) -> None:
    """Store the stage, size and backend of a measurement in its result."""
    benchmark.extra_info.update(stage=stage, size=size)
    if backend is not None:
        benchmark.extra_info["backend"] = backend
