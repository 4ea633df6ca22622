"""SHAP values of many rows, of which only a block exists at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np

from gpuboost.blocks.row_batches import is_source
from gpuboost.data.parameters import integer_at_least
from gpuboost.estimators.fitting.explanations import explanation_of, names_of_outputs, shaped
from gpuboost.estimators.model.explained import Explanation
from gpuboost.estimators.model.row_predictions import feature_batches, numbered
from gpuboost.io.parquet import write_parquet


def shap_batches(
    model: Any, X: Any, *, background: Any = None, interactions: bool = False
) -> Iterator[tuple[slice, Any]]:
    """SHAP values, block by block.

    Parameters
    ----------
    model : fitted estimator
    X : table or Dataset of shape (n_samples, n_features), or a source of tables
        A source is read in batches, see `gpuboost.predict_batches`. Its values are those of the
        whole table.
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
        ``background`` is given with ``interactions``; or see `shap_values` and
        `gpuboost.predict_batches`.
    """
    if interactions and background is not None:
        raise ValueError(
            "background was given with interactions=True, but interaction values are path-"
            "dependent; leave background out"
        )
    explanations = _explanations(model, X, background)
    return numbered(shaped(model, block) for block in _blocks(explanations, interactions))


def _explanations(model: Any, X: Any, background: Any) -> Iterator[Explanation]:
    """The explanation of X, or of each batch of a source."""
    if is_source(X):
        # A generator would keep a batch until the next one is read.
        explain = partial(explanation_of, model, background=background)
        return map(explain, feature_batches(model, X))
    return iter([explanation_of(model, X, background)])


def _blocks(
    explanations: Iterable[Explanation], interactions: bool = False
) -> Iterator[np.ndarray]:
    """All blocks of values, one after another."""
    for explanation in explanations:
        yield from explanation.interactions() if interactions else explanation.values()
        del explanation


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
    total: Any = 0.0
    n_rows = 0
    for block in _blocks(_explanations(model, X, background)):
        # Row by row, so that the sum does not depend on the blocks.
        sums = np.abs(block)
        sums[0] += total
        np.add.accumulate(sums, axis=0, out=sums)
        total, n_rows = sums[-1].copy(), n_rows + len(block)
        del block, sums
    found = shaped(model, (total / n_rows)[None])
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
    for block in _blocks(_explanations(model, X, background)):
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
    explanations = _explanations(model, X, background)
    first = next(explanations)
    names = _column_names(model, first.model.n_outputs)
    metadata = {"shap_expected_value": json.dumps(_as_list(shaped(model, first.expected())))}

    def table_of(block: np.ndarray) -> Any:
        import pyarrow as pa

        return pa.table(_columns(shaped(model, block)), names=names, metadata=metadata)

    write_parquet(path, map(table_of, _blocks(chain([first], explanations))))


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
