"""What the device knows of one level. Arrays have room for as many nodes as there can be.

The host never learns how many nodes a level has while it is grown: kernels read the number from
``size``, and what lies behind the last node is undefined.
"""

from __future__ import annotations

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
        What a piece belongs to.
    first : int64 (pieces,)
    rows : int32 (pieces,)
    """

    n_pieces: Array
    slot: Array = column(np.int32, "n")
    first: Array = column(np.int64, "n")
    rows: Array = column(np.int32, "n")

    @property
    def capacity(self) -> int:
        """Pieces there is room for."""
        return len(self.slot)


@dataclass(frozen=True)
class DeviceFrontier:
    """The nodes of one level, as `engine.growth.frontier.Frontier`, and the pieces of their rows.

    Attributes
    ----------
    size : int32 (1,)
    tree : int32 (m,)
    key : uint64 (m,)
    start, count, hessian : int64 (m,)
    gradient : int64 (m, K)
    parent : int32 (m,)
        Slot of the parent's histogram in the level before, -1 if it is not known.
    pieces : Pieces
        By number of the node.
    bounds : NodeBounds or None
        None where nodes are held to nothing of their own.
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
    bounds: NodeBounds | None = None

    @property
    def capacity(self) -> int:
        """Nodes there is room for."""
        return len(self.tree)

    def nothing(self) -> DeviceFrontier:
        """The frontier of a level that has no nodes."""
        return replace(self, tree=self.tree[:0])


@dataclass(frozen=True)
class Search:
    """Which nodes of a level are searched, and where their histograms lie, by policy.cu.

    Attributes
    ----------
    slot, source : int32 (m,)
        Slot of the node's histogram; the parent's slot where it is found by subtraction.
    node_of_slot : int32 (m,)
    open : uint8 (m,)
        Nodes that are searched.
    small : int32 (m,)
        Nodes left to subtrees.cu.
    sizes : int32 (3,)
        Slots, pieces of work, small nodes.
    work : Pieces
        Rows that are summed, by slot.
    none : bool
        It is known that no node is open.
    """

    work: Pieces
    none: bool
    slot: Array = column(np.int32, "n")
    node_of_slot: Array = column(np.int32, "n")
    source: Array = column(np.int32, "n")
    open: Array = column(np.uint8, "n")
    small: Array = column(np.int32, "n")
    sizes: Array = column(np.int32, 3)

    @classmethod
    def empty(cls, xp: Any, n: int, n_pieces: int, none: bool) -> Search:
        """Room for n nodes and their pieces of work."""
        arrays = allocate(xp, columns_of(cls, n=n))
        work = empty(Pieces, xp, {"n_pieces": arrays["sizes"][1:]}, n=n_pieces)
        return cls(**arrays, work=work, none=none)


@dataclass(frozen=True)
class DeviceSplits:
    """What became of each node, by select_split.cu: the fields of `engine.growth.frontier.Splits`.

    Attributes
    ----------
    gain : float64 (m,)
        -1 where the node is not split.
    accepted : uint8 (m,)
        Whether it is.
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
class NodeBounds:
    """What the nodes of a level are held to.

    Attributes
    ----------
    lower, upper : float64 (m,)
        Bounds of values; (0,) where no feature is monotonic.
    groups : uint32 (m, W)
        Bits of the groups that hold all features of the path; W = 0 without groups.
    """

    lower: Array = column(np.float64, "n_bounded")
    upper: Array = column(np.float64, "n_bounded")
    groups: Array = column(np.uint32, "n", "n_words")


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
        A bit for each row of a piece.
    left, n_left : int64
        How many of each piece, and of each node.
    """

    turns: Array
    left: Array
    n_left: Array


@dataclass(frozen=True)
class Places:
    """Where rows go, as children.cu writes it."""

    next_size: Array
    rank: Array = column(np.int32, "n")
    to: Array = column(np.int64, "n")
    gone: Array = column(np.int64, "n")
    cut: Array = column(np.int32, "n")
    left_at: Array = column(np.int64, "n_pieces")
    right_at: Array = column(np.int64, "n_pieces")
    next_pieces: Array = column(np.int32, 1)
