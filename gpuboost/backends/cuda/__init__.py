"""The CUDA backend: the level loop over kernels, on whatever `Runtime` runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuboost.backends.cuda.level_ops import CudaLevelOps
from gpuboost.backends.cuda.runtime import Launchable, Runtime
from gpuboost.engine.level_loop import grow_levels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuboost.engine.spec import GrownTree, GrowTask

__all__ = ["CudaLevelOps", "Launchable", "Runtime", "grow_trees"]

BYTES_PER_ROW = 64  # of a tree in a batch: rows before and after a partition, and their places


def grow_trees(runtime: Runtime, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
    """Grow the trees of a task, as `gpuboost.backends.protocol.Backend.grow`.

    As many trees share a frontier as their rows fit the memory budget.
    """
    per_tree = task.matrix.n_samples * BYTES_PER_ROW
    size = max(1, task.memory_budget // per_tree)
    ops = CudaLevelOps(runtime, task)
    for first in range(0, len(task.trees), size):
        trees = task.trees[first : first + size]
        yield from zip(trees, grow_levels(ops, task, trees), strict=True)
