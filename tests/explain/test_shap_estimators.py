"""`shap_values` of all estimators: the output that they explain, shapes, inputs and errors."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

import gpuboost

RNG = np.random.default_rng(5)
X = RNG.standard_normal((160, 6))
X[RNG.random(X.shape) < 0.1] = np.nan
Y = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + 0.1 * RNG.standard_normal(160)
CLASSES = np.digitize(Y, [-0.5, 0.5])
TWO = Y > 0
FEW = {"n_estimators": 3, "random_state": 0}

CASES = {
    "tree": (gpuboost.DecisionTreeRegressor(), Y, "predict", ()),
    "tree of classes": (
        gpuboost.DecisionTreeClassifier(max_depth=4),
        CLASSES,
        "predict_proba",
        (3,),
    ),
    "extra tree": (gpuboost.ExtraTreeClassifier(random_state=0), TWO, "predict_proba", (2,)),
    "forest": (gpuboost.RandomForestRegressor(**FEW), Y, "predict", ()),
    "forest of outputs": (
        *(gpuboost.RandomForestRegressor(**FEW), np.stack([Y, CLASSES], axis=1), "predict", (2,)),
    ),
    "hard votes": (
        *(gpuboost.ExtraTreesClassifier(**FEW, voting="hard"), CLASSES, "predict_proba", (3,)),
    ),
    "bagging of features": (
        *(gpuboost.BaggingClassifier(**FEW, max_features=0.5), TWO, "predict_proba", (2,)),
    ),
    "boosting": (
        gpuboost.GradientBoostingRegressor(**FEW, loss="poisson"),
        CLASSES,
        "predict_raw",
        (),
    ),
    "boosting of two classes": (
        *(gpuboost.GradientBoostingClassifier(**FEW), TWO, "decision_function", ()),
    ),
    "boosting of classes": (
        *(gpuboost.GradientBoostingClassifier(**FEW), CLASSES, "decision_function", (3,)),
    ),
    "trees of all classes": (
        gpuboost.GradientBoostingClassifier(**FEW, multi_strategy="multi_output_tree"),
        *(CLASSES, "decision_function", (3,)),
    ),
    "histogram boosting": (
        gpuboost.HistGradientBoostingClassifier(max_iter=3),
        *(CLASSES, "decision_function", (3,)),
    ),
    "AdaBoost": (gpuboost.AdaBoostClassifier(**FEW), TWO, "decision_function", ()),
    "AdaBoost of classes": (
        *(gpuboost.AdaBoostClassifier(**FEW, max_depth=2), CLASSES, "decision_function", (3,)),
    ),
}


@pytest.mark.parametrize("background", [None, X[100:105]], ids=["paths", "background"])
@pytest.mark.parametrize("name", CASES)
def test_values_add_up_to_the_output(name: str, background) -> None:
    estimator, y, method, outputs = CASES[name]
    model = estimator.fit(X, y)
    found = model.shap_values(X[:40], background=background)
    expected = model.shap_expected_value(background=background)
    assert found.shape == (40, 6, *outputs) and np.shape(expected) == outputs
    wanted = model.predict(X[:40]) if method == "predict_raw" else getattr(model, method)(X[:40])
    wanted = np.log(wanted) if method == "predict_raw" else wanted
    assert np.abs(found.sum(axis=1) + expected - wanted).max() <= 1e-9 * np.abs(wanted).max()


def test_several_outputs_of_classes_are_lists() -> None:
    model = gpuboost.RandomForestClassifier(**FEW).fit(X, np.stack([CLASSES, TWO], axis=1))
    found, expected = model.shap_values(X), model.shap_expected_value()
    for own, mean, wanted in zip(found, expected, model.predict_proba(X), strict=True):
        assert own.shape == (160, 6, wanted.shape[1])
        assert np.abs(own.sum(axis=1) + mean - wanted).max() < 1e-12
    assert [own.shape for own in model.shap_interaction_values(X[:5])] == [
        (5, 6, 6, 3),
        (5, 6, 6, 2),
    ]


def test_all_devices_and_kinds_of_data_give_equal_bits() -> None:
    model = gpuboost.GradientBoostingRegressor(**FEW).fit(gpuboost.Dataset(X), Y)
    wanted = model.set_params(device="numpy").shap_values(X)
    model.set_params(device="numba", n_jobs=2)
    binned = gpuboost.Dataset(X)
    for rows in (X, np.asfortranarray(X), X.tolist(), binned):
        assert np.array_equal(model.shap_values(rows), wanted)
    assert np.array_equal(
        model.shap_values(binned, background=binned), model.shap_values(X, background=X)
    )
    assert np.array_equal(
        model.shap_values(binned, background=X[:9]), model.shap_values(X, background=X[:9])
    )
    assert np.array_equal(pickle.loads(pickle.dumps(model)).shap_values(X), wanted)
    narrow = X.astype(np.float32)
    assert np.array_equal(model.shap_values(narrow), model.shap_values(narrow.astype(float)))


def test_sparse_rows() -> None:
    rows = np.where(X > 0.5, X, 0.0)
    model = gpuboost.RandomForestRegressor(**FEW).fit(csr_matrix(rows), Y)
    found = model.shap_values(csr_matrix(rows), background=csr_matrix(rows[:4]))
    assert np.array_equal(found, model.shap_values(rows, background=rows[:4]))


def test_frames_with_categories() -> None:
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["town"] = pd.Categorical(np.array(["Rome", "Oslo", "Bonn"])[CLASSES])
    model = gpuboost.GradientBoostingRegressor(**FEW).fit(frame, CLASSES + 0.1 * Y)
    found = model.shap_values(frame, background=frame[:7])
    total = found.sum(axis=1) + model.shap_expected_value(background=frame[:7])
    assert np.abs(total - model.predict(frame)).max() < 1e-12
    assert np.abs(found).mean(axis=0).argmax() == 6  # the town


def test_errors() -> None:
    with pytest.raises(NotFittedError):
        gpuboost.RandomForestRegressor().shap_values(X)
    with pytest.raises(ValueError, match="weighted median of its trees"):
        gpuboost.AdaBoostRegressor(**FEW).fit(X, Y).shap_values(X)
    init = gpuboost.DecisionTreeRegressor(max_depth=1)
    with pytest.raises(ValueError, match="start from those of init=DecisionTreeRegressor"):
        gpuboost.GradientBoostingRegressor(**FEW, init=init).fit(X, Y).shap_values(X)
    model = gpuboost.RandomForestRegressor(**FEW).fit(X, Y)
    with pytest.raises(ValueError, match="background is a Dataset"):
        model.shap_values(X, background=gpuboost.Dataset(X))
    with pytest.raises(ValueError, match="6 features"):
        model.shap_values(X, background=X[:, :3])
    with pytest.raises(ValueError, match="background: "):
        model.shap_values(X, background=X[:0])
    with pytest.raises((TypeError, ValueError), match="background: "):
        model.shap_values(X, background=100)
    fallback = gpuboost.BaggingClassifier(SVC(), n_estimators=2).fit(np.nan_to_num(X), TWO)
    with pytest.raises(TypeError, match="shap_values"):
        fallback.shap_values(X)


def test_contributions_fit_their_integers() -> None:
    """Large and tiny leaf values, and many background rows, neither overflow nor vanish."""
    for size in (1e-200, 1.0, 1e200):
        model = gpuboost.RandomForestRegressor(**FEW).fit(X, Y * size)
        for background in (None, np.tile(X, (7, 1))):
            found = model.shap_values(X[:20], background=background)
            total = found.sum(axis=1) + model.shap_expected_value(background=background)
            assert np.abs(total - model.predict(X[:20])).max() <= 1e-12 * size
