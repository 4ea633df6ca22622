"""Predictions for a source of tables, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.blocks.row_batches import RowBatches
from gpuboost.io.parquet import write_parquet

# Methods that predict row by row, and the names of the columns of their results.
COLUMN_OF_METHOD = {
    "predict": "prediction",
    "predict_proba": "probability",
    "predict_log_proba": "log_probability",
    "decision_function": "raw",
    "predict_raw": "raw",
    "apply": "leaf",
}
_BY_CLASS = ("predict_proba", "predict_log_proba", "decision_function")


def predict_batches(
    model: Any, source: Any, *, method: str = "predict"
) -> Iterator[tuple[slice, Any]]:
    """Predictions for data that need not fit in memory, batch by batch.

    They are equal, bit for bit, to the predictions for the whole table.

    Parameters
    ----------
    model : fitted estimator
        If it has feature names, it gets the columns of these names; other columns are ignored.
    source : object
        Parquet or Arrow files, a stream, an iterable of tables or another source of
        `Dataset.from_batches`, or a data frame.
    method : str
        "predict", "predict_proba", "predict_log_proba", "decision_function", "predict_raw" or
        "apply", if the model has it.

    Yields
    ------
    rows : slice
        Rows of the source, in their order; at most 131,072 with about 64 MB of features.
    values : ndarray, or list of ndarray
        The result of the method for these rows.

    Raises
    ------
    ValueError
        The model has no such method; or the source has no rows, lacks columns of the model, or has
        tables with different columns.
    TypeError, FileNotFoundError, SourceChangedError
        The source is invalid, or its files changed while they were read.
    ImportError
        pyarrow is not installed.
    """
    return numbered(map(_method_of(model, method), feature_batches(model, source)))


def write_predictions(
    model: Any,
    source: Any,
    path: str | PathLike[str],
    *,
    method: str = "predict",
    keep: Sequence[str] = (),
) -> None:
    """Write predictions for data that need not fit in memory to a Parquet file.

    The columns are those of ``keep``, followed by "prediction", "probability_<class>",
    "log_probability_<class>", "raw", "raw_<class>" or "leaf_<tree>", by the method. Several outputs
    are numbered, as in "prediction_0" and "probability_0_<class>"; with several trees in a round of
    boosting, names are "leaf_<round>_<tree>".

    Parameters
    ----------
    model, source, method
        As in `predict_batches`.
    path : str or path-like
        The file. It is replaced when it is complete.
    keep : sequence of str
        Columns of the source that are written, too. If the model has no feature names, all other
        columns are its features.

    Raises
    ------
    ValueError
        A column of ``keep`` does not exist, or has the name of a column of predictions; or see
        `predict_batches`.
    TypeError, FileNotFoundError, SourceChangedError, ImportError
        See `predict_batches`.
    OSError
        The file cannot be written.
    """
    kept = [keep] if isinstance(keep, str) else list(keep)
    run, rows = _method_of(model, method), RowBatches(source)
    features = _columns_for(model, rows, kept)
    labels = getattr(model, "classes_", None) if method in _BY_CLASS else None
    batches = rows.read(list(dict.fromkeys([*features, *kept])))

    def table_of(batch: Any) -> Any:
        import pyarrow as pa

        X = batch.select(features) if rows.has_names else batch
        found = named_columns(COLUMN_OF_METHOD[method], run(X), labels)
        if common := found.keys() & set(kept):
            raise ValueError(
                f"keep={min(common)!r}: the predictions have this name; rename it in the source"
            )
        return pa.table({name: batch.column(name) for name in kept} | found)

    write_parquet(path, map(table_of, batches))


def feature_batches(model: Any, source: Any) -> Iterator[Any]:
    """The features of a model in a source, as tables or arrays of some rows.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError, SourceChangedError, ImportError
        See `predict_batches`.
    """
    check_is_fitted(model)
    rows = RowBatches(source)
    return rows.read(_columns_for(model, rows, ()))


def numbered(parts: Iterable[Any]) -> Iterator[tuple[slice, Any]]:
    """Arrays of some rows, or lists of these, with the slices of their rows."""
    start = 0
    for part in parts:
        stop = start + len(part[0] if isinstance(part, list) else part)
        yield slice(start, stop), part
        start = stop
        del part


def named_columns(
    name: str, values: np.ndarray | list[np.ndarray], labels: Any = None
) -> dict[str, np.ndarray]:
    """Predictions by the names of the columns that hold them.

    Parameters
    ----------
    name : str
        Beginning of all names.
    values : ndarray, or list of ndarray
        Of shape (n_rows,), (n_rows, n_columns) or (n_rows, n_parts, n_columns); a list has an array
        for each part.
    labels : sequence, or a list of these
        What the columns stand for; None numbers them.
    """
    if isinstance(values, np.ndarray) and values.ndim > 2:
        values = list(values.swapaxes(0, 1))
    if isinstance(values, list):
        parts = [
            named_columns(f"{name}_{k}", own, None if labels is None else labels[k])
            for k, own in enumerate(values)
        ]
        return {key: column for part in parts for key, column in part.items()}
    if values.ndim == 1:
        return {name: values}
    labels = range(values.shape[1]) if labels is None else labels
    return {f"{name}_{label}": values[:, k] for k, label in enumerate(labels)}


def _method_of(model: Any, method: str) -> Callable[[Any], Any]:
    """The method of a fitted model of this name."""
    check_is_fitted(model)
    allowed = [name for name in COLUMN_OF_METHOD if hasattr(model, name)]
    if method not in allowed:
        raise ValueError(
            f"method={method!r} was given, but {type(model).__name__} predicts batches by "
            f"{', '.join(allowed)}; choose one of these"
        )
    found: Callable[[Any], Any] = getattr(model, method)
    return found


def _columns_for(model: Any, rows: RowBatches, kept: Sequence[str]) -> list[str]:
    """Names of the columns that are features; also checks those that are kept."""
    unknown = [name for name in kept if name not in rows.names or not rows.has_names]
    if unknown:
        names = rows.names[:10] if rows.has_names else "no names"
        raise ValueError(f"keep={unknown[0]!r} is not a column; the source has {names}")
    return model_columns(model, rows, kept, what="source")


def model_columns(
    model: Any, table: Any, excluded: Iterable[str], *, what: str = "table", advice: str = ""
) -> list[str]:
    """The columns of a table that are features of a model.

    Parameters
    ----------
    model : estimator
        A fitted model.
    table : object
        It has ``names``, a list, and ``has_names``, which is whether these are the table's own.
    excluded : iterable of str
        Names of columns that are no features; they do not matter if the model has feature names.
    what : str
        What the message calls the table.
    advice : str
        The end of the message, in place of "add them".

    Raises
    ------
    ValueError
        The table lacks columns of the model.
    """
    known, omitted = getattr(model, "feature_names_in_", None), set(excluded)
    if known is None or not table.has_names:
        return [name for name in table.names if name not in omitted]
    own = set(table.names)
    missing = [name for name in known if name not in own]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ValueError(
            f"the {what} lacks {len(missing)} of the model's {len(known)} columns: {shown}"
            f"{advice or '; add them'}"
        )
    return list(known)
