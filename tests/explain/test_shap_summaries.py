"""SHAP values in batches: means, top features and Parquet files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

import gpuboost
from gpuboost.estimators.model import explained
from gpuboost.explain import mean_absolute_shap, shap_batches, top_shap, write_shap_values

RNG = np.random.default_rng(1)
X = pd.DataFrame(RNG.standard_normal((90, 4)), columns=list("abcd"))
Y = (X.a * X.b + X.c).to_numpy()
CLASSES = np.array(["low", "mid", "high"])[np.digitize(Y, [-0.5, 0.5])]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(explained, "BLOCK_BYTES", 8 * 4 * 40)  # 40 rows of a regression


@pytest.fixture(scope="module")
def regressor():
    return gpuboost.GradientBoostingRegressor(n_estimators=5).fit(X, Y)


@pytest.fixture(scope="module")
def classifier():
    return gpuboost.RandomForestClassifier(n_estimators=3, random_state=0).fit(X, CLASSES)


def test_batches_are_the_values(regressor, classifier):
    for model, interactions in ((regressor, False), (classifier, False), (regressor, True)):
        method = model.shap_interaction_values if interactions else model.shap_values
        batches = list(shap_batches(model, X, interactions=interactions))
        assert len(batches) > 1 and batches[-1][0].stop == 90
        assert np.array_equal(np.concatenate([own for _, own in batches]), method(X))
    with pytest.raises(ValueError, match="path-dependent"):
        next(shap_batches(regressor, X, background=X, interactions=True))


def test_means(regressor, classifier):
    for model in (regressor, classifier):
        for background in (None, X[:3]):
            wanted = np.abs(model.shap_values(X, background=background)).mean(axis=0)
            found = mean_absolute_shap(model, X, background=background)
            np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_top_features(regressor, classifier):
    for model in (regressor, classifier):
        features, values = top_shap(model, X, 2)
        every = model.shap_values(X)
        wanted = -np.sort(-np.abs(every), axis=1)[:, :2]
        assert np.array_equal(np.abs(values), wanted)
        assert np.array_equal(np.take_along_axis(every, features.astype(int), axis=1), values)
    constant = gpuboost.DecisionTreeRegressor().fit(X, np.ones(90))
    assert (top_shap(constant, X, 9)[0] == np.arange(4)).all()  # ties go to the first feature
    with pytest.raises(ValueError, match="k must be"):
        top_shap(regressor, X, 0)


def test_parquet_files(regressor, classifier, tmp_path):
    place = tmp_path / "values.parquet"
    write_shap_values(regressor, X, place)
    table = parquet.read_table(place)
    assert table.column_names == list("abcd")
    assert np.array_equal(table.to_pandas().to_numpy(), regressor.shap_values(X))
    assert parquet.ParquetFile(place).num_row_groups == 3
    expected = json.loads(table.schema.metadata[b"shap_expected_value"])
    assert expected == [[regressor.shap_expected_value()]]

    write_shap_values(classifier, X, place, background=X[:5])
    table = parquet.read_table(place)
    assert table.column_names[:3] == ["a: high", "a: low", "a: mid"]
    wanted = classifier.shap_values(X, background=X[:5]).reshape(90, -1)
    assert np.array_equal(table.to_pandas().to_numpy(), wanted)

    several = gpuboost.RandomForestClassifier(n_estimators=2).fit(
        X.to_numpy(),
        np.stack([CLASSES == "low", np.median(Y) + RNG.integers(0, 3, 90) < Y], axis=1),
    )
    write_shap_values(several, X.to_numpy(), place)
    assert parquet.read_table(place).column_names[:2] == ["x0: 0: False", "x0: 0: True"]
    assert list(tmp_path.iterdir()) == [place]


def test_a_failed_write_leaves_the_old_file(regressor, tmp_path, monkeypatch):
    place = tmp_path / "values.parquet"
    place.write_bytes(b"before")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_shap_values(regressor, X, place)
    assert list(tmp_path.iterdir()) == [place] and place.read_bytes() == b"before"
