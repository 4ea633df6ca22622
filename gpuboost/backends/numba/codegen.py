"""How compiled functions become machine code: helpers only as parts of the entries that call them.

Numba compiles every function to a library of its own: it links the libraries of all functions that
it calls, optimises the whole and makes machine code of it. A function five calls below an entry is
optimised six times. Here, helpers keep their LLVM code as it is, and only entries, which Python or
a plugin's address calls, link all helpers below them, optimise them once and make machine code. So
boosting compiles in 40% of the time (benchmarks/NOTES.md), and LLVM sees all callers of a function.

Only functions compiled in this way may call helpers. A call from Python, or from a function that
Numba compiles in its own way, crashes the process.
"""

from __future__ import annotations

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary


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

    def _optimize_final_module(self):
        """Optimise once; Numba does it twice, the first time for its counts of references."""
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


def without_code(library, description, environment):
    """The object that stands for a helper in Numba's tables; it must not be called."""
    library.finalize()
    name = description.qualname.split(".")[-1]
    module = description.lookup_module()
    return _dynfunc.make_function(module, name, "a helper", 0, environment, (library,))
