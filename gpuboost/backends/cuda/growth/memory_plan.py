"""Memory of a fit on the device, estimated by a dry run of its host code over shape arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial

from gpuboost.backends.cost_model import is_sync_free
from gpuboost.backends.cuda.growth.device_task import DeviceTask, RoundMaker, no_rounds
from gpuboost.backends.cuda.growth.hooks import RowsOfRounds
from gpuboost.backends.cuda.growth.level_ops import CudaLevelOps
from gpuboost.backends.cuda.growth.node_buffer import has_places, max_rows_of_tree
from gpuboost.backends.cuda.runtime.arena import ArenaPlan, plan_arena
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape, ShapeRuntime
from gpuboost.backends.cuda.sampling.batch_inputs import HostInputs
from gpuboost.backends.cuda.sampling.draw import draws_on_device
from gpuboost.engine.growth.level_loop import grow_levels
from gpuboost.engine.task import GrowTask, TreeOptions

# Fraction of the memory budget for histograms, of a level and of the level before if they are kept;
# the rest is for rows and nodes.
HISTOGRAM_SHARE = 0.5
ROWS_OF_FULL_LEVEL = 4  # smallest number of rows per node of a level that is assumed to be full


@dataclass(frozen=True)
class MemoryEstimate:
    """Device memory of a fit, in bytes.

    Attributes
    ----------
    lasting : int
        Bytes of the data that all batches share, such as the binned matrix and the target.
    peak : int
        Peak bytes while a batch of trees grows, including ``lasting``.
    needs_size_readback : bool
        Whether the host reads back numbers of nodes.
    lives : tuple of list of int, or None
        Sizes of the batch's arrays and ends of their lifetimes: the arguments of `plan_arena`. None
        if the launches of the batch cannot be replayed.
    """

    lasting: int
    peak: int
    needs_size_readback: bool
    lives: tuple[list[int], list[int]] | None

    @cached_property
    def plan(self) -> ArenaPlan | None:
        """Offsets of the arrays of a recorded batch; None if the batch cannot be recorded."""
        return None if self.lives is None else plan_arena(*self.lives)


def dry_run(task: GrowTask, n_trees: int, shape: DeviceShape) -> MemoryEstimate:
    """Estimate the memory for growing the first ``n_trees`` trees of a task together."""
    return dry_run_batch(task, HostInputs.of(task, task.trees[:n_trees]), shape)


def dry_run_batch(
    task: GrowTask,
    host: HostInputs,
    shape: DeviceShape,
    maker: RoundMaker[RowsOfRounds | None] = no_rounds,
) -> MemoryEstimate:
    """Estimate the memory of a batch; ``maker`` is as in `DeviceTask`.

    Histograms take up to ``task.memory_budget`` bytes. If the host reads back a number of nodes, it
    gets the estimate `nodes_at`, limited by the options of the trees; this happens for deep trees
    (`is_sync_free`), and for levels with so many histograms that they need many slices to fit
    ``task.memory_budget`` (`Slices.are_few`). The launches can be replayed if the rows are drawn on
    the device or made there by rounds, and the host reads back no number of nodes.
    """
    n_trees = len(host.trees)
    runtime = shape_runtime(shape, n_trees, task.matrix.n_samples, task.options)
    shared = DeviceTask(runtime, task, maker)
    lasting = runtime.meter.now
    inputs = host.to_device(runtime)
    first = len(runtime.meter.sizes)
    nodes = grow_levels(partial(CudaLevelOps.start, shared, host, inputs), task).end_batch()
    on_device = draws_on_device(task) or shared.rounds is not None
    lives = runtime.meter.lives(first) if on_device and not runtime.was_read else None
    del nodes  # kept until here, because its arrays are used after the last launch
    return MemoryEstimate(lasting, runtime.meter.peak, runtime.was_read, lives)


def shape_runtime(
    shape: DeviceShape, n_trees: int, n_rows: int, options: TreeOptions
) -> ShapeRuntime:
    """Make a runtime for a dry run of a batch of ``n_trees`` trees with ``n_rows`` rows each.

    Where the host would read the number of nodes, it gets `nodes_at` per tree, at most as many as
    ``max_leaf_nodes`` allows.
    """

    def nodes(depth: int) -> int:
        return n_trees * min(nodes_at(depth, n_rows), 2 * options.max_splits(depth - 1))

    return ShapeRuntime(shape.shared_memory, shape.n_multiprocessors, nodes)


def nodes_at(depth: int, rows: int) -> int:
    """Estimate the number of nodes of a tree at a depth.

    Levels are assumed to be full until nodes have few rows; below, the number of nodes halves every
    second level. A tree grown to purity then has about as many nodes as rows, which is more than
    most trees have.
    """
    capacity = max(1, rows // ROWS_OF_FULL_LEVEL)
    full = capacity.bit_length() - 1
    return 2 ** min(depth, full) >> max(0, (depth - full) // 2)


def trees_at_once(task: GrowTask, budget: int, shape: DeviceShape) -> int:
    """Number of trees of a task that grow together in ``budget`` bytes, at least one.

    The budget includes ``task.memory_budget`` bytes for histograms and the memory of a recording,
    but not the data that all batches share. The node numbers of a batch must fit in int32.
    Batches have about equal size. They are smaller if that makes growth sync free, except in
    rounds, whose trees grow together.
    """
    known = cache(lambda n_trees: dry_run(task, n_trees, shape))

    def taken(n_trees: int) -> int:
        found = known(n_trees)
        n_bytes = found.peak - found.lasting
        return n_bytes if n_bytes > budget else max(n_bytes, _held_bytes(found, task, n_trees))

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
    """Trees per batch for the smallest number of batches, from ``n_batches`` on, that fit.

    A batch fits if its bytes, ``taken(n_trees)``, are at most ``budget`` and int32 can number its
    nodes; a batch of one tree is always allowed. A batch with a fraction of the trees takes at
    least that fraction of the bytes, so each estimate gives a lower bound on the number of batches.
    """
    rows = max_rows_of_tree(task)
    while (n_trees := -(-len(task.trees) // n_batches)) > 1:
        enough = n_batches + 1
        if has_places(task, n_trees, n_trees * rows):
            n_bytes = taken(n_trees)
            if n_bytes <= budget:
                break
            enough = max(enough, -(-n_batches * n_bytes // budget))
        n_batches = enough
    return n_trees


def fit_peak(task: GrowTask, budget: int, shape: DeviceShape) -> int:
    """Peak bytes while the trees of a task grow in batches that fit ``budget`` bytes.

    The memory of a recording stays allocated from the first batch to the last.
    """
    n_trees = trees_at_once(task, budget, shape)
    found = dry_run(task, n_trees, shape)
    return max(found.peak, found.lasting + _held_bytes(found, task, n_trees))


def _held_bytes(found: MemoryEstimate, task: GrowTask, n_trees: int) -> int:
    """Bytes that the recording of a batch of ``n_trees`` trees holds; 0 if none is repeated.

    Unlike `TreeGrower`, which launches a batch without recording it if the recording exceeds the
    budget, this counts the bytes of any recording, so that `trees_at_once` chooses batches small
    enough to be recorded. Only for a batch of one tree can they exceed the budget; `fit_peak` is
    then an upper bound.
    """
    is_repeated = 2 * n_trees <= len(task.trees)
    return found.plan.total if is_repeated and found.plan is not None else 0
