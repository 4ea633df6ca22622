"""Launches of kernels/histogram: the histograms of nodes, and the lists of their features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuboost.backends.cuda.data.matrix import DeviceMatrix
from gpuboost.backends.cuda.level.records import Search
from gpuboost.backends.cuda.runtime.compile_flags import FORESTS, CompileFlags
from gpuboost.backends.cuda.runtime.grid import striding_blocks
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.rows import DeviceRows
from gpuboost.engine.growth.frontier import Array

TILES = (32, 16)  # most features of a block; the larger is chosen if it fits in shared memory
# Smallest tile: with a smaller one, a warp would add more rows at once, and their additions would
# collide.
MIN_TILE = 4
# Fewest rows that a block sums at a time: with fewer, clearing its histogram takes longer than
# summing them.
MIN_BLOCK_ROWS = 1024
_VALUES_FILE, _CLASSES_FILE = "histogram/histogram_values.cu", "histogram/histogram_classes.cu"
_SHARED_FILE = "histogram/shared_histogram.cuh"


def cell_words(is_multiclass: bool, is_binary: bool, counted: bool) -> int:
    """Number of 32-bit words of a cell of a block's histogram in shared memory.

    Parameters
    ----------
    is_multiclass, is_binary : bool
        Whether targets are more than two classes, or two; neither in a regression.
    counted : bool
        Whether rows are counted.
    """
    if is_multiclass:
        return constant(_CLASSES_FILE, "CLASS_WORDS") - (not counted)
    return constant(_VALUES_FILE, "MAX_WORDS") - is_binary - (not counted)


def capacity_for_cells(shared_memory: int, is_multiclass: bool) -> int:
    """Number of bytes of a block's shared memory that are available for its cells."""
    return shared_memory - constant(_CLASSES_FILE, "CLASS_STATIC_BYTES") * is_multiclass


def choose_tile(shared_memory: int, width: int, words: int) -> int:
    """Choose the largest tile whose cells, of ``words`` words, fit in ``shared_memory`` bytes.

    Raises
    ------
    MemoryError
        If no tile fits.
    """
    for tile in TILES:
        if 4 * words * width * tile <= shared_memory:
            return tile
    minimum = 4 * words * width * TILES[-1]
    raise MemoryError(
        f"a histogram of {width} bins needs {minimum} bytes of shared memory and the device has "
        f"{shared_memory} for a block; lower max_bins"
    )


def use_feature_lists(max_features: int, n_allowed: int) -> bool:
    """Whether histograms have only each node's listed features instead of all features.

    Histograms of all features are usually summed over at most half of the rows, because those of
    larger siblings are computed by subtraction. Histograms of listed features are summed over all
    rows, so lists are used only if they have at most half of the allowed features.
    """
    return 2 * max_features <= n_allowed


def histogram_bytes(n_features: int, width: int, n_channels: int) -> int:
    """Bytes of a node's histogram of ``n_features`` features with ``width`` bins each."""
    return n_features * width * (2 + n_channels) * 8


@dataclass(frozen=True)
class FeatureLists:
    """The features that the histograms of a level contain.

    Attributes
    ----------
    listed : int32 (slots, n_listed), or (F,) if all slots list all features
        Listed features; unused entries are -1.
    stride : int
        Number of entries from one slot's list to the next; 0 if all slots list all features.
    n_listed : int
        Number of entries of a list.
    last : uint64 (slots,)
        Largest rank of a listed feature (2**64 - 1 if all allowed features are listed); not read if
        stride is 0.
    """

    listed: Array
    stride: int
    n_listed: int
    last: Array


@dataclass(frozen=True)
class HistogramBuilder:
    """Builds the histograms of nodes from their rows.

    Parameters
    ----------
    runtime : Runtime
    matrix : DeviceMatrix
    n_channels : int
    by_class : bool
        Whether there is one channel per class, as with more than two classes.
    counted : bool
        Whether rows are counted.
    max_weight : int
        Largest weight of a row, or 1 if all rows weigh less than 2**32, the bound on a block's sum.
    n_listed : int
        Number of features of a node's histogram.
    flags : CompileFlags
    """

    runtime: Runtime
    matrix: DeviceMatrix
    n_channels: int
    by_class: bool
    counted: bool
    max_weight: int
    n_listed: int
    flags: CompileFlags = FORESTS

    def bytes_per_node(self) -> int:
        """Bytes of one node's histogram."""
        return histogram_bytes(self.n_listed, self.matrix.width, self.n_channels)

    @property
    def tile(self) -> int:
        """Number of features per block."""
        wanted = max(MIN_TILE, 1 << (self.n_listed - 1).bit_length())
        return min(wanted, self.matrix.tile)

    @property
    def _channel_blocks(self) -> int:
        """Number of blocks for the same rows and tile: one per channel, or one for all classes."""
        return 1 if self.by_class else self.n_channels

    def rows_per_block(self, n_rows: int) -> int:
        """Number of rows that a block sums at a time, to keep all multiprocessors busy.

        Each flush takes many additions to global memory, so blocks sum as many of the ``n_rows``
        rows as possible. No sum in shared memory may leave 32 bits.
        """
        grid = -(-self.n_listed // self.tile) * self._channel_blocks
        blocks = self.runtime.n_multiprocessors * constant(_SHARED_FILE, "HISTOGRAM_BLOCKS")
        spread = max(MIN_BLOCK_ROWS, -(-n_rows * grid // blocks))
        no_wrap = (2**32 - 1) // max(self.max_weight, 1)
        return max(1, min(spread, no_wrap, constant(_SHARED_FILE, "MAX_PIECE_ROWS")))

    def build(
        self, rows: DeviceRows, search: Search, slots: range, lists: FeatureLists, histogram: Array
    ) -> None:
        """Sum rows into ``histogram``, int64 (len(slots), n_listed, 2 + n_channels, width)."""
        work, matrix = search.work, self.matrix
        given: dict[str, Any] = {
            "first_slot": slots.start,
            "n_slots": len(slots),
            "histogram": histogram,
        }
        threads = constant("histogram/zero_histograms.cu", "ZERO_THREADS")
        n_blocks = striding_blocks(self.runtime, histogram.size // threads + 1)
        n_cells = histogram.size // len(slots)
        launch(self.runtime, "zero_histograms", n_blocks, search, n_cells=n_cells, **given)
        words = cell_words(self.by_class, self.flags.binary_targets, self.counted)
        given |= {
            "constants": self._constants(lists),
            "shared_mem": 4 * words * matrix.width * self.tile,
            "codes": matrix.tiles,
            "counted": self.counted,
        }
        grid = (
            striding_blocks(self.runtime, work.capacity),
            -(-self.n_listed // self.tile),
            self._channel_blocks,
        )
        name = "histogram_values"
        if self.by_class:
            name, given["n_channels"] = "histogram_classes", self.n_channels
        launch(self.runtime, name, grid, matrix, rows, work, lists, **given)

    def _constants(self, lists: FeatureLists) -> dict[str, int]:
        """Compile-time constants of the kernel that sums rows."""
        found = {"TILE": self.tile, "CODE_TILE": self.matrix.tile}
        if self.by_class:
            return found
        if lists.stride == 0 and self.n_listed >= MIN_TILE:
            found["SIDE_BY_SIDE"] = 1
        return found | dict(self.flags.constants(_VALUES_FILE))
