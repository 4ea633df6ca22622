"""Copies between host and device through a few fixed buffers of pinned memory.

Copies through pinned memory are asynchronous: a buffer must not change until an event shows that
its copy is done. CuPy rounds the size of each upload up to a power of two, pins a buffer of this
size and keeps it; here, all uploads and downloads of a device pin at most 32 MiB. (The copies of
`Runtime.read_later` are in pinned memory of their own.)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from gpuboost.engine.growth.frontier import Array

BUFFER_BYTES = 4 << 20  # assumed: a copy takes 80 us, at 50 GB/s; its call and event take 10 us
UPLOAD_BUFFERS = 4
UPLOAD_THREADS = 2  # fill two buffers of a large upload, while the device reads two others
# The device fills one buffer while threads empty the others. One thread copies 4 GB/s to newly
# allocated memory, two copy 5.7 GB/s (on two busy cores).
DOWNLOAD_BUFFERS = 4
_SMALL = 64 << 10  # bytes; downloads up to this size go through a staging buffer of the driver
_ALIGNMENT = 256


def pinned_memory(cupy: Any, n_bytes: int) -> Any:
    """Allocate pinned memory of the host.

    If the system refuses to pin memory, ordinary memory is returned. In that case, when the call
    that starts a copy returns, the driver has already copied or staged the data.
    """
    try:
        return cupy.cuda.alloc_pinned_memory(n_bytes)
    except (MemoryError, cupy.cuda.runtime.CUDARuntimeError):
        return bytearray(n_bytes)


class PinnedBuffer:
    """A buffer of pinned memory. Several uploads can share one; each has an event after its copy.

    Parameters
    ----------
    cupy : module

    Attributes
    ----------
    memory : uint8 (BUFFER_BYTES,)
        The whole buffer.
    """

    def __init__(self, cupy: Any) -> None:
        owner = pinned_memory(cupy, BUFFER_BYTES)
        self.memory: np.ndarray = np.frombuffer(owner, np.uint8, BUFFER_BYTES)
        self._used = 0
        self._events: deque[Any] = deque()

    def take(self, n_bytes: int) -> np.ndarray | None:
        """Reserve ``n_bytes`` bytes for a copy; return None if fewer are left."""
        first = -(-self._used // _ALIGNMENT) * _ALIGNMENT
        if first + n_bytes > BUFFER_BYTES:
            return None
        self._used = first + n_bytes
        return self.memory[first : self._used]

    def keep_until(self, event: Any) -> None:
        """Keep the bytes in use until ``event``, which was recorded after a copy, is done."""
        while self._events and self._events[0].done:
            self._events.popleft()
        self._events.append(event)

    def reopen(self) -> None:
        """Wait for all copies, so that all bytes can be used again."""
        while self._events:
            self._events[0].synchronize()
            self._events.popleft()
        self._used = 0


class Uploads:
    """Copies from the host to the device. Several threads can use one object at once.

    Small copies share a buffer. The host waits for the device only when all buffers are full.

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

        The caller may change ``host`` as soon as the call returns.
        """
        if not array.flags.c_contiguous:
            raise ValueError("a device array must be C-contiguous to be copied to")
        pieces, flat = list(_pieces(host)), array.reshape(-1)
        if len(pieces) <= 1:
            self._copy(pieces, flat, map)
            return
        with ThreadPoolExecutor(UPLOAD_THREADS) as threads:
            for first in range(0, len(pieces), UPLOAD_THREADS):
                own = pieces[first : first + UPLOAD_THREADS]
                self._copy(own, flat, threads.map)
                flat = flat[sum(piece.size for piece in own) :]

    def _copy(self, pieces: list[np.ndarray], flat: Array, run: Callable[..., Any]) -> None:
        """Copy pieces to the first items of an array; ``run`` maps over them."""
        stream, first = self._cupy.cuda.get_current_stream(), 0
        with self._lock:
            taken = [self._take(piece.nbytes) for piece in pieces]
            staged = [memory.view(flat.dtype) for _, memory in taken]
            deque(run(_fill, staged, pieces), maxlen=0)
            for (buffer, _), own in zip(taken, staged, strict=True):
                flat[first : first + own.size].set(own, stream=stream)
                event = self._cupy.cuda.Event(disable_timing=True)
                event.record(stream)
                buffer.keep_until(event)
                first += own.size

    def _take(self, n_bytes: int) -> tuple[PinnedBuffer, np.ndarray]:
        """Reserve bytes; return their buffer and the bytes.

        If all buffers are full, the oldest is emptied: the host waits for its copies.
        """
        memory = self._buffers[0].take(n_bytes) if self._buffers else None
        if memory is None:
            if len(self._buffers) < UPLOAD_BUFFERS:
                self._buffers.appendleft(PinnedBuffer(self._cupy))
            else:
                self._buffers.rotate(1)
                self._buffers[0].reopen()
            memory = self._buffers[0].take(n_bytes)
            assert memory is not None
        return self._buffers[0], memory


def _fill(staged: np.ndarray, piece: np.ndarray) -> None:
    """Copy a piece to pinned memory."""
    staged.reshape(piece.shape)[...] = piece


def _pieces(host: np.ndarray) -> Iterator[np.ndarray]:
    """Yield an array in pieces that fit a buffer, in C order; nothing if the array is empty."""
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
    """Copies from the device to new host arrays. Several threads can use one object at once.

    Parameters
    ----------
    cupy : module
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._buffers: list[PinnedBuffer] = []
        self._lock = threading.Lock()

    def copy(self, array: Array) -> np.ndarray:
        """Copy an array to the host, in C order, after all earlier work of the current stream."""
        if array.nbytes <= _SMALL:
            return self._cupy.asnumpy(array, order="C")
        host = np.empty(array.shape, dtype=array.dtype)
        source = self._cupy.ascontiguousarray(array).reshape(-1).view(np.uint8)
        # Wait for earlier kernels here, before the lock is taken, so that other threads can copy.
        self._cupy.cuda.get_current_stream().synchronize()
        with self._lock:
            while len(self._buffers) < DOWNLOAD_BUFFERS:
                self._buffers.append(PinnedBuffer(self._cupy))
            self._copy_in_turns(source, host.reshape(-1).view(np.uint8))
        return host

    def _copy_in_turns(self, source: Array, host: np.ndarray) -> None:
        """Copy through all buffers: threads empty full buffers while the device fills others."""
        copies: deque[Future[None]] = deque()
        with ThreadPoolExecutor(DOWNLOAD_BUFFERS) as threads:
            for number, first in enumerate(range(0, len(host), BUFFER_BYTES)):
                if len(copies) == DOWNLOAD_BUFFERS:
                    copies.popleft().result()
                to = host[first : first + BUFFER_BYTES]
                staged = self._buffers[number % DOWNLOAD_BUFFERS].memory[: len(to)]
                source[first : first + len(to)].get(out=staged, blocking=False)
                event = self._cupy.cuda.Event(disable_timing=True)
                event.record()
                copies.append(threads.submit(_finish, event, staged, to))
            for copy in copies:
                copy.result()


def _finish(event: Any, staged: np.ndarray, to: np.ndarray) -> None:
    """Wait until the device has filled ``staged``, then copy it to the array."""
    event.synchronize()
    to[...] = staged
