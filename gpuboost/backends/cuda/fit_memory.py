"""Memory of a fit of boosting or AdaBoost, estimated by a dry run of its first rounds."""

from __future__ import annotations

from gpuboost.backends.cuda.adaboost.booster import CudaReweighter
from gpuboost.backends.cuda.boosting.booster import CudaBooster
from gpuboost.backends.cuda.growth.memory_plan import shape_runtime
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape
from gpuboost.engine.ensembles.adaboost_task import ReweightTask
from gpuboost.engine.ensembles.boosting_task import BoostTask


def boosting_peak(task: BoostTask, shape: DeviceShape) -> int:
    """Return the peak bytes of a fit of boosting with batches planned for ``task.memory_budget``.

    The dry run launches the first batch of trees of a round and then sums the losses, the last step
    of a round whose trees the host finishes. Arrays that a user-defined loss allocates, and arrays
    of trees that the host has finished, are not counted.
    """
    n, n_trees = task.matrix.n_samples, task.trees_per_round
    runtime = shape_runtime(shape, n_trees, n, task.options)
    booster = CudaBooster(runtime, task)
    booster.rounds.draw.begin(0, 0.1)
    booster.launch(0)
    booster.rounds.keep_losses()
    return runtime.meter.peak


def reweighting_peak(task: ReweightTask, shape: DeviceShape) -> int:
    """Return the peak bytes of a fit of AdaBoost, which grows one tree at a time.

    The dry run has up to two rounds. The first is not recorded. The second is recorded if it can be
    and more rounds follow; its memory then stays allocated. The evaluation of trees that the host
    has pruned is not counted.
    """
    runtime = shape_runtime(shape, 1, task.matrix.n_samples, task.options)
    reweighter = CudaReweighter(runtime, task)
    for number in range(min(2, task.n_rounds)):
        reweighter.launch(number)
    return runtime.meter.peak
