"""Fitted models of AdaBoost, and the targets of `AdaBoostRegressor`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuboost.data.arrays import as_host_array
from gpuboost.data.class_labels import warn_of_column
from gpuboost.engine.array_modules import is_cupy_array
from gpuboost.engine.ensembles import adaboost
from gpuboost.engine.ensembles.adaboost_task import Round
from gpuboost.engine.ensembles.ensemble import Ensemble, impurity_decrease_per_feature
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.sampling import ALL_ROWS, RowSampler
from gpuboost.estimators.fitting.grow_plan import GrowPlan
from gpuboost.estimators.fitting.pipeline import Prepared
from gpuboost.estimators.inputs.targets import ValueLabels
from gpuboost.estimators.model.fitted import FittedTrees, TreeBatch


@dataclass(frozen=True, eq=False)
class AdaBoostTrees(FittedTrees):
    """A fitted model of AdaBoost.

    Attributes
    ----------
    tree_votes : float64 (n_trees,)
        Weight of each tree.
    errors, bounds : float64 (n_trees,)
        Weighted error of each round, and its Z_t (see ``engine.ensembles.adaboost``); in a
        regression, the weighted mean loss, and a number without meaning.
    """

    tree_votes: np.ndarray
    errors: np.ndarray
    bounds: np.ndarray

    @classmethod
    def of(cls, rounds: list[Round], prepared: Prepared[GrowPlan]) -> AdaBoostTrees:
        """The model of the rounds of a fit."""
        sampler = prepared.plan.batch.sampler
        n = sampler.n_samples
        batch = TreeBatch(range(len(rounds)), RowSampler(ALL_ROWS, n, n, sampler.seed), None)
        ensemble = Ensemble.of_stream((each.read_tree() for each in rounds), len(rounds))
        facts = np.array([(each.vote, each.error, each.bound) for each in rounds])
        mapper, schema = prepared.matrix.mapper, prepared.schema
        return cls(ensemble, mapper, schema, (batch,), *np.ascontiguousarray(facts.T))

    @cached_property
    def votes(self) -> Ensemble:
        """A classifier's trees, whose leaves hold contributions to the sum of the votes.

        They have one value for one or two classes, else one for each class.
        """
        vote = np.repeat(self.tree_votes, np.diff(self.ensemble.offset))
        return replace(self.ensemble, value=adaboost.votes_of(self.ensemble.value, vote))

    @property
    def divisor(self) -> float:
        """The sum of the trees' weights."""
        return np.cumsum(self.tree_votes)[-1]

    @property
    def facts(self) -> dict[str, np.ndarray]:
        """The fitted attributes that are copies of arrays of the model."""
        return {
            "estimator_weights_": self.tree_votes.copy(),
            "estimator_errors_": self.errors.copy(),
        }

    def _additive(self, voting: str) -> AdditiveModel:
        return super()._additive("hard")

    def fingerprint(self) -> str:
        """SHA-256 of `FittedTrees.fingerprint` and the trees' weights, in hexadecimal."""
        own = super().fingerprint().encode() + self.tree_votes.astype("<f8").tobytes()
        return hashlib.sha256(own).hexdigest()

    def _gain_importances(self, n_features: int) -> np.ndarray:
        """Mean over trees, by their weights, of the normalised impurity decrease per feature."""
        total = np.zeros(n_features)
        for tree, vote in zip(self.ensemble.trees, self.tree_votes, strict=True):
            decreases = impurity_decrease_per_feature(tree, n_features)
            total += vote * decreases / decreases.sum() if decreases.sum() > 0 else 0.0
        return total / self.divisor


class OneValueLabels(ValueLabels):
    """Targets of one output."""

    multi_output = False

    @classmethod
    def read(cls, y: Any) -> ValueLabels:
        """Read and check a user's targets; warn if they are a column."""
        labels = super().read(y)
        if labels.rows.ndim > 1:
            raise ValueError(
                f"y should be a 1d array, got an array of shape {labels.rows.shape} instead: "
                "AdaBoostRegressor has one output; train one model per column, for example with "
                "sklearn.multioutput.MultiOutputRegressor"
            )
        if (y if is_cupy_array(y) else as_host_array(y, "y")).ndim == 2:
            warn_of_column()
        return labels
