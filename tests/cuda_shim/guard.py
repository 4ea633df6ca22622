"""Copies of arrays that end at a protected page, so that a read past the end faults."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
ALIGNMENT = 16
_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def round_up(bytes_: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-bytes_ // unit) * unit


class _GuardedBlock:
    """Memory between two protected pages; the data end at the second."""

    def __init__(self, bytes_: int) -> None:
        body = round_up(max(bytes_, 1), PAGE)
        self._map = mmap.mmap(-1, body + 2 * PAGE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._body = body
        self.address = self._base + PAGE + body - round_up(bytes_, ALIGNMENT)
        self._protect(_PROT_NONE)

    def _protect(self, mode: int) -> None:
        for page in (self._base, self._base + PAGE + self._body):
            if _libc.mprotect(page, PAGE, mode) != 0:
                raise OSError(ctypes.get_errno(), "mprotect failed")

    def release(self) -> None:
        """Remove the protection; the memory is freed with the last reference."""
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)


class GuardedCopies:
    """Guarded copies of the arrays among a kernel's arguments, written back at the end.

    Arrays that overlap in memory share one copy, so aliases stay aliases.
    """

    def __init__(self, args: Sequence[Any]) -> None:
        self._arrays = {i: a for i, a in enumerate(args) if isinstance(a, np.ndarray)}
        self._blocks: list[tuple[int, int, _GuardedBlock]] = []
        self.addresses: dict[int, int] = {}

    def __enter__(self) -> GuardedCopies:
        for begin, end in self._extents():
            block = _GuardedBlock(end - begin)
            ctypes.memmove(block.address, begin, end - begin)
            self._blocks.append((begin, end, block))
        for position, array in self._arrays.items():
            at = array.ctypes.data
            begin, _, block = [b for b in self._blocks if b[0] <= at][-1]
            self.addresses[position] = block.address + at - begin
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for begin, end, block in self._blocks:
            if self._is_written(begin, end):
                ctypes.memmove(begin, block.address, end - begin)
            block.release()

    def _is_written(self, begin: int, end: int) -> bool:
        inside = (a for a in self._arrays.values() if begin <= a.ctypes.data < end)
        return any(array.flags.writeable for array in inside)

    def _extents(self) -> list[tuple[int, int]]:
        """Address ranges of all arrays; overlapping ones are merged."""
        spans = sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for a in self._arrays.values())
        merged: list[tuple[int, int]] = []
        for begin, end in spans:
            if merged and begin < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        return merged
