"""Medians of the nodes of a level: the launches of median.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.runtime.grid import striding_blocks
from gpuboost.backends.cuda.runtime.launch import fill, zeros
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.targets import MedianTarget

if TYPE_CHECKING:
    from gpuboost.backends.cuda.level.records import DeviceFrontier
    from gpuboost.backends.cuda.runtime.protocol import Runtime
    from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
    from gpuboost.engine.growth.frontier import Array
    from gpuboost.engine.targets import Target


@dataclass(frozen=True)
class Medians:
    """Ranks below and above the median of each node and output: int32 (m, K)."""

    lower: Array
    upper: Array


@dataclass(frozen=True)
class MedianKernels:
    """Finds medians, puts rows on their sides, and sums the deviations.

    Rows have columns of signs first, then as many of ranks.

    Parameters
    ----------
    runtime : Runtime
    n_outputs, n_ranks : int
        Outputs, and how many ranks there are of one, at most.
    weight : int64 (n,) or None
        `MedianTarget.median_weight` on the device.
    """

    runtime: Runtime
    n_outputs: int
    n_ranks: int
    weight: Array | None

    @classmethod
    def of(cls, runtime: Runtime, target: Target) -> MedianKernels | None:
        """Copy the weights of a target; None for one that is not of medians."""
        if not isinstance(target, MedianTarget):
            return None
        weight = target.median_weight
        on_device = None if weight is None else runtime.asarray(weight)
        return cls(runtime, target.n_channels, max(map(len, target.levels)), on_device)

    @property
    def shifts(self) -> range:
        """Lowest bits of the digits of a rank, the leading one first."""
        bits = constant("level/median.cu", "DIGIT_BITS")
        n_digits = max(1, -(-(self.n_ranks - 1).bit_length() // bits))
        return range((n_digits - 1) * bits, -1, -bits)

    def find(self, rows: DeviceRows, frontier: DeviceFrontier) -> Medians:
        """The medians of all nodes, digit by digit."""
        runtime, shape = self.runtime, (frontier.capacity, self.n_outputs)
        found = Medians(zeros(runtime, shape, np.int32), runtime.xp.empty(shape, dtype=np.int32))
        n_digits = 1 << constant("level/median.cu", "DIGIT_BITS")
        counts = zeros(runtime, (*shape, n_digits), np.int64)
        below, total = (runtime.xp.empty(shape, dtype=np.int64) for _ in range(2))
        threads = constant("level/median.cu", "MEDIAN_THREADS")
        n_blocks = -(-frontier.capacity * self.n_outputs // threads)
        given = self._weighed(rows)
        for shift in self.shifts:
            asked = (np.int32(shift), found.lower, counts)
            self._by_pieces("count_ranks", rows, frontier, given, asked)
            sizes = (np.int32(self.n_outputs), np.int32(shift))
            is_first = np.int32(shift == self.shifts.start)
            args = (frontier.size, *sizes, is_first, counts, below, total, *vars(found).values())
            self._kernel("choose_digits")((n_blocks,), (threads,), args)
        after = (below, found.lower, found.upper)
        self._by_pieces("find_next_ranks", rows, frontier, given, after)
        return found

    def put_signs(self, rows: DeviceRows, frontier: DeviceFrontier, found: Medians) -> None:
        """Write on which side of its node's medians each row is."""
        after = (found.lower, found.upper, self._signs(rows))
        self._by_pieces("put_signs", rows, frontier, (self._ranks(rows),), after)

    def sums(
        self,
        rows: DeviceRows,
        frontier: DeviceFrontier,
        found: Medians,
        leaf: LeafColumns,
        room: Any,
    ) -> Array:
        """`GrownTree.sums` of all nodes: int64 (m, 6 K + 2). ``room`` makes the array."""
        sums = room.empty((frontier.capacity, 6 * self.n_outputs + 2), dtype=np.int64)
        fill(self.runtime, sums, 0)
        given = (rows.row, rows.weight, self._signs(rows), leaf.wide[0])
        after = (frontier.start, found.lower, found.upper, np.int32(leaf.draws), sums)
        self._by_pieces("median_sums", rows, frontier, given, after)
        return sums

    def _signs(self, rows: DeviceRows) -> Array:
        return rows.target[: self.n_outputs]

    def _ranks(self, rows: DeviceRows) -> Array:
        return rows.target[self.n_outputs :]

    def _weighed(self, rows: DeviceRows) -> tuple[Any, ...]:
        """Rows, ranks, and what rows weigh."""
        own = (rows.row, rows.weight, self._ranks(rows))
        if self.weight is None:  # nothing is read of the array
            return (*own, self.runtime.xp.empty(1, dtype=np.int64), np.int32(0))
        return (*own, self.weight, np.int32(1))

    def _by_pieces(
        self,
        name: str,
        rows: DeviceRows,
        frontier: DeviceFrontier,
        given: tuple[Any, ...],
        after: tuple[Any, ...],
    ) -> None:
        pieces = frontier.pieces
        work = (pieces.size, pieces.slot, pieces.first, pieces.rows)
        args = (*given, *work, np.int64(len(rows)), np.int32(self.n_outputs), *after)
        threads = (constant("level/median.cu", "MEDIAN_THREADS"),)
        self._kernel(name)((striding_blocks(self.runtime, pieces.capacity),), threads, args)

    def _kernel(self, name: str) -> Any:
        return self.runtime.kernel("level/median.cu", name, {})
