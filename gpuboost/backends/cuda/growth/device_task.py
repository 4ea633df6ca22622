"""Device data and kernels that all batches of a task share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from gpuboost.backends.cost_model import is_sync_free
from gpuboost.backends.cuda.data.matrix import DeviceMatrix, upload_matrix
from gpuboost.backends.cuda.growth.finish import Finisher
from gpuboost.backends.cuda.growth.hooks import RowsOfRounds
from gpuboost.backends.cuda.growth.node_buffer import DEEPEST, check_places
from gpuboost.backends.cuda.growth.subtrees import SUBTREES_WANTED, small_rows_for
from gpuboost.backends.cuda.level.constraints import DeviceConstraints
from gpuboost.backends.cuda.level.histograms import (
    HistogramBuilder,
    capacity_for_cells,
    cell_words,
    choose_tile,
    use_feature_lists,
)
from gpuboost.backends.cuda.level.medians import MedianKernels
from gpuboost.backends.cuda.level.policy import Policy
from gpuboost.backends.cuda.level.row_passes import RowKernels
from gpuboost.backends.cuda.runtime.compile_flags import CompileFlags
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs, HostInputs
from gpuboost.backends.cuda.sampling.draw import DeviceDrawing, draws_on_device
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns
from gpuboost.backends.cuda.sampling.uploaded_rows import RowUploads
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import GrowTask

Rounds_co = TypeVar("Rounds_co", bound=RowsOfRounds | None, covariant=True)
RoundMaker = Callable[[Runtime, Array], Rounds_co]


def no_rounds(runtime: Runtime, codes: Array) -> None:
    """Maker of a task whose batches of trees are not rounds; returns None."""


class DeviceTask(Generic[Rounds_co]):
    """A task whose matrix and target are on a device.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
    maker : callable
        Function of the runtime and the codes on the device that returns the `RowsOfRounds` of a
        fit; `no_rounds` if the batches of the task are not rounds.

    Attributes
    ----------
    matrix : DeviceMatrix
        Codes of the training rows.
    flags : CompileFlags
        Properties of the task that kernels are compiled for.
    passes : RowKernels
        Passes over rows.
    constraints : DeviceConstraints
        Value bounds, feature groups and the features drawn per level.
    medians : MedianKernels or None
        None unless the target is a `MedianTarget`.
    rounds : RowsOfRounds or None
        Result of ``maker``.
    is_sync_free : bool
        Whether levels are launched without reading back their numbers of nodes, unless they have
        many slices.
    finisher : Finisher or None
        None if the host or the rounds finish the trees; see `Finisher.of`.

    Raises
    ------
    ValueError
        If a tree could have more nodes than int32 can number.
    """

    def __init__(self, runtime: Runtime, task: GrowTask, maker: RoundMaker[Rounds_co]) -> None:
        check_places(task)
        self.runtime = runtime
        self.task = task
        target = task.target
        self._by_channel = target.is_multiclass
        self.flags = CompileFlags.of(task)
        words = cell_words(self._by_channel, self.flags.binary_targets, self._counted)
        capacity = capacity_for_cells(runtime.shared_memory, self._by_channel)
        tile = choose_tile(capacity, task.matrix.width, words)
        self.matrix: DeviceMatrix = upload_matrix(runtime, task.matrix, tile)
        matrix, flags = self.matrix, self.flags
        self.passes = RowKernels(runtime, matrix, target.n_channels, self._by_channel, flags)
        self.constraints = DeviceConstraints(runtime, task)
        self.medians = MedianKernels.of(runtime, target)
        self.rounds = maker(runtime, self.matrix.codes)
        self.is_sync_free = is_sync_free(task.options)
        self.finisher = Finisher.of(runtime, task)
        self._sampler: DeviceDrawing | RowUploads | None = None
        if self.rounds is None:
            self._sampler = (DeviceDrawing if draws_on_device(task) else RowUploads)(runtime, task)

    @property
    def _counted(self) -> bool:
        """Whether histograms count rows, which only ``min_samples_leaf`` requires."""
        return self.task.options.min_samples_leaf > 1

    def by_lists(self, host: HostInputs) -> bool:
        """Whether a node's histogram has only its listed features instead of all features."""
        return use_feature_lists(self.task.options.max_features, host.max_allowed)

    def kind_of(self, host: HostInputs) -> tuple[int, ...]:
        """Return the kind of a batch: batches of one kind can replay the same recording."""
        return len(host.trees), int(self.by_lists(host))

    def rows(
        self, host: HostInputs, inputs: BatchInputs
    ) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Make the rows of a batch of trees; the results are as in `DeviceDrawing.rows`."""
        if isinstance(self._sampler, DeviceDrawing):
            return self._sampler.rows(inputs.keys)
        if isinstance(self._sampler, RowUploads):
            return self._sampler.rows(host.trees)
        assert self.rounds is not None
        return self.rounds.make(inputs)

    def policy(self, min_hessian: Array, n_trees: int, n_rows: int, max_weight: int) -> Policy:
        """Make the policy of a batch of ``n_trees`` trees, with capacity for ``n_rows`` rows."""
        sizes = n_trees, n_rows, self.task.target.n_channels
        small_rows = 0
        if self._may_leave(n_trees):
            small_rows = small_rows_for(self.runtime, self.task, n_rows, max_weight)
        purity = constant("level/policy.cu", self.task.target.purity)
        return Policy(self.runtime, self.task.options, min_hessian, *sizes, purity, small_rows)

    def _may_leave(self, n_trees: int) -> bool:
        """Whether small nodes may leave the level loop (see `small_rows_for`).

        In rounds, they leave it only if many nodes are possible and the partition does not track
        the leaf of each row.
        """
        wanted = SUBTREES_WANTED * self.runtime.n_multiprocessors
        many = n_trees << min(self.task.options.max_depth, DEEPEST) > wanted
        leaves = None if self.rounds is None else self.rounds.leaves
        return self.rounds is None or (many and not (leaves and leaves.follows))

    def histogram_builder(self, max_weight: int, by_lists: bool) -> HistogramBuilder:
        """Make the histogram builder of a batch whose rows have weights up to ``max_weight``."""
        n_listed = self.task.options.max_features if by_lists else self.matrix.n_features
        return HistogramBuilder(
            self.runtime,
            self.matrix,
            self.task.target.n_channels,
            self._by_channel,
            self._counted,
            max_weight,
            n_listed,
            self.flags,
        )
