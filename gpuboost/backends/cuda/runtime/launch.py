"""Launches of kernels by name, and launches that fill arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.grid import blocks_for
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.signatures import kernel_signatures
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.growth.frontier import Array

_SCALARS: dict[str, type[np.generic]] = {
    "uint8": np.uint8,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
    "float": np.float32,
    "double": np.float64,
}
_FILLS = {  # by the size of an item in bytes
    1: ("fill_bytes", np.uint8),
    4: ("fill_words", np.uint32),
    8: ("fill_longs", np.uint64),
}
_NO_CONSTANTS: dict[str, int] = {}


def launch(
    runtime: Runtime,
    name: str,
    grid: int | tuple[int, ...],
    /,
    *records: Any,
    out: Any = None,
    constants: Any = _NO_CONSTANTS,
    block: Any = None,
    shared_mem: Any = 0,
    **values: Any,
) -> None:
    """Launch a kernel.

    The kernel's parameters are bound by name to keywords, or else to fields and properties of
    records. Numbers are converted to the types that the kernel declares.

    Parameters
    ----------
    runtime : Runtime
    name : str
        Name of the kernel, unique among all kernel files.
    grid : int or tuple of int
        Number of blocks, along each axis if it is a tuple; if any is 0, nothing is launched.
    *records : dataclass instances
        Each provides at least one parameter.
    out : dataclass instance, optional
        Its fields and properties are bound to parameters whose names end in ``_out``: ``count`` to
        ``count_out``.
    constants : mapping of str to int
        Constants defined when the kernel's file is compiled.
    block : tuple of int, optional
        Number of threads of a block along each axis; by default, one axis with the number in
        ``__launch_bounds__``, or 1024 without it.
    shared_mem : int
        Bytes of dynamic shared memory.
    **values
        Arrays and numbers, by the names of parameters.

    Raises
    ------
    LookupError
        No kernel has this name.
    TypeError
        A parameter is provided by no keyword and no record, or by no keyword but several records;
        or a keyword or a record provides no parameter.
    """
    owners = (out, *records)
    key = (name, *map(type, owners), *values)
    binding = _bindings.get(key) or _bindings.setdefault(key, _bind(name, owners, tuple(values)))
    kernel = runtime.kernel(binding.file_name, name, constants)
    blocks = grid if isinstance(grid, tuple) else (grid,)
    args = binding.arguments(values, *owners)
    kernel(blocks, block or binding.block, args, shared_mem)


@dataclass(frozen=True)
class _Binding:
    """The file and block of a kernel, and a function that collects its arguments.

    Attributes
    ----------
    file_name : str
        File of the kernel.
    block : tuple of int
        Default number of threads of a block along each axis.
    arguments : callable
        Function of the keywords and the records that returns the arguments of the kernel.
    """

    file_name: str
    block: tuple[int, ...]
    arguments: Callable[..., tuple[Any, ...]]


# Keys: name of the kernel, types of records, names of keywords.
_bindings: dict[tuple[Any, ...], _Binding] = {}


def _bind(name: str, owners: tuple[Any, ...], keywords: tuple[str, ...]) -> _Binding:
    """Bind the parameters of a kernel to ``out``, to records and to keywords."""
    signature = kernel_signatures().get(name)
    if signature is None:
        raise LookupError(f"no kernel file has a kernel {name}")
    made, *given = map(_fields, owners)
    offers = [{f"{field}_out": field for field in made}]
    offers += [{field: field for field in record} for record in given]
    parameters = signature.declaration.parameters
    sources = [_source(name, each.name, keywords, offers) for each in parameters]
    _check_all_used(name, sources, keywords, owners)
    # A compiled lambda collects the arguments; looking them up one by one takes twice as long:
    # lambda values, r0, r1: (r1.size, int32(values['n_slots']), r0.count)
    taken = []
    for parameter, (number, own) in zip(parameters, sources, strict=True):
        value = f"values[{own!r}]" if number < 0 else f"r{number}.{offers[number][own]}"
        taken.append(value if parameter.is_pointer else f"{parameter.type_name}({value})")
    names = ", ".join(["values", *(f"r{number}" for number in range(len(owners)))])
    arguments = eval(f"lambda {names}: ({', '.join(taken)},)", dict(_SCALARS))
    return _Binding(signature.file_name, (signature.n_threads,), arguments)


def _fields(record: Any) -> list[str]:
    """Names of the fields and properties of a record."""
    if not is_dataclass(record):
        return []
    kind = type(record)
    computed = (name for name in dir(kind) if isinstance(getattr(kind, name), _COMPUTED))
    return [*(field.name for field in fields(record)), *computed]


_COMPUTED = (property, cached_property)


def _source(
    kernel: str, name: str, keywords: tuple[str, ...], offers: list[dict[str, str]]
) -> tuple[int, str]:
    """Find what provides a parameter: the number of the record (-1 for a keyword), and the name."""
    if name in keywords:
        return -1, name
    found = [number for number, offered in enumerate(offers) if name in offered]
    if len(found) == 1:
        return found[0], name
    if found:
        raise TypeError(f"{kernel}: {len(found)} records offer {name}; give it as a keyword")
    raise TypeError(f"{kernel}: nothing offers {name}; give a keyword or a record that has it")


def _check_all_used(
    kernel: str, sources: list[tuple[int, str]], keywords: tuple[str, ...], owners: tuple[Any, ...]
) -> None:
    """Raise TypeError if a keyword or a record provides no parameter of a kernel."""
    left_over = [name for name in keywords if (-1, name) not in sources]
    used = {number for number, _ in sources}
    left_over += [
        type(owner).__name__
        for number, owner in enumerate(owners)
        if number not in used and owner is not None
    ]
    if left_over:
        raise TypeError(f"{kernel} does not use {', '.join(left_over)}")


# ---- filling of arrays ---------------------------------------------------------------------------


def zeros(runtime: Runtime, shape: int | tuple[int, ...], dtype: Any) -> Array:
    """Allocate an array of zeros."""
    return full(runtime, shape, 0, dtype)


def full(runtime: Runtime, shape: int | tuple[int, ...], value: float, dtype: Any) -> Array:
    """Allocate an array and write ``value`` to every item."""
    array = runtime.xp.empty(shape, dtype=dtype)
    fill(runtime, array, value)
    return array


def fill(runtime: Runtime, array: Array, value: float) -> None:
    """Write ``value`` to every item of a contiguous array, whose items have 1, 4 or 8 bytes."""
    name, kind = _FILLS[array.dtype.itemsize]
    word = np.array([value], dtype=array.dtype).view(kind)[0]
    to, n = array.reshape(-1).view(kind), array.size
    launch(runtime, name, _fill_blocks(n), to=to, n=n, value=word)


def count_up(runtime: Runtime, array: Array, step: int) -> None:
    """Write 0, step, 2 step, ... to an array of int32."""
    launch(runtime, "count_up", _fill_blocks(len(array)), to=array, n=len(array), step=step)


def _fill_blocks(n: int) -> int:
    return blocks_for(n, constant("common/fill.cu", "FILL_THREADS"), is_light=True)
