"""gpuboost's estimators in scikit-learn's voting, stacking, selection, calibration, inspection."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import (
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpuboost

FAST = {"device": "numpy", "n_jobs": 1, "random_state": 0}
FAMILIES = ("RandomForest", "ExtraTrees", "GradientBoosting", "AdaBoost")


def members(kind):
    """One estimator of each family, by name."""
    return [
        (family, getattr(gpuboost, family + kind)(n_estimators=10, **FAST)) for family in FAMILIES
    ]


@pytest.fixture(scope="module")
def classes():
    return make_classification(300, 8, n_informative=4, random_state=0)


@pytest.fixture(scope="module")
def values():
    return make_regression(300, 6, noise=5.0, random_state=0)


@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("weights", [None, [1, 2, 3, 1]])
def test_voting_of_classifiers(classes, voting, weights):
    X, y = classes
    model = VotingClassifier(members("Classifier"), voting=voting, weights=weights).fit(X, y)
    assert model.score(X, y) > 0.85
    if voting == "soft":
        alone = [estimator.predict_proba(X) for estimator in model.estimators_]
        np.testing.assert_allclose(
            model.predict_proba(X), np.average(alone, axis=0, weights=weights)
        )


def test_voting_and_stacking_of_regressors(values):
    X, y = values
    voting = VotingRegressor(members("Regressor"), weights=[1, 1, 2, 1]).fit(X, y)
    stacking = StackingRegressor(members("Regressor"), final_estimator=RidgeCV(), cv=3).fit(X, y)
    assert min(voting.score(X, y), stacking.score(X, y)) > 0.7
    assert stacking.final_estimator_.coef_.shape == (4,)


def test_stacking_of_classifiers_with_a_linear_combiner(classes):
    X, y = classes
    model = StackingClassifier(members("Classifier"), LogisticRegression(), cv=3)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.7


@pytest.mark.parametrize("family", FAMILIES)
def test_selection_and_cross_validation(classes, family):
    X, y = classes
    estimator = getattr(gpuboost, f"{family}Classifier")(n_estimators=5, **FAST)
    pipeline = make_pipeline(StandardScaler(), estimator)
    name = f"{type(estimator).__name__.lower()}__max_depth"
    search = GridSearchCV(pipeline, {name: [1, 3]}, cv=3).fit(X, y)
    assert search.best_params_[name] in (1, 3)
    estimator.set_params(max_depth=3)  # no probabilities of 0, whose log loss is arbitrary
    shares = cross_val_predict(estimator, X, y, cv=3, method="predict_proba")
    assert shares.shape == (300, 2) and log_loss(y, shares) < 0.8


@pytest.mark.parametrize("family", FAMILIES)
def test_calibration_and_inspection(classes, family):
    X, y = classes
    estimator = getattr(gpuboost, f"{family}Classifier")(n_estimators=10, **FAST)
    calibrated = CalibratedClassifierCV(estimator, cv=3).fit(X, y)
    assert log_loss(y, calibrated.predict_proba(X)) < 0.6
    model = estimator.fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=2, random_state=0)
    assert found.importances_mean.argmax() in model.feature_importances_.argsort()[-3:]
    curve = partial_dependence(model, X, [0], grid_resolution=5)["average"]
    assert curve.shape == (1, 5)


def test_partial_dependence_is_drawn(values):
    plt = pytest.importorskip("matplotlib.pyplot")
    from sklearn.inspection import PartialDependenceDisplay

    X, y = values
    model = gpuboost.GradientBoostingRegressor(**FAST).fit(X, y)
    figure, _ = plt.subplots()
    shown = PartialDependenceDisplay.from_estimator(model, X, [0, (1, 2)], grid_resolution=5)
    assert shown.axes_.size
    plt.close(figure)
