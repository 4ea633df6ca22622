"""The operations of the level loop, which NumPy and CUDA implement."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from gpuboost.engine.growth.frontier import Array

Grown_co = TypeVar("Grown_co", covariant=True)


class LevelOps(Protocol[Grown_co]):
    """The operations that grow the levels of one batch of trees.

    All arguments but ``depth`` are objects of the backend: ``rows`` has the rows of all open nodes
    with their gradients and weights, contiguous for each node; ``frontier`` has the open nodes;
    ``candidates`` says which of them are searched, and for which features; ``splits``, ``accepted``
    and ``sums`` have one entry per node. An operation can grow some nodes to their leaves outside
    the level loop, which treats such a node as not split.
    """

    def set_median_gradients(self, rows: Any, frontier: Any) -> tuple[Any, Any]:
        """Set gradients to signs about the medians of nodes; called only if leaves are medians."""

    def finished(self, frontier: Any) -> bool:
        """Whether the frontier is known to be empty.

        With a device, the host may know this a level late or, if growth is sync free, only after
        the largest depth.
        """

    def candidates(self, rows: Any, frontier: Any, depth: int) -> Any:
        """Nodes that are large, shallow and impure enough to be searched for splits."""

    def find_splits(self, rows: Any, frontier: Any, candidates: Any) -> Any:
        """The best split of each candidate; the other nodes have no split."""

    def accept(self, frontier: Any, splits: Any) -> Array:
        """Whether each node has a split that decreases the impurity enough."""

    def leaf_sums(self, rows: Any, frontier: Any, candidates: Any, accepted: Array) -> Any:
        """Leaf sums of nodes that are not split (of all nodes for medians), as in `GrownTree`."""

    def partition(
        self, rows: Any, frontier: Any, candidates: Any, *, splits: Any, accepted: Array, sums: Any
    ) -> tuple[Any, Any]:
        """Record the level; return the rows of the children of accepted nodes, and the children.

        Rows keep their order within each child.
        """

    def limit_to_best_first(self, frontier: Any, splits: Any, accepted: Array) -> Array:
        """The accepted nodes that best-first growth also reaches, given the nodes known so far."""

    def end_batch(self) -> Grown_co:
        """The grown nodes; called after the last level, when rows and frontier are released."""
