"""Ensembles of base learners that are not trees, which scikit-learn fits."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
import sklearn.ensemble
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVR, LinearSVC
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import gpuboost
from gpuboost import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    Dataset,
    DecisionTreeClassifier,
)
from gpuboost.estimators.trees.sklearn_fallback import OnlyForTrees

X, Y = load_iris(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
CASES = [
    (BaggingClassifier, {"estimator": GaussianNB(), "max_samples": 0.5}, (X, Y)),
    (BaggingRegressor, {"estimator": LinearRegression(), "max_features": 0.5}, DIABETES),
    (AdaBoostClassifier, {"estimator": GaussianNB(), "learning_rate": 0.5}, (X, Y)),
    (AdaBoostRegressor, {"estimator": LinearRegression(), "loss": "square"}, DIABETES),
]


@pytest.mark.parametrize(("ours", "params", "data"), CASES)
def test_a_fit_of_other_learners_is_that_of_scikit_learn(ours, params, data):
    model = ours(**params, n_estimators=4, random_state=3).fit(*data)
    theirs = getattr(sklearn.ensemble, ours.__name__)(**params, n_estimators=4, random_state=3)
    theirs.fit(*data)
    assert model.device_ == "scikit-learn"
    check_is_fitted(model)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        assert hasattr(model, name) == hasattr(theirs, name), name
        if hasattr(theirs, name):
            np.testing.assert_array_equal(
                getattr(model, name)(data[0]), getattr(theirs, name)(data[0])
            )
    assert model.score(*data) == theirs.score(*data)
    for name, value in vars(theirs).items():
        if name.endswith("_") and name not in ("estimator_", "estimators_"):
            np.testing.assert_equal(getattr(model, name), value)
    assert [type(one) for one in model.estimators_] == [type(one) for one in theirs.estimators_]
    assert len(model) == 4
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(data[0]), theirs.predict(data[0]))
    assert repr(clone(model)) == repr(ours(**params, n_estimators=4, random_state=3))


def test_what_only_trees_can_do_raises_one_error():
    model = BaggingClassifier(KNeighborsClassifier(), n_estimators=2).fit(X, Y)
    for call in (model.fingerprint, lambda: model.apply(X), lambda: model.decision_path(X)):
        with pytest.raises(TypeError, match="its base learner is KNeighborsClassifier"):
            call()
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(OnlyForTrees, match="use DecisionTreeClassifier as the base learner"):
        model.feature_importances_  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'coef_'"):
        model.coef_  # noqa: B018


@pytest.mark.parametrize("ours", [BaggingClassifier, BaggingRegressor])
def test_several_outputs_are_promised_only_for_trees(ours):
    other = KNeighborsClassifier() if ours is BaggingClassifier else SVR()
    for base in (None, other):
        assert get_tags(ours(base)).target_tags.multi_output == (base is None)
    targets = np.column_stack([Y, Y])
    assert ours(n_estimators=2).fit(X, targets).predict(X).shape == targets.shape
    with pytest.raises(ValueError, match="y should be a 1d array"):
        ours(other, n_estimators=2).fit(X, targets)


def test_each_fit_replaces_the_model_of_the_other_kind():
    model = BaggingClassifier(n_estimators=2, random_state=0).fit(X, Y)
    trees = model.fingerprint()
    model.set_params(estimator=KNeighborsClassifier()).fit(X, Y)
    assert model.device_ == "scikit-learn" and len(model.estimators_features_) == 2
    model.set_params(estimator=None).fit(X, Y)
    assert model.fingerprint() == trees and model.device_ != "scikit-learn"


def test_an_error_in_scikit_learn_leaves_the_model_as_it_was():
    model = AdaBoostClassifier(n_estimators=2, random_state=0).fit(X, Y)
    trees = model.fingerprint()
    model.set_params(estimator=KNeighborsClassifier())  # which takes no weights
    with pytest.raises(ValueError, match="doesn't support sample_weight"):
        model.fit(X, Y)
    assert model.fingerprint() == trees


def test_trees_of_scikit_learn_become_trees_of_gpuboost():
    theirs = sklearn.tree.ExtraTreeClassifier(max_depth=2)
    model = BaggingClassifier(theirs, n_estimators=2, random_state=0).fit(X, Y)
    assert isinstance(model.estimators_[0], gpuboost.ExtraTreeClassifier)
    assert model.estimators_[0].get_depth() == 2


def test_warm_start_adds_learners():
    model = BaggingRegressor(LinearRegression(), n_estimators=2, warm_start=True, random_state=0)
    first = list(model.fit(*DIABETES).estimators_)
    model.set_params(n_estimators=5).fit(*DIABETES)
    assert len(model.estimators_) == 5 and model.estimators_[:2] == first


@pytest.mark.parametrize(("one", "other"), [(None, GaussianNB()), (GaussianNB(), None)])
def test_a_warm_start_keeps_the_kind_of_learners(one, other):
    model = BaggingClassifier(one, n_estimators=2, warm_start=True).fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"with warm_start, estimator=.* cannot follow on a model"):
        model.set_params(estimator=other, n_estimators=4).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    model.set_params(warm_start=False).fit(X, Y)
    assert len(model.estimators_) == 4


def test_metadata_is_routed_to_the_learners():
    weights = np.linspace(0.1, 1.0, len(Y))
    with sklearn.config_context(enable_metadata_routing=True):
        learner = LogisticRegression(max_iter=500).set_fit_request(sample_weight=True)
        model = BaggingClassifier(learner, n_estimators=2, random_state=0)
        assert "estimator" in str(model.get_metadata_routing())
        model.fit(X, Y, sample_weight=weights)
    with pytest.raises(TypeError, match=r"unexpected arguments \['groups'\]"):
        BaggingClassifier().fit(X, Y, groups=Y)


def test_a_dataset_needs_trees():
    with pytest.raises(TypeError, match="scikit-learn, which cannot read"):
        BaggingClassifier(KNeighborsClassifier()).fit(Dataset(X), Y)
    assert BaggingClassifier(DecisionTreeClassifier(), n_estimators=2).fit(Dataset(X), Y)


def test_a_failed_warm_start_leaves_the_model_as_it_was():
    model = BaggingRegressor(LinearRegression(), n_estimators=4, warm_start=True, random_state=0)
    before = model.fit(*DIABETES).predict(DIABETES[0])
    with pytest.raises(ValueError, match="n_estimators=2 must be larger or equal"):
        model.set_params(n_estimators=2).fit(*DIABETES)
    np.testing.assert_array_equal(model.predict(DIABETES[0]), before)


def test_errors_of_models_that_are_not_fitted_are_the_usual_ones():
    for model in (BaggingClassifier(), AdaBoostClassifier()):
        with pytest.raises(NotFittedError):
            model.feature_importances_  # noqa: B018
        with pytest.raises(NotFittedError):
            model.estimators_  # noqa: B018
    assert hasattr(BaggingClassifier(LinearSVC()), "decision_function")
    assert not hasattr(BaggingClassifier(), "coef_")


def test_trees_of_the_other_kind_are_refused():
    for tree in (gpuboost.DecisionTreeRegressor(), sklearn.tree.DecisionTreeRegressor()):
        with pytest.raises(TypeError, match="estimator must be None, a DecisionTreeClassifier"):
            BaggingClassifier(tree).fit(X, Y)
    with pytest.raises(TypeError, match=r"only trees .* are grown by gpuboost, got GaussianNB"):
        gpuboost.estimate_memory(BaggingClassifier(GaussianNB()), 100, 4)


def test_subclasses_and_parameters():
    class Own(BaggingClassifier):
        def __init__(self, estimator=None, extra=1, n_estimators=2):
            super().__init__(estimator, n_estimators)
            self.extra = extra

    assert Own(GaussianNB(), extra=3).fit(X, Y).score(X, Y) > 0.8
    with pytest.raises(ValueError, match="categorical_features=array"):
        BaggingClassifier(GaussianNB(), categorical_features=np.array([0, 1])).fit(X, Y)
    with pytest.raises(ValueError, match='device must be "auto"'):
        BaggingClassifier(GaussianNB(), device="gpu").fit(X, Y)
    weights = np.linspace(0.1, 1.0, len(Y))
    column, flat = (
        AdaBoostClassifier(GaussianNB(), n_estimators=2, random_state=0).fit(X, Y, each)
        for each in (weights[:, None], weights)
    )
    np.testing.assert_array_equal(column.predict_proba(X), flat.predict_proba(X))
