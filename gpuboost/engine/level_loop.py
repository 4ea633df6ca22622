"""Growing a batch of trees level by level: the loop that NumPy and CUDA share.

    while the frontier has nodes:
        which nodes may split        policy: size, depth, purity
        find their best splits       histograms and scans, in slices that fit the memory budget
        which splits are taken       policy: min_impurity_decrease, max_leaf_nodes
        record the level
        partition the rows           children become the next frontier

The loop knows nothing of rows: they live in what `LevelOps` returns and takes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gpuboost.engine.frontier import Array, Frontier, Splits, may_split
from gpuboost.engine.history import History
from gpuboost.engine.scores import SQUARES
from gpuboost.engine.spec import NO_LIMIT
from gpuboost.engine.tree import gain_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuboost.engine.spec import GrownTree, GrowTask

_EPSILON = 2.0**-52


class LevelOps(Protocol):
    """The primitives a level is made of; each is tested for parity on its own.

    ``rows`` is the backend's own: the rows of all open nodes with their statistics, those of a
    node side by side (`Frontier.start`, ``count``).
    """

    @property
    def xp(self) -> Any:
        """The array module: NumPy or CuPy."""

    def roots(self, trees: Sequence[int]) -> tuple[Any, Frontier]:
        """Rows and root nodes of a batch of trees."""

    def is_pure(self, rows: Any, frontier: Frontier) -> Array:
        """Nodes whose target is constant: bool (m,)."""

    def find_splits(self, rows: Any, frontier: Frontier, open_nodes: Array) -> Splits:
        """Best split of every node in ``open_nodes`` (ascending indices), none for the others."""

    def leaf_sums(self, rows: Any, frontier: Frontier, leaves: Array) -> Array:
        """Leaf sums of the given nodes: int64 (len(leaves), P)."""

    def partition(
        self, rows: Any, frontier: Frontier, splits: Splits, accepted: Array
    ) -> tuple[Any, Frontier]:
        """Rows of the accepted nodes moved to their children, stably, and the children."""

    def to_host(self, array: Array) -> Any:
        """Copy to a NumPy array (the array itself where it is one)."""


def grow_levels(ops: LevelOps, task: GrowTask, trees: Sequence[int]) -> list[GrownTree]:
    """Grow ``trees`` together; the result does not depend on which trees share a batch."""
    xp, options = ops.xp, task.options
    rows, frontier = ops.roots(trees)
    root_hessian = frontier.hessian
    min_hessian = smallest_hessian(xp, options.min_weight_fraction_leaf, root_hessian)
    history = History(ops, len(trees), options.max_leaf_nodes)
    depth = 0
    while len(frontier):
        candidates = may_split(frontier, depth, options, min_hessian)
        if depth or options.max_depth:
            candidates &= ~ops.is_pure(rows, frontier)
        splits = ops.find_splits(rows, frontier, xp.flatnonzero(candidates))
        rise = splits.gain
        if options.score == SQUARES:
            rise = xp.where(splits.gain < 0, -1.0, splits.gain / frontier.hessian)
        unit = gain_unit(options.score, task.target)
        accepted = rise >= 0.0
        if options.min_impurity_decrease > 0.0:
            decrease = rise * unit / root_hessian[frontier.tree] + _EPSILON
            accepted &= decrease >= options.min_impurity_decrease
        history.add(frontier, splits, xp.where(accepted, rise, -1.0))
        if options.max_leaf_nodes != NO_LIMIT:
            accepted &= history.reached_in_last_level()
        leaves = xp.flatnonzero(~accepted)
        history.close(accepted, leaves, ops.leaf_sums(rows, frontier, leaves))
        rows, frontier = ops.partition(rows, frontier, splits, accepted)
        depth += 1
    return history.trees()


def smallest_hessian(xp: Any, fraction: float, root_hessian: Array) -> Array:
    """Smallest integer weight of a child, per tree: int64 (trees,)."""
    return xp.maximum(xp.ceil(fraction * root_hessian.astype(xp.float64)), 1.0).astype(xp.int64)
