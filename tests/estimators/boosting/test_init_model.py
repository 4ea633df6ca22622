"""`init_model` of gradient boosting: rounds that are added to those of another fitted model."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuboost

PARAMETERS = {"max_depth": 3, "random_state": 0, "device": "numpy"}


def regressor(**given: Any) -> Any:
    return gpuboost.GradientBoostingRegressor(**{**PARAMETERS, **given})


def classifier(**given: Any) -> Any:
    return gpuboost.GradientBoostingClassifier(**{**PARAMETERS, **given})


def table(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.nan_to_num(X[:, 0]) + rng.normal(size=n) * 0.1


@pytest.mark.parametrize("device", ["numpy", "numba"])
@pytest.mark.parametrize("options", [{}, {"subsample": 0.5}, {"loss": "quantile", "alpha": 0.3}])
def test_further_rounds_are_those_of_a_warm_start(device: str, options: dict[str, Any]) -> None:
    X, y = table()
    first = regressor(n_estimators=4, device=device, **options).fit(X, y)
    warm = pickle.loads(pickle.dumps(first)).set_params(warm_start=True, n_estimators=9).fit(X, y)
    before = first.fingerprint()
    model = regressor(n_estimators=5, device=device, **options).fit(X, y, init_model=first)
    assert model.fingerprint() == warm.fingerprint()
    assert model.n_estimators_ == 9 and model.n_estimators == 5 and not model.warm_start
    np.testing.assert_array_equal(model.train_score_, warm.train_score_)
    np.testing.assert_array_equal(model.predict(X, n_rounds=4), first.predict(X))
    assert first.fingerprint() == before and first.n_estimators_ == 4


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_and_saved_models(n_classes: int, tmp_path: Path) -> None:
    X, y = table()
    labels = np.array(["low", "high", "middle"])[np.digitize(y, [0.0, 0.8][: n_classes - 1])]
    first = classifier(n_estimators=3).fit(X, labels)
    first.save(tmp_path / "first.gpuboost")
    loaded = gpuboost.load(tmp_path / "first.gpuboost", device="numpy")
    models = [classifier(n_estimators=2).fit(X, labels, init_model=m) for m in (first, loaded)]
    assert models[0].fingerprint() == models[1].fingerprint()
    assert models[0].n_estimators_ == 5 and list(models[0].classes_) == sorted(set(labels))
    again = classifier(n_estimators=1).fit(X, labels, init_model=models[0])
    np.testing.assert_array_equal(again.predict_proba(X, n_rounds=5), models[0].predict_proba(X))


def test_a_model_of_hist_gradient_boosting_is_continued() -> None:
    X, y = table()
    first = gpuboost.HistGradientBoostingRegressor(max_iter=3, device="numpy").fit(X, y)
    model = regressor(n_estimators=2).fit(X, y, init_model=first)
    assert model.n_estimators_ == 5
    np.testing.assert_array_equal(model.predict(X, n_rounds=3), first.predict(X))


def test_other_rows_and_early_stopping() -> None:
    X, y = table(300)
    first = regressor(n_estimators=3).fit(X[:100], y[:100])
    model = regressor(n_estimators=50, n_iter_no_change=2, learning_rate=0.5)
    model.fit(X[100:], y[100:], init_model=first, eval_set=(X[:100], y[:100]))
    assert 3 < model.n_estimators_ < 53 and model.best_iteration_ >= 3
    assert len(model.validation_score_) == model.n_estimators_ - 3


def test_categories_are_those_of_the_first_model() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    color = rng.choice(["red", "green", "blue"], 200)
    X = pd.DataFrame({"color": pd.Categorical(color), "x": rng.normal(size=200)})
    y = (color == "red") + 0.1 * rng.normal(size=200)
    first = regressor(n_estimators=2).fit(X, y)
    model = regressor(n_estimators=2, max_bins=9).fit(X[::-1], y[::-1], init_model=first)
    assert model._model.schema.codes == first._model.schema.codes
    np.testing.assert_array_equal(model.predict(X, n_rounds=2), first.predict(X))


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    X, y = table()
    first, other = regressor(n_estimators=2).fit(X, y), classifier(n_estimators=2).fit(X, y > 0.0)
    model = regressor(n_estimators=2).fit(X, y)
    before = model.fingerprint()
    refused: list[tuple[Any, Any, str]] = [
        (regressor(), other, "init_model of a GradientBoostingRegressor must be a fitted"),
        (regressor(init="zero"), first, "both say where boosting starts"),
        (regressor(loss="absolute_error"), first, "loss='squared_error', and rounds"),
        (regressor(n_estimators=0), first, "n_estimators must be"),
        (model.set_params(loss="huber"), first, "choose the same loss"),
        (regressor(), regressor(), "is not fitted"),
        (regressor(), "model.json", "of gpuboost, got 'model.json'"),
    ]
    for estimator, init_model, message in refused:
        with pytest.raises((TypeError, ValueError), match=message):
            estimator.fit(X, y, init_model=init_model)
    huber = regressor(loss="huber", n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match=r"\(alpha=\[0.9\]\), and"):
        regressor(loss="huber", alpha=0.8).fit(X, y, init_model=huber)
    with pytest.raises(ValueError, match="expecting 4 features"):
        regressor().fit(X[:, :3], y, init_model=first)
    with pytest.raises(ValueError, match="same n_outputs_ as before"):
        multi = np.column_stack([y, y])
        regressor(multi_strategy="one_output_per_tree").fit(X, multi, init_model=first)
    with pytest.raises(ValueError, match="same classes_ as before"):
        classifier().fit(X, np.where(y > 0.0, "a", "b"), init_model=other)
    assert model.fingerprint() == before
