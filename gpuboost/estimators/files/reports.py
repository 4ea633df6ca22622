"""Fitted attributes that no prediction needs, such as scores, in a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.io.checks import Arrays, Fields, require
from gpuboost.io.json_values import from_json, to_json

FLOAT_ARRAY, NUMBER, INTEGER, FLAG, STRING, SCORES, BINNING = range(7)
REPORTS = {
    "train_score_": FLOAT_ARRAY,
    "validation_score_": FLOAT_ARRAY,
    "oob_improvement_": FLOAT_ARRAY,
    "oob_scores_": FLOAT_ARRAY,
    "oob_decision_function_": FLOAT_ARRAY,
    "oob_prediction_": FLOAT_ARRAY,
    "training_error_bound_": FLOAT_ARRAY,
    "oob_score_": NUMBER,
    "max_features_": INTEGER,
    "best_iteration_": INTEGER,
    "_random_seed": INTEGER,
    "_had_offset": FLAG,
    "do_early_stopping_": FLAG,
    "device_": STRING,
    "evals_result_": SCORES,
    "_binning": BINNING,
}


def reports_to_parts(estimator: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON and the arrays of the attributes in `REPORTS` that an estimator has."""
    header, arrays = {}, {}
    for name, kind in REPORTS.items():
        if name not in vars(estimator):
            continue
        value = vars(estimator)[name]
        if kind == FLOAT_ARRAY:
            arrays[name] = np.ascontiguousarray(value, np.float64)
        else:
            header[name] = to_json(value)
    return header, arrays


def reports_from_parts(fields: Fields, arrays: Arrays) -> dict[str, Any]:
    """Check and read the attributes."""
    found: dict[str, Any] = {}
    for name, kind in REPORTS.items():
        if kind == FLOAT_ARRAY and name in arrays:
            found[name] = arrays.take_any_shape(name, np.float64)
        elif kind != FLOAT_ARRAY and name in fields:
            value = from_json(fields.take(name))
            require(_CHECKS[kind](value), f"{name} has a value of another type")
            found[name] = value
    fields.end()
    return found


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


_CHECKS = {
    NUMBER: lambda value: type(value) in (float, int),
    INTEGER: lambda value: type(value) is int and value >= 0,
    FLAG: lambda value: isinstance(value, bool),
    STRING: lambda value: isinstance(value, str),
    SCORES: _is_scores,
    BINNING: lambda value: isinstance(value, tuple) and len(value) == 2,
}
