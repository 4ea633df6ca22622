"""Grows batch after batch of trees; batches that are alike are recorded once and replayed."""

from __future__ import annotations

from dataclasses import dataclass

from gpuboost.backends.cuda.growth.device_task import DeviceTask, RoundMaker
from gpuboost.backends.cuda.growth.level_ops import CudaLevelOps
from gpuboost.backends.cuda.growth.memory_plan import dry_run_recorded
from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer
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
    """A batch that was launched once.

    Attributes
    ----------
    launches : Recording
    inputs : BatchInputs
        What the launches begin with.
    nodes : NodeBuffer
        Reads what they leave behind.
    kind : tuple of int
        `DeviceTask.kind_of` the batch: others of this kind are the same launches.
    """

    launches: Recording
    inputs: BatchInputs
    nodes: NodeBuffer
    kind: tuple[int, ...]


class TreeGrower:
    """Grows trees of one task on one device.

    The matrix and the target are copied once. A batch is launched kernel by kernel, or, where one
    of its kind was recorded before, all at once: as a CUDA graph on a GPU. The memory of a
    recording is kept until the grower is given up or a batch of another kind comes.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
        ``memory_budget`` is for the histograms of a level.
    budget : int
        Bytes that a batch may take in all.
    maker : callable, optional
        See `DeviceTask`.

    Attributes
    ----------
    rounds : RowsOfRounds or None
        What the maker has made.
    recorded : RecordedBatch or None
        What is replayed for batches of its kind.
    """

    def __init__(
        self, runtime: Runtime, task: GrowTask, budget: int, maker: RoundMaker | None = None
    ) -> None:
        self._task, self._budget, self._maker = task, budget, maker
        self._runtime = RecordingRuntime(runtime)
        self._shared = DeviceTask(self._runtime, task, maker)
        self.rounds = self._shared.rounds
        self.recorded: RecordedBatch | None = None
        self._not_recorded: set[tuple[int, ...]] = set()  # kinds of batches that cannot be

    def grow(self, host: HostInputs, again: bool) -> list[GrownTree]:
        """Grow some trees together.

        Parameters
        ----------
        host : HostInputs
            Those of some trees of the task, or of one that differs in nothing else.
        again : bool
            Whether more batches of as many trees will follow.
        """
        return self.launch(host, again).trees(self._task.n_threads)

    @property
    def finishes(self) -> bool:
        """Whether the device finishes the trees."""
        return self._shared.finisher is not None

    def grow_finished(self, host: HostInputs, again: bool) -> list[Tree]:
        """The same trees, finished where they grow.

        Raises
        ------
        ValueError
            None of the rows drawn for a tree has weight.
        """
        assert self._task.sampler is not None
        nodes = self.launch(host, again)
        root_weights, trees = nodes.finished().copy_to_host(self._runtime)
        for tree, weight in zip(host.trees, root_weights, strict=True):
            check_weight(self._task.sampler, tree, weight > 0)
        return trees

    def launch(self, host: HostInputs, again: bool) -> NodeBuffer:
        """Launch all of a batch, as `grow`; of batches of one kind the last one can be read."""
        kind = self._shared.kind_of(host)
        if self.recorded is not None and self.recorded.kind == kind:
            return self._replay(self.recorded, host)
        self.recorded = None
        nodes = None
        if again and kind not in self._not_recorded:
            nodes = self._record(host)
            if nodes is None:
                self._not_recorded.add(kind)
        return nodes or self._launch(host)

    def _launch(self, host: HostInputs) -> NodeBuffer:
        """Launch a batch kernel by kernel."""
        return self._levels(host, host.to_device(self._runtime))

    def _record(self, host: HostInputs) -> NodeBuffer | None:
        """Launch a batch and keep the launches; None where it cannot be replayed, or not fit."""
        shape = DeviceShape.of(self._runtime)
        recorded = dry_run_recorded(self._task, host, shape, self._maker)
        if recorded is None or recorded.total > self._budget:
            return None
        inputs = host.to_device(self._runtime)
        with self._runtime.recording(recorded.plan) as launches:
            nodes = self._levels(host, inputs)
        self.recorded = RecordedBatch(launches, inputs, nodes, self._shared.kind_of(host))
        return nodes

    def _replay(self, recorded: RecordedBatch, host: HostInputs) -> NodeBuffer:
        """Launch the recorded batch over other inputs."""
        recorded.inputs.replace_by(host, self._runtime)
        recorded.launches.replay()
        return recorded.nodes

    def _levels(self, host: HostInputs, inputs: BatchInputs) -> NodeBuffer:
        ops = CudaLevelOps(self._shared, host, inputs)
        grow_levels(ops, self._task, len(host.trees))
        return ops.tree_builder()
