"""Additive models for tests of SHAP values, and the comparison of backends."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.explanations.additive import AdditiveModel

REFERENCE = NumpyBackend()


def additive(
    ensemble: Ensemble,
    n_outputs: int | None = None,
    feature_of_column: list[int] | None = None,
) -> AdditiveModel:
    """A model that adds up the trees.

    Parameters
    ----------
    ensemble : Ensemble
    n_outputs : int, optional
        By default, one for each value of a leaf; otherwise, the trees take turns.
    feature_of_column : list of int, optional
        By default, each column is a feature.
    """
    n_columns = int(ensemble.feature.max()) + 1
    features = list(range(n_columns)) if feature_of_column is None else feature_of_column
    first = np.zeros(ensemble.n_trees) if n_outputs is None else np.arange(ensemble.n_trees)
    n_first = 1 if n_outputs is None else n_outputs - ensemble.n_values + 1
    n_outputs = n_outputs or ensemble.n_values
    return AdditiveModel(
        ensemble=ensemble,
        cover=ensemble.weight,
        first_output=(first % n_first).astype(np.int32),
        base=np.zeros(n_outputs),
        divisor=float(ensemble.n_trees),
        feature_of_column=np.array(features, dtype=np.int32),
        n_features=max(features) + 1,
    )


def assert_same_explanations(backend: Any, model: AdditiveModel, X: Any, background: Any) -> None:
    """Assert that all explanations have the bits of the reference."""
    rows, others = (a if isinstance(a, np.ndarray) else a.get() for a in (X, background))
    found = [backend.shap_values(model, X, 1), backend.shap_interactions(model, X, 1)]
    found.append(backend.interventional_shap(model, X, background, 1))
    expected = [REFERENCE.shap_values(model, rows, 1), REFERENCE.shap_interactions(model, rows, 1)]
    expected.append(REFERENCE.interventional_shap(model, rows, others, 1))
    for own, right in zip(found, expected, strict=True):
        assert type(own) is np.ndarray and own.dtype == np.int64
        np.testing.assert_array_equal(own, right)
