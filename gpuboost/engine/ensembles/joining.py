"""Columns of an ensemble: the arrays of all trees joined at once, or tree by tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.engine.sparse_rows import SparseRows, dense

RESERVED = 1.25  # nodes for which memory is reserved, as a multiple of those that are expected


class JoinedColumn:
    """A column of an ensemble that grows with each tree.

    Memory is reserved for the trees to come, as if they were like those before, unless that much
    cannot be had. If all trees are joined at the end, on one thread, a fit of extra-trees of
    100k x 28 takes 30% longer and twice the memory (2026-11).

    Parameters
    ----------
    kind : type
        Type of the elements.
    n_trees : int
        The largest number of trees.
    """

    def __init__(self, kind: type, n_trees: int) -> None:
        self._kind, self._n_trees, self._n_parts, self._n_rows = kind, n_trees, 0, 0
        self._rows: Any = None  # None before the first part

    def append(self, part: Any) -> None:
        """Append the nodes of a tree, or its masks: an array or `SparseRows`."""
        self._n_parts += 1
        end = self._n_rows + part.shape[0]
        if self._rows is None or end > len(self._rows):
            self._reserve(end, part.shape[1:])
        own = self._rows[self._n_rows : end]
        if isinstance(part, SparseRows):
            own[:] = 0
            part.write_to(own)
        else:
            assert part.shape == own.shape
            np.copyto(own, part, casting="same_kind")
        self._n_rows = end

    def _reserve(self, n_rows: int, shape: tuple[int, ...]) -> None:
        """Make room for at least ``n_rows`` rows of this shape, and for those of later parts."""
        before, n_left = self._rows, max(self._n_trees - self._n_parts, 0)
        wanted = n_rows + int(RESERVED * n_rows / self._n_parts * n_left)
        try:
            self._rows = np.empty((wanted, *shape), self._kind)
        except MemoryError:
            self._rows = np.empty((n_rows * 5 // 4, *shape), self._kind)
        if before is not None:
            self._rows[: self._n_rows] = before[: self._n_rows]

    def finish(self) -> np.ndarray:
        """The array of all rows; memory that was reserved for more is released."""
        self._rows.resize((self._n_rows, *self._rows.shape[1:]), refcheck=False)
        whole: np.ndarray = self._rows
        return whole


def joined(parts: list[Any], kind: type) -> np.ndarray:
    """The concatenated parts, arrays or `SparseRows`, of this type.

    A single array is shared, and so is an array of which the parts are slices that cover it.
    """
    if len(parts) == 1:
        return np.asarray(dense(parts[0]), kind)
    whole = getattr(parts[0], "base", None)
    if isinstance(whole, np.ndarray) and whole.dtype == kind and _is_cut_into(whole, parts):
        return whole
    if not any(isinstance(part, SparseRows) for part in parts):
        return np.concatenate(parts, dtype=kind)
    column = JoinedColumn(kind, len(parts))
    for part in parts:
        column.append(part)
    return column.finish()


def _is_cut_into(whole: np.ndarray, parts: list[np.ndarray]) -> bool:
    """Whether the parts are views that cover an array completely and in order."""
    if whole.shape[1:] != parts[0].shape[1:] or len(whole) != sum(map(len, parts)):
        return False
    at = whole.ctypes.data
    for part in parts:
        if len(part) and (part.base is not whole or part.ctypes.data != at):
            return False
        at += part.nbytes
    return whole.flags.c_contiguous and all(part.flags.c_contiguous for part in parts)
