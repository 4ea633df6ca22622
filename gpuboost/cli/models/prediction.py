"""``gpuboost predict`` and ``gpuboost evaluate``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import gpuboost
from gpuboost.cli.models.scores import evaluation_of
from gpuboost.cli.models.training import trees_of
from gpuboost.cli.output import counted, say
from gpuboost.cli.similar import separator_hint
from gpuboost.cli.tables.data import DataTable
from gpuboost.cli.tables.files import TableBatches
from gpuboost.cli.tables.read import read_data
from gpuboost.cli.tables.targets import weights_of
from gpuboost.cli.tables.write import NamedColumns, joined_columns
from gpuboost.engine.losses.links import IDENTITY
from gpuboost.estimators.model.row_predictions import model_columns, named_columns

CLASS, PROBABILITY, RAW = "prediction", "probability", "raw"


def prediction_batches(
    model: Any, batches: TableBatches, kind: str, keep: Sequence[str], drop: Sequence[str]
) -> Iterator[tuple[int, NamedColumns]]:
    """Predictions for a table, batch by batch.

    Parameters
    ----------
    model : estimator
        A fitted model.
    batches : TableBatches
        The rows.
    kind : str
        `CLASS` (or values), `PROBABILITY` or `RAW`.
    keep, drop : sequence of str
        Names of columns that are returned, too, and of others that are not features, either.

    Yields
    ------
    n_rows : int
        Number of rows of the batch.
    columns : dict
        The columns of ``keep``, and the predictions.

    Raises
    ------
    ValueError
        If the model has no such predictions, or the table has other columns.
    """
    for name in (*keep, *drop):
        batches.header.check_name(name)
    names = feature_names_for(model, batches.header, (*keep, *drop))
    for data in batches.read(list(dict.fromkeys([*names, *keep]))):
        kept = {name: data.column(name) for name in keep}
        predicted = predicted_columns(model, data.features(names), kind)
        yield data.n_rows, joined_columns(kept, predicted)
        del data, kept, predicted
        warnings.filterwarnings("ignore", "X has feature names")  # the first batch said it


def predicted_columns(model: Any, X: Any, kind: str) -> dict[str, np.ndarray]:
    """Predictions by the names of the columns that hold them.

    Parameters
    ----------
    model : estimator
        A fitted model.
    X : table
        Its features.
    kind : str
        `CLASS` (or values), `PROBABILITY` or `RAW`.

    Raises
    ------
    ValueError
        If the model has no such predictions.
    """
    classes: Any = getattr(model, "classes_", None)
    if isinstance(classes, list):
        raise ValueError("a classifier of several outputs cannot be used on the command line")
    if kind == PROBABILITY:
        if classes is None:
            raise ValueError(f"{type(model).__name__} has no probabilities; leave out --proba")
        return named_columns("probability", model.predict_proba(X), classes)
    if kind == RAW:
        return _raw(model, X, classes)
    return named_columns("prediction", model.predict(X))


def _raw(model: Any, X: Any, classes: Any) -> dict[str, np.ndarray]:
    """Sums of the trees, before the inverse link."""
    if hasattr(model, "predict_raw"):
        return named_columns("raw", model.predict_raw(X))
    if hasattr(model, "decision_function"):
        return named_columns("raw", model.decision_function(X), classes)
    loss: Any = getattr(trees_of(model), "loss", None)
    if loss is None or loss.facts.link != IDENTITY:
        raise ValueError(f"{type(model).__name__} has no raw predictions; leave out --raw")
    return named_columns("raw", model.predict(X))


def feature_names_for(model: Any, table: DataTable, excluded: Iterable[str]) -> list[str]:
    """The columns of a table that a fitted model takes, by name, else all that are not excluded.

    Raises
    ------
    ValueError
        If the table lacks columns of the model, or has another number of them.
    """
    known = getattr(model, "feature_names_in_", None)
    hint = separator_hint(table.names[0]) if len(table.names) == 1 else ""
    names = model_columns(model, table, excluded, advice=hint)
    if len(names) != model.n_features_in_:
        nameless = [" without names" * missing for missing in (known is None, not table.has_names)]
        advice = "; leave out the others by --drop" if len(names) > model.n_features_in_ else ""
        raise ValueError(
            f"the model has {counted(model.n_features_in_, 'feature')}{nameless[0]}, but the table "
            f"has {counted(len(names), 'column')}{nameless[1]} for them{advice}"
        )
    if known is not None and not table.has_names:
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # said here
        say("note: the table has no names; its columns are taken in the order of the features")
    return names


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
    X = table.features(feature_names_for(model, table, omitted))
    found = evaluation_of(model, X, table.values(target), weights)
    report = {
        "model": path,
        "table": given,
        "rows": table.n_rows,
        "scores": found.scores(),
        "calibrated": "quantiles" if found.levels else "predictions",
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
