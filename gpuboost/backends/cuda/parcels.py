"""Arrays that the host reads together: in one piece of memory, so that they are copied at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpuboost.backends.cuda.level import allocate_with_memory, cut, places_of, room_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuboost.backends.cuda.level import Columns
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array

_BETWEEN = bytes(8)  # arrays begin at multiples of as many


class Parcel:
    """Arrays of the device that the host reads together.

    Where arrays are asked to be separate, see `level.is_separate`, the copy alone is one piece.

    Parameters
    ----------
    xp : module
    columns : Columns
        Type and shape of each array.

    Attributes
    ----------
    arrays : dict of str to array
    n_bytes : int
        Of all of them.
    """

    def __init__(self, xp: Any, columns: Columns) -> None:
        self.arrays, self._memory = allocate_with_memory(xp, columns)
        self._columns, self._fields = columns, fields_of(columns)
        self.n_bytes = room_of(columns)

    def read_later(self, runtime: Runtime) -> Callable[[], HostParcel]:
        """Start to copy them, after what was launched; the call waits for the copy."""
        if self._memory is not None:
            read = runtime.read_later(self._memory)
            return lambda: HostParcel(read(), self._fields)
        reads = {name: runtime.read_later(array) for name, array in self.arrays.items()}

        def read_all() -> HostParcel:
            return HostParcel.of({name: read() for name, read in reads.items()}, self._columns)

        return read_all


def read_all_later(
    runtime: Runtime, arrays: Mapping[str, Array], beside: HostParcel
) -> Callable[[], HostParcel]:
    """Start to copy arrays, each by itself; the call puts them together with what is there."""
    reads = {name: runtime.read_later(array) for name, array in arrays.items()}

    def read_all() -> HostParcel:
        copied = {name: read() for name, read in reads.items()}
        whole = {name: beside.part(name, 0, beside.length(name)) for name in beside.names} | copied
        columns: Columns = {name: (array.dtype, array.shape) for name, array in whole.items()}
        return HostParcel.of(whole, columns)

    return read_all


class Field(NamedTuple):
    """Where an array begins, in bytes, what the items of its first axis are, and how many."""

    at: int
    dtype: np.dtype
    shape: tuple[int, ...]
    size: int
    n_bytes: int
    length: int


def fields_of(columns: Columns) -> dict[str, Field]:
    """The arrays of a piece of memory, as `level.cut` has them."""
    found = {}
    for (name, (dtype, shape)), at in zip(columns.items(), places_of(columns), strict=True):
        kind, size = np.dtype(dtype), math.prod(shape[1:])
        found[name] = Field(at, kind, shape[1:], size, size * kind.itemsize, shape[0])
    return found


class HostParcel:
    """A copy of a parcel on the host.

    Parameters
    ----------
    memory : uint8
    fields : mapping of str to Field
    """

    def __init__(self, memory: np.ndarray, fields: Mapping[str, Field]) -> None:
        self._memory, self._fields = memory, fields

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], columns: Columns) -> HostParcel:
        """Put arrays into one piece of memory."""
        memory = np.empty(room_of(columns), dtype=np.uint8)
        for name, to in cut(memory, columns).items():
            to[...] = arrays[name]
        return cls(memory, fields_of(columns))

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def __len__(self) -> int:
        return len(self._memory)

    def part(self, name: str, first: int, end: int) -> np.ndarray:
        """Some items of an array, where they lie."""
        field = self._fields[name]
        at, n = field.at + first * field.n_bytes, end - first
        found = np.frombuffer(self._memory, field.dtype, n * field.size, at)
        return found.reshape(n, *field.shape) if field.shape else found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(self._fields)

    def length(self, name: str) -> int:
        """Items of an array."""
        return self._fields[name].length

    def bytes_of(self, length: Mapping[str, int]) -> int:
        """Bytes of the first items of some arrays."""
        return sum(n * self._fields[name].n_bytes for name, n in length.items())

    def shortened(self, length: Mapping[str, int]) -> HostParcel:
        """The first items of some arrays, in memory of their own."""
        view, parts, fields, at = self._memory.data, list[Any](), {}, 0
        for name, n in length.items():
            own = self._fields[name]
            n_bytes = n * own.n_bytes
            parts += [view[own.at : own.at + n_bytes], _BETWEEN[: -n_bytes % len(_BETWEEN)]]
            fields[name] = own._replace(at=at, length=n)
            at += n_bytes + len(parts[-1])
        return HostParcel(np.frombuffer(bytearray().join(parts), dtype=np.uint8), fields)
