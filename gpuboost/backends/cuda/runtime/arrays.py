"""Device arrays that share one piece of memory, and records that declare such arrays."""

from __future__ import annotations

import math
from dataclasses import field, fields
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from gpuboost.engine.growth.frontier import Array

Record = TypeVar("Record")

_ALIGNMENT = 256  # bytes; arrays begin at multiples of this


Columns = dict[str, tuple[Any, tuple[int, ...]]]  # dtype and shape of each array


def column(dtype: Any, *shape: str | int) -> Any:
    """Declare a dataclass field as an array; each length is an integer or a named length."""
    return field(metadata={"dtype": dtype, "shape": shape})


def columns_of(record: type, **lengths: int) -> Columns:
    """Types and shapes of a dataclass's `column` fields, for these values of named lengths."""
    return {
        each.name: (
            each.metadata["dtype"],
            tuple(lengths.get(n, n) for n in each.metadata["shape"]),
        )
        for each in fields(record)
        if each.metadata
    }


def empty(record: type[Record], xp: Any, others: dict[str, Any], **lengths: int) -> Record:
    """Make a record with uninitialised arrays; ``others`` are its fields that are not columns.

    ``lengths`` are the values of named lengths. The arrays are allocated by `allocate`.
    """
    return record(**others, **allocate(xp, columns_of(record, **lengths)))


def allocate(xp: Any, columns: Columns) -> dict[str, Array]:
    """Allocate arrays, in one piece of memory unless they are separate (see `is_separate`)."""
    return allocate_with_memory(xp, columns)[0]


def allocate_with_memory(xp: Any, columns: Columns) -> tuple[dict[str, Array], Array | None]:
    """Allocate arrays; return them and the memory they share, or None if they are separate."""
    if is_separate(xp):
        return {name: xp.empty(shape, dtype) for name, (dtype, shape) in columns.items()}, None
    memory = one_piece(xp, columns)
    return cut(memory, columns), memory


def is_separate(xp: Any) -> bool:
    """Whether every array is allocated separately.

    A tool that checks memory accesses can then detect an access beyond the end of an array.
    """
    return getattr(xp, "separate", False)


def one_piece(xp: Any, columns: Columns) -> Array:
    """Allocate the memory that `cut` divides into arrays."""
    return xp.empty(bytes_of(columns), dtype=xp.uint8)


def bytes_of(columns: Columns) -> int:
    """Bytes that `one_piece` allocates: those of the arrays, each padded to the alignment."""
    return sum(_padded_bytes(*column) for column in columns.values())


def places_of(columns: Columns) -> list[int]:
    """Byte offset of each array in `one_piece`."""
    return [0, *accumulate(_padded_bytes(*column) for column in columns.values())][: len(columns)]


def cut(memory: Array, columns: Columns) -> dict[str, Array]:
    """Return views of the arrays in memory from `one_piece`, or in a copy of it on the host."""
    arrays = {}
    for (name, (dtype, shape)), at in zip(columns.items(), places_of(columns), strict=True):
        array = memory[at : at + _bytes(dtype, shape)].view(dtype)
        arrays[name] = array if len(shape) == 1 else array.reshape(shape)
    return arrays


@lru_cache(4096)  # called again for every tree of a round
def _bytes(dtype: Any, shape: tuple[int, ...]) -> int:
    return np.dtype(dtype).itemsize * math.prod(shape)


@lru_cache(4096)
def _padded_bytes(dtype: Any, shape: tuple[int, ...]) -> int:
    return -(-_bytes(dtype, shape) // _ALIGNMENT) * _ALIGNMENT
