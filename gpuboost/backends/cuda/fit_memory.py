"""Memory of a fit of boosting or AdaBoost, estimated by a dry run of its first rounds."""

from __future__ import annotations

from gpuboost.backends.cuda.adaboost.booster import CudaReweighter
from gpuboost.backends.cuda.boosting.booster import CudaBooster
from gpuboost.backends.cuda.growth.memory_plan import nodes_at
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape, ShapeRuntime
from gpuboost.engine.ensembles.adaboost_task import ReweightTask
from gpuboost.engine.ensembles.boosting_task import BoostTask


def boosting_peak(task: BoostTask, shape: DeviceShape) -> int:
    """Peak bytes of boosting, with as many trees at once as fit ``task.memory_budget``.

    The dry run launches a round and sums its losses, as happens last if the host finishes trees.
    Arrays that a user-defined loss allocates are not counted.
    """
    n, n_trees, options = task.matrix.n_samples, task.trees_per_round, task.options

    def nodes(depth: int) -> int:
        return n_trees * min(nodes_at(depth, n), 2 * options.max_splits(depth - 1))

    runtime = ShapeRuntime(shape.shared_memory, shape.n_multiprocessors, nodes)
    booster = CudaBooster(runtime, task)
    booster.rounds.draw.begin(0, 0.1)
    booster.launch(0)
    booster.rounds.keep_losses()
    return runtime.meter.peak


def reweighting_peak(task: ReweightTask, shape: DeviceShape) -> int:
    """Peak bytes of AdaBoost, which grows one tree at a time.

    The dry run has two rounds: the first is not recorded; the second is, and its memory is held
    from then on.
    """
    n, options = task.matrix.n_samples, task.options

    def nodes(depth: int) -> int:
        return min(nodes_at(depth, n), 2 * options.max_splits(depth - 1))

    runtime = ShapeRuntime(shape.shared_memory, shape.n_multiprocessors, nodes)
    reweighter = CudaReweighter(runtime, task)
    for number in range(min(2, task.n_rounds)):
        reweighter.launch(number)
    return runtime.meter.peak
