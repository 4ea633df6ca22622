"""Copies between host and device through a few fixed buffers of pinned memory.

The device reads and writes pinned memory by itself, so a copy from there is asynchronous: the
buffer must stay as it is until an event says that the copy is done. CuPy pins the next power of two
of every array that it uploads, and keeps it. Here a fit of any size pins 24 MiB at most.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuboost.engine.frontier import Array

BUFFER_BYTES = 4 << 20  # a copy of as much takes 80 us or more, its event and its call 10
UPLOAD_BUFFERS = 4
DOWNLOAD_BUFFERS = 2  # one is filled by the device while the host empties the other
_SMALL = 64 << 10  # bytes that the driver copies by itself as fast
_ALIGNMENT = 256


def pinned_memory(cupy: Any, n_bytes: int) -> Any:
    """Pinned memory of the host, as a buffer.

    Where the system refuses to pin it, it is ordinary memory: the driver has then copied, or has a
    copy of its own, when the call that begins the copy returns.
    """
    try:
        return cupy.cuda.alloc_pinned_memory(n_bytes)
    except (MemoryError, cupy.cuda.runtime.CUDARuntimeError):
        return bytearray(n_bytes)


class PinnedBuffer:
    """Pinned memory, and the streams that copy from it.

    Parameters
    ----------
    cupy : module

    Attributes
    ----------
    memory : uint8 (BUFFER_BYTES,)
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        owner = pinned_memory(cupy, BUFFER_BYTES)
        self.memory: np.ndarray = np.frombuffer(owner, np.uint8, BUFFER_BYTES)
        self._used = 0
        self._streams: dict[int, Any] = {}  # by pointer: those that copy from the buffer
        self._events: list[Any] = []

    def take(self, n_bytes: int, stream: Any) -> np.ndarray | None:
        """Bytes for a copy on a stream, None if the buffer has too few left."""
        first = -(-self._used // _ALIGNMENT) * _ALIGNMENT
        if first + n_bytes > BUFFER_BYTES:
            return None
        self._used = first + n_bytes
        self._streams[stream.ptr] = stream
        return self.memory[first : self._used]

    def close(self) -> None:
        """Record an event behind the copies that have begun."""
        for stream in self._streams.values():
            event = self._cupy.cuda.Event(disable_timing=True)
            event.record(stream)
            self._events.append(event)
        self._streams.clear()

    def reopen(self) -> None:
        """Wait for the copies, and offer all bytes again."""
        self.close()
        for event in self._events:
            event.synchronize()
        self._events.clear()
        self._used = 0


class Uploads:
    """Copies from the host to the device. Several threads may use it at once.

    Small copies share a buffer, so the host waits for the device only when all buffers are full.

    Parameters
    ----------
    cupy : module
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._buffers: deque[PinnedBuffer] = deque()  # the first one is being filled
        self._lock = threading.Lock()

    def copy(self, host: np.ndarray, array: Array) -> None:
        """Copy to a C-contiguous array of the same shape and type on the current stream.

        The host may change its array when the call returns.
        """
        stream, flat, first = self._cupy.cuda.get_current_stream(), array.reshape(-1), 0
        for piece in _pieces(host):
            with self._lock:
                staged = self._take(piece.nbytes, stream).view(array.dtype)
                np.copyto(staged.reshape(piece.shape), piece)
                flat[first : first + piece.size].set(staged, stream=stream)
            first += piece.size

    def _take(self, n_bytes: int, stream: Any) -> np.ndarray:
        """Pinned memory; the buffer that was filled longest ago is used again."""
        if self._buffers:
            staged = self._buffers[0].take(n_bytes, stream)
            if staged is not None:
                return staged
            self._buffers[0].close()
        if len(self._buffers) < UPLOAD_BUFFERS:
            self._buffers.appendleft(PinnedBuffer(self._cupy))
        else:
            self._buffers.rotate(1)
            self._buffers[0].reopen()
        staged = self._buffers[0].take(n_bytes, stream)
        assert staged is not None
        return staged


def _pieces(host: np.ndarray) -> Iterator[np.ndarray]:
    """An array in pieces that fit a buffer, in C order."""
    if host.nbytes <= BUFFER_BYTES:
        if host.size:
            yield host
        return
    step = BUFFER_BYTES // (host.nbytes // len(host))  # items of the first axis
    for first in range(0, len(host), max(1, step)):
        if step:
            yield host[first : first + step]
        else:
            yield from _pieces(host[first])


class Downloads:
    """Copies from the device to new arrays of the host. Several threads may use it at once.

    Parameters
    ----------
    cupy : module
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._buffers: list[PinnedBuffer] = []
        self._lock = threading.Lock()

    def copy(self, array: Array) -> np.ndarray:
        """Copy an array to the host, in C order, after what the current stream was given."""
        if array.nbytes <= _SMALL:
            return self._cupy.asnumpy(array, order="C")
        host = np.empty(array.shape, dtype=array.dtype)
        source = self._cupy.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._cupy.cuda.get_current_stream().synchronize()  # not while others wait for the lock
        with self._lock:
            while len(self._buffers) < DOWNLOAD_BUFFERS:
                self._buffers.append(PinnedBuffer(self._cupy))
            self._copy_in_turns(source, host.reshape(-1).view(np.uint8))
        return host

    def _copy_in_turns(self, source: Array, host: np.ndarray) -> None:
        """Empty a buffer while the next one is being filled."""
        begun: deque[tuple[Any, np.ndarray, np.ndarray]] = deque()
        for number, first in enumerate(range(0, len(host), BUFFER_BYTES)):
            to = host[first : first + BUFFER_BYTES]
            staged = self._buffers[number % DOWNLOAD_BUFFERS].memory[: len(to)]
            if len(begun) == DOWNLOAD_BUFFERS:
                _finish(*begun.popleft())
            source[first : first + len(to)].get(out=staged, blocking=False)
            event = self._cupy.cuda.Event(disable_timing=True)
            event.record()
            begun.append((event, staged, to))
        while begun:
            _finish(*begun.popleft())


def _finish(event: Any, staged: np.ndarray, to: np.ndarray) -> None:
    """Wait for a copy to the buffer, and empty that."""
    event.synchronize()
    to[...] = staged
