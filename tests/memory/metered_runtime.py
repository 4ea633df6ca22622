"""The CPU shim with a meter of the memory that arrays allocate."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.shape_arrays import UNIT, Meter
from tests.cuda.shim_runtime import ShimRuntime


class Tracked(np.ndarray):
    """An array whose memory is counted by a meter while it is alive; views are not counted."""

    meter: Meter | None = None  # common to all arrays

    def __array_finalize__(self, source: Any) -> None:
        self._held = 0
        # The result of a NumPy function arrives here as a view of a plain array.
        own = self.base is None or (type(self.base) is np.ndarray and self.base.base is None)
        if own and self.meter is not None:
            self._held = -(-self.nbytes // UNIT) * UNIT
            self.meter.take(self._held)

    def __del__(self) -> None:
        if self._held and self.meter is not None:
            self.meter.now -= self._held

    @classmethod
    def copy_of(cls, host: np.ndarray) -> Tracked:
        made = cls(host.shape, host.dtype)
        made[...] = host
        return made


class TrackedModule:
    """NumPy whose arrays are tracked."""

    ndarray = Tracked

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, (type, np.ufunc)) or not callable(found):
            return found

        def tracked(*args: Any, **keywords: Any) -> Any:
            made = found(*args, **keywords)
            if type(made) is not np.ndarray:
                return made
            return Tracked.copy_of(made) if made.base is None else made.view(Tracked)

        return tracked


class TrackedRuntime(ShimRuntime):
    """The shim, whose arrays are counted by a meter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.xp = TrackedModule()  # type: ignore[assignment]

    def asarray(self, host: np.ndarray) -> np.ndarray:
        return host if isinstance(host, Tracked) else Tracked.copy_of(np.ascontiguousarray(host))

    def to_host(self, array: np.ndarray) -> np.ndarray:
        return np.array(array)

    def read_later(self, array: np.ndarray) -> Any:
        copied = np.array(array)
        return lambda: copied
