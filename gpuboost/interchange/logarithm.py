"""The logarithm of float32 as XGBoost computes it: by the C library.

C libraries round a few results differently from the nearest float32 (glibc: one in 250), so raw
predictions have XGBoost's bits only if the base score is converted by the same function.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Callable
from functools import cache

import numpy as np

from gpuboost.engine.numerics import log


def log_of_float32(x: np.ndarray) -> np.ndarray:
    """Logarithms of positive float32 values (k,), each a call of the C library."""
    of_one = _logf()
    if of_one is None:
        return log(x.astype(np.float64)).astype(np.float32)
    return np.array([of_one(value) for value in x.tolist()], dtype=np.float32)


@cache
def _logf() -> Callable[[float], float] | None:
    """The function of the C library; None if it cannot be found."""
    name = "ucrtbase" if sys.platform == "win32" else ctypes.util.find_library("m")
    try:
        found = ctypes.CDLL(name).logf
    except (AttributeError, OSError, TypeError):
        return None
    found.restype, found.argtypes = ctypes.c_float, [ctypes.c_float]
    return found
