"""The level-wise grower: it allocates arrays, and runs the compiled growth on a thread pool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuboost.backends.numba.common.numbering import grown_tree, make_columns
from gpuboost.backends.numba.common.records import NODE, SPLIT, Limits
from gpuboost.backends.numba.level_wise.channels import cell_size, columns_of_tile, make_channels
from gpuboost.backends.numba.level_wise.feature_bundles import BINS, FeatureBundles
from gpuboost.backends.numba.level_wise.feature_sampling import sampling_plugins
from gpuboost.backends.numba.level_wise.grow import GROW_TOGETHER
from gpuboost.backends.numba.level_wise.histograms import PANEL, SMALL_TILE, STRIPS
from gpuboost.backends.numba.level_wise.leaves import Leaves
from gpuboost.backends.numba.level_wise.policy import collect
from gpuboost.backends.numba.level_wise.records import (
    NODE_CHUNK,
    SIBLING_PAIR,
    GrowState,
    LevelWork,
    Samples,
    SharedArrays,
    ThreadArrays,
)
from gpuboost.backends.numba.level_wise.subtrees import FINISH_TOGETHER, make_local
from gpuboost.backends.numba.references import KeptReference, Reference, ReferenceType, by_reference
from gpuboost.backends.numba.splits.plugins import plugins_of
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.task import NO_LIMIT, GrownTree

CACHE_SIZE = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")  # of L2, as in "1024K"


def columns_in_cache(file: Path = CACHE_SIZE) -> int:
    """Number of columns, two panels to 128, whose partial sums take an eighth of the L2 cache.

    The histograms of a node and of its parent need the cache, too. If its size cannot be read, as
    on macOS and Windows, it is taken to be 1 MiB.
    """
    try:
        kibibytes = int(file.read_text(encoding="ascii").strip().removesuffix("K"))
    except (OSError, ValueError):
        kibibytes = 1024
    return min(max(kibibytes // 128 * 8, 2 * PANEL), 128)


# Largest number of columns of a tile. With one pass over the rows for every 32 columns, 400k x 400
# takes 1.3 and 20k x 1,000 1.1 times as long on a core with 2 MiB of L2 cache. On one with 1 MiB,
# fits with tiles of 128 columns take 1.2 to 1.3 times as long as those with 64.
TILE = columns_in_cache()
# Nodes with at most this many rows are not cut into chunks: the histogram of each chunk must be
# written and added up.
MIN_CHUNK_ROWS = 1 << 12
CHUNKS_PER_THREAD = 2  # chunks of a level per thread, so that threads finish at about the same time
# Smallest `Shape.small` but 0. With 2,048, boosting of 100k x 28 with depth 10 takes 1.06 times as
# long on a core with 32 KiB of L1 cache.
SUBTREE_ROWS = 1 << 10
# If nodes of the deepest searched level have a mean of SMALL_MEAN rows or more, growth by levels to
# the end is not slower (with 300 to 800 rows, both ways measure alike). Trees of at most SHALLOW
# levels and best-first trees have no small nodes, so `subtrees` is not compiled for them, except in
# small tables, in wide ones, and if the histograms of a level do not fit the memory.
SMALL_MEAN, SHALLOW = 200, 7
# But the histogram of a node with more than WIDE columns does not fit the L2 cache, so nodes of
# fewer than WIDE_SUBTREE_ROWS rows are small: without this, a round takes 1.15 (20k x 1,000) and
# 1.4 times as long (5k x 5,000).
WIDE, WIDE_SUBTREE_ROWS = 256, 400
# Trees of several channels grow by levels if they grow best-first, or if nodes of the deepest
# searched level have a mean of this many rows (with 40 to 100, both growers are equally fast).
CHANNELS_MEAN = 60
ALL_SMALL = 4000  # with fewer rows, a root is small, except in best-first growth
_NODE_BYTES = 300  # approximate bytes of a node in all arrays, until it is part of a grown tree
# Rows of the table for each segment, at least. With 16,384, 10k x 20 takes 1.03 to 1.04 of the time
# (measured with two threads only).
SEGMENT_ROWS = 1 << 12
_ENDLESS = 40  # levels; no tree has 2**40 leaves
SHARED_CELLS = 1 << 16  # rows of all trees times columns and channels, for each further thread


@dataclass(frozen=True)
class Shape:
    """The sizes that determine the arrays of a grower.

    Attributes
    ----------
    n_samples, n_features, n_columns, n_trees : int
        Size of the data, and number of trees of a round. A column is a feature or feature bundle.
    n_channels, n_leaf_sums : int
        Number of channels of a tree, of which there is only one if it has several, and of sums of a
        leaf.
    depth, max_leaf_nodes, min_samples_leaf : int
        Limits of a tree.
    node_sampling : bool
        Whether nodes consider only some of the features of their tree.
    groups : int
        Number of words that hold the bits of interaction groups.
    fields : int
        Number of sums of a bin and channel: gradient, hessian, and the count of rows if needed.
    n_threads : int
        Number of threads.
    categorical : bool
        Whether any feature is categorical.
    memory_budget : int
        Budget in bytes, of which the histograms of chunks take at most a quarter.
    """

    n_samples: int
    n_features: int
    n_columns: int
    n_trees: int
    n_channels: int
    n_leaf_sums: int
    depth: int
    max_leaf_nodes: int
    min_samples_leaf: int
    node_sampling: bool
    groups: int
    fields: int
    n_threads: int
    categorical: bool
    memory_budget: int

    @property
    def cell_size(self) -> int:
        """Number of neighbouring sums in the histograms."""
        return 1 if self.n_channels == 1 else cell_size(self.n_channels, self.fields > 2)

    @property
    def n_tiles(self) -> int:
        """Number of tiles of columns; all but the last have `tile` columns.

        Tiles are small if threads would have too few tasks: in best-first growth, whose levels have
        one pair of siblings, and in small tables.
        """
        rows, columns = self.n_threads * MIN_CHUNK_ROWS, self.n_threads * TILE
        has_tasks = self.n_samples >= rows or self.n_columns >= columns
        small = min(columns_of_tile(self.cell_size), SMALL_TILE)
        is_large = self.n_channels == 1 and has_tasks and not self.best_first
        return -(-self.n_columns // (TILE if is_large else small))

    @property
    def tile(self) -> int:
        """Number of columns of a tile, a multiple of 8, because a word holds 8 codes."""
        return -(-self.n_columns // (8 * self.n_tiles)) * 8

    @property
    def best_first(self) -> bool:
        """Whether growth is best-first, one node of each tree at a time."""
        return self.max_leaf_nodes != NO_LIMIT

    @property
    def capacity(self) -> int:
        """Largest number of nodes of a tree."""
        maximum = max(self.n_samples // max(self.min_samples_leaf, 1), 1)
        return 2 * min(maximum, self.max_leaf_nodes, 2 ** min(self.depth, _ENDLESS)) - 1

    @property
    def small(self) -> int:
        """Number of rows below which one thread splits a node and all its descendants.

        0 if all nodes are split level by level or best-first. The less memory there is for
        histograms, which get half of the budget, the larger is the number. Trees of several
        channels have no small nodes.
        """
        if self.n_channels > 1:
            return 0
        if self.n_samples < ALL_SMALL and not self.best_first:
            return self.n_samples + 1
        deepest = 2 ** min(self.depth - 1, _ENDLESS)
        is_shallow = self.depth <= SHALLOW or self.n_samples >= SMALL_MEAN * deepest
        histograms = self.memory_budget // 2 // self._histogram_bytes
        fits, is_wide = self.n_trees * deepest <= histograms, self.n_columns > WIDE
        if self.best_first or (is_shallow and fits and not is_wide):
            return 0
        smallest = WIDE_SUBTREE_ROWS if is_shallow else SUBTREE_ROWS
        return max(smallest, 2 * self.n_trees * self.n_samples // max(histograms, 1) + 1)

    @property
    def n_histograms(self) -> int:
        """Number of histograms of nodes.

        A root takes one, and a searched pair of children takes one more than its parent, whose
        histogram becomes that of the larger child.
        """
        if self.best_first:
            maximum = self.max_leaf_nodes
        elif self.small:
            maximum = max(2 * (self.n_samples // self.small), 1)
        else:
            maximum = 2 ** min(max(self.depth - 1, 0), _ENDLESS)
        return self.n_trees * min(maximum, self.n_samples)

    @property
    def widest(self) -> int:
        """Largest number of slots of a level: two for each pair with a node that is searched."""
        return 2 * self.n_trees if self.best_first else 2 * self.n_histograms

    @property
    def pieces(self) -> int:
        """Largest number of chunks that the rows of a level are cut into if all are in one node."""
        parts = self.memory_budget // 4 // self._histogram_bytes if self.n_threads > 1 else 1
        return max(min(CHUNKS_PER_THREAD * self.n_threads, parts // 2), 1)

    @property
    def n_segments(self) -> int:
        """Number of segments that the rows of a tree lie in, at most one for each thread."""
        return max(min(self.n_threads, self.n_samples // SEGMENT_ROWS), 1)

    @property
    def n_parts(self) -> int:
        """Number of histograms of chunks, which nodes with several chunks need."""
        return 2 * self.pieces if self.pieces > 1 else 0

    @property
    def is_deep(self) -> bool:
        """Whether trees have several channels, and so many levels that nodes have few rows."""
        rows = CHANNELS_MEAN * 2 ** (min(self.depth, _ENDLESS) - 1)
        return self.n_channels > 1 and not self.best_first and self.n_samples < rows

    @property
    def _histogram_bytes(self) -> int:
        return (self.cell_size if self.n_channels > 1 else self.fields) * self.n_columns * BINS * 8

    @property
    def n_tables(self) -> int:
        """Number of tables of leaf sums: one per thread if they are small next to the rows."""
        nodes = self.n_trees * self.capacity * self.n_threads
        return self.n_threads if nodes <= self.n_trees * self.n_samples else 1

    @property
    def histogram_bytes(self) -> int:
        """Size of the histograms of nodes and of chunks, in bytes."""
        return (self.n_histograms + self.n_parts) * self._histogram_bytes

    @property
    def fits(self) -> bool:
        """Whether the arrays that are kept from round to round fit the memory budget.

        Histograms, buffers for small nodes, and node arrays are each compared with the budget, not
        their sum; arrays with an entry per row are not counted. Node arrays take memory only for
        nodes that are created, usually far fewer than the capacity. So these arrays can be twice
        as large as the budget, which allows trees grown to single rows.
        """
        n_rows = min(self.small, self.n_samples)
        small_nodes = self.n_threads * n_rows * (self.n_features + 64)
        nodes = self.n_trees * self.capacity * (_NODE_BYTES + 16 * self.n_segments)
        return max(self.histogram_bytes, small_nodes, nodes // 2) <= self.memory_budget


def on_cache_lines(n: int, width: int) -> np.ndarray:
    """Uninitialised int64 (n, width), at a cache line; so is each row if 8 divides ``width``."""
    words = np.empty(n * width + 8, np.int64)  # np.zeros touches all of memory that is used again
    first = -words.ctypes.data // 8 % 8
    return words[first : first + n * width].reshape(n, width)


def _make_state(shape: Shape) -> GrowState:
    """Allocate the `GrowState`: nodes of all trees, and positions of their rows."""
    n, t, f = shape.n_samples, shape.n_trees, shape.n_features
    nodes, slots = t * shape.capacity, shape.widest
    return GrowState(
        nodes=np.zeros(nodes, NODE),
        n_nodes=np.zeros(t, np.int64),
        slot=np.zeros(nodes, np.int32),
        histogram_slot=np.zeros(nodes, np.int32),
        spare=np.zeros(shape.n_histograms, np.int64),
        n_spare=np.zeros(1, np.int64),
        waiting=np.zeros((t, shape.capacity), np.int32),
        number=np.zeros(nodes, np.int32),
        ends=np.zeros(nodes, np.int64),
        n_waiting=np.zeros(t, np.int64),
        n_leaves=np.zeros(t, np.int64),
        masks=np.zeros((nodes if shape.categorical else 0, 16), np.uint32),
        open=np.zeros(max(slots, t) + 2, np.int64),
        row=np.empty((2, t * n), np.uint32),
        segments=np.zeros((shape.n_segments, nodes, 2), np.int64),
        features=np.zeros((t, f), np.int32),
        n_features=np.zeros(t, np.int64),
        groups=np.zeros((nodes, shape.groups), np.uint64),
        small=np.zeros(nodes if shape.small else 1, np.int64),
        n_small=np.zeros(1, np.int64),
        n_splits=np.zeros(t, np.int64),
        min_category=np.zeros(t, np.int64),
    )


def _make_work(shape: Shape) -> LevelWork:
    """Allocate the work lists of a level, and the histograms."""
    slots, kept, n_strips = shape.widest, shape.n_histograms, shape.n_tiles * STRIPS
    fields = shape.fields if shape.n_channels == 1 else 1
    cells = shape.n_columns * BINS * shape.cell_size
    histograms = on_cache_lines((kept + shape.n_parts) * fields, cells)
    statuses = (slots if shape.node_sampling else shape.n_trees, shape.n_features)
    return LevelWork(
        pairs=np.zeros(max(slots, 1), SIBLING_PAIR),
        chunks=np.zeros(slots + shape.pieces, NODE_CHUNK),
        histograms=histograms.reshape(-1, fields, cells),
        first_part=kept,
        feature_status=np.zeros(statuses, np.uint8),
        node_sampling=shape.node_sampling,
        found=np.zeros((slots, n_strips), SPLIT),
        found_mask=np.zeros((slots if shape.categorical else 0, n_strips, 16), np.uint32),
    )


class LevelGrower:
    """Grows the trees of each round; its arrays are kept from round to round."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.state = shape, _make_state(shape)
        self.work = _make_work(shape)
        leaves = shape.n_trees * shape.capacity
        self.sums = np.zeros((shape.n_tables, leaves, shape.n_leaf_sums), np.int64)
        self._partial = on_cache_lines(shape.n_threads, shape.tile * BINS)
        self._partial[:] = 0
        # For each thread, if there can be small nodes: codes of the rows of one, and its buffers.
        n_rows = min(shape.small, shape.n_samples)
        threads = range(shape.n_threads if shape.small else 0)
        self.local_codes = [np.empty((shape.n_features, n_rows), np.uint8) for _ in threads]
        self._local = [make_local(n_rows) for _ in threads]
        self._state, self._work = by_reference(self.state), by_reference(self.work)
        self._level, self._capacities = np.zeros(4, np.int64), np.zeros(4, np.int64)
        self._threads: list[Reference] = []
        self._channels: list[Reference | None] = [None] * shape.n_threads
        if shape.n_channels > 1:
            own = [make_channels(shape.n_channels) for _ in self._channels]
            self._channels = [by_reference(each) for each in own]
        self._addresses = np.zeros(shape.n_threads, np.int64)
        self._columns = make_columns(0, shape.n_leaf_sums, shape.categorical)
        self._of_columns = by_reference(self._columns)
        self._samples, self._leaves, self._shared = (KeptReference() for _ in range(3))

    def plugins(self, problem: ReferenceType, limits: Limits, columns: FeatureBundles) -> Reference:
        """The `Plugins` of all rounds; ``problem`` is the type of their `Problem`."""
        shape, own = self.shape, dict[str, Any]()
        if shape.node_sampling:
            own = sampling_plugins(problem, self._state.kind, by_reference(columns).kind)
        has_small, channels = shape.small > 0, self._channels[0]
        return plugins_of(problem, limits, shape.categorical, has_small, channels=channels, **own)

    def set_problems(self, problems: list[Reference], local_problems: list[Reference]) -> None:
        """Set the `Problem` of each thread, and those with `local_codes`, for the next rounds."""
        locals_: list[Reference | None] = [
            by_reference(local._replace(problem=own))
            for local, own in zip(self._local, local_problems, strict=True)
        ]
        locals_ = locals_ or [None] * len(problems)
        given = zip(problems, self._channels, self._partial, locals_, strict=True)
        self._threads = [by_reference(ThreadArrays(*each)) for each in given]
        self._addresses[:] = [each.address for each in self._threads]

    def grow(
        self,
        pool: ThreadPool,
        samples: Samples,
        roots: np.ndarray,
        keys: np.ndarray,
        leaves: Leaves,
    ) -> list[GrownTree]:
        """Grow the trees of a round on a pool of threads, and fill ``leaves``.

        See `records.SharedArrays` for ``roots`` and ``keys``.
        """
        shape, state = self.shape, self.state
        n_cells = int(roots[:, 1].sum()) * samples.n_columns * shape.n_channels
        n_threads = min(shape.n_threads, n_cells // max(SHARED_CELLS, 1) + 1)
        pieces = shape.pieces if n_threads > 1 else 1
        self._capacities[:] = shape.capacity, pieces, MIN_CHUNK_ROWS, shape.small
        of_leaves = self._leaves.to(leaves)
        arrays = self._samples.to(samples), self._state, self._work, of_leaves, roots, keys
        others = self._level, self._capacities, self._addresses, self._threads[0]
        shared = self._shared.to(SharedArrays(*arrays, *others))
        if shape.small > shape.n_samples:
            state.n_small[0] = -1
        else:
            pool.run(GROW_TOGETHER, shared, n_threads)
        if state.n_small[0]:
            pool.run(FINISH_TOGETHER, shared, n_threads)
        trees = []
        for tree in range(shape.n_trees):
            n_nodes = int(state.n_nodes[tree])
            if n_nodes >= len(self._columns.order):  # larger than the tree, so that it is a copy
                self._columns = make_columns(2 * n_nodes, shape.n_leaf_sums, shape.categorical)
                self._of_columns = by_reference(self._columns)
            n_masks = collect(self._state, of_leaves, tree, shape.capacity, self._of_columns)
            trees.append(grown_tree(self._columns, n_nodes, n_masks))
        return trees
