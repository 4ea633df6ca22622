"""``cupy.cuda`` of the fake CuPy: devices, memory, compiler and launches, on the CPU."""

from __future__ import annotations

import itertools
import json
import threading
import time
import types
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tests import cuda_shim
from tests.fakes.fake_errors import CUDADriverError, CUDARuntimeError, NVRTCError, OutOfMemoryError
from tests.fakes.fake_streams import Stream, captured, streams_of

if TYPE_CHECKING:
    from tests.fakes.fake_cupy import Machine

OPT_IN_SHARED = 227 << 10
KNOWN_ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)


class Device:
    """``cupy.cuda.Device``."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine, self.id = machine, number
        self._before = threading.local()

    attributes = types.MappingProxyType(
        {"MaxSharedMemoryPerBlockOptin": OPT_IN_SHARED, "MultiProcessorCount": 4}
    )

    @property
    def compute_capability(self) -> str:
        """The compute capability, such as "90"."""
        return str(self.machine.capability)

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        return self.machine.free, self.machine.total

    def __enter__(self) -> Device:
        stack = self._before.__dict__.setdefault("stack", [])
        stack.append(self.machine.current)
        self.machine.current = self.id
        return self

    def __exit__(self, *_: Any) -> None:
        self.machine.current = self._before.stack.pop()


class Function:
    """``cupy.cuda.Function``."""

    def __init__(self, machine: Machine, module: cuda_shim.Module, name: str) -> None:
        self.machine, self.name = machine, name
        self.kernel = module.get_function(name)
        self.number = machine.current
        self.ptr = id(self)
        machine.functions[self.ptr] = self

    def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
        if type(grid) is not tuple or type(block) is not tuple:
            raise TypeError("grid and block must be tuples")
        grid = tuple(max(1, int(n)) for n in grid)  # as CuPy does
        machine = self.machine
        if self.number != machine.current:
            raise CUDADriverError(400)
        values = [machine.host_of(arg) for arg in args]
        launch = partial(self.kernel, grid, block, shared_mem=shared_mem)
        if machine.stream.launches is not None:
            machine.stream.launches.append(captured(launch, values))
            return
        machine.events.append(self.name)
        launch(values)


class PinnedMemory(bytearray):
    """``cupy.cuda.PinnedMemoryPointer``: a buffer, somewhat larger than requested."""

    @property
    def first(self) -> int:
        """The address of the buffer."""
        return np.frombuffer(self, np.uint8).ctypes.data


class Module:
    """``cupy.cuda.Module``."""

    machine: Machine

    def load(self, cubin: bytes) -> None:
        """Load the output of the fake compiler."""
        text, name = json.loads(cubin[4:])
        self._module = cuda_shim.Module(text, file_name=name)

    def get_function(self, name: str) -> Function:
        """Get a kernel of the module."""
        return Function(self.machine, self._module, name)


class Event:
    """``cupy.cuda.Event``."""

    machine: Machine

    def __init__(self, *, disable_timing: bool = False) -> None:
        self._pending: tuple[np.ndarray, np.ndarray] | None = None
        self._launched = 0
        self._stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Record the event after the work that the stream has been given."""
        self.machine.check_no_capture()
        self._stream = self.machine.stream if stream is None else stream
        if stream is None:
            self._pending = self.machine._local.__dict__.pop("pending", None)
        self._launched = len(self.machine.launches)
        self._clock = self.machine.clock
        self._seconds = time.perf_counter()

    @property
    def done(self) -> bool:
        """Whether the host has waited for the event."""
        return self._stream is None or self._stream.waited > self._clock

    def synchronize(self) -> None:
        """Wait for the event; an event that was not recorded is not waited for."""
        if self._stream is None:
            return
        self.machine.wait_for(self._stream)
        self.machine.launched_since.append(len(self.machine.launches) - self._launched)
        if self._pending:
            out, copied = self._pending
            out[...] = copied
            self._pending = None


class MemoryHook:
    """``cupy.cuda.MemoryHook``."""

    machine: Machine

    def __enter__(self) -> MemoryHook:
        self.machine.hooks.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        self.machine.hooks.remove(self)

    def malloc_postprocess(self, **given: Any) -> None:
        """Called after memory was allocated."""

    def free_postprocess(self, **given: Any) -> None:
        """Called after memory was freed."""


class Compiler(types.SimpleNamespace):
    """``cupy.cuda.nvrtc``; its machine code is the source text."""

    def __init__(self, machine: Machine) -> None:
        programs: dict[int, tuple[str, str]] = {}
        numbers = itertools.count(1)

        def create(src: str, name: str, headers: tuple[()], include_names: tuple[()]) -> int:
            number = next(numbers)
            programs[number] = (src, name)
            return number

        def compile_program(prog: int, options: tuple[str, ...]) -> None:
            machine.compilations += 1
            assert not [option for option in options if "ftz=true" in option]
            if machine.reject_source:
                raise NVRTCError(6)

        def code(prog: int) -> bytes:
            return b"\x7fELF" + json.dumps(programs[prog]).encode()

        super().__init__(
            NVRTCError=NVRTCError,
            getVersion=lambda: (12, 9),
            getSupportedArchs=lambda: KNOWN_ARCHITECTURES,
            createProgram=create,
            compileProgram=compile_program,
            destroyProgram=lambda prog: programs.pop(prog),
            getCUBIN=code,
            getPTX=code,
            getProgramLog=lambda prog: f"{programs[prog][1]}(1): error: no such thing",
        )


def pool_of(machine: Machine) -> types.SimpleNamespace:
    """``cupy.get_default_memory_pool()``."""

    def free_all_blocks() -> None:
        machine.check_no_capture()
        machine.freed += 1

    return types.SimpleNamespace(
        free_all_blocks=free_all_blocks,
        free_bytes=lambda: machine.pool_free,
        used_bytes=lambda: machine.pool_used + machine.live_bytes,
        get_limit=lambda: machine.pool_limit,
        set_limit=lambda size: setattr(machine, "pool_limit", size),
    )


def pinned_pool_of(machine: Machine) -> types.SimpleNamespace:
    """``cupy.get_default_pinned_memory_pool()``."""
    return types.SimpleNamespace(free_all_blocks=machine.check_no_capture)


def raw_kernel_of(machine: Machine) -> type:
    """``cupy.RawKernel``."""

    class RawKernel:
        def __init__(self, code: str, name: str, options: tuple[str, ...] = ()) -> None:
            self._function = Function(machine, cuda_shim.Module(code), name)

        def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
            self._function(grid, block, args, shared_mem)

    return RawKernel


def cuda_of(machine: Machine) -> types.SimpleNamespace:
    """``cupy.cuda``."""

    def properties(device: int) -> dict[str, Any]:
        major, minor = divmod(machine.capability, 10)
        facts = {"name": b"NVIDIA Fake", "major": major, "minor": minor}
        return {**facts, "totalGlobalMem": machine.total, "multiProcessorCount": 4}

    def allow(f: int, attribute: int, value: int) -> None:
        assert attribute == 8
        machine.functions[f].kernel.max_dynamic_shared_size_bytes = value

    def alloc_pinned_memory(size: int) -> PinnedMemory:
        if machine.refuse_pinned:
            raise CUDARuntimeError(2)
        found = PinnedMemory(b"\xaa" * (size + 100))
        machine.pinned.append(weakref.ref(found, machine.pinned.remove))
        return found

    def elapsed(start_event: Event, end_event: Event) -> float:
        return 1e3 * (end_event._seconds - start_event._seconds)

    def static_shared(attribute: int, f: int) -> int:
        assert attribute == 1
        return 0

    return types.SimpleNamespace(
        **streams_of(machine),
        Device=lambda device=None: Device(machine, machine.current if device is None else device),
        Module=type("Module", (Module,), {"machine": machine}),
        Event=type("Event", (Event,), {"machine": machine}),
        MemoryHook=type("MemoryHook", (MemoryHook,), {"machine": machine}),
        set_allocator=lambda allocator: setattr(machine, "allocator", allocator),
        alloc_pinned_memory=alloc_pinned_memory,
        get_elapsed_time=elapsed,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        nvrtc=Compiler(machine),
        runtime=types.SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            getDeviceCount=lambda: machine.n_devices,
            getDevice=lambda: machine.current,
            getDeviceProperties=properties,
            memGetInfo=lambda: (machine.free, machine.total),
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 12090,
            deviceSynchronize=lambda: machine.wait_for_all(),
        ),
        driver=types.SimpleNamespace(
            CUDADriverError=CUDADriverError,
            CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES=1,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            funcGetAttribute=static_shared,
            funcSetAttribute=allow,
        ),
    )
