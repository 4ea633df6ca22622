"""Updates of raw predictions on the device by the leaf values of a round's trees.

If trees are shallow (`MONITORED_DEPTH`) or limited by ``max_leaf_nodes``, the partition tracks the
leaves of the rows on which trees are grown. All other rows traverse the finished trees.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuboost.backends.cuda.boosting.leaf_quantiles import LeafQuantiles, ListedRows, PlacedLeaves
from gpuboost.backends.cuda.boosting.row_sets import DeviceRowSet, blocks, optional
from gpuboost.backends.cuda.data.features import DeviceFeatures
from gpuboost.backends.cuda.data.tiles import constants_of
from gpuboost.backends.cuda.growth.best_first import SplitQueue
from gpuboost.backends.cuda.growth.finish import Finisher
from gpuboost.backends.cuda.growth.hooks import LeavesOfRound
from gpuboost.backends.cuda.growth.node_buffer import (
    NodeCapacity,
    NumberedNodes,
    max_stored_nodes,
    table_shape,
)
from gpuboost.backends.cuda.growth.tree_arrays import Finished
from gpuboost.backends.cuda.growth.value_rule import ValueRule
from gpuboost.backends.cuda.level.records import DeviceFrontier
from gpuboost.backends.cuda.runtime.arrays import Columns, allocate, bytes_of
from gpuboost.backends.cuda.runtime.launch import fill, launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.readback import HostCopy, Readback, is_copied_whole
from gpuboost.backends.cuda.runtime.readback import read_later as read_together
from gpuboost.backends.cuda.sampling.rows import DeviceRows
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.losses import LeafRule
from gpuboost.engine.task import NO_LIMIT

# Up to this depth the partition tracks the leaf of each row. For deeper trees, unless growth is
# best first, it is faster to grow small nodes outside the level loop, where rows are not tracked.
MONITORED_DEPTH = 12


class RoundLeaves(LeavesOfRound):
    """Keeps the leaves of each round, if the device finishes its trees.

    The device finishes them if all trees of a round grow in one batch and are not pruned.

    Parameters
    ----------
    runtime : Runtime
    task : BoostTask
    finisher : Finisher
    sets : list of DeviceRowSet
        The training rows, and watched row sets that have their own raw predictions.
    max_rows : int
        Largest number of rows of a tree.

    Attributes
    ----------
    follows : bool
        Whether the partition tracks the leaf of each row; then no node leaves the level loop
        (`DeviceTask.policy`). Otherwise, for deep trees, all rows traverse the finished trees.
    readback : Readback
        Arrays of the last round, which the host reads.
    """

    readback: Readback

    def __init__(
        self,
        runtime: Runtime,
        task: BoostTask,
        finisher: Finisher,
        sets: list[DeviceRowSet],
        max_rows: int,
    ) -> None:
        self._runtime, self._task, self._sets = runtime, task, sets
        self._finisher, self._max_rows = finisher, max_rows
        n_trees = task.trees_per_round
        self._n_outputs = task.loss.columns if task.sums_outputs else 1
        limits = NodeCapacity.of(task.options, sets[0].n)
        self._capacity = limits.first_node(n_trees, n_trees * max_rows)
        options = task.options
        is_shallow = options.deepest <= MONITORED_DEPTH
        self.follows = is_shallow or options.max_leaf_nodes != NO_LIMIT
        self._has_rows_outside = max_rows < sets[0].n
        self._place = runtime.xp.empty((n_trees, sets[0].n if self.follows else 0), dtype=np.int32)
        self._quantiles: LeafQuantiles | None = None
        trees = finisher.columns(self._capacity, self._capacity // 2, self._n_outputs)
        # The readback includes the trees if they are small and the host does not read their size.
        self._of_readback = (
            trees if not finisher.needs_size_readback and is_copied_whole(bytes_of(trees)) else {}
        )

    def refit(self, rule: LeafRule, weights: Array | None) -> None:
        """Replace the Newton steps by leaf values that the loss's rule computes from residuals.

        ``weights`` are `RoundRows.leaf_weights`, the weights of rows in quantiles.
        """
        n_trees, rows = self._task.trees_per_round, self._sets[0]
        n_rows = n_trees * self._max_rows
        # In best-first growth, the capacity includes leaves below splits that are later undone.
        max_nodes = max_stored_nodes(n_trees, n_rows, self._task.options, rows.n)
        capacity = min(n_rows, (max_nodes + n_trees) // 2)
        self._quantiles = LeafQuantiles(self._runtime, rule, rows, weights, capacity, n_rows)

    def begin(self, others: Columns, trees: Array) -> dict[str, Array]:
        """Begin a round whose trees have the numbers ``trees``, uint64 (trees,).

        Returns arrays of the columns ``others``, which are read back with the table of the trees.
        """
        self._trees = trees
        table: Columns = {"table": (np.int64, table_shape(self._task.trees_per_round))}
        self.readback = Readback(self._runtime.xp, {**others, **table, **self._of_readback})
        if self.follows and self._has_rows_outside:
            fill(self._runtime, self._place, -1)
        self._listed: ListedRows | None = None
        if self._quantiles is not None and self.follows:
            self._quantiles.begin()
        return {name: self.readback.arrays[name] for name in others}

    @property
    def table(self) -> Array:
        """Array for the table of the round's trees; see `NodeBuffer.number`."""
        return self.readback.arrays["table"]

    def keep_level(
        self, rows: DeviceRows, frontier: DeviceFrontier, accepted: Array, first: Array
    ) -> None:
        """Keep the leaf of each row that reaches one in this level.

        If leaves are not tracked but their values are quantiles, keep the list of the trees' rows
        in the first level. The arguments are as in `LeavesOfRound.keep_level`.
        """
        if not self.follows:
            if self._quantiles is not None and self._listed is None:
                self._listed = ListedRows(rows.row, frontier.start, frontier.count)
            return
        own = {"accepted": accepted, "first_node": first, "place": self._place}
        frontier.pieces.launch(self._runtime, "keep_leaves", rows, frontier, self._sets[0], **own)
        if self._quantiles is not None:
            self._quantiles.keep_level(rows.row, frontier, accepted, first, self._trees)

    def finish(
        self,
        grown: NumberedNodes,
        queue: SplitQueue | None,
        rule: ValueRule,
        parameter: Array,
        n_rows: Array,
    ) -> Finished:
        """Finish the trees of the round.

        Parameters
        ----------
        grown : NumberedNodes
            Nodes of the trees.
        queue : SplitQueue or None
            Queue of best-first growth.
        rule : ValueRule
            Rule for leaf values.
        parameter : float64 (columns,)
            Parameter of the loss.
        n_rows : int64 (1,)
            Number of rows of a tree.
        """
        number_of = None
        if self.follows:
            number_of = self._runtime.xp.empty(grown.buffer.capacity, dtype=np.int32)
        columns, trees = self._columns(grown), self._trees
        self._finished = finished = Finished(grown.numbers.table, columns, number_of)
        self._finisher.finish_into(finished, grown, rule)
        if self._quantiles is not None:
            places = self._keep_leaves(self._quantiles, finished, grown)
            self._quantiles.finish(trees, parameter, n_rows, rule.rate, columns["value"], places)
        if queue is not None and grown.leaf is not None:
            queue.hand_numbers(grown.leaf, number_of)
        return finished

    def _keep_leaves(
        self, quantiles: LeafQuantiles, finished: Finished, grown: NumberedNodes
    ) -> PlacedLeaves | None:
        """Return the map from places to nodes if the residuals of the leaves were kept by level.

        Otherwise, keep the residuals now and return None.
        """
        if finished.number_of is not None:
            return PlacedLeaves(finished.number_of, grown.leaf)
        assert self._listed is not None
        quantiles.begin((len(finished.columns["left"]) + finished.n_trees) // 2)
        missing_code = self._task.matrix.missing_code
        quantiles.keep_traversed(self._listed, finished, missing_code, self._trees)
        self._listed = None
        return None

    def _columns(self, grown: NumberedNodes) -> dict[str, Array]:
        """Arrays for the finished trees."""
        if self._of_readback:
            return {name: self.readback.arrays[name] for name in self._of_readback}
        return allocate(self._runtime.xp, self._finisher.columns_of(grown, self._n_outputs))

    def add(self, finished: Finished) -> None:
        """Add leaf values to the raw predictions of all rows."""
        missing_code = self._task.matrix.missing_code
        for number, rows in enumerate(self._sets):
            place = self._place if number == 0 and self.follows else None
            add_leaves(self._runtime, finished, self._trees, rows, missing_code, place)

    def read_later(self) -> Callable[[], HostCopy]:
        """Start to copy the round's arrays to the host; the returned function waits for them."""
        read = self.readback.read_later(self._runtime)
        if self._of_readback:
            return read
        if self._finisher.needs_size_readback:  # the arrays have no unused capacity
            exact = read_together(self._runtime, self._finished.columns)
            return lambda: read().joined_with(exact())
        packed = read()
        (n, *_), (n_masks, *_), _ = packed.part("table", 0, 3)[:, ::-1].tolist()
        trees = self._finished.read_later(self._runtime, n, n_masks)
        return lambda: packed.joined_with(trees())


def add_leaves(
    runtime: Runtime,
    finished: Finished,
    trees: Array,
    rows: DeviceRowSet,
    missing_code: int,
    place: Array | None,
) -> None:
    """Add the leaf values of finished trees to the raw predictions of a row set.

    Parameters
    ----------
    finished : Finished
    trees : uint64 (trees,)
        Numbers of the trees in the ensemble or in the round. Only their remainders modulo the
        number of trees per round, which give the columns of the trees, matter.
    rows : DeviceRowSet
        Row set whose raw predictions are updated.
    missing_code : int
        Code of missing values.
    place : int32 (trees, n) or None
        Place of each row's leaf in the node buffer, -1 for rows that traverse the tree; None if all
        rows traverse it.
    """
    own, n_outputs = finished.columns, finished.columns["value"].shape[1]
    given = {
        **finished.of_traversal,
        "value": own["value"],
        "trees": trees,
        "trees_per_round": len(rows.raw) // n_outputs,
        "n_outputs": n_outputs,
        "raw": rows.raw,
    }
    grid = (blocks(rows.n), len(trees))
    if isinstance(rows.data, DeviceFeatures):
        given |= {"threshold": own["threshold"], "constants": constants_of(rows.data)}
        launch(runtime, "add_leaves_by_value", grid, rows.data, finished, **given)
        return
    given |= {"codes": rows.data, "n": rows.n, "missing_code": missing_code}
    given |= optional("place", "follows", place, own["left"])
    given["number_of"] = own["left"] if place is None else finished.number_of
    launch(runtime, "add_leaves", grid, finished, **given)
