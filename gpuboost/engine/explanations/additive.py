"""What exact SHAP values explain: the sum of trees that an output of a model is made from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuboost.engine.array_modules import array_module
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.explanations.path_trees import PathTree, bytes_per_edge, path_tree
from gpuboost.engine.growth.tree import levels

KEPT_BYTES = 2**27  # of the edges that are kept for the next call
_SUM_BITS = 60  # sums of contributions are below 2**(_SUM_BITS + 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class AdditiveModel:
    """Outputs of a model: ``base`` plus the sum of trees divided by ``divisor``.

    Backends add up the contributions of the trees to features as integers: each is multiplied by
    `scale`, a power of two, and rounded toward zero. So sums do not depend on their order.

    Attributes
    ----------
    ensemble : Ensemble
        The trees.
    cover : float64 (n_nodes,)
        Weight of the training rows in each node; positive where a node is split.
    first_output : int32 (n_trees,)
        Output that the first value of each tree is added to; the next values follow.
    base : float64 (n_outputs,)
    divisor : float
    feature_of_column : int32 (n_columns,)
        Feature of X that each column is made from, which the trees split on.
    n_features : int
        Number of columns of X.
    """

    ensemble: Ensemble
    cover: np.ndarray
    first_output: np.ndarray
    base: np.ndarray
    divisor: float
    feature_of_column: np.ndarray
    n_features: int

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.base)

    @cached_property
    def scale_bits(self) -> int:
        """Power of two for which all sums of contributions fit an int64.

        The value of a set of features is at most the largest leaf of each tree, so contributions
        and their sums are at most twice the sum of these.
        """
        ensemble = self.ensemble
        largest = np.abs(ensemble.value).max(axis=1, initial=0.0)
        _, exponent = np.frexp(np.maximum.reduceat(largest, ensemble.offset[:-1]).sum())
        return int(np.clip(_SUM_BITS - exponent, -1000, 1000))

    def scale(self, n_background: int = 1) -> float:
        """Factor of contributions, if they are summed over this number of background rows."""
        return float(np.ldexp(1.0, self.scale_bits - (n_background - 1).bit_length()))

    def path_tree(self, number: int) -> PathTree:
        """The edges of a tree. Some trees are kept for the next call."""
        found = self._kept.get(number)
        if found is None:
            tree = self.ensemble.trees[number]
            feature = np.where(tree.feature < 0, -1, self.feature_of_column[tree.feature])
            nodes = slice(*self.ensemble.offset[number : number + 2].tolist())
            found = path_tree(tree, self.cover[nodes], feature, int(self.first_output[number]))
            if self.keeps_trees:
                self._kept[number] = found
        return found

    @cached_property
    def _kept(self) -> dict[int, PathTree]:
        return {}

    @cached_property
    def keeps_trees(self) -> bool:
        """Whether the edges of all trees are small enough to be kept for the next call."""
        ensemble = self.ensemble
        n_levels = max(len(levels(tree.left)) for tree in ensemble.trees)
        n_distinct = min(n_levels - 1, self.n_features)
        return len(ensemble.feature) * bytes_per_edge(n_distinct, ensemble.n_values) <= KEPT_BYTES

    @cached_property
    def on_codes(self) -> AdditiveModel:
        """The model for binned rows, with codes as thresholds."""
        return replace(self, ensemble=self.ensemble.on_codes)


def completed(halves: Any) -> Any:
    """Interactions whose two elements hold parts of their sum, as backends add them up.

    The diagonal holds SHAP values, of which the result has what the other elements leave.

    Parameters
    ----------
    halves : int64 (n, n_features, n_features, n_outputs), on any device; it is changed
    """
    features = array_module(halves).arange(halves.shape[1])
    values = halves[:, features, features].copy()
    halves[:, features, features] = 0
    found = halves + halves.transpose(0, 2, 1, 3)
    found[:, features, features] = values - found.sum(axis=2)
    return found
