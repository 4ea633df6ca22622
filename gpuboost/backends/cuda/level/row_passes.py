"""Passes over the rows of a level: sums, ranges of targets, and the partition of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.data.matrix import DeviceMatrix
from gpuboost.backends.cuda.level.records import (
    DeviceFrontier,
    DeviceSplits,
    Left,
    Pieces,
    Places,
    Ranges,
)
from gpuboost.backends.cuda.runtime.compile_flags import FORESTS, CompileFlags
from gpuboost.backends.cuda.runtime.launch import fill, full, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
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
        Whether there is one channel per class, as with more than two classes.
    flags : CompileFlags
    """

    runtime: Runtime
    matrix: DeviceMatrix
    n_channels: int
    by_class: bool
    flags: CompileFlags = FORESTS

    def node_sums(self, rows: DeviceRows, frontier: DeviceFrontier) -> None:
        """Sum the hessians and gradients of each node's rows into the arrays of ``frontier``."""
        fill(self.runtime, frontier.hessian, 0)
        fill(self.runtime, frontier.gradient, 0)
        self._sum("node_sums", frontier.pieces, self, rows, frontier)

    def ranges(self, rows: DeviceRows, frontier: DeviceFrontier) -> Ranges:
        """Find the smallest and the largest target of every node's rows of positive weight."""
        shape = (frontier.capacity, self.n_channels)
        low = full(self.runtime, shape, _LARGEST, np.int32)
        high = full(self.runtime, shape, -_LARGEST, np.int32)
        ranges = Ranges(low, high)
        self._sum("target_ranges", frontier.pieces, self, rows, ranges)
        return ranges

    def leaf_sums(
        self,
        rows: DeviceRows,
        frontier: DeviceFrontier,
        accepted: Array,
        leaf: LeafColumns,
        small_rows: int,
        sums: Array,
    ) -> None:
        """Add the leaf columns of each leaf's rows to ``sums``, int64 (nodes, n_sums), zero before.

        If ``leaf.n_classes`` is above 1, the rows of each class are summed separately. If
        ``leaf.draws`` is set, the columns are multiplied by the rows' integer weights. Leaves with
        at most ``small_rows`` rows are left out: subtrees.cu has stored their sums.
        """
        own = {"accepted": accepted, "small_rows": small_rows, "sums": sums}
        self._sum("leaf_sums", frontier.pieces, rows, frontier, leaf, self.matrix, **own)

    def _sum(self, name: str, pieces: Pieces, *records: Any, **values: Any) -> None:
        constants = self.flags.constants("level/sums.cu")
        pieces.launch(self.runtime, name, *records, constants=constants, **values)

    def count_left(self, rows: DeviceRows, frontier: DeviceFrontier, splits: DeviceSplits) -> Left:
        """Find and count the rows that go left: the first pass of a partition."""
        pieces, capacity = frontier.pieces, frontier.pieces.capacity
        n_words = constant("level/partition.cu", "PIECE_WORDS")
        turns = self.runtime.xp.empty((capacity, n_words), np.uint32)
        of_pieces = self.runtime.xp.empty(capacity, dtype=np.int64)
        left = Left(turns, of_pieces, zeros(self.runtime, frontier.capacity, np.int64))
        records = rows, splits, left, self.matrix
        pieces.launch(self.runtime, "partition_count", *records, node=pieces.slot)
        return left

    def move(
        self,
        rows: DeviceRows,
        frontier: DeviceFrontier,
        splits: DeviceSplits,
        left: Left,
        places: Places,
    ) -> DeviceRows:
        """Move the rows of accepted nodes to their children: the second pass of a partition."""
        n_columns = len(rows.target)
        moved = DeviceRows.empty(self.runtime.xp, len(rows), n_columns)
        records, pieces = (rows, splits, left, places), frontier.pieces
        own = {"node": pieces.slot, "out": moved, "n_columns": n_columns}
        pieces.launch(self.runtime, "partition_move", *records, **own)
        return moved
