"""Reading of X into checked columns, and their binning."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuboost.backends.protocol import Backend
from gpuboost.data.arrays import to_module_of
from gpuboost.data.frames import FeatureSchema, apply_schema, fit_schema
from gpuboost.data.sparse_features import Features
from gpuboost.data.validation import check_features, check_same_length, check_weights
from gpuboost.engine.array_modules import is_cupy_array, working_on
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule
from gpuboost.estimators.inputs.dataset import Dataset
from gpuboost.estimators.inputs.parameters import bin_limit
from gpuboost.estimators.inputs.targets import AnyLabels
from gpuboost.estimators.model.fitted import FittedTrees


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Training features: columns still to be binned, or the codes of a `Dataset`."""

    schema: FeatureSchema
    data: Features | BinnedMatrix
    n_samples: int
    value_bytes: int  # bytes per value of X, 1 for codes
    max_bins: int
    mapper: BinMapper | None = None  # bins of the model that a warm start adds trees to

    def bin(self, weights: np.ndarray | None, backend: Backend, n_threads: int) -> BinnedMatrix:
        """Codes of the features: those of a `Dataset`, by the given mapper, or by new bins.

        New bins are as in `data.binning.learn_bins`, weighted by ``weights`` unless these are
        None.
        """
        if isinstance(self.data, BinnedMatrix):
            return replace(self.data)  # what the fit caches must not stay in the Dataset
        if self.mapper is not None:
            return backend.bin(self.data, self.mapper, n_threads)
        rule = BinRule(self.schema.is_categorical, self.max_bins, weights)
        return backend.fit_bins(self.data, rule, n_threads)


def read_training(X: Any, estimator: Any, before: FittedTrees | None) -> TrainingTable:
    """Read the features of a fit.

    Parameters
    ----------
    estimator : object with ``max_bins`` and ``categorical_features``
    before : FittedTrees or None
        The model that a warm start adds trees to, whose columns and bins are kept.
    """
    max_bins = bin_limit(estimator.max_bins)
    if isinstance(X, Dataset):
        _check_dataset(X, estimator, before, max_bins)
        return TrainingTable(X.schema, X.binned, X.n_samples, 1, max_bins)
    with where_they_are(X):
        if before is None:
            columns, schema = fit_schema(X, estimator.categorical_features)
        else:
            schema = before.schema
            columns = apply_schema(X, schema, estimator._shown_name)
        check_features(columns, schema.names)
    mapper = None if before is None else before.mapper
    return TrainingTable(schema, columns, len(columns), columns.itemsize, max_bins, mapper)


def read_prediction(
    X: Any, schema: FeatureSchema, mapper: BinMapper, owner: str
) -> Features | BinnedMatrix:
    """Read features to predict on: columns, or the codes of a `Dataset` with the model's bins.

    For training rows of positive weight, columns and codes give the same leaves. For other rows, a
    value between two bins can be on the other side of a threshold in a `Dataset`, which has only
    bin codes.
    """
    if not isinstance(X, Dataset):
        with where_they_are(X):
            return check_features(apply_schema(X, schema, owner), schema.names)
    check_known_columns(X, (schema, mapper), owner, "those that it was fitted on")
    return replace(X.binned)  # what the prediction caches must not stay in the Dataset


def where_they_are(*given: Any) -> AbstractContextManager[Any]:
    """Context manager that makes the device of the first CuPy array, if any, the current device."""
    for values in given:
        if is_cupy_array(values):
            return working_on(values)
    return nullcontext()


def read_targets(
    read: Callable[[Any], AnyLabels], y: Any, sample_weight: Any, n_samples: int
) -> tuple[AnyLabels, np.ndarray | None]:
    """Read the labels and weights of the rows of a fit or of an evaluation set.

    If one of them is on a GPU (see `adopt_targets`), the other is copied there.

    Parameters
    ----------
    read : callable
        Reads and checks the labels, such as `ValueLabels.read`.
    """
    labels = read(y)
    check_same_length(range(n_samples), labels)
    weights = check_weights(sample_weight, n_samples)
    if weights is None:
        return labels, None
    return labels.to_module_of(weights), to_module_of(weights, labels.rows)


def check_known_columns(
    data: Dataset, model: tuple[FeatureSchema, BinMapper], owner: str, known: str
) -> None:
    """Check that a `Dataset` has the names, bins and categories of the model's columns."""
    schema, mapper = model
    schema.check_columns(data.schema.names, data.n_features, owner)
    same_codes = same_bins(data.mapper, mapper)
    if not (same_codes and data.schema.codes == schema.codes):
        what = "categories" if same_codes else "bins"
        raise ValueError(
            f"this Dataset has other {what} than {known} ({owner}); make it with Dataset(X, "
            "reference=train), train being the Dataset of the first fit, or pass X itself"
        )


def same_bins(one: BinMapper, other: BinMapper) -> bool:
    """Whether two mappers give every value the same code."""
    return one is other or (
        np.array_equal(one.n_bins, other.n_bins)
        and np.array_equal(one.is_categorical, other.is_categorical)
        and np.array_equal(one.all_edges, other.all_edges)
    )


def _check_dataset(
    data: Dataset, estimator: Any, before: FittedTrees | None, max_bins: int
) -> None:
    """Check that no parameter contradicts the bins of a Dataset.

    In a warm start, the Dataset must have the columns and bins of the earlier model, too.
    """
    choice = estimator.categorical_features
    if not (isinstance(choice, str) and choice == "from_dtype"):
        raise ValueError(
            f"categorical_features={choice!r:.80} was given together with a Dataset, which has its "
            "own categorical features; use Dataset(X, categorical_features=...)"
        )
    n_bins = data.mapper.n_bins[~data.mapper.is_categorical].max(initial=0)
    if n_bins > max_bins:
        raise ValueError(
            f"max_bins={max_bins} was given together with a Dataset of up to {n_bins} bins; "
            "use Dataset(X, max_bins=...)"
        )
    if before is not None:
        name = estimator._shown_name
        model = before.schema, before.mapper
        check_known_columns(data, model, name, "the model that warm_start adds trees to")
