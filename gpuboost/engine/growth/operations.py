"""The operations that a level is made of: what the level loop asks of NumPy and of a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import GrownTree


class LevelOps(Protocol):
    """The primitives that the levels of one batch of trees are made of.

    ``rows`` and ``frontier`` are the backend's own: the rows of all open nodes with their
    statistics, those of a node side by side, and the nodes. So are candidates, splits, accepted
    and sums, one entry for each node.
    """

    def roots(self) -> tuple[Any, Any]:
        """Rows and root nodes of the batch of trees."""

    def set_median_gradients(self, rows: Any, frontier: Any) -> tuple[Any, Any]:
        """Rows and nodes of a target of medians, with the gradients about each node's median."""

    def finished(self, frontier: Any, depth: int) -> bool:
        """Whether the frontier is known to have no nodes. A device may learn it a level late."""

    def candidates(self, rows: Any, frontier: Any, depth: int) -> Any:
        """Which nodes are large, shallow and impure enough to be searched."""

    def find_splits(self, rows: Any, frontier: Any, candidates: Any) -> Any:
        """Best split of every candidate, none for the others."""

    def accept(self, frontier: Any, splits: Any) -> Array:
        """Which splits decrease impurity enough: one entry for each node."""

    def leaf_sums(self, rows: Any, frontier: Any, accepted: Array) -> Array:
        """Leaf sums of the nodes that are not split, for medians of all nodes: int64 (m, P)."""

    def partition(self, rows: Any, frontier: Any, splits: Any, accepted: Array) -> tuple[Any, Any]:
        """Rows of the accepted nodes moved to their children, stably, and the children."""

    def limit_to_best_first(self, frontier: Any, splits: Any, accepted: Array) -> Array:
        """The accepted nodes that best-first growth has reached too, as far as nodes are known."""


class OpenOps(LevelOps, Protocol):
    """`LevelOps` whose levels are kept by a `History`."""

    def to_host(self, level: Level) -> dict[str, np.ndarray]:
        """Copy what `History` keeps of a level to NumPy arrays, those of `history.COLUMNS`."""


class TreeBuilder(Protocol):
    """Keeps what a batch of trees is made of, in place of `History`."""

    def add(self, frontier: Any, splits: Any, accepted: Array, sums: Any) -> None:
        """A level is known."""

    def trees(self, n_threads: int) -> list[GrownTree]:
        """The trees of the batch, nodes breadth-first."""


@runtime_checkable
class DeviceResidentOps(Protocol):
    """Operations that keep the nodes of levels themselves.

    They may grow some nodes to their leaves outside the level loop, to which such a node is one
    that is not split.
    """

    def tree_builder(self) -> TreeBuilder:
        """What keeps the nodes; asked for when the roots are made."""

    def end_batch(self) -> None:
        """Do what is left to do when all levels are grown."""


@dataclass(frozen=True)
class Level:
    """One level as the backend knows it; ``sums`` is None while they are not made."""

    frontier: Any
    splits: Any
    accepted: Any
    sums: Any
