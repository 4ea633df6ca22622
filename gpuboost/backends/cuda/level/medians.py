"""Medians of the nodes of a level: the launches of median.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.level.records import DeviceFrontier, Medians
from gpuboost.backends.cuda.runtime.launch import launch, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.targets import MedianTarget, Target


@dataclass(frozen=True)
class MedianKernels:
    """Finds the medians of nodes, and the signs and sums of the rows' deviations from them.

    `DeviceRows.target` has a column of signs for each output, then a column of ranks for each.

    Parameters
    ----------
    runtime : Runtime
    n_outputs, n_ranks : int
        Number of outputs, and largest number of ranks of an output.
    heavy : int64 (n,) or None
        `MedianTarget.median_weight` on the device; None to use the rows' weights in the tree.
    """

    runtime: Runtime
    n_outputs: int
    n_ranks: int
    heavy: Array | None

    @classmethod
    def of(cls, runtime: Runtime, target: Target) -> MedianKernels | None:
        """Copy the median weights of a `MedianTarget` to the device; None for other targets."""
        if not isinstance(target, MedianTarget):
            return None
        weight = target.median_weight
        on_device = None if weight is None else runtime.asarray(weight)
        return cls(runtime, target.n_channels, max(map(len, target.distinct_targets)), on_device)

    @property
    def shifts(self) -> range:
        """Position of the lowest bit of each digit of a rank, from the leading digit on."""
        bits = constant("level/median.cu", "RANK_DIGIT_BITS")
        n_digits = max(1, -(-(self.n_ranks - 1).bit_length() // bits))
        return range((n_digits - 1) * bits, -1, -bits)

    def find(self, rows: DeviceRows, frontier: DeviceFrontier) -> Medians:
        """Find the medians of all nodes, digit by digit."""
        runtime, shape = self.runtime, (frontier.capacity, self.n_outputs)
        found = Medians(zeros(runtime, shape, np.int32), runtime.xp.empty(shape, dtype=np.int32))
        n_digits = 1 << constant("level/median.cu", "RANK_DIGIT_BITS")
        counts = zeros(runtime, (*shape, n_digits), np.int64)
        below, total = (runtime.xp.empty(shape, dtype=np.int64) for _ in range(2))
        threads = constant("level/median.cu", "MEDIAN_THREADS")
        n_blocks = -(-frontier.capacity * self.n_outputs // threads)
        pieces, weights = frontier.pieces, self._weights(rows)
        sums = {"below": below, "total": total}
        for shift in self.shifts:
            digit = {"shift": shift, "counts": counts}
            pieces.launch(runtime, "count_ranks", self, rows, found, **weights, **digit)
            own = {"is_first": shift == self.shifts.start, **digit, **sums}
            launch(runtime, "choose_rank_digits", n_blocks, self, frontier, found, **own)
        pieces.launch(runtime, "find_next_ranks", self, rows, found, **weights, below=below)
        return found

    def put_signs(self, rows: DeviceRows, frontier: DeviceFrontier) -> None:
        """Write the signs of the deviations of each row's targets from its node's medians."""
        columns = {"rank": self._ranks(rows), "sign": self._signs(rows)}
        frontier.pieces.launch(self.runtime, "put_signs", self, rows, frontier.medians, **columns)

    def sums(self, rows: DeviceRows, frontier: DeviceFrontier, leaf: LeafColumns) -> Array:
        """Compute `GrownTree.sums` of all nodes: int64 (nodes, 6 K + 2) for K outputs."""
        sums = zeros(self.runtime, (frontier.capacity, 6 * self.n_outputs + 2), np.int64)
        own = {"sign": self._signs(rows), "wide": leaf.wide[0], "draws": leaf.draws, "sums": sums}
        frontier.pieces.launch(
            self.runtime, "median_sums", self, rows, frontier, frontier.medians, **own
        )
        return sums

    def _signs(self, rows: DeviceRows) -> Array:
        return rows.target[: self.n_outputs]

    def _ranks(self, rows: DeviceRows) -> Array:
        return rows.target[self.n_outputs :]

    def _weights(self, rows: DeviceRows) -> dict[str, Any]:
        """Kernel arguments: the ranks of rows, and their weights in medians."""
        heavy = self.heavy
        if heavy is None:  # placeholder that is not read
            heavy = self.runtime.xp.empty(1, dtype=np.int64)
        return {"rank": self._ranks(rows), "heavy": heavy, "has_heavy": self.heavy is not None}
