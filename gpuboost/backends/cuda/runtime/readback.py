"""Arrays that the host reads together: in one piece of memory, so that they are copied at once."""

from __future__ import annotations

import math
from collections.abc import Callable, KeysView, Mapping
from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.cuda.runtime.arrays import Columns, allocate_with_memory, bytes_of, places_of
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.engine.growth.frontier import Array

# Room for finished trees that is copied as a whole, though few of them be there. What there was
# room for takes 0.02 ns a byte of the bus, and nothing of the host. To copy only what there is, the
# host has to wait for the table, some 20 us, and to start a copy of each array, some 10 us each,
# before it launches the next round: 0.14 ms, in which the bus carries 7 MB.
MAX_WHOLE = 8 << 20
_SPARED = 1 << 14  # bytes of a copy that may be kept as a whole: cutting it would take longer
_ALIGNMENT = 8  # bytes; arrays begin at multiples of as many
_BETWEEN = bytes(_ALIGNMENT)


def is_copied_whole(n_bytes: int) -> bool:
    """Whether node arrays of this capacity, in bytes, are copied with their unused part."""
    return n_bytes <= MAX_WHOLE


class Readback:
    """Arrays of the device that the host reads together.

    If the array module wants separate arrays (`gpuboost.backends.cuda.runtime.arrays.is_separate`),
    they are not in one piece of memory and are copied one by one.

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
        self._fields = {name: field_of(*column) for name, column in columns.items()}
        lengths = (shape[0] for _, shape in columns.values())
        places = zip(places_of(columns), lengths, strict=True)
        self._spans = dict(zip(columns, places, strict=True))
        self.n_bytes = bytes_of(columns)

    def read_later(self, runtime: Runtime) -> Callable[[], HostCopy]:
        """Start to copy them, after what was launched; the call waits for the copy."""
        if self._memory is None:
            return read_later(runtime, self.arrays)
        read, packed = runtime.read_later(self._memory), (self._spans, self._fields)
        spares = self.n_bytes > _SPARED
        return lambda: HostCopy.whole(read() if spares else read().copy(), *packed, not spares)


def read_later(runtime: Runtime, arrays: Mapping[str, Array]) -> Callable[[], HostCopy]:
    """Start to copy arrays, each by itself; the call waits for all."""
    reads = {name: runtime.read_later(array) for name, array in arrays.items()}
    return lambda: HostCopy.of({name: read() for name, read in reads.items()})


class Field(NamedTuple):
    """What the items of the first axis of an array are."""

    dtype: np.dtype
    shape: tuple[int, ...]
    size: int
    n_bytes: int


def field_of(dtype: Any, shape: tuple[int, ...]) -> Field:
    """That of an array of a type and a shape."""
    kind, size = np.dtype(dtype), math.prod(shape[1:])
    return Field(kind, shape[1:], size, size * kind.itemsize)


class HostCopy:
    """Copies of arrays on the host.

    Parameters
    ----------
    memory : mapping of str to memoryview
        The bytes that each array lies in: of all of them, or its own.
    spans : mapping of str to (int, int)
        Where it begins there, and its items.
    fields : mapping of str to Field
    is_own : bool
        Whether the memory is nobody else's, and may be kept.
    """

    def __init__(
        self,
        memory: Mapping[str, memoryview],
        spans: Mapping[str, tuple[int, int]],
        fields: Mapping[str, Field],
        is_own: bool,
    ) -> None:
        self._memory, self._spans, self._fields = memory, spans, fields
        self._is_own = is_own

    @classmethod
    def whole(
        cls,
        memory: np.ndarray,
        spans: Mapping[str, tuple[int, int]],
        fields: Mapping[str, Field],
        is_own: bool,
    ) -> HostCopy:
        """Arrays in one piece of memory."""
        return cls(dict.fromkeys(spans, memory.data), spans, fields, is_own)

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> HostCopy:
        """Arrays where they lie."""
        memory = {name: array.reshape(-1).view(np.uint8).data for name, array in arrays.items()}
        spans = {name: (0, len(array)) for name, array in arrays.items()}
        fields = {name: field_of(array.dtype, array.shape) for name, array in arrays.items()}
        return cls(memory, spans, fields, False)

    @property
    def names(self) -> KeysView[str]:
        """Names of the arrays."""
        return self._spans.keys()

    def joined_with(self, others: HostCopy) -> HostCopy:
        """These arrays and others, where they lie."""
        memory, spans = {**self._memory, **others._memory}, {**self._spans, **others._spans}
        return HostCopy(memory, spans, {**self._fields, **others._fields}, False)

    def part(self, name: str, first: int, end: int) -> np.ndarray:
        """Some items of an array, where they lie."""
        field = self._fields[name]
        at, n = self._spans[name][0] + first * field.n_bytes, end - first
        found = np.frombuffer(self._memory[name], field.dtype, n * field.size, at)
        return found.reshape(n, *field.shape) if field.shape else found

    def length(self, name: str) -> int:
        """Items of an array."""
        return self._spans[name][1]

    def kept(self, length: Mapping[str, int]) -> HostCopy:
        """One that may be kept: the first items of some arrays, copied into memory of their own."""
        if self._is_own:
            return self
        parts, spans, at = list[Any](), {}, 0
        for name, n in length.items():
            first, n_bytes = self._spans[name][0], n * self._fields[name].n_bytes
            parts.append(self._memory[name][first : first + n_bytes])
            spans[name] = at, n
            at += n_bytes
            if at % _ALIGNMENT:
                parts.append(_BETWEEN[at % _ALIGNMENT :])
                at += len(parts[-1])
        memory = memoryview(bytearray().join(parts))
        return HostCopy(dict.fromkeys(spans, memory), spans, self._fields, is_own=True)
