"""What a round does with its trees while they grow: of boosting and of AdaBoost."""

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
        Place of the first node in the store of the batch.
    """

    rows: DeviceRows
    frontier: DeviceFrontier
    accepted: Array
    inputs: BatchInputs
    first: Array


class RowsOfRounds(ABC):
    """Makes the rows of rounds, and follows what becomes of them while trees grow."""

    @property
    def follows(self) -> bool:
        """Whether rows are followed by the partition, level by level, to their leaves."""
        return False

    @property
    def table(self) -> Array | None:
        """Where the table of the trees is to be made, see `NodeBuffer.end`; None: anywhere."""
        return None

    @abstractmethod
    def make(self, inputs: BatchInputs) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Rows of trees one after the other, how many each has, leaf columns, largest weight."""

    def keep_level(self, level: LevelLeaves) -> None:
        """Keep the leaves of a level."""
        del level

    @abstractmethod
    def add_leaves(self, inputs: BatchInputs, queue: SplitQueue | None, store: NodeBuffer) -> None:
        """Make use of the leaves, when all levels are grown; ``queue`` of best-first growth."""
