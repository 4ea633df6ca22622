"""Raw predictions before the first round of boosting."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from gpuboost.backends.device_arrays import adopt_targets
from gpuboost.data.arrays import to_float64
from gpuboost.engine.array_modules import array_module, copy_to_host, is_cupy_array
from gpuboost.engine.losses import Loss, Predicted
from gpuboost.engine.losses.averages import weighted_mean
from gpuboost.engine.losses.links import log_probabilities

NEWTON_STEPS = 50  # maximum number of steps to a baseline with offsets; about five are enough
LONGEST_STEP = 2.0  # maximum absolute change of the baseline in one of these steps
# Errors of estimators and pipelines that take no sample weights.
REFUSES_WEIGHTS = ("unexpected keyword argument 'sample_weight'", "stepname__parameter")
MIN_INIT_PROBABILITY = 1e-7  # probabilities that an ``init`` estimator predicts are clipped to this


def baseline(
    loss: Loss, y: np.ndarray, weights: np.ndarray | None, offsets: np.ndarray | None
) -> np.ndarray:
    """Raw prediction of the best constant model, or of one close to it: float64 (columns,).

    Parameters
    ----------
    offsets : float64 (n, columns) or None
        Raw predictions that the constant is added to. Without offsets, it is `Loss.baseline`. With
        offsets, unless the loss moves with the target, it is found by at most `NEWTON_STEPS` Newton
        steps.
    """
    if offsets is None:
        return loss.baseline(y, weights)
    if loss.moves_with_target:
        left = y.reshape(len(y), -1) - offsets
        if y.ndim > 1:
            return loss.baseline(left, weights)
        columns = (loss.baseline(left[:, k], weights) for k in range(loss.columns))
        return np.array([found[k] for k, found in enumerate(columns)])
    found = loss.baseline(y, weights) - weighted_mean(offsets, weights)
    for _ in range(NEWTON_STEPS):
        rows = Predicted(y, offsets + found)
        gradient, hessian = loss.gradients(rows, loss.round_parameter(rows))
        step = weighted_mean(gradient, weights) / weighted_mean(hessian, weights)
        found = found - np.clip(step, -LONGEST_STEP, LONGEST_STEP)
        if (np.abs(step) < 1e-12).all():
            break
    return found


def information_of_row(
    loss: Loss, constant: np.ndarray, offsets: np.ndarray | None, weights: np.ndarray | None
) -> float:
    """Mean hessian of a row before the first round; 1.0 if hessians are not Fisher information.

    Hessians are those of rows of weight 1 and target 0; the target matters only where
    `formulas.raised` raises them. The result is the mean over columns of the weighted mean over
    rows, which does not change if all weights are doubled.
    """
    if not loss.hessian_is_information:
        return 1.0
    if offsets is None:  # the hessian is the same for all rows
        raw, weights = constant[None, :], None
    else:
        raw = offsets + constant
    rows = Predicted(np.zeros(len(raw), dtype=np.int32), raw)
    hessian = loss.gradients(rows, loss.round_parameter(rows))[1]
    columns = weighted_mean(hessian, weights)
    return sum(float(each) for each in columns) / len(columns)


def fitted_init(
    given: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, needed: str, owner: str
) -> Any:
    """A fitted clone of the ``init`` estimator; None for 'zero'.

    ``needed`` is the method that makes its predictions, ``owner`` the class of the boosting.
    """
    if isinstance(given, str) and given == "zero":
        return None
    if isinstance(given, type) or not (hasattr(given, "fit") and hasattr(given, needed)):
        raise ValueError(
            f"The 'init' parameter of {owner} must be a str among {{'zero'}}, None or an object "
            f"implementing 'fit' and '{needed}'. Got {given!r:.80} instead."
        )
    init = clone(given)
    if weights is None:
        return init.fit(X, y)
    try:
        return init.fit(X, y, sample_weight=weights)
    except (TypeError, ValueError) as error:
        if not any(words in str(error) for words in REFUSES_WEIGHTS):
            raise
        raise ValueError(
            f"The initial estimator {type(init).__name__} does not support sample weights; use "
            "another one, or fit without sample_weight"
        ) from error


def raw_of_init(init: Any, X: Any, loss: Loss) -> np.ndarray:
    """Predictions of ``init``, a fitted estimator, as raw predictions: float64 (n, columns).

    They are made from ``predict_proba`` for a built-in loss of classes, else from ``predict``.
    """
    if not loss.is_classifier:
        values = np.asarray(copy_to_host(init.predict(X)), dtype=np.float64)
        values = loss.facts.link.forward(values.reshape(len(values), -1))
        return np.broadcast_to(values, (len(values), loss.columns)).copy()
    probabilities = np.asarray(copy_to_host(init.predict_proba(X)), dtype=np.float64)
    probabilities = np.clip(probabilities, MIN_INIT_PROBABILITY, 1.0 - MIN_INIT_PROBABILITY)
    if loss.columns == 1:
        return loss.facts.link.forward(probabilities[:, 1])[:, None]
    return log_probabilities(probabilities)


def read_offset(given: Any, n: int, columns: int, near: Any = None) -> np.ndarray | None:
    """The user's offsets: float64 (n, columns), or None if none were given.

    They are on the device of the array ``near``, or on the host if ``near`` is None.
    """
    if given is None:
        return None
    on_host = near is None or isinstance(near, np.ndarray)
    try:
        there = adopt_targets(given, "cpu" if on_host else f"cuda:{near.device.id}")
        if on_host or not is_cupy_array(there):
            there = np.asarray(there, dtype=np.float64)
        offset = to_float64(there).reshape(n, -1)
    except (TypeError, ValueError):
        offset = np.zeros((0, 0))
    if offset.shape != (n, columns) or not bool(array_module(offset).isfinite(offset).all()):
        shapes = f"({n},)" if columns == 1 else f"({n}, {columns})"
        raise ValueError(
            f"offset must hold finite numbers of shape {shapes}, a raw prediction to start from "
            f"for each row, got {np.shape(given)} {given!r:.80}"
        )
    return offset if on_host else array_module(near).asarray(offset)


def starting_at(n: int, constant: np.ndarray, offsets: np.ndarray | None) -> np.ndarray:
    """Raw predictions of n rows before the first round: float64 (n, columns).

    Without offsets, the result is a read-only view of the constant.
    """
    return np.broadcast_to(constant, (n, len(constant))) if offsets is None else constant + offsets
