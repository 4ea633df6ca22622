"""Exact SHAP values on the device: the functions of `backends.numpy.explain`, with the same bits.

The host divides the rows into parts whose results fit the device, and the trees into groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from gpuboost.backends.cuda.data.binning import ROWS_PER_BLOCK
from gpuboost.backends.cuda.data.features import copy_to_device
from gpuboost.backends.cuda.data.tiles import launch_on_tiles
from gpuboost.backends.cuda.explain.path_groups import (
    PathFactors,
    PathGroup,
    PathPairs,
    PathWeights,
    device_groups,
)
from gpuboost.backends.cuda.runtime.grid import STRIDING_BLOCKS
from gpuboost.backends.cuda.runtime.launch import launch, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.explanations.additive import AdditiveModel, completed
from gpuboost.engine.growth.frontier import Array

SCRATCH_BYTES = 1 << 30  # of the paths of all threads, if these do not fit shared memory
RESIDENT_THREADS = 1024  # of a multiprocessor; the registers allow not many more
MAX_ELEMENTS = 1 << 30  # of a feature's results; see paths.cuh
_GRID_YZ = 65535


def shap_values(runtime: Runtime, model: AdditiveModel, X: Array) -> np.ndarray:
    """Path-dependent SHAP values: int64 (n, n_features, n_outputs)."""

    def run(part: _Part) -> Array:
        for n_points, records in device_groups(runtime, model, PathFactors):
            part.launch("shap_values", n_points, *records)
        return part.total.transpose(2, 0, 1)

    return _run(runtime, model, X, (model.n_features, model.n_outputs), run)


def shap_interactions(runtime: Runtime, model: AdditiveModel, X: Array) -> np.ndarray:
    """Path-dependent interaction values: int64 (n, n_features, n_features, n_outputs)."""
    n_features = model.n_features

    def run(part: _Part) -> Array:
        for n_points, records in device_groups(runtime, model, PathFactors, PathPairs):
            part.launch("shap_interactions", n_points, *records, n_features=n_features)
        return completed(part.total.transpose(3, 0, 1, 2))

    return _run(runtime, model, X, (n_features, n_features, model.n_outputs), run)


def interventional_shap(
    runtime: Runtime, model: AdditiveModel, X: Array, background: Array
) -> np.ndarray:
    """Interventional SHAP values, summed over background rows: int64 (n, n_features, n_outputs)."""
    others = _columns(runtime, background)

    def run(part: _Part) -> Array:
        for _, records in device_groups(runtime, model, PathWeights):
            part.launch("interventional_shap", 0, *records, background=others)
        return part.total.transpose(2, 0, 1)

    return _run(runtime, model, X, (model.n_features, model.n_outputs), run, len(background))


def _columns(runtime: Runtime, X: Array) -> Array:
    """Copy rows on the host or on the device to columns on the device: float64 (columns, n)."""
    rows = copy_to_device(runtime, X)
    columns = runtime.xp.empty((rows.n_features, rows.n), dtype=np.float64)
    launch_on_tiles(runtime, "widen_columns", rows, ROWS_PER_BLOCK, columns=columns)
    return columns


def _run(
    runtime: Runtime,
    model: AdditiveModel,
    X: Array,
    shape: tuple[int, ...],
    run: Callable[[_Part], Array],
    n_background: int = 1,
) -> np.ndarray:
    """Results of all rows, of the given shape for each row: int64 (n, *shape).

    ``run`` adds the contributions of all trees to a part of the rows, and returns its results.
    """
    if not len(X):
        return np.empty((0, *shape), dtype=np.int64)
    # Four arrays of the size of the results are on the device together, for interactions.
    row_bytes = 8 * (4 * prod(shape) + 2 * X.shape[1])
    step = max(1, min(runtime.memory_budget() // row_bytes, MAX_ELEMENTS // model.n_outputs))
    scale, found = model.scale(n_background), []
    for start in range(0, len(X), step):
        columns = _columns(runtime, X[start : start + step])
        total = zeros(runtime, (*shape, columns.shape[1]), np.int64)
        part = _Part(runtime, columns, total, model.n_outputs, scale, n_background)
        found.append(runtime.to_host(runtime.xp.ascontiguousarray(run(part))))
    return found[0] if len(found) == 1 else np.concatenate(found)


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows on the device.

    Attributes
    ----------
    runtime : Runtime
    X : float64 (columns, n)
    total : int64 (..., n)
        Sums of contributions; rows are the last axis.
    n_outputs : int
    scale : float
    n_background : int
        Number of background rows; 1 if there are none.
    """

    runtime: Runtime
    X: Array
    total: Array
    n_outputs: int
    scale: float
    n_background: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.X.shape[1]

    def launch(
        self, name: str, n_points: int, group: PathGroup, *records: Any, **values: Any
    ) -> None:
        """Add the contributions of a group of trees.

        ``n_points`` is the number of points of path-dependent values, 0 for interventional ones.
        """
        pitch, n_z = (n_points | 1, group.n_values) if n_points else (2, self.n_background)
        thread_bytes = 8 * pitch * group.max_depth + 4 * (group.max_depth + 1)
        place = _Placement.choose(self.runtime, self.n, group.n_trees, n_z, thread_bytes)
        launch(
            self.runtime,
            name,
            place.grid,
            group,
            *records,
            self,
            block=(place.threads,),
            shared_mem=place.shared,
            in_shared=place.shared > 0,
            scratch=self.runtime.xp.empty(place.scratch_longs, dtype=np.float64),
            constants={"POINTS": n_points} if n_points else {},
            **values,
        )


@dataclass(frozen=True)
class _Placement:
    """The grid and threads of a launch, and the memory of its paths.

    Attributes
    ----------
    grid : (int, int, int)
        Blocks of rows, blocks of trees, and blocks of values or background rows.
    threads : int
    shared : int
        Bytes of shared memory; 0 if paths are in global memory.
    scratch_longs : int
        Number of 8-byte items in global memory; at least 1.
    """

    grid: tuple[int, int, int]
    threads: int
    shared: int
    scratch_longs: int

    @classmethod
    def choose(
        cls, runtime: Runtime, n: int, n_trees: int, n_z: int, thread_bytes: int
    ) -> _Placement:
        """Choose blocks that fill the device, and shared memory if a block's paths fit into it."""
        largest = constant("explain/paths.cuh", "PATH_THREADS")
        sizes = [t for t in (largest, 128, 64, 32) if t == 32 or t < 2 * n]

        def resident(threads: int) -> int:
            blocks = runtime.shared_memory // (threads * thread_bytes)
            return min(RESIDENT_THREADS, blocks * threads)

        threads = max(sizes, key=resident)
        in_shared = resident(threads) > 0
        max_blocks = STRIDING_BLOCKS * runtime.n_multiprocessors
        if not in_shared:
            n_bytes = min(SCRATCH_BYTES, runtime.memory_budget())
            max_blocks = max(1, min(max_blocks, n_bytes // (threads * thread_bytes)))
        x = -(-n // threads)
        x = x if in_shared else min(x, max_blocks)
        y = min(max(1, max_blocks // max(1, x)), n_trees, _GRID_YZ)
        z = min(max(1, max_blocks // max(1, x * y)), n_z, _GRID_YZ)
        own_bytes = threads * thread_bytes
        scratch = 1 if in_shared else -(-x * y * z * own_bytes // 8)
        return cls((x, y, z), threads, own_bytes if in_shared else 0, scratch)
