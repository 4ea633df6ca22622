"""Arrays of the fake CuPy for tests."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tests.fakes import fake_cupy


def to_gpu(array: np.ndarray, number: int = 0) -> Any:
    """Copy an array to a device of the fake CuPy."""
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(number):
        return cupy.asarray(array)


def to_cpu(array: Any) -> np.ndarray:
    """Copy an array of a device to the host."""
    assert isinstance(array, fake_cupy.Array)
    with array.device:
        return array.get()


class Tensor:
    """An array of another library that shares the memory of a CuPy array."""

    def __init__(self, array: Any, kind: int | None) -> None:
        self.array = array
        self.get = array.get
        if kind is None:
            self.__cuda_array_interface__ = array.__cuda_array_interface__
        else:
            self.__dlpack_device__ = lambda: (kind, array.device.id)
            self.__dlpack__ = lambda **_: array
