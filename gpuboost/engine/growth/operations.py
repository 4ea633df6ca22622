"""The operations of the level loop, which NumPy and CUDA implement."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from gpuboost.engine.growth.frontier import Array

Grown_co = TypeVar("Grown_co", covariant=True)


class LevelOps(Protocol[Grown_co]):
    """The operations that grow the levels of one batch of trees, made with its rows and roots.

    ``rows`` and ``frontier`` are objects of the backend: the rows of all open nodes with their
    statistics, contiguous for each node, and the nodes. So are candidates, splits, accepted and
    sums, with one entry per node. Operations may grow some nodes to their leaves outside the level
    loop, which treats such a node as not split.
    """

    def set_median_gradients(self, rows: Any, frontier: Any) -> tuple[Any, Any]:
        """Rows and nodes with gradients about each node's median, for a target of medians."""

    def finished(self, frontier: Any) -> bool:
        """Whether the frontier is known to be empty; a device may know it one level late."""

    def candidates(self, rows: Any, frontier: Any, depth: int) -> Any:
        """Nodes that are large, shallow and impure enough to be searched for splits."""

    def find_splits(self, rows: Any, frontier: Any, candidates: Any) -> Any:
        """Best split of each candidate, none for the other nodes."""

    def accept(self, frontier: Any, splits: Any) -> Array:
        """Splits that decrease the impurity enough: one entry per node."""

    def leaf_sums(self, rows: Any, frontier: Any, candidates: Any, accepted: Array) -> Any:
        """Leaf sums of nodes that are not split, or of all nodes for medians: int64 (m, P)."""

    def partition(
        self,
        rows: Any,
        frontier: Any,
        candidates: Any,
        *,
        splits: Any,
        accepted: Array,
        sums: Any,
    ) -> tuple[Any, Any]:
        """Record the level; the rows of accepted nodes, moved stably to their children, and these.

        A device may grow some nodes to their leaves outside the level loop; the loop treats such a
        node as not split.
        """

    def limit_to_best_first(self, frontier: Any, splits: Any, accepted: Array) -> Array:
        """The accepted nodes that best-first growth also reaches, given the nodes known so far."""

    def end_batch(self) -> Grown_co:
        """The grown nodes, after the last level, when rows and levels are released."""
