"""Histograms and the split search: the launches of histogram.cu, split.cu and pick.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.level import allocate
from gpuboost.backends.cuda.source import constant
from gpuboost.engine.tree import gain_unit

if TYPE_CHECKING:
    from gpuboost.backends.cuda.level import DeviceFrontier, DeviceSplits, Search
    from gpuboost.backends.cuda.matrix import DeviceMatrix
    from gpuboost.backends.cuda.rows import DeviceRows
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.spec import GrowTask

TILES = (32, 16)  # features that a block takes: as many as its shared memory has room for
# Rows of a block: with fewer, clearing its histogram costs more than its rows; with more, few
# blocks are left to spread over the device.
LEAST_ROWS, MOST_ROWS = 1024, 16384
BLOCKS_WANTED = 4  # per multiprocessor
MOST_BLOCKS = 1 << 16  # of a launch whose blocks take whatever is left
_GRID_ROWS = 65535


def plane_count(n_channels: int, by_class: bool, counted: bool) -> int:
    """32-bit planes of a block's shared histogram."""
    most = "CLASS_PLANES" if by_class and n_channels > 1 else "VALUE_PLANES"
    return constant("histogram.cu", most) - (not counted)


def choose_tile(shared_memory: int, width: int, planes: int) -> int:
    """Largest tile whose histogram fits a block's shared memory.

    Raises
    ------
    MemoryError
        None fits.
    """
    for tile in TILES:
        if 4 * planes * width * tile <= shared_memory:
            return tile
    least = 4 * planes * width * TILES[-1]
    raise MemoryError(
        f"a histogram of {width} bins needs {least} bytes of shared memory and the device has "
        f"{shared_memory} for a block; lower max_bins"
    )


@dataclass(frozen=True)
class HistogramBuilder:
    """Histograms of nodes from their rows.

    Parameters
    ----------
    runtime : Runtime
    matrix : DeviceMatrix
    n_channels : int
    by_class : bool
        Channels are classes, and there are more than two.
    counted : bool
        Whether rows are counted.
    max_weight : int
        Largest weight of a row: sums of a block must not wrap around 2**32.
    """

    runtime: Runtime
    matrix: DeviceMatrix
    n_channels: int
    by_class: bool
    counted: bool
    max_weight: int

    def bytes_per_node(self) -> int:
        """Size of one node's histogram."""
        return self.matrix.n_features * self.matrix.width * (2 + self.n_channels) * 8

    def rows_per_block(self, n_rows: int) -> int:
        """Rows of a block: few enough for all multiprocessors to have work."""
        grid = len(self.matrix.tiles) * self.n_channels
        wanted = self.runtime.n_multiprocessors * BLOCKS_WANTED
        spread = max(LEAST_ROWS, n_rows * grid // wanted)
        no_wrap = (2**32 - 1) // max(self.max_weight, 1)
        return max(1, min(spread, no_wrap, MOST_ROWS))

    def build(self, rows: DeviceRows, search: Search, slots: range, histogram: Array) -> None:
        """Sum the histograms of some slots from rows: int64 (len(slots), F, width, 2 + K)."""
        work = search.work
        matrix, threads = self.matrix, constant("histogram.cu", "HISTOGRAM_THREADS")
        these = (np.int32(slots.start), np.int32(len(slots)))
        zero = self.runtime.kernel("histogram.cu", "zero_histograms", {"TILE": matrix.tile})
        n_blocks = min(histogram.size // threads + 1, MOST_BLOCKS)
        n_cells = np.int64(histogram.size // len(slots))
        zero((n_blocks,), (threads,), (search.sizes, *these, n_cells, histogram))
        name = "histogram_classes" if self.by_class else "histogram_values"
        kernel = self.runtime.kernel("histogram.cu", name, {"TILE": matrix.tile})
        n_rows = () if self.by_class else (np.int64(len(rows)),)
        shape = (np.int32(matrix.n_features), np.int32(matrix.width), np.int32(self.counted))
        given = (matrix.tiles, rows.row, rows.weight, rows.target)
        pieces = (work.size, work.slot, work.first, work.rows)
        args = (*given, *pieces, *these, np.int64(matrix.n_samples), *n_rows, *shape, histogram)
        planes = plane_count(self.n_channels, self.by_class, self.counted)
        shared = 4 * planes * matrix.width * matrix.tile
        grid = (work.most, len(matrix.tiles), self.n_channels)
        kernel(grid, (threads,), args, shared_mem=shared)


@dataclass(frozen=True)
class _FeatureSplits:
    """The best split of every slot by every feature, as split.cu writes it: arrays (m, F)."""

    gain: Array
    could: Array
    bin: Array
    next_bin: Array
    draw: Array
    missing: Array
    mask: Array

    @classmethod
    def room(cls, xp: Any, m: int, n_features: int, mask_words: int) -> _FeatureSplits:
        """Room for m slots."""
        shape = (m, n_features)
        columns: dict[str, tuple[Any, tuple[int, ...]]] = {
            "gain": (np.float64, shape),
            "could": (np.uint8, shape),
            "bin": (np.int16, shape),
            "next_bin": (np.int16, shape),
            "draw": (np.float64, shape),
            "missing": (np.int8, shape),
            "mask": (np.uint32, (*shape, mask_words)),
        }
        return cls(**allocate(xp, columns))


@dataclass(frozen=True)
class SplitSearch:
    """The best split of nodes whose histograms are known: the launches of split.cu and pick.cu.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
    matrix : DeviceMatrix
    allowed : uint8 (trees, F)
        Features each tree may look at.
    min_hessian, root_hessian : int64 (trees,)
    """

    runtime: Runtime
    task: GrowTask
    matrix: DeviceMatrix
    allowed: Array
    min_hessian: Array
    root_hessian: Array

    def search(
        self,
        frontier: DeviceFrontier,
        search: Search,
        slots: range,
        histogram: Array,
        previous: Array,
        splits: DeviceSplits,
    ) -> None:
        """Write the splits of the nodes of some slots; with slot 0, also of nodes without one.

        ``histogram`` are those of the slots, ``previous`` all of the level before.
        """
        found = self._by_feature(frontier, search, slots, histogram, previous)
        self._decide(frontier, search, slots, histogram, found, splits)

    def _by_feature(
        self,
        frontier: DeviceFrontier,
        search: Search,
        slots: range,
        histogram: Array,
        previous: Array,
    ) -> _FeatureSplits:
        xp, matrix, options = self.runtime.xp, self.matrix, self.task.options
        found = _FeatureSplits.room(xp, len(slots), matrix.n_features, matrix.mask_words)
        if search.none:
            return found
        nodes = (frontier.size, search.slot, search.source, search.open)
        sums = (frontier.hessian, frontier.count, frontier.gradient, frontier.key, frontier.tree)
        features = (self.allowed, matrix.n_bins, matrix.is_categorical, matrix.center)
        n_channels = self.task.target.n_channels
        sizes = (np.int32(matrix.n_features), np.int32(matrix.width), np.int32(n_channels))
        chosen = (
            np.int32(options.score),
            np.int32(self.task.target.classes is not None),
            np.int32(options.random_thresholds),
            np.int32(options.min_samples_leaf),
        )
        kernel = self.runtime.kernel("split.cu", "split_features", {})
        threads = (constant("split.cuh", "SPLIT_THREADS"),)
        these = (np.int32(slots.start), np.int32(len(slots)))
        given = (histogram, previous, *nodes, *sums, self.min_hessian, *features, *these)
        for first in range(0, matrix.n_features, _GRID_ROWS):
            grid = (frontier.most, min(_GRID_ROWS, matrix.n_features - first))
            args = (*given, np.int32(first), *sizes, *chosen, *vars(found).values())
            kernel(grid, threads, args)
        return found

    def _decide(
        self,
        frontier: DeviceFrontier,
        search: Search,
        slots: range,
        histogram: Array,
        found: _FeatureSplits,
        splits: DeviceSplits,
    ) -> None:
        matrix, options, target = self.matrix, self.task.options, self.task.target
        nodes = (frontier.size, search.slot, search.open, frontier.key, frontier.tree)
        sums = (frontier.hessian, self.root_hessian, self.allowed, matrix.is_categorical)
        sizes = (
            *(np.int32(slots.start), np.int32(len(slots)), np.int32(matrix.n_features)),
            *(np.int32(options.max_features), np.int32(matrix.width), np.int32(target.n_channels)),
            *(np.int32(options.score), np.float64(gain_unit(options.score, target))),
            *(np.float64(options.min_impurity_decrease), np.int32(matrix.mask_words > 0)),
        )
        args = (*nodes, *sums, histogram, *sizes, *vars(found).values(), *vars(splits).values())
        kernel = self.runtime.kernel("pick.cu", "decide_splits", {})
        kernel((frontier.most,), (constant("common.cuh", "WARP"),), args)
