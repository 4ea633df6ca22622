"""Rounds of boosting as compiled passes over the rows, shared by all threads.

gradients   gradients and hessians; their largest magnitudes, which set the round's scale; and their
            approximate mean magnitudes, by which level-wise growth packs them into words
grow        all trees of the round, level by level (`level_wise_rounds`) or depth-first
leaves      known from level-wise growth; for other rows and trees, found from the codes or, for
            evaluation rows that are not binned, from the values
add_trees   raw predictions, by the value of each row's leaf; in the same pass (`visits`), losses
            and the gradients of the next round
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuboost.backends.host.backend import HostBackend
from gpuboost.backends.host.boosting import HostBooster
from gpuboost.backends.numba.boosting.level_wise_rounds import LevelRounds, grows_by_levels
from gpuboost.backends.numba.boosting.order_statistics import CompiledOrder
from gpuboost.backends.numba.boosting.quantise import rows_of_tree
from gpuboost.backends.numba.boosting.row_sets import Directions, VisitedRows
from gpuboost.backends.numba.common.row_major import find_leaves, row_major
from gpuboost.backends.numba.depth_first.tree_grower import DepthFirstGrower
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.boosting import Gradients, Scale
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.ensembles.traversal import used_codes
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import Buffers, GrownTree, GrowTask

_ALL = np.zeros(0, np.uint32)


class NumbaBooster(HostBooster):
    """Implementation of `gpuboost.backends.protocol.Booster` in compiled code."""

    backend: HostBackend

    def __init__(self, backend: HostBackend, task: BoostTask) -> None:
        super().__init__(backend, task)
        self._pool = ThreadPool(task.n_threads)
        self.order = CompiledOrder(self._pool)
        self.grows_by_levels = grows_by_levels(task)  # else depth-first
        self._levels = LevelRounds(task, self._pool) if self.grows_by_levels else None
        # The leaf of each row in each tree of a round, if growth finds it; pruning changes leaves.
        self._leaf: np.ndarray | None = None
        if self._levels is not None and not task.options.prunes:
            self._leaf = self._levels.leaf
        self._grower: DepthFirstGrower | None = None  # depth-first grower of the previous round
        self._made: tuple[Any, Any] = (None, None)  # `Directions` and `Gradients` of the last round
        self._rows = self._visited_rows() if task.loss.has_formula else []
        self._by_row: dict[int, np.ndarray] = {}  # row-major codes of binned row sets
        if self._levels is not None and self._levels.are_features:
            self._by_row[0] = self._levels.by_row

    def close(self) -> None:
        """End the threads."""
        self._pool.dismiss()

    # ---- the steps of a round ------------------------------------------------------------------

    def gradients(self, number: int) -> Gradients:
        """Gradients (times -1) and hessians of the training rows, and the mask of this round.

        The largest and approximate mean magnitudes of gradients and hessians are kept for `scale`
        and `grow`.
        """
        if self._rows:
            made = self._visited(0).directions()
        else:
            made = Directions.of(*self.task.loss.gradients(self._predicted(), self.parameter))
        self._largest, self._means = made.sizes.max(axis=0)[::2], made.sizes.mean(axis=0)[1::2]
        inside = self.rows_of_round(number)
        if self._made[0] is not made or self._made[1].inside is not inside:
            gradients = Gradients(made.gradient.T, made.hessian.T, self._whole, inside)
            self._made = made, gradients
        return self._made[1]

    def mean_loss(self, rows: int = 0, weights: np.ndarray | None = None) -> float:
        """Mean loss of a row set, with its own weights or with ``weights``."""
        if not self._rows:
            return super().mean_loss(rows, weights)
        own = self._visited(rows)
        if rows > 0 and self._is_train(self._sets[rows]):
            own.forget()
        return own.mean_loss(weights)

    def _visited_rows(self) -> list[VisitedRows]:
        """All row sets, whose raw predictions get the layout that visits take."""
        loss, found = self.task.loss, []
        order: Any = "C" if loss.takes_rows else "F"
        for place, rows in enumerate(self._sets):
            shares = place > 0 and self._is_train(rows)
            self._raw[place] = self._raw[0] if shares else np.asarray(self._raw[place], order=order)
            losses = self._levels.losses if self._levels and place == 0 else np.empty(len(rows.y))
            found.append(VisitedRows(loss, self._predicted(place), self._pool, losses, place == 0))
        return found

    def _visited(self, rows: int) -> VisitedRows:
        """A row set, with the parameter of this round."""
        self._rows[rows].set_parameter(self.parameter)
        return self._rows[rows]

    def add_trees(self, rows: int, trees: Sequence[Tree], leaves: Sequence[np.ndarray]) -> None:
        """Add the values of leaves, and compute losses and the training rows' next directions."""
        if not self._rows:
            super().add_trees(rows, trees, leaves)
            return
        leaf = self._leaf if rows == 0 else None
        if leaf is None:
            leaf = leaves[0][None] if len(leaves) == 1 else np.stack(leaves)
        self._visited(rows).add(trees, leaf)

    def scale(self, made: Gradients) -> Scale:
        """Scale of the round's integers, as exponents of 2."""
        largest, heaviest = (math.frexp(x)[1] if x > 0.0 else 0 for x in self._largest)
        return Scale.of_exponents(largest, heaviest, len(made.gradient), made.whole is not None)

    def grow(self, number: int, made: Gradients, scale: Scale) -> Sequence[GrownTree]:
        """Grow the trees of a round."""
        if self.task.matrix.is_blocked:
            return self._grow_blocks(self.grow_task(number, made, scale), made.inside is None)
        if self._levels is None:
            self._grower = DepthFirstGrower(self.grow_task(number, made, scale), self._grower)
            if self._grower.by_row is not None:
                self._by_row[0] = self._grower.by_row
            return [grown for _, grown in self._grower.grow_all()]
        if self._rows:
            self._rows[0].forget()  # growth writes to the memory of the losses; `add_trees` follows
        n_trees = self.task.trees_per_round
        trees = range(number * n_trees, (number + 1) * n_trees)
        return self._levels.grow(made, self._means, scale, trees)

    def _grow_blocks(self, task: GrowTask, all_inside: bool) -> list[GrownTree]:
        """Grow the trees of a round on codes in blocks; keep the leaves of rows if known."""
        as_grown = all_inside and not task.options.drops_nodes
        trees, leaves = zip(*self.backend.grow_blocks(task, as_grown), strict=True)
        self._leaf = None
        if as_grown:
            self._leaf = leaves[0] if len(leaves) == 1 else np.concatenate(leaves)
        return [grown for batch in trees for grown in batch]

    def quantised(self, made: Gradients, scale: Scale, columns: slice, key: np.ndarray) -> TreeRows:
        """The rows of one tree with integer gradients and weights."""
        if columns.stop - columns.start > 1:
            return super().quantised(made, scale, columns, key)
        # Rows of several trees are in use at once, but only one array of each name can be.
        buffers = self.buffers if self.task.trees_per_round == 1 else Buffers()
        return rows_of_tree(made, scale, columns.start, key, self.task.n_threads, buffers)

    def leaves(self, tree: Tree, data: BinnedMatrix | np.ndarray, column: int | None) -> np.ndarray:
        """The leaf of every row: int32 (n,); ``column`` is as in `HostBooster.leaves`."""
        if isinstance(data, np.ndarray) or data.is_blocked:
            if column is not None and self._leaf is not None:
                return self._leaf[column]
            return super().leaves(tree, data, column)
        rows, missing_code = _ALL, data.missing_code
        place = next(i for i, own in enumerate(self._sets) if own.data is data)
        if column is None or self._leaf is None:
            leaf = np.empty(data.n_samples, np.int32)
        else:
            leaf, inside = self._leaf[column], self._drawn[1]
            if inside is None:
                return leaf
            rows = np.flatnonzero(~inside).astype(np.uint32)
            if not len(rows):
                return leaf
        if data.grows_sparse:
            tree, codes = used_codes(tree, data)
            by_row = row_major(codes, self._pool)
        else:
            if place not in self._by_row:
                self._by_row[place] = row_major(data.codes, self._pool)
            by_row = self._by_row[place]
        find_leaves(tree, by_row, missing_code, rows, leaf, self._pool)
        return leaf
