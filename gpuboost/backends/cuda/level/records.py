"""Records of one level on the device, with arrays allocated at full capacity.

The host does not know how many nodes a level has, unless it reads the number back. Kernels read it
from ``size``; array entries after the last node are undefined. In shapes, m is the capacity in
nodes, K the number of channels or outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.arrays import allocate, column, columns_of, empty
from gpuboost.backends.cuda.runtime.grid import striding_blocks
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True)
class Pieces:
    """The rows of nodes, cut into pieces; a block of a launch processes one piece at a time.

    Attributes
    ----------
    n_pieces : int32 (1,)
        Number of pieces.
    slot : int32 (pieces,)
        Node or histogram slot that each piece belongs to.
    first : int64 (pieces,)
        Position of each piece's first row.
    rows : int32 (pieces,)
        Number of rows of each piece.
    """

    n_pieces: Array
    slot: Array = column(np.int32, "n")
    first: Array = column(np.int64, "n")
    rows: Array = column(np.int32, "n")

    @property
    def capacity(self) -> int:
        """Largest number of pieces."""
        return len(self.slot)

    def launch(self, runtime: Runtime, name: str, *records: Any, **values: Any) -> None:
        """Launch a kernel whose blocks loop over the pieces."""
        launch(runtime, name, striding_blocks(runtime, self.capacity), self, *records, **values)


@dataclass(frozen=True)
class DeviceFrontier:
    """The nodes of one level (`engine.growth.frontier.Frontier`) and the pieces of their rows.

    Attributes
    ----------
    size : int32 (1,)
        Number of nodes.
    tree : int32 (m,)
        Position of each node's tree in the batch.
    key : uint64 (m,)
        Hash of the root's key and of the left and right turns from the root to each node.
    start, count : int64 (m,)
        Position of each node's first row, and number of its rows.
    hessian : int64 (m,)
        Sum of the rows' hessians.
    gradient : int64 (m, K)
        Sums of the rows' gradients.
    parent : int32 (m,)
        Slot of the parent's histogram in the level before; -1 in roots and if that histogram was
        not kept. Not used at the largest depth.
    pieces : Pieces
        Pieces of the rows; their slots are nodes.
    constraints : NodeConstraints or None
        None if nodes have no constraints.
    medians : Medians or None
        None unless gradients are signs of deviations from the medians of nodes.
    read_size : callable or None
        Function that waits for the host's copy of ``size`` and returns it; None if the host does
        not read it.
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
        """Largest number of nodes."""
        return len(self.tree)

    def nothing(self) -> DeviceFrontier:
        """Return the frontier of a level without nodes."""
        return replace(self, tree=self.tree[:0])


@dataclass(frozen=True)
class Search:
    """Candidate nodes of a level, and the slots of histograms; written by policy.cu.

    Attributes
    ----------
    slot : int32 (m,)
        Slot of each node's histogram, -1 for none. Nodes that are not searched have one if their
        larger sibling is computed by subtraction.
    source : int32 (m,)
        Slot of the parent's histogram in the level before, from which the sibling's is subtracted;
        -1 if the node's histogram is summed from rows, or if it has none.
    node_of_slot : int32 (m,)
        Node of each slot.
    open : uint8 (m,)
        Whether each node is searched.
    small : int32 (m,)
        Nodes that subtrees.cu grows.
    sizes : int32 (3,)
        Numbers of slots, of pieces in ``work`` and of small nodes.
    work : Pieces
        Pieces of the rows to sum; their slots are histogram slots.
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
        """Allocate arrays for n nodes, with ``n_pieces`` pieces in ``work``."""
        arrays = allocate(xp, columns_of(cls, n=n))
        work = empty(Pieces, xp, {"n_pieces": arrays["sizes"][1:]}, n=n_pieces)
        return cls(**arrays, work=work, depth=depth, none=none)


@dataclass(frozen=True)
class DeviceSplits:
    """Split of each node, as in `engine.growth.frontier.Splits`; written by select_split.cu.

    Attributes that `Splits` also has are described there.

    Attributes
    ----------
    gain : float64 (m,)
        Gain of the split; -1 if select_split.cu accepts no split.
    accepted : uint8 (m,)
        Whether the level loop splits the node; best_first.cu clears it for splits that the queue
        does not take.
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
        Bounds on leaf values; of shape (0,) if no feature is monotonic.
    groups : uint32 (m, words)
        Bit set of the feature groups that contain all features of the node's path; of shape (m, 0)
        if there are no groups.
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
    """Smallest and largest target of each node and channel, int32 (m, K), for `Policy.search`.

    Rows of weight zero do not count.
    """

    low: Array
    high: Array


@dataclass(frozen=True)
class Left:
    """Rows of accepted nodes that go left; undefined for other nodes, whose ``n_left`` is 0.

    Attributes
    ----------
    turns : uint32 (pieces, words)
        One bit per row of a piece, set if the row goes left.
    left : int64 (pieces,)
        Number of rows of each piece that go left.
    n_left : int64 (m,)
        Number of rows of each node that go left.
    """

    turns: Array
    left: Array
    n_left: Array


@dataclass(frozen=True)
class Places:
    """New positions of the rows of accepted nodes; written by children.cu.

    ``rank``, ``to``, ``gone``, ``left_at`` and ``right_at`` are undefined for other nodes and their
    pieces.

    Attributes
    ----------
    next_size, next_pieces : int32 (1,)
        Number of children, and number of pieces of their rows.
    rank : int32 (m,)
        Number of accepted nodes before each accepted node.
    to : int64 (m,)
        New position of the first row of the left child.
    gone : int64 (m,)
        Number of rows that go left in all accepted nodes before this one.
    cut : int32 (m,)
        Number of pieces of the children of all nodes before this one.
    left_at, right_at : int64 (pieces,)
        New position of each piece's first row that goes left, or right.
    """

    next_size: Array
    rank: Array = column(np.int32, "n")
    to: Array = column(np.int64, "n")
    gone: Array = column(np.int64, "n")
    cut: Array = column(np.int32, "n")
    left_at: Array = column(np.int64, "n_pieces")
    right_at: Array = column(np.int64, "n_pieces")
    next_pieces: Array = column(np.int32, 1)
