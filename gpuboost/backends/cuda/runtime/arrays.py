"""Arrays of a device, cut from one piece of memory, and records of them."""

from __future__ import annotations

import math
from dataclasses import field, fields
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from gpuboost.engine.growth.frontier import Array

Record = TypeVar("Record")

_ALIGNMENT = 256  # bytes; where any array may begin


Columns = dict[str, tuple[Any, tuple[int, ...]]]  # dtype and shape of each array


def column(dtype: Any, *shape: str | int) -> Any:
    """A field of a dataclass that is an array: its type, and its lengths by name or as they are."""
    return field(metadata={"dtype": dtype, "shape": shape})


def columns_of(record: type, **lengths: int) -> Columns:
    """The arrays that a dataclass declares by `column`, where named lengths are so many."""
    return {
        each.name: (
            each.metadata["dtype"],
            tuple(lengths.get(n, n) for n in each.metadata["shape"]),
        )
        for each in fields(record)
        if each.metadata
    }


def empty(record: type[Record], xp: Any, others: dict[str, Any], **lengths: int) -> Record:
    """A record whose arrays are uninitialised; ``others`` are its fields that are not columns."""
    return record(**others, **allocate(xp, columns_of(record, **lengths)))


def allocate(xp: Any, columns: Columns) -> dict[str, Array]:
    """Arrays cut from one piece of memory, or separate ones, see `is_separate`."""
    return allocate_with_memory(xp, columns)[0]


def allocate_with_memory(xp: Any, columns: Columns) -> tuple[dict[str, Array], Array | None]:
    """Arrays, and the piece of memory that they are cut from; None where they are separate."""
    if is_separate(xp):
        return {name: xp.empty(shape, dtype) for name, (dtype, shape) in columns.items()}, None
    memory = one_piece(xp, columns)
    return cut(memory, columns), memory


def is_separate(xp: Any) -> bool:
    """Whether an array module wants every array in memory of its own.

    So a tool that checks accesses to memory sees where one array is left and another one begins.
    """
    return getattr(xp, "separate", False)


def one_piece(xp: Any, columns: Columns) -> Array:
    """Memory for `cut`."""
    return xp.empty(bytes_of(columns), dtype=xp.uint8)


def bytes_of(columns: Columns) -> int:
    """Bytes that `one_piece` takes."""
    return sum(_padded_bytes(*column) for column in columns.values())


def places_of(columns: Columns) -> list[int]:
    """Where arrays begin in `one_piece`, in bytes."""
    return [0, *accumulate(_padded_bytes(*column) for column in columns.values())][: len(columns)]


def cut(memory: Array, columns: Columns) -> dict[str, Array]:
    """The arrays of a piece of memory, on the device or copied to the host as a whole."""
    arrays = {}
    for (name, (dtype, shape)), at in zip(columns.items(), places_of(columns), strict=True):
        array = memory[at : at + _bytes(dtype, shape)].view(dtype)
        arrays[name] = array if len(shape) == 1 else array.reshape(shape)
    return arrays


@lru_cache(4096)  # the host cuts a round again for every tree it finishes
def _bytes(dtype: Any, shape: tuple[int, ...]) -> int:
    return np.dtype(dtype).itemsize * math.prod(shape)


@lru_cache(4096)
def _padded_bytes(dtype: Any, shape: tuple[int, ...]) -> int:
    return -(-_bytes(dtype, shape) // _ALIGNMENT) * _ALIGNMENT
