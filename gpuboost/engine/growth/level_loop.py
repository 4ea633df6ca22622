"""Growing a batch of trees level by level: the loop that NumPy and CUDA share.

    until no node is left:
        gradients about medians      only targets of medians: signs of rows, sums of nodes
        which nodes may split        policy: size, depth, purity
        find their best splits       histograms and scans, in slices that fit the memory budget
        which splits are taken       policy: min_impurity_decrease, max_leaf_nodes
        sum the leaves
        partition the rows           children become the next frontier

The loop knows neither the rows nor the number of nodes: they are part of the objects that
`LevelOps` returns and takes. So it need not wait for a device, whose `TreeBuilder` keeps the nodes
of levels there.
"""

from __future__ import annotations

from gpuboost.engine.growth.operations import LevelOps, TreeBuilder
from gpuboost.engine.task import NO_LIMIT, GrowTask


def grow_levels(ops: LevelOps, task: GrowTask) -> TreeBuilder:
    """Grow the trees of a batch; a tree does not depend on the other trees in the batch.

    Parameters
    ----------
    ops : LevelOps
        The level operations of the batch.
    task : GrowTask
    """
    tree_builder = _all_levels(ops, task)
    ops.end_batch()  # by now rows and levels are released
    return tree_builder


def _all_levels(ops: LevelOps, task: GrowTask) -> TreeBuilder:
    rows, frontier = ops.roots()
    best_first = task.options.max_leaf_nodes != NO_LIMIT
    by_median = task.target.by_median
    tree_builder, depth = ops.tree_builder(), 0
    while not ops.finished(frontier, depth):
        if by_median:
            rows, frontier = ops.set_median_gradients(rows, frontier)
        candidates = ops.candidates(rows, frontier, depth)
        splits = ops.find_splits(rows, frontier, candidates)
        accepted = ops.accept(frontier, splits)
        if best_first:
            accepted = ops.limit_to_best_first(frontier, splits, accepted)
        sums = ops.leaf_sums(rows, frontier, accepted)
        tree_builder.add(frontier, splits, accepted, sums)
        rows, frontier = ops.partition(rows, frontier, splits, accepted)
        depth += 1
    return tree_builder
