"""The rows of trees that grow in blocks: roots, and rows gathered into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuboost.backends.numpy.constraints import FrontierConstraints
from gpuboost.backends.numpy.rows import RowBlock
from gpuboost.engine.growth.frontier import Frontier
from gpuboost.engine.sampling import root_key
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import GrowTask


def make_roots(task: GrowTask, trees: Sequence[int]) -> Frontier:
    """The root node of each tree, without its sums."""
    m = len(trees)
    none = np.zeros(m, np.int64)
    return Frontier(
        tree=np.arange(m, dtype=np.int32),
        key=np.array([root_key(task.seed, tree) for tree in trees], dtype=np.uint64),
        start=none,
        count=none,
        hessian=none,
        gradient=np.zeros((m, task.target.n_channels), np.int64),
        **FrontierConstraints(task).of_roots(m),
    )


def rows_of_tree(task: GrowTask, rows: TreeRows, row: Any) -> RowBlock:
    """Some rows of a tree, given by indices or a slice (then ``RowBlock.row`` is that)."""
    hessian = rows.weight[row].astype(np.int64)
    return RowBlock(row, hessian, *task.target.row_channels(row, rows))


def rows_by_node(
    task: GrowTask, tree_rows: Sequence[TreeRows], node: np.ndarray, frontier: Frontier
) -> tuple[RowBlock, Frontier]:
    """All open rows, contiguous for each node, and the frontier with their positions."""
    blocks = []
    for rows, own in zip(tree_rows, node, strict=True):
        row = np.flatnonzero(own >= 0)
        row = row[np.argsort(own[row], kind="stable")]
        blocks.append(rows_of_tree(task, rows, row))
    columns = zip(*(vars(block).values() for block in blocks), strict=True)
    joined = (None if parts[0] is None else np.concatenate(parts) for parts in columns)
    start = np.cumsum(frontier.count) - frontier.count
    return RowBlock(*joined), replace(frontier, start=start)  # type: ignore[arg-type]


def taken(rows: TreeRows, used: np.ndarray) -> TreeRows:
    """Some rows of a tree, as its only ones."""
    own = ((name, getattr(rows, name)) for name in ("weight", "inside", "wide", "gradient"))
    return replace(rows, **{name: array[used] for name, array in own if array is not None})
