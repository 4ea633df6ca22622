"""How the memory of a device is divided among rows, histograms and codes of a fit in blocks."""

from __future__ import annotations

from collections.abc import Sequence

from gpuboost.backends.cuda.blocks.codes import DeviceCodes
from gpuboost.backends.cuda.blocks.passes import DevicePasses
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.numpy.blocks.passes import PassThreads
from gpuboost.engine.code_blocks import CodeBlocks
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import GrowTask

ROWS_SHARE = 2  # half of the budget is for the nodes, weights and targets of rows
PART_SHARE = 8  # an eighth is for histograms, and an eighth for copies of codes


class BlockGrowth:
    """Passes on a device for all batches of a fit (`BlockDevice`), which share the codes there.

    Parameters
    ----------
    runtime : Runtime
    blocks : CodeBlocks
        The codes of the fit.
    """

    def __init__(self, runtime: Runtime, blocks: CodeBlocks) -> None:
        self._runtime, self._blocks = runtime, blocks
        with runtime.active():
            self._budget = runtime.memory_budget()
        self._codes: DeviceCodes | None = None

    def batch_size(self, task: GrowTask, size: int) -> int:
        """Number of trees that grow together: ``size``, or fewer if the device holds no more."""
        target, n = task.target, task.matrix.n_samples
        k = target.n_channels
        # Node and weight; in boosting also leaf, gradients and their wide sums, else wide weights.
        of_tree = n * (12 + 20 * k if target.has_gradients else 24)
        shared = 0 if target.wide is None else target.wide.nbytes
        shared += n * 4 * (0 if target.has_gradients else k)
        size = min(size, max(1, (self._budget // ROWS_SHARE - shared) // of_tree))
        if self._codes is None:
            free = self._budget - size * of_tree - shared
            capacity = free - 2 * self._budget // PART_SHARE
            self._codes = DeviceCodes(self._runtime, self._blocks, capacity)
        return size

    def passes(
        self, task: GrowTask, tree_rows: Sequence[TreeRows], threads: PassThreads
    ) -> DevicePasses:
        """The passes of a batch of trees."""
        assert self._codes is not None
        budget = self._budget // PART_SHARE
        with self._runtime.active():
            return DevicePasses(self._runtime, self._codes, budget, task, tree_rows, threads)
