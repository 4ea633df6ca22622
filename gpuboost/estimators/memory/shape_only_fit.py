"""Fits whose data are not there yet, so that their memory can be foretold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gpuboost.data.frames import FeatureSchema
from gpuboost.data.parameters import fraction
from gpuboost.engine.bins import BinMapper, BinnedMatrix
from gpuboost.engine.ensembles.adaboost_task import (
    ClassObjective,
    ReweightTask,
    ValueObjective,
    weight_facts,
)
from gpuboost.engine.growth.medians import median_options, regression_target
from gpuboost.engine.targets import class_target
from gpuboost.engine.task import GrowTask
from gpuboost.estimators.boosting import parameters as options
from gpuboost.estimators.boosting.training import BoostingFit, TrainingData
from gpuboost.estimators.inputs.parameters import Execution, bin_limit, tree_options
from gpuboost.estimators.inputs.targets import ClassLabels, ValueLabels

if TYPE_CHECKING:
    from gpuboost.backends.protocol import Backend
    from gpuboost.engine.ensembles.boosting_task import BoostTask
    from gpuboost.engine.fixed_point import WeightFacts
    from gpuboost.engine.task import Target, TreeOptions
    from gpuboost.estimators.model.fitted import Batch

_FEW = 8  # rows from which the columns of a target are learnt


@dataclass(frozen=True)
class ShapeOnlyTable:
    """What is known of the data."""

    n_samples: int
    n_features: int
    n_classes: int
    n_outputs: int
    n_categorical: int
    weighted: bool
    dtype: np.dtype

    def labels(self, kind: Any) -> ClassLabels | ValueLabels:
        """Labels of the shape there will be."""
        if issubclass(kind, ClassLabels):
            codes = np.arange(self.n_samples, dtype=np.int32) % np.int32(self.n_classes)
            return ClassLabels(codes, np.arange(self.n_classes))
        return ValueLabels(np.broadcast_to(0.0, (self.n_samples, self.n_outputs)))

    def weights(self) -> np.ndarray | None:
        """Real weights, none of them a whole multiple of another."""
        return np.linspace(0.6, 1.0, self.n_samples) ** 0.5 if self.weighted else None

    def matrix(self, max_bins: int) -> BinnedMatrix:
        """Codes that take no memory."""
        shape = (self.n_features, max_bins)
        center = np.broadcast_to(0.0, shape)
        mapper = BinMapper(
            edges=(np.zeros(0),) * self.n_features,
            n_bins=np.full(self.n_features, max_bins, dtype=np.int32),
            low=center,
            high=center,
            center=center,
            is_categorical=np.arange(self.n_features) < self.n_categorical,
        )
        codes = np.broadcast_to(np.uint8(0), (self.n_features, self.n_samples))
        return BinnedMatrix(codes, mapper, np.zeros(self.n_features, dtype=np.int64))

    def target(
        self, labels: ClassLabels | ValueLabels, facts: WeightFacts, criterion: int
    ) -> Target:
        """A target with the columns there will be, learnt from few rows."""
        n = self.n_samples
        few = min(n, _FEW)
        real, inside = facts.real, facts.inside
        facts = replace(
            facts,
            real=None if real is None else real[:few],
            inside=None if inside is None else inside[:few],
        )
        if isinstance(labels, ClassLabels):
            found = class_target(labels.codes[:few], self.n_classes, facts)
        else:
            found = regression_target(np.ones((few, self.n_outputs)), facts, criterion)
        return replace(
            found,
            classes=_lengthened(found.classes, n),
            values=_lengthened(found.values, n),
            wide=_lengthened(found.wide, n),
            median_weight=_lengthened(found.median_weight, n),
        )


def _lengthened(column: np.ndarray | None, n: int) -> np.ndarray | None:
    """The first row of a column, n times, in no memory."""
    return None if column is None else np.broadcast_to(column[:1], (n, *column.shape[1:]))


@dataclass(frozen=True, eq=False)
class ShapeOnlyTrees:
    """Trees that one plan says all about, and the table they grow on."""

    estimator: Any
    table: ShapeOnlyTable

    @cached_property
    def labels(self) -> ClassLabels | ValueLabels:
        """What the trees learn."""
        return self.table.labels(self.estimator._labels)

    @cached_property
    def batch(self) -> Batch:
        """Which trees grow."""
        weights = self.estimator._weights(self.labels, self.table.weights())
        return self.estimator._batch(self.labels, weights, self.table.n_features, None)

    @cached_property
    def options(self) -> TreeOptions:
        """Those of each tree, by the score that was asked for."""
        draw, n_features = self.batch.feature_draw, self.table.n_features
        seen = n_features if draw is None else draw.count
        given = (self.estimator._tree, self.table.n_samples, seen, self.labels.criteria)
        return tree_options(*given)

    def grow_task(self) -> GrowTask:
        """What a backend would be asked for by trees that grow together."""
        sampler = self.batch.sampler
        return GrowTask(
            self.table.matrix(bin_limit(self.estimator.max_bins)),
            self.table.target(self.labels, sampler.weight_facts, self.options.criterion),
            median_options(self.options),
            rows_of=sampler.rows,
            trees=self.batch.trees,
            seed=0,
            sampler=sampler,
        )

    def reweight_task(self) -> ReweightTask:
        """What it would be asked for by AdaBoost."""
        labels, table = self.labels, self.table
        objective: ClassObjective | ValueObjective
        if isinstance(labels, ClassLabels):
            target = table.target(labels, weight_facts(ClassObjective.bits), self.options.criterion)
            objective = ClassObjective(labels.codes, table.n_classes, 1.0, True, target)
        else:
            target = table.target(labels, weight_facts(ValueObjective.bits), self.options.criterion)
            objective = ValueObjective(labels.values[:, 0], self.estimator.loss, 1.0, target)
        return ReweightTask(
            table.matrix(bin_limit(self.estimator.max_bins)),
            objective,
            median_options(self.options),
            self.batch.sampler,
            self.estimator.boosting,
            n_rounds=len(self.batch.trees),
            of_class=self.estimator._weights_of_classes(labels),
        )


class ShapeOnlyFit(BoostingFit):
    """A fit of boosting that starts from zeros."""

    @cached_property
    def held_out(self) -> np.ndarray | None:
        """As many rows as early stopping would set aside: bool (n,)."""
        if options.patience(self.estimator.n_iter_no_change) is None:
            return None
        share = fraction("validation_fraction", self.estimator.validation_fraction, one=False)
        n = len(self.data.y)
        return np.arange(n) < share * n

    @cached_property
    def constant(self) -> np.ndarray:
        """Nothing is learnt of rows that are not there."""
        return np.zeros(self.loss.columns)


def boost_task(estimator: Any, table: ShapeOnlyTable) -> BoostTask:
    """What a backend would be asked for by a fit of boosting."""
    n_features, labels = table.n_features, table.labels(estimator._labels)
    matrix, none = table.matrix(bin_limit(estimator.max_bins)), (None,) * n_features
    names = _names_of_features(estimator, n_features)
    schema = FeatureSchema(names, n_features, matrix.mapper.is_categorical, none, none)
    loss, weights = estimator._make_loss(labels), estimator._weights(labels, table.weights())
    data = TrainingData(schema, matrix, labels.rows, weights, None, None, [])
    backend = cast("Backend", None)  # a task is made without one
    return ShapeOnlyFit(estimator, data, loss, backend, Execution("cuda", 1, 0), None).task()


def _names_of_features(estimator: Any, n_features: int) -> np.ndarray:
    """Names that constraints go by, and others for the rest: which is which does not matter."""
    named = list(estimator.monotonic_cst) if isinstance(estimator.monotonic_cst, Mapping) else []
    groups = estimator.interaction_cst
    if groups is not None and not isinstance(groups, str):
        named += [name for group in groups for name in group if isinstance(name, str)]
    found = [*dict.fromkeys(named), *(f"feature {f}" for f in range(n_features))]
    return np.array(found[:n_features][::-1], dtype=object)
