"""Targets: classes or values, read from ``y`` and converted to the integers of the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from gpuboost.data.advice import warn_user
from gpuboost.data.arrays import to_module_of
from gpuboost.data.class_labels import check_class_outputs, check_classes
from gpuboost.data.class_weight import class_weights
from gpuboost.data.validation import check_counts, check_targets, read_target
from gpuboost.engine.array_modules import array_module, copy_to_host
from gpuboost.engine.criteria import CRITERIA, VARIANCE
from gpuboost.engine.fixed_point import CLASS_WEIGHT_BITS, VALUE_WEIGHT_BITS
from gpuboost.engine.multi_output import MultiOutputClassTarget
from gpuboost.engine.quantise import class_target, multi_output_class_target, regression_target
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.targets import ClassTarget, RegressionTarget, ValueTarget
from gpuboost.estimators.inputs.parameters import CLASS_CRITERIA, VALUE_CRITERIA


@dataclass(frozen=True, eq=False)
class Labels:
    """The class or the values of each row.

    ``rows`` is a NumPy or CuPy array (n,), or (n, n_outputs) for several values per row.
    """

    rows: np.ndarray

    multi_output = False  # whether there can be several outputs

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return 1 if self.rows.ndim == 1 else int(self.rows.shape[1])

    def to_module_of(self, weights: np.ndarray) -> Self:
        """These labels, copied to the GPU if the weights are on the GPU."""
        return replace(self, rows=to_module_of(self.rows, weights))


@dataclass(frozen=True, eq=False)
class ClassLabels(Labels):
    """The class of each row.

    Attributes
    ----------
    rows : int32 (n,), NumPy or CuPy array
        Index of each row's class in ``classes``.
    classes : ndarray (n_classes,), on the host
        Sorted class labels.
    """

    classes: np.ndarray

    criteria = CLASS_CRITERIA
    weight_bits = CLASS_WEIGHT_BITS

    @classmethod
    def read(cls, y: Any) -> ClassLabels:
        """Read and check a user's class labels."""
        return cls(*check_classes(y))

    @property
    def n_columns(self) -> int:
        """Number of channels: the number of classes, but 1 for two classes."""
        return 1 if len(self.classes) <= 2 else len(self.classes)

    def target(self, sampler: RowSampler, criterion: int = VARIANCE) -> ClassTarget:
        """The target in integers, the same for all criteria."""
        _warn_of_small_weights(sampler)
        return class_target(self.rows, len(self.classes), sampler.weight_facts)

    def row_weights(self, class_weight: Any) -> np.ndarray | None:
        """Class weight of each row; None without class weights."""
        of_class = class_weights(class_weight, self.rows, self.classes)
        if of_class is None:
            return None
        return array_module(self.rows).asarray(of_class)[self.rows]

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of scikit-learn's classifiers."""
        return {"classes_": self.classes, "n_classes_": len(self.classes), "n_outputs_": 1}


@dataclass(frozen=True, eq=False)
class MultiOutputClassLabels(Labels):
    """The classes of each row of several outputs.

    Attributes
    ----------
    rows : int32 (n, n_outputs), NumPy or CuPy array
        Index of each row's class among the classes of each output.
    classes : tuple of ndarray, on the host
        Sorted class labels of each output.
    """

    classes: tuple[np.ndarray, ...]

    multi_output = True
    criteria = CLASS_CRITERIA
    weight_bits = VALUE_WEIGHT_BITS  # channels hold values, as those of a regression do

    @classmethod
    def read(cls, y: Any) -> MultiOutputClassLabels | ClassLabels:
        """Read and check a user's class labels; `ClassLabels` if there is one output."""
        labels = read_target(y, of_classes=True)
        if labels.ndim < 2 or labels.shape[1] == 1:
            return ClassLabels.read(labels)
        return cls(*check_class_outputs(labels))

    @property
    def classes_per_output(self) -> int:
        """Number of channels of an output: the largest number of classes."""
        return max(map(len, self.classes))

    @property
    def n_columns(self) -> int:
        """Number of channels."""
        return len(self.classes) * self.classes_per_output

    def target(self, sampler: RowSampler, criterion: int = VARIANCE) -> MultiOutputClassTarget:
        """The target in integers, the same for all criteria."""
        _warn_of_small_weights(sampler)
        return multi_output_class_target(self.rows, self.classes_per_output, sampler.weight_facts)

    def row_weights(self, class_weight: Any) -> np.ndarray | None:
        """Class weight of each row, the product over outputs; None without class weights."""
        if class_weight is None:
            return None
        n, rows = len(self.classes), self.rows
        given = [class_weight] * n if isinstance(class_weight, str) else class_weight
        product = array_module(rows).ones(len(rows))
        for k, (own, classes) in enumerate(zip(given, self.classes, strict=True)):
            of_class = class_weights(own, rows[:, k], classes)
            product = product * array_module(rows).asarray(of_class)[rows[:, k]]
        return product

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of scikit-learn's classifiers, lists with an item for each output."""
        sizes = [len(own) for own in self.classes]
        return {"classes_": list(self.classes), "n_classes_": sizes, "n_outputs_": len(sizes)}


class ValueLabels(Labels):
    """The values of each row: a NumPy or CuPy array, float64 (n,) or (n, n_outputs)."""

    multi_output = True
    criteria = VALUE_CRITERIA
    weight_bits = VALUE_WEIGHT_BITS

    @classmethod
    def read(cls, y: Any) -> ValueLabels:
        """Read and check a user's targets."""
        return cls(check_targets(y))

    @property
    def n_columns(self) -> int:
        """Number of channels: the number of outputs."""
        return 1 if self.rows.ndim == 1 else self.rows.shape[1]

    def target(self, sampler: RowSampler, criterion: int = VARIANCE) -> RegressionTarget:
        """The target in integers, for a criterion."""
        _warn_of_small_weights(sampler)
        columns, facts = self.rows.reshape(len(self.rows), -1), sampler.weight_facts
        if CRITERIA[criterion].counts:
            check_counts(columns, facts.inside)
        with np.errstate(over="ignore"):  # `regression_target` raises an error if y spans too much
            target = regression_target(columns, facts, criterion)
        # The ranks of a `MedianTarget` distinguish even close values.
        if isinstance(target, ValueTarget):
            _warn_of_outliers(columns, target.values, facts.inside)
        return target

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of scikit-learn's regressors."""
        return {"n_outputs_": self.n_columns}


AnyLabels = ClassLabels | MultiOutputClassLabels | ValueLabels


def _warn_of_outliers(y: np.ndarray, quantised: np.ndarray, inside: np.ndarray | None) -> None:
    """Warn if quantisation leaves fewer than half of an output's distinct values distinct.

    The distinct values before and after quantisation are counted in a sample of 1000 to 2000 rows
    (in all rows, if there are fewer).
    """
    xp = array_module(y)
    rows = xp.arange(len(y)) if inside is None else xp.flatnonzero(inside)
    rows = rows[:: max(1, len(rows) // 1000)]  # at most 2000, evenly spaced
    values, integers = copy_to_host(y[rows]), copy_to_host(quantised[rows])
    for k in range(y.shape[1]):
        fraction, exponent = np.frexp(values[:, k])
        # Values that differ only by rounding errors count as equal. The rounded values are halved,
        # because rounding up could exceed the float64 range.
        distinguished = np.ldexp(np.rint(fraction * 2.0**40), exponent - 41)
        before, after = len(np.unique(distinguished)), len(np.unique(integers[:, k]))
        if 2 * after < before:
            warn_user(
                f"{before} distinct values of output {k} of y, in a sample of {len(values)} rows, "
                f"count as {after} when splits are chosen, because y spans "
                f"{float(y[:, k].min()):g} to {float(y[:, k].max()):g}; remove outliers, or fit a "
                "transform of y, such as its logarithm"
            )


def _warn_of_small_weights(sampler: RowSampler) -> None:
    """Warn if more than half of the positive weights are expected to round to 0 in a tree.

    Splits ignore the rows of these weights.
    """
    if sampler.lost_fraction > 0.5:
        assert sampler.weights is not None
        positive = sampler.weights[sampler.weights > 0]
        warn_user(
            "the weights of rows (sample_weight times any class weights) span "
            f"{float(positive.min()):g} to {float(positive.max()):g}: a tree chooses its splits "
            f"without {sampler.lost_fraction:.0%} of the rows, whose weights round to 0 (different "
            "rows in each tree); make large weights smaller"
        )
