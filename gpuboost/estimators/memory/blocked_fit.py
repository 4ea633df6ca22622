"""The memory of a fit on data in blocks, on the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpuboost.backends.numpy.blocks.level_ops import trees_of_batch
from gpuboost.blocks.coding import BYTES_PER_VALUE, columns_at_once
from gpuboost.blocks.spill import fits_memory
from gpuboost.engine.targets import ClassTarget, Target
from gpuboost.estimators.adaboost.estimators import AdaBoost
from gpuboost.estimators.boosting.base import GradientBoosting
from gpuboost.estimators.memory import shape_only_fit
from gpuboost.estimators.memory.shape_only_fit import ShapeOnlyTable

# Bytes of a row in a tree, while it grows: weight, node, word and leaf, and what is computed from
# them meanwhile.
_IN_TREE = 4 + 4 + 8 + 4 + 8
_FLOAT64_BYTES = 8
_TASK_ROWS = 100  # rows of the task, of which only the bytes of a row matter


def blocked_peak(estimator: Any, table: ShapeOnlyTable, memory_limit: int) -> int:
    """Approximate peak memory in bytes: binning or growing, whichever takes more."""
    n, n_codes = table.n_samples, table.n_samples * table.n_features
    codes = n_codes if fits_memory(n_codes, memory_limit) else memory_limit // 2
    labels = n * _FLOAT64_BYTES * (table.n_outputs + table.weighted)
    of_columns = n * 2 * BYTES_PER_VALUE * columns_at_once(n, memory_limit)
    growing = n * _row_bytes(estimator, table, memory_limit) + memory_limit // 2
    return codes + labels + max(of_columns, growing)


def _row_bytes(estimator: Any, table: ShapeOnlyTable, memory_limit: int) -> int:
    """Bytes of a row, besides its codes and labels, while trees grow."""
    weights = _FLOAT64_BYTES * table.weighted
    few = replace(table, n_samples=min(table.n_samples, _TASK_ROWS))
    if isinstance(estimator, GradientBoosting):
        task = shape_only_fit.boost_task(estimator, few)
        columns = task.loss.columns
        hessians = 1 if task.loss.constant_hessian else columns
        channels, n_trees = (columns, 1) if task.sums_outputs else (1, columns)
        # Labels, raw predictions twice and gradients of each column; hessians; losses.
        of_round = _FLOAT64_BYTES * (4 * columns + hessians + 1)
        planes = _FLOAT64_BYTES * (channels + (1 if hessians == 1 else channels))
        in_tree = _IN_TREE + 4 * channels + planes
        return of_round + weights + in_tree * trees_of_batch(n_trees, table.n_samples, memory_limit)
    if isinstance(estimator, AdaBoost):
        rounds = shape_only_fit.adaboost_reweight_task(estimator, few)
        return _FLOAT64_BYTES * 2 + weights + _target_bytes(rounds.objective.target) + _IN_TREE + 16
    trees = shape_only_fit.grow_task(estimator, few)
    together = trees_of_batch(len(trees.trees), table.n_samples, memory_limit)
    return _FLOAT64_BYTES + weights + _target_bytes(trees.target) + _IN_TREE * together


def _target_bytes(target: Target) -> int:
    """Bytes of a row in a target while it is made; targets of regression need temporary arrays."""
    own = [getattr(target, name) for name in target.row_arrays]
    n_bytes = sum(array[:1].nbytes for array in own if isinstance(array, np.ndarray))
    return n_bytes if isinstance(target, ClassTarget) else 4 * n_bytes
