"""A runtime that counts the launches, copies and waits of the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LAUNCH, ARRAY_CALL, UPLOAD, READ, WAIT = "launches", "array_calls", "uploads", "reads", "waits"
# Functions of an array module that launch work on a device; `empty` and views do not.
_WORKING = (
    *("arange", "argsort", "array", "asarray", "bincount", "clip", "concatenate", "copyto"),
    *("count_nonzero", "cumsum", "diff", "flatnonzero", "floor", "full", "isnan", "maximum"),
    *("minimum", "nonzero", "ones", "repeat", "rint", "searchsorted", "sort", "stack", "sum"),
    *("take", "unique", "where", "zeros", "zeros_like", "ascontiguousarray", "copy", "max", "min"),
)


@dataclass
class Counts:
    """Totals of what the host launched, copied and waited for.

    Attributes
    ----------
    of : dict of str to int
        Launches of kernels; calls to the array module that launch work; copies to the device;
        copies to the host; and waits of the host. A copy to the host directly after another one
        does not count as a wait, because the device has nothing left to do.
    reading_seconds : float
        Seconds of copies to the host, including the waits.
    """

    of: dict[str, int] = field(default_factory=dict)
    reading_seconds: float = 0.0
    _busy: bool = False

    def note(self, what: str) -> None:
        """Count one launch, call, copy or wait."""
        self.of[what] = self.of.get(what, 0) + 1
        if what in (LAUNCH, ARRAY_CALL):
            self._busy = True
        if what == READ and self._busy:
            self.of[WAIT] = self.of.get(WAIT, 0) + 1
            self._busy = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Count a copy to the host, and add its seconds."""
        self.note(READ)
        started = time.perf_counter()
        yield
        self.reading_seconds += time.perf_counter() - started

    def clear(self) -> None:
        """Set all counts to zero."""
        self.of.clear()
        self.reading_seconds = 0.0
        self._busy = False

    def per(self, trees: int) -> dict[str, float]:
        """All counts, divided by the number of trees."""
        names = (LAUNCH, ARRAY_CALL, UPLOAD, READ, WAIT)
        return {f"{name}_per_tree": round(self.of.get(name, 0) / trees, 3) for name in names}


class CountingModule:
    """An array module that counts the calls that launch work."""

    def __init__(self, module: Any, counts: Counts) -> None:
        self._module, self._counts = module, counts

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if name not in _WORKING:
            return found

        def counted(*args: Any, **keywords: Any) -> Any:
            self._counts.note(ARRAY_CALL)
            return found(*args, **keywords)

        return counted


class CountingRuntime:
    """Wraps a `Runtime` of `gpuboost.backends.cuda` and counts its launches and copies."""

    def __init__(self, inner: Any, counts: Counts | None = None) -> None:
        self.inner = inner
        self.counts = counts if counts is not None else Counts()
        self.xp = CountingModule(inner.xp, self.counts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Any:
        """A kernel whose launches are counted."""
        kernel = self.inner.kernel(file_name, name, constants)

        def launch(
            grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0
        ) -> None:
            self.counts.note(LAUNCH)
            kernel(grid, block, args, shared_mem)

        return launch

    def asarray(self, host: np.ndarray) -> Any:
        """Copy an array to the device."""
        self.counts.note(UPLOAD)
        return self.inner.asarray(host)

    def upload(self, host: np.ndarray, array: Any) -> None:
        """Copy to an existing array on the device."""
        self.counts.note(UPLOAD)
        self.inner.upload(host, array)

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Capture a graph, which counts as one launch; capturing itself counts nothing."""
        before = dict(self.counts.of)
        repeat = self.inner.capture(launches)
        self.counts.of = before
        if repeat is launches:  # without graphs, launches are counted one by one
            return repeat

        def counted() -> None:
            self.counts.note(LAUNCH)
            repeat()

        return counted

    def to_host(self, array: Any) -> np.ndarray:
        """Copy an array to the host, which waits for everything launched earlier."""
        with self.counts.reading():
            return self.inner.to_host(array)

    def read_later(self, array: Any) -> Callable[[], np.ndarray]:
        """Start a copy to the host; it is counted when the host waits for it."""
        read = self.inner.read_later(array)

        def counted() -> np.ndarray:
            with self.counts.reading():
                return read()

        return counted
