"""Recorded launches of a batch of trees, which can be replayed with other inputs.

While a batch is recorded, arrays are only made by ``xp.empty``, and all other work on the device is
a launch; other functions of the array module, and copies, raise an error. So the list of launches
contains all work of the batch, and decisions of the host cannot depend on results of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.arena import Arena, ArenaPlan
from gpuboost.backends.cuda.runtime.protocol import Launchable, Runtime
from gpuboost.engine.growth.frontier import Array


class Recording:
    """Recorded launches, and the memory of their arrays.

    Parameters
    ----------
    runtime : Runtime
    plan : ArenaPlan
        Offsets of the arrays that are made during the recording.

    Attributes
    ----------
    arena : Arena
        Memory of the arrays.
    launches : list of callable
        Launches with their arguments, which keep the arrays alive.
    """

    def __init__(self, runtime: Runtime, plan: ArenaPlan) -> None:
        self.arena = Arena(runtime.xp, plan)
        self._runtime = runtime
        self.launches: list[Callable[[], None]] = []
        self._repeat: Callable[[], None] | None = None

    def replay(self) -> None:
        """Repeat all launches, captured as one graph if the device supports that."""
        if self._repeat is None:
            self._repeat = self._runtime.capture(self._launch_all)
        self._repeat()

    def _launch_all(self) -> None:
        for launch in self.launches:
            launch()


class RecordedModule:
    """The array module of a runtime that records.

    While a batch is recorded, arrays come from the recording's arena, and functions whose work
    would not be recorded raise RuntimeError.
    """

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self.arena: Arena | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._xp, name)
        if self.arena is not None and callable(found) and not isinstance(found, type):
            raise RuntimeError(_unseen(f"{name} of the array module"))
        return found

    def empty(self, shape: Any, dtype: Any = float) -> Array:
        """Return an array whose values are undefined."""
        if self.arena is None:
            return self._xp.empty(shape, dtype=dtype)
        return self.arena.take(shape, dtype)


class RecordingRuntime:
    """A runtime that can record its launches; see `Runtime`.

    During a recording, copies between host and device raise RuntimeError. Each tree grower has its
    own recording runtime, and uses it in one thread at a time.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.name = runtime.name
        self.shared_memory = runtime.shared_memory
        self.n_multiprocessors = runtime.n_multiprocessors
        self.xp: Any = RecordedModule(runtime.xp)
        self._recording: Recording | None = None

    @contextmanager
    def recording(self, plan: ArenaPlan) -> Iterator[Recording]:
        """Return a context that records launches and takes arrays from the recording's arena."""
        recording = Recording(self._runtime, plan)
        self._recording, self.xp.arena = recording, recording.arena
        try:
            yield recording
        finally:
            self._recording = self.xp.arena = None

    # ---- Runtime -------------------------------------------------------------------------------

    def active(self) -> AbstractContextManager[None]:
        """Return a context in which the runtime's device is current."""
        return self._runtime.active()

    def memory_budget(self) -> int:
        """Return the number of bytes that a fit may allocate."""
        return self._runtime.memory_budget()

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Launchable:
        """Return a kernel for immediate use; if a recording is open, launches are also recorded."""
        kernel, recording = self._runtime.kernel(file_name, name, constants), self._recording
        if recording is None:
            return kernel

        def launch(*given: Any) -> None:
            kernel(*given)
            recording.launches.append(partial(kernel, *given))

        return launch

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Return a function that repeats launches."""
        return self._runtime.capture(launches)

    def asarray(self, host: np.ndarray) -> Array:
        """Copy a host array to the device."""
        return self._seen("a copy to the device").asarray(host)

    def upload(self, host: np.ndarray, array: Array) -> None:
        """Copy a host array to a device array."""
        self._seen("a copy to the device").upload(host, array)

    def to_host(self, array: Array) -> np.ndarray:
        """Copy a device array to the host."""
        return self._seen("a copy to the host").to_host(array)

    def read_later(self, array: Array) -> Callable[[], np.ndarray]:
        """Start to copy a device array to the host."""
        return self._seen("a copy to the host").read_later(array)

    def _seen(self, what: str) -> Runtime:
        if self._recording is not None:
            raise RuntimeError(_unseen(what))
        return self._runtime


def _unseen(what: str) -> str:
    return (
        f"{what} is not a launch, so it would be missing when the batch is replayed; "
        "make it a kernel, or do it before the recording"
    )
