"""The leaves of the trees of a round, and what they add to raw predictions, on the device.

Rows in the trees are followed by the partition; others walk down the finished levels, whose
thresholds are made of them as `engine.tree` does on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.features import DeviceFeatures
from gpuboost.backends.cuda.filling import fill, zeros
from gpuboost.backends.cuda.kept import KeptMemory
from gpuboost.backends.cuda.level import DeviceFrontier, DeviceSplits, allocate, room_of
from gpuboost.backends.cuda.placed import NodeKeeper
from gpuboost.backends.cuda.policy import most_children
from gpuboost.backends.cuda.refits import LeafRefits
from gpuboost.backends.cuda.source import constant
from gpuboost.engine.spec import NO_LIMIT

if TYPE_CHECKING:
    from gpuboost.backends.cuda.best_first import Ends, SplitQueue
    from gpuboost.backends.cuda.inputs import BatchInputs
    from gpuboost.backends.cuda.level import Columns
    from gpuboost.backends.cuda.rounds import LevelLeaves, LevelSplits
    from gpuboost.backends.cuda.row_sets import DeviceRowSet
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.losses import OrderStatisticLoss
    from gpuboost.engine.rounds import BoostTask
    from gpuboost.engine.spec import TreeOptions


@dataclass(frozen=True, eq=False)
class HeldValues:
    """What monotonic features hold the values of nodes to, by the places of these.

    Attributes
    ----------
    signs : int8 (F,)
        Directions of features.
    none : uint8 (m,)
        Zeros: no node.
    sign : int8 (nodes,)
    lower, upper : float64 (nodes,)
        See ``hand_bounds`` of leaves.cu.
    held : bool
        Whether features are monotonic; if not, the arrays have an item each.
    """

    signs: Array
    none: Array
    sign: Array
    lower: Array
    upper: Array
    held: bool

    @classmethod
    def room(
        cls, runtime: Runtime, signs: tuple[int, ...] | None, n_nodes: int, most: int
    ) -> HeldValues:
        """Room for so many nodes, at most ``most`` of them in a level."""
        held, xp = signs is not None, runtime.xp
        n = n_nodes if held else 1
        columns: Columns = {
            "sign": (np.int8, (n,)),
            "lower": (np.float64, (n,)),
            "upper": (np.float64, (n,)),
        }
        directions = runtime.asarray(np.array(signs or (0,), dtype=np.int8))
        none = zeros(runtime, most if held else 1, np.uint8)
        return cls(directions, none, **allocate(xp, columns), held=held)

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """What kernels read and write."""
        return self.sign, self.lower, self.upper


class RoundLeaves:
    """Keeps the leaves of rounds whose trees grow together.

    Parameters
    ----------
    runtime : Runtime
    task : BoostTask
    sets : list of DeviceRowSet
        The training rows, and those of watched rows that have raw predictions of their own.
    most_rows : int
        Rows that a tree has at most.
    n_hessians : int
        Of a tree.

    Attributes
    ----------
    kept : KeptMemory
        What the host reads of the trees of the round.
    n_numbers : int
        Nodes that all levels have room for.
    """

    def __init__(
        self,
        runtime: Runtime,
        task: BoostTask,
        sets: list[DeviceRowSet],
        most_rows: int,
        n_hessians: int,
    ) -> None:
        xp, self._runtime, self._task, self._sets = runtime.xp, runtime, task, sets
        n_trees = task.trees_per_round
        self._n_outputs = task.loss.columns if task.sums_outputs else 1
        self._n_hessians, self._most_rows = n_hessians, most_rows
        self._most = most_nodes(n_trees, n_trees * most_rows, task.options)
        self.n_numbers = sum(self._most)
        self._best_first = task.options.max_leaf_nodes != NO_LIMIT
        self._all = runtime.asarray(np.array([self.n_numbers], dtype=np.int32))
        self._has_rows_outside = most_rows < sets[0].n
        self._places = [xp.empty((n_trees, rows.n), dtype=np.int32) for rows in sets]
        self._value = xp.empty((self.n_numbers, self._n_outputs), dtype=np.float64)
        signs = task.options.regularisation.monotonic
        self._bounds = HeldValues.room(runtime, signs, self.n_numbers, max(self._most))
        self._refits: LeafRefits | None = None
        self._walks = self._has_rows_outside or len(sets) > 1
        by_value = any(isinstance(rows.data, DeviceFeatures) for rows in sets)
        n_placed = self.n_numbers if self._walks else 0
        self._keeper = NodeKeeper(runtime, task.matrix.mapper, n_placed, by_value)
        self._nodes = self._keeper.nodes

    def refit(self, loss: OrderStatisticLoss, weights: Array | None) -> None:
        """From now on leaves take quantiles of residuals, by `RoundRows.leaf_weights`."""
        task, rows = self._task, self._sets[0]
        n_rows = task.trees_per_round * self._most_rows
        ever = task.trees_per_round + sum(self._most[1:]) // 2  # leaves, if none was split before
        most = min(n_rows, ever, task.trees_per_round << task.options.deepest)
        self._refits = LeafRefits(self._runtime, loss, rows, weights, most, n_rows)

    def begin(self, others: Columns) -> dict[str, Array]:
        """Begin a round; arrays for what else the host reads of it."""
        self._next = 0
        self._first: dict[int, int] = {}  # of the nodes of each frontier
        if self._has_rows_outside:
            fill(self._runtime, self._places[0], -1)
        self.kept = KeptMemory(self._runtime.xp, room_of(others) + self._kept_bytes())
        self._sums = self.kept.empty(self._shape_of_sums, np.int64)
        fill(self._runtime, self._sums, 0)
        if self._refits is not None:
            self._refits.begin()
            self._value = self.kept.empty((self.n_numbers, 1), np.float64)
        return {name: self.kept.empty(shape, dtype) for name, (dtype, shape) in others.items()}

    @property
    def _shape_of_sums(self) -> tuple[int, int]:
        """That of the leaf sums of all levels."""
        return self.n_numbers, self._n_outputs + self._n_hessians

    def _kept_bytes(self) -> int:
        """Bytes of the nodes of all levels."""
        k, words = self._n_outputs, self._keeper.mask_words
        n_bytes = room_of({"sums": (np.int64, self._shape_of_sums)})
        if self._refits is not None:
            n_bytes += room_of({"value": (np.float64, (self.n_numbers,))})
        for most in self._most:
            n_bytes += room_of(DeviceFrontier.columns(most, k))
            n_bytes += room_of(DeviceSplits.columns(most, k, words))
            n_bytes += room_of({"size": (np.int32, (1,))})
        return n_bytes

    @property
    def held(self) -> bool:
        """Whether values are held in order by monotonic features, and all nodes have sums."""
        return self._bounds.held

    def summed(self, frontier: DeviceFrontier, accepted: Array) -> Array:
        """Nodes whose rows need not be summed: uint8 (m,)."""
        return self._bounds.none[: frontier.most] if self.held else accepted

    def sums_of(self, frontier: DeviceFrontier) -> Array:
        """Zeros for the leaf sums of the level that is kept next: int64 (m, P)."""
        return self.kept.part(self._sums, self._next, frontier.most)

    def refitted(self, frontier: DeviceFrontier) -> np.ndarray | None:
        """Values (m, 1) of the leaves of a level, in the copy shown last; None for Newton steps."""
        if self._refits is None:
            return None
        first = self._first[id(frontier)]
        return self.kept.on_host(self._value)[first : first + frontier.most]

    def keep_level(self, level: LevelLeaves, by: tuple[Array, Array, Array]) -> None:
        """Keep which rows are in the leaves of a level, and what these add.

        Parameters
        ----------
        level : LevelLeaves
            It has sums.
        by : exponents, given, learning rate
            See ``step_leaves`` of leaves.cu.
        """
        rows, frontier, accepted = level.rows, level.frontier, level.accepted
        pieces, first = frontier.pieces, np.int32(self._next)
        self._first[id(frontier)] = self._next
        work = (pieces.size, pieces.slot, pieces.first, pieces.rows)
        where = (np.int64(self._sets[0].n), first, self._places[0])
        self._launch(
            "keep_leaves", (pieces.most,), (rows.row, frontier.tree, accepted, *work, *where)
        )
        if self._refits is not None:
            self._refits.keep_level(rows.row, frontier, accepted, first, level.inputs.keys.number)
        if self.held or not self._best_first:
            assert level.sums is not None
            self._step(frontier.size, frontier.most, accepted, level.sums, by)
        self._next += frontier.most

    def _step(
        self, size: Array, most: int, accepted: Array, sums: Array, by: tuple[Array, Array, Array]
    ) -> None:
        """Make the values of nodes, the first of which has the number ``_next``."""
        sizes = (np.int32(self._n_outputs), np.int32(self._n_hessians), np.int32(self._walks))
        places = (np.int32(self.held), np.int32(self._next))
        out = (*places, self._value, self._nodes.left, *self._bounds.arrays)
        args = (size, accepted, sums, *by, *sizes, *out)
        self._launch("step_leaves", (_blocks(most),), args)

    def keep_nodes(self, level: LevelSplits) -> None:
        """Keep how the nodes of the level kept last were split."""
        frontier, splits = level.frontier, level.splits
        first, following = np.int32(self._next - frontier.most), np.int32(self._next)
        if self.held:
            nodes = (frontier.size, splits.accepted, level.rank, splits.feature, self._bounds.signs)
            args = (*nodes, first, following, *self._bounds.arrays)
            self._launch("hand_bounds", (_blocks(frontier.most),), args)
        if self._walks:
            self._keeper.keep(level, int(first), int(following))

    def settle(self, queue: SplitQueue, by: tuple[Array, Array, Array]) -> Ends:
        """Make the values of the leaves of best-first growth; `add` hands them on.

        ``by`` is what `keep_level` takes.
        """
        left, sums = (self._nodes.left if self._walks else None), self._sums
        ends = queue.ends(left, None if self.held else sums)
        if not self.held:
            self._next = 0
            self._step(self._all, self.n_numbers, ends.inner, sums, by)
        return ends

    def add(
        self,
        inputs: BatchInputs,
        by: tuple[Array, Array, Array],
        own: tuple[Array, Array],
        queue: SplitQueue | None,
    ) -> None:
        """Add the values of leaves to the raw predictions of all rows.

        Parameters
        ----------
        by : exponents, given, learning rate
            See `keep_level`.
        own : parameter of the loss, rows of a tree
            See `LeafRefits.finish`.
        queue : SplitQueue or None
            Of best-first growth.
        """
        ends = None if queue is None else self.settle(queue, by)
        if self._refits is not None:
            leaf = None if ends is None else ends.leaf
            self._refits.finish(inputs.keys.number, *own, by[2], self._value, leaf)
        if queue is not None and ends is not None:
            queue.hand_values(ends, self._value)
        if self._has_rows_outside:
            self._walk(0)
        for number in range(1, len(self._sets)):
            self._walk(number)
        n_trees = self._task.trees_per_round
        for rows, place in zip(self._sets, self._places, strict=True):
            sizes = (np.int32(n_trees), np.int64(rows.n), np.int32(self._n_outputs))
            args = (place, self._value, inputs.keys.number, *sizes, rows.raw)
            self._launch("add_steps", (_blocks(rows.n), n_trees), args)

    def _walk(self, number: int) -> None:
        """Find the leaves of the rows of a set; of the training rows, those not known."""
        rows, nodes, place = self._sets[number], self._nodes, self._places[number]
        grid = (_blocks(rows.n), self._task.trees_per_round)
        if isinstance(rows.data, DeviceFeatures):
            values, *sizes = rows.data.arguments[:-1]
            name = "floats" if values.dtype == np.float32 else "doubles"
            args = (values, *sizes, *nodes.by_code, nodes.threshold, place)
            self._launch(f"find_places_of_{name}", grid, args)
            return
        if number > 0:
            fill(self._runtime, place, -1)
        codes = (rows.data, np.int64(rows.n), np.int32(self._task.matrix.missing_code))
        self._launch("find_places", grid, (*codes, *nodes.by_code, place))

    def _launch(self, name: str, grid: tuple[int, ...], args: tuple[Any, ...]) -> None:
        threads = constant("rounds.cuh", "BOOST_THREADS")
        self._runtime.kernel("leaves.cu", name, {})(grid, (threads,), args)


def _blocks(n: int) -> int:
    return -(-n // constant("rounds.cuh", "BOOST_THREADS"))


def most_nodes(n_trees: int, n_rows: int, options: TreeOptions) -> list[int]:
    """Nodes that each level of a batch has room for."""
    most = [n_trees]
    for depth in range(options.deepest):
        parents = min(most[-1], n_trees * options.most_splits(depth))
        most.append(most_children(parents, n_rows, options))
    return most
