"""The rows of a batch of trees on the device, and the kernels that sum or move them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.level.records import (
    DeviceFrontier,
    DeviceSplits,
    Left,
    Pieces,
    Places,
    Ranges,
)
from gpuboost.backends.cuda.runtime.compile_flags import FORESTS, CompileFlags
from gpuboost.backends.cuda.runtime.grid import striding_blocks
from gpuboost.backends.cuda.runtime.launch import fill, full, zeros
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns

if TYPE_CHECKING:
    from gpuboost.backends.cuda.data.matrix import DeviceMatrix
    from gpuboost.backends.cuda.runtime.protocol import Runtime
    from gpuboost.engine.growth.frontier import Array

_LARGEST = 2**31 - 1


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
    flags : Variant
    """

    runtime: Runtime
    matrix: DeviceMatrix
    n_channels: int
    by_class: bool
    flags: CompileFlags = FORESTS

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
        shape = (frontier.capacity, self.n_channels)
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
        kernel = self.runtime.kernel("level/sums.cu", name, self.flags.constants("level/sums.cu"))
        threads = constant("level/sums.cu", "SUMS_THREADS")
        work = (pieces.size, pieces.slot, pieces.first, pieces.rows)
        n_blocks = striding_blocks(self.runtime, pieces.capacity)
        kernel((n_blocks,), (threads,), (*before, *work, *after))

    def count_left(self, rows: DeviceRows, frontier: DeviceFrontier, splits: DeviceSplits) -> Left:
        """Which rows go left, and how many: the first pass of a partition."""
        capacity = frontier.pieces.capacity
        turns = self.runtime.xp.empty(
            (capacity, constant("level/partition.cu", "PIECE_WORDS")), np.uint32
        )
        of_piece = self.runtime.xp.empty(capacity, dtype=np.int64)
        left = Left(turns, of_piece, zeros(self.runtime, frontier.capacity, np.int64))
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
        kernel, pieces = self.runtime.kernel("level/partition.cu", name, {}), frontier.pieces
        threads = constant("level/partition.cu", "PARTITION_THREADS")
        work = (pieces.size, pieces.slot, pieces.first, pieces.rows)
        n_blocks = striding_blocks(self.runtime, pieces.capacity)
        kernel((n_blocks,), (threads,), (*given, *work, splits.accepted, *after))
