"""Sparse histograms: sums of the bins that hold rows, for one feature of each node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.backends.numpy.rows import RowBlock, gradient_sums

# With at most this many histogram cells per row, a dense histogram is faster than sorting the rows.
DENSE_CELLS_PER_ROW = 16


@dataclass(frozen=True)
class CodeGroups:
    """Sums over the rows of a node that have the same code, sorted by node and code (missing last).

        node   0  0  0 | 1  1 | 3  3  3  3
        code   2  5  M | 0  7 | 1  2  8  M
        first  0         3      5            first group of each node that has rows

    ``first`` is not stored. If rows are not counted, groups of weight 0 can be left out.

    Attributes
    ----------
    node, code : int64 (m,)
        Node and code that the rows of the group have in common.
    hessian, count : int64 (m,)
        Sum of the weights, and number of rows (0 if rows are not counted).
    gradient : int64 (m, K)
        Sums of the gradients, or of the weights of each class if there are more than two.
    """

    node: np.ndarray
    code: np.ndarray
    hessian: np.ndarray
    count: np.ndarray
    gradient: np.ndarray

    def take(self, at: np.ndarray) -> CodeGroups:
        """The groups at the given positions."""
        return CodeGroups(*(column[at] for column in vars(self).values()))


def group_rows(
    rows: RowBlock, node: np.ndarray, code: np.ndarray, shape: tuple[int, int, int], counted: bool
) -> CodeGroups:
    """Group rows by node and code, from a dense histogram or by sorting, whichever is faster.

    Parameters
    ----------
    rows : RowBlock
        The r rows.
    node, code : int64 (r,)
        Node and code of each row; ``node`` is in ascending order.
    shape : (int, int, int)
        Number of nodes, of codes of a feature, and of channels.
    counted : bool
        Whether to count rows; counts are 0 otherwise.
    """
    n_nodes, width, n_channels = shape
    key = node * width + code
    per_class = n_channels if rows.gradient is None else 1
    if n_nodes * width * per_class <= DENSE_CELLS_PER_ROW * len(key):
        return dense_groups(dense_histogram(rows, key, shape, counted), counted)
    return _sorted_groups(rows, key, shape, counted)


def dense_histogram(
    rows: RowBlock, key: np.ndarray, shape: tuple[int, int, int], counted: bool
) -> np.ndarray:
    """Histogram of rows, int64 (P, nodes, width); ``key`` (r,) = node * width + code.

    The P planes are the hessian, K gradients (for more than two classes, the weights of the
    classes) and, if ``counted``, the count.
    """
    n_nodes, width, n_channels = shape
    cells = n_nodes * width
    planes = np.zeros((1 + n_channels + counted, cells), dtype=np.int64)
    if rows.gradient is None:
        by_class = np.zeros(cells * n_channels, dtype=np.int64)
        np.add.at(by_class, key * n_channels + rows.label, rows.hessian)
        planes[1 : 1 + n_channels] = by_class.reshape(cells, n_channels).T
        planes[0] = planes[1 : 1 + n_channels].sum(axis=0)
    else:
        np.add.at(planes[0], key, rows.hessian)
        for k in range(n_channels):
            np.add.at(planes[1 + k], key, rows.gradient[:, k])
    if counted:
        planes[-1] = np.bincount(key, minlength=cells)
    return planes.reshape(-1, n_nodes, width)


def dense_groups(histogram: np.ndarray, counted: bool) -> CodeGroups:
    """The groups of a histogram, (P, nodes, width).

    They are its cells that hold rows or, if rows are not counted, its cells of positive weight.
    """
    n_planes, _, width = histogram.shape
    planes = histogram.reshape(n_planes, -1)
    holds = planes[0] != 0
    used = np.flatnonzero(holds | (planes[-1] != 0) if counted else holds)
    node, found = used // width, planes[:, used]
    count = found[-1] if counted else np.zeros_like(used)
    gradient = found[1:-1] if counted else found[1:]
    return CodeGroups(node, used - node * width, found[0], count, gradient.T)


def _sorted_groups(
    rows: RowBlock, key: np.ndarray, shape: tuple[int, int, int], counted: bool
) -> CodeGroups:
    """`group_rows` by sorting, for many nodes with few rows."""
    _, width, n_channels = shape
    place = np.arange(len(key), dtype=np.uint64)
    packed = np.sort((key.astype(np.uint64) << np.uint64(32)) | place)
    key = (packed >> np.uint64(32)).astype(np.int64)
    rows = rows.take((packed & np.uint64(0xFFFFFFFF)).astype(np.int64))
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    hessian = np.add.reduceat(rows.hessian, starts)
    sizes = np.diff(starts, append=len(key))
    if rows.gradient is not None:
        gradient = np.add.reduceat(rows.gradient, starts, axis=0)
    else:
        gradient = gradient_sums(rows, starts, sizes, n_channels)
    key = key[starts]
    node = key // width
    count = sizes if counted else np.zeros_like(sizes)
    return CodeGroups(node, key - node * width, hessian, count, gradient)
