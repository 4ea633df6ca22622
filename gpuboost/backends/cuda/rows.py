"""The rows of a batch of trees on the device, and the kernels that sum or move them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.chunks import striding_blocks
from gpuboost.backends.cuda.filling import fill, full, zeros
from gpuboost.backends.cuda.level import DeviceFrontier, DeviceSplits, Pieces
from gpuboost.backends.cuda.policy import Left, Places, Ranges
from gpuboost.backends.cuda.source import constant
from gpuboost.backends.cuda.variants import FORESTS, Variant

if TYPE_CHECKING:
    from gpuboost.backends.cuda.matrix import DeviceMatrix
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.spec import Target

_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class DeviceRows:
    """Rows of the open nodes, those of a node side by side; behind the last there may be room.

    Attributes
    ----------
    row : uint32 (r,)
        Row of the binned matrix.
    weight : uint32 (r,)
        Integer weight.
    target : int32 (C, r)
        The quantised values of each output; for two classes whether it is the second; else the
        class, ascending in each node; or gradients. Of medians the signs of each output, and then
        the ranks.
    """

    row: Array
    weight: Array
    target: Array

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def room(cls, xp: Any, n: int, n_columns: int) -> DeviceRows:
        """Room for n rows."""
        target = xp.empty((n_columns, n), dtype=xp.int32)
        return cls(xp.empty(n, dtype=xp.uint32), xp.empty(n, dtype=xp.uint32), target)


def in_class_order(target: Target) -> bool:
    """Whether the rows of a node lie in the order of their classes: of more than two."""
    return target.classes is not None and target.n_channels > 1


def class_order(xp: Any, target: Array) -> Array:
    """Columns of ``target`` (1, n) by class, those of a class in their order: uint32 (n,)."""
    return xp.argsort(target[0], kind="stable").astype(xp.uint32)


@dataclass(frozen=True)
class LeafColumns:
    """What leaf values are summed from.

    Attributes
    ----------
    wide : int64 (1 or trees, n, P)
    wide_of : int32 (trees,)
        Each tree's part of ``wide``.
    n_classes : int
        Sums are kept for each class; 1: over all rows.
    draws : bool
        Whether a row counts as often as its weight.
    """

    wide: Array
    wide_of: Array
    n_classes: int
    draws: bool

    @property
    def n_sums(self) -> int:
        """Sums of a leaf."""
        return self.n_classes * self.wide.shape[2]


@dataclass(frozen=True)
class RowKernels:
    """Passes over the rows of a level: the launches of sums.cu and partition.cu.

    Parameters
    ----------
    runtime : Runtime
    matrix : DeviceMatrix
    n_channels : int
    by_class : bool
        Channels are classes, and there are more than two.
    variant : Variant
    """

    runtime: Runtime
    matrix: DeviceMatrix
    n_channels: int
    by_class: bool
    variant: Variant = FORESTS

    def node_sums(self, rows: DeviceRows, frontier: DeviceFrontier) -> None:
        """Sum the weights and gradients of nodes, into the frontier."""
        fill(self.runtime, frontier.hessian, 0)
        fill(self.runtime, frontier.gradient, 0)
        sizes = (np.int64(len(rows)), np.int32(self.n_channels), np.int32(self.by_class))
        given = (rows.weight, rows.target)
        after = (*sizes, frontier.hessian, frontier.gradient)
        self._sum("node_sums", frontier.pieces, given, after)

    def ranges(self, rows: DeviceRows, frontier: DeviceFrontier) -> Ranges:
        """Smallest and largest target of every node."""
        shape = (frontier.most, self.n_channels)
        low = full(self.runtime, shape, _LARGEST, np.int32)
        high = full(self.runtime, shape, -_LARGEST, np.int32)
        sizes = (np.int64(len(rows)), np.int32(self.n_channels))
        given = (rows.weight, rows.target)
        self._sum("target_ranges", frontier.pieces, given, (*sizes, low, high))
        return Ranges(low, high)

    def leaf_sums(
        self,
        rows: DeviceRows,
        frontier: DeviceFrontier,
        accepted: Array,
        leaf: LeafColumns,
        small_rows: int,
        sums: Array,
    ) -> None:
        """Add up the leaf sums of the nodes that were not split: int64 (m, sums)."""
        given = (rows.row, rows.weight, rows.target, leaf.wide, leaf.wide_of, frontier.tree)
        sizes = (np.int32(leaf.wide.shape[2]), np.int32(leaf.n_classes), np.int32(leaf.draws))
        after = (np.int64(self.matrix.n_samples), np.int64(small_rows), *sizes, sums)
        self._sum("leaf_sums", frontier.pieces, (*given, frontier.count, accepted), after)

    def _sum(
        self, name: str, pieces: Pieces, before: tuple[Any, ...], after: tuple[Any, ...]
    ) -> None:
        kernel = self.runtime.kernel("sums.cu", name, self.variant.constants("sums.cu"))
        threads = constant("sums.cu", "SUMS_THREADS")
        work = (pieces.size, pieces.slot, pieces.first, pieces.rows)
        n_blocks = striding_blocks(self.runtime, pieces.most)
        kernel((n_blocks,), (threads,), (*before, *work, *after))

    def count_left(self, rows: DeviceRows, frontier: DeviceFrontier, splits: DeviceSplits) -> Left:
        """Which rows go left, and how many: the first pass of a partition."""
        most = frontier.pieces.most
        turns = self.runtime.xp.empty((most, constant("partition.cu", "PIECE_WORDS")), np.uint32)
        of_piece = self.runtime.xp.empty(most, dtype=np.int64)
        left = Left(turns, of_piece, zeros(self.runtime, frontier.most, np.int64))
        matrix = self.matrix
        split = (splits.feature, splits.bin, splits.missing, matrix.is_categorical, splits.mask)
        sizes = (np.int64(matrix.n_samples), np.int32(matrix.missing_code))
        after = (*split, *sizes, left.turns, left.of_piece, left.of_node)
        self._partition("partition_count", (matrix.codes, rows.row), frontier, splits, after)
        return left

    def move(
        self,
        rows: DeviceRows,
        frontier: DeviceFrontier,
        splits: DeviceSplits,
        left: Left,
        places: Places,
    ) -> DeviceRows:
        """Rows of accepted nodes, moved to their children: the second pass."""
        n_columns = len(rows.target)
        moved = DeviceRows.room(self.runtime.xp, len(rows), n_columns)
        given = (rows.row, rows.weight, rows.target)
        out = (np.int32(n_columns), np.int64(len(rows)), moved.row, moved.weight, moved.target)
        after = (left.turns, places.left_at, places.right_at, *out)
        self._partition("partition_move", given, frontier, splits, after)
        return moved

    def _partition(
        self,
        name: str,
        given: tuple[Array, ...],
        frontier: DeviceFrontier,
        splits: DeviceSplits,
        after: tuple[Any, ...],
    ) -> None:
        kernel, pieces = self.runtime.kernel("partition.cu", name, {}), frontier.pieces
        threads = constant("partition.cu", "PARTITION_THREADS")
        work = (pieces.size, pieces.slot, pieces.first, pieces.rows)
        n_blocks = striding_blocks(self.runtime, pieces.most)
        kernel((n_blocks,), (threads,), (*given, *work, splits.accepted, *after))
