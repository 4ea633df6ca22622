"""``gpuboost predict`` and ``gpuboost evaluate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import gpuboost
from gpuboost.cli.models.scores import evaluation_of
from gpuboost.cli.models.training import trees_of
from gpuboost.cli.tables.data import DataTable, features_for
from gpuboost.cli.tables.read import read_data
from gpuboost.cli.tables.targets import weights_of
from gpuboost.engine.losses.links import IDENTITY

CLASS, PROBABILITY, RAW = "prediction", "probability", "raw"


def predicted_columns(
    model: Any, table: DataTable, kind: str, omitted: Sequence[str]
) -> dict[str, np.ndarray]:
    """Predictions by the names of the columns that hold them.

    Parameters
    ----------
    model : estimator
        A fitted model.
    table : DataTable
        The rows.
    kind : str
        `CLASS` (or values), `PROBABILITY` or `RAW`.
    omitted : sequence of str
        Names of columns that are not features, if the model does not know names.

    Raises
    ------
    ValueError
        If the model has no such predictions, or the table has other columns.
    """
    X = features_for(model, table, omitted)
    classes: Any = getattr(model, "classes_", None)
    if isinstance(classes, list):
        raise ValueError("a classifier of several outputs cannot be used on the command line")
    if kind == PROBABILITY:
        if classes is None:
            raise ValueError(f"{type(model).__name__} has no probabilities; leave out --proba")
        return _by_class("probability", classes, model.predict_proba(X))
    if kind == RAW:
        return _raw(model, X, classes)
    found = model.predict(X)
    return _by_class("prediction", range(found.shape[-1]), found)


def _raw(model: Any, X: Any, classes: Any) -> dict[str, np.ndarray]:
    """Sums of the trees, before the inverse link."""
    if hasattr(model, "predict_raw"):
        found = model.predict_raw(X)
        return _by_class("raw", range(found.shape[-1]), found)
    if hasattr(model, "decision_function"):
        found = model.decision_function(X)
        return _by_class("raw", [""] if found.ndim == 1 else classes, found)
    loss: Any = getattr(trees_of(model), "loss", None)
    if loss is None or loss.facts.link != IDENTITY:
        raise ValueError(f"{type(model).__name__} has no raw predictions; leave out --raw")
    found = model.predict(X)
    return _by_class("raw", range(found.shape[-1]), found)


def _by_class(name: str, labels: Any, found: np.ndarray) -> dict[str, np.ndarray]:
    """One column, or a column for each label."""
    if found.ndim == 1:
        return {name: found}
    return {f"{name}_{label}": found[:, k] for k, label in enumerate(labels)}


def strings_of_model(model: Any) -> list[str]:
    """Names of the features whose categories are strings."""
    schema = trees_of(model).schema
    names = [] if schema.names is None else schema.names.tolist()
    return [
        name
        for name, codes in zip(names, schema.codes, strict=False)
        if codes and isinstance(next(iter(codes)), str)
    ]


def evaluate(path: str, given: str, columns: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Scores, confusion and calibration of a model file on a table.

    Parameters
    ----------
    path, given : str
        The model file and the table.
    columns : mapping
        The ``target``, the ``weight`` (or None), names to ``drop``, and ``has_header``.
    device : str
        Where to predict.

    Raises
    ------
    ValueError
        If a file or a column is wrong.
    """
    model = gpuboost.load(path, device=device)
    target, weight = columns["target"], columns["weight"]
    classes: Any = getattr(model, "classes_", None)
    strings = strings_of_model(model)
    if classes is not None and isinstance(classes[0], str):
        strings.append(target)
    table = read_data(given, strings, columns["has_header"])
    omitted = [target, *columns["drop"], *([weight] if weight else [])]
    for name in omitted:
        table.check_name(name)
    weights = None if weight is None else weights_of(table, weight)
    X = features_for(model, table, omitted)
    found = evaluation_of(model, X, table.values(target), weights)
    report = {
        "model": path,
        "table": given,
        "rows": table.n_rows,
        "scores": found.scores(),
        "calibrated": "predictions",
        "calibration": found.calibration(),
    }
    if classes is not None:
        two = len(classes) == 2
        what = f"probability of {classes[1]}" if two else "probability of the predicted class"
        report |= {
            "classes": classes.tolist(),
            "confusion": found.confusion().tolist(),
            "calibrated": what,
        }
    return report
