"""Arrays that the host reads together, in one copy, because they share one piece of memory."""

from __future__ import annotations

import math
from collections.abc import Callable, KeysView, Mapping
from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.cuda.runtime.arrays import Columns, allocate_with_memory, bytes_of, places_of
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.engine.growth.frontier import Array

# Largest buffer of finished trees, in bytes, that is copied with its unused part. These times are
# assumed: a byte takes 0.02 ns on the bus and no host time. To copy only the used part, the host
# would wait 20 us for the table of trees and start a copy of each array, 10 us each, before it
# launches the next round. This takes 0.14 ms, in which the bus carries 7 MB.
MAX_WHOLE = 8 << 20
_SPARED = 1 << 14  # bytes; copies up to this are kept whole, which is faster than extracting parts
_ITEM_ALIGNMENT = 8  # bytes; arrays begin at multiples of this
_BETWEEN = bytes(_ITEM_ALIGNMENT)


def is_copied_whole(n_bytes: int) -> bool:
    """Whether arrays with this capacity in bytes are copied with their unused part."""
    return n_bytes <= MAX_WHOLE


class Readback:
    """Arrays of the device that the host reads together.

    If arrays are allocated separately (see `arrays.is_separate`), each is copied on its own.

    Parameters
    ----------
    xp : module
    columns : Columns
        Type and shape of each array.

    Attributes
    ----------
    arrays : dict of str to array
        The arrays, by name.
    n_bytes : int
        Bytes of all arrays, with padding.
    """

    def __init__(self, xp: Any, columns: Columns) -> None:
        self.arrays, self._memory = allocate_with_memory(xp, columns)
        self._fields = {name: field_of(*column) for name, column in columns.items()}
        lengths = (shape[0] for _, shape in columns.values())
        places = zip(places_of(columns), lengths, strict=True)
        self._spans = dict(zip(columns, places, strict=True))
        self.n_bytes = bytes_of(columns)

    def read_later(self, runtime: Runtime) -> Callable[[], HostCopy]:
        """Start to copy the arrays, after earlier launches.

        The returned function waits for the copy and returns it.
        """
        if self._memory is None:
            return read_later(runtime, self.arrays)
        spans, fields = self._spans, self._fields
        read, is_own = runtime.read_later(self._memory), self.n_bytes <= _SPARED

        def wait() -> HostCopy:
            memory = read().copy() if is_own else read()
            return HostCopy(dict.fromkeys(spans, memory.data), spans, fields, is_own)

        return wait


def read_later(runtime: Runtime, arrays: Mapping[str, Array]) -> Callable[[], HostCopy]:
    """Start to copy arrays one by one; the returned function waits for them and returns them."""
    reads = {name: runtime.read_later(array) for name, array in arrays.items()}
    return lambda: HostCopy.of({name: read() for name, read in reads.items()})


class Field(NamedTuple):
    """An item along the first axis of an array: type, shape, number of values, and bytes."""

    dtype: np.dtype
    shape: tuple[int, ...]
    size: int
    n_bytes: int


def field_of(dtype: Any, shape: tuple[int, ...]) -> Field:
    """The `Field` of an array with this type and shape."""
    kind, size = np.dtype(dtype), math.prod(shape[1:])
    return Field(kind, shape[1:], size, size * kind.itemsize)


class HostCopy:
    """Copies of arrays on the host.

    Parameters
    ----------
    memory : mapping of str to memoryview
        The bytes that contain each array; arrays may share them.
    spans : mapping of str to (int, int)
        Byte offset of each array, and its number of items along the first axis.
    fields : mapping of str to Field
        Type and shape of an item of each array.
    is_own : bool
        Whether nothing else uses the memory, so that it can be kept.
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
    def of(cls, arrays: Mapping[str, np.ndarray]) -> HostCopy:
        """Wrap copies in separate arrays, without copying them again."""
        memory = {name: array.reshape(-1).view(np.uint8).data for name, array in arrays.items()}
        spans = {name: (0, len(array)) for name, array in arrays.items()}
        fields = {name: field_of(array.dtype, array.shape) for name, array in arrays.items()}
        return cls(memory, spans, fields, False)

    @property
    def names(self) -> KeysView[str]:
        """Names of the arrays."""
        return self._spans.keys()

    def joined_with(self, others: HostCopy) -> HostCopy:
        """Combine these arrays with others, without copying."""
        memory, spans = {**self._memory, **others._memory}, {**self._spans, **others._spans}
        return HostCopy(memory, spans, {**self._fields, **others._fields}, False)

    def part(self, name: str, first: int, end: int) -> np.ndarray:
        """Return a view of the items from ``first`` to ``end`` (excluded) of an array."""
        field = self._fields[name]
        at, n = self._spans[name][0] + first * field.n_bytes, end - first
        found = np.frombuffer(self._memory[name], field.dtype, n * field.size, at)
        return found.reshape(n, *field.shape) if field.shape else found

    def length(self, name: str) -> int:
        """Number of items of an array along the first axis."""
        return self._spans[name][1]

    def kept(self, length: Mapping[str, int]) -> HostCopy:
        """Return a copy to keep.

        It is this whole copy if nothing else uses its memory. Otherwise the first ``length[name]``
        items of each array that ``length`` names are copied to new memory.
        """
        if self._is_own:
            return self
        parts, spans, at = list[Any](), {}, 0
        for name, n in length.items():
            first, n_bytes = self._spans[name][0], n * self._fields[name].n_bytes
            parts.append(self._memory[name][first : first + n_bytes])
            spans[name] = at, n
            at += n_bytes
            if at % _ITEM_ALIGNMENT:
                parts.append(_BETWEEN[at % _ITEM_ALIGNMENT :])
                at += len(parts[-1])
        memory = memoryview(bytearray().join(parts))
        return HostCopy(dict.fromkeys(spans, memory), spans, self._fields, is_own=True)
