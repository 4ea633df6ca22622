"""Partial dependence of a sum of trees, by one pass over their nodes.

The partial dependence on some features is the mean output if these have given values. A split on
one of them goes where its value goes; any other split goes both ways, by the shares of the training
weight in its children (Friedman 2001, "Greedy function approximation", section 8.2). Nodes without
such a split below them have one value for all grid points, so only the other nodes are computed
for each grid point: from the deepest level up, over all trees of a block at once.
"""

from __future__ import annotations

import numpy as np

from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.growth.tree import goes_left

LEVEL_BYTES = 2**26  # of the values of the nodes of one level


def partial_dependence(model: AdditiveModel, columns: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Mean outputs at the points of a grid: float64 (n_points, n_outputs).

    Parameters
    ----------
    model : AdditiveModel
    columns : float (n_points, n_columns)
        The columns that the trees compare; those of unknown features can have any value.
    known : bool (n_features,)
        Mask of the features of X that have the values of the grid.
    """
    n_points, ensemble = len(columns), model.ensemble
    total = np.zeros((n_points, model.n_outputs))
    bytes_of_tree = 8 * n_points * ensemble.n_values * np.diff(ensemble.offset)
    blocks = np.cumsum(bytes_of_tree) // LEVEL_BYTES
    for block in np.unique(blocks):
        trees = np.flatnonzero(blocks == block)
        found = _Nodes(model, known, trees).values(columns)
        for own, first in zip(found, model.first_output[trees], strict=True):
            total[:, first : first + own.shape[1]] += own
    return model.base + total / model.divisor


def expected_outputs(model: AdditiveModel) -> np.ndarray:
    """Outputs when no feature is known: float64 (n_outputs,)."""
    nothing = np.zeros((1, len(model.feature_of_column)))
    return partial_dependence(model, nothing, np.zeros(model.n_features, dtype=bool))[0]


class _Nodes:
    """The nodes of some trees, numbered as in the ensemble."""

    def __init__(self, model: AdditiveModel, known: np.ndarray, trees: np.ndarray) -> None:
        ensemble, self.roots = model.ensemble, model.ensemble.offset[trees]
        start, stop = self.roots[0], ensemble.offset[trees[-1] + 1]
        own = slice(start, stop)
        sizes = np.diff(ensemble.offset)[trees]
        self.model, self.start = model, start
        # Of inner nodes, numbered from the first node of the block.
        self.left = ensemble.left[own] + np.repeat(self.roots - start, sizes)
        self.is_inner = ensemble.left[own] > 0
        masks = np.repeat(ensemble.mask_offset[trees], sizes)
        self.category = np.where(ensemble.category[own] < 0, -1, ensemble.category[own] + masks)
        feature = ensemble.feature[own]
        self.is_known = self.is_inner & known[model.feature_of_column[np.maximum(feature, 0)]]
        self.feature, self.cover = feature, model.cover[own]
        self.threshold, self.missing_left = ensemble.threshold[own], ensemble.missing_left[own]
        self.value = ensemble.value[own].copy()  # of unknown features below, after `values`

    def levels(self) -> list[np.ndarray]:
        """The inner nodes of each depth, in all trees."""
        found, nodes = [], self.roots - self.start
        while len(nodes):
            inner = nodes[self.is_inner[nodes]]
            found.append(inner)
            nodes = np.concatenate([self.left[inner], self.left[inner] + 1])
        return found

    def values(self, columns: np.ndarray) -> np.ndarray:
        """Mean value of each tree at each point of the grid: float64 (n_trees, n_points, K)."""
        place = np.full(len(self.feature), -1)  # in `below`, for nodes that depend on the grid
        below = np.empty((0, len(columns), self.value.shape[1]))
        for inner in reversed(self.levels()):
            children = self.left[inner], self.left[inner] + 1
            # The shares of other libraries' trees add up to 1 up to rounding only.
            shares = [(self.cover[child] / self.cover[inner])[:, None] for child in children]
            means = [self.value[child] for child in children]
            self.value[inner] = shares[0] * means[0] + shares[1] * means[1]
            depends = self.is_known[inner]
            for child in children:
                depends = depends | (place[child] >= 0)
            nodes = inner[depends]
            left, right = (self._at(child[depends], place, below) for child in children)
            is_known, to_left = self.is_known[nodes, None], self._goes_left(nodes, columns)
            of_left = np.where(is_known, to_left, shares[0][depends])[:, :, None]
            of_right = np.where(is_known, ~to_left, shares[1][depends])[:, :, None]
            below = of_left * left + of_right * right
            place[nodes] = np.arange(len(nodes))
        return self._at(self.roots - self.start, place, below)

    def _at(self, nodes: np.ndarray, place: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Values of nodes of one level at each point: (nodes, n_points, K)."""
        found = np.repeat(self.value[nodes][:, None], values.shape[1], axis=1)
        own = place[nodes] >= 0
        found[own] = values[place[nodes[own]]]
        return found

    def _goes_left(self, nodes: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Whether the points of the grid go left at splits: bool (nodes, n_points)."""
        x = columns[:, np.maximum(self.feature[nodes], 0)].T
        split = self.threshold[nodes, None], self.category[nodes, None], self.model.ensemble.masks
        return goes_left(x, *split, np.isnan(x), self.missing_left[nodes, None])
