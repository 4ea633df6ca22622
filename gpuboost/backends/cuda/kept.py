"""Memory of what the host reads of a batch: in one piece, so that it is copied at once.

Where arrays are asked to be separate, see `level.is_separate`, the piece is made on the host alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.level import cut, is_separate, one_piece, room_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuboost.backends.cuda.level import Columns
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array


class KeptMemory:
    """Arrays that lie one after the other; stands for an array module where arrays are made.

    Parameters
    ----------
    xp : module
    n_bytes : int
        Of all arrays that will be made, each rounded up by `level.room_of`.
    """

    uint8 = np.uint8

    def __init__(self, xp: Any, n_bytes: int) -> None:
        self.separate = is_separate(xp)
        self._xp, self._n_bytes = xp, n_bytes
        if not self.separate:
            self._memory = one_piece(xp, {"all": (np.uint8, (n_bytes,))})
        self._at = 0
        self._taken: dict[int, tuple[Array, int]] = {}
        self._host = np.empty(0, dtype=np.uint8)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """An array whose values are undefined."""
        columns: Columns = {"new": (dtype, shape if isinstance(shape, tuple) else (shape,))}
        if self.separate:
            array = self._xp.empty(shape, dtype)
        else:
            array = cut(self._memory[self._at :], columns)["new"]
        self._taken[id(array)] = array, self._at
        self._at += room_of(columns)
        return array

    def part(self, array: Array, first: int, n: int) -> Array:
        """Some rows of an array that was made here, as one made here."""
        view, at = array[first : first + n], self._taken[id(array)][1]
        self._taken[id(view)] = view, at + first * (array.nbytes // len(array))
        return view

    def read_later(self, runtime: Runtime) -> Callable[[], np.ndarray]:
        """Start to copy all of it, after what was launched; the call waits for it."""
        if not self.separate:
            return runtime.read_later(self._memory)
        reads = [(runtime.read_later(array), at) for array, at in self._taken.values()]

        def read_all() -> np.ndarray:
            host = np.empty(self._n_bytes, dtype=np.uint8)
            for read, at in reads:
                one = read()
                cut(host[at:], {"one": (one.dtype, one.shape)})["one"][...] = one
            return host

        return read_all

    def show(self, copied: np.ndarray) -> None:
        """Let `on_host` read this copy."""
        self._host = copied

    def on_host(self, array: Array) -> np.ndarray:
        """The copy, shown last, of an array that was made here."""
        at = self._taken[id(array)][1]
        return cut(self._host[at:], {"copy": (array.dtype, array.shape)})["copy"]
