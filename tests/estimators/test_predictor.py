"""Predictors: the bits of the estimators' methods, errors, threads, and what they keep."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import gpuboost
from gpuboost.estimators.model.predictor import ClassifierPredictor, Predictor
from tests.estimators.estimator_cases import NAMES, data_for, frame_of, make

FLOATS = (np.float32, np.float64)


def assert_same(found: Any, expected: Any) -> None:
    """Both have the same types, shapes and bits; lists are compared element by element."""
    if isinstance(expected, list):
        for own, other in zip(found, expected, strict=True):
            assert_same(own, other)
        return
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    assert np.shape(found) == np.shape(expected)
    assert np.array_equal(found, expected)


def first_of(found: Any) -> Any:
    return [own[0] for own in found] if isinstance(found, list) else found[0]


def check_predictor(model: Any, X: np.ndarray) -> None:
    """A predictor of a model has the model's bits, for one row and for all rows."""
    predictor = model.compile_predictor()
    for way in ("predict", "predict_proba") if hasattr(model, "predict_proba") else ("predict",):
        for dtype in FLOATS:
            rows = X.astype(dtype)
            expected = getattr(model, way)(rows)
            assert_same(getattr(predictor, way)(rows), expected)
            assert_same(getattr(predictor, way)(rows[:3]), getattr(model, way)(rows[:3]))
            assert_same(getattr(predictor, way)(rows[0]), first_of(expected))
    assert_same(predictor(X[1]), predictor.predict(X[1]))


@pytest.mark.parametrize("device", ["numpy", "auto"])
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_the_estimator(name: str, device: str) -> None:
    X, y = data_for(name)
    X = X.copy()
    X[::7, 1] = np.nan
    check_predictor(make(name, device=device).fit(X, y), X[:70])


def outputs(n_classes: int | None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = np.stack([X[:, 0] + X[:, 1], X[:, 2]], axis=1)
    return X, y if n_classes is None else np.digitize(y, np.linspace(-1, 1, n_classes - 1))


class Squared:
    """A user's loss with all optional methods."""

    def gradient(self, y, raw):
        return raw - y

    def hessian(self, y, raw):
        return np.ones_like(raw)

    def loss(self, y, raw):
        return (raw - y) ** 2

    def predict(self, raw):
        return 2.0 * raw.reshape(len(raw), -1)


CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "several outputs": ("RandomForestRegressor", {}, outputs(None)),
    "several outputs of classes": ("ExtraTreesClassifier", {}, outputs(3)),
    "boosting of several outputs": ("GradientBoostingRegressor", {}, outputs(None)),
    "hard voting": ("RandomForestClassifier", {"voting": "hard"}, data_for("Classifier")),
    "levels": (
        "GradientBoostingRegressor",
        {"loss": "quantile", "alpha": [0.1, 0.9]},
        data_for("Regressor"),
    ),
    "poisson": ("GradientBoostingRegressor", {"loss": "poisson"}, data_for("Regressor")),
    "user's loss": ("GradientBoostingRegressor", {"loss": Squared()}, data_for("Regressor")),
    "init": ("GradientBoostingRegressor", {"init": LinearRegression()}, data_for("Regressor")),
    "deep trees": (
        "GradientBoostingClassifier",
        {"max_depth": None, "min_samples_leaf": 1, "n_estimators": 2},
        data_for("Classifier"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_kinds_of_models(case: str) -> None:
    name, parameters, (X, y) = CASES[case]
    check_predictor(make(name, **parameters).fit(X, y), X[:70])


def test_two_classes_with_names() -> None:
    X, y = data_for("Classifier")
    for loss in ("log_loss", "exponential"):
        model = make("GradientBoostingClassifier", loss=loss).fit(X, np.where(y > 0, "yes", "no"))
        check_predictor(model, X[40:60])
        predictor = model.compile_predictor()
        assert isinstance(predictor, ClassifierPredictor)
        assert predictor.classes_.tolist() == ["no", "yes"]
        assert predictor(X[0]) == "no"


def test_regressors_have_no_probabilities() -> None:
    predictor = make("RandomForestRegressor").fit(*data_for("Regressor")).compile_predictor()
    assert type(predictor) is Predictor and not hasattr(predictor, "predict_proba")


def test_categories_are_numbers() -> None:
    rng = np.random.default_rng(1)
    X = np.stack([rng.choice([3.0, 10.5, 7.0, np.nan], 200), rng.normal(size=200)], axis=1)
    y = (X[:, 0] == 7.0) + X[:, 1]
    model = make("GradientBoostingRegressor", categorical_features=[0]).fit(X, y)
    X[0, 0] = 99.0  # unknown
    check_predictor(model, X)
    frame, y = frame_of("pandas")
    model = make("RandomForestRegressor").fit(frame, y)
    with pytest.raises(ValueError, match=r"feature 0 \('color'\) .* not numbers \(such as 'blue'"):
        model.compile_predictor()


def test_names_of_features_are_not_asked_for(recwarn: pytest.WarningsRecorder) -> None:
    frame, y = frame_of("pandas")
    model = make("RandomForestRegressor").fit(frame[["size"]], y)
    predictor = model.compile_predictor()
    assert_same(predictor(np.array([0.5])), model.predict(frame[["size"]].assign(size=0.5))[0])
    assert not recwarn.list


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([0.0] * 4, TypeError, "takes a NumPy array of float32 or float64, got list"),
        (np.zeros(4, int), TypeError, "got an array of int64"),
        (np.zeros(4, ">f4"), TypeError, "got an array of >f4"),
        (np.ma.masked_array(np.zeros(4)), TypeError, "got MaskedArray"),
        (
            np.zeros(3),
            ValueError,
            r"one row of shape \(4,\) or rows of shape \(n_samples, 4\), got",
        ),
        (np.zeros((2, 5)), ValueError, r"got an array of shape \(2, 5\)"),
        (np.zeros((1, 2, 4)), ValueError, r"got an array of shape \(1, 2, 4\)"),
        (np.float64(1.0), TypeError, "got float64"),
        (np.zeros((0, 4)), ValueError, "0 sample"),
        (np.array([0.0, np.inf, 0.0, 0.0]), ValueError, "feature 1 is inf in row 0"),
    ],
)
def test_errors(X: Any, error: type[Exception], message: str) -> None:
    predictor = make("RandomForestClassifier").fit(*data_for("Classifier")).compile_predictor()
    for way in (predictor, predictor.predict_proba):
        with pytest.raises(error, match=message):
            way(X)


@pytest.mark.parametrize("name", NAMES)
def test_it_needs_a_fitted_model(name: str) -> None:
    with pytest.raises(NotFittedError):
        make(name).compile_predictor()


@pytest.mark.parametrize("name", ["GradientBoostingClassifier", "HistGradientBoostingClassifier"])
def test_later_changes_of_the_estimator_do_not_change_it(name: str) -> None:
    X, y = data_for("Classifier")
    model = make(name).fit(X, y)
    predictor, expected = model.compile_predictor(), model.predict_proba(X)
    model.set_params(warm_start=True, device="cuda")
    model.set_params(**{("max_iter" if "Hist" in name else "n_estimators"): 7}, device="numpy")
    model.fit(X, y)
    assert not np.array_equal(model.predict_proba(X), expected)
    model.set_params(warm_start=False).fit(X[:, :2], y == 0)
    assert_same(predictor.predict_proba(X), expected)
    assert_same(predictor.classes_, np.unique(y))


def test_copies_and_pickles_predict_the_same() -> None:
    X, y = data_for("Classifier")
    predictor = make("AdaBoostClassifier").fit(X, y).compile_predictor()
    expected = predictor.predict_proba(X)
    for other in (pickle.loads(pickle.dumps(predictor)), copy.deepcopy(predictor)):
        assert_same(other.predict_proba(X), expected)


def test_other_columns_of_memory() -> None:
    """Rows that are not contiguous are read as they are."""
    X, y = data_for("Regressor")
    model = make("GradientBoostingRegressor").fit(X, y)
    predictor, expected = model.compile_predictor(), model.predict(X)
    assert_same(predictor(np.asfortranarray(X)), expected)
    wide = np.repeat(X, 2, axis=1)
    assert_same(predictor(wide[:, ::2]), expected)
    assert_same(predictor(wide[5, ::2]), expected[5])


def test_a_gpu_model_is_predicted_on_the_cpu() -> None:
    X, y = data_for("Regressor")
    model = make("RandomForestRegressor").fit(X, y)
    expected = model.predict(X)
    assert_same(model.set_params(device="cuda").compile_predictor()(X), expected)


# ---- threads and processes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["GradientBoostingClassifier", "RandomForestClassifier", "AdaBoostRegressor"]
)
def test_sixteen_threads_get_equal_bits(name: str) -> None:
    """Threads that begin at the same moment pack the trees and predict, by both ways."""
    X, y = data_for(name)
    model = pickle.loads(pickle.dumps(make(name, device="numba").fit(X, y)))
    expected, predictor = model.predict(X), make(name).fit(X, y).compile_predictor()
    fresh = pickle.loads(pickle.dumps(model))  # without packed trees
    start, wrong = threading.Barrier(16), list[Any]()

    def work(number: int) -> None:
        start.wait()
        for i in range(number, 300, 7):
            row = i % len(X)
            if predictor(X[row]) != expected[row]:
                wrong.append(("predictor", row))
            if fresh.predict(X[row : row + 1])[0] != expected[row]:
                wrong.append(("estimator", row))
            if not np.array_equal(fresh.predict(X), expected):
                wrong.append(("all rows", row))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _row_of(predictor: Predictor, row: np.ndarray, queue: Any) -> None:
    queue.put(predictor(row))


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system cannot fork"
)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_processes_predict() -> None:
    X, y = data_for("Regressor")
    predictor = gpuboost.GradientBoostingRegressor().fit(X, y).compile_predictor()
    expected, context = predictor(X[0]), multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_row_of, args=(predictor, X[0], queue)) for _ in range(3)]
    for child in children:
        child.start()
    assert [queue.get(timeout=60) for _ in children] == 3 * [expected]
    for child in children:
        child.join(60)
        assert child.exitcode == 0
