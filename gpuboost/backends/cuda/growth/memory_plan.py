"""Memory of a fit on the device, estimated by a dry run of its host code over shape arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from gpuboost.backends.cuda.growth.device_task import DeviceTask, RoundMaker
from gpuboost.backends.cuda.growth.level_ops import CudaLevelOps
from gpuboost.backends.cuda.growth.node_buffer import has_places, rows_of_tree
from gpuboost.backends.cuda.level.policy import is_sync_free
from gpuboost.backends.cuda.runtime.arena import ArenaPlan, plan_arena
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape, ShapeRuntime
from gpuboost.backends.cuda.sampling.batch_inputs import HostInputs
from gpuboost.engine.growth.level_loop import grow_levels
from gpuboost.engine.task import GrowTask

# Of what a fit may use, the share for histograms of levels; the rest is for rows and nodes.
HISTOGRAM_SHARE = 0.5
# What a column takes while its bins are learnt besides its keys, in bytes a row: counted.
COLUMN_BYTES, WEIGHTED_COLUMN_BYTES = 17, 41
ROWS_OF_FULL_LEVEL = 4  # of a node of the last level that is taken to be full


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of a fit on the device.

    Attributes
    ----------
    lasting : int
        Of the binned matrix and the target, which all batches of trees share.
    peak : int
        Most that is held while a batch of trees grows, ``lasting`` included.
    needs_size_readback : bool
        Whether the host asks how many nodes there are.
    """

    lasting: int
    peak: int
    needs_size_readback: bool


def dry_run(task: GrowTask, n_trees: int, shape: DeviceShape) -> MemoryEstimate:
    """Bytes that growing the first ``n_trees`` trees of a task together will take.

    Histograms take up to ``task.memory_budget``. Where the host asks how many nodes there are, the
    answer is `nodes_at`.
    """
    runtime = _shape_runtime(task, n_trees, shape)
    shared = DeviceTask(runtime, task)
    lasting = runtime.meter.now
    host = HostInputs.of(task, task.trees[:n_trees])
    grow_levels(CudaLevelOps(shared, host, host.to_device(runtime)), task, n_trees)
    return MemoryEstimate(lasting, runtime.meter.peak, runtime.asked)


@dataclass(frozen=True)
class Recorded:
    """What a batch takes that is recorded to be replayed.

    Attributes
    ----------
    plan : ArenaPlan
        Of its arrays.
    """

    plan: ArenaPlan

    @property
    def total(self) -> int:
        """Bytes in all, beside the lasting ones."""
        return self.plan.total


def dry_run_recorded(
    task: GrowTask, host: HostInputs, shape: DeviceShape, maker: RoundMaker | None = None
) -> Recorded | None:
    """Where the arrays of a batch lie that is recorded; None if it cannot be replayed.

    Batches of as many trees are the same launches if the device draws their rows, and if the host
    decides nothing by what has been computed: not where it asks how many nodes levels have, see
    `CudaLevelOps`, of deep trees or of levels too large for ``task.memory_budget``. ``maker`` is
    what `DeviceTask` takes.
    """
    if task.sampler is None and maker is None:
        return None
    n_trees = len(host.trees)
    runtime = _shape_runtime(task, n_trees, shape)
    ops = CudaLevelOps(DeviceTask(runtime, task, maker), host, host.to_device(runtime))
    first = len(runtime.meter.sizes)
    nodes = grow_levels(ops, task, n_trees)
    if runtime.asked:
        return None
    plan = plan_arena(*runtime.meter.lives(first))
    del nodes  # what it holds is read after the last launch
    return Recorded(plan)


def _shape_runtime(task: GrowTask, n_trees: int, shape: DeviceShape) -> ShapeRuntime:
    rows = task.matrix.n_samples

    def nodes(depth: int) -> int:
        return n_trees * min(nodes_at(depth, rows), 2 * task.options.max_splits(depth - 1))

    return ShapeRuntime(shape.shared_memory, shape.n_multiprocessors, nodes)


def binning_peak(n_features: int, n_samples: int, itemsize: int, weighted: bool) -> int:
    """Most bytes held while a matrix of the host is binned: itself, and its codes or one column."""
    column = itemsize + (WEIGHTED_COLUMN_BYTES if weighted else COLUMN_BYTES)
    return n_samples * (n_features * itemsize + max(n_features, column))


def nodes_at(depth: int, rows: int) -> int:
    """Nodes that a tree is taken to have at a depth.

    Levels are full until their nodes have few rows, and then lose half of their nodes every second
    level. So a tree to purity has about as many nodes as rows, which is more than most have.
    """
    capacity = max(1, rows // ROWS_OF_FULL_LEVEL)
    full = capacity.bit_length() - 1
    return 2 ** min(depth, full) >> max(0, (depth - full) // 2)


def trees_at_once(task: GrowTask, budget: int, shape: DeviceShape) -> int:
    """How many trees of a task can grow together in ``budget`` bytes, at least one.

    Several have no more rows together than their nodes have places for. What all batches share does
    not count; ``task.memory_budget`` bytes for histograms do. Batches have about one size. Of trees
    of bounded depth fewer grow at once, if then the host need not ask how many nodes levels have:
    but not of those of a round, which belong together.
    """
    known = cache(lambda n_trees: dry_run(task, n_trees, shape))
    taken = partial(_bytes_of_batch, task, known, budget, shape)
    capacity = _max_that_fit(task, 1, taken, budget)
    if task.sampler is None or not is_sync_free(task.options):
        return capacity
    n_trees = capacity
    while known(n_trees).needs_size_readback:
        if n_trees == 1:
            return capacity
        n_trees = _max_that_fit(task, 2 * -(-len(task.trees) // n_trees), taken, budget)
    return n_trees


def _max_that_fit(task: GrowTask, n_batches: int, taken: Callable[[int], int], budget: int) -> int:
    """Trees of one of the fewest batches, ``n_batches`` at least, that fit ``budget``; or 1.

    ``taken`` says how many bytes so many trees take.
    A batch of a share of the trees takes at least that share of the bytes. So how many batches it
    takes at least follows from the last one foretold.
    """
    rows = rows_of_tree(task)
    while (n_trees := -(-len(task.trees) // n_batches)) > 1:
        enough = n_batches + 1
        if has_places(task, n_trees, n_trees * rows):
            n_bytes = taken(n_trees)
            if n_bytes <= budget:
                break
            enough = max(enough, -(-n_batches * n_bytes // budget))
        n_batches = enough
    return n_trees


def _bytes_of_batch(
    task: GrowTask,
    estimated: Callable[[int], MemoryEstimate],
    budget: int,
    shape: DeviceShape,
    n_trees: int,
) -> int:
    """Bytes of so many trees; of those that fit, if they are recorded, as they are then."""
    found = estimated(n_trees)
    taken = found.peak - found.lasting
    return taken if taken > budget else max(taken, _recorded_bytes(task, n_trees, shape))


def fit_peak(task: GrowTask, budget: int, shape: DeviceShape) -> int:
    """Most bytes held while the trees of a task grow, as many at once as ``budget`` has room for.

    The memory of batches that are replayed is held from the first to the last.
    """
    n_trees = trees_at_once(task, budget, shape)
    found = dry_run(task, n_trees, shape)
    return max(found.peak, found.lasting + _recorded_bytes(task, n_trees, shape))


def _recorded_bytes(task: GrowTask, n_trees: int, shape: DeviceShape) -> int:
    """Bytes of a batch of so many trees where it is recorded; 0 where it is not."""
    if 2 * n_trees > len(task.trees):
        return 0
    recorded = dry_run_recorded(task, HostInputs.of(task, task.trees[:n_trees]), shape)
    return recorded.total if recorded else 0
