"""The parts of CuPy that the CUDA backend uses, over NumPy arrays and kernels on the CPU.

It is stricter than CuPy in order to find mistakes: an array can only be used on its own device,
only `asarray` accepts host arrays, arrays are never converted to host arrays implicitly, and a copy
happens when the host waits for it. `make` creates the module.
"""

from __future__ import annotations

import importlib.machinery
import operator
import threading
import types
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from tests.fakes.fake_cuda import (
    Device,
    Function,
    MemoryHook,
    PinnedMemory,
    cuda_of,
    pinned_pool_of,
    pool_of,
    raw_kernel_of,
)
from tests.fakes.fake_errors import CUDARuntimeError, OutOfMemoryError
from tests.fakes.fake_streams import Stream


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions of CuPy 14, with the keywords that the backend uses. Check CuPy before adding one. There
# is no exp and no log, because CUDA's bits differ from NumPy's.
FUNCTIONS = _words(
    """abs all any arange argmax argmin argsort argwhere array_equal bincount ceil clip concatenate
    copyto count_nonzero cumsum diff equal expand_dims flatnonzero floor frexp full full_like
    isfinite isinf isnan ldexp logical_and logical_not logical_or max maximum min minimum
    moveaxis multiply nonzero ones ones_like partition ravel repeat rint roll searchsorted sort
    stack subtract sum take take_along_axis tile transpose unique where zeros zeros_like"""
)
TYPES = _words(
    """bool_ dtype finfo float32 float64 floating iinfo inf int16 int32 int64 int8 integer intp nan
    newaxis uint16 uint32 uint64 uint8"""
)
METHODS = _words(
    """all any argmax argmin argsort astype copy cumsum fill max mean min nonzero repeat
    searchsorted sort sum take"""
)
# These usually return a view, for which the device does nothing.
VIEWING = {name: getattr(np.ndarray, name) for name in _words("ravel reshape transpose view")}
VIEWS = (operator.getitem, *VIEWING.values())
# Only the device knows the shape of the result, or the result is a Python value.
WAITING = _words("argwhere bincount count_nonzero flatnonzero nonzero unique")
# With floating point, the result depends on the order of the device's operations.
SUMS = _words("bincount cumsum mean sum")
WAIT, UPLOAD = "wait", "upload"
POOL_UNIT = 512  # bytes; CuPy's pool rounds sizes up to a multiple
GARBAGE = 0xA5  # fills uninitialised memory
FACTS = _words("dtype flags itemsize nbytes ndim shape size strides")
OPERATORS = {
    **{
        f"__{name}__": getattr(operator, name)
        for name in _words("add sub mul mod lshift rshift xor")
    },
    **{
        f"__{name}__": getattr(operator, name) for name in _words("truediv floordiv pow neg invert")
    },
    **{f"__{name}__": getattr(operator, name) for name in _words("eq ne lt le gt ge")},
    **{f"__i{name}__": getattr(operator, f"i{name}") for name in _words("add sub mul and or xor")},
    "__and__": operator.and_,
    "__or__": operator.or_,
}
REFLECTED = _words("add sub mul mod and or xor truediv floordiv lshift rshift")


def _memory_of(host: np.ndarray) -> np.ndarray:
    """The array that owns the memory of ``host``."""
    return host if host.base is None else host.base


class Machine:
    """The state behind the fake: devices, memory, and what happened.

    Attributes
    ----------
    n_devices, capability : int
    fail_at : int
        Number (from 0) of the allocation that fails; -1 for none.
    allocations, compilations, freed : int
        Numbers of allocations, of compiled sources, and of times that the pool freed all blocks.
    events : list of str
        Names of launched kernels, and ``GRAPH`` for a graph, in order. `WAIT` means that the host
        waited, and `UPLOAD` that it wrote to an array of the device.
    live, live_bytes : int
        Number of memory blocks that arrays hold, and their bytes in the pool.
    refuse_pinned : bool
        Whether the system refuses to pin memory.
    pinned : list of weak references to PinnedMemory
        Pinned buffers.
    uploaded : int
        Bytes copied to the device.
    clock : int
        Number of times that the host waited.
    launched_since : list of int
        For each wait for an event, the number of launches between the event and the wait.
    hooks : list of MemoryHook
        Hooks to call when memory is allocated or freed.
    allocator : object
        Argument of ``set_allocator``.
    lost : bool
        Whether a kernel broke the device for this process.
    """

    def __init__(self, n_devices: int = 2, capability: int = 90) -> None:
        self.n_devices, self.capability = n_devices, capability
        self.fail_at = -1
        self.allocations = self.compilations = self.freed = 0
        self.live = self.live_bytes = self.uploaded = 0
        self.refuse_pinned = False
        self.pinned: list[weakref.ref[PinnedMemory]] = []
        self.launched_since: list[int] = []
        self.hooks: list[MemoryHook] = []
        self.allocator: Any = "pool"
        self.lost = False
        self.free, self.total = 100 << 20, 400 << 20
        self.pool_free, self.pool_used, self.pool_limit = 10 << 20, 30 << 20, 0
        self.events: list[str] = []
        self.functions: dict[int, Function] = {}  # by pointer
        self.reject_source = False
        self.clock = 0
        self._written: dict[int, tuple[Stream, int]] = {}  # memory: when, and on which stream
        self._local = threading.local()
        self._null = Stream(null=True)
        self._null.machine = self

    @property
    def streams(self) -> list[Stream]:
        """The streams this thread has entered; the last one is the current one."""
        return self._local.__dict__.setdefault("streams", [self._null])

    @property
    def stream(self) -> Stream:
        """The stream of this thread."""
        return self.streams[-1]

    def check_no_capture(self) -> None:
        """If the stream captures, end the capture with an error: graphs cannot hold this work."""
        self.stream.end_by_error()

    def wait(self) -> None:
        """Let the host wait for the device."""
        self.wait_for(self.stream)

    def wait_for(self, stream: Stream) -> None:
        """Let the host wait for a stream."""
        self.check_no_capture()
        self.events.append(WAIT)
        self.clock += 1
        stream.waited = self.clock
        stream._finish_uploads()

    def is_pinned(self, host: np.ndarray) -> bool:
        """Whether an array of the host lies in pinned memory."""
        first = host.ctypes.data
        alive = (memory for one in list(self.pinned) if (memory := one()) is not None)
        return any(m.first <= first and first + host.nbytes <= m.first + len(m) for m in alive)

    @property
    def waits(self) -> int:
        """Number of times that the host has waited."""
        return self.events.count(WAIT)

    @property
    def launches(self) -> list[str]:
        """Names of the launched kernels and graphs."""
        return [event for event in self.events if event not in (WAIT, UPLOAD)]

    @property
    def current(self) -> int:
        """Current device of this thread."""
        return getattr(self._local, "device", 0)

    @current.setter
    def current(self, number: int) -> None:
        self._local.device = number

    def own(self, host: np.ndarray) -> Array:
        """A new array on the current device."""
        self.check_no_capture()
        mem_size = -(-host.nbytes // POOL_UNIT) * POOL_UNIT
        used = self.pool_used + self.live_bytes
        if self.allocations == self.fail_at or 0 < self.pool_limit < used + mem_size:
            self.allocations += 1
            raise OutOfMemoryError(f"allocating {host.nbytes} bytes")
        self.allocations += 1
        self.live += 1
        self.live_bytes += mem_size
        given = {
            "device_id": self.current,
            "size": host.nbytes,
            "mem_size": mem_size,
            "mem_ptr": host.ctypes.data,
            "pmem_id": self.allocations,
        }
        for hook in self.hooks:
            hook.malloc_postprocess(**given)
        memory = _memory_of(host)
        weakref.finalize(memory, self._died, id(memory), given)
        self.note_write(host)
        return Array(self, host, self.current)

    def _died(self, memory: int, given: dict[str, int]) -> None:
        self.live -= 1
        self.live_bytes -= given["mem_size"]
        self._written.pop(memory, None)
        for hook in self.hooks:
            hook.free_postprocess(**{name: given[name] for name in given if name != "size"})

    def note_write(self, host: np.ndarray) -> None:
        """Note that the current stream writes to an array."""
        self._written[id(_memory_of(host))] = self.stream, self.clock

    def check_written(self, host: np.ndarray) -> None:
        """Check that the writes to an array are ordered before work of the current stream."""
        stream, when = self._written.get(id(_memory_of(host)), (self.stream, 0))
        ordered = self.stream.waits_for(stream) or stream.waited > when
        captures = self.stream.launches is not None  # and reads nothing yet
        assert ordered or captures, "read on a stream that does not wait for what wrote it"

    def wait_for_all(self) -> None:
        """``cudaDeviceSynchronize``."""
        if self.lost:
            raise CUDARuntimeError(700)
        self.wait()

    def host_of(self, value: Any) -> Any:
        """The host array behind an argument, which must be on the current device."""
        if isinstance(value, Array):
            if value.number != self.current:
                raise ValueError(f"array of device {value.number} used on {self.current}")
            self.check_written(value.host)
            return value.host
        if isinstance(value, np.ndarray):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        if isinstance(value, list | tuple):
            return type(value)(self.host_of(item) for item in value)
        return value

    def result(self, found: Any, sources: list[np.ndarray]) -> Any:
        """Convert a NumPy result to CuPy's form: arrays instead of scalars, and views."""
        if isinstance(found, tuple):
            return tuple(self.result(item, sources) for item in found)
        if not isinstance(found, np.ndarray | np.generic):
            return found
        host = np.asarray(found)
        if any(np.may_share_memory(host, source) for source in sources):
            return Array(self, host, self.current)
        return self.own(host)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a NumPy function with arrays of the device. Graphs cannot capture such calls."""
        if function not in VIEWS:
            self.check_no_capture()
        name = getattr(function, "__name__", "")
        if name in WAITING:
            self.wait()
        sources = [a.host for a in (*args, *kwargs.values()) if isinstance(a, Array)]
        values = {name: self.host_of(value) for name, value in kwargs.items()}
        found = function(*(self.host_of(a) for a in args), **values)
        assert name not in SUMS or found.dtype.kind != "f", f"{name} of floating point"
        return self.result(found, sources)


class Array:
    """``cupy.ndarray``."""

    __array_ufunc__ = None  # NumPy's arrays leave operators to this class

    def __init__(self, machine: Machine, host: np.ndarray, number: int) -> None:
        self.machine, self.host, self.number = machine, host, number

    def __getattr__(self, name: str) -> Any:
        if name in FACTS:
            return getattr(self.host, name)
        if name in VIEWING:
            return partial(self.machine.call, VIEWING[name], self)
        if name in METHODS:
            return partial(self.machine.call, getattr(np.ndarray, name), self)
        raise AttributeError(f"{name} is not among what the fake has of CuPy's arrays")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The interface by which other libraries access the array."""
        return {"shape": self.shape, "typestr": self.dtype.str, "version": 3}

    @property
    def T(self) -> Array:
        """The transposed array."""
        return self.transpose()

    @property
    def device(self) -> Device:
        """The device of the array."""
        return Device(self.machine, self.number)

    def __len__(self) -> int:
        return len(self.host)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Array) and key.dtype == bool:
            self.machine.wait()
        return self.machine.call(operator.getitem, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        machine = self.machine
        machine.check_no_capture()
        machine.host_of(self)[machine.host_of(key)] = machine.host_of(value)

    def __int__(self) -> int:
        self.machine.wait()
        return int(self.host)

    def __float__(self) -> float:
        self.machine.wait()
        return float(self.host)

    def __bool__(self) -> bool:
        self.machine.wait()
        return bool(self.host)

    __hash__ = None  # type: ignore[assignment]

    def get(self, *, out: np.ndarray | None = None, blocking: bool = True) -> np.ndarray:
        """Copy to the host; ``out`` is filled when the host waits for an event."""
        if out is None:
            self.machine.wait()
            return self.machine.host_of(self).copy()
        self.machine.check_no_capture()
        assert not blocking and out.shape == self.shape and out.dtype == self.dtype
        self.machine._local.pending = (out, self.machine.host_of(self).copy())
        return out

    def set(self, arr: np.ndarray, stream: Stream | None = None) -> None:
        """Copy from the host, and wait for the copy if no stream is given.

        With a stream, the host must not change the pinned memory until it has waited.
        """
        self.machine.events.append(UPLOAD)
        if stream is None:
            self.machine.wait()
        elif self.machine.is_pinned(arr):
            stream.uploads.append((arr, arr.copy()))
        else:
            assert self.machine.refuse_pinned, "an asynchronous copy from memory that is not pinned"
        self.machine.check_no_capture()
        if not self.flags.c_contiguous:
            raise RuntimeError("Cannot set to non-contiguous array")
        if arr.dtype != self.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if arr.shape != self.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        self.machine.uploaded += arr.nbytes
        self.machine.host_of(self)[...] = arr
        self.machine.note_write(self.host)


def _operator(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *other: self.machine.call(function, self, *other)


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: self.machine.call(lambda a, b: function(b, a), self, other)


for _name, _function in OPERATORS.items():
    setattr(Array, _name, _operator(_function))
for _name in REFLECTED:
    setattr(Array, f"__r{_name}__", _reflected(OPERATORS[f"__{_name}__"]))


class csr_matrix:
    """``cupyx.scipy.sparse.csr_matrix`` over arrays of the device."""

    def __init__(self, parts: tuple[Array, Array, Array], shape: tuple[int, int]) -> None:
        assert len({part.number for part in parts}) == 1
        self.parts, self.shape = parts, shape
        data, indices, indptr = parts
        assert data.dtype.char in "?fdFD" and indices.dtype == indptr.dtype

    def get(self) -> scipy.sparse.csr_matrix:
        """Copy to the host."""
        with self.parts[0].device:
            parts = tuple(part.get() for part in self.parts)
        return scipy.sparse.csr_matrix(parts, shape=self.shape)


def make(machine: Machine) -> types.ModuleType:
    """Create the fake module ``cupy``."""
    cupy = types.ModuleType("cupy")
    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    names: dict[str, Any] = {name: getattr(np, name) for name in TYPES}
    names |= {name: partial(machine.call, getattr(np, name)) for name in FUNCTIONS}

    def empty(shape: Any, dtype: Any = float) -> Array:
        host: np.ndarray = np.empty(shape, dtype)
        host.reshape(-1).view(np.uint8).fill(GARBAGE)
        return machine.own(host)

    def asarray(a: Any, dtype: Any = None, order: Any = None) -> Array:
        if isinstance(a, Array):
            host = machine.host_of(a)
            same = np.asarray(host, dtype=dtype, order=order)
            return a if same is host else machine.own(same)
        host = np.array(a, dtype=dtype, order=order or "K")
        machine.uploaded += host.nbytes
        return machine.own(host)

    def asnumpy(a: Array, *, order: Any = "C") -> np.ndarray:
        return np.asarray(a.get(), order=order)

    names |= {
        "__version__": "14.2.0",
        "ndarray": Array,
        "asarray": asarray,
        "empty": empty,
        "empty_like": lambda prototype: empty(prototype.shape, prototype.dtype),
        "array": lambda obj, dtype=None: asarray(obj, dtype),
        "ascontiguousarray": lambda a: asarray(a, order="C"),
        "asnumpy": asnumpy,
        "get_default_memory_pool": lambda: pool_of(machine),
        "get_default_pinned_memory_pool": lambda: pinned_pool_of(machine),
        "RawKernel": raw_kernel_of(machine),
        "cuda": cuda_of(machine),
    }
    for name, value in names.items():
        setattr(cupy, name, value)
    return cupy
