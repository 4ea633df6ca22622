"""What a round does with its trees while they grow: of boosting and of AdaBoost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gpuboost.backends.cuda.best_first import SplitQueue
    from gpuboost.backends.cuda.inputs import BatchInputs
    from gpuboost.backends.cuda.kept import KeptMemory
    from gpuboost.backends.cuda.level import DeviceFrontier, DeviceSplits
    from gpuboost.backends.cuda.rows import DeviceRows, LeafColumns
    from gpuboost.backends.cuda.stored import NodeStore
    from gpuboost.engine.frontier import Array


@dataclass(frozen=True)
class LevelLeaves:
    """A level whose leaves are known.

    Attributes
    ----------
    rows : DeviceRows
    frontier : DeviceFrontier
    accepted : uint8 (m,)
        Nodes that are split; the others are leaves.
    sums : int64 (m, P) or None
        Leaf sums, where they are not made of the classes.
    inputs : BatchInputs
    first : int32 (1,) or None
        Place of the first node in the store of the batch, if it has one.
    """

    rows: DeviceRows
    frontier: DeviceFrontier
    accepted: Array
    sums: Array | None
    inputs: BatchInputs
    first: Array | None


@dataclass(frozen=True)
class LevelSplits:
    """How the nodes of a level were split.

    Attributes
    ----------
    frontier : DeviceFrontier
    splits : DeviceSplits
    n_left : int64 (m,)
        Rows that go left.
    rank : int32 (m,)
        Numbers the nodes that were split.
    """

    frontier: DeviceFrontier
    splits: DeviceSplits
    n_left: Array
    rank: Array


class KeptLeaves(Protocol):
    """What a round keeps of its trees on the device."""

    kept: KeptMemory
    n_numbers: int  # nodes that all levels have room for

    def keep_nodes(self, level: LevelSplits) -> None:
        """Keep how the nodes of the level kept last were split."""


class RowsOfRounds(ABC):
    """Makes the rows of rounds, and follows what becomes of them while trees grow.

    Attributes
    ----------
    leaves : KeptLeaves or None
        None where the host finishes trees before anybody looks at their leaves, or the device.
    """

    leaves: KeptLeaves | None = None

    @property
    def kept(self) -> KeptMemory | None:
        """Where what the host reads of a round is made, in one piece; None: where all else is."""
        return None if self.leaves is None else self.leaves.kept

    @property
    def follows(self) -> bool:
        """Whether rows are followed by the partition, level by level, to their leaves."""
        return False

    @property
    def table(self) -> Array | None:
        """Where the table of the trees is to be made, see `NodeStore.end`; None: anywhere."""
        return None

    @property
    def n_numbers(self) -> int:
        """Nodes that are kept, by numbers, until the last level is grown; 0: none are."""
        return 0 if self.leaves is None else self.leaves.n_numbers

    @abstractmethod
    def make(self, inputs: BatchInputs) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Rows of trees one after the other, how many each has, leaf columns, largest weight."""

    def summed(self, frontier: DeviceFrontier, accepted: Array) -> Array:
        """Nodes whose rows need not be summed: uint8 (m,), most often those that are split."""
        return accepted

    def keep_level(self, level: LevelLeaves) -> None:
        """Keep the leaves of a level."""
        del level

    def keep_nodes(self, level: LevelSplits) -> None:
        """Keep how the nodes of the level kept last were split."""
        if self.leaves is not None:
            self.leaves.keep_nodes(level)

    @abstractmethod
    def add_leaves(
        self, inputs: BatchInputs, queue: SplitQueue | None, store: NodeStore | None
    ) -> None:
        """Make use of the leaves, when all levels are grown; ``queue`` of best-first growth."""
