"""Callbacks of a round of boosting or AdaBoost before, while and after its trees grow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from gpuboost.backends.cuda.growth.best_first import SplitQueue
from gpuboost.backends.cuda.growth.node_buffer import NumberedNodes
from gpuboost.backends.cuda.level.records import DeviceFrontier
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.engine.growth.frontier import Array


class LeavesOfRound(Protocol):
    """Tracks the leaves that rows reach, and holds the arrays of a round that the host reads.

    Attributes
    ----------
    follows : bool
        Whether the partition of each level tracks the leaf of each row.
    """

    follows: bool

    @property
    def table(self) -> Array:
        """Array for the table of the trees; see `NodeBuffer.number`."""

    def keep_level(
        self, rows: DeviceRows, frontier: DeviceFrontier, accepted: Array, first: Array
    ) -> None:
        """Keep the leaf of each row that reaches one in this level; called for every level.

        Parameters
        ----------
        rows : DeviceRows
            Rows of the level, before they are partitioned.
        frontier : DeviceFrontier
            Nodes of the level.
        accepted : uint8 (nodes,)
            Nodes that are split; the others are leaves.
        first : int32 (1,)
            Place of the level's first node in the node buffer.
        """


class RowsOfRounds(ABC):
    """Makes the rows of a round's trees, and uses the leaves that the rows reach.

    Attributes
    ----------
    leaves : LeavesOfRound or None
        None if the round has no use for leaves while its trees grow: in AdaBoost, and if the host
        finishes the trees.
    """

    leaves: LeavesOfRound | None = None

    @abstractmethod
    def make(self, inputs: BatchInputs) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Make the rows of a batch of a round's trees; results are as in `DeviceDrawing.rows`."""

    @abstractmethod
    def add_leaves(
        self, inputs: BatchInputs, queue: SplitQueue | None, grown: NumberedNodes
    ) -> None:
        """Finish and use the trees after the last level, unless the host finishes them.

        Boosting adds leaf values to raw predictions; AdaBoost evaluates the tree. ``queue`` is None
        unless growth is best first.
        """
