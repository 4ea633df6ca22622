"""Link functions between raw predictions and predictions: values or class probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuboost.engine.losses.formulas import inside, sigmoid, softmax_weight
from gpuboost.engine.numerics import exp, log, select, sum_in_order

SMALLEST_PROBABILITY = 2.0**-52  # links of classifiers clip probabilities to this and 1 minus this
_SMALL_PROBABILITY, _LARGER = 2.0**-1000, 2.0**64
_LOG_OF_LARGER = 44.3614195558365


@dataclass(frozen=True)
class Link:
    """A link function and its inverse, both named functions, so that models can be pickled.

    Attributes
    ----------
    forward : callable
        Maps constant predictions (columns,) to raw predictions (columns,); for two classes, the
        prediction is the probability of the second. All but `SOFTMAX` are elementwise.
    inverse : callable
        Maps raw predictions (n, columns) to predictions of the same shape, or to class
        probabilities (n, n_classes).
    """

    forward: Callable[[np.ndarray], np.ndarray]
    inverse: Callable[[np.ndarray], np.ndarray]


def row_largest(raw: np.ndarray) -> np.ndarray:
    """Largest raw prediction of each row: (n, 1)."""
    return raw.max(axis=1, keepdims=True)


def row_weights(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unnormalised probabilities (n, n_classes), and their sums, in class order, (n, 1)."""
    weights = softmax_weight(raw, row_largest(raw))
    return weights, sum_in_order(weights)[:, None]


def log_probabilities(p: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities; the logarithm of 0 is minus infinity."""
    small = p < _SMALL_PROBABILITY  # possibly denormal
    logs = log(select(small, p * _LARGER, p)) - select(small, _LOG_OF_LARGER, 0.0)
    return select(p > 0.0, logs, select(p == p, -np.inf, np.nan))


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _exp(raw: np.ndarray) -> np.ndarray:
    return exp(inside(raw))


def _clipped(p: np.ndarray) -> np.ndarray:
    return np.clip(p, SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY)


def _logit(p: np.ndarray) -> np.ndarray:
    p = _clipped(p)
    return log(p / (1.0 - p))


def _centred_log(p: np.ndarray) -> np.ndarray:
    logs = log(_clipped(p))
    return logs - np.cumsum(logs)[-1] / float(len(logs))  # summed first to last


def _half_logit(p: np.ndarray) -> np.ndarray:
    return 0.5 * _logit(p)


def _sigmoid(raw: np.ndarray) -> np.ndarray:
    p = sigmoid(raw[:, 0])
    return np.column_stack([1.0 - p, p])


def _sigmoid_of_double(raw: np.ndarray) -> np.ndarray:
    return _sigmoid(2.0 * raw)


def _softmax(raw: np.ndarray) -> np.ndarray:
    weights, total = row_weights(raw)
    return weights / total


IDENTITY = Link(_same, _same)
LOG = Link(log, _exp)
LOGIT = Link(_logit, _sigmoid)
HALF_LOGIT = Link(_half_logit, _sigmoid_of_double)
SOFTMAX = Link(_centred_log, _softmax)
