"""Passes over the rows of a batch of trees whose codes are in blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuboost.backends.numpy.blocks.sums import (
    CLOSED,
    BlockSums,
    ChunkRows,
    NumpyBlockSums,
    Pending,
)
from gpuboost.backends.numpy.rows import block_of
from gpuboost.data.binning import parallel
from gpuboost.engine.code_blocks import CodeBlocks, CodeChunk
from gpuboost.engine.ensembles.traversal import N_CODES
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.growth.tree import goes_left
from gpuboost.engine.targets import ClassTarget, TreeRows
from gpuboost.engine.task import MISSING_LEFT, GrowTask

PRIVATE_BYTES = 32 << 20  # of histograms, up to which each thread has its own, and blocks
ROWS_AT_ONCE = 1 << 18  # whose targets and weights are converted together, without codes


class BlockPasses:
    """The passes over rows and codes of a batch of trees.

    Attributes
    ----------
    planes : int
        Number of sums of a bin.
    bin_bytes : int
        Bytes of the sums of a bin.
    signs : int8 (trees, n, K) or None
        For medians, the sign of each row about the medians of its node, in place of a target.
    """

    def __init__(
        self, task: GrowTask, tree_rows: Sequence[TreeRows], sums: BlockSums | None
    ) -> None:
        assert isinstance(task.matrix.stored, CodeBlocks)
        self._task, self._tree_rows, self._blocks = task, tree_rows, task.matrix.stored
        n_channels, is_counted = task.target.n_channels, task.options.min_samples_leaf > 1
        self.planes = 1 + n_channels + is_counted
        self._sums = NumpyBlockSums(n_channels, is_counted) if sums is None else sums
        self.bin_bytes = 8 * self._sums.cell
        self._pending: Pending | None = None
        self.signs: np.ndarray | None = None

    def run(
        self,
        node: np.ndarray,
        frontier: Frontier,
        slot: np.ndarray | None = None,
        n_slots: int = 0,
    ) -> np.ndarray:
        """Send rows to their nodes, count them, and make histograms: int64 (n_slots, P, F, width).

        ``node``, int32 (trees, n), has the nodes of the last level, and then those of this one;
        ``slot``, (m,), has the histogram of each of these, or a negative number.

        Only the features of the last level's splits are read if there are no histograms.
        """
        matrix, n_blocks = self._task.matrix, len(self._blocks.row_slices)
        shape = matrix.n_features, n_slots, matrix.width, self._sums.cell
        limit = min(PRIVATE_BYTES, self._task.memory_budget)
        is_small = 8 * math.prod(shape) * self._task.n_threads <= limit
        n_parts = min(self._task.n_threads, n_blocks) if is_small else 1

        def run_some(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            histogram, count = np.zeros(shape, np.int64), np.zeros(len(frontier), np.int64)
            if self._pending is not None or n_slots:
                n_threads = 1 if n_parts > 1 else self._task.n_threads
                found = histogram, count
                self._run_blocks(node, slot, blocks.tolist(), found, n_threads)
            return histogram, count

        parts = parallel(run_some, np.array_split(np.arange(n_blocks), n_parts), n_parts)
        self._pending = None
        histogram = parts[0][0]
        for own, _ in parts[1:]:
            histogram += own
        for _, own in parts:
            np.add(frontier.count, own, out=frontier.count)
        return histogram.transpose(1, 3, 0, 2)[:, : self.planes]

    def _run_blocks(
        self,
        node: np.ndarray,
        slot: np.ndarray | None,
        blocks: Sequence[int],
        found: tuple[np.ndarray, np.ndarray],
        n_threads: int,
    ) -> None:
        """Do `run` for some blocks; ``found`` are the histograms and the counts of nodes."""
        (histogram, count), slices = found, self._blocks.row_slices
        chunks: Iterator[CodeChunk] = (_without_codes(slices[block]) for block in blocks)
        if histogram.size:
            chunks = self._blocks.chunks(None, blocks)
        current, of_trees = slice(0, 0), list[Any]()
        for chunk in chunks:
            if chunk.rows != current:
                current = chunk.rows
                self._route(node[:, current], count, chunk)
                n_slots = histogram.shape[1]
                of_trees = self._rows_of(node[:, current], current.start, slot, n_slots)
            if of_trees:
                self._sums.add(chunk.codes, chunk.first, of_trees, histogram, n_threads)

    def _route(self, node: np.ndarray, count: np.ndarray, chunk: CodeChunk) -> None:
        """Send the rows of a block, with the nodes (trees, r), to the children of their nodes."""
        pending = self._pending
        if pending is None:
            return
        column, codes = pending.feature, chunk.codes
        if len(codes) < self._task.matrix.n_features:
            used = np.unique(column[column >= 0])
            codes = np.stack([self._blocks.column(int(f), chunk.rows) for f in used])
            column = np.where(column >= 0, np.searchsorted(used, column), -1)
        for own in node:
            self._sums.route(codes, replace(pending, feature=column), own, count)

    def _rows_of(
        self, node: np.ndarray, first: int, slot: np.ndarray | None, n_slots: int
    ) -> list[Any]:
        """The rows of a block that are added to histograms, for each tree that has any."""
        found = list[Any]()
        if slot is None:
            return found
        for t, own in enumerate(node):
            place, starts = self._sums.choose(own, slot, n_slots)
            if not len(place):
                continue
            row: Any = slice(first, first + len(own))
            if len(place) < len(own) or n_slots > 1:
                row = first + place.astype(np.int64)
            block = block_of(self._task.target, self._tree_rows[t], row)
            if self.signs is not None:
                signs = self.signs[t, row]
                block = replace(block, gradient=signs * block.hessian[:, None])
            found.append(self._sums.prepared(ChunkRows(place, starts, block)))
        return found

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

    def open_rows(self, node: np.ndarray) -> Any:
        """Yield trees, some of their open rows, and the nodes of these."""
        for t, own in enumerate(node):
            for start in range(0, len(own), ROWS_AT_ONCE):
                part = own[start : start + ROWS_AT_ONCE]
                at = np.flatnonzero(part >= 0)
                yield t, start + at, part[at]

    def leaf_sums(
        self, node: np.ndarray, frontier: Frontier, leaves: np.ndarray, shape: tuple[int, int]
    ) -> np.ndarray:
        """Leaf sums of some nodes, for each class if there are any: int64 (m, classes * P)."""
        target, (n_classes, n_planes) = self._task.target, shape
        sums = np.zeros((len(leaves) * n_classes, n_planes), np.int64)
        for t, part, leaf in self.rows_of_leaves(node, frontier, leaves):
            rows, weight = self._tree_rows[t], np.zeros(0, np.int64)
            wide: Any = target.wide if rows.wide is None else rows.wide
            if rows.draws:
                weight = rows.weight[part].astype(np.int64)
            if isinstance(target, ClassTarget):
                leaf = np.where(leaf >= 0, leaf * n_classes + target.classes[part], -1)
            self._sums.add_leaves(leaf, wide[part], weight, sums)
        return sums.reshape(len(leaves), n_classes * n_planes)

    def rows_of_leaves(
        self, node: np.ndarray, frontier: Frontier, leaves: np.ndarray
    ) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yield trees, slices of rows, and the index in ``leaves`` of each row's node, or -1."""
        place = np.full(len(frontier) + 1, -1)  # the last one is that of closed rows
        place[leaves] = np.arange(len(leaves))
        for t, own in enumerate(node if len(leaves) else []):
            for start in range(0, len(own), ROWS_AT_ONCE):
                part = slice(start, min(start + ROWS_AT_ONCE, len(own)))
                yield t, part, place[own[part]]

    def codes_of(self, used: np.ndarray) -> np.ndarray:
        """The codes of some ascending rows: uint8 (F, r)."""
        codes = np.empty((self._task.matrix.n_features, len(used)), np.uint8)
        for chunk in self._blocks.chunks():
            a, b = np.searchsorted(used, (chunk.rows.start, chunk.rows.stop))
            features = slice(chunk.first, chunk.first + len(chunk.codes))
            codes[features, a:b] = chunk.codes[:, used[a:b] - chunk.rows.start]
        return codes


def _without_codes(rows: slice) -> CodeChunk:
    return CodeChunk(rows, 0, np.empty((0, rows.stop - rows.start), np.uint8))
