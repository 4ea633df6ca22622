"""Fits without data: their tasks have the shapes of a real fit, so its memory can be estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuboost.backends.select import numpy_backend
from gpuboost.data.frames import FeatureSchema
from gpuboost.data.parameters import fraction
from gpuboost.engine.bins import BinMapper, BinnedMatrix
from gpuboost.engine.criteria import ABSOLUTE, VARIANCE
from gpuboost.engine.ensembles.adaboost_task import ClassObjective, ReweightTask, ValueObjective
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.fixed_point import WeightFacts
from gpuboost.engine.multi_output import MultiOutputClassTarget
from gpuboost.engine.quantise import class_target, multi_output_class_target, regression_target
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.targets import AnyTarget, ClassTarget, RegressionTarget, map_rows
from gpuboost.engine.task import GrowTask
from gpuboost.estimators.adaboost.rounds import reweight_task
from gpuboost.estimators.boosting import parameters as options
from gpuboost.estimators.boosting.training import RoundSetup
from gpuboost.estimators.fitting.grow_plan import GrowPlan
from gpuboost.estimators.fitting.pipeline import FitInputs, Prepared
from gpuboost.estimators.inputs.parameters import Execution, bin_limit
from gpuboost.estimators.inputs.targets import (
    AnyLabels,
    ClassLabels,
    MultiOutputClassLabels,
    ValueLabels,
)

_FEW = 8  # number of rows that suffice to determine the columns of a target


@dataclass(frozen=True)
class ShapeOnlyTable:
    """The shape of training data, which takes the place of the data.

    Attributes
    ----------
    n_samples, n_features, n_classes, n_outputs, n_categorical : int
        As in `estimate_memory`.
    weighted : bool
        Whether there are real-valued sample weights.
    dtype : numpy.dtype
        Data type of X.
    """

    n_samples: int
    n_features: int
    n_classes: int
    n_outputs: int
    n_categorical: int
    weighted: bool
    dtype: np.dtype

    def labels(self, kind: type[AnyLabels]) -> AnyLabels:
        """Labels with the shape of a real fit's labels."""
        shape = self.n_samples, self.n_outputs
        if issubclass(kind, ValueLabels):
            return ShapeOnlyValues(np.broadcast_to(1.0, shape))
        codes = np.arange(self.n_samples, dtype=np.int32) % np.int32(self.n_classes)
        classes = np.arange(self.n_classes)
        if self.n_outputs == 1:
            return ShapeOnlyClasses(codes, classes)
        rows = np.broadcast_to(codes[:, None], shape)
        return ShapeOnlyClassOutputs(rows, (classes,) * self.n_outputs)

    def weights(self) -> np.ndarray | None:
        """Real-valued weights, none of them an integer multiple of another; None if unweighted."""
        return np.linspace(0.6, 1.0, self.n_samples) ** 0.5 if self.weighted else None

    def matrix(self, max_bins: int) -> BinnedMatrix:
        """A binned matrix whose codes take no memory."""
        of_bins = np.broadcast_to(0.0, self.n_features * max_bins)
        mapper = BinMapper(
            n_bins=np.full(self.n_features, max_bins, dtype=np.int32),
            lowest=of_bins,
            highest=of_bins,
            is_categorical=np.arange(self.n_features) < self.n_categorical,
        )
        codes = np.broadcast_to(np.uint8(0), (self.n_features, self.n_samples))
        return BinnedMatrix(codes, mapper, np.zeros(self.n_features, dtype=np.int64))


class ShapeOnlyClasses(ClassLabels):
    """Classes whose target is made from a few rows."""

    def target(self, sampler: RowSampler, criterion: int = VARIANCE) -> ClassTarget:
        """A target with the columns of a real target."""
        facts = _of_few_rows(sampler.weight_facts)
        return _of_all_rows(class_target(self.rows[:_FEW], len(self.classes), facts), len(self))


class ShapeOnlyClassOutputs(MultiOutputClassLabels):
    """Classes of several outputs whose target is made from a few rows."""

    def target(self, sampler: RowSampler, criterion: int = VARIANCE) -> MultiOutputClassTarget:
        """A target with the columns of a real target."""
        facts = _of_few_rows(sampler.weight_facts)
        few = multi_output_class_target(self.rows[:_FEW], self.classes_per_output, facts)
        return _of_all_rows(few, len(self))


class ShapeOnlyValues(ValueLabels):
    """Values whose target is made from a few rows."""

    def target(self, sampler: RowSampler, criterion: int = VARIANCE) -> RegressionTarget:
        """A target with the columns of a real target."""
        facts = _of_few_rows(sampler.weight_facts)
        return _of_all_rows(regression_target(self.rows[:_FEW], facts, criterion), len(self))


def _of_few_rows(facts: WeightFacts) -> WeightFacts:
    real, inside = (a if a is None else a[:_FEW] for a in (facts.real, facts.inside))
    return WeightFacts(facts.total, facts.largest, real, inside)


def _of_all_rows(target: AnyTarget, n: int) -> AnyTarget:
    """A target of n rows that repeats the first row and takes no memory."""
    return map_rows(target, lambda column: np.broadcast_to(column[:1], (n, *column.shape[1:])))


def prepare(estimator: Any, table: ShapeOnlyTable) -> Prepared[Any]:
    """The result of `fitting.pipeline.prepare` for data with the shape of ``table``."""
    n_features, labels = table.n_features, table.labels(estimator._labels)
    names, numeric = _names_of_features(estimator, n_features), np.zeros(n_features, dtype=bool)
    schema = FeatureSchema(names, n_features, numeric, (None,) * n_features, True)
    plan, _ = estimator._plan(FitInputs(labels, table.weights(), schema, table.dtype.itemsize))
    matrix = table.matrix(bin_limit(estimator.max_bins))
    # The task does not depend on the backend, and the NumPy backend needs no device.
    return Prepared(schema, matrix, labels, plan, numpy_backend(), Execution("cuda", 1, 0))


def grow_task(estimator: Any, table: ShapeOnlyTable) -> GrowTask:
    """The task of single trees, forests and bagging, whose trees grow together."""
    prepared: Prepared[GrowPlan] = prepare(estimator, table)
    return prepared.plan.task_of(prepared.matrix)


def adaboost_reweight_task(estimator: Any, table: ShapeOnlyTable) -> ReweightTask:
    """The task of an AdaBoost fit."""
    prepared = prepare(estimator, table)
    labels, plan = prepared.labels, prepared.plan
    few, n = labels.rows[:_FEW], len(labels)
    objective: ClassObjective | ValueObjective
    if isinstance(labels, ClassLabels):
        objective = ClassObjective.of(few, len(labels.classes), 1.0)
        objective = replace(objective, codes=labels.rows, target=_of_all_rows(objective.target, n))
    else:
        criterion = ABSOLUTE if plan.target.by_median else plan.options.criterion
        objective = ValueObjective.of(few[:, 0], estimator.loss, 1.0, None, criterion)
        target = _of_all_rows(objective.target, n)
        objective = replace(objective, y=labels.rows[:, 0], target=target)
    of_class = estimator._weights_of_classes(labels)
    return reweight_task(prepared, objective, estimator.boosting, of_class)


class ShapeOnlyRounds(RoundSetup):
    """Rounds of boosting that start from zeros."""

    @cached_property
    def held_out(self) -> np.ndarray | None:
        """A mask of as many rows as early stopping would set aside: bool (n,); None without it."""
        if options.patience(self.estimator.n_iter_no_change) is None:
            return None
        share = fraction("validation_fraction", self.estimator.validation_fraction, one=False)
        n = len(self.plan.y)
        return np.arange(n) < share * n

    @cached_property
    def constant(self) -> np.ndarray:
        """Zeros, since there are no targets to learn a baseline from."""
        return np.zeros(self.loss.columns)


def boost_task(estimator: Any, table: ShapeOnlyTable) -> BoostTask:
    """The task of a gradient boosting fit."""
    return ShapeOnlyRounds(estimator, prepare(estimator, table)).task()


def _names_of_features(estimator: Any, n_features: int) -> np.ndarray:
    """Names that the constraints use, and invented names for other features, in arbitrary order."""
    monotonic = estimator._tree.monotonic_cst
    named = list(monotonic) if isinstance(monotonic, Mapping) else []
    groups = getattr(estimator, "interaction_cst", None)
    if groups is not None and not isinstance(groups, str):
        named += [name for group in groups for name in group if isinstance(name, str)]
    found = [*dict.fromkeys(named), *(f"feature {f}" for f in range(n_features))]
    return np.array(found[:n_features][::-1], dtype=object)
