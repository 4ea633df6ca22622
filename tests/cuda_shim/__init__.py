"""Runs CUDA kernels on the CPU: compiles a ``.cu`` with g++, launches it on NumPy arrays.

The calling convention is CuPy's, so host code that drives a GPU can drive this instead::

    module = Module(source_text)
    module.get_function("histogram")((blocks,), (256,), (codes, np.int32(n), out), shared_mem=1024)

Flavours: ``plain`` (fast; faults and deadlocks raise), ``guard`` (arrays end at a page that cannot
be touched), ``race`` (unordered accesses raise), ``undefined`` (index outside a static array,
overflow, bad shift, conversion out of range raise), ``asan`` (AddressSanitizer; needs
`run_under_asan`) and ``ucontext`` (plain, with the portable switch between threads).
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
