"""The histograms of blocks of codes, with the compiled passes of `blocks.rows`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.compiling import CALLING_THREAD, Workers
from gpuboost.backends.numba.blocks.rows import (
    TOGETHER,
    PreparedRows,
    add_leaf_rows,
    add_rows,
    add_up_words,
    choose_rows,
    pack_words,
    send_rows,
    set_leaves,
)
from gpuboost.backends.numba.common.packed_words import choose_gradient_packing
from gpuboost.backends.numba.level_wise.channels import cell_size
from gpuboost.backends.numba.level_wise.feature_bundles import BINS
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numpy.blocks.sums import LeafTerms, Pending, RowGroups, signed_block
from gpuboost.engine.targets import ClassTarget, MedianTarget, Target, TreeRows, ValueTarget
from gpuboost.engine.task import GrowTask

FEW_ROWS = 150  # if fewer words fit a sum, rows are added to histograms one by one
MIN_SHARED = 1 << 16  # rows times features of a chunk from which threads share it
MIN_SHARED_SUMS = 1 << 20  # sums of words from which threads share them


class TreeWords(NamedTuple):
    """The words of the rows of a tree.

    Attributes
    ----------
    word : int64 (n,)
    packing : reference to Packing
    """

    word: np.ndarray
    packing: Reference


def _words_of(target: Target, rows: TreeRows, counted: bool) -> TreeWords | None:
    """The words of a tree's rows; None with several channels, medians or large numbers."""
    if target.n_channels > 1 or isinstance(target, MedianTarget):
        return None
    times_weight, given = rows.gradient is None, rows.gradient
    if isinstance(target, ClassTarget):
        given = target.classes
    elif isinstance(target, ValueTarget):
        given = target.values
    assert given is not None
    weight, value = contiguous(rows.weight, np.int32), contiguous(given, np.int32).reshape(-1)
    heaviest = int(weight.max())
    largest = max(int(value.max()), -int(value.min())) * (heaviest if times_weight else 1)
    try:
        packing = choose_gradient_packing(largest, heaviest, counted)
    except ValueError:
        return None
    if packing.block < FEW_ROWS:
        return None
    word, reference = np.empty(len(weight), np.int64), by_reference(packing)
    pack_words(weight, value, times_weight, reference, word)
    return TreeWords(word, reference)


class CompiledBlockSums:
    """`numpy.blocks.sums.BlockSums` in compiled code, on several threads."""

    def __init__(self, task: GrowTask, tree_rows: Sequence[TreeRows]) -> None:
        self._target, self._tree_rows = task.target, tree_rows
        self._counted = task.options.min_samples_leaf > 1
        self.words = [_words_of(task.target, rows, self._counted) for rows in tree_rows]
        n_channels = task.target.n_channels
        self.cell = 2 + self._counted if n_channels == 1 else cell_size(n_channels, self._counted)
        has_words = any(words is not None for words in self.words)
        self.extra_bytes = 8 * BINS * has_words

    def start(self, groups: RowGroups, shape: tuple[int, ...]) -> CompiledPassSums:
        """The sums of some blocks in a pass."""
        return CompiledPassSums(self, groups, shape)

    def columns_of(
        self, tree: int, rows: slice, place: np.ndarray, signs: np.ndarray | None
    ) -> dict[str, np.ndarray | int]:
        """The fields of `PreparedRows` for rows that are not added as words."""
        block = signed_block(self._target, self._tree_rows[tree], rows, place, signs)
        n_channels = self._target.n_channels
        counted = 1 + n_channels if self._counted else 0
        if block.label is not None:
            hessian, label = (contiguous(own, np.int64) for own in (block.hessian, block.label))
            return {"counted": counted, "hessian": hessian, "label": label}
        assert block.gradient is not None
        summands = np.zeros((len(block.hessian), self.cell), np.int64)
        summands[:, 0], summands[:, 1 : 1 + n_channels] = block.hessian, block.gradient
        if self._counted:
            summands[:, counted] = 1
        return {"summands": summands}

    def route(
        self, codes: np.ndarray, pending: Pending, node: np.ndarray, count: np.ndarray
    ) -> None:
        """Replace the nodes of rows by their children."""
        send_rows(codes, pending.feature, pending.step, node, count)

    def add_leaves(
        self, node: np.ndarray, place: np.ndarray, terms: LeafTerms, sums: np.ndarray
    ) -> None:
        """Add the rows of leaves to their sums."""
        classes, weight = (contiguous(own, np.int32) for own in (terms.classes, terms.weight))
        add_leaf_rows(node, place, classes, weight, contiguous(terms.wide, np.int64), sums)

    def record_leaves(self, node: np.ndarray, number: np.ndarray, found: np.ndarray) -> None:
        """Set the leaves of rows that are in one."""
        set_leaves(node, number, found)


class CompiledPassSums:
    """`numpy.blocks.sums.PassSums` in compiled code.

    Buffers for the rows of a block are used again for the next one.
    """

    def __init__(self, sums: CompiledBlockSums, groups: RowGroups, shape: tuple[int, ...]) -> None:
        self._histogram = np.zeros(shape, np.int64)  # takes no memory until it is used
        self._sums, self._groups = sums, groups
        n_sums = len(groups.slots) if any(words is not None for words in sums.words) else 0
        self._words = np.zeros(n_sums * shape[0] * BINS, np.int64)
        self._added = np.zeros((n_sums, shape[0]), np.int64)
        self._has_sums = np.zeros(1, np.int64)
        self._found = np.zeros((2, 0), np.uint32)
        self._trees: list[PreparedRows] = []
        self._of_words: list[Reference] = []
        self._rows: list[tuple[int, Reference]] = []

    def set_rows(self, rows: slice, node: np.ndarray, signs: np.ndarray | None) -> bool:
        """Choose the rows of a block, which `add` adds to histograms; return whether any."""
        if node.shape[1] > self._found.shape[1]:
            self._make_buffers(*node.shape)
        self._rows = []
        group, none = self._groups.group, np.zeros(0, np.int64)
        for t, (own, nodes) in enumerate(zip(self._trees, node, strict=True)):
            words = self._sums.words[t]
            of_row = none if words is None else words.word[rows]
            nodes, to = contiguous(nodes, np.int32), (own.starts, own.place)
            choose_rows(nodes, group, self._found, *to, of_row, own.word)
            n = int(own.starts[-1])
            if n and words is not None:
                self._rows.append((n, self._of_words[t]))
            elif n:
                signs_of_tree = None if signs is None else signs[t]
                others: Any = self._sums.columns_of(t, rows, own.place[:n], signs_of_tree)
                self._rows.append((n, by_reference(own._replace(**others))))
        return bool(self._rows)

    def _make_buffers(self, n_trees: int, n_rows: int) -> None:
        """Make buffers for blocks of so many rows."""
        groups, self._trees = self._groups, []
        self._found = np.empty((2, n_rows), np.uint32)
        for t in range(n_trees):
            words = self._sums.words[t]
            own = slice(*groups.first[t : t + 2])
            rows = PreparedRows(
                np.empty(n_rows, np.uint32),
                np.zeros(groups.n_groups + 1, np.int64),
                groups.slots[own],
            )
            if words is not None:
                rows = rows._replace(
                    word=np.empty(n_rows, np.int64),
                    packing=words.packing,
                    sums=self._words,
                    added=self._added,
                    first_sum=own.start,
                    has_sums=self._has_sums,
                )
            self._trees.append(rows)
        self._of_words = [by_reference(rows) for rows in self._trees]

    def add(self, codes: np.ndarray, first: int, workers: Workers) -> None:
        """Add the rows of all trees to the histograms of a chunk's features."""
        n_features, n_rows = len(codes), sum(n for n, _ in self._rows)
        if n_rows * n_features < MIN_SHARED:
            workers = CALLING_THREAD
        shape, sums = self._shape_from(first), self._histogram.reshape(-1)

        def add_some(features: tuple[int, int]) -> None:
            for _, own in self._rows:
                add_rows(codes, np.array(features), own, sums, shape)

        _share(add_some, n_features, workers)

    def finish(self, histogram: np.ndarray | None, workers: Workers) -> np.ndarray:
        """Add the histograms to those of other blocks, if given, and return the sum."""
        if histogram is None:
            histogram = self._histogram
        elif self._has_sums[0] or None in self._sums.words:
            histogram += self._histogram
        shape, sums = self._shape_from(0), histogram.reshape(-1)

        def add_up(features: tuple[int, int]) -> None:
            for words, own in zip(self._sums.words, self._of_words, strict=True):
                if words is not None:
                    add_up_words(own, np.array(features), sums, shape)

        _share(
            add_up,
            len(histogram),
            workers if self._words.size >= MIN_SHARED_SUMS else CALLING_THREAD,
        )
        return histogram

    def _shape_from(self, first: int) -> np.ndarray:
        """The ``shape`` of `add_rows`."""
        return np.array([first, *self._histogram.shape[1:]])


def _share(task: Callable[[tuple[int, int]], None], n_features: int, workers: Workers) -> None:
    """Call a function with ranges of features, each in a thread, in which words add together."""
    n_together = -(-n_features // TOGETHER)
    n_threads = min(workers.n_threads, n_together)
    cuts = [min(n_together * i // n_threads * TOGETHER, n_features) for i in range(n_threads + 1)]
    workers.map(task, pairwise(cuts))
