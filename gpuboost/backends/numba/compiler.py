"""Decorators that compile functions, and compiled copies of the engine's formulas.

`gpuboost.engine.numerics`, `randomness`, `newton`, `criteria` and `losses.formulas` are written for
arrays. Here each module is loaded a second time with its functions compiled for scalars, so that
NumPy and Numba share one source. Compiled code needs three functions whose source works only on
arrays (`select`, `bits_of`, `float_of`), so these are replaced.
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
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.caching import IndexDataCacheFile

from gpuboost.backends.cache import (
    BIN,
    EXPLAIN,
    GROW_MANY,
    GROW_ONE,
    PREDICT,
    mark_compiled,
    source_stamp,
)
from gpuboost.backends.numba.background import compile_in_background
from gpuboost.backends.numba.intrinsics import instruction
from gpuboost.backends.numba.pipeline import EntryCompiler, HelperCompiler

# Never fastmath: results depend on IEEE arithmetic in the written order. Compiled code does not
# count references (`_nrt`), because counting those to all arrays of its arguments takes longer than
# the search of a small node. So it must not allocate arrays: Python passes buffers, which live
# until the entry returns.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
_ENTRY: dict[str, Any] = {**_OPTIONS, "pipeline_class": EntryCompiler, "no_cfunc_wrapper": True}
_PLUGIN: dict[str, Any] = {**_OPTIONS, "pipeline_class": EntryCompiler, "no_cpython_wrapper": True}
_HELPER: dict[str, Any] = {
    **_OPTIONS,
    "pipeline_class": HelperCompiler,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
# A function that LLVM always inlines into its caller.
inlined: Any = njit(**_HELPER, forceinline=True)
# A function that Numba inlines into its one or two callers.
spliced: Any = njit(**_HELPER, inline="always")
# A function that LLVM need not inline, because it is large or rarely called.
helper: Any = njit(**_HELPER)


def entry(function: Any) -> Any:
    """Compile a function for calls from Python, and cache it on disk if a folder is writeable.

    It is compiled, or read from the cache, at its first call with each combination of argument
    types. Named tuples of many fields are passed as `references.by_reference`.
    """
    return _kept(njit(**_ENTRY)(function))


class Plugin:
    """A compiled function that other compiled code calls by its address (see `plugin_call`).

    The callers do not contain its code, so only the fits that need it compile it.
    """

    def __init__(self, function: Any, returns: types.Type) -> None:
        self._dispatcher, self._returns = _kept(njit(**_PLUGIN)(function)), returns
        self._addresses: dict[tuple[types.Type, ...], int] = {}

    def address(self, *arguments: types.Type) -> int:
        """The address of the function for arguments of these types; compiled if needed."""
        if arguments not in self._addresses:
            self._dispatcher.compile(self._returns(*arguments))
            compiled = self._dispatcher.overloads[arguments]
            name = compiled.fndesc.llvm_cfunc_wrapper_name
            self._addresses[arguments] = compiled.library.get_pointer_to_function(name)
        return self._addresses[arguments]


def plugin(returns: types.Type) -> Callable[[Any], Plugin]:
    """Make a `Plugin` of a function that returns this type."""
    return lambda function: Plugin(function, returns)


def plugin_call(returns: types.Type) -> Any:
    """A compiled function that calls a plugin, given its address and a tuple of its arguments.

    The types of the arguments must be those that `Plugin.address` was given.
    """

    @instruction
    def call(typing_context, address, arguments):
        kinds = [types.unliteral(each) for each in arguments.types]

        def generate(context, builder, signature, values):
            given = [
                context.cast(builder, builder.extract_value(values[1], i), own, kind)
                for i, (own, kind) in enumerate(zip(arguments.types, kinds, strict=True))
            ]
            takes = [context.get_value_type(kind) for kind in kinds]
            function = ir.FunctionType(context.get_value_type(returns), takes)
            return builder.call(builder.inttoptr(values[0], function.as_pointer()), given)

        return returns(types.int64, arguments), generate

    return call


call_for_bool, call_for_nothing = plugin_call(types.boolean), plugin_call(types.none)
call_for_integer = plugin_call(types.int64)


def specialised(function: Any, name: str, **constants: Any) -> Any:
    """A copy of a function in which some global names have other values, as constants.

    ``name`` is appended to the function's own, and distinguishes the copies in the disk cache.
    """
    copied = FunctionType(function.__code__, {**function.__globals__, **constants})
    copied.__module__ = function.__module__
    copied.__name__ = copied.__qualname__ = f"{function.__name__}_{name}"
    return copied


def _kept(dispatcher: Any) -> Any:
    """Compile a function in background threads, and cache its machine code on disk."""
    compile_in_background(dispatcher)
    try:
        dispatcher.enable_caching()
    except RuntimeError:  # no folder is writeable: every process compiles
        return dispatcher
    dispatcher._cache._cache_file = _stamped_file(dispatcher._cache, dispatcher.__name__)
    return dispatcher


class _MarkingFile(IndexDataCacheFile):
    """A Numba cache file that also writes the marker files of `backends.cache`.

    By these, code that does not import Numba finds out which programs are compiled.
    """

    def __init__(self, folder: Path, name: str, program: Callable[[Any], str | None]) -> None:
        super().__init__(str(folder), name, source_stamp())
        self._folder, self._name, self._program = folder, name, program

    def save(self, key: Any, data: Any) -> None:
        """Save a function compiled for the argument types ``key[0]``, and mark its program if any.

        Numba numbers new code files after those in the index that it has read. Two processes that
        compile for different types at the same time would use the same number, and one would load
        the other's code. So the file names contain a hash of the key.
        """
        of_types = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        self._data_name_pattern = f"{self._name}-{of_types}.{{number:d}}.nbc"
        super().save(key, data)
        self._mark(key)

    def load(self, key: Any) -> Any:
        """Load a function, or None if it is not there; mark its program if the marker was lost."""
        found = super().load(key)
        if found is not None:
            self._mark(key)
        return found

    def _mark(self, key: Any) -> None:
        program = self._program(getattr(key[0], "args", key[0]))  # a signature, or types
        if program is not None:
            mark_compiled(self._folder, program)


def _program_of_levels(shared: Any) -> str:
    """The program of level-wise growth, given the type of its `SharedArrays`."""
    channels = shared.fields["first_thread"].fields["channels"]
    return GROW_ONE if channels == types.none else GROW_MANY


# For each entry that belongs to a program of `backends.cache`, a function from the types of its
# arguments to the program.
_PROGRAMS: dict[str, Callable[[Any], str | None]] = {
    "grow": lambda arguments: GROW_ONE if types.none in arguments else GROW_MANY,
    "grow_together": lambda arguments: _program_of_levels(arguments[0]),
    "finish_together": lambda arguments: GROW_ONE,
    "follow_paths": lambda arguments: BIN,
    "predict_rows": lambda arguments: PREDICT,
    "predict_coded": lambda arguments: PREDICT,
    "predict_perfect": lambda arguments: PREDICT,
    "add_shap_values": lambda arguments: EXPLAIN,
}


def _stamped_file(cache: Any, function: str) -> IndexDataCacheFile:
    """Return the cache file for the current sources; remove the files for other sources.

    Numba checks only the function's own source file for changes. But compiled code includes
    functions of other files, and stale signatures can name classes that no longer exist.
    """
    path, base = Path(cache.cache_path), cache._impl.filename_base
    name = f"{base}-{source_stamp()[:16]}"
    for old in path.glob(f"{glob.escape(base)}-*.nb[ic]"):
        if not old.name.startswith(name):
            with contextlib.suppress(OSError):
                old.unlink()
    return _MarkingFile(path, name, _PROGRAMS.get(function, lambda arguments: None))


def _reinterpretation(source: Any, target: Any) -> Any:
    """The instruction that takes the bits of a number as those of a number of another type."""

    @instruction
    def reinterpret(typing_context, x):
        def generate(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), generate

    return reinterpret


bits_of = _reinterpretation(types.float64, types.int64)
float_of = _reinterpretation(types.int64, types.float64)


@instruction
def trailing_zeros(typing_context, word):
    """Position of the lowest set bit of a uint64 that is not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.uint64(types.uint64), generate


@inlined
def select(condition, yes, no):
    """``yes`` if the condition holds, else ``no``."""
    return yes if condition else no


_REPLACED = {"select": select, "bits_of": bits_of, "float_of": float_of}


def _load_compiled(name: str, known: dict[str, Any]) -> ModuleType:
    """Load a second copy of an engine module with compiled functions; add these to ``known``.

    Functions that the module imports, and those in `_REPLACED`, are replaced by the compiled
    functions of the same name in ``known``. Numba compiles a function when it is first called, so
    functions that work only on arrays do no harm: no compiled code calls them.
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
newton = _load_compiled("newton", _known)
criteria = _load_compiled("criteria", _known)
formulas = _load_compiled("losses.formulas", _known)

NAN = np.float64("nan")
