"""The launches of policy.cu: which nodes are searched, and what the next level is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.level import DeviceFrontier, DeviceSplits, Pieces, Search
from gpuboost.backends.cuda.source import constant

if TYPE_CHECKING:
    from gpuboost.backends.cuda.kept import KeptMemory
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.spec import Target, TreeOptions

PIECE_ROWS = 1024  # rows of a block that sums or moves them
# Trees no deeper than this, or of no more leaves, are launched without asking how many nodes there
# are, so the host never waits for the device; of deeper ones a level may have been empty for long.
UNASKED_DEPTH, UNASKED_LEAVES = 12, 64
# For each node of a level, if histograms of the next level are to be kept: three for both children.
HISTOGRAMS_OF_NODE = 6


@dataclass(frozen=True)
class Ranges:
    """Smallest and largest target of each node, int32 (m, K), for `Policy.search`."""

    low: Array
    high: Array


@dataclass(frozen=True)
class Policy:
    """Which nodes may split, and how many there can be.

    Parameters
    ----------
    runtime : Runtime
    options : TreeOptions
    min_hessian : int64 (trees,)
    n_trees, n_rows : int
        Trees of the batch, and rows of all of them.
    n_channels : int
    purity : int
        How it is known that a node is pure, as policy.cu has it.
    small_rows : int
        Nodes of so many rows are left to small.cu; 0: none are.
    kept : KeptMemory or None
        Where what the host reads of levels is made; None: where all else is.
    """

    runtime: Runtime
    options: TreeOptions
    min_hessian: Array
    n_trees: int
    n_rows: int
    n_channels: int
    purity: int
    small_rows: int = 0
    kept: KeptMemory | None = None

    @property
    def room(self) -> Any:
        """Makes the arrays that the host reads."""
        return self.runtime.xp if self.kept is None else self.kept

    def most_nodes(self, before: int, depth: int) -> int:
        """Nodes there can be below a level at ``depth`` that has at most ``before``."""
        of_trees = self.n_trees * self.options.most_splits(depth)
        return most_children(min(before, of_trees), self.n_rows, self.options, self.small_rows)

    def most_pieces(self, most_nodes: int, rows: int) -> int:
        """Pieces of so many rows that all rows can make: each node has one that is not full."""
        return self.n_rows // rows + most_nodes

    def room_for_pieces(self, size: Array, most_nodes: int) -> Pieces:
        """Room for the pieces of the rows of so many nodes."""
        return Pieces.room(self.runtime.xp, size, self.most_pieces(most_nodes, PIECE_ROWS))

    def cut_roots(self, frontier: DeviceFrontier) -> None:
        """Cut the rows of the roots into pieces."""
        pieces = frontier.pieces
        args = (frontier.size, frontier.start, frontier.count, np.int32(PIECE_ROWS))
        self._launch("cut_roots", (*args, pieces.slot, pieces.first, pieces.rows, pieces.size))

    def search(
        self, frontier: DeviceFrontier, ranges: Ranges | None, depth: int, rows_per_piece: int
    ) -> Search:
        """Which nodes are searched. ``ranges`` is given where targets are values."""
        deeper = depth < self.options.deepest
        most_work = self.most_pieces(frontier.most, rows_per_piece)
        found = Search.room(self.runtime.xp, frontier.most, most_work, none=not deeper)
        smallest = least_rows(self.options)
        low, high = (ranges.low, ranges.high) if ranges else (frontier.tree, frontier.tree)
        nodes = (frontier.tree, frontier.start, frontier.count, frontier.hessian)
        args = (
            *(frontier.size, *nodes, frontier.gradient, low, high, frontier.parent),
            *(self.min_hessian, np.int64(smallest), np.int64(self.small_rows_at(depth))),
            *(np.int32(self.n_channels), np.int32(self.purity), np.int32(deeper)),
            *(np.int32(rows_per_piece), found.slot, found.node, found.source, found.open),
            *(found.small, found.sizes, found.work.slot, found.work.first, found.work.rows),
        )
        self._launch("open_nodes", args)
        return found

    def small_rows_at(self, depth: int) -> int:
        """`small_rows`, 0 where nodes may not be split anyway."""
        return self.small_rows if depth < self.options.deepest else 0

    def place(self, frontier: DeviceFrontier, splits: DeviceSplits, left: Left) -> Places:
        """Where the rows of accepted nodes go."""
        xp, pieces = self.runtime.xp, frontier.pieces
        places = Places(
            rank=xp.empty(frontier.most, dtype=xp.int32),
            to=xp.empty(frontier.most, dtype=xp.int64),
            left_at=xp.empty(pieces.most, dtype=xp.int64),
            right_at=xp.empty(pieces.most, dtype=xp.int64),
            next_size=self.room.empty(1, dtype=np.int32),
        )
        args = (
            *(frontier.size, frontier.start, frontier.count, splits.accepted, left.of_node),
            *(pieces.size, pieces.slot, pieces.first, left.of_piece, np.int32(PIECE_ROWS)),
            *(places.rank, places.to, places.left_at, places.right_at, places.next_size),
        )
        self._launch("place_rows", args)
        return places

    def children(
        self,
        frontier: DeviceFrontier,
        splits: DeviceSplits,
        n_left: Array,
        places: Places,
        parent_slot: Array,
        most: int,
    ) -> DeviceFrontier:
        """The next level, with room for ``most`` nodes."""
        xp = self.runtime.xp
        pieces = self.room_for_pieces(xp.empty(1, dtype=xp.int32), most)
        made = DeviceFrontier.room(self.room, places.next_size, most, self.n_channels, pieces)
        args = (
            *(frontier.size, frontier.tree, frontier.key, frontier.count, frontier.hessian),
            *(frontier.gradient, splits.accepted, n_left, places.rank, places.to, parent_slot),
            *(splits.left_hessian, splits.left_gradient, np.int32(self.n_channels)),
            *(np.int32(PIECE_ROWS), made.tree, made.key, made.start, made.count, made.hessian),
            *(made.gradient, made.parent, pieces.slot, pieces.first, pieces.rows, pieces.size),
            made.size,
        )
        self._launch("make_children", args)
        return made

    def _launch(self, name: str, args: tuple[Any, ...]) -> None:
        threads = constant("policy.cu", "POLICY_THREADS")
        self.runtime.kernel("policy.cu", name, {})((1,), (threads,), args)


def most_children(parents: int, n_rows: int, options: TreeOptions, small_rows: int = 0) -> int:
    """Nodes there can be below so many of ``n_rows`` rows.

    Every node has a row, and parents have more than ``small_rows`` and enough to be split.
    """
    large = n_rows // max(small_rows + 1, least_rows(options))
    return min(2 * parents, 2 * large, n_rows)


def least_rows(options: TreeOptions) -> int:
    """Rows that a node must have to be split."""
    return max(options.min_samples_split, 2 * options.min_samples_leaf)


def is_unasked(options: TreeOptions) -> bool:
    """Whether all levels are launched without asking how many nodes they have."""
    return options.deepest <= UNASKED_DEPTH or options.max_leaf_nodes <= UNASKED_LEAVES


def purity_of(target: Target) -> int:
    """How it is known that a node is pure: a constant of policy.cu."""
    name = "RANGES"
    if target.has_gradients:
        name = "NEVER"
    elif target.classes is not None:
        name = "TWO_CLASSES" if target.n_channels == 1 else "CLASSES"
    return constant("policy.cu", name)


@dataclass(frozen=True)
class Left:
    """Rows of accepted nodes that go left: int64, of each piece and of each node."""

    of_piece: Array
    of_node: Array


@dataclass(frozen=True)
class Places:
    """Where rows go, as ``place_rows`` of policy.cu writes it."""

    rank: Array
    to: Array
    left_at: Array
    right_at: Array
    next_size: Array
