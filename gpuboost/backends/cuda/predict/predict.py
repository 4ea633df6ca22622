"""Prediction on the device: the launches of predict.cu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpuboost.backends.cuda.data.features import DeviceFeatures, parts_on_device
from gpuboost.backends.cuda.predict.packed_forest import DeviceForest, device_forest
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.frontier import Array

MAX_BLOCK_VALUES = 32  # values of a leaf that a block adds; more would take too much shared memory
FULL_ROWS = 1024  # per multiprocessor; from here on, each thread traverses all trees for one row
MAX_LEAVES = 1 << 26  # largest number of leaves stored between the two passes over few rows
_GRID_Y = 65535

# Threads of a block, and the number of such blocks that must fit a multiprocessor.
_BLOCK_SHAPES = ((256, 3), (128, 2), (64, 1), (32, 1))


def predict(runtime: Runtime, ensemble: Ensemble, X: Array) -> Array:
    """Sum the leaf values of each row over the trees, in their order: float64 (n, n_values).

    Parameters
    ----------
    runtime : Runtime
    ensemble : Ensemble
    X : float32 or float64 (n, F)
        Rows on the host or on the device; the result is in the same place.
    """
    forest = device_forest(runtime, ensemble, X.dtype)
    run = partial(sum_values, runtime, forest)
    return _where_rows_are(runtime, X, 8 * forest.n_values, run)


def apply(runtime: Runtime, ensemble: Ensemble, X: Array) -> Array:
    """Find the leaf of each row in each tree, numbered within the tree: int32 (n, trees)."""
    forest = device_forest(runtime, ensemble, X.dtype)
    row_bytes = 4 * forest.n_trees
    return _where_rows_are(runtime, X, row_bytes, lambda x: find_leaves(runtime, forest, x).T)


def _where_rows_are(
    runtime: Runtime, X: Array, row_bytes: int, run: Callable[[DeviceFeatures], Array]
) -> Array:
    """Apply ``run`` to all device rows at once; or to host rows in parts, and copy results back."""
    xp = runtime.xp
    found = (run(part) for _, part in parts_on_device(runtime, X, row_bytes))
    if isinstance(X, xp.ndarray):
        return next(found)
    parts = [runtime.to_host(xp.ascontiguousarray(part)) for part in found]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class _Block:
    """Number of threads of a block, whether it stages its rows, and bytes of shared memory."""

    threads: int
    staged: bool
    shared: int

    @classmethod
    def choose(cls, runtime: Runtime, rows: DeviceFeatures, sum_bytes: int) -> _Block:
        """Choose the largest of `_BLOCK_SHAPES` that fits, with staged rows if possible.

        Each thread takes ``sum_bytes`` bytes of shared memory for its sums. Few staged rows get a
        smaller block. Rows that are too wide to stage are read from global memory.
        """
        minimum = _BLOCK_SHAPES[-1][0]
        for threads, n_blocks in _BLOCK_SHAPES:
            tile = rows.itemsize * rows.n_features * (threads + 1)
            shared = sum_bytes * threads + tile
            if threads > minimum and rows.n <= threads // 2:
                continue
            if shared * n_blocks <= runtime.shared_memory:
                return cls(threads, True, shared)
        for threads, n_blocks in _BLOCK_SHAPES:
            if sum_bytes * threads * n_blocks <= runtime.shared_memory:
                break
        return cls(threads, False, sum_bytes * threads)

    def given(self, forest: DeviceForest) -> dict[str, Any]:
        """Arguments that all launches with this block share."""
        return {
            "block": (self.threads,),
            "shared_mem": self.shared,
            "staged": self.staged,
            "constants": {"NODE": forest.node},
        }


def sum_values(runtime: Runtime, forest: DeviceForest, rows: DeviceFeatures) -> Array:
    """Sum the leaf values of each row over the trees, in their order: float64 (n, n_values)."""
    n_leaves = rows.n * forest.n_trees
    if rows.n < FULL_ROWS * runtime.n_multiprocessors and n_leaves <= MAX_LEAVES:
        return _add_values(runtime, forest, find_leaves(runtime, forest, rows))
    n_values = forest.n_values
    n_parts = -(-n_values // MAX_BLOCK_VALUES)
    own_values = -(-n_values // n_parts)
    block = _Block.choose(runtime, rows, 8 * own_values if own_values > 1 else 0)
    total = runtime.xp.empty((rows.n, n_values), dtype=runtime.xp.float64)
    grid = (-(-rows.n // block.threads), n_parts)
    own = {"X": rows.values, "values_per_block": own_values, "total": total}
    launch(runtime, "predict", grid, forest, rows, **block.given(forest), **own)
    return total


def find_leaves(runtime: Runtime, forest: DeviceForest, rows: DeviceFeatures) -> Array:
    """Find the leaf of each row in each tree: int32 (trees, n).

    If rows are few, each block takes only some of the trees.
    """
    block = _Block.choose(runtime, rows, 0)
    n_blocks = -(-rows.n // block.threads)
    wanted = FULL_ROWS * runtime.n_multiprocessors // block.threads
    n_parts = min(max(1, wanted // n_blocks), _GRID_Y)
    at_once = constant("predict/predict.cu", "TREES_AT_ONCE")
    own = -(-forest.n_trees // (n_parts * at_once)) * at_once
    n_parts = -(-forest.n_trees // own)
    found = runtime.xp.empty((forest.n_trees, rows.n), dtype=runtime.xp.int32)
    given = {"X": rows.values, "trees_per_block": own, "found": found, **block.given(forest)}
    launch(runtime, "find_leaves", (n_blocks, n_parts), forest, rows, **given)
    return found


def _add_values(runtime: Runtime, forest: DeviceForest, found: Array) -> Array:
    """Sum the values of the leaves ``found``, int32 (trees, n): float64 (n, n_values)."""
    n = found.shape[1]
    total = runtime.xp.empty((n, forest.n_values), dtype=runtime.xp.float64)
    threads = 64 if total.size <= 64 * runtime.n_multiprocessors else 256
    own: dict[str, Any] = {"block": (threads,), "constants": {"NODE": forest.node}}
    own |= {"found": found, "n": n, "total": total}
    launch(runtime, "add_values", -(-total.size // threads), forest, **own)
    return total
