"""Rows of trees, made on the host and copied to the device, and columns of targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns, class_order
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.targets import ClassTarget, MedianTarget, TreeRows, ValueTarget
from gpuboost.engine.task import GrowTask


class RowUploads:
    """Makes the rows of batches of trees from `GrowTask.rows_of`; the target is copied once.

    It is used for several outputs of classes whose trees have their own real-valued weights, for
    tasks without a sampler, which the protocol allows, and in the dry run that chooses how many
    trees of a boosting round grow together.
    """

    def __init__(self, runtime: Runtime, task: GrowTask) -> None:
        self._runtime = runtime
        self._task = task
        self._xp: Any = runtime.xp
        self._target = None if task.target.has_gradients else target_columns(runtime, task)
        wide = task.target.wide
        self._wide = None if wide is None else runtime.asarray(wide[None])

    def rows(self, trees: Sequence[int]) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Make the rows of some trees; the results are as in `DeviceDrawing.rows`.

        Arrays have no unused capacity, and the last result is the largest weight itself.
        """
        xp = self._xp
        made = [self._task.rows_of(tree) for tree in trees]
        parts = [self._rows_of(tree) for tree in made]
        rows = DeviceRows(
            xp.concatenate([part.row for part in parts]),
            xp.concatenate([part.weight for part in parts]),
            xp.ascontiguousarray(xp.concatenate([part.target for part in parts], axis=1)),
        )
        count = self._runtime.asarray(np.array([len(part) for part in parts], dtype=np.int64))
        largest = max(int(tree.weight.max()) for tree in made)
        return rows, count, self._leaf_columns(made), largest

    def _rows_of(self, tree: TreeRows) -> DeviceRows:
        row = np.flatnonzero(tree.mask)
        weight = self._runtime.asarray(tree.weight[row].astype(np.uint32))
        on_device = self._runtime.asarray(row.astype(np.uint32))
        if tree.gradient is not None:
            target = self._runtime.asarray(tree.gradient[row].T)
        else:
            assert self._target is not None
            target = self._target[:, on_device]
        if not self._task.target.is_multiclass:
            return DeviceRows(on_device, weight, target)
        order = class_order(self._xp, target)
        return DeviceRows(on_device[order], weight[order], target[:, order])

    def _leaf_columns(self, made: list[TreeRows]) -> LeafColumns | None:
        asarray, target = self._runtime.asarray, self._task.target
        own = [tree.wide for tree in made if tree.wide is not None]
        wide = asarray(np.stack(own)) if own else self._wide
        if wide is None:
            return None
        wide_of = np.arange(len(made), dtype=np.int32) if own else np.zeros(len(made), np.int32)
        return LeafColumns(wide, asarray(wide_of), target.n_classes, made[0].draws)


def target_columns(runtime: Runtime, task: GrowTask) -> Array:
    """Return the target of all rows of the matrix, as in `DeviceRows.target`: int32 (C, n).

    Rows keep the order of the matrix, and the signs about medians are zeros. The target must not
    have gradients. A target on the host is copied to the device.
    """
    target = task.target
    if isinstance(target, MedianTarget):
        ranks = runtime.asarray(target.ranks.T)
        return runtime.xp.concatenate([runtime.xp.zeros(ranks.shape, dtype=np.int32), ranks])
    if isinstance(target, ValueTarget):
        return runtime.asarray(target.values.T)
    assert isinstance(target, ClassTarget)
    classes = runtime.asarray(target.classes)
    return (classes if target.is_multiclass else (classes == 1).astype(np.int32))[None]
