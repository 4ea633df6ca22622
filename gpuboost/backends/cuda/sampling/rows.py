"""The rows of a batch of trees on the device, and the columns of their leaf sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True)
class DeviceRows:
    """Rows of the nodes of a frontier; the rows of a node are contiguous.

    The arrays have a capacity of r rows, which can be more than there are rows. There are C target
    columns.

    Attributes
    ----------
    row : uint32 (r,)
        Row of the binned matrix.
    weight : uint32 (r,)
        Integer weight; in boosting, the hessian.
    target : int32 (C, r)
        Regression: quantised value of each output. Two classes: indicator of the second class. More
        classes: the class; the rows of each node are sorted by it. Boosting: gradients, times -1.
        Medians: sign of each output, then rank of each output.
    """

    row: Array
    weight: Array
    target: Array

    def __len__(self) -> int:
        return len(self.row)

    @property
    def n_rows(self) -> int:
        """Row capacity."""
        return len(self.row)

    @classmethod
    def empty(cls, xp: Any, n: int, n_columns: int) -> DeviceRows:
        """Allocate uninitialised arrays for n rows."""
        target = xp.empty((n_columns, n), dtype=xp.int32)
        return cls(xp.empty(n, dtype=xp.uint32), xp.empty(n, dtype=xp.uint32), target)


def class_order(xp: Any, target: Array) -> Array:
    """Stable order of the rows of ``target`` (1, n) by class: uint32 (n,)."""
    return xp.argsort(target[0], kind="stable").astype(xp.uint32)


@dataclass(frozen=True)
class LeafColumns:
    """The columns that leaf sums are computed from.

    Attributes
    ----------
    wide : int64 (1 or trees, n, P)
        P planes of fixed-point numbers of each row.
    wide_of : int32 (trees,)
        Index of each tree along the first axis of ``wide``.
    n_classes : int
        Number of classes that are summed separately; 1 if all rows are summed together.
    draws : bool
        Whether each row's values are multiplied by its integer weight.
    """

    wide: Array
    wide_of: Array
    n_classes: int
    draws: bool

    @property
    def n_columns(self) -> int:
        """Number of columns of ``wide``."""
        return self.wide.shape[2]

    @property
    def n_sums(self) -> int:
        """Number of sums of a leaf."""
        return self.n_classes * self.n_columns
