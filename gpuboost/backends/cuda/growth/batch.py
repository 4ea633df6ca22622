"""State that all levels of one batch of trees share."""

from __future__ import annotations

from dataclasses import dataclass

from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer
from gpuboost.backends.cuda.growth.subtrees import SmallTrees
from gpuboost.backends.cuda.level.policy import Policy
from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits, Places, Search
from gpuboost.backends.cuda.level.slices import Slices
from gpuboost.backends.cuda.level.split_search import HistogramBuilder, SplitSearch
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True)
class Batch:
    """One batch of trees. ``small`` is None if no nodes leave the level loop."""

    n_trees: int
    policy: Policy
    builder: HistogramBuilder
    slices: Slices
    search: SplitSearch
    leaf: LeafColumns | None
    store: NodeBuffer
    small: SmallTrees | None

    def grow_small(
        self, rows: DeviceRows, frontier: DeviceFrontier, candidates: Search, depth: int
    ) -> None:
        """Grow small nodes to their leaves with subtrees.cu.

        This overwrites their rows, so all histograms of the level must be summed before.
        """
        if self.small is not None and self.policy.small_rows_at(depth):
            self.small.grow(rows, frontier, candidates, depth)

    def store_level(
        self,
        frontier: DeviceFrontier,
        splits: DeviceSplits,
        places: Places | None,
        sums: Array | None,
        depth: int,
    ) -> None:
        """Store the nodes of a level; see `NodeBuffer.keep`."""
        self.store.keep(frontier, splits, places, sums, self.policy.small_rows_at(depth))
