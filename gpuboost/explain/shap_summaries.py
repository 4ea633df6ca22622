"""SHAP values of many rows, of which only a block exists at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

from gpuboost.data.parameters import integer_at_least
from gpuboost.estimators.fitting.explanations import explanation_of, names_of_outputs, shaped
from gpuboost.io.container import replaced_file


def shap_batches(
    model: Any, X: Any, *, background: Any = None, interactions: bool = False
) -> Iterator[tuple[slice, Any]]:
    """SHAP values, block by block.

    Parameters
    ----------
    model : fitted estimator
    X : table or Dataset of shape (n_samples, n_features)
    background : table of shape (n_background, n_features), optional
        See `shap_values`; not with ``interactions``.
    interactions : bool
        Whether to compute interaction values.

    Yields
    ------
    rows : slice
        Rows of X; blocks take about 64 MB.
    values : ndarray, or list of ndarray
        The result of `shap_values` or `shap_interaction_values` for these rows.

    Raises
    ------
    ValueError
        ``background`` is given with ``interactions``; or see `shap_values`.
    """
    if interactions and background is not None:
        raise ValueError(
            "background was given with interactions=True, but interaction values are path-"
            "dependent; leave background out"
        )
    explanation = explanation_of(model, X, background)
    return _batches(model, explanation.interactions() if interactions else explanation.values())


def _batches(model: Any, blocks: Iterator[np.ndarray]) -> Iterator[tuple[slice, Any]]:
    start = 0
    for block in blocks:
        yield slice(start, start + len(block)), shaped(model, block)
        start += len(block)


def mean_absolute_shap(model: Any, X: Any, *, background: Any = None) -> Any:
    """Mean absolute SHAP value of each feature over the rows: a global importance.

    Parameters
    ----------
    model, X, background
        As in `shap_batches`.

    Returns
    -------
    ndarray of float64 of shape (n_features,) or (n_features, n_outputs), or a list of these
    """
    explanation = explanation_of(model, X, background)
    total = sum(np.abs(block).sum(axis=0) for block in explanation.values())
    found = shaped(model, (total / explanation.n_rows)[None])
    return [each[0] for each in found] if isinstance(found, list) else found[0]


def top_shap(model: Any, X: Any, k: int, *, background: Any = None) -> tuple[Any, Any]:
    """The ``k`` features of each row with the largest absolute SHAP values.

    Parameters
    ----------
    model, X, background
        As in `shap_batches`.
    k : int
        At least 1; at most n_features are returned.

    Returns
    -------
    features : ndarray of int32 of shape (n_samples, k) or (n_samples, k, n_outputs)
        Indices of features, those with the largest values first; of equal values, the first
        feature. A list of such arrays for classifiers with several outputs.
    values : ndarray of float64 of the same shape, or a list
        Their SHAP values.
    """
    k = integer_at_least("k", k, 1)
    features, values = [], []
    for block in explanation_of(model, X, background).values():
        order = np.argsort(-np.abs(block), axis=1, kind="stable")[:, :k]
        features.append(order.astype(np.int32))
        values.append(np.take_along_axis(block, order, axis=1))
    return shaped(model, np.concatenate(features)), shaped(model, np.concatenate(values))


def write_shap_values(
    model: Any, X: Any, path: str | PathLike[str], *, background: Any = None
) -> None:
    """Write SHAP values to a Parquet file, one row group for each block of rows.

    A column has the name of its feature ("x0" if it has none); with several outputs, "feature:
    class", or "feature: number" in regressions, and "feature: output: class" in classifiers with
    several outputs. The metadata ``shap_expected_value`` of the file's schema has the expected
    values as JSON: a list with the list of the outputs, or with one for each output of classes.

    Parameters
    ----------
    model, X, background
        As in `shap_batches`.
    path : str or path-like
        The file. It is replaced when it is complete.

    Raises
    ------
    ImportError
        pyarrow is not installed.
    OSError
        The file cannot be written.
    """
    pyarrow = require_pyarrow()
    explanation = explanation_of(model, X, background)
    names = _column_names(model, explanation.model.n_outputs)
    expected = {"shap_expected_value": json.dumps(_as_list(shaped(model, explanation.expected())))}
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in names], metadata=expected)
    with replaced_file(path) as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for block in explanation.values():
            columns = _columns(shaped(model, block))
            writer.write_table(pyarrow.table(columns, schema=schema))


def require_pyarrow() -> Any:
    """The module pyarrow, with its part for Parquet files."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "pyarrow is needed to write Parquet files; pip install gpuboost[tables]"
        ) from error
    return pyarrow


def _as_list(expected: Any) -> Any:
    parts = expected if isinstance(expected, list) else [expected]
    return [np.ravel(part).tolist() for part in parts]


def _columns(values: Any) -> list[np.ndarray]:
    """Columns of values of some rows: of each feature, its outputs in turn."""
    parts = values if isinstance(values, list) else [values]
    return [column for part in parts for column in part.reshape(len(part), -1).T]


def _column_names(model: Any, n_outputs: int) -> list[str]:
    """Names of `_columns`."""
    default = [f"x{i}" for i in range(model.n_features_in_)]
    names, parts = getattr(model, "feature_names_in_", default), names_of_outputs(model, n_outputs)
    return [
        f"{name}: {own}" if own else str(name) for part in parts for name in names for own in part
    ]
