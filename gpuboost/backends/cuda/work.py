"""Work lists: the rows of nodes, cut into pieces for the blocks of a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuboost.engine.frontier import Array


@dataclass(frozen=True)
class Work:
    """What each block of a launch does; blocks of a node side by side.

    Attributes
    ----------
    slot : int32 (blocks,)
        Position of the node among those given.
    first : int64 (blocks,)
        The block's first row.
    rows : int32 (blocks,)
    end : int64 (nodes,)
        One past the last block of each node.
    """

    slot: Array
    first: Array
    rows: Array
    end: Array

    def __len__(self) -> int:
        return len(self.slot)


def cut(xp: Any, start: Array, count: Array, rows_per_block: int) -> Work:
    """Cut segments of ``count[i]`` rows from ``start[i]`` into blocks of ``rows_per_block``."""
    n_blocks = (count + (rows_per_block - 1)) // rows_per_block
    end = xp.cumsum(n_blocks)
    total = int(end[-1]) if len(end) else 0
    block = xp.arange(total)
    slot = xp.searchsorted(end, block, side="right")
    offset = (block - (end - n_blocks)[slot]) * rows_per_block
    rows = xp.minimum(count[slot] - offset, rows_per_block)
    return Work(slot.astype(xp.int32), start[slot] + offset, rows.astype(xp.int32), end)
