"""Which array module an array is of, and where it lies: NumPy's on the host, CuPy's on a GPU.

CuPy is met, never fetched: whoever made one of its arrays has imported it.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np


def array_module(array: Any) -> Any:
    """NumPy, or CuPy for its arrays."""
    return np if isinstance(array, np.ndarray) else sys.modules["cupy"]


def is_cupy_array(values: Any) -> bool:
    """Whether something is an array of CuPy."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(values, cupy.ndarray)


def working_on(array: Any) -> AbstractContextManager[Any]:
    """A context in which the device of an array is the current one."""
    return nullcontext() if isinstance(array, np.ndarray) else array.device


def copy_to_host(array: Any) -> np.ndarray:
    """An array of NumPy as it is, one of CuPy as a copy on the host."""
    if not hasattr(array, "get"):
        return array
    with working_on(array):
        return array.get()
