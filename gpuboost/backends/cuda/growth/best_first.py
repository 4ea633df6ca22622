"""Best-first growth on the device: the launches of best_first.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer, Store
from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits
from gpuboost.backends.cuda.runtime.arrays import Columns, allocate
from gpuboost.backends.cuda.runtime.launch import full, launch, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import NO_LIMIT, GrowTask, TreeOptions


class SplitQueue:
    """Priority queues of the trees of a batch, which choose splits under ``max_leaf_nodes``.

    Parameters
    ----------
    runtime : Runtime
    options : TreeOptions
    n_trees, max_rows : int
        Number of trees of the batch, and largest number of rows of a tree.
    n_places : int
        Capacity of the node buffer.
    """

    def __init__(
        self, runtime: Runtime, options: TreeOptions, n_trees: int, max_rows: int, n_places: int
    ) -> None:
        self._runtime, self._n_trees, self._n_places = runtime, n_trees, n_places
        max_leaves = min(options.max_leaf_nodes, max_rows // max(1, options.min_samples_leaf))
        self._capacity = max(1, max_leaves - 1)
        shape = (n_trees, self._capacity)
        types = {"gain": np.float64, "key": np.uint64, "node": np.int32}
        order: Columns = {name: (dtype, shape) for name, dtype in types.items()}
        self._before, self._after = (allocate(runtime.xp, order) for _ in range(2))
        self._turn = runtime.xp.empty(shape, dtype=np.int32)
        n_groups = self._capacity // constant("growth/best_first.cu", "GROUP") + 1
        self._worst = runtime.xp.empty((n_trees, n_groups), dtype=np.int32)
        self._length = zeros(runtime, n_trees, np.int32)
        none = constant("growth/best_first.cu", "NO_NODE")
        self._parent = full(runtime, n_places, none, np.int32)

    @classmethod
    def of(
        cls, runtime: Runtime, task: GrowTask, store: NodeBuffer, n_trees: int, n_rows: int
    ) -> SplitQueue | None:
        """Make the queues of a batch; None if its trees do not grow best first.

        Parameters
        ----------
        store : NodeBuffer
            Node buffer of the batch.
        n_trees, n_rows : int
            Number of trees of the batch, and largest number of rows of all these trees together.
        """
        if task.options.max_leaf_nodes == NO_LIMIT:
            return None
        max_rows = min(n_rows, task.matrix.n_samples)
        return cls(runtime, task.options, n_trees, max_rows, store.capacity)

    def limit_to_best_first(
        self, frontier: DeviceFrontier, splits: DeviceSplits, first: Array
    ) -> Array:
        """Restrict ``splits.accepted`` to the splits that the queues take, and return it.

        A queue chooses among all nodes of its tree so far; it can undo splits of earlier levels.
        ``first`` is the place of the level's first node in the node buffer, int32 (1,).
        """
        xp, n = self._runtime.xp, frontier.capacity
        names = ("slot", "place", "sorted", "other")
        scratch = {name: xp.empty(n, dtype=np.int32) for name in names}
        scratch |= {"turn": self._turn, "worst": self._worst}
        queues = {f"{name}_before": array for name, array in self._before.items()}
        queues |= {f"{name}_after": array for name, array in self._after.items()}
        own = {"first": first, "capacity": self._capacity, "length": self._length}
        own |= {"parent": self._parent, **queues, **scratch}
        launch(self._runtime, "take_splits", self._n_trees, frontier, splits, **own)
        self._before, self._after = self._after, self._before
        return splits.accepted

    def cut(self, nodes: Store, adds: bool) -> Array:
        """Make leaves of the nodes whose splits were undone, after the last level.

        Parameters
        ----------
        nodes : Store
            All nodes of the batch.
        adds : bool
            Whether only leaves have sums so far, and inner nodes have zeros: then a new leaf gets
            the total of the leaves below it. Otherwise all nodes have sums.

        Returns
        -------
        leaf : int32 (places,)
            Each node's own place; if it was cut off, the place of the leaf above it. Undefined
            for places without a node.
        """
        leaf = self._runtime.xp.empty(self._n_places, dtype=np.int32)
        own = {"leaf": leaf, "n_sums": nodes.sums.shape[1] if adds else 0}
        self._over_places("cut_nodes", nodes, is_split=self._is_split(), **own)
        return leaf

    def hand_numbers(self, leaf: Array, number_of: Array) -> None:
        """Give each cut-off node the number of the leaf above it."""
        self._over_places("hand_numbers", leaf=leaf, number_of=number_of)

    def _is_split(self) -> Array:
        """Mask of nodes that stay split: uint8 (places,)."""
        is_split = zeros(self._runtime, self._n_places, np.uint8)
        own = {"length": self._length, "node": self._before["node"], "capacity": self._capacity}
        launch(self._runtime, "mark_splits", self._n_trees, **own, is_split=is_split)
        return is_split

    def _over_places(self, name: str, *records: Any, **values: Any) -> None:
        own = {"n_places": self._n_places, "parent": self._parent, **values}
        n_blocks = -(-self._n_places // constant("growth/best_first.cu", "QUEUE_THREADS"))
        launch(self._runtime, name, n_blocks, *records, **own)
