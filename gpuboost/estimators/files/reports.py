"""Fitted attributes that no prediction needs, such as scores, in a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuboost.io.checks import Arrays, Fields, require
from gpuboost.io.json_values import from_json, to_json

FLOAT_ARRAYS = (
    *("train_score_", "validation_score_", "oob_improvement_", "oob_scores_"),
    *("oob_decision_function_", "oob_prediction_", "training_error_bound_"),
)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_scores(value: Any) -> bool:
    """Whether a value is scores by row set and metric."""
    if not isinstance(value, dict) or not all(isinstance(own, dict) for own in value.values()):
        return False
    lists = [scores for own in value.values() for scores in own.values()]
    names = [*value, *(metric for own in value.values() for metric in own)]
    is_named = all(isinstance(name, str) for name in names)
    return is_named and all(
        isinstance(own, list) and set(map(type, own)) <= {float} for own in lists
    )


# The other attributes, and whether a value is one.
CHECKS: dict[str, Callable[[Any], bool]] = {
    "oob_score_": lambda value: type(value) in (float, int),
    "max_features_": _is_count,
    "best_iteration_": _is_count,
    "_random_seed": _is_count,
    "_had_offset": _is_flag,
    "do_early_stopping_": _is_flag,
    "device_": lambda value: isinstance(value, str),
    "evals_result_": _is_scores,
    "_binning": lambda value: isinstance(value, tuple) and len(value) == 2,
}


def reports_to_parts(estimator: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON and the arrays of the attributes that an estimator has."""
    own = vars(estimator)
    header = {name: to_json(own[name]) for name in CHECKS if name in own}
    arrays = {n: np.ascontiguousarray(own[n], np.float64) for n in FLOAT_ARRAYS if n in own}
    return header, arrays


def reports_from_parts(fields: Fields, arrays: Arrays) -> dict[str, Any]:
    """Check and read the attributes."""
    found: dict[str, Any] = {
        name: arrays.take_any_shape(name, np.float64) for name in FLOAT_ARRAYS if name in arrays
    }
    for name, is_valid in CHECKS.items():
        if name in fields:
            found[name] = from_json(fields.take(name))
            require(is_valid(found[name]), f"{name} has a value of another type")
    fields.end()
    return found
