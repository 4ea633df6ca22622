"""Histograms and the split search: the launches of histogram.cu, split.cu and pick.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.source import constant
from gpuboost.backends.cuda.work import cut
from gpuboost.engine.frontier import Frontier, Splits

if TYPE_CHECKING:
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
_GRID_ROWS = 65535
_NO_RANK = np.uint64(2**64 - 1)
_FEATURE = np.uint64(0xFFFFFFFF)


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

    def build(self, rows: DeviceRows, frontier: Frontier, nodes: Array) -> Array:
        """Histograms of the given nodes: int64 (len(nodes), F, width, 2 + K)."""
        xp, matrix = self.runtime.xp, self.matrix
        shape = (len(nodes), matrix.n_features, matrix.width, 2 + self.n_channels)
        histogram = xp.zeros(shape, dtype=xp.int64)
        per_block = self.rows_per_block(len(rows))
        work = cut(xp, frontier.start[nodes], frontier.count[nodes], per_block)
        if not len(work):
            return histogram
        name = "histogram_classes" if self.by_class else "histogram_values"
        kernel = self.runtime.kernel("histogram.cu", name, {"TILE": matrix.tile})
        n_rows = () if self.by_class else (np.int64(len(rows)),)
        sizes = (np.int32(matrix.n_features), np.int32(matrix.width), np.int32(self.counted))
        given = (matrix.tiles, rows.row, rows.weight, rows.target)
        args = (*given, work.slot, work.first, work.rows, np.int64(matrix.n_samples), *n_rows)
        planes = plane_count(self.n_channels, self.by_class, self.counted)
        kernel(
            (len(work), len(matrix.tiles), self.n_channels),
            (constant("histogram.cu", "HISTOGRAM_THREADS"),),
            (*args, *sizes, histogram),
            shared_mem=4 * planes * matrix.width * matrix.tile,
        )
        return histogram


@dataclass(frozen=True)
class _FeatureSplits:
    """The best split of every node by every feature, as split.cu writes it: arrays (m, F)."""

    gain: Array
    could: Array
    bin: Array
    next_bin: Array
    draw: Array
    missing: Array
    mask: Array

    @classmethod
    def empty(cls, xp: Any, m: int, n_features: int, mask_words: int) -> _FeatureSplits:
        """Room for m nodes."""
        shape = (m, n_features)
        return cls(
            xp.empty(shape, dtype=xp.float64),
            xp.empty(shape, dtype=xp.uint8),
            xp.empty(shape, dtype=xp.int16),
            xp.empty(shape, dtype=xp.int16),
            xp.empty(shape, dtype=xp.float64),
            xp.empty(shape, dtype=xp.int8),
            xp.empty((*shape, mask_words), dtype=xp.uint32),
        )


@dataclass(frozen=True)
class SplitSearch:
    """The best split of nodes whose histograms are known.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
    matrix : DeviceMatrix
    allowed : uint8 (trees, F)
        Features each tree may look at.
    min_hessian : int64 (trees,)
    """

    runtime: Runtime
    task: GrowTask
    matrix: DeviceMatrix
    allowed: Array
    min_hessian: Array

    def search(self, histogram: Array, frontier: Frontier, nodes: Array, splits: Splits) -> None:
        """Write the best splits of ``nodes`` into ``splits``."""
        node = frontier.take(nodes)
        found = self._by_feature(histogram, node)
        rank = self._pick(found, node)
        chosen = self.runtime.xp.flatnonzero(rank != _NO_RANK)
        splits.put(nodes[chosen], self._gather(histogram, found, rank, chosen), slice(None))

    def _by_feature(self, histogram: Array, node: Frontier) -> _FeatureSplits:
        xp, matrix, options = self.runtime.xp, self.matrix, self.task.options
        n_channels = node.gradient.shape[1]
        found = _FeatureSplits.empty(xp, len(node), matrix.n_features, matrix.mask_words)
        least = self.min_hessian[node.tree]
        sums = (node.hessian, node.count, node.gradient, least, node.key, node.tree)
        features = (self.allowed, matrix.n_bins, matrix.is_categorical, matrix.center)
        sizes = (np.int32(matrix.n_features), np.int32(matrix.width), np.int32(n_channels))
        chosen = (
            np.int32(options.score),
            np.int32(self.task.target.classes is not None),
            np.int32(options.random_thresholds),
            np.int32(options.min_samples_leaf),
        )
        kernel = self.runtime.kernel("split.cu", "split_features", {})
        threads = (constant("split.cu", "SPLIT_THREADS"),)
        for first in range(0, matrix.n_features, _GRID_ROWS):
            grid = (len(node), min(_GRID_ROWS, matrix.n_features - first))
            args = (histogram, *sums, *features, np.int32(first), *sizes, *chosen)
            kernel(grid, threads, (*args, *vars(found).values()))
        return found

    def _pick(self, found: _FeatureSplits, node: Frontier) -> Array:
        """Rank of the feature that each node is split by: uint64 (m,)."""
        xp = self.runtime.xp
        rank = xp.empty(len(node), dtype=xp.uint64)
        sizes = (np.int32(self.matrix.n_features), np.int32(self.task.options.max_features))
        args = (found.gain, found.could, node.key, node.tree, self.allowed, *sizes, rank)
        kernel = self.runtime.kernel("pick.cu", "pick_features", {})
        kernel((len(node),), (constant("common.cuh", "WARP"),), args)
        return rank

    def _gather(
        self, histogram: Array, found: _FeatureSplits, rank: Array, chosen: Array
    ) -> Splits:
        """The splits of the nodes ``chosen`` by the features that ``rank`` names."""
        rank = rank[chosen]
        feature = (rank & _FEATURE).astype(self.runtime.xp.int64)
        at = chosen * self.matrix.n_features + feature
        sums = self._left_sums(histogram, found, at, feature)
        categorical = self.matrix.is_categorical[feature] != 0

        def pick(column: Array) -> Array:
            return column.reshape(found.gain.size, *column.shape[2:])[at]

        return Splits(
            gain=pick(found.gain),
            rank=rank,
            feature=feature.astype(self.runtime.xp.int32),
            bin=pick(found.bin),
            next_bin=pick(found.next_bin),
            draw=pick(found.draw),
            missing=pick(found.missing),
            left_hessian=sums[:, 0],
            left_gradient=sums[:, 1:],
            categorical=categorical,
            mask=pick(found.mask) * categorical[:, None],  # numeric ones were not written
        )

    def _left_sums(
        self, histogram: Array, found: _FeatureSplits, at: Array, feature: Array
    ) -> Array:
        """Weight and gradients of left children: int64 (len(at), 1 + K)."""
        xp, matrix = self.runtime.xp, self.matrix
        n_channels = histogram.shape[3] - 2
        sums = xp.empty((len(at), 1 + n_channels), dtype=xp.int64)
        if len(at):
            sizes = (np.int32(matrix.width), np.int32(n_channels))
            features = (feature.astype(xp.int32), found.bin, found.missing)
            masks = (matrix.is_categorical, found.mask)
            args = (histogram, at, *features, *masks, *sizes, sums)
            kernel = self.runtime.kernel("pick.cu", "left_sums", {})
            kernel((len(at),), (constant("common.cuh", "WARP"),), args)
        return sums
