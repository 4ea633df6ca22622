"""Converts the arguments of a launch to a kernel's parameters, and refuses wrong ones."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np


class ParameterStruct(ctypes.Structure):
    """``shim::Parameter`` of kernel_entry.h."""

    _fields_ = (
        ("passing", ctypes.c_char),
        ("kind", ctypes.c_char),
        ("component_bytes", ctypes.c_short),
        ("bytes", ctypes.c_short),
        ("alignment", ctypes.c_short),
    )


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: how it is passed, and its type."""

    is_pointer: bool
    is_const: bool
    kind: str
    component_bytes: int
    bytes: int
    alignment: int

    @classmethod
    def from_struct(cls, raw: ParameterStruct) -> Parameter:
        """Read a parameter from the compiled kernel's description."""
        passing = raw.passing.decode()
        return cls(
            is_pointer=passing in "pc",
            is_const=passing == "c",
            kind=raw.kind.decode(),
            component_bytes=raw.component_bytes,
            bytes=raw.bytes,
            alignment=raw.alignment,
        )

    def __str__(self) -> str:
        names = {"i": "int", "u": "uint", "f": "float", "b": "bool", "V": "struct"}
        if self.kind in "Vb":
            return names[self.kind] + (f" of {self.bytes} bytes" if self.kind == "V" else "")
        return f"{names[self.kind]}{8 * self.component_bytes}"

    def accepts(self, dtype: np.dtype[Any]) -> bool:
        """Whether values of this dtype have the parameter's type (a vector type: its parts)."""
        if self.kind == "V":
            return self.bytes == 1 or dtype.itemsize == self.bytes
        return (dtype.kind, dtype.itemsize) == (self.kind, self.component_bytes)


def check_argument(where: str, parameter: Parameter, value: Any) -> None:
    """Raise TypeError or ValueError unless `value` can be passed for `parameter`."""
    if parameter.is_pointer:
        if value is not None:
            _check_array(where, parameter, value)
    elif not isinstance(value, np.generic) or not parameter.accepts(value.dtype):
        given = f"NumPy {value.dtype}" if isinstance(value, np.generic) else type(value).__name__
        raise TypeError(f"{where}: given {given}, the kernel takes a NumPy scalar of {parameter}")


def _check_array(where: str, parameter: Parameter, value: Any) -> None:
    if not isinstance(value, np.ndarray):
        given = type(value).__name__
        raise TypeError(f"{where}: given {given}, the kernel takes an array of {parameter}")
    if not parameter.accepts(value.dtype):
        raise TypeError(
            f"{where}: given an array of {value.dtype}, the kernel takes one of {parameter}"
        )
    if not value.flags.c_contiguous:
        raise ValueError(f"{where}: the array is not C-contiguous, pass a contiguous copy")
    if not parameter.is_const and not value.flags.writeable:
        raise ValueError(f"{where}: the array is read-only and the kernel may write to it")
    if value.size and value.ctypes.data % parameter.alignment:
        raise ValueError(f"{where}: the array is not aligned to {parameter.alignment} bytes")


class PackedArguments:
    """The ``void**`` of a launch, with everything it points to kept alive."""

    def __init__(self, values: list[Any], addresses: dict[int, int]) -> None:
        self.pointers = (ctypes.c_void_p * max(1, len(values)))()
        self._kept: list[Any] = []
        for position, value in enumerate(values):
            if isinstance(value, np.generic):
                scalar = np.array([value])
                self._kept.append(scalar)
                self.pointers[position] = scalar.ctypes.data
            else:
                pointer = ctypes.c_void_p(addresses.get(position))
                self._kept.append((pointer, value))
                self.pointers[position] = ctypes.addressof(pointer)
