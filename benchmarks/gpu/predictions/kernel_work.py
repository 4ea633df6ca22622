"""The work of the kernels of a level, counted from shapes and from machine code."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from benchmarks.gpu.predictions.hot_loops import Counted, stored
from benchmarks.gpu.predictions.rates import MULTIPROCESSORS, Kernel, Stage, Work, bare
from gpuboost.backends.cuda.level.histograms import MIN_TILE, TILES, HistogramBuilder
from gpuboost.backends.cuda.runtime.source import constant

WIDTH = 256
CELL_BYTES = 24  # a cell of a histogram: weight, rows, one gradient
WARP = 32
SECTOR = 32  # bytes that a cache reads at once
BURST = 64  # bytes that device memory reads at once
SECOND_CACHE = 50 << 20  # bytes of the L2 cache
CANDIDATE_OPERATIONS = 20  # float64 operations per bin
# Bytes of a moved row besides its code: its number and a bit to count the rows that go left; then
# that bit, and its number, weight and target read and written.
TURN_BYTES, MOVED_BYTES = 4 + 1 / 8, 1 / 8 + 6 * 4
ROW_BYTES = 12  # bytes of a summed row besides its codes: number, weight, target
LONG_SEGMENT = WIDTH // 5  # at least this many rows of a class are summed in shared memory
STRIDING_BLOCKS = 16.0 * MULTIPROCESSORS  # maximum for a launch whose blocks take items in turn
PIECE_ROWS, POLICY_TILE = 1024, 1024
HALVINGS = 64  # steps of a binary search among 64-bit ranks
# Bytes of shared memory per block: if registers are the limit, and about those of grow_subtrees.
FEW_SHARED, SMALL_SHARED = 1 << 10, 16 << 10
# Sizes of a multiprocessor, from NVIDIA's tuning guide for Hopper.
REGISTERS, MAX_WARPS, SHARED_BYTES, RESERVED_BYTES = 65536, 64, 228 << 10, 1 << 10

GRADIENTS, TWO_CLASSES = "histogram of gradients", "histogram of two classes"
# Words of a cell of a block's histogram, and additions per row and feature.
WORDS = {GRADIENTS: 3, TWO_CLASSES: 2}
FLUSH_CONFLICTS = 4  # lanes of a warp that read or clear words of one bank


def resident_warps(one: Counted, shared: float = FEW_SHARED) -> int:
    """Warps that a multiprocessor runs at once, if a block takes ``shared`` bytes."""
    warps = -(-one.threads // WARP)
    registers = -(-one.registers // 8) * 8 * WARP * warps
    blocks = min(REGISTERS // registers, int(SHARED_BYTES // (shared + RESERVED_BYTES)), 32)
    return min(max(1, blocks) * warps, MAX_WARPS)


def iterations(name: str, often: float, shared: float = FEW_SHARED, is_far: bool = False) -> Work:
    """Work of a number of iterations of a hot loop, summed over all warps.

    A multiprocessor runs as many warps as fit; each of them waits for its own results.

    Parameters
    ----------
    name : str
        Key of `hot_loops.HOT`.
    often : float
        Number of iterations; each is made by one warp.
    shared : float
        Bytes of shared memory per block.
    is_far : bool
        Whether the data are in device memory, not in a cache.
    """
    one = stored()[name]
    rounds = often / (MULTIPROCESSORS * resident_warps(one, shared))
    at_least = 1.0 if often > 0 else 0.0
    alone = one.far_cycles if is_far else one.cycles
    return Work(instructions=often * one.instructions, cycles=alone * max(at_least, rounds))


def tiles(name: str, often: float) -> Work:
    """Work of a block that processes ``often`` tiles in turn, each with all of its threads."""
    one = stored()[name]
    issued = one.threads / WARP * one.instructions / 4
    return Work(cycles=often * max(one.cycles, issued))


@dataclass(frozen=True)
class Table:
    """The binned matrix, and the rows of the trees that grow together.

    Attributes
    ----------
    n_samples, features : int
    batch : float
        Number of rows of all trees together.
    """

    n_samples: int
    features: int
    batch: float

    @property
    def far_bytes(self) -> int:
        """Bytes that are read for a code if no other code of its sector is needed."""
        return SECTOR if self.n_samples * self.features <= SECOND_CACHE else BURST

    @property
    def is_far(self) -> bool:
        """Whether codes and rows together exceed the L2 cache."""
        return self.n_samples * self.features + ROW_BYTES * self.batch > SECOND_CACHE

    def row_bytes(self, nodes: float) -> int:
        """Bytes that are read for the codes of a row, if the tree has this many nodes."""
        return self.far_bytes if nodes > 1 else SECTOR

    def gathered(self, rows: float, nodes: float) -> float:
        """Bytes of codes that the partition reads for the rows of a level of a tree.

        The rows of a node are in ascending order, so each sector of its column of codes is read at
        most once. If a node has few of the table's rows, each code is read with its own sector.
        """
        return min(rows * self.far_bytes, nodes * self.n_samples)


def rows_per_block(rows: float, listed: int, by_class: bool = False) -> int:
    """Rows of a piece of work in a batch with ``rows`` rows, by gpuboost's own rule."""
    runtime = SimpleNamespace(n_multiprocessors=MULTIPROCESSORS)
    matrix = SimpleNamespace(tile=TILES[0])
    builder = HistogramBuilder(
        runtime=cast(Any, runtime),
        matrix=cast(Any, matrix),
        n_channels=1,
        by_class=by_class,
        counted=False,
        max_weight=1,
        n_listed=listed,
    )
    return builder.rows_per_block(int(rows))


def lanes_of(listed: int) -> int:
    """Number of features that a block of the histogram kernel takes."""
    return min(TILES[0], max(MIN_TILE, 1 << (listed - 1).bit_length()))


def histograms(
    kind: str, table: Table, rows: float, nodes: float, slots: float, listed: int, of_tree: float
) -> Stage:
    """Work of the histograms of a level.

    Parameters
    ----------
    kind : str
        `GRADIENTS` or `TWO_CLASSES`.
    table : Table
    rows, nodes : float
        Number of rows and nodes that are summed.
    slots : float
        Number of nodes for whose histograms there is memory, which is zeroed.
    listed : int
        Number of features per node.
    of_tree : float
        Number of nodes of one tree.
    """
    lanes = lanes_of(listed)
    loop = kind if lanes == WARP else f"{kind}, {lanes} lanes"
    # Only the smaller of two siblings is summed, unless all rows of the level are.
    at_most = table.batch if rows > table.batch / 2 else table.batch / 2
    blocks = rows / rows_per_block(at_most, listed) + nodes if rows else 0.0
    words = WORDS[kind]
    shared = 4.0 * words * WIDTH * lanes
    threads = constant("histogram/shared_histogram.cuh", "HISTOGRAM_THREADS")
    at_once = WARP // lanes * stored()[loop].items  # rows of a warp in an iteration
    # In the last iteration over the rows of a block, half of the warps have no row.
    added = iterations(loop, rows / at_once + blocks * threads / WARP / 2, shared, table.is_far)
    flushes = blocks * WIDTH * lanes / WARP / stored()["flush of values"].items
    flushed = iterations("flush of values", flushes, shared)
    cells = slots * listed * WIDTH * CELL_BYTES
    return Stage.of(
        Work(bytes=cells),
        added
        + flushed
        + Work(
            bytes=rows * (table.row_bytes(of_tree) + ROW_BYTES) + cells,
            additions=rows * lanes * words,
            words=blocks * lanes * WIDTH * words * 2 * FLUSH_CONFLICTS,
            reductions=min(rows, blocks * WIDTH) * listed * 2,
        ),
    )


def histograms_of_classes(table: Table, nodes: float, listed: int, n_classes: int) -> Stage:
    """Work of the histograms of all rows with more than two classes.

    The rows of a node are sorted by class, and each is read once. A segment is the rows of one
    class in a block. After a long segment, a pass over the cells clears those that are not zero and
    adds them to the totals; the rows of a short segment are added to device memory one by one.
    """
    lanes, rows = lanes_of(listed), table.batch
    shared = 4.0 * 2 * WIDTH * lanes
    per_block = rows_per_block(rows, listed, by_class=True)
    blocks = rows / per_block + nodes
    segments = nodes * n_classes + rows / per_block
    of_segment = rows / segments
    cells, filled = lanes * WIDTH, listed * min(of_segment, WIDTH)
    is_long = of_segment >= LONG_SEGMENT
    loop = "rows of a long class" if is_long else "rows of short classes"
    flushed = segments if is_long else 0.0
    totals = listed * min(rows / blocks, WIDTH)
    passes = (blocks + flushed) * cells / WARP / 4
    n_bytes = nodes * listed * WIDTH * 8.0 * (2 + n_classes)
    return Stage.of(
        Work(bytes=n_bytes),
        iterations(loop, rows / 4, shared, table.is_far)
        + iterations("flush of a class", passes, shared)
        + Work(
            bytes=rows * (table.row_bytes(nodes) + ROW_BYTES) + n_bytes,
            additions=rows * lanes,
            words=blocks * cells * 3 + flushed * (cells + 3 * filled),
            reductions=segments * filled + blocks * totals,
        ),
    )


def splits(kind: str, slots: float, listed: int, subtracted: float, nodes: float) -> Stage:
    """Work of the split search of a level: a fill, the split by each feature, the best feature.

    ``subtracted`` is the fraction of histograms that are found by subtraction.
    """
    histograms_there = slots * listed
    cells = histograms_there * WIDTH
    threads = stored()[kind].threads
    return Stage.of(
        Kernel(),
        iterations(kind, histograms_there * threads / WARP)
        + Work(
            bytes=cells * CELL_BYTES * (1 + 3 * subtracted),
            operations=cells * CANDIDATE_OPERATIONS,
            blocks=min(histograms_there, STRIDING_BLOCKS),
        ),
        iterations("split of a node", nodes),
    )


def partition(table: Table, rows: float, gathered: float, blocks: float = 0.0) -> Stage:
    """Work of the partition of a level: find the rows that go left, fill, find places, move rows.

    ``blocks`` is the number of blocks in each launch that find nothing to do.
    """
    pieces = rows / PIECE_ROWS
    warps = constant("level/partition.cu", "PARTITION_THREADS") / WARP
    idle = Work(blocks=blocks)
    return Stage.of(
        iterations("rows that go left", pieces * warps, is_far=table.is_far)
        + Work(bytes=rows * TURN_BYTES + gathered)
        + idle,
        idle,
        iterations("rows moved", pieces * warps, is_far=table.is_far)
        + Work(bytes=rows * MOVED_BYTES)
        + idle,
        idle,
    )


def policy(launches: float, nodes: float, pieces: float, n_choosing: float = 0.0) -> Stage:
    """Work of the kernels that decide which nodes are searched and where children and rows go.

    Blocks take tiles of nodes and of pieces of rows. ``n_choosing`` nodes choose their features.
    """
    of_nodes = -(-4.0 * nodes // (POLICY_TILE * MULTIPROCESSORS))
    of_pieces = -(-pieces // (POLICY_TILE * MULTIPROCESSORS))
    own = [
        tiles("nodes opened", of_nodes),
        tiles("nodes placed", of_nodes),
        tiles("pieces placed", of_pieces),
    ]
    if n_choosing:
        own.append(iterations("features of a node, a step", n_choosing * HALVINGS))
    return Stage.of(*own, bare(launches - len(own)))


def subtrees(size: str, kind: str, nodes: float, listed: float) -> Stage:
    """Work of growing nodes with few rows, each by a block or a warp of subtrees.cu.

    `policy` counts their launches.
    """
    own, feature = f"{size} node", f"{kind}feature of a {size} node"
    warps = stored()[own].threads / WARP
    shared = SMALL_SHARED if size == "small" else FEW_SHARED
    work = iterations(own, nodes * warps, shared) + iterations(
        feature, nodes * listed * warps, shared
    )
    return Stage.of(Kernel(work, 0.0))
