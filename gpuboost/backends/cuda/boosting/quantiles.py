"""Weighted quantiles of groups of numbers on the device: launches of quantiles.cu.

The numbers are those of `gpuboost.engine.order_statistics`, found without sorting and without a
copy to the host, so that a recorded round can hold them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet, optional
from gpuboost.backends.cuda.level.records import Pieces
from gpuboost.backends.cuda.runtime.arrays import column, empty
from gpuboost.backends.cuda.runtime.grid import striding_blocks
from gpuboost.backends.cuda.runtime.launch import fill, launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True, eq=False)
class GroupedNumbers:
    """Numbers by group, and what is found of them; see quantiles.cu.

    Attributes
    ----------
    size : int32 (1,)
        Groups there are.
    pieces : Pieces
        Of the numbers, by group.
    key : uint64 (r,)
        The numbers, those of a group side by side.
    weight : int64 (r,) or None
        None: each counts once.
    level : float64 (g,)
    prefix, above : uint64 (g,)
    below, total : int64 (g,)
    more : uint8 (g,)
    counts : int64 (m, 256)
        Of some groups at a time.
    """

    size: Array
    pieces: Pieces
    key: Array
    weight: Array | None
    level: Array = column(np.float64, "n")
    prefix: Array = column(np.uint64, "n")
    above: Array = column(np.uint64, "n")
    below: Array = column(np.int64, "n")
    total: Array = column(np.int64, "n")
    more: Array = column(np.uint8, "n")
    counts: Array = column(np.int64, "n_at_once", "n_digits")

    @classmethod
    def empty(
        cls, xp: Any, size: Array, n_groups: int, pieces: Pieces, key: Array, weight: Array | None
    ) -> GroupedNumbers:
        """Room for what is found of so many groups."""
        lengths = {"n": n_groups, "n_at_once": min(n_groups, _at_once())}
        lengths["n_digits"] = constant("boosting/quantiles.cu", "DIGITS")
        own = {"size": size, "pieces": pieces, "key": key, "weight": weight}
        return empty(cls, xp, own, **lengths)

    @property
    def weights(self) -> dict[str, Any]:
        """The weights as kernels take them."""
        return optional("weight", "weighted", self.weight, self.below)

    def find(self, runtime: Runtime, quantile: Array) -> None:
        """Write the quantile of each group: float64 (g,)."""
        fill(runtime, self.counts, 0)
        n_groups, n_blocks = len(self.level), striding_blocks(runtime, self.pieces.capacity)
        for first in range(0, n_groups, _at_once()):
            self._find_some(runtime, first)
        launch(runtime, "find_above", n_blocks, self, self.pieces, **self.weights)
        launch(runtime, "take_quantiles", blocks(n_groups), self, quantile=quantile)

    def _find_some(self, runtime: Runtime, first_group: int) -> None:
        """Find the digits of as many groups as counts have room for."""
        n_blocks = striding_blocks(runtime, self.pieces.capacity)
        n_lanes = len(self.counts) * constant("common/common.cuh", "WARP")
        n_warp_blocks = striding_blocks(runtime, blocks(n_lanes))
        top, step = (constant("boosting/quantiles.cu", n) for n in ("FIRST_SHIFT", "DIGIT_BITS"))
        for shift in range(top, -1, -step):
            own = {"shift": shift, "first_group": first_group}
            weights = self.weights
            launch(runtime, "count_key_digits", n_blocks, self, self.pieces, **weights, **own)
            launch(runtime, "choose_key_digits", n_warp_blocks, self, **own)


class SizesQuantile:
    """The quantile of the absolute residuals of all rows, for each column: huber's parameter.

    Parameters
    ----------
    runtime : Runtime
    rows : DeviceRowSet
    weights : int64 (n,) or None
        Of `order_statistics.integer_weights`; None: ones.
    level : float
    """

    def __init__(
        self, runtime: Runtime, rows: DeviceRowSet, weights: Array | None, level: float
    ) -> None:
        xp, self._runtime, self._rows = runtime.xp, runtime, rows
        n, n_columns = rows.n, len(rows.raw)
        size = runtime.asarray(np.array([n_columns], dtype=np.int32))
        if weights is not None and n_columns > 1:
            each = xp.empty((n_columns, n), dtype=np.int64)
            each[...] = weights
            weights = each
        key = xp.empty((n_columns, n), dtype=np.uint64)
        first, step = np.arange(n_columns) * n, constant("boosting/quantiles.cuh", "QUANTILE_PIECE")
        pieces = pieces_of(runtime, first, np.full(n_columns, n), step)
        self._groups = GroupedNumbers.empty(xp, size, n_columns, pieces, key, weights)
        runtime.upload(np.full(n_columns, level), self._groups.level)

    def find(self, parameter: Array) -> None:
        """Write the quantiles as the residuals are now: float64 (K,)."""
        rows, key = self._rows, self._groups.key
        launch(self._runtime, "key_sizes", (blocks(rows.n), len(rows.raw)), rows, key=key)
        self._groups.find(self._runtime, parameter)


def pieces_of(runtime: Runtime, first: np.ndarray, count: np.ndarray, step: int) -> Pieces:
    """Pieces of at most ``step`` numbers of groups that begin and count so, int64 (g,)."""
    n_each = -(-count // step)
    slot = np.repeat(np.arange(len(count)), n_each)
    within = (np.arange(len(slot)) - np.repeat(np.cumsum(n_each) - n_each, n_each)) * step
    host = (
        np.array([len(slot)], dtype=np.int32),
        slot.astype(np.int32),
        (first[slot] + within).astype(np.int64),
        np.minimum(step, count[slot] - within).astype(np.int32),
    )
    return Pieces(*map(runtime.asarray, host))


def _at_once() -> int:
    """Groups whose digits are counted at once."""
    return constant("boosting/quantiles.cu", "GROUPS_AT_ONCE")


def blocks(n: int) -> int:
    """Blocks that have a thread for each of n."""
    return -(-n // constant("common/rounds.cuh", "BOOST_THREADS"))
