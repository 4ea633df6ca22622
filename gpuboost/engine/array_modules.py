"""The array module of an array and its device: NumPy on the host, CuPy on a GPU.

CuPy is never imported here: whoever made a CuPy array has imported it.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np


def array_module(array: Any) -> Any:
    """CuPy for CuPy arrays, else NumPy."""
    return np if isinstance(array, np.ndarray) else sys.modules["cupy"]


def is_cupy_array(values: Any) -> bool:
    """Whether an object is a CuPy array."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(values, cupy.ndarray)


def working_on(array: Any) -> AbstractContextManager[Any]:
    """A context that makes the device of an array the current one."""
    return nullcontext() if isinstance(array, np.ndarray) else array.device


def copy_to_host(array: Any) -> np.ndarray:
    """A NumPy array as it is, a CuPy array as a copy on the host."""
    if not hasattr(array, "get"):
        return array
    with working_on(array):
        return array.get()
