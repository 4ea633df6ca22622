"""Row-major codes, for level-wise histograms and for finding the leaf of each row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.partition import LAST_CODE, goes_left, shift_of
from gpuboost.backends.numba.common.records import LINE
from gpuboost.backends.numba.compiler import entry, inlined
from gpuboost.backends.numba.references import by_reference
from gpuboost.backends.numba.threads.barrier import next_task
from gpuboost.backends.numba.threads.commands import SharedFunction
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.growth.tree import Tree

MIN_COLUMNS = 4  # for row-major codes of small nodes, of which a row takes at least 8 bytes
ROW_MAJOR_CHUNK = 1 << 14  # rows of one task
ROW_MAJOR_BLOCK = 1 << 10  # rows that are transposed, or traverse a tree, together

BINNED_NODE = np.dtype(
    [
        ("feature", np.int32),
        ("child", np.int32),  # left child, which the right child follows; a leaf is its own child
        ("code", np.int32),  # last shifted code that goes left; `LAST_CODE` in a leaf, so all stay
        ("category", np.int32),  # row of the masks, or -1
        ("shift", np.int32),  # see `partition.shift_of`
    ],
    align=True,
)


@entry
def transpose_codes(codes, by_row, barrier):
    """Fill the first F columns of ``by_row`` (n, width) from ``codes`` (F, n)."""
    n_features, n = codes.shape
    chunk = next_task(barrier)
    while chunk * ROW_MAJOR_CHUNK < n:
        last = min((chunk + 1) * ROW_MAJOR_CHUNK, n)
        for start in range(chunk * ROW_MAJOR_CHUNK, last, ROW_MAJOR_BLOCK):
            stop = min(start + ROW_MAJOR_BLOCK, last)
            for feature in range(n_features):
                for row in range(start, stop):
                    by_row[row, feature] = codes[feature, row]
        chunk = next_task(barrier)


def row_major(codes: np.ndarray, pool: ThreadPool) -> np.ndarray:
    """Row-major codes, uint8 (n, width), the first row at the start of a cache line.

    ``codes`` is (columns, n), for features or feature bundles. The width is their number, rounded
    up to a multiple of 8, and to whole cache lines if these are at most an eighth more, so that a
    tile of columns is one line. Rows of a multiple of 8 lines, which would compete for few sets of
    the L1 cache, get another one. The additional columns are zeros.
    """
    n_features, n = codes.shape
    width = -(-n_features // 8) * 8
    padding = -width % LINE
    if 8 * padding <= width:
        width += padding + LINE * ((width + padding) % (8 * LINE) == 0)
    space = np.zeros(n * width + LINE, np.uint8)
    first = -space.ctypes.data % LINE
    by_row = space[first : first + n * width].reshape(n, width)
    codes = contiguous(codes, np.uint8)
    pool.share(lambda barrier: transpose_codes(codes, by_row, barrier), n > ROW_MAJOR_CHUNK)
    return by_row


def pays_for_small_nodes(shape: tuple[int, int], max_depth: int) -> bool:
    """Whether trees of this depth grow faster with `Matrix.by_row`, for codes (columns, n).

    Nodes that read it have at most a `LINE`-th of the rows (`feature_codes`), as few nodes of
    shallow trees do. The codes of a row must fit a cache line, and fill at least half of the row.
    """
    n_columns, n = shape
    return n >= LINE and max_depth >= LINE.bit_length() and MIN_COLUMNS <= n_columns <= LINE


@inlined
def _fill_steps(steps, missing_code, feature, code, left, category, missing_left):
    """Fill the `BINNED_NODE` record of each node of a tree."""
    for k in range(steps.size):
        step = steps[k]
        step.feature, step.code, step.child, step.category = 0, LAST_CODE, k, -1
        step.shift = 0
        if left[k] > 0:
            step.feature, step.child, step.category = feature[k], left[k], category[k]
            step.shift = shift_of(missing_code, missing_left[k])
            step.code = code[k] + step.shift


@inlined
def _traverse_block(steps, masks, depth, by_row, rows, leaf):
    """Find the leaves of some rows, one level at a time."""
    for i in range(rows.size):
        leaf[rows[i]] = 0
    for _ in range(depth):
        for i in range(np.uint64(rows.size)):
            row = np.uint64(rows[i])
            step = steps[leaf[row]]
            code = by_row[row, np.uint64(step.feature)]
            is_left = goes_left(code, step.code, None, step.shift)
            if step.category >= 0:
                is_left = goes_left(code, step.code, masks[step.category], step.shift)
            leaf[row] = step.child + np.int32(not is_left)


class Traversal(NamedTuple):
    """The arguments of `traverse`.

    Attributes
    ----------
    feature, code, left, category, missing_left
        As in `engine.growth.tree.Tree`.
    masks : uint32 (c, 8)
        Masks of categorical splits.
    missing_code, depth : int
        Code of missing values, and depth of the tree.
    by_row : uint8 (n, width)
        Row-major codes.
    rows : uint32 (m,) or (0,)
        The rows whose leaves are found; none for all rows.
    leaf : int32 (n,)
        Leaf of each row; elements of other rows are not changed.
    steps : BINNED_NODE (threads, nodes)
        Buffer.
    every : uint32 (threads, `ROW_MAJOR_BLOCK`)
        Buffer.
    """

    feature: np.ndarray
    code: np.ndarray
    left: np.ndarray
    category: np.ndarray
    missing_left: np.ndarray
    masks: np.ndarray
    missing_code: int
    depth: int
    by_row: np.ndarray
    rows: np.ndarray
    leaf: np.ndarray
    steps: np.ndarray
    every: np.ndarray


def traverse(given, barrier):
    """Find the leaves of rows, taking chunks until none is left."""
    steps, rows = given.steps[barrier.thread], given.rows
    columns = given.feature, given.code, given.left, given.category, given.missing_left
    _fill_steps(steps, given.missing_code, *columns)
    n = rows.size if rows.size else given.by_row.shape[0]
    chunk = next_task(barrier)
    while chunk * ROW_MAJOR_CHUNK < n:
        last = min((chunk + 1) * ROW_MAJOR_CHUNK, n)
        for start in range(chunk * ROW_MAJOR_CHUNK, last, ROW_MAJOR_BLOCK):
            stop = min(start + ROW_MAJOR_BLOCK, last)
            if rows.size:
                own = rows[start:stop]
            else:
                own = given.every[barrier.thread, : stop - start]
                for i in range(own.size):
                    own[i] = start + i
            _traverse_block(steps, given.masks, given.depth, given.by_row, own, given.leaf)
        chunk = next_task(barrier)


TRAVERSE = SharedFunction(traverse)


def find_leaves(
    tree: Tree,
    by_row: np.ndarray,
    missing_code: int,
    rows: np.ndarray,
    leaf: np.ndarray,
    pool: ThreadPool,
) -> None:
    """Fill ``leaf``, int32 (n,), with the leaf of each of ``rows`` (uint32, empty for all rows).

    ``by_row`` is the result of `row_major` for the codes of features, not of feature bundles.
    """
    given = Traversal(
        feature=contiguous(tree.feature, np.int32),
        code=contiguous(tree.code, np.int16),
        left=contiguous(tree.left, np.int32),
        category=contiguous(tree.category, np.int32),
        missing_left=contiguous(tree.missing_left, np.bool_),
        masks=contiguous(tree.masks, np.uint32),
        missing_code=int(missing_code),
        depth=int(tree.depths()[-1]),
        by_row=by_row,
        rows=rows,
        leaf=leaf,
        steps=np.empty((pool.n_threads, tree.node_count), BINNED_NODE),
        every=np.empty((pool.n_threads, ROW_MAJOR_BLOCK), np.uint32),
    )
    pool.run(TRAVERSE, by_reference(given), (len(rows) or len(by_row)) // ROW_MAJOR_CHUNK)
