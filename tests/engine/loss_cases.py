"""One loss of every kind, and rows to evaluate the losses on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuboost.engine.losses import Loss, Predicted, make_loss
from gpuboost.engine.losses.base import as_columns

LEVELS = (0.1, 0.5, 0.9)
MAKERS: dict[str, Callable[[], Loss]] = {
    "squared_error": lambda: make_loss("squared_error"),
    "squared_error of outputs": lambda: make_loss("squared_error", n_outputs=3),
    "absolute_error": lambda: make_loss("absolute_error"),
    "huber": lambda: make_loss("huber", alpha=0.8),
    "quantile": lambda: make_loss("quantile", alpha=0.7),
    "quantile of levels": lambda: make_loss("quantile", alpha=LEVELS),
    "log_cosh": lambda: make_loss("log_cosh"),
    "log_cosh of outputs": lambda: make_loss("log_cosh", n_outputs=2),
    "poisson": lambda: make_loss("poisson"),
    "gamma": lambda: make_loss("gamma"),
    "tweedie": lambda: make_loss("tweedie", power=1.3),
    "log_loss": lambda: make_loss("log_loss", n_classes=2),
    "log_loss of classes": lambda: make_loss("log_loss", n_classes=5),
    "exponential": lambda: make_loss("exponential", n_classes=2),
}
POSITIVE = ("poisson", "gamma", "tweedie")
each_loss = pytest.mark.parametrize("kind", MAKERS)


def target_of(loss: Loss, n: int, rng: np.random.Generator) -> np.ndarray:
    """A target in the range that the loss accepts."""
    if loss.is_classifier:
        return rng.integers(0, max(2, loss.columns), n).astype(np.int32)
    if loss.facts.name in POSITIVE:
        y = rng.gamma(0.5, 3.0, n)
        return np.maximum(y, 1e-3) if loss.facts.name == "gamma" else np.floor(y)
    n_outputs = 1 if loss.facts.name == "quantile" else loss.columns
    y = np.round(rng.normal(size=(n, n_outputs)) * 5.0, 1)
    return y[:, 0] if n_outputs == 1 else y


def sample(loss: Loss, n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target, raw predictions, and weights of which some are 0."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(1.0, 1.0, n) * (rng.random(n) > 0.1)
    return target_of(loss, n, rng), rng.normal(size=(n, loss.columns)) * 2.0, weights


def extreme(loss: Loss, n: int = 5000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `sample`, with extreme raw predictions, residuals of 0, and tiny and huge weights."""
    y, raw, weights = sample(loss, n, 1)
    rng = np.random.default_rng(2)
    far = np.array([0.0, -0.0, 1e-300, -1e-300, 37.0, -37.0, 800.0, -800.0, 1e9, -1e9])
    raw[: n // 2] = rng.choice(far, (n // 2, loss.columns))
    weights[: n // 4] = 10.0 ** rng.uniform(-290, 20, n // 4)
    if not loss.is_classifier and loss.facts.name not in POSITIVE:
        raw[-n // 4 :] = as_columns(y)[-n // 4 :]
    return y, raw, weights


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype == np.float64
    found, expected = np.ascontiguousarray(found), np.ascontiguousarray(expected)
    np.testing.assert_array_equal(found.view(np.int64), expected.view(np.int64))


def gradients(
    loss: Loss, y: Any, raw: Any, weights: Any = None, parameter: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients and hessians; the round parameter is computed from the rows unless given."""
    rows = Predicted(y, raw, weights)
    return loss.gradients(rows, loss.round_parameter(rows) if parameter is None else parameter)


def row_losses(loss: Loss, y: Any, raw: Any, parameter: Any = None) -> np.ndarray:
    """Losses of rows; the round parameter is computed from the rows unless given."""
    rows = Predicted(y, raw)
    return loss.row_losses(rows, loss.round_parameter(rows) if parameter is None else parameter)


def mean_loss(loss: Loss, y: Any, raw: Any, weights: Any = None, parameter: Any = None) -> float:
    """Mean loss; the round parameter is computed from the rows unless given."""
    rows = Predicted(y, raw, weights)
    return loss.mean_loss(rows, loss.round_parameter(rows) if parameter is None else parameter)
