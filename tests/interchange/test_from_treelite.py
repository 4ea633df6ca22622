"""Imported models of treelite have the raw predictions of its reference predictor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuboost
from tests.interchange import test_from_lightgbm, test_from_sklearn, test_from_xgboost
from tests.interchange.cases import assert_bits

treelite = pytest.importorskip("treelite")
SOURCES = ("xgboost", "lightgbm", "sklearn")


def random_model(seed: int) -> tuple[Any, np.ndarray]:
    """A model of treelite from one of three libraries, and hard rows for it."""
    source = SOURCES[seed % 3]
    if source == "xgboost":
        booster, X, _ = test_from_xgboost.random_model(seed)
        return treelite.frontend.from_xgboost(booster), X.astype(np.float32)
    if source == "lightgbm":
        booster, X = test_from_lightgbm.random_model(seed)
        return treelite.frontend.from_lightgbm(booster), X
    estimator, X = test_from_sklearn.random_model(seed)
    return treelite.sklearn.import_model(estimator), X


@pytest.mark.parametrize("seed", range(54))
def test_raw_predictions_are_those_of_gtil(seed: int) -> None:
    try:
        model, X = random_model(seed)
    except (treelite.TreeliteError, NotImplementedError) as error:
        pytest.xfail(f"treelite does not read it: {error}")
    X = X.astype(np.float32 if model.input_type == "float32" else np.float64)
    imported = gpuboost.from_treelite(model)
    wanted = treelite.gtil.predict(model, X, nthread=1, pred_margin=True)
    for device in ("numpy", "numba"):
        imported.set_params(device=device)
        assert_bits(imported.predict_raw(X), wanted)
    predicted = treelite.gtil.predict(model, X, nthread=1)
    found = imported.predict_proba(X) if hasattr(imported, "classes_") else imported.predict(X)
    found = found[:, 1] if predicted[0].size == 1 and found.ndim == 2 else found
    np.testing.assert_allclose(found.reshape(predicted.shape), predicted, rtol=2e-6, atol=1e-6)
