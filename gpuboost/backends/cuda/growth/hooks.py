"""Callbacks of a round of boosting or AdaBoost while its trees grow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from gpuboost.backends.cuda.growth.best_first import SplitQueue
from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer
from gpuboost.backends.cuda.level.records import DeviceFrontier
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True)
class LevelLeaves:
    """A level whose leaves are known.

    Attributes
    ----------
    rows : DeviceRows
    frontier : DeviceFrontier
    accepted : uint8 (m,)
        Nodes that are split; the others are leaves.
    inputs : BatchInputs
    first : int32 (1,)
        Place of the level's first node in the node buffer.
    """

    rows: DeviceRows
    frontier: DeviceFrontier
    accepted: Array
    inputs: BatchInputs
    first: Array


class RowsOfRounds(ABC):
    """Makes the rows of a round's trees and uses the leaves they reach."""

    @property
    def follows(self) -> bool:
        """Whether the partition of each level tracks which leaf each row is in."""
        return False

    @property
    def table(self) -> Array | None:
        """Array to write the table of the trees to, see `NodeBuffer.end`; None for a new one."""
        return None

    @abstractmethod
    def make(self, inputs: BatchInputs) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Rows of the trees in order, number of rows of each, leaf columns, largest weight."""

    def keep_level(self, level: LevelLeaves) -> None:
        """Keep the leaves of a level."""
        del level

    @abstractmethod
    def add_leaves(self, inputs: BatchInputs, queue: SplitQueue | None, store: NodeBuffer) -> None:
        """Use the leaves once all levels are grown; ``queue`` is that of best-first growth."""
