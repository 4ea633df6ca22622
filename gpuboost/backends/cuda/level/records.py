"""What the device knows of one level. Arrays have room for as many nodes as there can be.

The host never learns how many nodes a level has while it is grown: kernels read the number from
``size``, and what lies behind the last node is undefined.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.runtime.arrays import Columns, allocate

if TYPE_CHECKING:
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
    slot: Array
    first: Array
    rows: Array

    @classmethod
    def room(cls, xp: Any, n_pieces: Array, n: int) -> Pieces:
        """Room for n pieces."""
        arrays = allocate(
            xp, {"slot": (np.int32, (n,)), "first": (np.int64, (n,)), "rows": (np.int32, (n,))}
        )
        return cls(n_pieces, **arrays)

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
    tree: Array
    key: Array
    start: Array
    count: Array
    hessian: Array
    gradient: Array
    parent: Array
    pieces: Pieces
    bounds: NodeBounds | None = None

    @property
    def capacity(self) -> int:
        """Nodes there is room for."""
        return len(self.tree)

    def nothing(self) -> DeviceFrontier:
        """The frontier of a level that has no nodes."""
        return replace(self, tree=self.tree[:0])

    @classmethod
    def room(cls, xp: Any, size: Array, n: int, n_channels: int, pieces: Pieces) -> DeviceFrontier:
        """Room for n nodes."""
        return cls(size, **allocate(xp, cls.columns(n, n_channels)), pieces=pieces)

    @staticmethod
    def columns(n: int, n_channels: int) -> Columns:
        """The arrays of n nodes."""
        return {
            "tree": (np.int32, (n,)),
            "key": (np.uint64, (n,)),
            "start": (np.int64, (n,)),
            "count": (np.int64, (n,)),
            "hessian": (np.int64, (n,)),
            "gradient": (np.int64, (n, n_channels)),
            "parent": (np.int32, (n,)),
        }


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

    slot: Array
    node_of_slot: Array
    source: Array
    open: Array
    small: Array
    sizes: Array
    work: Pieces
    none: bool

    @classmethod
    def room(cls, xp: Any, n: int, n_pieces: int, none: bool) -> Search:
        """Room for n nodes and their pieces of work."""
        columns: Columns = {
            "slot": (np.int32, (n,)),
            "node_of_slot": (np.int32, (n,)),
            "source": (np.int32, (n,)),
            "open": (np.uint8, (n,)),
            "small": (np.int32, (n,)),
            "sizes": (np.int32, (3,)),
        }
        arrays = allocate(xp, columns)
        return cls(**arrays, work=Pieces.room(xp, arrays["sizes"][1:], n_pieces), none=none)


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

    gain: Array
    feature: Array
    bin: Array
    next_bin: Array
    draw: Array
    missing: Array
    categorical: Array
    mask: Array
    left_hessian: Array
    left_gradient: Array
    accepted: Array

    @classmethod
    def room(cls, xp: Any, n: int, n_channels: int, mask_words: int) -> DeviceSplits:
        """Room for the splits of n nodes."""
        return cls(**allocate(xp, cls.columns(n, n_channels, mask_words)))

    @staticmethod
    def columns(n: int, n_channels: int, mask_words: int) -> Columns:
        """The arrays of n nodes."""
        return {
            "gain": (np.float64, (n,)),
            "feature": (np.int32, (n,)),
            "bin": (np.int16, (n,)),
            "next_bin": (np.int16, (n,)),
            "draw": (np.float64, (n,)),
            "missing": (np.int8, (n,)),
            "categorical": (np.uint8, (n,)),
            "mask": (np.uint32, (n, mask_words)),
            "left_hessian": (np.int64, (n,)),
            "left_gradient": (np.int64, (n, n_channels)),
            "accepted": (np.uint8, (n,)),
        }


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

    lower: Array
    upper: Array
    groups: Array

    @classmethod
    def room(cls, xp: Any, n: int, bounded: bool, n_words: int) -> NodeBounds:
        """Room for n nodes."""
        n_bounded = n if bounded else 0
        columns: dict[str, tuple[Any, tuple[int, ...]]] = {
            "lower": (np.float64, (n_bounded,)),
            "upper": (np.float64, (n_bounded,)),
            "groups": (np.uint32, (n, n_words)),
        }
        return cls(**allocate(xp, columns))


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

    rank: Array
    to: Array
    gone: Array
    cut: Array
    left_at: Array
    right_at: Array
    next_size: Array
    next_pieces: Array

    @classmethod
    def room(cls, xp: Any, frontier: DeviceFrontier, next_size: Array) -> Places:
        """Room for the places of a level's rows; ``next_size`` is for the host, too."""
        n, n_pieces = frontier.capacity, frontier.pieces.capacity
        return cls(
            rank=xp.empty(n, dtype=xp.int32),
            to=xp.empty(n, dtype=xp.int64),
            gone=xp.empty(n, dtype=xp.int64),
            cut=xp.empty(n, dtype=xp.int32),
            left_at=xp.empty(n_pieces, dtype=xp.int64),
            right_at=xp.empty(n_pieces, dtype=xp.int64),
            next_size=next_size,
            next_pieces=xp.empty(1, dtype=xp.int32),
        )
