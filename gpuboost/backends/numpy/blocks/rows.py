"""The rows of trees that grow in blocks: at the root, and once open rows are loaded into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gpuboost.backends.compiling import Workers
from gpuboost.backends.numpy.blocks.sums import CLOSED
from gpuboost.backends.numpy.rows import RowBlock, block_of, joined_blocks, make_roots
from gpuboost.engine.growth.frontier import Frontier
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import GrowTask

ROWS_AT_ONCE = 1 << 18  # whose targets and weights are converted together, without codes


def row_slices(node: np.ndarray) -> Iterator[tuple[int, slice]]:
    """Trees, and slices of their rows, for ``node`` (trees, n)."""
    for t, own in enumerate(node):
        for start in range(0, len(own), ROWS_AT_ONCE):
            yield t, slice(start, min(start + ROWS_AT_ONCE, len(own)))


def set_roots(
    task: GrowTask,
    trees: Sequence[int],
    tree_rows: Sequence[TreeRows],
    node: np.ndarray,
    workers: Workers,
) -> Frontier:
    """Set ``node``, int32 (trees, n), to the roots of the rows in each tree; return the roots."""
    n_channels = task.target.n_channels

    def sum_up(given: tuple[int, slice]) -> tuple[int, int, int, np.ndarray]:
        """The tree, and the number of some of its rows with the sums of these."""
        t, part = given
        own = tree_rows[t]
        inside = own.weight[part] > 0 if own.inside is None else own.inside[part]
        node[t, part] = np.where(inside, t, CLOSED)
        row = part if inside.all() else part.start + np.flatnonzero(inside)
        block = block_of(task.target, own, row)
        if block.gradient is not None:
            gradient = block.gradient.sum(axis=0)
        else:
            assert block.label is not None
            gradient = np.zeros(n_channels, np.int64)
            np.add.at(gradient, block.label, block.hessian)
        return t, len(block.hessian), int(block.hessian.sum()), gradient

    count, hessian = np.zeros(len(trees), np.int64), np.zeros(len(trees), np.int64)
    gradient = np.zeros((len(trees), n_channels), np.int64)
    for t, *sums in workers.map(sum_up, row_slices(node)):
        count[t] += sums[0]
        hessian[t] += sums[1]
        gradient[t] += sums[2]
    return make_roots(task, trees, start=count, count=count, hessian=hessian, gradient=gradient)


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
