"""A device for dry runs: its arrays have shapes but no memory, and its kernels do nothing.

The host code of a fit allocates and frees the same arrays in the same order, whatever the data.
Running it over shape arrays shows how much memory the fit takes. If the host reads back numbers of
nodes, the sizes of arrays also depend on these numbers; a dry run takes estimates instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.protocol import Launchable

UNIT = 512  # bytes that allocations are rounded up to, as CuPy's pool does
_FIRST_KERNEL = "make_roots"  # launched once for each batch
_LEVEL_KERNEL = "make_children"  # launched once for each level below the roots
_LAST_KERNEL = "number_nodes"  # launched when there are no more levels


class Meter:
    """Bytes that are allocated now, and their maximum so far."""

    def __init__(self) -> None:
        self.now = self.peak = 0
        self.sizes: list[int] = []  # of all allocations so far
        self.ends: list[int | None] = []  # allocations made before each was freed, or None

    def take(self, size: int) -> int:
        """Allocate bytes; return the number of the allocation."""
        self.now += size
        self.peak = max(self.peak, self.now)
        self.sizes.append(size)
        self.ends.append(None)
        return len(self.sizes) - 1

    def give_back(self, number: int) -> None:
        """Free the allocation with this number."""
        self.now -= self.sizes[number]
        self.ends[number] = len(self.sizes)

    def lives(self, first: int) -> tuple[list[int], list[int]]:
        """Sizes and ends of the allocations from ``first`` on, as `arena.plan_arena` takes them."""
        sizes, last = self.sizes[first:], len(self.sizes)
        return sizes, [(last if end is None else end) - first for end in self.ends[first:]]


class _Memory:
    """One allocation, which is freed when no array refers to it."""

    def __init__(self, meter: Meter, size: int) -> None:
        self._meter = meter
        self._number = meter.take(-(-size // UNIT) * UNIT)

    def __del__(self) -> None:
        self._meter.give_back(self._number)


class ShapeArray:
    """An array with a shape and a type.

    Operations that make a new array in NumPy make a new allocation here; views share one. All
    arrays count as contiguous.

    Parameters
    ----------
    meter : Meter
    shape : tuple of int
    dtype : dtype
    memory : object, optional
        The allocation that a view shares; by default, a new one.
    """

    __array_ufunc__ = None  # arithmetic with NumPy arrays is an error

    def __init__(
        self, meter: Meter, shape: Sequence[int], dtype: Any, memory: _Memory | None = None
    ) -> None:
        self.shape = tuple(int(length) for length in shape)
        self.dtype = np.dtype(dtype)
        self.meter = meter
        self._memory = _Memory(meter, self.nbytes) if memory is None else memory

    # ---- shape ---------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> ShapeArray:
        return self._view(self.shape[::-1])

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.broadcast_to(np.zeros((), dtype or self.dtype), self.shape)

    # ---- views ---------------------------------------------------------------------------------

    def _view(self, shape: Sequence[int], dtype: Any = None) -> ShapeArray:
        return ShapeArray(self.meter, shape, dtype or self.dtype, self._memory)

    def view(self, dtype: Any) -> ShapeArray:
        dtype = np.dtype(dtype)
        last = self.shape[-1] * self.dtype.itemsize // dtype.itemsize
        return self._view((*self.shape[:-1], last), dtype)

    def reshape(self, *shape: Any) -> ShapeArray:
        return self._view(np.asarray(self).reshape(*shape).shape)

    def __getitem__(self, key: Any) -> ShapeArray:
        if isinstance(key, slice):  # the most frequent case: a third of a dry run's time
            return self._view((len(range(*key.indices(self.shape[0]))), *self.shape[1:]))
        parts = key if isinstance(key, tuple) else (key,)
        picked = tuple(np.asarray(part) if isinstance(part, ShapeArray) else part for part in parts)
        shape = np.asarray(self)[picked].shape
        if any(isinstance(part, (ShapeArray, np.ndarray)) for part in parts):
            return ShapeArray(self.meter, shape, self.dtype)
        return self._view(shape)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Values are not stored."""

    # ---- new arrays ----------------------------------------------------------------------------

    def astype(self, dtype: Any) -> ShapeArray:
        return ShapeArray(self.meter, self.shape, dtype)

    def __eq__(self, other: object) -> ShapeArray:  # type: ignore[override]
        return self.astype(bool)

    __hash__ = None  # type: ignore[assignment]


class ShapeModule:
    """The functions, types and constants of an array module that a fit uses.

    Other functions raise AttributeError.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found  # number types and constants
        raise AttributeError(f"shape arrays have no {name}; add it to ShapeModule")

    def empty(self, shape: Any, dtype: Any = np.float64) -> ShapeArray:
        return ShapeArray(self._meter, shape if isinstance(shape, tuple) else (shape,), dtype)

    zeros = ones = empty

    def argsort(self, array: ShapeArray, kind: str) -> ShapeArray:
        return self.empty(array.size, np.int64)

    def ascontiguousarray(self, array: ShapeArray) -> ShapeArray:
        return array

    def concatenate(self, arrays: Sequence[ShapeArray], axis: int = 0) -> ShapeArray:
        shape = list(arrays[0].shape)
        shape[axis] = sum(array.shape[axis] for array in arrays)
        return self.empty(tuple(shape), arrays[0].dtype)


class ShapeRuntime:
    """A `Runtime` over shape arrays.

    Parameters
    ----------
    shared_memory, n_multiprocessors : int
        Properties of the device.
    nodes_at : callable
        Function that returns the number of nodes that the host is assumed to read at a depth.
    """

    name = "shape_array"

    def __init__(
        self, shared_memory: int, n_multiprocessors: int, nodes_at: Callable[[int], int]
    ) -> None:
        self.meter = Meter()
        self.xp: Any = ShapeModule(self.meter)
        self.shared_memory, self.n_multiprocessors = shared_memory, n_multiprocessors
        self._nodes_at, self._depth = nodes_at, 0
        self._all_known = False  # whether the next read returns the number of nodes of all levels
        self.was_read = False  # whether any computed value was read

    def active(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()

    def memory_budget(self) -> int:
        """Return 0: a dry run takes its budget from its task instead."""
        return 0

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Launchable:
        """Return a kernel that only counts levels."""

        def launch(*_: Any) -> None:
            if name == _FIRST_KERNEL:
                self._depth, self._all_known = 0, False
            self._depth += name == _LEVEL_KERNEL
            self._all_known |= name == _LAST_KERNEL

        return launch

    def asarray(self, host: Any) -> ShapeArray:
        """Allocate a shape array for a copy, even if ``host`` is a shape array."""
        return ShapeArray(self.meter, host.shape, host.dtype)

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Return ``launches``, which do nothing."""
        return launches

    def upload(self, host: np.ndarray, array: Any) -> None:
        """Do nothing, because values are not stored."""

    def to_host(self, array: Any) -> np.ndarray:
        """Raise an error, because shape arrays have no values to read."""
        raise RuntimeError("shape arrays hold nothing that could be copied to the host")

    def read_later(self, array: Any) -> Callable[[], np.ndarray]:
        """Return a function that returns the assumed number of nodes, in the shape of ``array``.

        This is the number of nodes of the newest level or, once no level follows, of all levels.
        """
        self.was_read = True
        levels = range(0 if self._all_known else self._depth, self._depth + 1)
        nodes = np.full(array.shape, sum(map(self._nodes_at, levels)), dtype=array.dtype)
        return lambda: nodes


@dataclass(frozen=True)
class DeviceShape:
    """The properties of a device that determine how much memory a fit takes.

    The defaults are those of an NVIDIA H200.

    Attributes
    ----------
    shared_memory : int
        Maximum shared memory of a block, in bytes.
    n_multiprocessors : int
        Number of multiprocessors.
    """

    shared_memory: int = 227 << 10
    n_multiprocessors: int = 132

    @classmethod
    def of(cls, runtime: Any) -> DeviceShape:
        """The properties of the device of a runtime."""
        return cls(runtime.shared_memory, runtime.n_multiprocessors)
