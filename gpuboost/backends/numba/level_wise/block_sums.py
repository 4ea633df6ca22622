"""Passes over chunks of codes, compiled: all threads share the features of a chunk.

There are three ways to add rows to histograms:

    words      one channel: hessian and gradient of a row share a word, made once for each tree;
               words of as many rows are added to partial sums as cannot overflow, and these are
               added to the histogram
    summands   several outputs, signs about medians, or numbers too large for words: what a row adds
               to the sums of a bin, which lie side by side as in `level_wise.channels`
    classes    a row adds its weight to the hessian and to the sum of its class
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.numba.common.packed_words import (
    choose_gradient_packing,
    count_of,
    gradient_of,
    hessian_of,
    pack,
)
from gpuboost.backends.numba.compiler import entry, helper
from gpuboost.backends.numba.intrinsics import add_four
from gpuboost.backends.numba.level_wise.channels import FOUR, cell_size
from gpuboost.backends.numba.level_wise.feature_bundles import BINS
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numpy.blocks.sums import CLOSED, Pending, signed_block
from gpuboost.backends.numpy.rows import RowBlock
from gpuboost.data.binning import parallel
from gpuboost.engine.targets import ClassTarget, MedianTarget, Target, TreeRows, ValueTarget
from gpuboost.engine.task import GrowTask

TOGETHER = 8  # features whose sums are added in one pass over the rows
MAX_PART_ROWS = 1 << 12  # added together, whose codes and words stay in the L2 cache
# With fewer rows, adding words to partial sums and these to the histogram takes longer than adding
# each row to the histogram.
FEW_ROWS = 150
MIN_SHARED = 1 << 16  # rows times features of a chunk from which threads share it


@entry
def pack_words(weight, value, times_weight, packing, word):
    """Set the word of each row; gradients are values, or values times weights."""
    for i in range(word.size):
        hessian = np.int64(weight[i])
        gradient = np.int64(value[i]) * (hessian if times_weight else np.int64(1))
        word[i] = pack(gradient, hessian, packing)


@entry
def choose_rows(node, slot, starts, place, of_row, word):
    """Sort rows by their histograms, keeping their order; those of no histogram come last.

    ``slot`` (m + 1,) is the histogram of each node, after that of closed rows, or the number of
    histograms if there is none; ``starts`` must be zeros, one for each histogram and two more.
    ``word`` is set to the words ``of_row`` of the sorted rows; both can be empty.
    """
    n, one, has_words = np.uint64(node.size), np.uint64(1), of_row.size > 0
    for i in range(n):
        starts[np.uint64(slot[np.uint64(node[i] + 1)]) + one] += 1
    for s in range(1, starts.size):
        starts[s] += starts[s - 1]
    for i in range(n):
        s = np.uint64(slot[np.uint64(node[i] + 1)])
        at = np.uint64(starts[s])
        place[at] = i
        if has_words:
            word[at] = of_row[i]
        starts[s] += 1
    for s in range(starts.size - 1, 0, -1):
        starts[s] = starts[s - 1]
    starts[0] = 0


@helper
def _add_words(codes, features, rows, own, partial):
    """Add words of rows to partial sums of some features."""
    place, word = own.place, own.word
    for i in range(np.uint64(rows[0]), np.uint64(rows[1])):
        row, added, at = np.uint64(place[i]), word[i], np.uint64(0)
        for f in range(np.uint64(features[0]), np.uint64(features[1])):
            partial[at + np.uint64(codes[f, row])] += added
            at += np.uint64(BINS)


@helper
def _flush(partial, n_features, packing, sums, base, width, size):
    """Add partial sums of words to the histograms, and zero them.

    ``base`` is as in `_add_summands`.
    """
    at, first = np.uint64(base[0]), np.uint64(0)
    for _ in range(n_features):
        for code in range(np.uint64(width)):
            own, cell = partial[first + code], at + code * np.uint64(size)
            partial[first + code] = 0
            sums[cell] += hessian_of(own, packing)
            sums[cell + np.uint64(1)] += gradient_of(own, packing)
            if packing.count_mask > 0:
                sums[cell + np.uint64(2)] += count_of(own, packing)
        at += np.uint64(base[1])
        first += np.uint64(BINS)


@helper
def _add_few_words(codes, features, rows, own, sums, base, size):
    """Add words of rows to bins of some features; ``base`` as in `_add_summands`."""
    place, word, packing = own.place, own.word, own.packing
    for i in range(rows[0], rows[1]):
        row, at = np.uint64(place[i]), base[0]
        hessian, gradient = hessian_of(word[i], packing), gradient_of(word[i], packing)
        for f in range(features[0], features[1]):
            cell = np.uint64(at + np.int64(codes[f, row]) * size)
            sums[cell] += hessian
            sums[cell + np.uint64(1)] += gradient
            if packing.count_mask > 0:
                sums[cell + np.uint64(2)] += 1
            at += base[1]


@helper
def _add_summands(codes, features, rows, own, sums, base, size):
    """Add rows to bins of some features; ``base`` is the first bin, and the distance of features.

    If a bin has several outputs, four of its sums are added by one instruction.
    """
    place, summands = own.place, own.summands
    for i in range(rows[0], rows[1]):
        row, at = np.uint64(place[i]), base[0]
        for f in range(features[0], features[1]):
            cell = at + np.int64(codes[f, row]) * size
            if size % FOUR == 0:
                for first in range(0, size, FOUR):
                    add_four(sums, cell + first, summands, i, first)
            else:
                for p in range(size):
                    sums[cell + p] += summands[i, p]
            at += base[1]


@helper
def _add_classes(codes, features, rows, own, sums, base, size):
    """Add rows of several classes to bins of some features; ``base`` as in `_add_summands`."""
    place, hessian, label, counted = own.place, own.hessian, own.label, own.counted
    for i in range(rows[0], rows[1]):
        row, at, weight = np.uint64(place[i]), base[0], hessian[i]
        for f in range(features[0], features[1]):
            cell = np.uint64(at + np.int64(codes[f, row]) * size)
            sums[cell] += weight
            sums[cell + np.uint64(1 + label[i])] += weight
            sums[cell + np.uint64(counted)] += np.int64(counted > 0)
            at += base[1]


@helper
def _add_part(codes, some, rows, own, sums, base, shape, partial):
    """Add some rows of one histogram to the bins of some features."""
    width, size = shape[2], shape[3]
    if own.label.size:
        _add_classes(codes, some, rows, own, sums, base, size)
    elif own.word.size == 0:
        _add_summands(codes, some, rows, own, sums, base, size)
    elif rows[1] - rows[0] < FEW_ROWS:
        _add_few_words(codes, some, rows, own, sums, base, size)
    else:
        _add_words(codes, some, rows, own, partial)
        _flush(partial, some[1] - some[0], own.packing, sums, base, width, size)


@entry
def add_rows(codes, features, own, sums, shape, partial):
    """Add `PreparedRows` to the histograms of a range of the features of a chunk.

    ``sums`` are all histograms, and ``shape`` (4,) has the first feature, and the numbers of
    histograms, bins and sums of a bin. ``partial`` (TOGETHER * BINS,) must be zeros, and is.
    """
    first, n_slots, starts, distance = shape[0], shape[1], own.starts, shape[2] * shape[3]
    for start in range(features[0], features[1], TOGETHER):
        some = start, min(start + TOGETHER, features[1])
        for slot in range(starts.size - 1):
            base = ((first + start) * n_slots + slot) * distance, n_slots * distance
            for part in range(starts[slot], starts[slot + 1], own.part_rows):
                rows = part, min(part + own.part_rows, starts[slot + 1])
                _add_part(codes, some, rows, own, sums, base, shape, partial)


@entry
def send_rows(codes, column, step, node, count):
    """Replace the nodes of rows by their children, and count these rows."""
    for i in range(node.size):
        own = node[i]
        if own >= 0:
            at, child = column[own], np.int32(CLOSED)
            if at >= 0:
                child = step[own, codes[at, i]]
                count[child] += 1
            node[i] = child


@entry
def add_leaf_rows(node, place, classes, weight, wide, sums):
    """Add the rows of leaves to their sums, as `BlockSums.add_leaves`."""
    for i in range(node.size):
        leaf = place[np.int64(node[i]) + 1]
        if leaf >= 0:
            leaf += np.int64(classes[i]) if classes.size else np.int64(0)
            factor = np.int64(weight[i]) if weight.size else np.int64(1)
            for p in range(sums.shape[1]):
                sums[leaf, p] += factor * wide[i, p]


@entry
def set_leaves(node, number, found):
    """Set the leaves of rows that are in one, as `BlockSums.record_leaves`."""
    for i in range(node.size):
        leaf = number[np.int64(node[i]) + 1]
        if leaf >= 0:
            found[i] = leaf


class PreparedRows(NamedTuple):
    """`ChunkRows` in the form that `add_rows` takes.

    Attributes
    ----------
    place, starts : uint32 (r,), int64 (slots + 1,)
    word : int64 (r,), or (0,) if rows are not added as words
    packing : reference to Packing
    part_rows : int
        Number of rows that are added together; sums of as many words do not overflow.
    summands : int64 (r, s), or (0, 4) for several classes
        What each row adds to the sums of a bin.
    hessian, label : int64 (r,), or (0,) without several classes
    counted : int
        For several classes, index of the count among the sums of a bin; 0 if there is none.
    """

    place: np.ndarray
    starts: np.ndarray
    word: np.ndarray = np.zeros(0, np.int64)
    packing: Reference = by_reference(choose_gradient_packing(1, 1, False))
    part_rows: int = MAX_PART_ROWS
    summands: np.ndarray = np.zeros((0, FOUR), np.int64)
    hessian: np.ndarray = np.zeros(0, np.int64)
    label: np.ndarray = np.zeros(0, np.int64)
    counted: int = 0


class TreeWords(NamedTuple):
    """The words of the rows of a tree.

    Attributes
    ----------
    word : int64 (n,)
    packing : reference to Packing
    part_rows : int
        As in `PreparedRows`.
    """

    word: np.ndarray
    packing: Reference
    part_rows: int


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
    return TreeWords(word, reference, min(packing.block, MAX_PART_ROWS))


class CompiledBlockSums:
    """`numpy.blocks.sums.BlockSums` in compiled code, on several threads."""

    def __init__(self, task: GrowTask, tree_rows: Sequence[TreeRows]) -> None:
        self._target, self._tree_rows = task.target, tree_rows
        self._counted = task.options.min_samples_leaf > 1
        self._words = [_words_of(task.target, rows, self._counted) for rows in tree_rows]
        n_channels = task.target.n_channels
        self.cell = 2 + self._counted if n_channels == 1 else cell_size(n_channels, self._counted)

    def rows_of(
        self,
        tree: int,
        rows: slice,
        node: np.ndarray,
        slot: np.ndarray,
        n_slots: int,
        signs: np.ndarray | None,
    ) -> tuple[int, Reference] | None:
        """The number of rows, and the rows as `PreparedRows`."""
        words, none = self._words[tree], np.zeros(0, np.int64)
        starts, place = np.zeros(n_slots + 2, np.int64), np.empty(len(node), np.uint32)
        of_row = none if words is None else words.word[rows]
        word = np.empty_like(of_row)
        of_node = np.append(n_slots, np.where(slot >= 0, slot, n_slots))
        choose_rows(contiguous(node, np.int32), of_node, starts, place, of_row, word)
        n, starts = int(starts[-2]), starts[:-1]
        if not n:
            return None
        chosen: dict[str, Any] = {"place": place[:n], "starts": starts}
        if words is not None:
            chosen |= {"word": word[:n], "packing": words.packing, "part_rows": words.part_rows}
        else:
            block = signed_block(self._target, self._tree_rows[tree], rows, place[:n], signs)
            chosen |= self._columns_of(block)
        return n, by_reference(PreparedRows(**chosen))

    def _columns_of(self, block: RowBlock) -> dict[str, np.ndarray | int]:
        """The fields of `PreparedRows` for rows that are not added as words."""
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

    def add(
        self,
        codes: np.ndarray,
        first: int,
        rows: Sequence[tuple[int, Reference]],
        histogram: np.ndarray,
        n_threads: int,
    ) -> None:
        """Add the rows of all trees to the histograms of a chunk's features."""
        n_features, n_rows = len(codes), sum(n for n, _ in rows)
        n_threads = min(n_threads, n_features)
        if n_rows * n_features < MIN_SHARED:
            n_threads = 1
        cuts = [n_features * i // n_threads for i in range(n_threads + 1)]
        shape, sums = np.array([first, *histogram.shape[1:]]), histogram.reshape(-1)

        def add_some(features: tuple[int, int]) -> None:
            partial = np.zeros(TOGETHER * BINS, np.int64)
            for _, own in rows:
                add_rows(codes, np.array(features), own, sums, shape, partial)

        parallel(add_some, pairwise(cuts), n_threads)

    def route(
        self, codes: np.ndarray, pending: Pending, node: np.ndarray, count: np.ndarray
    ) -> None:
        """Replace the nodes of rows by their children."""
        send_rows(codes, pending.feature, pending.step, node, count)

    def add_leaves(
        self,
        node: np.ndarray,
        place: np.ndarray,
        classes: np.ndarray,
        weight: np.ndarray,
        wide: np.ndarray,
        sums: np.ndarray,
    ) -> None:
        """Add the rows of leaves to their sums."""
        classes, weight = (contiguous(own, np.int32) for own in (classes, weight))
        add_leaf_rows(node, place, classes, weight, contiguous(wide, np.int64), sums)

    def record_leaves(self, node: np.ndarray, number: np.ndarray, found: np.ndarray) -> None:
        """Set the leaves of rows that are in one."""
        set_leaves(node, number, found)
