"""Records of one level on the device, with arrays allocated at full capacity.

The host does not know how many nodes a level has. Kernels read the number from ``size``; array
entries after the last node are undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.arrays import allocate, column, columns_of, empty
from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True)
class Pieces:
    """Rows of nodes cut into pieces, one for each block of a launch.

    Attributes
    ----------
    n_pieces : int32 (1,)
    slot : int32 (pieces,)
        Node or slot that a piece belongs to.
    first : int64 (pieces,)
    rows : int32 (pieces,)
    """

    n_pieces: Array
    slot: Array = column(np.int32, "n")
    first: Array = column(np.int64, "n")
    rows: Array = column(np.int32, "n")

    @property
    def capacity(self) -> int:
        """Largest number of pieces."""
        return len(self.slot)


@dataclass(frozen=True)
class DeviceFrontier:
    """The nodes of one level (`engine.growth.frontier.Frontier`) and the pieces of their rows.

    Attributes
    ----------
    size : int32 (1,)
    tree : int32 (m,)
    key : uint64 (m,)
    start, count, hessian : int64 (m,)
    gradient : int64 (m, K)
    parent : int32 (m,)
        Slot of the parent's histogram in the level before, -1 if that was not kept.
    pieces : Pieces
        By node.
    constraints : NodeConstraints or None
        None if nodes have no constraints.
    medians : Medians or None
        None unless gradients are about the medians of nodes.
    read_size : callable or None
        Waits for the host's copy of ``size``; None if the host does not read it.
    """

    size: Array
    pieces: Pieces
    tree: Array = column(np.int32, "n")
    key: Array = column(np.uint64, "n")
    start: Array = column(np.int64, "n")
    count: Array = column(np.int64, "n")
    hessian: Array = column(np.int64, "n")
    gradient: Array = column(np.int64, "n", "n_channels")
    parent: Array = column(np.int32, "n")
    constraints: NodeConstraints | None = None
    medians: Medians | None = None
    read_size: Callable[[], np.ndarray] | None = None

    @property
    def capacity(self) -> int:
        """Number of nodes that the arrays have memory for."""
        return len(self.tree)

    def nothing(self) -> DeviceFrontier:
        """The frontier of a level that has no nodes."""
        return replace(self, tree=self.tree[:0])


@dataclass(frozen=True)
class Search:
    """Candidate nodes of a level and the slots of their histograms; written by policy.cu.

    Attributes
    ----------
    slot, source : int32 (m,)
        Slot of the node's histogram; slot of the parent's histogram to subtract from.
    node_of_slot : int32 (m,)
    open : uint8 (m,)
        Whether the node is searched.
    small : int32 (m,)
        Nodes left to subtrees.cu.
    sizes : int32 (3,)
        Numbers of slots, pieces of work and small nodes.
    work : Pieces
        Pieces of the rows to sum, by slot.
    depth : int
        Depth of the level.
    none : bool
        Whether the host knows that no node is open.
    """

    work: Pieces
    depth: int
    none: bool
    slot: Array = column(np.int32, "n")
    node_of_slot: Array = column(np.int32, "n")
    source: Array = column(np.int32, "n")
    open: Array = column(np.uint8, "n")
    small: Array = column(np.int32, "n")
    sizes: Array = column(np.int32, 3)

    @classmethod
    def empty(cls, xp: Any, n: int, n_pieces: int, *, depth: int, none: bool) -> Search:
        """Allocate arrays for n nodes and their pieces of work."""
        arrays = allocate(xp, columns_of(cls, n=n))
        work = empty(Pieces, xp, {"n_pieces": arrays["sizes"][1:]}, n=n_pieces)
        return cls(**arrays, work=work, depth=depth, none=none)


@dataclass(frozen=True)
class DeviceSplits:
    """Split of each node, as `engine.growth.frontier.Splits`; written by select_split.cu.

    Attributes
    ----------
    gain : float64 (m,)
        -1 if the node is not split.
    accepted : uint8 (m,)
        Whether the node is split.
    """

    gain: Array = column(np.float64, "n")
    feature: Array = column(np.int32, "n")
    bin: Array = column(np.int16, "n")
    next_bin: Array = column(np.int16, "n")
    draw: Array = column(np.float64, "n")
    missing: Array = column(np.int8, "n")
    categorical: Array = column(np.uint8, "n")
    mask: Array = column(np.uint32, "n", "mask_words")
    left_hessian: Array = column(np.int64, "n")
    left_gradient: Array = column(np.int64, "n", "n_channels")
    accepted: Array = column(np.uint8, "n")


@dataclass(frozen=True)
class NodeConstraints:
    """Constraints of the nodes of a level.

    Attributes
    ----------
    lower, upper : float64 (m,)
        Bounds of values; (0,) if no feature is monotonic.
    groups : uint32 (m, W)
        Bit set of the groups that contain all features of the path; W = 0 without groups.
    """

    lower: Array = column(np.float64, "n_bounded")
    upper: Array = column(np.float64, "n_bounded")
    groups: Array = column(np.uint32, "n", "n_words")


@dataclass(frozen=True)
class Medians:
    """Ranks of the two middle targets of each node and output: int32 (m, K)."""

    lower: Array
    upper: Array


@dataclass(frozen=True)
class Ranges:
    """Smallest and largest target of each node, int32 (m, K), for `Policy.search`."""

    low: Array
    high: Array


@dataclass(frozen=True)
class Left:
    """Rows of accepted nodes that go left.

    Attributes
    ----------
    turns : uint32 (pieces, words)
        A bit for each row of a piece, set if it goes left.
    left, n_left : int64
        Number of rows that go left, of each piece and of each node.
    """

    turns: Array
    left: Array
    n_left: Array


@dataclass(frozen=True)
class Places:
    """Where the rows of accepted nodes move to; written by children.cu."""

    next_size: Array
    rank: Array = column(np.int32, "n")
    to: Array = column(np.int64, "n")
    gone: Array = column(np.int64, "n")
    cut: Array = column(np.int32, "n")
    left_at: Array = column(np.int64, "n_pieces")
    right_at: Array = column(np.int64, "n_pieces")
    next_pieces: Array = column(np.int32, 1)
