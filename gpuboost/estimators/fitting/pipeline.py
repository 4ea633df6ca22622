"""How the trees of a model are fitted: the steps that all estimators but boosting have."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpuboost.backends.device_arrays import adopt_features, adopt_targets
from gpuboost.backends.select import Growth, choose_backend, growth_work, rounds_are_replayed
from gpuboost.data.validation import check_flush_to_zero
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.medians import median_options
from gpuboost.estimators.docstrings import OF_A_FIT, takes
from gpuboost.estimators.fitting.base import TreeModel
from gpuboost.estimators.fitting.grow_plan import GrowPlan, grow_trees, memory_advice
from gpuboost.estimators.inputs.constraints import with_monotonic
from gpuboost.estimators.inputs.features import read_targets, read_training, where_they_are
from gpuboost.estimators.inputs.parameters import Execution, execution_of, tree_options
from gpuboost.estimators.model.fitted import FittedTrees

if TYPE_CHECKING:
    from gpuboost.backends.protocol import Backend
    from gpuboost.data.frames import FeatureSchema
    from gpuboost.estimators.inputs.features import Table
    from gpuboost.estimators.inputs.targets import ClassLabels, ValueLabels
    from gpuboost.estimators.model.fitted import Batch

    Labels = ClassLabels | ValueLabels


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that is known before the first tree grows."""

    schema: FeatureSchema
    matrix: BinnedMatrix
    labels: Labels
    plan: GrowPlan
    backend: Backend


@dataclass(kw_only=True, eq=False, repr=False)
class FitTemplate(TreeModel):
    """A model whose trees one plan says all about, before the first of them grows."""

    _in_turn: ClassVar[bool] = False  # whether each tree waits for the one before

    # ---- what a kind of estimator says -------------------------------------------------------

    def _balance(self, labels: Any) -> np.ndarray | None:
        """Class codes if every tree is to balance the classes of the rows it draws."""
        return None

    def _row_factor(self, labels: Any, weights: np.ndarray | None) -> np.ndarray | None:
        """What multiplies the draws of a row in every tree that draws it."""
        return None

    @abstractmethod
    def _batch(
        self, labels: Any, weights: np.ndarray | None, n_features: int, before: Any
    ) -> Batch:
        """Which trees grow, and which rows and features each of them sees."""

    def _further_facts(self, model: FittedTrees, prepared: Prepared) -> dict[str, Any]:
        """Fitted attributes beyond those that all estimators have."""
        return {}

    # ---- fit -----------------------------------------------------------------------------------

    @takes("X", "y", "sample_weight", told=OF_A_FIT)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Grow the trees.

        Returns
        -------
        self
        """
        with memory_advice():
            facts = self._fitted_facts(X, y, sample_weight)
        self._adopt(facts)
        return self

    def _fitted_facts(self, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
        """Run a fit; its result is the fitted attributes."""
        check_flush_to_zero()
        execution, before = execution_of(self), self._model_to_extend()
        prepared = self._prepare(X, y, sample_weight, execution, before)
        model = self._grown_model(prepared, execution, before)
        facts = {
            "_model": model,
            "_binning": (self.max_bins, self.categorical_features),
            "n_features_in_": prepared.matrix.n_features,
            "device_": prepared.backend.name,
            **prepared.labels.attributes(),
            **self._further_facts(model, prepared),
        }
        if prepared.schema.names is not None:
            facts["feature_names_in_"] = prepared.schema.names
        return facts

    def _grown_model(
        self, prepared: Prepared, execution: Execution, before: FittedTrees | None
    ) -> FittedTrees:
        """Grow the trees, after those of a model that is extended."""
        matrix, batch = prepared.matrix, prepared.plan.batch
        grown = grow_trees(prepared.plan, matrix, prepared.backend, execution)
        old = before.ensemble.trees if before else ()
        ensemble = Ensemble.of(chain(old, grown), execution.n_threads)
        batch = replace(batch, sampler=batch.sampler.drawing_only())
        batches = (*before.batches, batch) if before else (batch,)
        return FittedTrees(ensemble, matrix.mapper, prepared.schema, batches)

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, execution: Execution, before: FittedTrees | None
    ) -> Prepared:
        """Read, check and bin; columns made from X are given up here, before trees grow."""
        X, device = adopt_features(X, execution.device)
        table = read_training(X, self, before)
        y, sample_weight = (adopt_targets(given, device) for given in (y, sample_weight))
        n_samples, n_features = table.shape
        with where_they_are(y, sample_weight):
            labels, own_weights = read_targets(self._labels, y, sample_weight, n_samples)
            if before is not None:
                self._check_same_labels(labels)
            batch = self._batch(labels, self._weights(labels, own_weights), n_features, before)
            seen = n_features if batch.feature_draw is None else batch.feature_draw.count
            options = tree_options(self._tree, n_samples, seen, labels.criteria)
            options = with_monotonic(options, self._tree.monotonic_cst, table.schema, labels)
            target = labels.target(batch.sampler, options.criterion)
            options = median_options(options)
        plan = GrowPlan(options, batch, target)
        backend = choose_backend(device, growth_work(self._growth(table, plan, seen)))
        matrix = table.bin(own_weights, backend, execution.n_threads)
        return Prepared(table.schema, matrix, labels, plan, backend)

    def _growth(self, table: Table, plan: GrowPlan, seen: int) -> Growth:
        """What the fit costs, for the choice of a device; ``seen`` are the features of a tree."""
        options, n_trees = plan.options, len(plan.batch.trees)
        n_rounds, at_once = (n_trees, 1) if self._in_turn else (1, n_trees)
        limits = options.max_depth, options.max_leaf_nodes, options.ccp_alpha
        replayed = self._in_turn and rounds_are_replayed(*limits)
        return Growth(
            *table.shape,
            n_looked_at=min(options.max_features, seen),
            n_trees=at_once,
            max_depth=options.max_depth,
            n_channels=plan.target.n_channels,
            value_bytes=table.value_bytes,
            n_rounds=n_rounds,
            replayed=replayed,
            max_leaf_nodes=options.max_leaf_nodes,
            min_samples_leaf=options.min_samples_leaf,
        )
