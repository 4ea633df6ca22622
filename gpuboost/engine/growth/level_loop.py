"""Growing a batch of trees level by level: the loop that NumPy and CUDA share.

    until no node is left:
        gradients about medians      only targets of medians: signs of rows, sums of nodes
        which nodes may split        policy: size, depth, purity
        find their best splits       histograms and scans, in slices that fit the memory budget
        which splits are taken       policy: min_impurity_decrease, max_leaf_nodes
        sum the leaves
        partition the rows           children become the next frontier

The loop knows neither the rows nor the number of nodes: they are part of the objects that
`LevelOps` returns and takes. So it need not wait for a device.
"""

from __future__ import annotations

from typing import Any, TypeVar

from gpuboost.engine.growth.operations import LevelOps
from gpuboost.engine.task import NO_LIMIT, GrowTask

Grown = TypeVar("Grown")


def grow_levels(ops: LevelOps[Grown], task: GrowTask) -> Grown:
    """Grow the trees of a batch; a tree does not depend on the other trees in the batch.

    Parameters
    ----------
    ops : LevelOps
        The level operations of the batch.
    task : GrowTask

    Returns
    -------
    object
        The grown nodes, as `LevelOps.end_batch` returns them.
    """
    _grow_all(ops, task)
    return ops.end_batch()  # by now rows and levels are released


def _grow_all(ops: LevelOps[Any], task: GrowTask) -> None:
    rows, frontier = ops.roots()
    best_first = task.options.max_leaf_nodes != NO_LIMIT
    by_median = task.target.by_median
    depth = 0
    while not ops.finished(frontier, depth):
        if by_median:
            rows, frontier = ops.set_median_gradients(rows, frontier)
        candidates = ops.candidates(rows, frontier, depth)
        splits = ops.find_splits(rows, frontier, candidates)
        accepted = ops.accept(frontier, splits)
        if best_first:
            accepted = ops.limit_to_best_first(frontier, splits, accepted)
        sums = ops.leaf_sums(rows, frontier, accepted)
        rows, frontier = ops.partition(rows, frontier, splits, accepted, sums)
        depth += 1
