"""Compiles kernel sources and launches them on NumPy arrays, like CuPy's RawModule."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.signatures import find_kernels
from tests.cuda_shim.aliases import check_aliases
from tests.cuda_shim.arguments import PackedArguments, Parameter, ParameterStruct, check_argument
from tests.cuda_shim.compiler import FLAVOURS, build_kernels, build_runtime
from tests.cuda_shim.guard import GuardedCopies
from tests.cuda_shim.symbols import source_line, symbol_addresses

MAX_THREADS = 1024
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
DEFAULT_DYNAMIC_SHARED = 48 << 10
MAX_DYNAMIC_SHARED = 227 << 10
MAX_PARAMETERS = 256
CPU_SECONDS = 300.0
_MESSAGE_BYTES = 640


class KernelError(RuntimeError):
    """A kernel failed; the message has the kernel, line, block and thread."""


class _Memory(ctypes.Structure):
    """``shim::Memory`` of launch_state.h."""

    _fields_ = (("name", ctypes.c_char_p), ("begin", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


class _LaunchRequest(ctypes.Structure):
    """``shim::LaunchRequest`` of launch_state.h."""

    _fields_ = (
        ("call", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("dynamic_bytes", ctypes.c_size_t),
        ("static_shared", ctypes.c_void_p),
        ("static_count", ctypes.c_int),
        ("arrays", ctypes.c_void_p),
        ("array_count", ctypes.c_int),
        ("order_seed", ctypes.c_uint64),
        ("cpu_seconds", ctypes.c_double),
        ("message", ctypes.c_char_p),
        ("fault_address", ctypes.c_uint64),
        ("other_address", ctypes.c_uint64),
    )


def address_of(function: Any) -> int:
    """Address of a function of a loaded library."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


@dataclass(frozen=True)
class _Entry:
    """What a shared object says of one of its kernels."""

    max_threads: int
    parameters: list[Parameter]
    call: int


class _Library:
    """A compiled source, which is loaded once per process."""

    def __init__(self, source_text: str, flavour: str, file_name: str) -> None:
        self.declarations = {kernel.name: kernel for kernel in find_kernels(source_text)}
        self.shared_object: Path = build_kernels(source_text, file_name, flavour)
        # PyDLL keeps the GIL during a launch: the runtime supports one launch at a time.
        self.functions = ctypes.PyDLL(str(self.shared_object))
        self.runtime = ctypes.PyDLL(str(build_runtime(flavour)))
        self.static_shared = self._find_static_shared()
        self.entries = {name: self._read_entry(name) for name in self.declarations}

    def _read_entry(self, name: str) -> _Entry:
        structs = (ParameterStruct * MAX_PARAMETERS)()
        count = self.functions[f"shim_parameters_{name}"](structs)
        parameters = [Parameter.from_struct(raw) for raw in structs[:count]]
        call = address_of(self.functions[f"shim_call_{name}"])
        return _Entry(int(self.functions[f"shim_bound_{name}"]()), parameters, call)

    def _find_static_shared(self) -> ctypes.Array[_Memory]:
        """Find the static shared memory of all kernels."""
        functions, variables = symbol_addresses(self.shared_object)
        entry = f"shim_call_{next(iter(self.declarations))}"
        base = address_of(self.functions[entry]) - functions[entry]
        found = (_Memory * len(variables))()
        for memory, variable in zip(found, variables, strict=True):
            memory.name = f"shared variable {variable.name}".encode()
            memory.begin, memory.bytes = base + variable.address, variable.bytes
        return found


_load = functools.cache(_Library)


class Module:
    """A kernel source compiled for the CPU.

    Parameters
    ----------
    source_text : str
        The text of a ``.cu`` file, without the prelude.
    flavour : str
        One of `FLAVOURS`.
    file_name : str
        The name of the source in error messages.
    order_seed : int
        Order of threads and blocks in every launch: 0 ascending, above 0 random by this seed.
    cpu_seconds : float
        Processor time, in seconds, after which a launch ends with an error.
    """

    def __init__(
        self,
        source_text: str,
        flavour: str = "plain",
        *,
        file_name: str = "kernel.cu",
        order_seed: int = 0,
        cpu_seconds: float = CPU_SECONDS,
    ) -> None:
        if flavour not in FLAVOURS:
            raise ValueError(f"flavour {flavour!r} is not one of {', '.join(FLAVOURS)}")
        self.flavour = flavour
        self.order_seed = order_seed
        self.cpu_seconds = cpu_seconds
        self.library = _load(source_text, flavour, file_name)
        self.kernel_names = list(self.library.declarations)

    def get_function(self, name: str) -> Kernel:
        """Get a kernel by name."""
        if name not in self.kernel_names:
            known = ", ".join(self.kernel_names)
            raise AttributeError(f"no kernel {name!r} in this module, there are: {known}")
        return Kernel(self, name)


class Kernel:
    """One kernel; call it as a CuPy RawKernel.

    Attributes
    ----------
    max_threads_per_block : int
        What ``__launch_bounds__`` declares, else 1024.
    max_dynamic_shared_size_bytes : int
        Largest dynamic shared memory of a launch, 48 KiB until it is set, as in CUDA.
    """

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.name = name
        self.declaration = module.library.declarations[name]
        self.max_dynamic_shared_size_bytes = DEFAULT_DYNAMIC_SHARED
        entry = module.library.entries[name]
        self.max_threads_per_block = entry.max_threads
        self.parameters = entry.parameters
        self._call = entry.call

    def __call__(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        order_seed: int | None = None,
    ) -> None:
        """Run the kernel to its end.

        Raises
        ------
        TypeError
            An argument has another type than the kernel's parameter.
        ValueError
            The launch does not fit a GPU, an array cannot be passed, or two overlap that must not.
        KernelError
            The kernel failed.
        """
        dimensions = self._dimensions(grid, block)
        self._check_shared(shared_mem)
        self._check_arguments(args)
        arrays = {i: a.ctypes.data for i, a in enumerate(args) if isinstance(a, np.ndarray)}
        memory = [(begin, begin + args[i].nbytes, i) for i, begin in arrays.items()]
        check_aliases(self.declaration, self.parameters, memory)
        seed = self.module.order_seed if order_seed is None else order_seed
        if FLAVOURS[self.module.flavour].guards_arrays:
            with GuardedCopies(args) as guarded:
                self._launch(dimensions, args, guarded.addresses, shared_mem, seed)
        else:
            self._launch(dimensions, args, arrays, shared_mem, seed)

    def _dimensions(
        self, grid: Sequence[int], block: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Grid and block with three entries each, after checking them."""
        full = []
        for what, given, limits in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
            sizes = (*(int(n) for n in given), 1, 1)[:3] if 0 < len(given) <= 3 else (0, 0, 0)
            if any(not 1 <= n <= limit for n, limit in zip(sizes, limits, strict=True)):
                raise ValueError(
                    f"{self.name}: {what} {tuple(given)} is not 1 to 3 sizes between 1 and {limits}"
                )
            full.append(sizes)
        threads = full[1][0] * full[1][1] * full[1][2]
        if threads > min(self.max_threads_per_block, MAX_THREADS):
            raise ValueError(
                f"{self.name}: {threads} threads per block, the kernel allows at most "
                f"{self.max_threads_per_block}"
            )
        return full[0], full[1]

    def _check_shared(self, shared_mem: int) -> None:
        limit = min(self.max_dynamic_shared_size_bytes, MAX_DYNAMIC_SHARED)
        if not 0 <= shared_mem <= limit:
            raise ValueError(
                f"{self.name}: shared_mem={shared_mem} is not between 0 and {limit}; more than "
                "48 KiB needs max_dynamic_shared_size_bytes set on the kernel"
            )

    def _check_arguments(self, args: Sequence[Any]) -> None:
        if len(args) != len(self.parameters):
            raise TypeError(
                f"{self.name}: given {len(args)} arguments, the kernel takes {len(self.parameters)}"
            )
        for position, (parameter, value) in enumerate(zip(self.parameters, args, strict=True)):
            check_argument(f"{self.name}, argument {position}", parameter, value)

    def _launch(
        self,
        dimensions: tuple[tuple[int, ...], tuple[int, ...]],
        args: Sequence[Any],
        addresses: dict[int, int],
        shared_mem: int,
        order_seed: int,
    ) -> None:
        packed = PackedArguments(list(args), addresses)
        arrays = (_Memory * len(addresses))()
        for entry, (position, address) in zip(arrays, addresses.items(), strict=True):
            entry.name = f"argument {position}".encode()
            entry.begin, entry.bytes = address, args[position].nbytes
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        request = _LaunchRequest(
            call=self._call,
            arguments=ctypes.addressof(packed.pointers),
            grid=dimensions[0],
            block=dimensions[1],
            dynamic_bytes=shared_mem,
            static_shared=ctypes.addressof(self.module.library.static_shared),
            static_count=len(self.module.library.static_shared),
            arrays=ctypes.addressof(arrays),
            array_count=len(addresses),
            order_seed=order_seed,
            cpu_seconds=self.module.cpu_seconds,
            message=ctypes.cast(message, ctypes.c_char_p),
        )
        if self.module.library.runtime.shim_launch(ctypes.byref(request)):
            places = (request.fault_address, request.other_address)
            raise KernelError(self._explain(message.value.decode(), places))

    def _explain(self, message: str, addresses: Sequence[int]) -> str:
        """The runtime's message with the kernel's name and the source lines of its addresses."""
        places = [source_line(self.module.library.shared_object, at) for at in addresses if at]
        at_lines = " and ".join(place for place in places if place)
        return f"{self.name}: {message}" + (f" at {at_lines}" if at_lines else "")
