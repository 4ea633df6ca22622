"""Weighted quantiles of groups of numbers on the device: launches of quantiles.cu.

The results equal those of `gpuboost.engine.order_statistics`. Nothing is sorted and nothing is read
back, so the launches can be part of a recorded round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet, blocks, optional
from gpuboost.backends.cuda.level.records import Pieces
from gpuboost.backends.cuda.runtime.arrays import column, empty
from gpuboost.backends.cuda.runtime.grid import striding_blocks
from gpuboost.backends.cuda.runtime.launch import fill, launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True, eq=False)
class GroupedNumbers:
    """Numbers by group, and the state of the search for their quantiles; see quantiles.cu.

    Attributes
    ----------
    size : int32 (1,)
        Number of groups.
    pieces : Pieces
        Pieces of the numbers; their slots are groups.
    key : uint64 (numbers,)
        The numbers as ordered integers; the numbers of a group are contiguous.
    weight : int64 (numbers,) or None
        Weights of the numbers; None if each number counts once.
    quantile_level : float64 (groups,)
        Quantile level of each group, between 0 and 1.
    prefix, above : uint64 (groups,)
        Digits found so far of the quantile's key; if ``more``, the key of the next number (all bits
        set if there is none).
    below, total : int64 (groups,)
        Weight of the numbers below all candidates; weight of the group.
    more : uint8 (groups,)
        Whether the quantile also depends on the next number.
    counts : int64 (groups at once, 256)
        Weights by digit, for some groups at a time.
    """

    size: Array
    pieces: Pieces
    key: Array
    weight: Array | None
    quantile_level: Array = column(np.float64, "n")
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
        """Allocate the state of ``n_groups`` groups."""
        lengths = {"n": n_groups, "n_at_once": min(n_groups, _at_once())}
        lengths["n_digits"] = constant("boosting/quantiles.cu", "KEY_DIGITS")
        own = {"size": size, "pieces": pieces, "key": key, "weight": weight}
        return empty(cls, xp, own, **lengths)

    @property
    def weights(self) -> dict[str, Any]:
        """The weights as kernel arguments."""
        return optional("weight", "weighted", self.weight, self.below)

    def find(self, runtime: Runtime, quantile: Array) -> None:
        """Write the quantile of each group to ``quantile``, float64 (groups,)."""
        fill(runtime, self.counts, 0)
        n_groups = len(self.total)
        for first in range(0, n_groups, max(len(self.counts), 1)):
            self._find_some(runtime, first)
        self.pieces.launch(runtime, "find_above", self, **self.weights)
        launch(runtime, "take_quantiles", blocks(n_groups), self, quantile=quantile)

    def _find_some(self, runtime: Runtime, first_group: int) -> None:
        """Find the keys of as many groups, from ``first_group`` on, as ``counts`` can hold."""
        n_lanes = len(self.counts) * constant("common/common.cuh", "WARP")
        n_blocks = striding_blocks(runtime, blocks(n_lanes))
        file, names = "boosting/quantiles.cu", ("FIRST_SHIFT", "KEY_DIGIT_BITS")
        top, step = (constant(file, name) for name in names)
        for shift in range(top, -1, -step):
            own = {"shift": shift, "first_group": first_group}
            self.pieces.launch(runtime, "count_key_digits", self, **self.weights, **own)
            launch(runtime, "choose_key_digits", n_blocks, self, **own)


class SizesQuantile:
    """Quantile of absolute residuals for each column: the parameter of the Huber loss.

    Parameters
    ----------
    runtime : Runtime
    rows : DeviceRowSet
        The training rows.
    weights : int64 (n,) or None
        Weights from `order_statistics.integer_weights`; None if all are 1.
    quantile_level : float
        Strictly between 0 and 1.
    """

    def __init__(
        self, runtime: Runtime, rows: DeviceRowSet, weights: Array | None, quantile_level: float
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
        runtime.upload(np.full(n_columns, quantile_level), self._groups.quantile_level)

    def find(self, parameter: Array) -> None:
        """Write the quantiles of the current residuals to ``parameter``: float64 (columns,)."""
        rows, key = self._rows, self._groups.key
        launch(self._runtime, "key_sizes", (blocks(rows.n), len(rows.raw)), rows, key=key)
        self._groups.find(self._runtime, parameter)


def pieces_of(runtime: Runtime, first: np.ndarray, count: np.ndarray, step: int) -> Pieces:
    """Cut groups into pieces of up to ``step`` numbers.

    Group g has the numbers from position ``first[g]`` on, ``count[g]`` of them.
    """
    n_each = -(-count // step)
    slot = np.repeat(np.arange(len(count)), n_each)
    within = (np.arange(len(slot)) - np.repeat(np.cumsum(n_each) - n_each, n_each)) * step
    return Pieces(
        n_pieces=runtime.asarray(np.array([len(slot)], dtype=np.int32)),
        slot=runtime.asarray(slot.astype(np.int32)),
        first=runtime.asarray((first[slot] + within).astype(np.int64)),
        rows=runtime.asarray(np.minimum(step, count[slot] - within).astype(np.int32)),
    )


def _at_once() -> int:
    """Number of groups whose digits are counted at once."""
    return constant("boosting/quantiles.cu", "GROUPS_AT_ONCE")
