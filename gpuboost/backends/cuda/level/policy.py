"""Choice of the nodes to search, and the next level: the launches of policy.cu and children.cu."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.backends.cuda.level.records import (
    DeviceFrontier,
    DeviceSplits,
    Left,
    Pieces,
    Places,
    Ranges,
    Search,
)
from gpuboost.backends.cuda.runtime.arrays import empty
from gpuboost.backends.cuda.runtime.grid import blocks_for, chunks_for, shares_for
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.criteria import min_rows
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import TreeOptions

PIECE_ROWS = 1024  # most rows of a piece: PIECE_WORDS words of 32 rows each, see partition.cu


@dataclass(frozen=True)
class Policy:
    """Chooses which nodes to search, bounds the number of nodes of a level, and makes the next one.

    Parameters
    ----------
    runtime : Runtime
    options : TreeOptions
    min_hessian : int64 (trees,)
        Smallest hessian of a child in each tree.
    n_trees, n_rows : int
        Number of trees of the batch, and row capacity of all these trees together.
    n_channels : int
        Number of channels of the target.
    purity : int
        Constant of policy.cu for the purity test.
    small_rows : int
        Largest number of rows of the nodes that subtrees.cu grows; 0 if it grows none.
    """

    runtime: Runtime
    options: TreeOptions
    min_hessian: Array
    n_trees: int
    n_rows: int
    n_channels: int
    purity: int
    small_rows: int = 0

    def max_nodes(self, before: int, depth: int) -> int:
        """Largest number of children of a level at ``depth`` with at most ``before`` nodes."""
        of_trees = self.n_trees * self.options.max_splits(depth)
        return max_children(min(before, of_trees), self.n_rows, self.options, self.small_rows)

    def max_slots(self, max_nodes: int, depth: int, by_parents: bool) -> int:
        """Largest number of histograms of a level, for its candidates and their siblings.

        ``by_parents`` says whether the larger of two siblings is computed by subtraction. Only then
        do siblings of candidates need histograms.
        """
        if depth >= self.options.deepest:
            return 0
        large = max_large(self.n_rows, self.options, self.small_rows)
        return min(max_nodes, 2 * large if by_parents else large)

    def max_pieces(self, max_nodes: int, rows: int) -> int:
        """Largest number of pieces of up to ``rows`` rows; all but one piece of a node are full."""
        return self.n_rows // rows + max_nodes

    def empty_pieces(self, size: Array, max_nodes: int) -> Pieces:
        """Allocate the pieces of the rows of at most ``max_nodes`` nodes."""
        n = self.max_pieces(max_nodes, PIECE_ROWS)
        return empty(Pieces, self.runtime.xp, {"n_pieces": size}, n=n)

    def cut_roots(self, frontier: DeviceFrontier) -> None:
        """Cut the rows of the roots into pieces."""
        pieces = frontier.pieces
        grid = (1, shares_for(pieces.capacity, 1))
        own = {"piece_rows": PIECE_ROWS, **_work_of(pieces)}
        launch(self.runtime, "cut_roots", grid, frontier, pieces, **own)

    def search(
        self, frontier: DeviceFrontier, ranges: Ranges | None, depth: int, rows_per_piece: int
    ) -> Search:
        """Choose the nodes to search, and cut the rows to sum into pieces of ``rows_per_piece``.

        ``ranges`` is None unless purity is tested by the ranges of targets.
        """
        deeper = depth < self.options.deepest
        max_work = self.max_pieces(frontier.capacity, rows_per_piece)
        n_nodes, n_chunks = frontier.capacity, chunks_for(frontier.capacity)
        found = Search.empty(self.runtime.xp, n_nodes, max_work, depth=depth, none=not deeper)
        given = {
            **vars(ranges or Ranges(frontier.tree, frontier.tree)),
            "smallest": min_rows(self.options),
            "small_rows": self.small_rows_at(depth),
            "deeper": deeper,
            "rows_per_piece": rows_per_piece,
            "totals": self._empty_totals(2 * n_chunks),
        }
        if n_chunks > 1:
            launch(self.runtime, "count_open", n_chunks, self, frontier, **given)
        grid, work = (n_chunks, shares_for(max_work, n_chunks)), _work_of(found.work)
        launch(self.runtime, "open_nodes", grid, self, frontier, found, **given, **work)
        return found

    def _empty_totals(self, n: int) -> Array:
        return self.runtime.xp.empty(n, dtype=np.int64)

    def small_rows_at(self, depth: int) -> int:
        """Return `small_rows`, or 0 at the largest depth, where no node is split."""
        return self.small_rows if depth < self.options.deepest else 0

    def place(self, frontier: DeviceFrontier, splits: DeviceSplits, left: Left) -> Places:
        """Compute the number of children and the new positions of the rows of accepted nodes."""
        xp, lengths = self.runtime.xp, {"n_pieces": frontier.pieces.capacity}
        own = {"next_size": xp.empty(1, dtype=np.int32)}  # separate, since the host may read it
        places = empty(Places, xp, own, n=frontier.capacity, **lengths)
        pieces = frontier.pieces
        n_chunks, n_piece_chunks = chunks_for(frontier.capacity), chunks_for(pieces.capacity)
        known, cut = (frontier, splits, left, pieces, places), {"piece_node": pieces.slot}
        if n_piece_chunks == 1:
            launch(self.runtime, "place_rows", 1, *known, **cut, piece_rows=PIECE_ROWS)
            return places
        node_totals = self._empty_totals(3 * n_chunks)
        if n_chunks > 1:
            sizes = {"piece_rows": PIECE_ROWS, "totals": node_totals}
            launch(self.runtime, "count_children", n_chunks, frontier, splits, left, **sizes)
        totals = self._empty_totals(n_piece_chunks)
        of_nodes = {"node_totals": node_totals, "n_chunks": n_chunks, "piece_rows": PIECE_ROWS}
        grid = n_chunks + n_piece_chunks
        launch(self.runtime, "place_nodes", grid, *known, **cut, **of_nodes, totals=totals)
        launch(self.runtime, "place_pieces", n_piece_chunks, *known, **cut, totals=totals)
        return places

    def children(
        self,
        frontier: DeviceFrontier,
        splits: DeviceSplits,
        n_left: Array,
        places: Places,
        parent_slot: Array,
        capacity: int,
    ) -> DeviceFrontier:
        """Make the next level, with memory for ``capacity`` nodes; constraints are not set."""
        pieces = self.empty_pieces(places.next_pieces, capacity)
        own = {"size": places.next_size, "pieces": pieces}
        lengths = {"n": capacity, "n_channels": self.n_channels}
        made = empty(DeviceFrontier, self.runtime.xp, own, **lengths)
        threads = constant("level/children.cu", "CHILD_THREADS")
        n_blocks = blocks_for(max(frontier.capacity, pieces.capacity), threads)
        own = {"n_left": n_left, "slot": parent_slot, "piece_rows": PIECE_ROWS}
        known, own = (frontier, splits, places), {**own, **_work_of(pieces)}
        launch(self.runtime, "make_children", n_blocks, self, *known, out=made, **own)
        return made


def _work_of(pieces: Pieces) -> dict[str, Array]:
    """Arrays that pieces are written to, as kernel arguments."""
    return {"work_slot": pieces.slot, "work_first": pieces.first, "work_rows": pieces.rows}


def max_children(parents: int, n_rows: int, options: TreeOptions, small_rows: int = 0) -> int:
    """Largest number of children of ``parents`` nodes that have ``n_rows`` rows together.

    Each child has at least one row. A node that is split has more than ``small_rows`` rows and at
    least `min_rows`.
    """
    return min(2 * parents, 2 * max_large(n_rows, options, small_rows), n_rows)


def max_large(n_rows: int, options: TreeOptions, small_rows: int = 0) -> int:
    """Largest number of nodes of a level that are large enough to be split in the level loop.

    They have at least `min_rows` rows, and more than ``small_rows``. All nodes of the level have
    at most ``n_rows`` rows together.
    """
    return n_rows // max(small_rows + 1, min_rows(options))
