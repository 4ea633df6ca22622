"""Grids of kernels that process all nodes of a level, or all pieces of its rows.

Each block processes a chunk of several tiles, see chunks.cuh. A single chunk needs no extra launch
to sum chunks, so there are several chunks only if the capacity exceeds a few tiles.
"""

from __future__ import annotations

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant

FEW_TILES = 4  # one block processes them in less time than another launch takes
MAX_CHUNKS = 256  # two blocks per multiprocessor of a large device
MAX_BLOCKS = 1024  # of a launch whose threads take items in turn
MAX_LIGHT_BLOCKS = 1 << 12  # the same, of kernels with little work per item
# Blocks per multiprocessor of a kernel whose blocks take items in turn. In sync-free growth the
# capacity is far above the number of items, and a block without items costs two nanoseconds. The
# number is a few times that of blocks that run at once, so that all end at about the same time.
STRIDING_BLOCKS = 16


def threads_of_chunks() -> int:
    """Threads of a block, which is also the number of items of a tile."""
    return constant("common/chunks.cuh", "CHUNK_THREADS")


def chunks_for(capacity: int) -> int:
    """Number of chunks for this capacity, in items."""
    tiles = -(-capacity // threads_of_chunks())
    return 1 if tiles <= FEW_TILES else min(tiles, MAX_CHUNKS)


def shares_for(n_pieces: int, n_chunks: int) -> int:
    """Blocks of each chunk of nodes, which write at most ``n_pieces`` pieces of rows."""
    tiles = -(-n_pieces // threads_of_chunks())
    return max(1, min(-(-tiles // n_chunks), MAX_BLOCKS // n_chunks))


def striding_blocks(runtime: Runtime, capacity: int) -> int:
    """Blocks that take up to ``capacity`` items in turn, each by a whole block."""
    return min(capacity, STRIDING_BLOCKS * runtime.n_multiprocessors)


def blocks_for(n: int, threads: int, *, is_light: bool = False) -> int:
    """Blocks whose threads take up to ``n`` items in turn, with little work per item or not."""
    return min(-(-n // threads), MAX_LIGHT_BLOCKS if is_light else MAX_BLOCKS)
