"""Grids of kernels that process all nodes of a level, all pieces of its rows, or other items.

In kernels that compute running sums, each block processes a chunk of one or more tiles, see
chunks.cuh. A single chunk needs no extra launch to sum chunks, so there are several chunks only if
the capacity exceeds a few tiles. In other kernels, blocks or threads loop over items.
"""

from __future__ import annotations

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant

FEW_TILES = 4  # one block is assumed to process these in less time than another launch takes
MAX_CHUNKS = 256  # two blocks per multiprocessor of a large device
MAX_BLOCKS = 1024  # of a launch whose threads loop over items
MAX_LIGHT_BLOCKS = 1 << 12  # the same, for kernels with little work per item
# Blocks per multiprocessor of a kernel whose blocks loop over items. In sync-free growth the
# capacity is far above the number of items, and a block without items is assumed to cost two
# nanoseconds. Only a fraction of the blocks runs at once, so that all multiprocessors finish at
# about the same time.
STRIDING_BLOCKS = 16


def threads_of_chunks() -> int:
    """Number of threads of a block that processes a chunk, and of items of a tile."""
    return constant("common/chunks.cuh", "CHUNK_THREADS")


def chunks_for(capacity: int) -> int:
    """Number of chunks for a capacity, given in items."""
    tiles = -(-capacity // threads_of_chunks())
    return 1 if tiles <= FEW_TILES else min(tiles, MAX_CHUNKS)


def shares_for(n_pieces: int, n_chunks: int) -> int:
    """Number of blocks per chunk of nodes; all chunks together have at most ``n_pieces`` pieces."""
    tiles = -(-n_pieces // threads_of_chunks())
    return max(1, min(-(-tiles // n_chunks), MAX_BLOCKS // n_chunks))


def striding_blocks(runtime: Runtime, capacity: int) -> int:
    """Number of blocks that loop over at most ``capacity`` items, one item per block at a time."""
    return min(capacity, STRIDING_BLOCKS * runtime.n_multiprocessors)


def blocks_for(n: int, threads: int, *, is_light: bool = False) -> int:
    """Number of blocks whose threads loop over at most ``n`` items; light items get more blocks."""
    return min(-(-n // threads), MAX_LIGHT_BLOCKS if is_light else MAX_BLOCKS)
