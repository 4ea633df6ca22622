"""Growth of trees batch by batch; a batch can be recorded, and replayed for others of its kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Generic

from gpuboost.backends.cuda.growth.device_task import DeviceTask, RoundMaker, Rounds_co
from gpuboost.backends.cuda.growth.level_ops import CudaLevelOps
from gpuboost.backends.cuda.growth.memory_plan import dry_run_batch
from gpuboost.backends.cuda.growth.node_buffer import NumberedNodes
from gpuboost.backends.cuda.runtime.graph import Recording, RecordingRuntime
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs, HostInputs
from gpuboost.backends.host.finish import check_weight
from gpuboost.engine.growth.level_loop import grow_levels
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.task import GrownTree, GrowTask


@dataclass(frozen=True)
class RecordedBatch:
    """The recorded launches of a batch, with their inputs and results.

    Attributes
    ----------
    launches : Recording
        The recorded launches.
    inputs : BatchInputs
        Device arrays that the launches read.
    nodes : NumberedNodes
        Nodes that the launches write.
    kind : tuple of int
        Kind of the batch (`DeviceTask.kind_of`); batches of the same kind need the same launches.
    """

    launches: Recording
    inputs: BatchInputs
    nodes: NumberedNodes
    kind: tuple[int, ...]


class TreeGrower(Generic[Rounds_co]):
    """Grows trees of one task on one device.

    The matrix and the target are copied to the device once. A batch is launched kernel by kernel
    or, if the recorded batch is of its kind, as one CUDA graph. At most one batch is recorded at a
    time: its memory is freed with the grower, or when a batch of another kind is grown.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
        ``memory_budget`` is the number of bytes for the histograms of a level.
    budget : int
        Largest number of bytes of the arrays of a recorded batch; larger batches are launched but
        not recorded.
    maker : callable
        See `DeviceTask`.

    Attributes
    ----------
    rounds : RowsOfRounds or None
        Result of ``maker``.
    recorded : RecordedBatch or None
        Batch whose launches are replayed.
    """

    def __init__(
        self, runtime: Runtime, task: GrowTask, budget: int, maker: RoundMaker[Rounds_co]
    ) -> None:
        self._task, self._budget, self._maker = task, budget, maker
        self._runtime = RecordingRuntime(runtime)
        self._shared = DeviceTask(self._runtime, task, maker)
        self.rounds = self._shared.rounds
        self.recorded: RecordedBatch | None = None
        self._not_recorded: set[tuple[int, ...]] = set()  # kinds that cannot be recorded

    def grow(self, host: HostInputs, again: bool) -> list[GrownTree]:
        """Grow a batch of trees.

        Parameters
        ----------
        host : HostInputs
            Inputs of trees of the task, or of a task that differs only in its trees.
        again : bool
            Whether a batch with the same number of trees follows.
        """
        return self.launch(host, again).trees()

    @property
    def finishes(self) -> bool:
        """Whether the device finishes the trees."""
        return self._shared.finisher is not None

    def grow_finished(self, host: HostInputs, again: bool) -> list[Tree]:
        """Grow a batch of trees and finish them on the device.

        Raises
        ------
        ValueError
            If all rows drawn for a tree have weight zero.
        """
        assert self._task.sampler is not None
        finished = self.launch(host, again).finished
        assert finished is not None
        root_weights, trees = finished.copy_to_host(self._runtime)
        for tree, weight in zip(host.trees, root_weights, strict=True):
            check_weight(self._task.sampler, tree, weight > 0)
        return trees

    def launch(self, host: HostInputs, again: bool) -> NumberedNodes:
        """Launch a batch; if it is recorded, the next batch of its kind overwrites its nodes."""
        kind = self._shared.kind_of(host)
        if self.recorded is not None and self.recorded.kind == kind:
            self._runtime.upload(host.memory, self.recorded.inputs.memory)
            self.recorded.launches.replay()
            return self.recorded.nodes
        self.recorded = None
        nodes = None
        if again and kind not in self._not_recorded:
            nodes = self._record(host)
            if nodes is None:
                self._not_recorded.add(kind)
        return nodes or self._levels(host, host.to_device(self._runtime))

    def _record(self, host: HostInputs) -> NumberedNodes | None:
        """Launch and record a batch, and return its nodes.

        If it cannot be replayed or exceeds the budget, nothing is launched, and the result is None.
        """
        plan = dry_run_batch(self._task, host, DeviceShape.of(self._runtime), self._maker).plan
        if plan is None or plan.total > self._budget:
            return None
        inputs = host.to_device(self._runtime)
        with self._runtime.recording(plan) as launches:
            nodes = self._levels(host, inputs)
        self.recorded = RecordedBatch(launches, inputs, nodes, self._shared.kind_of(host))
        return nodes

    def _levels(self, host: HostInputs, inputs: BatchInputs) -> NumberedNodes:
        """Launch a batch kernel by kernel."""
        start = partial(CudaLevelOps.start, self._shared, host, inputs)
        return grow_levels(start, self._task).end_batch()
