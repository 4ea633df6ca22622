"""Sums of trees of many classes, as `SparseRows`: most nodes have rows of few classes.

A buffer is filled from its end, from the last node to the first. Nodes are in breadth-first order,
so both children of a node are written before the node. The entries of a node are in ascending order
of the classes, so those of two children are merged:

    |  free  | node i | node i + 1 | ... | left child | right child | ... | node m - 1 |
             ^ start[i]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.packed_words import gradient_of, hessian_of
from gpuboost.backends.numba.compiler import entry, inlined
from gpuboost.backends.numba.splits.channels import CHANNEL_PACKING, sort_present
from gpuboost.engine.sparse_rows import SparseRows
from gpuboost.engine.targets import Target

# Sums are sparse if nodes have rows of one in `SPARSE_FROM` classes, or fewer, on average. Without
# sparse sums, a forest of 10k x 10 with 1,000 classes takes 3.3 times as long.
SPARSE_FROM = 8


class ClassEntries(NamedTuple):
    """Buffers for z entries of m nodes, with P sums each, and for the classes of one leaf.

    P is 1 for integer weights; otherwise each class has a sum for each plane of the weights.

    Attributes
    ----------
    start : int64 (m + 1,)
        Where the entries of each node start, and the end of the last node's.
    column : int32 (z,)
        Class of each entry.
    sums : int64 (z, P)
        Sums of each entry, initially zero.
    present, mark : int64 (K,)
        Classes of the leaf, and for each of these 1 + its place in ``present``; the marks are zero
        between leaves.
    """

    start: np.ndarray
    column: np.ndarray
    sums: np.ndarray
    present: np.ndarray
    mark: np.ndarray


def class_entries(nodes: np.ndarray, target: Target, n_sums: int) -> ClassEntries | None:
    """Buffers for the sums of the nodes of a tree; None if its sums are not sparse.

    ``n_sums`` is the number of sums of a node: P for each class.
    """
    if not target.is_multiclass:
        return None
    m, n_classes = len(nodes), target.n_classes
    n_entries = int(np.minimum(nodes["count"], n_classes).sum())
    if n_entries * SPARSE_FROM > m * n_classes:
        return None
    return ClassEntries(
        start=np.empty(m + 1, np.int64),
        column=np.empty(n_entries, np.int32),
        sums=np.zeros((n_entries, n_sums // n_classes), np.int64),
        present=np.empty(n_classes, np.int64),
        mark=np.zeros(n_classes, np.int64),
    )


def sparse_sums(entries: ClassEntries, first: int) -> SparseRows:
    """The sums in filled buffers; ``first`` is the result of `sum_classes`."""
    column, sums = entries.column[first:].copy(), entries.sums[first:].copy()
    return SparseRows(entries.start - first, column, sums, len(entries.mark))


@entry
def sum_classes(targets, rows, tree, columns, entries):
    """Fill ``entries`` (`ClassEntries`) of a grown tree; return the place of the first entry.

    The other arguments are those of `grow.collect`.
    """
    start, last = entries.start, columns.order.size
    start[last] = entries.column.size
    for i in range(last - 1, -1, -1):
        left = columns.left[i]
        if left > 0:
            start[i] = _merge(entries, left, start[i + 1])
        else:
            node = tree.nodes[columns.order[i]]
            start[i] = _add_leaf(entries, node, targets, rows, start[i + 1])
    return start[0]


@inlined
def _merge(entries, left, to):
    """Write the sums of two siblings, added up, before entry ``to``; return the first entry."""
    start, column, sums = entries.start, entries.column, entries.sums
    first, second, third = start[left], start[left + 1], start[left + 2]
    a, b = second - 1, third - 1
    while a >= first or b >= second:
        of_a = column[a] if a >= first else np.int32(-1)
        of_b = column[b] if b >= second else np.int32(-1)
        to -= 1
        column[to] = max(of_a, of_b)
        for plane in range(sums.shape[1]):
            of_left = sums[a, plane] if of_a >= of_b else np.int64(0)
            of_right = sums[b, plane] if of_b >= of_a else np.int64(0)
            sums[to, plane] = of_left + of_right
        a, b = a - np.int64(of_a >= of_b), b - np.int64(of_b >= of_a)
    return to


@inlined
def _add_leaf(entries, node, targets, rows, to):
    """Write the sums of a leaf before entry ``to``; return the place of the first entry."""
    mark, wide, stop = entries.mark, targets.wide, node.start + node.count
    first = _list_classes(entries, rows.word[node.start : stop], to)
    for j in range(node.start, stop):
        word, weight = rows.word[j], hessian_of(rows.word[j], CHANNEL_PACKING)
        at = first + mark[gradient_of(word, CHANNEL_PACKING)] - 1
        if wide.shape[1] == 0:
            entries.sums[at, 0] += weight
        for plane in range(wide.shape[1]):
            factor = weight if targets.draws else np.int64(1)
            entries.sums[at, plane] += wide[rows.row[j], plane] * factor
    for p in range(to - first):
        mark[entries.present[p]] = 0
    return first


@inlined
def _list_classes(entries, words, to):
    """List the classes of a leaf before entry ``to``, and mark them; return the first place."""
    present, mark, n = entries.present, entries.mark, 0
    for i in range(words.size):
        label = gradient_of(words[i], CHANNEL_PACKING)
        if mark[label] == 0:
            mark[label], present[n] = 1, label
            n += 1
    sort_present(present, n, mark)
    for p in range(n):
        mark[present[p]], entries.column[to - n + p] = 1 + p, present[p]
    return to - n
