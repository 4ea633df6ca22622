"""What an estimator learns: classes or values, read from ``y`` and given to the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

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
            return value_target(columns, sampler.weight_facts)

    def attributes(self) -> dict[str, Any]:
        """What scikit-learn's regressors tell about the targets."""
        return {"n_outputs_": 1 if self.values.ndim == 1 else self.values.shape[1]}
