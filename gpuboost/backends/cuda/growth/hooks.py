"""Callbacks of a round of boosting or AdaBoost while its trees grow."""

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
        """Keep the leaves of a level.

        Parameters
        ----------
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
        None if no leaves are tracked while trees grow.
    """

    leaves: LeavesOfRound | None = None

    @abstractmethod
    def make(self, inputs: BatchInputs) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Make the rows of the trees of a round; the results are as in `DeviceDrawing.rows`."""

    @abstractmethod
    def add_leaves(
        self, inputs: BatchInputs, queue: SplitQueue | None, grown: NumberedNodes
    ) -> None:
        """Use the leaves after the last level; ``queue`` is None unless growth is best first."""
