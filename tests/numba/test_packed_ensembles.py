"""Packed ensembles: packed once, freed with the model, and not part of it."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from gpuboost import Dataset
from gpuboost.backends.numba.predict import predict as prediction
from tests.estimators.estimator_cases import data_for, make
from tests.numba.numba_cases import noted_calls

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "perfect trees": ("GradientBoostingRegressor", {}),
    "trees of three classes": ("GradientBoostingClassifier", {}),
    "deep trees": ("RandomForestRegressor", {}),
    "hard votes": ("RandomForestClassifier", {"voting": "hard"}),
    "votes of AdaBoost": ("AdaBoostClassifier", {}),
}


def fitted(kind: str) -> tuple[Any, np.ndarray]:
    name, parameters = KINDS[kind]
    X, y = data_for(name)
    return make(name, device="numba", **parameters).fit(X, y), X


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that packed an ensemble, in the order of the calls."""
    return noted_calls(monkeypatch, prediction, "make_perfect", "pack_forest")


@pytest.mark.parametrize("kind", KINDS)
def test_an_ensemble_is_packed_once_for_each_type(kind: str, packings: list[str]) -> None:
    model, X = fitted(kind)
    model.set_params(device="numpy")
    expected = model.predict(X)
    model.set_params(device="numba")
    packings.clear()
    for _ in range(3):
        assert np.array_equal(model.predict(X), expected)
        model.predict(X[:1])
    n_ensembles = 3 if kind == "trees of three classes" else 1
    assert len(packings) == n_ensembles
    for _ in range(2):
        model.predict(X.astype(np.float32))
    assert len(packings) == 2 * n_ensembles


def test_codes_have_a_packed_ensemble_of_their_own(packings: list[str]) -> None:
    X, y = data_for("Regressor")
    data = Dataset(X)
    model = make("GradientBoostingRegressor", device="numba").fit(data, y)
    packings.clear()
    assert np.array_equal(model.predict(data), model.predict(data))
    assert len(packings) == 1


def test_a_new_fit_is_packed_anew() -> None:
    model, X = fitted("perfect trees")
    before = model.predict(X)
    model.fit(X, -np.arange(len(X), dtype=float))
    after = model.predict(X)
    assert not np.array_equal(after, before)
    assert np.array_equal(model.set_params(device="numpy").predict(X), after)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_ensembles_are_freed_with_the_model(kind: str) -> None:
    gc.collect()
    before = set(prediction._forests)
    model, X = fitted(kind)
    model.predict(X)
    predictor = model.compile_predictor()
    assert set(prediction._forests) - before
    del model, predictor
    gc.collect()
    assert set(prediction._forests) <= before


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_no_part_of_the_model(kind: str) -> None:
    """Predictions add nothing to pickles, copies, clones, attributes and parameters."""
    model, X = fitted(kind)
    size, names = len(pickle.dumps(model)), set(vars(model))
    arrays = set(vars(model._model.ensemble))
    for dtype in (np.float32, np.float64):
        model.predict(X.astype(dtype))
    predictor = model.compile_predictor()
    assert len(pickle.dumps(model)) == size
    assert len(pickle.dumps(copy.deepcopy(model))) == size
    assert len(pickle.dumps(predictor)) < size + 200  # the estimator and two names
    assert set(vars(model)) == names
    assert set(vars(model._model.ensemble)) <= arrays | {"trees"}  # views
    assert not set(vars(clone(model))) - set(vars(make(KINDS[kind][0])))
