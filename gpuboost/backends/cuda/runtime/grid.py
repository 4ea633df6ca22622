"""Grids of kernels that go through all nodes of a level, or all pieces of its rows.

Blocks go through chunks of so many tiles, see chunks.cuh. Of one chunk the sums need no launch of
their own, so there are several only where there is room for more than some tiles.
"""

from __future__ import annotations

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant

FEW_TILES = 4  # a block goes through them in less time than one more launch takes
MAX_CHUNKS = 256  # two blocks for a multiprocessor of a large device
MAX_BLOCKS = 1024
# Per multiprocessor, of a kernel whose blocks take item after item. Where the host does not ask,
# there is room for many more items than there are, and a block without any costs two nanoseconds.
# A few times as many as run at once, so that the last ones end at about the same time.
STRIDING_BLOCKS = 16


def threads_of_chunks() -> int:
    """Threads of a block, and items of a tile."""
    return constant("common/chunks.cuh", "CHUNK_THREADS")


def chunks_for(capacity: int) -> int:
    """Chunks of at most so many items."""
    tiles = -(-capacity // threads_of_chunks())
    return 1 if tiles <= FEW_TILES else min(tiles, MAX_CHUNKS)


def shares_for(n_pieces: int, n_chunks: int) -> int:
    """Blocks of each chunk of nodes, where these write at most so many pieces of their rows."""
    tiles = -(-n_pieces // threads_of_chunks())
    return max(1, min(-(-tiles // n_chunks), MAX_BLOCKS // n_chunks))


def striding_blocks(runtime: Runtime, capacity: int) -> int:
    """Blocks that take at most so many items in turn, one block for an item."""
    return min(capacity, STRIDING_BLOCKS * runtime.n_multiprocessors)


def blocks_for(n: int, threads: int) -> int:
    """Blocks whose threads take at most n items in turn."""
    return min(-(-n // threads), MAX_BLOCKS)
