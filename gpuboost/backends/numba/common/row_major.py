"""Row-major codes, for level-wise histograms and for finding the leaf of each row."""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.partition import LAST_CODE, goes_left
from gpuboost.backends.numba.compiler import entry, inlined
from gpuboost.backends.numba.threads.barrier import next_task
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.growth.tree import Tree

LINE = 64  # bytes of a cache line
ROW_MAJOR_CHUNK = 1 << 14  # rows of one task
ROW_MAJOR_BLOCK = 1 << 10  # rows that are transposed, or traverse a tree, together

BINNED_NODE = np.dtype(
    [
        ("feature", np.int32),
        ("child", np.int32),  # left child, which the right child follows; a leaf is its own child
        ("code", np.int32),  # last code that goes left; `LAST_CODE` in a leaf, so all rows stay
        ("category", np.int32),  # row of the masks, or -1
        ("also_left", np.int32),  # the missing code if it goes left, else -1
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
    up to a multiple of 8; the additional columns are zeros.
    """
    n_features, n = codes.shape
    width = -(-n_features // 8) * 8
    space = np.zeros(n * width + LINE, np.uint8)
    first = -space.ctypes.data % LINE
    by_row = space[first : first + n * width].reshape(n, width)
    codes = contiguous(codes, np.uint8)
    pool.share(lambda _, barrier: transpose_codes(codes, by_row, barrier), n > ROW_MAJOR_CHUNK)
    return by_row


@inlined
def _fill_steps(steps, missing_code, feature, code, left, category, missing_left):
    """Fill the `BINNED_NODE` record of each node of a tree."""
    for k in range(steps.size):
        step = steps[k]
        step.feature, step.code, step.child, step.category = 0, LAST_CODE, k, -1
        step.also_left = -1
        if left[k] > 0:
            step.feature, step.child, step.category = feature[k], left[k], category[k]
            step.code, step.also_left = code[k], missing_code if missing_left[k] else -1


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
            is_left = goes_left(code, step.code, None, step.also_left)
            if step.category >= 0:
                is_left = goes_left(code, step.code, masks[step.category], step.also_left)
            leaf[row] = step.child + np.int32(not is_left)


@entry
def traverse(columns, masks, missing_code, depth, by_row, rows, leaf, steps, every, barrier):
    """Fill ``leaf`` (n,) with the leaf of each of ``rows`` (uint32, or empty for all rows).

    Elements of other rows are not changed. ``columns``: feature, code, left, category, missing_left
    of `engine.growth.tree.Tree`; ``depth`` is the depth of the tree. ``steps`` (`BINNED_NODE`, an
    element per node) and ``every`` (uint32, `ROW_MAJOR_BLOCK`) are buffers of the thread.
    """
    feature, code, left, category, missing_left = columns
    _fill_steps(steps, missing_code, feature, code, left, category, missing_left)
    n = rows.size if rows.size else by_row.shape[0]
    chunk = next_task(barrier)
    while chunk * ROW_MAJOR_CHUNK < n:
        last = min((chunk + 1) * ROW_MAJOR_CHUNK, n)
        for start in range(chunk * ROW_MAJOR_CHUNK, last, ROW_MAJOR_BLOCK):
            stop = min(start + ROW_MAJOR_BLOCK, last)
            if rows.size:
                own = rows[start:stop]
            else:
                own = every[: stop - start]
                for i in range(own.size):
                    own[i] = start + i
            _traverse_block(steps, masks, depth, by_row, own, leaf)
        chunk = next_task(barrier)


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
    columns = (
        contiguous(tree.feature, np.int32),
        contiguous(tree.code, np.int16),
        contiguous(tree.left, np.int32),
        contiguous(tree.category, np.int32),
        contiguous(tree.missing_left, np.bool_),
    )
    masks, depth = contiguous(tree.masks, np.uint32), int(tree.depths()[-1])
    given = (columns, masks, missing_code, depth, by_row, rows, leaf)

    def traverse_chunks(_: int, barrier: np.ndarray) -> None:
        buffers = np.empty(tree.node_count, BINNED_NODE), np.empty(ROW_MAJOR_BLOCK, np.uint32)
        traverse(*given, *buffers, barrier)

    pool.share(traverse_chunks, (len(rows) or len(by_row)) > ROW_MAJOR_CHUNK)
