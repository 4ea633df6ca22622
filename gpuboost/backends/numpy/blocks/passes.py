"""Passes over the rows of a batch of trees whose codes are in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpuboost.backends.compiling import CALLING_THREAD, Workers, check_cancelled
from gpuboost.backends.numpy.blocks.sums import CLOSED, NumpyPassSums, PassSums, Pending, RowGroups
from gpuboost.backends.numpy.rows import block_of, make_roots
from gpuboost.engine.code_blocks import CodeBlocks, CodeChunk
from gpuboost.engine.ensembles.traversal import N_CODES
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.growth.tree import goes_left
from gpuboost.engine.targets import ClassTarget, TreeRows, ValueTarget
from gpuboost.engine.task import MISSING_LEFT, GrowTask

PRIVATE_BYTES = 32 << 20  # of histograms and leaf sums, up to which each thread has its own
_NO_CODES = np.empty((0, 0), np.uint8)


@dataclass(frozen=True)
class PassThreads:
    """The threads that all passes of one `level_ops.grow_batches` share.

    Attributes
    ----------
    workers : Workers
    readers : ThreadPoolExecutor
        A thread for each worker, which reads codes ahead.
    """

    workers: Workers
    readers: ThreadPoolExecutor


class BlockPasses:
    """The passes over rows and codes of a batch of trees.

    ``node``, (trees, n), has the nodes of rows, or what a subclass keeps in its memory; `nodes_of`
    reads it.

    Attributes
    ----------
    planes, cell : int
        Number of sums of a bin, and number of int64 of a bin in histograms, which may be larger.
    extra_bytes : int
        Bytes for a feature, besides the histogram of a node, while rows are added to it.
    signs : int8 (trees, n, K) or None
        For medians, the sign of each row about the medians of its node, in place of a target.
    threads : PassThreads
    has_last_pass : bool
        Whether there is `last_pass`, which does `run`, `record_leaves` and `leaf_sums` for a level
        whose nodes are all leaves.
    """

    has_last_pass = False
    last_pass: Callable[..., np.ndarray]

    def __init__(self, task: GrowTask, tree_rows: Sequence[TreeRows], threads: PassThreads) -> None:
        assert isinstance(task.matrix.stored, CodeBlocks)
        self._task, self._tree_rows, self._blocks = task, tree_rows, task.matrix.stored
        n_channels, is_counted = task.target.n_channels, task.options.min_samples_leaf > 1
        self.planes = self.cell = 1 + n_channels + is_counted
        self.extra_bytes, self.threads = 0, threads
        slices = self._blocks.row_slices
        self._parts = [(t, rows) for t in range(len(tree_rows)) for rows in slices]
        self._pending: Pending | None = None
        self.signs: np.ndarray | None = None

    @property
    def histogram_bytes(self) -> int:
        """Bytes that the histograms of `run` and those of their parents may take."""
        return self._task.memory_budget

    def bytes_of(self, n_histograms: int, n_summed: int) -> int:
        """Bytes of some histograms, to some of which rows are added."""
        matrix = self._task.matrix
        of_feature = 8 * self.cell * matrix.width * n_histograms + self.extra_bytes * n_summed
        return matrix.n_features * of_feature

    def loads_rows(self, n_bytes: int) -> bool:
        """Whether rows that fit in memory are loaded, before histograms of ``n_bytes`` bytes."""
        return True

    def open_roots(self, trees: Sequence[int], node: np.ndarray) -> Frontier:
        """Set ``node``, int32 (trees, n), to the roots of all rows, and return the roots."""
        n_trees, n_channels = len(node), self._task.target.n_channels
        count, hessian = np.zeros(n_trees, np.int64), np.zeros(n_trees, np.int64)
        gradient = np.zeros((n_trees, n_channels), np.int64)

        def open_part(given: tuple[int, slice]) -> tuple[int, int, np.ndarray]:
            return self._open(*given, node[given])

        found = self.threads.workers.map(open_part, self._parts)
        for (t, _), own in zip(self._parts, found, strict=True):
            count[t] += own[0]
            hessian[t] += own[1]
            gradient[t] += own[2]
        sums = {"count": count, "hessian": hessian, "gradient": gradient}
        return make_roots(self._task, trees, start=count, **sums)

    def run(
        self, node: np.ndarray, frontier: Frontier, slot: np.ndarray | None = None, n_slots: int = 0
    ) -> np.ndarray:
        """Send rows to their nodes, count them, and make histograms: (F, n_slots, width, cell).

        ``node`` has the nodes of the last level, and then those of this one; ``slot`` (m,) has the
        histogram of each of these, or a negative number.

        Only the features of the last level's splits are read if there are no histograms.
        """
        matrix, n_blocks = self._task.matrix, len(self._blocks.row_slices)
        shape = matrix.n_features, n_slots, matrix.width, self.cell
        groups, n_bytes = None, 0
        if n_slots:
            assert slot is not None
            groups = RowGroups.of(slot, frontier.tree, len(node))
            n_bytes = self.bytes_of(n_slots, len(groups.slots)) * self._task.n_threads
        n_parts, (outer, inner) = 1, (CALLING_THREAD, self.threads.workers)
        if n_blocks > 1 and n_bytes <= min(PRIVATE_BYTES, self._task.memory_budget):
            n_parts, (outer, inner) = min(self._task.n_threads, n_blocks), (inner, outer)

        def run_some(blocks: Sequence[int]) -> tuple[PassSums | None, np.ndarray]:
            count = np.zeros(len(frontier), np.int64)
            sums = None if groups is None else self._start(groups, shape)
            if self._pending is not None or sums is not None:
                self._run_blocks(node, blocks, sums, count, inner)
            return sums, count

        numbers = range(n_blocks)
        parts = [numbers[first::n_parts] for first in range(n_parts)]  # later ones are in the file
        histogram = None
        for sums, count in outer.map(run_some, parts):
            np.add(frontier.count, count, out=frontier.count)
            if sums is not None:
                histogram = sums.finish(histogram, self.threads.workers)
        self._pending = None
        return np.zeros(shape, np.int64) if histogram is None else histogram

    def _run_blocks(
        self,
        node: np.ndarray,
        blocks: Sequence[int],
        sums: PassSums | None,
        count: np.ndarray,
        workers: Workers,
    ) -> None:
        """Do `run` for some blocks, with their sums, if any, and the counts of nodes."""
        slices = self._blocks.row_slices
        chunks: Iterator[CodeChunk] = (CodeChunk(slices[b], 0, _NO_CODES) for b in blocks)
        if sums is not None:
            chunks = self._blocks.chunks(None, blocks, self.threads.readers)
        current, has_rows = slice(0, 0), False
        for chunk in chunks:
            check_cancelled()
            if chunk.rows != current:
                current = chunk.rows
                self._route(node[:, current], count, chunk)
                signs = None if self.signs is None else self.signs[:, current]
                has_rows = sums is not None and sums.set_rows(current, node[:, current], signs)
            if has_rows:
                assert sums is not None
                sums.add(chunk.codes, chunk.first, workers)

    def _route(self, node: np.ndarray, count: np.ndarray, chunk: CodeChunk) -> None:
        """Send the rows of a block, with the nodes (trees, r), to the children of their nodes."""
        if self._pending is None:
            return
        codes, pending = chunk.codes, self._pending
        if len(codes) < self._task.matrix.n_features:
            codes, pending = pending.columns(self._blocks, chunk.rows)
        self._send(chunk.rows, codes, pending, node, count)

    # ---- the steps that Numba compiles ---------------------------------------------------------

    def _start(self, groups: RowGroups, shape: tuple[int, ...]) -> PassSums:
        """The sums of some blocks in a pass, with histograms of this shape."""
        return NumpyPassSums(self._task, self._tree_rows, groups, shape)

    def _open(self, tree: int, rows: slice, node: np.ndarray) -> tuple[int, int, np.ndarray]:
        """Set the nodes of a block's rows, int32 (r,), to the root, or `CLOSED` outside the tree.

        Returns the number of rows in the tree, and the sums of their hessians and gradients.
        """
        own, target = self._tree_rows[tree], self._task.target
        inside = own.weight[rows] > 0 if own.inside is None else own.inside[rows]
        node[:] = np.where(inside, tree, CLOSED)
        block = block_of(target, own, rows if inside.all() else rows.start + np.flatnonzero(inside))
        if block.gradient is not None:
            gradient = block.gradient.sum(axis=0)
        else:
            assert block.label is not None
            gradient = np.zeros(target.n_channels, np.int64)
            np.add.at(gradient, block.label, block.hessian)
        return len(block.hessian), int(block.hessian.sum()), gradient

    def _send(
        self, rows: slice, codes: np.ndarray, pending: Pending, node: np.ndarray, count: np.ndarray
    ) -> None:
        """Replace the nodes of a block's rows, int32 (trees, r), by their children or `CLOSED`.

        The rows of each child are added to ``count``. ``pending.feature`` is an index into
        ``codes``.
        """
        for own_node in node:
            at = np.flatnonzero(own_node >= 0)
            own = own_node[at]
            place = pending.feature[own]
            moved = pending.step[own, codes[np.maximum(place, 0), at]]
            own_node[at] = np.where(place >= 0, moved, CLOSED)
            count += np.bincount(moved[place >= 0], minlength=len(count))

    def _add_leaves(
        self, tree: int, rows: slice, node: np.ndarray, place: np.ndarray, sums: np.ndarray
    ) -> None:
        """Add rows of a block that are in leaves to rows of ``sums``, int64 (s, P).

        Those of classes follow each other. ``place`` (m + 1,) is the first one of closed rows and
        of each node, negative for none; ``node``, int32 (r,), has the nodes of rows.
        """
        target, given = self._task.target, self._tree_rows[tree]
        leaf = place[1 + node]
        at = np.flatnonzero(leaf >= 0)
        wide: Any = target.wide if given.wide is None else given.wide
        leaf, own, of_rows = leaf[at], wide[rows][at], given.weight[rows][at]
        if isinstance(target, ClassTarget):
            leaf = leaf + target.classes[rows][at]
        np.add.at(sums, leaf, own * of_rows[:, None] if given.draws else own)

    def _set_numbers(
        self, tree: int, rows: slice, node: np.ndarray, number: np.ndarray, found: np.ndarray
    ) -> None:
        """Set ``found``, int32 (r,), to ``number[1 + node]`` where that is not negative."""
        own = number[1 + node]
        at = np.flatnonzero(own >= 0)
        found[at] = own[at]

    # ---- rows ----------------------------------------------------------------------------------

    def split(self, frontier: Frontier, splits: Splits, parents: np.ndarray) -> None:
        """Let the next pass send the rows of ``parents`` to children, and close all other nodes."""
        matrix, codes = self._task.matrix, np.arange(N_CODES)
        category = np.where(splits.categorical[parents], parents, -1)[:, None]
        missing_left = (splits.missing[parents] == MISSING_LEFT)[:, None]
        limit, missing = splits.bin[parents][:, None], (codes == matrix.missing_code)[None]
        to_left = goes_left(
            np.broadcast_to(codes, (len(parents), N_CODES)),
            limit,
            category,
            splits.mask,
            missing if matrix.n_missing.any() else None,
            missing_left,
        )
        step = np.full((len(frontier), N_CODES), CLOSED, np.int32)
        step[parents] = 2 * np.arange(len(parents))[:, None] + ~to_left
        feature = np.full(len(frontier), -1)
        feature[parents] = splits.feature[parents]
        self._pending = Pending(feature, step)

    def value_ranges(self, node: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Lower ``low`` and raise ``high``, (m, K), to the range of each node's target values.

        Rows of weight 0 do not count.
        """
        target = self._task.target
        assert isinstance(target, ValueTarget)
        for t, part in self._parts:
            at = np.flatnonzero((node[t, part] >= 0) & (self._tree_rows[t].weight[part] > 0))
            own, value = node[t, part][at], target.values[part.start + at]
            np.minimum.at(low, own, value)
            np.maximum.at(high, own, value)

    def nodes_of(self, node: np.ndarray) -> np.ndarray:
        """The nodes of rows, int32 (trees, n), where ``node`` has something else."""
        return node

    def read_leaves(self, found: np.ndarray) -> None:
        """Copy the leaves that `record_leaves` set from a device that keeps them."""

    def leaf_sums(
        self, node: np.ndarray, frontier: Frontier, leaves: np.ndarray, shape: tuple[int, int]
    ) -> np.ndarray:
        """Leaf sums of some nodes, for each class if there are any: int64 (m, classes * P)."""
        n_classes, n_planes = shape
        sums = np.zeros((len(leaves) * n_classes, n_planes), np.int64)
        place = node_table(frontier, leaves, np.arange(len(leaves)) * n_classes)
        parts = self._parts if len(leaves) else []
        workers = self.threads.workers
        workers = workers if sums.nbytes * workers.n_threads <= PRIVATE_BYTES else CALLING_THREAD

        def sum_up(first: int) -> np.ndarray:
            own = np.zeros_like(sums) if first else sums
            for t, rows in parts[first :: workers.n_threads]:
                self._add_leaves(t, rows, node[t, rows], place, own)
            return own

        for own in workers.map(sum_up, range(workers.n_threads))[1:]:
            sums += own
        return sums.reshape(len(leaves), n_classes * n_planes)

    def record_leaves(self, node: np.ndarray, number: np.ndarray, found: np.ndarray) -> None:
        """Set ``found``, int32 (trees, n), to the number of the leaf of each row in one.

        ``number`` is a `node_table`.
        """

        def of_part(given: tuple[int, slice]) -> None:
            self._set_numbers(*given, node[given], number, found[given])

        self.threads.workers.map(of_part, self._parts)

    def codes_of(self, used: np.ndarray) -> np.ndarray:
        """The codes of some ascending rows: uint8 (F, r)."""
        codes = np.empty((self._task.matrix.n_features, len(used)), np.uint8)
        for chunk in self._blocks.chunks():
            a, b = np.searchsorted(used, (chunk.rows.start, chunk.rows.stop))
            features = slice(chunk.first, chunk.first + len(chunk.codes))
            codes[features, a:b] = chunk.codes[:, used[a:b] - chunk.rows.start]
        return codes


class BlockDevice(Protocol):
    """A device on which the passes of a fit run; it keeps what all batches of trees share."""

    def batch_size(self, task: GrowTask, size: int) -> int:
        """Number of trees that grow together: ``size``, or fewer if the device holds no more."""

    def passes(
        self, task: GrowTask, tree_rows: Sequence[TreeRows], threads: PassThreads
    ) -> BlockPasses:
        """The passes of a batch of trees."""


def node_table(frontier: Frontier, nodes: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The values of some nodes, -1 for others: int64 (m + 1,), after that of closed rows."""
    found = np.full(len(frontier) + 1, -1)
    found[1 + nodes] = value
    return found
