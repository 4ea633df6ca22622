"""The passes that compile a function: those of Numba's that the engine needs, in its order.

Left out are passes for what compiled functions here do not contain (``with`` blocks, closures,
parallel loops, arithmetic on whole arrays). Of the time that Numba takes to compile, most is spent
in Python, not in LLVM, so what Numba does again and again for the same result is done once here.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from numba import types
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_machinery import PassManager, _pass_registry
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import (
    IRLegalization,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    InlineInlinables,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)

from gpuboost.backends.numba.codegen import EntryLibrary, HelperLibrary, without_code
from gpuboost.backends.numba.lowering import Lowering

_PASSES = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    RewriteSemanticConstants,  # an argument of type None is None in conditions
    DeadBranchPrune,
    GenericRewrites,
    InlineInlinables,
    DeadBranchPrune,
    ReconstructSSA,
    DeadBranchPrune,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    Lowering,
    NoPythonBackend,
)


class _Passes(PassManager):
    """Runs the passes over a function, without Numba's events and messages for each."""

    def __init__(self):
        super().__init__("nopython")
        for own in _PASSES:
            self.add_pass(own)
        self.finalize()

    def run(self, state):
        for kind, _ in self.passes:
            own = _pass_registry.get(kind).pass_inst
            own.analysis = self._analysis
            for step in (own.run_initialization, own.run_pass, own.run_finalizer):
                step(state)


@cache
def _passes():
    """Return the passes, which are the same for all functions."""
    return _Passes()


class _SharedFlags(Flags):
    """The options of functions, one object for all functions with equal options.

    Numba finds each operator by the options of the function that uses it, and compares them one by
    one. These objects are equal if they are the same.
    """

    _known: ClassVar[dict[str, _SharedFlags]] = {}

    @classmethod
    def of(cls, flags):
        """Return the object for some options."""
        return cls._known.setdefault(str(flags), cls(flags))

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return id(self)

    def copy(self):
        return self


class _Typing:
    """Numba's typing context, which remembers the types of calls of Numba's own functions.

    Numba tries all implementations of an operator wherever it is used.
    """

    _known: ClassVar[dict[Any, Any]] = {}

    def __init__(self, context):
        self._context = context

    def __getattr__(self, name):
        return getattr(self._context, name)

    def resolve_function_type(self, func, args, kws):
        if not isinstance(func, types.Function):
            return self._context.resolve_function_type(func, args, kws)
        key = func, tuple(args), tuple(kws.items() if kws else ()), ConfigStack.top_or_none()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._context.resolve_function_type(func, args, kws)
        return found


class _LibraryCompiler(CompilerBase):
    """Compiles a function with these passes, into a library of the class ``library``."""

    library: Any

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        known = _Typing(typingctx), targetctx, library, args, return_type
        super().__init__(*known, _SharedFlags.of(flags), locals)

    def define_pipelines(self):
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return [_passes()]


class EntryCompiler(_LibraryCompiler):
    """The ``pipeline_class`` of functions with machine code of their own."""

    library = EntryLibrary


class HelperCompiler(_LibraryCompiler):
    """The ``pipeline_class`` of functions that only compiled functions call."""

    library = HelperLibrary

    def define_pipelines(self):
        self.state.targetctx.get_executable = without_code
        return super().define_pipelines()
