"""Array modules: NumPy for arrays on the host, CuPy for arrays on a GPU.

CuPy is never imported here: if there is a CuPy array, CuPy has been imported already.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np


def array_module(array: Any) -> Any:
    """The module of an array: CuPy or NumPy."""
    return np if isinstance(array, np.ndarray) else sys.modules["cupy"]


def is_cupy_array(values: Any) -> bool:
    """Whether an object is a CuPy array."""
    kind = getattr(sys.modules.get("cupy"), "ndarray", None)  # None while CuPy is being imported
    return kind is not None and isinstance(values, kind)


def working_on(array: Any) -> AbstractContextManager[Any]:
    """Context manager that makes the device of an array the current device."""
    return nullcontext() if isinstance(array, np.ndarray) else array.device


def copy_to_host(array: Any) -> np.ndarray:
    """Copy a CuPy array to the host; return a NumPy array unchanged."""
    if not hasattr(array, "get"):
        return array
    with working_on(array):
        return array.get()
