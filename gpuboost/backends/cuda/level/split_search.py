"""Histograms and the split search: the launches of histogram.cu, split.cu and select_split.cu."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.runtime.arrays import allocate
from gpuboost.backends.cuda.runtime.compile_flags import FORESTS, CompileFlags
from gpuboost.backends.cuda.runtime.grid import striding_blocks
from gpuboost.backends.cuda.runtime.launch import fill
from gpuboost.backends.cuda.runtime.source import constant

if TYPE_CHECKING:
    from gpuboost.backends.cuda.data.matrix import DeviceMatrix
    from gpuboost.backends.cuda.level.constraints import Constraints
    from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits, Search
    from gpuboost.backends.cuda.runtime.protocol import Launchable, Runtime
    from gpuboost.backends.cuda.sampling.rows import DeviceRows
    from gpuboost.engine.growth.frontier import Array
    from gpuboost.engine.task import GrowTask

TILES = (32, 16)  # features that a block takes: as many as its shared memory has room for
MIN_TILE = 4  # where fewer are looked at, lanes idle: more rows at once would collide
# Rows of a block: with fewer, clearing its histogram costs more than its rows; with more, few
# blocks are left to spread over the device.
MIN_ROWS, MAX_ROWS = 1024, 16384
BLOCKS_WANTED = 4  # per multiprocessor; of more than two classes as many as run at once
_GRID_ROWS = 65535


def plane_count(n_channels: int, by_class: bool, counted: bool) -> int:
    """32-bit planes of a block's shared histogram."""
    capacity = "CLASS_PLANES" if by_class and n_channels > 1 else "VALUE_PLANES"
    return constant("level/histogram.cu", capacity) - (not counted)


def capacity_for_planes(shared_memory: int, by_class: bool) -> int:
    """Shared memory of a block that is left for its planes."""
    return shared_memory - constant("level/histogram.cu", "CLASS_STATIC_BYTES") * by_class


def choose_tile(shared_memory: int, width: int, planes: int) -> int:
    """Largest tile whose histogram fits so much of a block's shared memory.

    Raises
    ------
    MemoryError
        None fits.
    """
    for tile in TILES:
        if 4 * planes * width * tile <= shared_memory:
            return tile
    minimum = 4 * planes * width * TILES[-1]
    raise MemoryError(
        f"a histogram of {width} bins needs {minimum} bytes of shared memory and the device has "
        f"{shared_memory} for a block; lower max_bins"
    )


def use_feature_lists(max_features: int, n_allowed: int) -> bool:
    """Whether nodes get histograms of the features they look at, in place of all of them.

    All of them are summed for half of the rows: those of larger siblings follow.
    """
    return 2 * max_features <= n_allowed


def histogram_bytes(n_features: int, width: int, n_channels: int) -> int:
    """Size of the histogram of a node, of so many features and codes."""
    return n_features * width * (2 + n_channels) * 8


@dataclass(frozen=True)
class FeatureLists:
    """The features whose histograms the nodes of a level get.

    Attributes
    ----------
    features : int32 (slots, count) or (1, count)
        -1 for none.
    stride : int
        Entries from the list of one slot to the next; 0 if all have the same one.
    count : int
    last : uint64 (slots,)
        With lists of their own: the largest rank that a list goes to.
    """

    features: Array
    stride: int
    count: int
    last: Array

    @property
    def arguments(self) -> tuple[Any, ...]:
        """As kernels take it."""
        return self.features, np.int32(self.stride), np.int32(self.count)


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
    n_looked : int
        Features of a node's histogram.
    flags : Variant
    """

    runtime: Runtime
    matrix: DeviceMatrix
    n_channels: int
    by_class: bool
    counted: bool
    max_weight: int
    n_looked: int
    flags: CompileFlags = FORESTS

    def bytes_per_node(self) -> int:
        """Size of one node's histogram."""
        return histogram_bytes(self.n_looked, self.matrix.width, self.n_channels)

    @property
    def tile(self) -> int:
        """Features of a block."""
        wanted = max(MIN_TILE, 1 << (self.n_looked - 1).bit_length())
        return min(wanted, self.matrix.tile)

    @property
    def _channel_blocks(self) -> int:
        """Blocks that read a row: one for each output, but one for all classes."""
        return 1 if self.by_class else self.n_channels

    def rows_per_block(self, n_rows: int) -> int:
        """Rows of a block: few enough for all multiprocessors to have work."""
        grid = -(-self.n_looked // self.tile) * self._channel_blocks
        blocks = (
            constant("level/histogram.cu", "HISTOGRAM_BLOCKS") if self.by_class else BLOCKS_WANTED
        )
        wanted = self.runtime.n_multiprocessors * blocks
        spread = max(MIN_ROWS, n_rows * grid // wanted)
        no_wrap = (2**32 - 1) // max(self.max_weight, 1)
        return max(1, min(spread, no_wrap, MAX_ROWS))

    def build(
        self, rows: DeviceRows, search: Search, slots: range, lists: FeatureLists, histogram: Array
    ) -> None:
        """Sum the histograms of some slots from rows: int64 (len(slots), count, width, 2 + K)."""
        work, matrix = search.work, self.matrix
        constants = {"TILE": self.tile, **self.flags.constants("level/histogram.cu")}
        threads = constant("level/histogram.cu", "HISTOGRAM_THREADS")
        these = (np.int32(slots.start), np.int32(len(slots)))
        zero = self.runtime.kernel("level/histogram.cu", "zero_histograms", constants)
        n_blocks = striding_blocks(self.runtime, histogram.size // threads + 1)
        n_cells = np.int64(histogram.size // len(slots))
        zero((n_blocks,), (threads,), (search.sizes, *these, n_cells, histogram))
        name = "histogram_classes" if self.by_class else "histogram_values"
        kernel = self.runtime.kernel("level/histogram.cu", name, constants)
        given = (matrix.tiles, rows.row, rows.weight, rows.target)
        pieces = (work.size, work.slot, work.first, work.rows)
        layout = (np.int64(matrix.n_samples), np.int32(matrix.tile))
        width, counted = np.int32(matrix.width), np.int32(self.counted)
        sizes: tuple[Any, ...] = (*layout, np.int64(len(rows)), width, counted)
        if self.by_class:
            sizes = (*layout, width, np.int32(self.n_channels), counted)
        args = (*given, *pieces, *these, *lists.arguments, *sizes, histogram)
        planes = plane_count(self.n_channels, self.by_class, self.counted)
        shared = 4 * planes * matrix.width * self.tile
        n_tiles = -(-self.n_looked // self.tile)
        n_blocks = striding_blocks(self.runtime, work.capacity)
        kernel((n_blocks, n_tiles, self._channel_blocks), (threads,), args, shared_mem=shared)


@dataclass(frozen=True)
class _FeatureSplits:
    """The best split of every slot by every feature, as split.cu writes it: arrays (m, F)."""

    score: Array
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
            "score": (np.float64, shape),
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
    """The best split of nodes whose histograms are known: split.cu and select_split.cu.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
    matrix : DeviceMatrix
    allowed : uint8 (trees, F)
        Features that nodes may look at; with groups of features (nodes, F).
    min_hessian, min_category, root_hessian : int64 (trees,)
    unit : float64 (1,)
        `Target.gain_unit`.
    regular : float64 (3,)
        l1, l2 and the largest value, of the NEWTON score.
    constraints : Constraints
    by_lists : bool
        Whether each node has histograms of the features it looks at, and no others.
    """

    runtime: Runtime
    task: GrowTask
    matrix: DeviceMatrix
    allowed: Array
    min_hessian: Array
    min_category: Array
    root_hessian: Array
    unit: Array
    regular: Array
    constraints: Constraints
    by_lists: bool

    def lists(self, frontier: DeviceFrontier, search: Search, slots: range) -> FeatureLists:
        """The features that nodes of some slots look at."""
        xp, n_features = self.runtime.xp, self.matrix.n_features
        if not self.by_lists:
            return FeatureLists(self.matrix.features, 0, n_features, xp.empty(1, dtype=xp.uint64))
        count = self.task.options.max_features
        lists = xp.empty((len(slots), count), dtype=xp.int32)
        last = xp.empty(len(slots), dtype=xp.uint64)
        nodes = (frontier.size, search.slot, search.open, frontier.key, frontier.tree)
        sizes = (slots.start, len(slots), n_features, count)
        args = (*nodes, self.allowed, *(np.int32(size) for size in sizes), lists, last)
        self._by_warps("choose_features", frontier, args)
        return FeatureLists(lists, count, count, last)

    def search(self, level: Searched, rows: DeviceRows, splits: DeviceSplits) -> None:
        """Write the splits of the nodes of some slots; with slot 0, also of nodes without one."""
        found = self._by_feature(level)
        xp = self.runtime.xp
        undecided = xp.empty(level.frontier.capacity, dtype=xp.uint8)
        if self.by_lists:  # else nobody asks
            fill(self.runtime, undecided, 0)
        self._decide(level, found, splits, level.search.open, undecided, level.first)
        if self.by_lists and not level.search.none:
            further, walked = self._walk_on(level, rows, undecided)
            left_over = xp.empty(level.frontier.capacity, dtype=xp.uint8)  # none is
            self._decide(further, walked, splits, undecided, left_over, False)

    def _by_feature(self, level: Searched) -> _FeatureSplits:
        """The best split of every node by every feature it looks at."""
        xp, matrix, search = self.runtime.xp, self.matrix, level.search
        lists, slots, frontier = level.lists, level.slots, level.frontier
        found = _FeatureSplits.room(xp, len(slots), lists.count, matrix.mask_words)
        if search.none:
            return found
        nodes = (search.sizes, search.node, search.slot, search.source, search.open)
        these = (np.int32(slots.start), np.int32(len(slots)), *lists.arguments)
        given = (level.histogram, level.previous, *nodes, *self._facts(frontier), *these)
        kernel = self._kernel("level/split.cu", "split_features")
        threads = (constant("level/candidates.cuh", "SPLIT_THREADS"),)
        sizes = (np.int32(matrix.n_features), *self._options())
        for first in range(0, lists.count, _GRID_ROWS):
            n_entries = min(_GRID_ROWS, lists.count - first)
            n_blocks = -(-striding_blocks(self.runtime, len(slots) * n_entries) // n_entries)
            args = (*given, np.int32(first), *sizes, *vars(found).values())
            kernel((n_blocks, n_entries), threads, args)
        return found

    def _facts(self, frontier: DeviceFrontier) -> tuple[Array, ...]:
        """What split.cuh reads of nodes, trees and features."""
        sums = (frontier.hessian, frontier.count, frontier.gradient, frontier.key, frontier.tree)
        matrix = self.matrix
        minimum = (self.min_hessian, self.min_category)
        features = (self.allowed, matrix.n_bins, matrix.is_categorical, matrix.center)
        held_to = self.constraints.score_arguments(frontier, self.regular)
        return (*sums, *minimum, *features, *held_to)

    def _options(self) -> tuple[Any, ...]:
        options, target = self.task.options, self.task.target
        return (
            *(
                np.int32(self.matrix.width),
                np.int32(target.n_channels),
                np.int32(options.criterion),
            ),
            *(np.int32(target.by_class), np.int32(options.random_thresholds)),
            np.int32(options.min_samples_leaf),
        )

    def _decide(
        self,
        level: Searched,
        found: _FeatureSplits,
        splits: DeviceSplits,
        open_nodes: Array,
        undecided: Array,
        fill: bool,
    ) -> None:
        """The best of ``found`` for every open node."""
        matrix, options, target = self.matrix, self.task.options, self.task.target
        frontier, slots = level.frontier, level.slots
        nodes = (frontier.size, level.search.slot, open_nodes, frontier.key, frontier.tree)
        sums = (frontier.hessian, self.root_hessian, self.allowed, matrix.is_categorical)
        these = (np.int32(slots.start), np.int32(len(slots)), np.int32(fill))
        sizes = (
            *(np.int32(matrix.n_features), np.int32(options.max_features), np.int32(matrix.width)),
            *(np.int32(target.n_channels), np.int32(options.criterion), self.unit),
            *(np.float64(options.min_impurity_decrease), np.int32(options.needs_gain)),
            np.int32(matrix.mask_words > 0),
        )
        lists = (*level.lists.arguments, level.lists.last)
        given = (*nodes, *sums, level.histogram, *these, *lists, *sizes)
        args = (*given, *vars(found).values(), *splits.arguments, undecided)
        self._by_warps("decide_splits", frontier, args)

    def _walk_on(
        self, level: Searched, rows: DeviceRows, undecided: Array
    ) -> tuple[Searched, _FeatureSplits]:
        """The next feature that could split each undecided node, and its split by it."""
        xp, matrix, slots = self.runtime.xp, self.matrix, level.slots
        frontier, n_channels = level.frontier, self.task.target.n_channels
        shape = (len(slots), 1, matrix.width, 2 + n_channels)
        histogram = xp.empty(shape, dtype=xp.int64)
        lists = xp.empty((len(slots), 1), dtype=xp.int32)
        found = _FeatureSplits.room(xp, len(slots), 1, matrix.mask_words)
        nodes = (frontier.size, level.search.slot, undecided, frontier.start)
        these = (np.int32(slots.start), np.int32(len(slots)))
        sizes = (np.int64(len(rows)), np.int64(matrix.n_samples), np.int32(matrix.n_features))
        args = (
            *(matrix.codes, rows.row, rows.weight, rows.target, *nodes, *self._facts(frontier)),
            *(level.lists.last, *these, *sizes, *self._options(), histogram, lists),
            *vars(found).values(),
        )
        kernel = self._kernel("level/next_feature.cu", "try_next_features")
        n_blocks = striding_blocks(self.runtime, frontier.capacity)
        kernel((n_blocks,), (constant("level/candidates.cuh", "SPLIT_THREADS"),), args)
        lists = FeatureLists(lists, 1, 1, level.lists.last)
        return replace(level, lists=lists, histogram=histogram), found

    def _by_warps(self, name: str, frontier: DeviceFrontier, args: tuple[Any, ...]) -> None:
        """Launch a kernel of select_split.cu, whose warps take node after node."""
        kernel, n_warps = (
            self._kernel("level/select_split.cu", name),
            constant("level/select_split.cu", "SELECT_WARPS"),
        )
        n_blocks = striding_blocks(self.runtime, -(-frontier.capacity // n_warps))
        kernel((n_blocks,), (constant("common/common.cuh", "WARP"), n_warps), args)

    def _kernel(self, file_name: str, name: str) -> Launchable:
        constants = CompileFlags.of(self.task).constants(file_name)
        return self.runtime.kernel(file_name, name, constants)


@dataclass(frozen=True)
class Searched:
    """Nodes whose histograms are known.

    Attributes
    ----------
    frontier : DeviceFrontier
    search : Search
    slots : range
        The slots of these nodes.
    lists : Looked
    histogram : int64 (len(slots), looked.count, width, 2 + K)
    previous : int64
        All histograms of the level before.
    """

    frontier: DeviceFrontier
    search: Search
    slots: range
    lists: FeatureLists
    histogram: Array
    previous: Array

    @property
    def first(self) -> bool:
        """Whether these are the first slots."""
        return self.slots.start == 0
