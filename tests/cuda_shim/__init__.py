"""Runs CUDA kernels on the CPU: compiles a ``.cu`` file with g++ and launches it on NumPy arrays.

The calling convention is CuPy's, so the host code for a GPU can use this module instead::

    module = Module(source_text)
    module.get_function("histogram")((blocks,), (256,), (codes, np.int32(n), out), shared_mem=1024)

A kernel can be compiled in six flavours:

- ``plain`` is fast; faults and deadlocks raise;
- ``guard``: arrays end at a memory page that is protected, so an access beyond the end raises;
- ``race``: unordered accesses raise;
- ``undefined``: an index outside a static array, an overflow, a bad shift or a conversion out of
  range raises;
- ``asan`` uses AddressSanitizer and needs `run_under_asan`;
- ``ucontext`` is plain, with the portable switch between threads.
"""

from tests.cuda_shim.asan import run_under_asan
from tests.cuda_shim.compiler import FLAVOURS, CompileError, must_be_available, why_not_available
from tests.cuda_shim.launcher import Kernel, KernelError, Module
from tests.cuda_shim.mutants import Mutant, barrier_mutants, vote_mutants
from tests.cuda_shim.source import kernel_text

__all__ = [
    "FLAVOURS",
    "CompileError",
    "Kernel",
    "KernelError",
    "Module",
    "Mutant",
    "barrier_mutants",
    "kernel_text",
    "must_be_available",
    "run_under_asan",
    "vote_mutants",
    "why_not_available",
]
