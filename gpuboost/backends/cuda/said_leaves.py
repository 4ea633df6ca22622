"""What the leaves of AdaBoost's trees say, made on the device while the trees grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuboost.backends.cuda.filling import zeros
from gpuboost.backends.cuda.kept import KeptMemory
from gpuboost.backends.cuda.level import DeviceFrontier, DeviceSplits, room_of
from gpuboost.backends.cuda.placed import NodeKeeper
from gpuboost.backends.cuda.policy import most_nodes, rounds_are_unasked
from gpuboost.backends.cuda.source import constant
from gpuboost.engine.reweighting import ClassJudge
from gpuboost.engine.spec import NO_LIMIT

if TYPE_CHECKING:
    from gpuboost.backends.cuda.level import Columns
    from gpuboost.backends.cuda.rounds import LevelSplits
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.reweighting import ReweightTask

EXPONENT: Columns = {"exponent": (np.int32, (1,))}
SUMS: Columns = {"sums": (np.int64, (2,))}


def says_on_device(task: ReweightTask) -> bool:
    """Whether leaves are known when the last level is launched.

    Where none is pruned away or held in order afterwards, the levels are few enough to be launched
    without knowing how many nodes they have, and values are means.
    """
    options = task.options
    whole = options.ccp_alpha == 0.0 and options.least_decrease == 0.0
    means = not task.judge.target.by_median and options.regularisation.monotonic is None
    return rounds_are_unasked(options) and whole and means


class SaidLeaves:
    """Keeps the nodes of one tree after the other, and what its leaves say.

    Parameters
    ----------
    runtime : Runtime
    task : ReweightTask
    most_rows : int
        Of a tree.

    Attributes
    ----------
    kept : KeptMemory
        What the host reads of a round.
    nodes : PlacedNodes
    says : int32 (m,) or float64 (m,)
        Class or value of each leaf.
    n_numbers : int
        Nodes that all levels have room for.
    """

    def __init__(self, runtime: Runtime, task: ReweightTask, most_rows: int) -> None:
        self._runtime, self._target = runtime, task.judge.target
        self._most = most_nodes(1, most_rows, task.options)
        self._by_class = isinstance(task.judge, ClassJudge)
        self.n_numbers = n_nodes = sum(self._most)
        self._keeper = NodeKeeper(runtime, task.matrix.mapper, n_nodes, by_value=False)
        self.nodes = self._keeper.nodes
        self.says = runtime.xp.empty(n_nodes, dtype=np.int32 if self._by_class else np.float64)
        self._none: Array | None = None
        if task.options.max_leaf_nodes != NO_LIMIT:
            self._none = zeros(runtime, max(self._most), np.uint8)

    def begin(self) -> tuple[Array, Array]:
        """Begin a tree; arrays for the exponent of its weights and for its sums."""
        self._next = 0
        self.kept = KeptMemory(self._runtime.xp, self._kept_bytes())
        return self.kept.empty(1, np.int32), self.kept.empty(2, np.int64)

    def _kept_bytes(self) -> int:
        """Bytes of the nodes of all levels, and of what `begin` gives."""
        k, n_bytes = self._target.n_channels, room_of(EXPONENT) + room_of(SUMS)
        n_sums = 0 if self._target.wide is None else self._target.wide.shape[1]
        for most in self._most:
            n_bytes += room_of(DeviceFrontier.columns(most, k))
            n_bytes += room_of(DeviceSplits.columns(most, k, self._keeper.mask_words))
            n_bytes += room_of({"sums": (np.int64, (most, n_sums))})
            n_bytes += room_of({"size": (np.int32, (1,))})
        return n_bytes

    def not_heard(self, frontier: DeviceFrontier, accepted: Array) -> Array:
        """Nodes that need not say anything, uint8 (m,): not those whose split may be taken back."""
        return accepted if self._none is None else self._none[: frontier.most]

    def keep_level(self, frontier: DeviceFrontier, accepted: Array, sums: Array | None) -> None:
        """Keep what the leaves of a level say; ``sums`` are those of values."""
        target, at = self._target, np.int32(self._next)
        accepted = self.not_heard(frontier, accepted)
        of_nodes = (frontier.size, accepted, frontier.hessian)
        if self._by_class:
            kinds = (np.int32(target.n_channels), np.int32(target.n_classes))
            name, args = "say_classes", (*of_nodes, frontier.gradient, *kinds)
        else:
            assert sums is not None
            planes = (np.int32(sums.shape[1]), *map(np.int32, target.exponents[:2]))
            name, args = "say_values", (*of_nodes, sums, *planes, np.float64(target.mean[0]))
        threads = constant("rounds.cuh", "BOOST_THREADS")
        kernel = self._runtime.kernel("adaboost.cu", name, {})
        n_blocks = -(-frontier.most // threads)
        kernel((n_blocks,), (threads,), (*args, at, self.nodes.left, self.says))
        self._next += frontier.most

    def keep_nodes(self, level: LevelSplits) -> None:
        """Keep how the nodes of the level kept last were split."""
        self._keeper.keep(level, self._next - level.frontier.most, self._next)
