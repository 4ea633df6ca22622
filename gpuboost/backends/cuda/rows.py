"""The rows of a batch of trees on the device, and the primitives that move or sum them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.source import constant
from gpuboost.backends.cuda.work import Work, cut
from gpuboost.engine.children import children_of
from gpuboost.engine.frontier import Frontier, Splits
from gpuboost.engine.sampling import root_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuboost.backends.cuda.matrix import DeviceMatrix
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.spec import GrowTask, TreeRows

CHUNK_ROWS = 1024  # rows of a block that sums or moves them
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class DeviceRows:
    """Rows of the open nodes, those of a node side by side.

    Attributes
    ----------
    row : uint32 (r,)
        Row of the binned matrix.
    weight : uint32 (r,)
        Integer weight.
    target : int32 (C, r)
        The quantised values of each output; for two classes whether it is the second; else the
        class.
    """

    row: Array
    weight: Array
    target: Array

    def __len__(self) -> int:
        return len(self.row)


class RowKernels:
    """Roots, purity, leaf sums and partition of `gpuboost.engine.level_loop.LevelOps`."""

    def __init__(self, runtime: Runtime, task: GrowTask, matrix: DeviceMatrix) -> None:
        self.runtime = runtime
        self.task = task
        self.matrix = matrix
        self.xp: Any = runtime.xp
        self.by_class = task.target.classes is not None
        self.n_channels = task.target.n_channels
        self.tree_rows: list[TreeRows] = []
        self._target = runtime.asarray(self._target_columns())
        self._target_wide = self._upload([task.target.wide])
        self._wide = self._target_wide  # what leaf values are summed from: (1 or trees, n, P)

    def to_host(self, array: Array) -> np.ndarray:
        """Copy to a NumPy array."""
        return self.runtime.to_host(array)

    def _target_columns(self) -> np.ndarray:
        target = self.task.target
        if target.values is not None:
            return np.ascontiguousarray(target.values.T)
        assert target.classes is not None
        label = target.classes if self.n_channels > 1 else target.classes == 1
        return label.astype(np.int32)[None]

    def roots(self, trees: Sequence[int]) -> tuple[DeviceRows, Frontier]:
        """Rows and root nodes of a batch of trees."""
        xp, runtime = self.xp, self.runtime
        self.tree_rows = [self.task.rows_of(tree) for tree in trees]
        self._wide = self._upload([tree.wide for tree in self.tree_rows])
        if self._wide is None:
            self._wide = self._target_wide
        parts = [self._rows_of(tree) for tree in self.tree_rows]
        rows = DeviceRows(
            xp.concatenate([part.row for part in parts]),
            xp.concatenate([part.weight for part in parts]),
            xp.ascontiguousarray(xp.concatenate([part.target for part in parts], axis=1)),
        )
        count = runtime.asarray(np.array([len(part) for part in parts], dtype=np.int64))
        start = xp.cumsum(count) - count
        hessian, gradient = self._node_sums(rows, start, count)
        keys = np.array([root_key(self.task.seed, tree) for tree in trees], dtype=np.uint64)
        tree = xp.arange(len(trees), dtype=xp.int32)
        return rows, Frontier(tree, runtime.asarray(keys), start, count, hessian, gradient)

    def _rows_of(self, tree: TreeRows) -> DeviceRows:
        xp = self.xp
        row = xp.flatnonzero(self.runtime.asarray(tree.mask))
        weight = self.runtime.asarray(tree.weight)[row]
        target = xp.ascontiguousarray(self._target[:, row])
        return DeviceRows(row.astype(xp.uint32), weight.astype(xp.uint32), target)

    def _upload(self, tables: list[np.ndarray | None]) -> Array:
        """Tables of leaf-sum columns as int64 (len(tables), n, P); None if there are none."""
        given = [table for table in tables if table is not None]
        return self.runtime.asarray(np.stack(given)) if given else None

    def _sum(self, name: str, work: Work, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        """Launch a kernel of sums.cu over a work list."""
        if len(work):
            kernel = self.runtime.kernel("sums.cu", name, {})
            threads = constant("sums.cu", "SUMS_THREADS")
            kernel((len(work),), (threads,), (*before, work.slot, work.first, work.rows, *after))

    def _cut(self, start: Array, count: Array) -> Work:
        return cut(self.xp, start, count, CHUNK_ROWS)

    def _node_sums(self, rows: DeviceRows, start: Array, count: Array) -> tuple[Array, Array]:
        xp = self.xp
        hessian = xp.zeros(len(count), dtype=xp.int64)
        gradient = xp.zeros((len(count), self.n_channels), dtype=xp.int64)
        by_class = np.int32(self.n_channels > 1 and self.by_class)
        sizes = (np.int64(len(rows)), np.int32(self.n_channels), by_class)
        work = self._cut(start, count)
        self._sum("node_sums", work, (rows.weight, rows.target), (*sizes, hessian, gradient))
        return hessian, gradient

    def is_pure(self, rows: DeviceRows, frontier: Frontier) -> Array:
        """Nodes of one class, or whose quantised targets all agree."""
        xp, gradient = self.xp, frontier.gradient
        if self.by_class:
            if self.n_channels == 1:
                return (gradient[:, 0] == 0) | (gradient[:, 0] == frontier.hessian)
            return gradient.max(axis=1) == frontier.hessian
        low = xp.full(gradient.shape, _LARGEST, dtype=xp.int32)
        high = xp.full(gradient.shape, -_LARGEST, dtype=xp.int32)
        sizes = (np.int64(len(rows)), np.int32(self.n_channels))
        work = self._cut(frontier.start, frontier.count)
        self._sum("target_ranges", work, (rows.weight, rows.target), (*sizes, low, high))
        return (low >= high).all(axis=1)

    def leaf_sums(self, rows: DeviceRows, frontier: Frontier, leaves: Array) -> Array:
        """Leaf sums of the given nodes: int64 (len(leaves), P)."""
        xp, node = self.xp, frontier.take(leaves)
        if self._wide is None:
            return self._class_weights(node)
        n_trees, n_samples, n_columns = self._wide.shape
        n_classes = self.task.target.n_classes if self.by_class else 1
        sums = xp.zeros((len(leaves), n_classes * n_columns), dtype=xp.int64)
        tree = node.tree if n_trees > 1 else xp.zeros_like(node.tree)
        given = (rows.row, rows.weight, rows.target, self._wide, tree)
        draws = np.int32(self.tree_rows[0].draws)
        sizes = (np.int64(n_samples), np.int32(n_columns), np.int32(n_classes), draws)
        self._sum("leaf_sums", self._cut(node.start, node.count), given, (*sizes, sums))
        return sums

    def _class_weights(self, node: Frontier) -> Array:
        """Weight of each class; a target of one class has no second column."""
        if self.n_channels > 1:
            return node.gradient
        second = node.gradient[:, 0]
        columns = self.xp.stack([node.hessian - second, second], axis=1)
        return columns[:, : max(self.task.target.n_classes, 1)]

    def partition(
        self, rows: DeviceRows, frontier: Frontier, splits: Splits, accepted: Array
    ) -> tuple[DeviceRows, Frontier]:
        """Move the rows of accepted nodes to their children, keeping their order."""
        parents = self.xp.flatnonzero(accepted)
        node, mover = frontier.take(parents), _Mover(self, rows, splits, parents)
        moved, start, n_left = mover.move(node)
        return moved, children_of(self.xp, node, start, n_left, splits, parents)


class _Mover:
    """The two passes of partition.cu."""

    def __init__(self, owner: RowKernels, rows: DeviceRows, splits: Splits, parents: Array) -> None:
        self.xp = owner.xp
        self.runtime = owner.runtime
        self.rows = rows
        matrix = owner.matrix
        self._split = (
            splits.feature[parents],
            splits.bin[parents],
            splits.missing[parents],
            matrix.is_categorical,
            splits.mask[parents],
        )
        self._codes = matrix.codes
        self._sizes = (np.int64(matrix.n_samples), np.int32(matrix.missing_code))

    def move(self, node: Frontier) -> tuple[DeviceRows, Array, Array]:
        """The moved rows, where each parent's begin, and how many of them went left."""
        xp = self.xp
        work = cut(xp, node.start, node.count, CHUNK_ROWS)
        left = xp.zeros(len(work), dtype=xp.int64)
        self._launch("partition_count", work, (self.rows.row,), (), (left,))
        # Running sums over all chunks: until each chunk's end, and each parent's.
        until = xp.cumsum(left)
        until_parent = until[work.end - 1]
        n_left = xp.diff(until_parent, prepend=until_parent[:1] * 0)
        start = xp.cumsum(node.count) - node.count
        slot = work.slot
        left_before = until - left - (until_parent - n_left)[slot]
        rows_before = work.first - node.start[slot]
        left_at = start[slot] + left_before
        right_at = start[slot] + n_left[slot] + (rows_before - left_before)
        moved = self._empty(int(node.count.sum()))
        columns = self.rows.target.shape[0]
        sizes = (np.int32(columns), np.int64(len(self.rows)), np.int64(len(moved)))
        given = (self.rows.row, self.rows.weight, self.rows.target)
        out = (moved.row, moved.weight, moved.target)
        self._launch("partition_move", work, given, (left_at, right_at), (*sizes, *out))
        return moved, start, n_left

    def _empty(self, n: int) -> DeviceRows:
        xp, rows = self.xp, self.rows
        target = xp.empty((rows.target.shape[0], n), dtype=xp.int32)
        return DeviceRows(xp.empty(n, dtype=xp.uint32), xp.empty(n, dtype=xp.uint32), target)

    def _launch(
        self,
        name: str,
        work: Work,
        given: tuple[Array, ...],
        places: tuple[Array, ...],
        out: tuple[Any, ...],
    ) -> None:
        if not len(work):
            return
        kernel = self.runtime.kernel("partition.cu", name, {})
        chunks = (work.slot, work.first, work.rows)
        args = (self._codes, *given, *chunks, *self._split, *places, *self._sizes, *out)
        kernel((len(work),), (constant("partition.cu", "PARTITION_THREADS"),), args)
