"""User-defined losses: objects with gradient and hessian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine.array_modules import array_module, copy_to_host, is_cupy_array
from gpuboost.engine.losses.averages import weighted_mean
from gpuboost.engine.losses.base import USER, Loss, LossFacts, Predicted
from gpuboost.engine.losses.links import IDENTITY

BOTH, FIRST, SECOND = "gradient_hessian", "gradient", "hessian"


@dataclass(frozen=True)
class UserLoss(Loss):
    """Adapter for a user's ``objective``, whose results need not be the same on every device.

    Attributes
    ----------
    objective : object
        Has ``gradient(y, raw)`` and ``hessian(y, raw)``, or ``gradient_hessian(y, raw)`` that
        returns both. ``raw`` and the results are (n,) for one column, else (n, columns); ``y`` is
        the target, with codes for classes. Optional methods are ``loss(y, raw)``, the loss of each
        row (else mean losses are NaN), ``predict(raw)`` (else the raw prediction is the prediction)
        and ``baseline(y, weights)`` (else 0), where ``weights`` is None without weights. In rounds,
        arrays are on the device in use; for metrics and the baseline (which needs gradients if
        there are offsets), they are on the host; in predictions, they are where ``X`` is.
    """

    objective: Any = None

    def baseline(self, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """The baseline of the objective, or zeros if the objective has no ``baseline``."""
        if not hasattr(self.objective, "baseline"):
            return np.zeros(self.columns)
        found = np.asarray(self.objective.baseline(y, weights), dtype=np.float64)
        if found.size not in (1, self.columns) or not np.isfinite(found).all():
            raise ValueError(
                f"{self._called('baseline')} must return {self.columns} finite value(s), "
                f"got {found!r}"
            )
        return np.broadcast_to(found.reshape(-1), (self.columns,)).copy()

    def gradients(self, rows: Predicted, parameter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Checked gradients and hessians, times weights: float64 (n, columns) each."""
        y, raw, weights = rows.y, rows.raw, rows.weights
        seen = self._seen(raw)
        if hasattr(self.objective, BOTH):
            both = getattr(self.objective, BOTH)(y, seen)
            if not isinstance(both, (tuple, list)) or len(both) != 2:
                raise ValueError(f"{self._called(BOTH)} must return (gradient, hessian)")
            names, found = (BOTH, BOTH), both
        else:
            names = (FIRST, SECOND)
            found = [getattr(self.objective, name)(y, seen) for name in names]
        g, h = (self._checked(name, part, raw) for name, part in zip(names, found, strict=True))
        if bool((h < 0.0).any()):
            raise ValueError(
                f"{self._called(names[1])} returned a negative hessian; a loss that is not convex "
                "may return an upper bound of it, or abs() of it"
            )
        return (g, h) if weights is None else (g * weights[:, None], h * weights[:, None])

    def row_losses(self, rows: Predicted, parameter: np.ndarray) -> np.ndarray:
        """Results of the objective's ``loss``; NaN if the objective has no ``loss``."""
        n = len(rows.raw)
        if not hasattr(self.objective, "loss"):
            return rows.raw[:, 0] * np.nan
        found = self.objective.loss(rows.y, self._seen(rows.raw))
        if getattr(found, "shape", None) != (n,):
            raise ValueError(
                f"{self._called('loss')} must return one value per row, shape ({n},), "
                f"got {_shape_of(found)}"
            )
        return found

    def mean_loss(self, rows: Predicted, parameter: np.ndarray) -> float:
        """Weighted mean of `row_losses`; NaN if the objective has no ``loss``.

        Losses on a device are copied to the host and summed there, independently of the order.
        """
        if not hasattr(self.objective, "loss"):
            return float("nan")
        found, weights = self.row_losses(rows, parameter), rows.weights
        values = copy_to_host(found) if is_cupy_array(found) else np.asarray(found)
        own = None if weights is None else copy_to_host(weights)
        return float(weighted_mean(values.astype(np.float64)[:, None], own)[0])

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Results of the objective's ``predict``; ``raw`` if the objective has no ``predict``."""
        if not hasattr(self.objective, "predict"):
            return raw
        return self.objective.predict(self._seen(raw))

    def _seen(self, raw: np.ndarray) -> np.ndarray:
        """Raw predictions in the shape that the objective expects."""
        return raw[:, 0] if self.columns == 1 else raw

    def _called(self, method: str) -> str:
        """Name of a method in messages."""
        return f"{type(self.objective).__name__}.{method}"

    def _checked(self, name: str, part: Any, raw: np.ndarray) -> np.ndarray:
        """Check a gradient or hessian and return it as float64 (n, columns)."""
        shape = self._seen(raw).shape
        if getattr(part, "shape", None) != shape:
            raise ValueError(
                f"{self._called(name)} must return arrays of shape {shape}, that of raw, "
                f"got {_shape_of(part)}"
            )
        if part.dtype.kind not in "fiub":
            raise ValueError(f"{self._called(name)} must return real numbers, got {part.dtype}")
        part = part.astype(np.float64).reshape(raw.shape)
        if not bool(array_module(part).isfinite(part).all()):
            raise ValueError(
                f"{self._called(name)} returned values that are not finite; clip raw before exp, "
                "and keep divisors above 0"
            )
        return part


_FACTS = LossFacts(USER, "user", IDENTITY)


def _shape_of(found: Any) -> str:
    """Description of the shape of a returned value."""
    shape = getattr(found, "shape", None)
    return f"shape {shape}" if shape is not None else f"a {type(found).__name__}"


def user_loss(objective: Any, columns: int = 1) -> UserLoss:
    """Wrap a user's objective, for ``columns`` raw predictions per row.

    Raises
    ------
    TypeError
        If the objective has neither ``gradient`` and ``hessian`` nor ``gradient_hessian``.
    """
    if hasattr(objective, BOTH) or (hasattr(objective, FIRST) and hasattr(objective, SECOND)):
        return UserLoss(_FACTS, columns, objective)
    raise TypeError(
        "a user-defined loss must have the methods gradient(y, raw) and hessian(y, raw), or "
        f"gradient_hessian(y, raw) that returns both, got {objective!r}; or name one of the "
        "built-in losses"
    )


def placeholder_loss(columns: int) -> UserLoss:
    """The loss of a model whose objective is unknown: predictions are raw predictions."""
    return UserLoss(_FACTS, columns, None)
