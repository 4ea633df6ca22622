"""Passes over the rows of a batch of trees in compiled code; see `numpy.blocks.passes`."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.compiling import CALLING_THREAD, Workers, check_cancelled
from gpuboost.backends.numba.blocks.rows import (
    TOGETHER,
    PreparedRows,
    add_leaf_rows,
    add_rows,
    add_to_leaves,
    add_up_words,
    open_rows,
    open_words,
    pass_blocks,
    send_rows,
    send_to_leaves,
    set_numbers,
)
from gpuboost.backends.numba.common.packed_words import choose_gradient_packing
from gpuboost.backends.numba.level_wise.channels import cell_size
from gpuboost.backends.numba.level_wise.feature_bundles import BINS
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numpy.blocks.passes import BlockPasses, PassThreads
from gpuboost.backends.numpy.blocks.sums import CLOSED, Pending, RowGroups, signed_block
from gpuboost.backends.numpy.rows import joined_blocks
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import GrowTask

FEW_ROWS = 150  # if fewer words fit a sum, rows are added to histograms one by one
MIN_SHARED = 1 << 16  # rows times features of a chunk from which threads share it
MIN_SHARED_SUMS = 1 << 20  # sums of words from which threads share them
BYTES_OF_A_CALL = 64 << 20  # of codes in memory, which take 30 ms for each tree of a batch
NO_SPLITS = Pending(np.zeros(0, np.int64), np.zeros((0, 1), np.int32))  # of the first pass


class Words(NamedTuple):
    """The words of the rows of a batch of trees, which are set when rows are opened.

    Attributes
    ----------
    word : int64 (trees, n)
    packing : reference to Packing
    weight, value : lists of int32 (n,)
    times_weight : bool
        Whether gradients are values times weights.
    """

    word: np.ndarray
    packing: Reference
    weight: list[np.ndarray]
    value: list[np.ndarray]
    times_weight: bool


def words_of(task: GrowTask, tree_rows: Sequence[TreeRows]) -> Words | None:
    """The words of a batch of trees; None with several channels, medians or large numbers.

    The largest numbers of all trees decide for all of them.
    """
    target: Any = task.target
    if target.n_channels > 1 or target.by_median:
        return None
    if target.has_gradients:
        found: list[Any] = [rows.gradient for rows in tree_rows]
    else:
        found = [target.classes if target.by_class else target.values]
    given = [contiguous(own, np.int32).reshape(-1) for own in found]
    weight = [contiguous(rows.weight, np.int32) for rows in tree_rows]
    heaviest = max(int(own.max()) for own in weight)
    largest = max(max(int(own.max()), -int(own.min())) for own in given)
    largest *= 1 if target.has_gradients else heaviest
    try:
        packing = choose_gradient_packing(largest, heaviest, task.options.min_samples_leaf > 1)
    except ValueError:
        return None
    if packing.block < FEW_ROWS:
        return None
    word = task.buffers.take("words", (len(weight), len(weight[0])), np.int64)
    value = given if target.has_gradients else given * len(weight)
    return Words(word, by_reference(packing), weight, value, not target.has_gradients)


class CompiledPasses(BlockPasses):
    """The passes in compiled code: the rows of a tree are sorted by node in each block.

        row     tree 0, block 0: rows of node 0 | of node 1 | ... ; tree 0, block 1: ...

    Attributes
    ----------
    row : uint32 (trees * n,)
        The rows of each tree, counted from the first one of their block, in the memory of ``node``.
    words : Words or None
        The words of these rows.
    """

    def __init__(self, task: GrowTask, tree_rows: Sequence[TreeRows], threads: PassThreads) -> None:
        super().__init__(task, tree_rows, threads)
        if task.target.n_channels > 1:
            self.cell = cell_size(task.target.n_channels, task.options.min_samples_leaf > 1)
        n_blocks, n_trees = len(self._blocks.row_slices), len(tree_rows)
        self.row = np.zeros(0, np.uint32)
        self.words = words_of(task, tree_rows)
        self._word = np.zeros(0, np.int64) if self.words is None else self.words.word.reshape(-1)
        self.extra_bytes = 8 * BINS * (self.words is not None)
        self.has_last_pass = task.target.has_gradients and task.target.n_channels == 1
        # Positions of the rows of each node in `row`, for each block, of this level and the last
        # one. The nodes of a tree are from `_first` on.
        self._bounds = self._before = np.zeros((n_blocks, n_trees, 2), np.int64)
        self._first = np.arange(n_trees + 1)
        size = self._size = self._blocks.row_slices[0].stop
        # A buffer of each thread.
        self._spare = defaultdict[int, np.ndarray](lambda: np.empty((2, size), np.int64))

    def bounds_of(self, rows: slice) -> np.ndarray:
        """Positions in `row` of the rows of a block in each node."""
        found: np.ndarray = self._bounds[rows.start // self._size]
        return found

    def open_roots(self, trees: Sequence[int], node: np.ndarray) -> Frontier:
        """Sort the rows, in the memory of ``node``, (trees, n), and return the roots."""
        self.row = node.reshape(-1).view(np.uint32)
        return super().open_roots(trees, node)

    def split(self, frontier: Frontier, splits: Splits, parents: np.ndarray) -> None:
        """Let the next pass send the rows of ``parents`` to children, and close all other nodes."""
        super().split(frontier, splits, parents)
        shape = len(self._bounds), 2 * len(parents), 2
        self._before, self._bounds = self._bounds, np.zeros(shape, np.int64)
        trees = np.arange(len(self._first))
        self._first = 2 * np.searchsorted(frontier.tree[parents], trees)

    def value_ranges(self, node: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Lower ``low`` and raise ``high`` to the range of each node's target values."""
        super().value_ranges(self.nodes_of(node), low, high)

    def last_pass(
        self, node: np.ndarray, frontier: Frontier, number: int, found: np.ndarray
    ) -> np.ndarray:
        """Do `run`, `record_leaves` and `leaf_sums` for a level of leaves; rows are not moved.

        The first leaf has the number ``number``.
        """
        slices, workers = self._blocks.row_slices, self.threads.workers
        splits: Any = self._pending
        tree_rows: Sequence[Any] = self._tree_rows
        numbers = np.arange(number, number + len(frontier), dtype=np.int32)

        def send_some(first: int) -> tuple[np.ndarray, np.ndarray]:
            count, sums = np.zeros(len(frontier), np.int64), np.zeros((len(frontier), 2), np.int64)
            for rows in slices[first :: workers.n_threads]:
                check_cancelled()
                codes, pending = splits.columns(self._blocks, rows)
                given = (pending.feature, pending.step), self._before[rows.start // self._size]
                send_to_leaves(codes, *given, self.row, rows.start, numbers, found, count)
                for leaf, own in zip(found, tree_rows, strict=True):
                    add_to_leaves(leaf[rows], number, contiguous(own.wide[rows], np.int64), sums)
            return count, sums

        parts = workers.map(send_some, range(workers.n_threads))
        self._pending = None
        frontier.count[:] = sum(count for count, _ in parts)
        return np.sum([sums for _, sums in parts], axis=0)

    def nodes_of(self, node: np.ndarray) -> np.ndarray:
        """The nodes of rows, int32 (trees, n)."""
        found = np.full_like(node, CLOSED)
        self.record_leaves(node, np.arange(-1, self._bounds.shape[1]), found)
        return found

    def columns_of(
        self, rows: slice, groups: RowGroups, bounds: np.ndarray, signs: np.ndarray | None
    ) -> dict[str, Any]:
        """The fields of `PreparedRows` for rows of a block that are not added as words."""
        target, counted, blocks = self._task.target, self._task.options.min_samples_leaf > 1, []
        for t, own in enumerate(self._tree_rows):
            parts = bounds[groups.first[t] : groups.first[t + 1]]
            row = np.concatenate([self.row[a:b] for a, b in parts] or [self.row[:0]])
            of_tree = None if signs is None else signs[t]
            blocks.append(signed_block(target, own, rows, row, of_tree))
        block, at = joined_blocks(blocks), 1 + target.n_channels if counted else 0
        columns: dict[str, Any] = {"row": (block.row - rows.start).astype(np.uint32)}
        if block.label is not None:
            return columns | {"counted": at, "hessian": block.hessian, "label": block.label}
        assert block.gradient is not None
        summands = np.zeros((len(block.hessian), self.cell), np.int64)
        summands[:, 0], summands[:, 1 : 1 + target.n_channels] = block.hessian, block.gradient
        if counted:
            summands[:, at] = 1
        return columns | {"summands": summands}

    # ---- the steps of a pass -------------------------------------------------------------------

    def _start(self, groups: RowGroups, shape: tuple[int, ...]) -> CompiledPassSums:
        return CompiledPassSums(self, groups, shape)

    def _open(self, tree: int, rows: slice, node: np.ndarray) -> tuple[int, int, np.ndarray]:
        words, inside = self.words, self._tree_rows[tree].inside
        row, start = node.view(np.uint32), tree * self._task.matrix.n_samples + rows.start
        if words is None:
            found = super()._open(tree, rows, node)
            open_rows(node, row)
        else:
            inside = np.zeros(0, np.bool_) if inside is None else inside[rows]
            given = words.weight[tree][rows], words.value[tree][rows], inside, words.times_weight
            sums = np.zeros(3, np.int64)
            open_words(*given, words.packing, row, words.word[tree, rows], sums)
            found = int(sums[0]), int(sums[1]), sums[2:]
        self.bounds_of(rows)[tree] = start, start + found[0]
        return found

    def _send(
        self, rows: slice, codes: np.ndarray, pending: Pending, node: np.ndarray, count: np.ndarray
    ) -> None:
        before, after = self._before[rows.start // self._size], self.bounds_of(rows)
        spare = self._spare[threading.get_ident()]
        send_rows(codes, pending.feature, pending.step, before, after, self.row, self._word, spare)
        np.add(count, after[:, 1] - after[:, 0], out=count)

    def _run_blocks(
        self, node: np.ndarray, blocks: Any, sums: Any, count: np.ndarray, workers: Workers
    ) -> None:
        """Do `run` for some blocks; one call passes many in memory, if their rows are words."""
        kept, own = self._blocks.kept, list[int]()
        if self.words is not None and sums is not None and workers.n_threads == 1:
            own = [block for block in blocks if block < len(kept)]
        size = max(BYTES_OF_A_CALL // max(kept[:1].nbytes, 1), 1)
        for first in range(0, len(own), size):
            check_cancelled()
            some, pending = np.array(own[first : first + size]), self._pending or NO_SPLITS
            bounds, spare = (self._before, self._bounds), self._spare[threading.get_ident()]
            sums.pass_blocks(kept, some, (pending.feature, pending.step), bounds, spare)
        if own and self._pending is not None:
            count += np.diff(self._bounds[own], axis=2)[:, :, 0].sum(axis=0)
        super()._run_blocks(node, blocks[len(own) :], sums, count, workers)

    def _add_leaves(
        self, tree: int, rows: slice, node: np.ndarray, place: np.ndarray, sums: np.ndarray
    ) -> None:
        given, own, none = self._tree_rows[tree], self._nodes(tree), np.zeros(0, np.int32)
        target: Any = self._task.target
        wide: Any = target.wide if given.wide is None else given.wide
        classes = contiguous(target.classes[rows] if target.by_class else none, np.int32)
        weight = contiguous(given.weight[rows] if given.draws else none, np.int32)
        bounds, wide = self.bounds_of(rows)[own], contiguous(wide[rows], np.int64)
        add_leaf_rows(self.row, bounds, place[1:][own], classes, weight, wide, sums)

    def _set_numbers(
        self, tree: int, rows: slice, node: np.ndarray, number: np.ndarray, found: np.ndarray
    ) -> None:
        own = self._nodes(tree)
        set_numbers(self.row, self.bounds_of(rows)[own], number[1:][own], found)

    def _nodes(self, tree: int) -> slice:
        """The nodes of a tree."""
        return slice(*self._first[tree : tree + 2])


class CompiledPassSums:
    """`numpy.blocks.sums.PassSums` in compiled code."""

    def __init__(self, passes: CompiledPasses, groups: RowGroups, shape: tuple[int, ...]) -> None:
        self._histogram = np.zeros(shape, np.int64)  # takes no memory until it is used
        self._passes, self._groups, words = passes, groups, passes.words
        nodes = np.arange(len(groups.nodes)) if words is None else groups.nodes
        self._given = PreparedRows(passes.row, groups.slots, nodes)
        self._has_sums = np.zeros(1, np.int64)
        if words is not None:
            n_sums = len(groups.slots), shape[0]
            self._given = self._given._replace(
                word=words.word.reshape(-1),
                packing=words.packing,
                sums=np.zeros(math.prod(n_sums) * BINS, np.int64),
                added=np.zeros(n_sums, np.int64),
                has_sums=self._has_sums,
            )
        self._prepared, self._n_rows = by_reference(self._given), 0
        self._bounds = np.zeros((0, 2), np.int64)

    def set_rows(self, rows: slice, node: np.ndarray, signs: np.ndarray | None) -> bool:
        """Choose the rows of a block, which `add` adds to histograms; return whether any."""
        passes, self._bounds = self._passes, self._passes.bounds_of(rows)
        bounds = self._bounds[self._groups.nodes]
        count = bounds[:, 1] - bounds[:, 0]
        self._n_rows = int(count.sum())
        if self._n_rows and passes.words is None:
            columns = passes.columns_of(rows, self._groups, bounds, signs)
            self._prepared = by_reference(self._given._replace(**columns))
            stop = np.cumsum(count)
            self._bounds = np.column_stack([stop - count, stop])
        return self._n_rows > 0

    def add(self, codes: np.ndarray, first: int, workers: Workers) -> None:
        """Add the rows of all trees to the histograms of a chunk's features."""
        if self._n_rows * len(codes) < MIN_SHARED:
            workers = CALLING_THREAD
        shape, sums = self._shape_from(first), self._histogram.reshape(-1)

        def add_some(features: tuple[int, int]) -> None:
            add_rows(codes, np.array(features), self._prepared, self._bounds, sums, shape)

        _share(add_some, len(codes), workers)

    def pass_blocks(self, *given: Any) -> None:
        """Do `rows.pass_blocks`, given its first five arguments."""
        pass_blocks(*given, self._prepared, self._histogram.reshape(-1), self._shape_from(0))

    def finish(self, histogram: np.ndarray | None, workers: Workers) -> np.ndarray:
        """Add the histograms to those of other blocks, if given, and return the sum."""
        if histogram is None:
            histogram = self._histogram
        elif self._has_sums[0] or self._passes.words is None:
            histogram += self._histogram
        shape, sums = self._shape_from(0), histogram.reshape(-1)

        def add_up(features: tuple[int, int]) -> None:
            add_up_words(self._prepared, np.array(features), sums, shape)

        if self._passes.words is not None:
            few = self._given.sums.size < MIN_SHARED_SUMS
            _share(add_up, len(histogram), CALLING_THREAD if few else workers)
        return histogram

    def _shape_from(self, first: int) -> np.ndarray:
        """The ``shape`` of `add_rows`."""
        return np.array([first, *self._histogram.shape[1:]])


def _share(task: Callable[[tuple[int, int]], None], n_features: int, workers: Workers) -> None:
    """Call a function with a range of features for each thread, of whole tiles of `TOGETHER`."""
    n_together = -(-n_features // TOGETHER)
    n_threads = min(workers.n_threads, n_together)
    cuts = [min(n_together * i // n_threads * TOGETHER, n_features) for i in range(n_threads + 1)]
    workers.map(task, pairwise(cuts))
