"""Streams and graphs of the fake CuPy; launches during a capture are recorded and not run.

As with CUDA, a stream that captures accepts only launches of kernels: allocations, copies and waits
end the capture with an error. Stricter than CUDA, the stream must be one that does not wait for the
default stream, since work of other threads on that stream would end the capture too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fakes.fake_errors import CUDARuntimeError

if TYPE_CHECKING:
    from tests.fakes.fake_cupy import Machine

_ILLEGAL_ADDRESS, _NOT_WHILE_CAPTURING, _CAPTURE_ENDED = 700, 900, 901
GRAPH = "graph"


class Borrowed:
    """A weak reference to an array: arguments of a graph do not keep memory alive."""

    def __init__(self, host: np.ndarray) -> None:
        owner = host if host.base is None else host.base
        assert isinstance(owner, np.ndarray)
        self._owner = weakref.ref(owner)
        self._layout: dict[str, Any] = {
            "shape": host.shape,
            "dtype": host.dtype,
            "offset": host.ctypes.data - owner.ctypes.data,
            "strides": host.strides,
        }

    def array(self) -> np.ndarray:
        """The array, if its memory is still allocated."""
        owner = self._owner()
        if owner is None:
            raise CUDARuntimeError(_ILLEGAL_ADDRESS)
        return np.ndarray(buffer=owner, **self._layout)


def captured(launch: Callable[[list[Any]], None], values: list[Any]) -> Callable[[], None]:
    """A launch in a graph, with the arguments at the time of the capture."""
    borrowed = [Borrowed(value) if isinstance(value, np.ndarray) else value for value in values]

    def run() -> None:
        launch([one.array() if isinstance(one, Borrowed) else one for one in borrowed])

    return run


class Graph:
    """``cupy.cuda.Graph``."""

    def __init__(self, machine: Machine, launches: list[Callable[[], None]]) -> None:
        self.machine, self.launches = machine, launches
        self.number = machine.current
        self.uploaded = False

    def upload(self, stream: Stream | None = None) -> None:
        """Prepare the graph."""
        self.machine.check_no_capture()
        self.uploaded = True

    def launch(self, stream: Stream | None = None) -> None:
        """Run the launches of the graph."""
        machine = self.machine
        machine.check_no_capture()
        if self.number != machine.current:
            raise CUDARuntimeError(400)
        machine.events.append(GRAPH)
        for launch in self.launches:
            launch()


class Stream:
    """``cupy.cuda.Stream``."""

    machine: Machine

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.is_null, self.is_non_blocking = null, non_blocking
        self.launches: list[Callable[[], None]] | None = None  # while it captures
        self.ended = False  # by an error
        self.waited = 0  # `Machine.clock` at the host's last wait for the stream
        self.ptr = id(self)
        # Unfinished copies to the device: host memory, and its contents at the call.
        self.uploads: list[tuple[np.ndarray, np.ndarray]] = []

    def _finish_uploads(self) -> None:
        """Finish the copies to the device; the host memory must not have changed since the call."""
        for source, copied in self.uploads:
            same = source.tobytes() == copied.tobytes()
            assert same, "the host wrote to pinned memory before a copy from there was done"
        self.uploads.clear()

    def synchronize(self) -> None:
        """Wait for the stream."""
        self.machine.wait_for(self)

    def waits_for(self, other: Stream) -> bool:
        """Whether new work of this stream runs after the work that ``other`` has been given."""
        by_default = self.is_null or other.is_null
        return self is other or (by_default and not (self.is_non_blocking or other.is_non_blocking))

    def __enter__(self) -> Stream:
        self.machine.streams.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        assert self.machine.streams.pop() is self

    def begin_capture(self, mode: int | None = None) -> None:
        """Start capturing launches."""
        if self.is_null:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        assert self.is_non_blocking, "work on the default stream would end this capture"
        self.launches, self.ended = [], False

    def end_capture(self) -> Graph:
        """End the capture and return the graph."""
        launches, self.launches = self.launches, None
        if launches is None or self.ended:
            raise CUDARuntimeError(_CAPTURE_ENDED)
        return Graph(self.machine, launches)

    def is_capturing(self) -> bool:
        """Whether the stream is capturing."""
        return self.launches is not None

    def end_by_error(self) -> None:
        """End the capture because of work that graphs cannot hold."""
        if self.is_capturing():
            self.ended = True
            raise CUDARuntimeError(_NOT_WHILE_CAPTURING)


def streams_of(machine: Machine) -> dict[str, Any]:
    """The names of ``cupy.cuda`` that concern streams."""
    return {
        "Stream": type("Stream", (Stream,), {"machine": machine}),
        "Graph": Graph,
        "get_current_stream": lambda: machine.stream,
    }
