"""Compilation: our decorators, and the engine's formulas compiled from their one source.

`gpuboost.engine.numerics`, `randomness`, `criteria` and `losses.formulas` are written for arrays.
Here each is loaded a second time with its functions compiled for scalars, so what NumPy and Numba
compute is one text. The three functions that only arrays know (`select`, `bits_of`,
`float_of`) are replaced by machine instructions.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import importlib
import importlib.util
from collections.abc import Callable
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.core.caching import IndexDataCacheFile
from numba.extending import intrinsic

from gpuboost.backends.cache import (
    GROW_MANY,
    GROW_ONE,
    PREDICT,
    mark_compiled,
    source_stamp,
)

# Never fastmath: what decides is IEEE arithmetic in one written order. Helpers do not count
# references (`_nrt`): for tuples of arrays that costs more than looking at a small node. So they
# must not allocate; their arrays are alive as long as the entry that calls them runs.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_NOT_COUNTED: dict[str, Any] = {"_nrt": False}
# The compiler puts it into its caller.
inlined: Any = njit(**_OPTIONS, **_NOT_COUNTED, forceinline=True)
# A step of the one function that calls it: not optimised alone first, and then with its caller.
spliced: Any = njit(**_OPTIONS, **_NOT_COUNTED, inline="always")
# Stays a function of its own: large, or called once per node at most.
helper: Any = njit(**_OPTIONS, **_NOT_COUNTED)
# A helper that makes arrays.
allocating: Any = njit(**_OPTIONS)


def entry(function: Any) -> Any:
    """Compile on first call what Python calls, and keep the machine code on disk."""
    return _kept(njit(**_OPTIONS)(function))


def entry_without_counts(function: Any) -> Any:
    """The same for what makes no arrays: it and what is spliced into it count no references.

    What counts them would let go of arrays that uncounted helpers return and it never took.
    """
    return _kept(njit(**_OPTIONS, **_NOT_COUNTED)(function))


def _kept(dispatcher: Any) -> Any:
    """A compiled function whose machine code is kept on disk."""
    try:
        dispatcher.enable_caching()
    except RuntimeError:  # nowhere to write: compile in every process
        return dispatcher
    dispatcher._cache._cache_file = _stamped_file(dispatcher._cache, dispatcher.__name__)
    return dispatcher


class _MarkingFile(IndexDataCacheFile):
    """A cache file that also says, to those who have not imported Numba, what is compiled."""

    def __init__(self, folder: Path, name: str, program: Callable[[Any], str | None]) -> None:
        super().__init__(str(folder), name, source_stamp())
        self._folder, self._name, self._program = folder, name, program

    def save(self, key: Any, data: Any) -> None:
        """Keep a function compiled for the argument types ``key[0]``.

        Numba numbers the files of code by what it has read in the index. Processes that compile
        for different types at once would take one number, and one would find the other's code.
        """
        of_types = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        self._data_name_pattern = f"{self._name}-{of_types}.{{number:d}}.nbc"
        super().save(key, data)
        program = self._program(key[0])
        if program is not None:
            mark_compiled(self._folder, program)


# What an entry compiled for some argument types is the main part of.
_PROGRAMS: dict[str, Callable[[Any], str | None]] = {
    "grow": lambda arguments: GROW_ONE if types.none in arguments else GROW_MANY,
    "sum_values": lambda arguments: PREDICT,
    "sum_complete_values": lambda arguments: PREDICT,
}


def _stamped_file(cache: Any, function: str) -> IndexDataCacheFile:
    """The cache file of this state of the sources; files of other states are removed.

    Numba looks at the file of the function alone to tell whether its cache is stale, but the code
    of other files is compiled into it, and it reads signatures whose classes may be gone.
    """
    path, base = Path(cache.cache_path), cache._impl.filename_base
    name = f"{base}-{source_stamp()[:16]}"
    for old in path.glob(f"{glob.escape(base)}-*.nb[ic]"):
        if not old.name.startswith(name):
            with contextlib.suppress(OSError):
                old.unlink()
    return _MarkingFile(path, name, _PROGRAMS.get(function, lambda arguments: None))


_instruction: Any = intrinsic  # its type hides that Python never calls what it makes


@_instruction
def bits_of(typing_context, x):
    """Bit pattern of a float64 as int64."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@_instruction
def float_of(typing_context, bits):
    """The float64 of an int64 bit pattern."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@_instruction
def trailing_zeros(typing_context, word):
    """Position of the lowest set bit of a uint64 that is not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.uint64(types.uint64), generate


@inlined
def select(condition, yes, no):
    """``yes`` where the condition holds, else ``no``, without a branch."""
    return yes if condition else no


def by_number(functions: dict[int, Any]) -> Any:
    """Compiled functions as one that is told first the number of the one it calls.

    The last one is called for every number that no other one has.
    """
    (_, last), *others = reversed(functions.items())
    chosen = _only(last)
    for number, function in others:
        chosen = _this_or(number, function, chosen)
    return chosen


def _only(function: Any) -> Any:
    """A function whatever the number is."""

    @helper
    def run(number, *arguments):
        return function(*arguments)

    return run


def _this_or(own: int, function: Any, others: Any) -> Any:
    """A function if the number is its own, else one of others."""

    @helper
    def run(number, *arguments):
        if number == own:
            return function(*arguments)
        return others(number, *arguments)

    return run


_REPLACED = {"select": select, "bits_of": bits_of, "float_of": float_of}


def _load_compiled(name: str, known: dict[str, Any]) -> ModuleType:
    """A second copy of an engine module whose functions are compiled, those of ``known`` too.

    Numba compiles a function when it is first called, so those that only arrays know, which no
    compiled code calls, do no harm.
    """
    spec = importlib.util.find_spec(f"gpuboost.engine.{name}")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for own, function in list(vars(module).items()):
        is_own = isfunction(function) and function.__module__ == module.__name__
        if is_own and own not in _REPLACED:
            known[own] = inlined(function)
    for own in vars(module):
        if own in known:
            setattr(module, own, known[own])
    return module


_known: dict[str, Any] = dict(_REPLACED)
numerics = _load_compiled("numerics", _known)
randomness = _load_compiled("randomness", _known)
criteria = _load_compiled("criteria", _known)
formulas = _load_compiled("losses.formulas", _known)

NAN = np.float64("nan")
