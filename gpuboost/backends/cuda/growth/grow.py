"""Growth of the trees of a task, in batches that fit the memory budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuboost.backends.cuda.growth.device_task import no_rounds
from gpuboost.backends.cuda.growth.grower import TreeGrower
from gpuboost.backends.cuda.growth.memory_plan import HISTOGRAM_SHARE, trees_at_once
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape
from gpuboost.backends.cuda.sampling.batch_inputs import HostInputs
from gpuboost.backends.host.finish import finish_grown
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.task import GrownTree, GrowTask


def grow_trees(runtime: Runtime, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
    """Grow the trees of a task, as specified in `gpuboost.backends.protocol.Backend.grow`.

    The trees of a batch share one frontier. If possible, the launches of a batch are recorded, and
    replayed for the following batches of the same kind (`DeviceTask.kind_of`).
    """
    for grower, host, again in _batches(runtime, task):
        yield from zip(host.trees, grower.grow(host, again), strict=True)


def grow_finished(runtime: Runtime, task: GrowTask) -> Iterator[tuple[int, Tree]]:
    """Grow and finish trees, as specified in `gpuboost.backends.protocol.Backend.grow_finished`.

    The host finishes trees that the device cannot finish; see `Finisher.of`.
    """
    for grower, host, again in _batches(runtime, task):
        if grower.finishes:
            yield from zip(host.trees, grower.grow_finished(host, again), strict=True)
        else:
            yield from finish_grown(task, zip(host.trees, grower.grow(host, again), strict=True))


def _batches(
    runtime: Runtime, task: GrowTask
) -> Iterator[tuple[TreeGrower[None], HostInputs, bool]]:
    """Yield the grower, the inputs of each batch, and whether a batch of the same size follows."""
    budget = task.memory_budget
    task = replace(task, memory_budget=max(1, int(HISTOGRAM_SHARE * budget)))
    size = trees_at_once(task, budget, DeviceShape.of(runtime))
    grower = TreeGrower(runtime, task, budget, no_rounds)
    for first in range(0, len(task.trees), size):
        trees = task.trees[first : first + size]
        again = first + 2 * size <= len(task.trees)
        yield grower, HostInputs.of(task, trees), again
