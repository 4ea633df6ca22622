"""`HistGradientBoosting*`: scikit-learn's parameters and its rules of early stopping."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import sklearn.ensemble
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import get_scorer, log_loss, mean_absolute_error, mean_squared_error
from sklearn.model_selection import train_test_split

import gpuboost
from gpuboost import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

QUICK = {"device": "numba", "n_jobs": 1, "random_state": 0}
regressor = partial(HistGradientBoostingRegressor, max_iter=8, **QUICK)
classifier = partial(HistGradientBoostingClassifier, max_iter=8, **QUICK)
DIABETES = load_diabetes(return_X_y=True)
CANCER = load_breast_cancer(return_X_y=True)
IRIS = load_iris(return_X_y=True)


def of_kind(is_classifier: bool):
    return (classifier, *CANCER) if is_classifier else (regressor, *DIABETES)


# ---- the model ---------------------------------------------------------------------------------


def test_the_model_is_that_of_gradient_boosting():
    X, y = CANCER
    ours = classifier(max_features=0.5, max_depth=4, l2_regularization=1.0).fit(X, y)
    same = GradientBoostingClassifier(
        n_estimators=8,
        max_leaf_nodes=31,
        max_depth=4,
        min_samples_leaf=20,
        min_hessian_leaf=1e-3,
        max_features=0.5,
        l2_regularization=1.0,
        **QUICK | {"random_state": ours._random_seed},
    ).fit(X, y)
    assert ours.fingerprint() == same.fingerprint()
    np.testing.assert_array_equal(ours.predict_proba(X), same.predict_proba(X))
    np.testing.assert_array_equal(ours.decision_function(X), same.decision_function(X))
    assert ours.score(X, y) == same.score(X, y)
    staged = [*ours.staged_predict_proba(X)], [*ours.staged_decision_function(X)]
    assert len(staged[0]) == len(staged[1]) == len([*ours.staged_predict(X)]) == ours.n_iter_ == 8
    np.testing.assert_array_equal(staged[0][-1], ours.predict_proba(X))


@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "poisson", "gamma", "quantile"]
)
def test_regressors_are_as_good_as_those_of_scikit_learn(loss):
    X, y, X_test, y_test = (part for part in _halves(*DIABETES))
    given = {"loss": loss, "quantile": 0.6 if loss == "quantile" else None, "max_iter": 40}
    ours = regressor(**given).fit(X, y).score(X_test, y_test)
    theirs = sklearn.ensemble.HistGradientBoostingRegressor(**given).fit(X, y)
    assert ours > theirs.score(X_test, y_test) - 0.04


@pytest.mark.parametrize("table", [CANCER, IRIS], ids=["two classes", "three classes"])
def test_classifiers_are_as_good_as_those_of_scikit_learn(table):
    X, y, X_test, y_test = _halves(*table)
    ours = classifier(max_iter=40).fit(X, y)
    theirs = sklearn.ensemble.HistGradientBoostingClassifier(max_iter=40).fit(X, y)
    assert ours.score(X_test, y_test) > theirs.score(X_test, y_test) - 0.02
    assert ours.n_trees_per_iteration_ == theirs.n_trees_per_iteration_


def _halves(X, y):
    order = np.random.default_rng(0).permutation(len(y))
    one, other = order[::2], order[1::2]
    return X[one], y[one], X[other], y[other]


def test_class_weights_are_row_weights():
    X, y = CANCER
    weighted = classifier(class_weight={0: 3.0}).fit(X, y)
    assert weighted.fingerprint() == classifier().fit(X, y, np.where(y, 1.0, 3.0)).fingerprint()
    balanced = classifier(class_weight="balanced").fit(X, y, np.full(len(y), 2.0))
    share = len(y) / (2 * np.bincount(y))
    assert balanced.fingerprint() == classifier().fit(X, y, 2.0 * share[y]).fingerprint()


def test_fitted_attributes():
    pd = pytest.importorskip("pandas")
    X, y = DIABETES
    frame = pd.DataFrame(X).add_prefix("f").assign(kind=pd.Categorical(np.arange(len(y)) % 3))
    model = regressor().fit(frame, y)
    np.testing.assert_array_equal(model.is_categorical_, [False] * 10 + [True])
    assert list(model.feature_names_in_) == list(frame) and model.n_features_in_ == 11
    assert not model.do_early_stopping_ and model.device_ == "numba"
    assert model.train_score_.shape == model.validation_score_.shape == (0,)
    model.fit(X, y)
    assert model.is_categorical_ is None and not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match="HistGradientBoostingRegressor is expecting 10 features"):
        model.predict(X[:, :3])
    assert not hasattr(clone(model), "n_iter_")


# ---- scores and early stopping -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_classifier", "scoring"),
    [
        (False, "loss"),
        (False, None),
        (False, "neg_mean_absolute_error"),
        (True, "loss"),
        (True, None),
        (True, "roc_auc"),
    ],
)
def test_scores_begin_as_those_of_scikit_learn(is_classifier, scoring):
    """The same rows are set aside, and scores before the first round follow from the baseline."""
    make, X, y = of_kind(is_classifier)
    given = {"scoring": scoring, "early_stopping": True, "max_iter": 3, "random_state": 0}
    ours = make(**given).fit(X, y, np.arange(len(y)) % 3 + 1.0)
    theirs = getattr(sklearn.ensemble, type(ours).__name__)(**given)
    theirs.fit(X, y, np.arange(len(y)) % 3 + 1.0)
    for name in ("train_score_", "validation_score_"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape == (4,)
        assert getattr(ours, name)[0] == pytest.approx(getattr(theirs, name)[0], rel=1e-6)
        assert getattr(ours, name)[-1] == pytest.approx(getattr(theirs, name)[-1], rel=0.1)


def score_by_hand(estimator, X, y, sample_weight=None):
    return -mean_squared_error(y, estimator.predict(X), sample_weight=sample_weight)


@pytest.mark.parametrize(
    ("loss", "scoring", "wanted"),
    [
        ("squared_error", "loss", lambda y, found: -0.5 * mean_squared_error(y, found)),
        ("absolute_error", "loss", lambda y, found: -mean_absolute_error(y, found)),
        ("squared_error", "r2", get_scorer("r2")._score_func),
        ("squared_error", score_by_hand, lambda y, found: -mean_squared_error(y, found)),
    ],
)
def test_scores_of_rounds_are_those_of_staged_predictions(loss, scoring, wanted):
    X, y, X_val, y_val = _halves(*DIABETES)
    model = regressor(loss=loss, scoring=scoring).fit(X, y, X_val=X_val, y_val=y_val)
    assert model.do_early_stopping_
    for scores, rows, target in (
        (model.train_score_, X, y),
        (model.validation_score_, X_val, y_val),
    ):
        again = [wanted(target, found) for found in model.staged_predict(rows)]
        np.testing.assert_allclose(scores[1:], again, rtol=1e-9)


def test_the_loss_of_classes_is_the_log_loss():
    for X, y in (CANCER, IRIS):
        model = classifier(early_stopping=True, validation_fraction=None).fit(X, y)
        again = [log_loss(y, found) for found in model.staged_predict_proba(X)]
        np.testing.assert_allclose(-model.train_score_[1:], again, rtol=1e-9)
        assert model.validation_score_.shape == (0,)


@pytest.mark.parametrize("scoring", ["loss", None])
def test_a_fit_stops_by_the_rule_of_scikit_learn(scoring):
    X, y = CANCER
    model = classifier(early_stopping=True, max_iter=300, n_iter_no_change=4, tol=1e-3)
    model.set_params(scoring=scoring, learning_rate=0.3).fit(X, y)
    scores = model.validation_score_
    stops = [n for n in range(len(scores)) if model._should_stop(scores[: n + 1])]
    assert stops == [model.n_iter_] and model.n_iter_ < 300
    again = clone(model).set_params(early_stopping=False, max_iter=model.n_iter_)
    rows, _ = train_test_split(
        np.arange(len(y)), test_size=0.1, random_state=model._random_seed, stratify=y
    )
    assert again.fit(X[rows], y[rows]).fingerprint() == model.fingerprint()


def test_auto_stops_with_many_rows_or_validation_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_001, 2))
    y = rng.normal(size=10_001)
    few = regressor(max_iter=40, n_iter_no_change=3, tol=1.0)
    assert few.fit(X[:-1], y[:-1]).n_iter_ == 40
    assert few.fit(X, y).n_iter_ == 3
    assert few.fit(X[:99], y[:99], X_val=X[99:199], y_val=y[99:199]).n_iter_ == 3
    assert few.set_params(scoring="r2").fit(X, y).n_iter_ == 3
    assert few.train_score_[0] == pytest.approx(0.0, abs=1e-3)


def test_a_warm_start_goes_on_with_rounds_and_scores():
    X, y = DIABETES
    whole = regressor(early_stopping=True, max_iter=10).fit(X, y)
    grown = regressor(early_stopping=True, max_iter=4, warm_start=True).fit(X, y)
    first = grown.fingerprint()
    assert grown.fit(X, y).fingerprint() == first  # there is nothing to add
    grown.set_params(max_iter=10).fit(X, y)
    assert grown.n_iter_ == 10
    np.testing.assert_allclose(grown.validation_score_, whole.validation_score_, rtol=1e-9)
    np.testing.assert_allclose(grown.predict(X), whole.predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match=r"max_iter=3 must be larger .* n_iter_=10"):
        grown.set_params(max_iter=3).fit(X, y)
    assert grown.n_iter_ == 10


def test_devices_stop_at_the_same_round():
    X, y = CANCER
    fits = [
        classifier(scoring=scoring, early_stopping=True, max_iter=30, n_iter_no_change=3)
        .set_params(device=device, learning_rate=0.5)
        .fit(X, y)
        for scoring in ("loss", "roc_auc")
        for device in ("numpy", "numba")
    ]
    for one, other in (fits[:2], fits[2:]):
        assert one.fingerprint() == other.fingerprint() and one.n_iter_ == other.n_iter_ < 30
        np.testing.assert_array_equal(one.validation_score_, other.validation_score_)


# ---- tables and errors -------------------------------------------------------------------------


def test_a_dataset_is_not_split():
    X, y = DIABETES
    data = gpuboost.Dataset(X)
    plain = regressor().fit(data, y)
    assert plain.fingerprint() == regressor().fit(X, y).fingerprint()
    with pytest.raises(TypeError, match=r"cannot be done with a gpuboost\.Dataset; pass X_val"):
        regressor(early_stopping=True).fit(data, y)
    watched = regressor().fit(data, y, X_val=gpuboost.Dataset(X, reference=data), y_val=y)
    assert watched.validation_score_.shape == (9,)


def greedy_score(estimator, X, y):
    return estimator.score(X[:5], y[:5])


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"max_iter": 0}, ValueError, "max_iter must be"),
        ({"loss": "huber"}, ValueError, "loss must be one of 'squared_error'"),
        ({"loss": "quantile"}, ValueError, "needs a level; pass quantile="),
        ({"loss": "quantile", "quantile": 2.0}, ValueError, "quantile must be"),
        ({"max_features": 0.0}, ValueError, "max_features must be"),
        ({"early_stopping": "yes"}, ValueError, "early_stopping must be one of 'auto'"),
        ({"early_stopping": 3}, TypeError, "early_stopping must be True or False"),
        ({"n_iter_no_change": 0}, ValueError, "n_iter_no_change must be"),
        ({"tol": -1.0}, ValueError, "tol must be"),
        ({"scoring": "best", "early_stopping": True}, ValueError, "best"),
        ({"scoring": greedy_score, "early_stopping": True}, ValueError, "that it is called with"),
        ({"validation_fraction": 2.0, "early_stopping": True}, ValueError, "test_size"),
        ({"random_state": -1}, ValueError, "Seed"),
    ],
)
def test_errors_leave_the_model_as_it_was(given, kind, message):
    X, y = DIABETES
    model = regressor().fit(X, y)
    before = model.fingerprint()
    with pytest.raises(kind, match=message):
        model.set_params(**given).fit(X, y)
    assert model.fingerprint() == before and model.n_iter_ == 8


def test_other_parameters_name_the_class():
    X, y = DIABETES
    with pytest.raises(ValueError, match=r"HistGradientBoostingRegressor\.fit requires y"):
        regressor().fit(X)
    for given in ({"X_val": X}, {"y_val": y}):
        with pytest.raises(ValueError, match="is provided, but"):
            regressor().fit(X, y, **given)
    with pytest.raises(ValueError, match="early_stopping is False"):
        regressor(early_stopping=False).fit(X, y, X_val=X, y_val=y)
    same = GradientBoostingRegressor(n_estimators=8, **QUICK).fit(X, y)
    assert regressor().fit(X, y).n_iter_ == same.n_estimators_
