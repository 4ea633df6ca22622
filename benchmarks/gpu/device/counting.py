"""A runtime that counts what the host asks of the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LAUNCH, ARRAY_CALL, UPLOAD, READ, WAIT = "launches", "array_calls", "uploads", "reads", "waits"
# Functions of an array module that give work to a device; `empty` and views do not.
_WORKING = (
    *("arange", "argsort", "array", "asarray", "bincount", "clip", "concatenate", "copyto"),
    *("count_nonzero", "cumsum", "diff", "flatnonzero", "floor", "full", "isnan", "maximum"),
    *("minimum", "nonzero", "ones", "repeat", "rint", "searchsorted", "sort", "stack", "sum"),
    *("take", "unique", "where", "zeros", "zeros_like", "ascontiguousarray", "copy", "max", "min"),
)


@dataclass
class Counts:
    """What the host asked for, in total.

    Attributes
    ----------
    of : dict of str to int
        Launches of kernels; calls of the array module that launch something; copies to the
        device; copies to the host; and times the host waited: a copy right after a copy does not
        count again, since the device had nothing left to do.
    reading_seconds : float
        Time that copies to the host took, with the waiting.
    """

    of: dict[str, int] = field(default_factory=dict)
    reading_seconds: float = 0.0
    _busy: bool = False

    def note(self, what: str) -> None:
        """One more."""
        self.of[what] = self.of.get(what, 0) + 1
        if what in (LAUNCH, ARRAY_CALL):
            self._busy = True
        if what == READ and self._busy:
            self.of[WAIT] = self.of.get(WAIT, 0) + 1
            self._busy = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A copy to the host."""
        self.note(READ)
        started = time.perf_counter()
        yield
        self.reading_seconds += time.perf_counter() - started

    def clear(self) -> None:
        """Begin anew."""
        self.of.clear()
        self.reading_seconds = 0.0
        self._busy = False

    def per(self, trees: int) -> dict[str, float]:
        """All counts, for one tree."""
        names = (LAUNCH, ARRAY_CALL, UPLOAD, READ, WAIT)
        return {f"{name}_per_tree": round(self.of.get(name, 0) / trees, 3) for name in names}


class CountingModule:
    """An array module that notes the calls that launch something."""

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
    """A `Runtime` of `gpuboost.backends.cuda` that hands everything on and counts it."""

    def __init__(self, inner: Any, counts: Counts | None = None) -> None:
        self.inner = inner
        self.counts = counts if counts is not None else Counts()
        self.xp = CountingModule(inner.xp, self.counts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Any:
        """The kernel, its launches counted."""
        kernel = self.inner.kernel(file_name, name, constants)

        def launch(
            grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0
        ) -> None:
            self.counts.note(LAUNCH)
            kernel(grid, block, args, shared_mem)

        return launch

    def asarray(self, host: np.ndarray) -> Any:
        """A copy to the device."""
        self.counts.note(UPLOAD)
        return self.inner.asarray(host)

    def upload(self, host: np.ndarray, array: Any) -> None:
        """A copy to an array of the device."""
        self.counts.note(UPLOAD)
        self.inner.upload(host, array)

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """A graph, which is one launch; what is captured for it was none."""
        before = dict(self.counts.of)
        repeat = self.inner.capture(launches)
        self.counts.of = before
        if repeat is launches:  # there are no graphs: launches are counted one by one
            return repeat

        def counted() -> None:
            self.counts.note(LAUNCH)
            repeat()

        return counted

    def to_host(self, array: Any) -> np.ndarray:
        """A copy to the host, which waits for what was launched before."""
        with self.counts.reading():
            return self.inner.to_host(array)

    def read_later(self, array: Any) -> Callable[[], np.ndarray]:
        """A copy under way; counted when the host asks for it."""
        read = self.inner.read_later(array)

        def counted() -> np.ndarray:
            with self.counts.reading():
                return read()

        return counted
