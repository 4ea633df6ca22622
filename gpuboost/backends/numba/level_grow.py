"""All trees of a round level by level, by all threads.

    until no node is left:
        histograms of the smaller siblings     chunks of rows and tiles of features
        best splits                            families and tiles
        which are taken                        one thread
        which rows go left                     chunks of rows
        places and children                    one thread
        rows to their children                 chunks of rows
    sums of leaves                             chunks of rows

What a pass leaves to a later one lies in the arrays of `level_layout`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuboost.backends.numba import level_policy as policy
from gpuboost.backends.numba.layout import NODE, SPLIT
from gpuboost.backends.numba.level_alone import grow_alone
from gpuboost.backends.numba.level_histograms import BINS, TILE, histograms
from gpuboost.backends.numba.level_layout import CHUNK, FAMILY, Grove, Work
from gpuboost.backends.numba.level_partition import decide, leaf_sums, move
from gpuboost.backends.numba.level_search import search
from gpuboost.engine.spec import GrownTree

if TYPE_CHECKING:
    from gpuboost.backends.numba.crew import Crew
    from gpuboost.backends.numba.layout import Problem
    from gpuboost.backends.numba.level_layout import Samples
    from gpuboost.backends.numba.level_partition import Leaves

LEAST_ROWS = 1 << 14  # of a chunk: its histogram is zeroed and added up once more
CHUNKS_PER_THREAD = 4  # of all rows of a level, so that threads end together
# A pass of less work is done sooner by one thread than shared (measured).
SHARED_CELLS = 1 << 20  # rows times features of histograms
SHARED_ROWS = 1 << 16  # of a partition
SHARED_SCANS = 1 << 7  # families times features of a search


@dataclass(frozen=True)
class Shape:
    """Sizes that the space of a grower follows from.

    Attributes
    ----------
    n_samples, n_features, n_trees, depth : int
    fields : int
        Of a histogram: gradient, hessian, and the number of rows where it is asked for.
    n_threads : int
    categorical : bool
    """

    n_samples: int
    n_features: int
    n_trees: int
    depth: int
    fields: int
    n_threads: int
    categorical: bool

    @property
    def room(self) -> int:
        """Nodes of a tree."""
        return min(2 ** (self.depth + 1) - 1, 2 * self.n_samples)

    @property
    def widest(self) -> int:
        """Nodes of all trees in a level that is searched."""
        return self.n_trees * min(2 ** max(self.depth - 1, 0), self.n_samples)

    @property
    def rows_per_chunk(self) -> int:
        """Rows that a thread takes at a time."""
        share = -(-self.n_trees * self.n_samples // (CHUNKS_PER_THREAD * self.n_threads))
        return self.n_samples if self.n_threads == 1 else max(LEAST_ROWS, share)

    @property
    def n_parts(self) -> int:
        """Histograms of chunks, of nodes that have several."""
        if self.n_threads == 1:
            return 0
        return 2 * -(-self.n_trees * self.n_samples // self.rows_per_chunk)

    @property
    def histogram_bytes(self) -> int:
        """Memory of the histograms of two levels, and of chunks."""
        cells = self.fields * self.n_features * BINS * 8
        return (2 * 2 * self.widest + self.n_parts) * cells


class Space:
    """Arrays of a grower, kept from round to round."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        n, t, f = shape.n_samples, shape.n_trees, shape.n_features
        nodes, slots, cells = t * shape.room, 2 * shape.widest, f * BINS
        tiles = -(-f // TILE)
        self.grove = Grove(
            nodes=np.zeros(nodes, NODE),
            n_nodes=np.zeros(t, np.int64),
            slot=np.zeros(nodes, np.int32),
            masks=np.zeros((nodes if shape.categorical else 0, 16), np.uint32),
            open=np.zeros(max(slots, t) + 2, np.int64),
            row=np.empty((2, t * n), np.uint32),
            goes_left=np.empty(t * n, np.uint8),
            allowed=np.ones((t, f), np.bool_),
            least_category=np.zeros(t, np.int64),
        )
        self.n_chunks = nodes + shape.n_parts + 1
        self.work = Work(
            families=np.zeros(max(slots, 1), FAMILY),
            chunks=np.zeros(self.n_chunks, CHUNK),
            cells=np.empty((2, slots, shape.fields, cells), np.int64),
            parts=np.empty((shape.n_parts, shape.fields, cells), np.int64),
            found=np.zeros((slots, tiles), SPLIT),
            found_mask=np.zeros((slots if shape.categorical else 0, tiles, 16), np.uint32),
        )


class LevelGrower:
    """Grows the trees of a round on a crew of threads."""

    def __init__(self, crew: Crew, space: Space, problems: list[Problem]) -> None:
        self.crew, self.space, self.problems = crew, space, problems
        self.rooms = np.array([space.shape.room, space.shape.rows_per_chunk, 0], np.int64)

    def grow(
        self, samples: Samples, roots: np.ndarray, keys: np.ndarray, leaves: Leaves
    ) -> list[GrownTree]:
        """Trees with the given roots: int64 (T, 4) first position, rows, gradient, hessian."""
        grove, work, rooms = self.space.grove, self.space.work, self.rooms
        problem, n_rows, depth = self.problems[0], int(roots[:, 1].sum()), 0
        if self.crew.n_threads == 1 or n_rows * samples.n_features <= SHARED_CELLS:
            rooms[1] = max(n_rows, 1)
            given = problem, samples, grove, work, leaves, roots, keys, rooms
            return self._trees(leaves, grow_alone(*given))
        n_open, n_families, n_chunks = policy.start(problem, grove, work, roots, keys, rooms)
        while n_families > 0:
            self._search(samples, n_families, n_chunks, depth, n_rows)
            n_chunks = policy.choose(problem, grove, work, n_open, rooms)
            if n_chunks == 0:
                break
            self._partition(samples, n_chunks, depth, n_rows)
            n_families, n_chunks = policy.prepare(problem, grove, work, self._n_open, rooms)
            n_open = self._n_open
            depth += 1
        return self._finish(samples, leaves, n_rows)

    def _search(
        self, samples: Samples, n_families: int, n_chunks: int, depth: int, n_rows: int
    ) -> None:
        """Histograms and best splits of a level."""
        grove, work, problems = self.space.grove, self.space.work, self.problems
        tiles = work.found.shape[1]
        self.crew.share(
            lambda _, next: histograms(samples, grove, work, n_chunks * tiles, depth, next),
            n_rows * samples.n_features > SHARED_CELLS,
        )
        n_tasks = n_families * tiles
        self.crew.share(
            lambda i, next: search(problems[i], samples, grove, work, n_tasks, depth, next),
            n_tasks > 1 and n_families * samples.n_features > SHARED_SCANS,
        )

    def _partition(self, samples: Samples, n_chunks: int, depth: int, n_rows: int) -> None:
        """Rows of a level to the children."""
        grove, work, problem = self.space.grove, self.space.work, self.problems[0]
        missing, together = problem.matrix.missing_code, n_rows > SHARED_ROWS
        self.crew.share(
            lambda _, next: decide(samples, grove, work, missing, n_chunks, depth, next),
            together,
        )
        self._n_open = policy.descend(problem, grove, work, n_chunks, self.rooms)
        self.crew.share(lambda _, next: move(grove, work, n_chunks, depth, next), together)

    def _finish(self, samples: Samples, leaves: Leaves, n_rows: int) -> list[GrownTree]:
        """Sums of leaves, and the trees."""
        grove, work, problem = self.space.grove, self.space.work, self.problems[0]
        n_chunks = policy.ends(problem, grove, work, self.rooms)
        places = (problem.matrix.missing_code, int(self.rooms[0]))
        self.crew.share(
            lambda _, next: leaf_sums(samples, grove, work, leaves, places, n_chunks, next),
            n_rows > SHARED_ROWS,
        )
        return self._trees(leaves, n_chunks)

    def _trees(self, leaves: Leaves, n_chunks: int) -> list[GrownTree]:
        """Trees of the nodes, and of the sums of so many chunks."""
        grove, work, trees = self.space.grove, self.space.work, []
        for tree in range(grove.n_nodes.size):
            columns, sums = policy.collect(grove, work, leaves, tree, self.rooms[0], n_chunks)
            trees.append(GrownTree(*(*columns, sums)))
        return trees
