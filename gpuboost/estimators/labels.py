"""What an estimator learns: classes or values, read from ``y`` and given to the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.data.advice import warn_user
from gpuboost.data.validation import check_classes, check_targets, class_weights
from gpuboost.engine.statistics import class_target, value_target
from gpuboost.estimators.settings import CLASS_CRITERIA, VALUE_CRITERIA

if TYPE_CHECKING:
    from gpuboost.engine.sampling import RowSampler
    from gpuboost.engine.spec import Target


@dataclass(frozen=True, eq=False)
class ClassLabels:
    """The class of each row.

    Attributes
    ----------
    codes : int32 (n,)
    classes : ndarray (n_classes,)
    """

    codes: np.ndarray
    classes: np.ndarray

    criteria = CLASS_CRITERIA

    @classmethod
    def read(cls, y: Any) -> ClassLabels:
        """Labels that a user brings."""
        return cls(*check_classes(y))

    def __len__(self) -> int:
        return len(self.codes)

    def target(self, sampler: RowSampler) -> Target:
        """The target in integers."""
        return class_target(self.codes, len(self.classes), sampler.weight_facts)

    def row_weights(self, class_weight: Any) -> np.ndarray | None:
        """Weight of each row from that of its class."""
        of_class = class_weights(class_weight, self.codes, self.classes)
        return None if of_class is None else of_class[self.codes]

    def attributes(self) -> dict[str, Any]:
        """What scikit-learn's classifiers tell about the labels."""
        n_classes = len(self.classes)
        return {"classes_": self.classes, "n_classes_": n_classes, "n_outputs_": 1}


@dataclass(frozen=True, eq=False)
class ValueLabels:
    """The values of each row: float64 (n,) or (n, n_outputs)."""

    values: np.ndarray

    criteria = VALUE_CRITERIA

    @classmethod
    def read(cls, y: Any) -> ValueLabels:
        """Targets that a user brings."""
        return cls(check_targets(y))

    def __len__(self) -> int:
        return len(self.values)

    def target(self, sampler: RowSampler) -> Target:
        """The target in integers."""
        columns = self.values.reshape(len(self.values), -1)
        with np.errstate(over="ignore"):  # a span too wide is an error, which it raises
            target = value_target(columns, sampler.weight_facts)
        assert target.values is not None
        _warn_of_outliers(columns, target.values, sampler.weight_facts.inside)
        return target

    def attributes(self) -> dict[str, Any]:
        """What scikit-learn's regressors tell about the targets."""
        return {"n_outputs_": 1 if self.values.ndim == 1 else self.values.shape[1]}


def _warn_of_outliers(y: np.ndarray, quantised: np.ndarray, inside: np.ndarray | None) -> None:
    """Warn if an outlier stretches the range of a target so far that most of it counts as equal.

    Asked of some thousand rows: whether the middle half of an output differs before it is made
    integers, and not after.
    """
    rows = np.arange(len(y)) if inside is None else np.flatnonzero(inside)
    rows = rows[:: max(1, len(rows) // 1000)]
    for k in range(y.shape[1]):
        before, after = (np.quantile(x[rows, k], (0.25, 0.75)) for x in (y, quantised))
        if before[0] < before[1] and after[0] == after[1]:
            warn_user(
                f"the middle half of output {k} of y, from {before[0]:g} to {before[1]:g}, counts "
                f"as equal beside values from {y[:, k].min():g} to {y[:, k].max():g}, and is not "
                "split; take the outliers out, or fit a transform of y, such as its logarithm"
            )
