"""A fitted model: its trees, the bins that they were grown on, and its predictions.

The same code predicts on binned data (a `Dataset`, or out-of-bag training rows): codes take the
place of values, and the code of each split takes the place of its threshold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuboost.backends.host.binned import code_blocks
from gpuboost.backends.protocol import Backend
from gpuboost.data.frames import FeatureSchema
from gpuboost.data.sparse_features import Features, SparseFeatures
from gpuboost.engine.array_modules import array_module, working_on
from gpuboost.engine.bins import BinMapper, BinnedMatrix, PickledByFields
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.sampling import RowSampler, draw_features


@dataclass(frozen=True)
class FeatureDraw:
    """A draw of ``count`` of ``n_features`` features for each tree, with or without replacement."""

    n_features: int
    count: int
    replace: bool

    def features(self, seed: int, tree: int) -> np.ndarray:
        """Indices in ascending order, int32; a feature drawn several times is repeated."""
        return draw_features(seed, tree, self.n_features, self.count, self.replace)

    def distinct_features(self, seed: int, tree: int) -> np.ndarray:
        """The drawn features without repetition, as required to grow a tree."""
        return np.unique(self.features(seed, tree))


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """Trees of one fit, with the samplers of their rows and features.

    A warm start adds a batch. The random numbers of a tree depend only on the seed and the tree's
    number, so batches with the same data, parameters and seed have the same trees as a single fit.

    Attributes
    ----------
    trees : range
        Numbers of the trees in the model.
    sampler : RowSampler
        Sampler of the rows of each tree.
    feature_draw : FeatureDraw or None
        Draw of the features of each tree; None if each tree uses all features. It is always None
        in boosting, whose trees have all features even if some were drawn to grow them.
    template : SingleTree or None
        Unfitted estimator with the parameters that the trees were grown with; None means those of
        the ensemble.
    """

    trees: range
    sampler: RowSampler
    feature_draw: FeatureDraw | None
    template: Any = None

    def features(self, tree: int) -> np.ndarray | None:
        """Features drawn for the tree; None without `feature_draw`."""
        if self.feature_draw is None:
            return None
        return self.feature_draw.features(self.sampler.seed, tree)


@dataclass(frozen=True, eq=False)
class FittedTrees(PickledByFields):
    """A fitted model.

    Attributes
    ----------
    ensemble : Ensemble
        All trees.
    mapper : BinMapper
        Bins that the trees were grown on.
    schema : FeatureSchema
        The columns that X must have.
    batches : tuple of TreeBatch
        The batches of the first fit and of each warm start.
    n_outputs : int
        Number of outputs, which have equal shares of the columns of leaf values.
    """

    ensemble: Ensemble
    mapper: BinMapper
    schema: FeatureSchema
    batches: tuple[TreeBatch, ...]
    n_outputs: int = field(default=1, kw_only=True)

    def __getstate__(self) -> dict[str, Any]:
        """The fields, without cached properties."""
        return {**super().__getstate__(), "ensemble": replace(self.ensemble)}

    @cached_property
    def votes(self) -> Ensemble:
        """The trees with one vote for a leaf's most probable class in place of probabilities."""
        value = self.ensemble.value
        per_output = value.reshape(len(value) * self.n_outputs, -1)
        votes = np.zeros_like(per_output)
        votes[np.arange(len(votes)), per_output.argmax(axis=1)] = 1.0
        return replace(self.ensemble, value=votes.reshape(value.shape))

    @property
    def divisor(self) -> float:
        """What sums over the trees are divided by."""
        return self.ensemble.n_trees

    def predict(
        self, data: Features | BinnedMatrix, backend: Backend, n_threads: int, voting: str
    ) -> np.ndarray:
        """Mean over the trees of leaf values or, with hard voting, votes: float64 (n, n_values)."""
        ensemble = self._trees_for(data, hard=voting == "hard")
        total = run_in_blocks(data, lambda block: backend.predict(ensemble, block, n_threads))
        with working_on(total):
            total /= self.divisor
        return total

    def additive(self, voting: str) -> AdditiveModel:
        """The sum of trees that `predict` is, for explanations; always the same object."""
        if voting not in self._additive_models:
            self._additive_models[voting] = self._additive(voting)
        return self._additive_models[voting]

    def _additive(self, voting: str) -> AdditiveModel:
        ensemble = self.votes if voting == "hard" else self.ensemble
        base = np.zeros(ensemble.n_values)
        return sum_of_trees(ensemble, self.schema.n_features, base, self.divisor)

    @cached_property
    def _additive_models(self) -> dict[str, AdditiveModel]:
        return {}

    def apply(self, data: Features | BinnedMatrix, backend: Backend, n_threads: int) -> np.ndarray:
        """Leaf of each row in each tree: int32 (n, n_trees)."""
        ensemble = self._trees_for(data)
        return run_in_blocks(data, lambda block: backend.apply(ensemble, block, n_threads))

    def importances(self, n_features: int, kind: str = "gain") -> np.ndarray:
        """Importance of each feature, scaled to sum to 1: (n_features,); zeros without splits.

        It is the normalised impurity decrease, averaged over trees, or with ``kind="count"`` the
        fraction of all splits.
        """
        if kind == "count":
            return self.ensemble.split_shares(n_features)
        return self._gain_importances(n_features)

    def _gain_importances(self, n_features: int) -> np.ndarray:
        return self.ensemble.importances(n_features)

    def fingerprint(self) -> str:
        """SHA-256 of the trees, the bin edges and any codes of categories, in hexadecimal."""
        found = self.ensemble.fingerprint(self.mapper)
        if not self.schema.is_categorical.any():
            return found
        sha = hashlib.sha256(found.encode())
        self.schema.update_hash(sha)
        return sha.hexdigest()

    def _trees_for(self, data: Features | BinnedMatrix, hard: bool = False) -> Ensemble:
        """The ensemble, or with ``hard`` the votes, for columns or for codes.

        Repeated calls return the same object, since backends cache data by the object's id.
        """
        chosen = self.votes if hard else self.ensemble
        return chosen.on_codes if isinstance(data, BinnedMatrix) else chosen


def sum_of_trees(
    ensemble: Ensemble, n_features: int, base: np.ndarray, divisor: float = 1.0, n_columns: int = 1
) -> AdditiveModel:
    """``base`` plus a sum of trees over ``divisor``; trees add to ``n_columns`` in turn."""
    return AdditiveModel(
        ensemble=ensemble,
        cover=ensemble.weight,
        first_output=np.arange(ensemble.n_trees, dtype=np.int32) % n_columns,
        base=base,
        divisor=float(divisor),
        feature_of_column=np.arange(n_features),
        n_features=n_features,
    )


def run_in_blocks(
    data: Features | BinnedMatrix, run: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Results of ``run`` for all rows at once or, for binned and sparse data, in blocks of rows."""
    if isinstance(data, SparseFeatures):
        return np.concatenate([run(block) for block in data.row_blocks()])
    if not isinstance(data, BinnedMatrix):
        return run(data)
    found = [run(block) for _, block in code_blocks(data)]
    with working_on(found[0]):
        return array_module(found[0]).concatenate(found)
