"""Memory of a fit on the device, foretold by running its host code over phantoms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuboost.backends.cuda.arena import plan_arena
from gpuboost.backends.cuda.inputs import HostInputs
from gpuboost.backends.cuda.level_ops import CudaLevelOps
from gpuboost.backends.cuda.phantoms import PhantomRuntime
from gpuboost.backends.cuda.stored import has_places, rows_of_tree
from gpuboost.engine.level_loop import run_levels

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuboost.backends.cuda.arena import ArenaPlan
    from gpuboost.backends.cuda.level_ops import RoundMaker
    from gpuboost.engine.spec import GrowTask

# Of what a fit may use, the share for histograms of levels; the rest is for rows and nodes.
HISTOGRAM_SHARE = 0.5
# What a column takes while its bins are learnt besides its keys, in bytes a row: counted.
COLUMN_BYTES, WEIGHTED_COLUMN_BYTES = 17, 41
ROWS_OF_FULL_LEVEL = 4  # of a node of the last level that is taken to be full
# Rows of trees in flight that make it worth while to have fewer, if larger siblings' histograms are
# then found by subtraction. To sum all rows, and not half of them, moves some 60 bytes of each more
# on a level (`cost.VISIT_TRAFFIC` of 28 features, and 44 of a row, halved): 30 us of so many rows,
# as much as the 14 launches of a level that is replayed.
ROWS_IN_FLIGHT = 1 << 20


@dataclass(frozen=True)
class DeviceShape:
    """What of a device decides how much memory is asked for.

    Attributes
    ----------
    shared_memory : int
        Bytes of shared memory that a block may have.
    n_multiprocessors : int
    """

    shared_memory: int = 227 << 10
    n_multiprocessors: int = 132

    @classmethod
    def of(cls, runtime: Any) -> DeviceShape:
        """That of a runtime."""
        return cls(runtime.shared_memory, runtime.n_multiprocessors)


@dataclass(frozen=True)
class Foretold:
    """Bytes of a fit on the device.

    Attributes
    ----------
    lasting : int
        Of the binned matrix and the target, which all batches of trees share.
    peak : int
        Most that is held while a batch of trees grows, ``lasting`` included.
    sums_all : bool
        See `CudaLevelOps`.
    """

    lasting: int
    peak: int
    sums_all: bool


def foretell(task: GrowTask, n_trees: int, shape: DeviceShape) -> Foretold:
    """Bytes that growing the first ``n_trees`` trees of a task together will take.

    Histograms take up to ``task.memory_budget``. Where the host asks how many nodes there are, the
    answer is `nodes_at`.
    """
    runtime = _phantoms(task, n_trees, shape)
    ops = CudaLevelOps(runtime, task)
    lasting = runtime.meter.now
    roots = partial(ops.roots, task.trees[:n_trees])
    run_levels(ops, task, n_trees, roots)
    return Foretold(lasting, runtime.meter.peak, ops.sums_all)


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


def foretell_recorded(
    task: GrowTask, host: HostInputs, shape: DeviceShape, maker: RoundMaker | None = None
) -> Recorded | None:
    """Where the arrays of a batch lie that is recorded; None if it cannot be replayed.

    Batches of as many trees are the same launches if the device draws their rows, and if the host
    decides nothing by what has been computed: not where it asks how many nodes levels have, see
    `CudaLevelOps`, of deep trees or of levels too large for ``task.memory_budget``. ``maker`` is
    what `CudaLevelOps` takes.
    """
    if task.sampler is None and maker is None:
        return None
    n_trees = len(host.trees)
    runtime = _phantoms(task, n_trees, shape)
    ops = CudaLevelOps(runtime, task, maker)
    inputs = host.to_device(runtime)
    first = len(runtime.meter.sizes)
    history = run_levels(ops, task, n_trees, partial(ops.roots_of, host, inputs))
    if runtime.asked:
        return None
    plan = plan_arena(*runtime.meter.lives(first))
    del history  # what it holds is read after the last launch
    return Recorded(plan)


def _phantoms(task: GrowTask, n_trees: int, shape: DeviceShape) -> PhantomRuntime:
    rows = task.matrix.n_samples

    def nodes(depth: int) -> int:
        return n_trees * min(nodes_at(depth, rows), 2 * task.options.most_splits(depth - 1))

    return PhantomRuntime(shape.shared_memory, shape.n_multiprocessors, nodes)


def binning_peak(n_features: int, n_samples: int, itemsize: int, weighted: bool) -> int:
    """Most bytes held while a matrix of the host is binned: itself, and its codes or one column."""
    column = itemsize + (WEIGHTED_COLUMN_BYTES if weighted else COLUMN_BYTES)
    return n_samples * (n_features * itemsize + max(n_features, column))


def nodes_at(depth: int, rows: int) -> int:
    """Nodes that a tree is taken to have at a depth.

    Levels are full until their nodes have few rows, and then lose half of their nodes every second
    level. So a tree to purity has about as many nodes as rows, which is more than most have.
    """
    most = max(1, rows // ROWS_OF_FULL_LEVEL)
    full = most.bit_length() - 1
    return 2 ** min(depth, full) >> max(0, (depth - full) // 2)


def trees_at_once(task: GrowTask, budget: int, shape: DeviceShape) -> int:
    """How many trees of a task can grow together in ``budget`` bytes, at least one.

    Several have no more rows together than their nodes have places for. What all batches share does
    not count; ``task.memory_budget`` bytes for histograms do. Of a forest fewer are enough, with
    `ROWS_IN_FLIGHT`, where the histograms of two levels fit that budget then.
    """
    rows = rows_of_tree(task)

    def fits(n_trees: int) -> bool:
        if not has_places(task, n_trees, n_trees * rows):
            return False
        found = foretell(task, n_trees, shape)
        return found.peak - found.lasting <= budget

    def subtracts(n_trees: int) -> bool:
        return not foretell(task, n_trees, shape).sums_all

    found = _most(fits, 1, len(task.trees))
    enough = -(-ROWS_IN_FLIGHT // rows)
    is_forest = task.sampler is not None  # else the trees of a round belong together
    if is_forest and enough < found and not subtracts(found) and subtracts(enough):
        found = _most(subtracts, enough, found)
    found = -(-len(task.trees) // -(-len(task.trees) // found))  # batches of about one size
    while found > 1 and _recorded_bytes(task, found, shape) > budget:
        found -= max(1, found // 64)
    return found


def _most(holds: Callable[[int], bool], least: int, most: int) -> int:
    """The largest number up to ``most`` of which something holds, as of all less from ``least``."""
    if least == most or holds(most):
        return most
    while least < most - 1:
        middle = (least + most) // 2
        if holds(middle):
            least = middle
        else:
            most = middle
    return least


def fit_peak(task: GrowTask, budget: int, shape: DeviceShape) -> int:
    """Most bytes held while the trees of a task grow, as many at once as ``budget`` has room for.

    The memory of batches that are replayed is held from the first to the last.
    """
    n_trees = trees_at_once(task, budget, shape)
    found = foretell(task, n_trees, shape)
    return max(found.peak, found.lasting + _recorded_bytes(task, n_trees, shape))


def _recorded_bytes(task: GrowTask, n_trees: int, shape: DeviceShape) -> int:
    """Bytes of a batch of so many trees where it is recorded; 0 where it is not."""
    if 2 * n_trees > len(task.trees):
        return 0
    recorded = foretell_recorded(task, HostInputs.of(task, task.trees[:n_trees]), shape)
    return recorded.total if recorded else 0
