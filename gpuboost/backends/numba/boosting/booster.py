"""Rounds of boosting as compiled passes over the rows, shared by all threads.

gradients   gradients and hessians; their largest magnitudes, which set the round's scale; and their
            approximate mean magnitudes, by which level-wise growth packs them into words
grow        all trees of the round, level by level (`level_wise_rounds`) or depth-first
leaves      known from level-wise growth; for other rows and trees, found from the codes or, for
            evaluation rows that are not binned, from the values
update      raw predictions, by the value of each row's leaf
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuboost.backends.host.backend import HostBackend
from gpuboost.backends.host.boosting import HostBooster
from gpuboost.backends.numba.boosting import losses
from gpuboost.backends.numba.boosting.gradients import Directions, class_directions, directions
from gpuboost.backends.numba.boosting.level_wise_rounds import LevelRounds, grows_by_levels
from gpuboost.backends.numba.boosting.quantise import SHARED_ROWS, add_values, rows_of_tree
from gpuboost.backends.numba.common.order_statistics import CompiledOrder
from gpuboost.backends.numba.common.row_major import find_leaves, row_major
from gpuboost.backends.numba.depth_first.tree_grower import DepthFirstGrower
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.boosting import Gradients, Scale
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.ensembles.traversal import used_codes
from gpuboost.engine.fixed_point import exponent_of
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.task import GrownTree
from gpuboost.engine.tree_rows import TreeRows

_ALL = np.zeros(0, np.uint32)


class NumbaBooster(HostBooster):
    """Implementation of `gpuboost.backends.protocol.Booster` in compiled code."""

    def __init__(self, backend: HostBackend, task: BoostTask) -> None:
        super().__init__(backend, task)
        self._pool = ThreadPool(task.n_threads)
        self.order = CompiledOrder(self._pool)
        self.grows_by_levels = grows_by_levels(task)  # else depth-first
        self._levels = LevelRounds(task, self._pool) if self.grows_by_levels else None
        self._grower: DepthFirstGrower | None = None  # depth-first grower of the previous round
        # For several classes: the directions and losses of the training rows at their current raw
        # predictions; None if they must be computed again.
        self._made: tuple[Directions, np.ndarray] | None = None
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
        loss, rows = self.task.loss, self._predicted()
        if loss.takes_rows:
            made = self._of_classes()[0]
        else:
            made = directions(loss, rows, self.parameter, self._pool)
        self._largest, self._means = made.sizes.max(axis=0)[::2], made.sizes.mean(axis=0)[1::2]
        inside = self.rows_of_round(number)
        return Gradients(made.gradient.T, made.hessian.T, self._whole, inside)

    def mean_loss(self, rows: int = 0, weights: np.ndarray | None = None) -> float:
        """Mean loss of a row set, with its own weights or with ``weights``."""
        loss, predicted = self.task.loss, self._predicted(rows, weights)
        if not loss.takes_rows or rows > 0:
            return losses.mean_loss(loss, predicted, self.parameter, self._pool)
        return losses.mean_of(self._of_classes()[1], predicted, self._pool)

    def _of_classes(self) -> tuple[Directions, np.ndarray]:
        """Directions and losses of the training rows for several classes, computed together."""
        if self._made is None:
            own = self._predicted()
            self._made = class_directions(own, self.parameter, self._pool)
        return self._made

    def scale(self, made: Gradients) -> Scale:
        """Scale of the round's integers, as exponents of 2."""
        largest, heaviest = (int(exponent_of(np.array([[x]]))[0]) for x in self._largest)
        return Scale.of_exponents(largest, heaviest, len(made.gradient), made.whole is not None)

    def grow(self, number: int, made: Gradients, scale: Scale) -> Sequence[GrownTree]:
        """Grow the trees of a round."""
        if self._levels is None:
            self._grower = DepthFirstGrower(self.grow_task(number, made, scale), self._grower)
            return [grown for _, grown in self._grower.grow_all()]
        n_trees = self.task.trees_per_round
        trees = range(number * n_trees, (number + 1) * n_trees)
        return self._levels.grow(made, self._means, scale, trees)

    def quantised(self, made: Gradients, scale: Scale, columns: slice, key: np.ndarray) -> TreeRows:
        """The rows of one tree with integer gradients and weights."""
        if columns.stop - columns.start > 1 or made.whole is not None:
            return super().quantised(made, scale, columns, key)
        return rows_of_tree(made, scale, columns.start, key)

    def leaves(self, tree: Tree, data: BinnedMatrix | np.ndarray, column: int | None) -> np.ndarray:
        """The leaf of every row: int32 (n,); ``column`` is as in `HostBooster.leaves`."""
        if isinstance(data, np.ndarray):
            return super().leaves(tree, data, column)
        rows, missing_code = _ALL, data.missing_code
        place = next(i for i, own in enumerate(self._sets) if own.data is data)
        prunes = self.task.options.prunes  # pruning changes the leaves
        if self._levels is None or column is None or prunes:
            leaf = np.empty(data.n_samples, np.int32)
        else:
            leaf, inside = self._levels.leaf[column], self._drawn[1]
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

    def update(self, raw: np.ndarray, tree: Tree, leaf: np.ndarray, column: int) -> None:
        """Add the value of each row's leaf to the row's raw predictions, in place."""
        self._made = None
        if tree.value.shape[1] > 1:
            super().update(raw, tree, leaf, column)
            return
        value, own = contiguous(tree.value[:, 0], np.float64), raw[:, column]
        self._pool.share(
            lambda _, barrier: add_values(value, leaf, own, barrier),
            len(raw) > SHARED_ROWS,
        )
