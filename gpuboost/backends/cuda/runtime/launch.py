"""What NumPy would do in a line, done by kernels, so that a recorded batch does it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.runtime.source import constant

if TYPE_CHECKING:
    from gpuboost.backends.cuda.runtime.protocol import Runtime
    from gpuboost.engine.growth.frontier import Array

_KERNELS = {1: "fill_bytes", 4: "fill_words", 8: "fill_longs"}  # by the size of an item
_MAX_BLOCKS = 1 << 12  # of a launch: more items than threads are taken in turn


def zeros(runtime: Runtime, shape: int | tuple[int, ...], dtype: Any) -> Array:
    """An array of zeros."""
    return full(runtime, shape, 0, dtype)


def full(runtime: Runtime, shape: int | tuple[int, ...], value: float, dtype: Any) -> Array:
    """An array of one value."""
    array = runtime.xp.empty(shape, dtype=dtype)
    fill(runtime, array, value)
    return array


def fill(runtime: Runtime, array: Array, value: float) -> None:
    """Write one value to all of a contiguous array."""
    size = array.dtype.itemsize
    word = np.array([value], dtype=array.dtype).view(f"u{size}")
    threads = constant("common/fill.cu", "FILL_THREADS")
    n_blocks = min(-(-array.size // threads), _MAX_BLOCKS)
    args = (array.reshape(-1).view(word.dtype), np.int64(array.size), word[0])
    runtime.kernel("common/fill.cu", _KERNELS[size], {})((n_blocks,), (threads,), args)


def count_up(runtime: Runtime, array: Array, step: int) -> None:
    """Write 0, step, 2 step, ... to an array of int32."""
    threads = constant("common/fill.cu", "FILL_THREADS")
    n_blocks = min(-(-len(array) // threads), _MAX_BLOCKS)
    args = (array, np.int64(len(array)), np.int32(step))
    runtime.kernel("common/fill.cu", "count_up", {})((n_blocks,), (threads,), args)


def launch_for_roots(runtime: Runtime, name: str, args: tuple[Any, ...]) -> None:
    """Launch a kernel of roots.cu: one block, for some numbers of each tree."""
    threads = constant("sampling/roots.cu", "ROOTS_THREADS")
    runtime.kernel("sampling/roots.cu", name, {})((1,), (threads,), args)
