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
    """Tracks the leaves that rows reach, and holds what the host reads of a round.

    Attributes
    ----------
    follows : bool
        Whether the partition of each level tracks which leaf each row is in.
    """

    follows: bool

    @property
    def table(self) -> Array:
        """Array to write the table of the trees to, see `NodeBuffer.number`."""

    def keep_level(
        self, rows: DeviceRows, frontier: DeviceFrontier, accepted: Array, first: Array
    ) -> None:
        """Keep the leaves of a level.

        Parameters
        ----------
        accepted : uint8 (m,)
            Nodes that are split; the others are leaves.
        first : int32 (1,)
            Place of the level's first node in the node buffer.
        """


class RowsOfRounds(ABC):
    """Makes the rows of a round's trees and uses the leaves they reach.

    Attributes
    ----------
    leaves : LeavesOfRound or None
        None if no leaves are tracked while trees grow.
    """

    leaves: LeavesOfRound | None = None

    @abstractmethod
    def make(self, inputs: BatchInputs) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Rows of the trees in order, number of rows of each, leaf columns, largest weight."""

    @abstractmethod
    def add_leaves(
        self, inputs: BatchInputs, queue: SplitQueue | None, grown: NumberedNodes
    ) -> None:
        """Use the leaves once all levels are grown; ``queue`` is that of best-first growth."""
