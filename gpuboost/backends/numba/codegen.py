"""How compiled functions become machine code: helpers only as parts of the entries that call them.

Numba compiles every function to a library of its own: it links the libraries of all functions that
it calls, optimises the whole and makes machine code of it. A function five calls below an entry is
optimised six times. Here, helpers keep their LLVM code as it is, and only entries, which Python or
a plugin's address calls, link all helpers below them, optimise them once and make machine code. So
boosting compiles in 40% of the time (2026-11), and LLVM sees all callers of a function.

Python must not call helpers, and functions that Numba compiles in its own way must not either.
"""

# mypy: check-untyped-defs=False
# Numba's compiler has no types.

from __future__ import annotations

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment

_ENVIRONMENT = "_ZN08NumbaEnv"  # prefix of the variables that hold the constants of functions


class _LinkedOnce(JITCodeLibrary):
    """A library that links others as they are, and does not optimise functions one by one."""

    def add_linking_library(self, library):
        self._linking_libraries.append(library)

    def add_llvm_module(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout
        self._final_module.link_in(ll_module)


class HelperLibrary(_LinkedOnce):
    """The LLVM code of one helper, without machine code."""

    def finalize(self):
        self._finalized = True


class EntryLibrary(_LinkedOnce):
    """The machine code of an entry and of all helpers below it."""

    def finalize(self):
        waiting, linked = list(self._linking_libraries), {}
        while waiting:
            library = waiting.pop()
            if library not in linked:
                linked[library] = None
                if isinstance(library, HelperLibrary):
                    waiting.extend(library._linking_libraries)
        self._linking_libraries = list(linked)
        super().finalize()
        self._set_environments()

    def _set_environments(self):
        """Give the functions of the library their constants, which exceptions are made of."""
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    self._codegen.set_env(variable.name, environment)


class _LibraryCompiler(Compiler):
    """Numba's compiler with another class of libraries."""

    def define_pipelines(self):
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


class EntryCompiler(_LibraryCompiler):
    """The ``pipeline_class`` of functions with machine code of their own."""

    library = EntryLibrary


class HelperCompiler(_LibraryCompiler):
    """The ``pipeline_class`` of functions that only compiled functions call."""

    library = HelperLibrary

    def define_pipelines(self):
        self.state.targetctx.get_executable = _without_code
        return super().define_pipelines()


def _without_code(library, description, environment):
    """The object that stands for a helper in Numba's tables; it must not be called."""
    library.finalize()
    name = description.qualname.split(".")[-1]
    module = description.lookup_module()
    return _dynfunc.make_function(module, name, "a helper", 0, environment, (library,))
