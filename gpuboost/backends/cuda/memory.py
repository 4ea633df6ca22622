"""Memory of a fit on the device, foretold by running its host code over phantoms."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpuboost.backends.cuda.level_ops import CudaLevelOps
from gpuboost.backends.cuda.phantoms import PhantomRuntime, StoppedError
from gpuboost.engine.level_loop import grow_levels
from gpuboost.engine.spec import NO_LIMIT

if TYPE_CHECKING:
    from gpuboost.engine.spec import GrowTask

# Of what a fit may use, the share for histograms of levels; the rest is for rows and nodes.
HISTOGRAM_SHARE = 0.5
# What a column takes while its bins are learnt besides its keys, in bytes a row: counted.
COLUMN_BYTES, WEIGHTED_COLUMN_BYTES = 17, 41
ROWS_OF_FULL_LEVEL = 4  # of a node of the last level that is taken to be full


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
    """

    lasting: int
    peak: int


def foretell(task: GrowTask, n_trees: int, shape: DeviceShape) -> Foretold:
    """Bytes that growing the first ``n_trees`` trees of a task together will take.

    Histograms take up to ``task.memory_budget``. Where the host asks how many nodes there are, the
    answer is `nodes_at`.
    """
    # Best-first growth takes what level-wise growth takes, and asks for nodes on the way.
    task = replace(task, options=replace(task.options, max_leaf_nodes=NO_LIMIT))
    rows = task.matrix.n_samples
    runtime = PhantomRuntime(
        shape.shared_memory, shape.n_multiprocessors, lambda depth: n_trees * nodes_at(depth, rows)
    )
    ops = CudaLevelOps(runtime, task)
    lasting = runtime.meter.now
    with suppress(StoppedError):
        grow_levels(ops, task, task.trees[:n_trees])
    return Foretold(lasting, runtime.meter.peak)


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

    What all batches share does not count; ``task.memory_budget`` bytes for histograms do.
    """

    def fits(n_trees: int) -> bool:
        found = foretell(task, n_trees, shape)
        return found.peak - found.lasting <= budget

    least, most = 1, len(task.trees)
    if most == 1 or fits(most):
        return most
    while least < most - 1:
        middle = (least + most) // 2
        if fits(middle):
            least = middle
        else:
            most = middle
    return least
