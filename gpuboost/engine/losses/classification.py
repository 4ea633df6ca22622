"""The loss for more than two classes. Targets are int32 codes 0 to n_classes - 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine.losses.averages import weighted_mean
from gpuboost.engine.losses.base import FormulaLoss, Predicted
from gpuboost.engine.losses.links import row_largest, row_weights


@dataclass(frozen=True)
class SoftmaxLoss(FormulaLoss):
    """Negative log of the softmax probability of the row's class, for K raw predictions.

    Hessians are the diagonal of the Hessian matrix (raised as in `formulas.raised`) times
    K / (K - 1). So Newton steps have the factor (K - 1) / K of Friedman (2001, algorithm 6); for
    K = 2, the difference of the two steps would equal the step of binary log loss.
    """

    def round_parameter(self, rows: Predicted) -> np.ndarray:
        """K / (K - 1) for every class."""
        return np.full(self.columns, self.columns / (self.columns - 1.0))

    def baseline(self, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Logarithms of the classes' fractions of the total weight, minus the logarithms' mean.

        Fractions below `links.SMALLEST_PROBABILITY` are raised to it.
        """
        probabilities = [
            weighted_mean((y == k).astype(np.float64)[:, None], weights)
            for k in range(self.columns)
        ]
        return self.facts.link.forward(np.concatenate(probabilities))

    def _unweighted(self, y: np.ndarray, raw: np.ndarray, parameter: np.ndarray) -> Any:
        probabilities = self.facts.link.inverse(raw)
        indicators = (y[:, None] == np.arange(self.columns)).astype(np.float64)
        return self.facts.pair(indicators, probabilities, parameter)

    def _values(self, y: np.ndarray, raw: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        own = np.take_along_axis(raw, y[:, None].astype(np.int64), axis=1)[:, 0]
        _, total = row_weights(raw)
        return self.facts.value(own, row_largest(raw)[:, 0], total[:, 0])
