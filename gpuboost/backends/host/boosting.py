"""Rounds of gradient boosting on the host, shared by the NumPy and Numba backends.

    a round    gradients -> integers -> trees -> leaf values -> raw predictions

Each step is a method, so that a backend can override it with a faster one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuboost.backends.protocol import Backend
from gpuboost.engine import order_statistics, randomness
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.boosting import (
    Gradients,
    Scale,
    finish_boosted,
    quantised,
    with_leaf_values,
)
from gpuboost.engine.ensembles.boosting_task import BoostTask, DoneRound, RoundLosses, RowSet
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.ensembles.traversal import leaves_of_codes
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.losses import LeafRule, Predicted
from gpuboost.engine.sampling import ALL_ROWS, RowSampler
from gpuboost.engine.targets import TreeRows
from gpuboost.engine.task import Buffers, GrownTree, GrowTask


class HostBooster:
    """Implementation of `gpuboost.backends.protocol.Booster` on the host."""

    order: Any = order_statistics  # functions for order statistics, as in `Predicted`

    def __init__(self, backend: Backend, task: BoostTask) -> None:
        self.backend, self.task = backend, task
        self._sets = (task.train, *task.watched)
        own = task.train.raw.copy()
        self._raw = [own if self._is_train(rows) else rows.raw.copy() for rows in self._sets]
        self._whole = task.whole_hessian()
        self.parameter = np.zeros(task.loss.columns)  # the loss's parameter in this round
        self.buffers = Buffers()  # of all rounds
        self._drawn: tuple[int, np.ndarray | None] = (-1, None)

    # ---- the interface of a booster ------------------------------------------------------------

    def boost(self, number: int, learning_rate: float) -> DoneRound:
        """Fit the trees of a round, and add them to the raw predictions."""
        self.parameter = self.task.loss.round_parameter(self._predicted())
        inside, outside = self._parts(number)
        before = None if outside is None else self.mean_loss(0, outside)
        found = self._fit_trees(number, learning_rate)
        trees = [tree for tree, _ in found]
        self.add_trees(0, trees, [leaf for _, leaf in found])
        for place, rows in enumerate(self._sets):
            if not self._is_train(rows):
                leaves = [self.leaves(tree, rows.data, None) for tree in trees]
                self.add_trees(place, trees, leaves)
        after = None if before is None else (before, self.mean_loss(0, outside))
        watched = tuple(self.mean_loss(place) for place in range(1, len(self._sets)))
        return DoneRound(trees, RoundLosses(self.mean_loss(0, inside), after, watched))

    def _parts(self, number: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Row weights for the mean loss of the rows in a round and for that of the other rows.

        Both are None if the sampler draws all rows; the mean loss is then over all training rows,
        with their own weights. The second is also None if no other row has weight.
        """
        inside = self.rows_of_round(number)
        if self.task.sampler.method == ALL_ROWS or inside is None:
            return None, None
        own = self.task.train.weights
        weights = np.ones(len(inside)) if own is None else own
        rest = np.where(inside, 0.0, weights)
        return np.where(inside, weights, 0.0), rest if rest.any() else None

    def _fit_trees(self, number: int, learning_rate: float) -> list[tuple[Tree, np.ndarray]]:
        """The trees of a round, each with the leaf of every training row: int32 (n,)."""
        loss = self.task.loss
        made = self.gradients(number)
        scale = self.scale(made)
        n_outputs = loss.columns if self.task.sums_outputs else 1
        options, finder = self.task.options, self.backend.threshold_finder
        trees = []
        for column, grown in enumerate(self.grow(number, made, scale)):
            mapper = self.task.matrix.mapper
            tree = finish_boosted(grown, mapper, scale, n_outputs, options, learning_rate, finder)
            leaf = self.leaves(tree, self.task.train.data, column)
            if loss.leaf_rule is not None:
                inside = leaf if made.inside is None else np.where(made.inside, leaf, -1)
                values = self.leaf_values(loss.leaf_rule, tree, inside, column)
                tree = with_leaf_values(tree, values * learning_rate)
            trees.append((tree, leaf))
        return trees

    def raw_predictions(self, rows: int = 0) -> np.ndarray:
        """Raw predictions of a row set so far: float64 (n, columns)."""
        return self._raw[rows]

    def _predicted(self, rows: int = 0, weights: np.ndarray | None = None) -> Predicted:
        """A row set as a `Predicted`, with its own weights or with ``weights``."""
        own = self._sets[rows]
        by = own.weights if weights is None else weights
        return Predicted(own.y, self._raw[rows], by, self.order)

    def close(self) -> None:
        """Do nothing: a booster on the host has nothing to release."""

    def _is_train(self, rows: RowSet) -> bool:
        """Whether a row set shares the raw predictions of the training rows."""
        train = self.task.train
        return rows.data is train.data and rows.raw is train.raw

    # ---- the steps of a round ------------------------------------------------------------------

    def gradients(self, number: int) -> Gradients:
        """Gradients (times -1) and hessians of the training rows, and the mask of this round."""
        loss, rows = self.task.loss, self._predicted()
        gradient, hessian = loss.gradients(rows, self.parameter)
        if loss.constant_hessian:
            hessian = hessian[:, :1]
        return Gradients(-gradient, hessian, self._whole, self.rows_of_round(number))

    def rows_of_round(self, number: int) -> np.ndarray | None:
        """Mask of the rows that the trees of a round are grown on: bool (n,), or None for all."""
        if self._drawn[0] != number:
            self._drawn = number, mask_with_weight(self.task, number)
        return self._drawn[1]

    def mean_loss(self, rows: int = 0, weights: np.ndarray | None = None) -> float:
        """Mean loss of a row set, with its own weights or with ``weights``."""
        return self.task.loss.mean_loss(self._predicted(rows, weights), self.parameter)

    def scale(self, made: Gradients) -> Scale:
        """The `Scale` of the round's integers."""
        return Scale.of(made)

    def grow(self, number: int, made: Gradients, scale: Scale) -> Sequence[GrownTree]:
        """Grow the trees of a round."""
        return [grown for _, grown in self.backend.grow(self.grow_task(number, made, scale))]

    def grow_task(self, number: int, made: Gradients, scale: Scale) -> GrowTask:
        """The `GrowTask` of a round."""
        task, n_trees = self.task, self.task.trees_per_round
        first, width = number * n_trees, 1 if n_trees > 1 else task.loss.columns

        def rows_of(tree: int) -> TreeRows:
            key = randomness.stream_key(task.seed, randomness.ROUND_GRADIENT, tree)
            column = tree - first
            return self.quantised(made, scale, slice(column, column + width), key)

        return GrowTask(
            task.matrix,
            scale.target(width),
            scale.options(task.options, task.min_hessian),
            rows_of=rows_of,
            trees=range(first, first + n_trees),
            seed=task.seed,
            features_of=task.features_of,
            n_threads=task.n_threads,
            memory_budget=min(task.memory_budget, GrowTask.memory_budget),
            buffers=self.buffers,
        )

    def quantised(self, made: Gradients, scale: Scale, columns: slice, key: np.ndarray) -> TreeRows:
        """The rows of one tree with integer gradients and weights."""
        return quantised(made, scale, columns, key)

    def leaves(self, tree: Tree, data: BinnedMatrix | np.ndarray, column: int | None) -> np.ndarray:
        """The leaf of every row: int32 (n,).

        For training rows, ``column`` is the index of the tree in its round; else it is None.
        """
        if isinstance(data, np.ndarray):
            return self.backend.apply(Ensemble.of((tree,)), data, self.task.n_threads)[:, 0]
        return leaves_of_codes(tree, data)

    def leaf_values(self, rule: LeafRule, tree: Tree, leaf: np.ndarray, column: int) -> np.ndarray:
        """Leaf values by the rule of the loss; ``leaf`` (n,) is -1 for rows outside the round."""
        given = leaf, tree.node_count, column, self.parameter  # inner nodes have no rows
        return rule.leaf_values(self._predicted(), *given)[tree.left == 0]

    def add_trees(self, rows: int, trees: Sequence[Tree], leaves: Sequence[np.ndarray]) -> None:
        """Add the values of the leaves of a row set in the trees of a round, in place."""
        for column, (tree, leaf) in enumerate(zip(trees, leaves, strict=True)):
            self._raw[rows][:, column : column + tree.value.shape[1]] += tree.value[leaf]


def mask_with_weight(task: BoostTask, number: int) -> np.ndarray | None:
    """Mask of the rows of a round that have positive weight: bool (n,), or None for all.

    Raises `no_row_error` if no drawn row has positive weight.
    """
    weights, sampler = task.train.weights, task.sampler
    inside = None if weights is None or (weights > 0).all() else weights > 0
    if sampler.method == ALL_ROWS:
        return inside
    inside = (sampler.draw_counts(number) > 0) & (True if inside is None else inside)
    if not inside.any():
        raise no_row_error(sampler, number)
    return inside


def no_row_error(sampler: RowSampler, number: int) -> ValueError:
    """The error for a round that has drawn no row with positive weight."""
    return ValueError(
        f"none of the {sampler.n_draws} rows drawn for round {number} has a positive "
        "sample_weight; raise subsample, or leave rows of weight 0 out of the data"
    )
