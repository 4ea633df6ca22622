"""The template all estimators share: how a fit runs, and what a fitted model can do."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gpuboost.backends.choice import choose_backend, growth_work, prediction_work
from gpuboost.backends.device_arrays import adopt_features, adopt_targets
from gpuboost.data.arrays import working_on
from gpuboost.data.binning import BinnedMatrix
from gpuboost.data.parameters import thread_count
from gpuboost.data.validation import check_flush_to_zero
from gpuboost.engine.ensemble import Ensemble
from gpuboost.estimators.constraints import with_monotonic
from gpuboost.estimators.fitted import FittedTrees
from gpuboost.estimators.growing import GrowPlan, grow_trees, memory_advice
from gpuboost.estimators.reading import (
    read_prediction,
    read_targets,
    read_training,
    where_they_are,
)
from gpuboost.estimators.settings import (
    Machine,
    machine_of,
    tree_options,
    word_of,
)
from gpuboost.estimators.views import VIEWS

if TYPE_CHECKING:
    from gpuboost.backends.protocol import Backend
    from gpuboost.data.frames import FeatureSchema
    from gpuboost.estimators.fitted import Batch
    from gpuboost.estimators.labels import ClassLabels, ValueLabels

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
class TreeModel(BaseEstimator):
    """Base of all estimators.

    A fitted estimator keeps its trees and bins in ``_model`` and no data. The state changes only
    when a fit has succeeded: after an error the estimator is what it was before.
    """

    random_state: Any = None
    n_jobs: int | None = None
    device: str = "auto"
    max_bins: int = 255
    categorical_features: Any = "from_dtype"

    _labels: ClassVar[Any]  # ClassLabels or ValueLabels
    _in_turn: ClassVar[bool] = False  # whether each tree waits for the one before
    _model: ClassVar[Any] = None

    # ---- what a kind of estimator says -------------------------------------------------------

    @property
    def _tree(self) -> Any:
        """What has the parameters of a tree as attributes."""
        return self

    def _voting_rule(self) -> str:
        """How the trees of a classifier vote; the values of a regressor's trees are averaged."""
        return word_of("voting", getattr(self, "voting", "soft"), ("soft", "hard"))

    def _weights(self, labels: Any, weights: np.ndarray | None) -> np.ndarray | None:
        """Weights of the rows, with which they are also drawn where they are drawn.

        The user's; in a classifier times those of their classes, but for bagging.
        """
        return weights

    def _balance(self, labels: Any) -> np.ndarray | None:
        """Class codes if every tree is to balance the classes of the rows it draws."""
        return None

    def _row_factor(self, labels: Any, weights: np.ndarray | None) -> np.ndarray | None:
        """What multiplies the draws of a row in every tree that draws it."""
        return None

    def _batch(
        self, labels: Any, weights: np.ndarray | None, n_features: int, before: Any
    ) -> Batch:
        """Which trees grow, and which rows and features each of them sees."""
        raise NotImplementedError

    def _model_to_extend(self) -> FittedTrees | None:
        """The model that a warm start adds trees to."""
        return None

    def _further_facts(self, model: FittedTrees, prepared: Prepared) -> dict[str, Any]:
        """Fitted attributes beyond those that all estimators have."""
        return {}

    # ---- fit -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Grow the trees.

        Parameters
        ----------
        X : array-like, data frame or gpuboost.Dataset of shape (n_samples, n_features)
            NaN is missing. Categories are features of a categorical type, see
            ``categorical_features``.
        y : array-like of shape (n_samples,) or, in a regression, (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            Rows of weight 0 are not in the model.

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
        machine, before = machine_of(self), self._model_to_extend()
        prepared = self._prepare(X, y, sample_weight, machine, before)
        model = self._grown_model(prepared, machine, before)
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
        self, prepared: Prepared, machine: Machine, before: FittedTrees | None
    ) -> FittedTrees:
        """Grow the trees, after those of a model that is extended."""
        matrix, batch = prepared.matrix, prepared.plan.batch
        grown = grow_trees(prepared.plan, matrix, prepared.backend, machine)
        ensemble = Ensemble.of(chain(before.ensemble.trees if before else (), grown))
        batch = replace(batch, sampler=batch.sampler.drawing_only())
        batches = (*before.batches, batch) if before else (batch,)
        return FittedTrees(ensemble, matrix.mapper, prepared.schema, batches)

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, machine: Machine, before: FittedTrees | None
    ) -> Prepared:
        """Read, check and bin; columns made from X are given up here, before trees grow."""
        X, device = adopt_features(X, machine.device)
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
            target = labels.target(batch.sampler)
        n_rounds, at_once = (len(batch.trees), 1) if self._in_turn else (1, len(batch.trees))
        size = n_samples, min(options.max_features, seen), at_once, options.max_depth
        work = growth_work(*size, target.n_channels).repeated(n_rounds)
        backend = choose_backend(device, work)
        matrix = table.bin(own_weights, backend, machine.n_threads)
        return Prepared(table.schema, matrix, labels, GrowPlan(options, batch, target), backend)

    def _check_same_labels(self, labels: Labels) -> None:
        """Trees that a warm start adds must have the leaves of those there are."""
        for name, value in labels.attributes().items():
            if not np.array_equal(getattr(self, name), value):
                raise ValueError(
                    f"with warm_start, y must have the same {name} as before, "
                    f"{getattr(self, name)!r:.80}, got {value!r:.80}; fit with warm_start=False"
                )

    def _adopt(self, facts: dict[str, Any]) -> None:
        """Replace the fitted attributes, all at once."""
        for name in (*getattr(self, "_fitted_names", ()), VIEWS):
            self.__dict__.pop(name, None)
        self.__dict__.update(facts, _fitted_names=tuple(facts))

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None

    # ---- a fitted model ----------------------------------------------------------------------

    def _run(self, X: Any, work: Any) -> Any:
        """Read X, choose a device, and return ``work(model, data, backend, n_threads)``."""
        check_is_fitted(self)
        model: FittedTrees = self._model
        X, device = adopt_features(X, self.device)
        data = read_prediction(X, model, type(self).__name__)
        n_samples = data.n_samples if isinstance(data, BinnedMatrix) else len(data)
        backend = choose_backend(device, prediction_work(n_samples, model.ensemble))
        return work(model, data, backend, thread_count(self.n_jobs))

    def _mean_values(self, X: Any) -> np.ndarray:
        """Mean over trees of the leaf values, or the votes, of each row: float64 (n, V)."""
        voting = self._voting_rule()
        return self._run(X, lambda model, *rest: model.predict(*rest, voting))

    def _leaves(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree: int64 (n, T)."""
        leaves = self._run(X, FittedTrees.apply)
        with working_on(leaves):
            return leaves.astype(np.int64)

    @property
    def _ensemble(self) -> Ensemble:
        check_is_fitted(self)
        return self._model.ensemble

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the impurity decrease, ndarray of shape (n_features,)."""
        return self._ensemble.importances(self.n_features_in_)

    def fingerprint(self) -> str:
        """SHA-256 of what prediction reads: trees, bin edges, and the codes of categories.

        Equal for equal data, parameters and seed, whatever device or number of threads. What is
        made of a leaf's values afterwards is not in it: the labels of classes, and ``voting``.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        found = self._ensemble.fingerprint(self._model.mapper)
        schema: FeatureSchema = self._model.schema
        if not schema.is_categorical.any():
            return found
        sha = hashlib.sha256(found.encode())
        schema.update_hash(sha)
        return sha.hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != VIEWS}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
