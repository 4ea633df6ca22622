"""Passes over chunks of codes, compiled: all threads share the features of a chunk."""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gpuboost.backends.compiling import worker_threads
from gpuboost.backends.numba.compiler import entry, helper
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numpy.blocks.sums import CLOSED, ChunkRows

TOGETHER = 8  # features whose sums are added in one pass over the rows; their bins fit the L1 cache
MIN_SHARED = 1 << 16  # rows times features of a chunk from which threads share it
_NO_GRADIENT, _NO_LABEL = np.zeros((0, 0), np.int64), np.zeros(0, np.int64)


@entry
def choose_rows(node, slot, starts, place):
    """Sort the rows of histograms by these, keeping their order; ``starts`` must be zeros."""
    for i in range(node.size):
        if node[i] >= 0 and slot[node[i]] >= 0:
            starts[slot[node[i]] + 1] += 1
    for s in range(1, starts.size):
        starts[s] += starts[s - 1]
    for i in range(node.size):
        if node[i] >= 0 and slot[node[i]] >= 0:
            s = slot[node[i]]
            place[starts[s]] = i
            starts[s] += 1
    for s in range(starts.size - 1, 0, -1):
        starts[s] = starts[s - 1]
    starts[0] = 0


@helper
def _add_values(codes, features, rows, place, hessian, gradient, histogram, at):
    """Add the rows of one histogram, with gradients, for some features."""
    first, slot = at
    n_channels = gradient.shape[1]
    counted = histogram.shape[3] > 1 + n_channels
    for i in range(rows[0], rows[1]):
        row, own = np.uint64(place[i]), hessian[i]
        for f in range(features[0], features[1]):
            code = np.uint64(codes[f, row])
            histogram[first + f, slot, code, 0] += own
            for k in range(n_channels):
                histogram[first + f, slot, code, 1 + k] += gradient[i, k]
            if counted:
                histogram[first + f, slot, code, 1 + n_channels] += 1


@helper
def _add_classes(codes, features, rows, place, hessian, label, histogram, at):
    """Add the rows of one histogram, with classes, for some features."""
    first, slot, counted = at
    n_planes = histogram.shape[3]
    for i in range(rows[0], rows[1]):
        row, own = np.uint64(place[i]), hessian[i]
        for f in range(features[0], features[1]):
            code = np.uint64(codes[f, row])
            histogram[first + f, slot, code, 0] += own
            histogram[first + f, slot, code, 1 + label[i]] += own
            if counted:
                histogram[first + f, slot, code, n_planes - 1] += 1


@entry
def add_rows(codes, features, starts, place, hessian, gradient, label, counted, histogram, first):
    """Add rows to the histograms of a range of the features of a chunk."""
    for start in range(features[0], features[1], TOGETHER):
        some = start, min(start + TOGETHER, features[1])
        for slot in range(starts.size - 1):
            rows = starts[slot], starts[slot + 1]
            if label.size:
                at = first, slot, counted
                _add_classes(codes, some, rows, place, hessian, label, histogram, at)
            else:
                at = first, slot
                _add_values(codes, some, rows, place, hessian, gradient, histogram, at)


@entry
def send_rows(codes, column, step, node):
    """Replace the nodes of rows by their children, as `BlockSums.route`."""
    for i in range(node.size):
        own = node[i]
        if own >= 0:
            at = column[own]
            node[i] = step[own, codes[at, i]] if at >= 0 else CLOSED


class CompiledBlockSums:
    """`numpy.block_sums.BlockSums` in compiled code, on several threads."""

    def __init__(self, n_channels: int, n_threads: int) -> None:
        self._n_channels, self._n_threads = n_channels, n_threads

    def choose(
        self, node: np.ndarray, slot: np.ndarray, n_slots: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows of each histogram."""
        starts, place = np.zeros(n_slots + 1, np.int64), np.empty(len(node), np.uint32)
        choose_rows(node, slot, starts, place)
        return place[: starts[-1]], starts

    def add(
        self, codes: np.ndarray, first: int, rows: Sequence[ChunkRows], histogram: np.ndarray
    ) -> None:
        """Add the rows of all trees to the histograms of a chunk's features."""
        n_features, n_rows = len(codes), sum(len(own.place) for own in rows)
        n_threads = min(self._n_threads, n_features)
        if n_rows * n_features < MIN_SHARED:
            n_threads = 1
        cuts = [n_features * i // n_threads for i in range(n_threads + 1)]
        counted = histogram.shape[3] > 1 + self._n_channels

        def add_some(features: tuple[int, int]) -> None:
            for own in rows:
                block = own.block
                gradient = _NO_GRADIENT if block.gradient is None else block.gradient
                label = _NO_LABEL if block.label is None else block.label
                values = contiguous(gradient, np.int64), contiguous(label, np.int64)
                given = own.starts, own.place, block.hessian, *values, counted
                add_rows(codes, np.array(features), *given, histogram, first)

        parts = list(pairwise(cuts))
        if n_threads == 1:
            add_some(parts[0])
            return
        with worker_threads(n_threads) as pool:
            list(pool.map(add_some, parts))

    def route(
        self, codes: np.ndarray, column: np.ndarray, step: np.ndarray, node: np.ndarray
    ) -> None:
        """Replace the nodes of rows by their children."""
        send_rows(codes, column, step, node)
