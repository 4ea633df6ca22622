"""The CUDA backend: the level loop over kernels, on whatever `Runtime` runs them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuboost.backends.cuda.level_ops import CudaLevelOps
from gpuboost.backends.cuda.memory import HISTOGRAM_SHARE, DeviceShape, trees_at_once
from gpuboost.backends.cuda.runtime import Launchable, Runtime
from gpuboost.engine.level_loop import grow_levels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuboost.engine.spec import GrownTree, GrowTask

__all__ = ["CudaLevelOps", "Launchable", "Runtime", "grow_trees"]


def grow_trees(runtime: Runtime, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
    """Grow the trees of a task, as `gpuboost.backends.protocol.Backend.grow`.

    As many trees share a frontier as fit the memory budget with their rows and levels.
    """
    size = trees_at_once(task, task.memory_budget, DeviceShape.of(runtime))
    share = max(1, int(HISTOGRAM_SHARE * task.memory_budget))
    ops = CudaLevelOps(runtime, replace(task, memory_budget=share))
    for first in range(0, len(task.trees), size):
        trees = task.trees[first : first + size]
        yield from zip(trees, grow_levels(ops, task, trees, task.n_threads), strict=True)
