"""Growing a batch of trees level by level: the loop that NumPy and CUDA share.

    until no node is left:
        set median gradients         only if leaves are medians: signs of rows, sums of nodes
        choose candidate nodes       policy: size, depth, purity
        find their best splits       histograms and scans, in slices that fit the memory budget
        accept or refuse splits      policy: min_impurity_decrease, max_leaf_nodes
        sum the leaves
        partition the rows           children become the next frontier

The loop reads neither the rows nor the number of nodes: both are in the objects that `LevelOps`
returns and takes. So the loop need not wait for a device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gpuboost.engine.growth.operations import LevelOps
from gpuboost.engine.task import NO_LIMIT, GrowTask

Ops = TypeVar("Ops", bound=LevelOps[Any])


def grow_levels(start: Callable[[], tuple[Ops, Any, Any]], task: GrowTask) -> Ops:
    """Grow the trees of a batch; a tree does not depend on the other trees in the batch.

    Parameters
    ----------
    start : callable
        Returns the level operations, the rows and the root nodes of the batch.
    task : GrowTask

    Returns
    -------
    LevelOps
        The level operations after the last level; the rows and the frontier are released.
    """
    ops, rows, frontier = start()
    best_first = task.options.max_leaf_nodes != NO_LIMIT
    by_median = task.target.by_median
    depth = 0
    while not ops.finished(frontier):
        if by_median:
            rows, frontier = ops.set_median_gradients(rows, frontier)
        candidates = ops.candidates(rows, frontier, depth)
        splits = ops.find_splits(rows, frontier, candidates)
        accepted = ops.accept(frontier, splits)
        if best_first:
            accepted = ops.limit_to_best_first(frontier, splits, accepted)
        sums = ops.leaf_sums(rows, frontier, candidates, accepted)
        rows, frontier = ops.partition(
            rows, frontier, candidates, splits=splits, accepted=accepted, sums=sums
        )
        depth += 1
    return ops
