"""The rows of trees that grow in blocks, once open rows are loaded into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuboost.backends.numpy.rows import RowBlock, block_of, joined_blocks
from gpuboost.engine.growth.frontier import Frontier
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import GrowTask


def rows_by_node(
    task: GrowTask, tree_rows: Sequence[TreeRows], node: np.ndarray, frontier: Frontier
) -> tuple[RowBlock, Frontier]:
    """All open rows, contiguous for each node, and the frontier with their positions."""
    blocks = []
    for rows, own in zip(tree_rows, node, strict=True):
        row = np.flatnonzero(own >= 0)
        row = row[np.argsort(own[row], kind="stable")]
        blocks.append(block_of(task.target, rows, row))
    return joined_blocks(blocks), with_starts(frontier)


def with_starts(frontier: Frontier) -> Frontier:
    """A frontier whose rows are contiguous, one node after the other."""
    return replace(frontier, start=np.cumsum(frontier.count) - frontier.count)


def taken(rows: TreeRows, used: np.ndarray) -> TreeRows:
    """Some rows of a tree, as its only ones."""
    own = ((name, getattr(rows, name)) for name in ("weight", "inside", "wide", "gradient"))
    return replace(rows, **{name: array[used] for name, array in own if array is not None})
