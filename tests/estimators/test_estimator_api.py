"""All estimators: scikit-learn's contract, and gpuboost's additions to it."""

from __future__ import annotations

import copy
import doctest
import importlib
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn.ensemble
import sklearn.tree
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpuboost
from gpuboost import (
    BaggingClassifier,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from tests.estimators.estimator_cases import NAMES, WITH_TREES, data_for, frame_of, make

BEYOND = {"device", "max_bins", "categorical_features", "n_jobs", "voting"}
BEYOND |= {"callbacks", "keep_on_interrupt"}
BEYOND |= {"boosting", "max_depth", "criterion", "verbose"}  # in AdaBoost
BEYOND |= {  # in gradient boosting
    *("alpha", "tweedie_power", "class_weight", "min_hessian_leaf", "l1_regularization"),
    *("l2_regularization", "max_delta_step", "monotonic_cst", "interaction_cst"),
    *("max_features_per_level", "max_features_per_tree", "multi_strategy", "eval_metric"),
    *("importance_type", "min_samples_category"),
}
DRAWS_ROWS = "rows are drawn: a repeated row is not the same draw as a row of weight two"


def theirs(name: str):
    """scikit-learn's class of the same name."""
    return getattr(sklearn.ensemble, name, None) or getattr(sklearn.tree, name)


def expected_failures(estimator):
    """scikit-learn's checks that are expected to fail, with reasons."""
    if type(estimator).__name__ == "GradientBoostingClassifier":
        return {
            "check_class_weight_classifiers": "min_weight_fraction_leaf, by which the check keeps "
            "rows of almost no weight out of leaves of their own, is a share of hessians"
        }
    if getattr(estimator, "bootstrap", False) or getattr(estimator, "boosting", "") == "resampling":
        return {
            "check_sample_weight_equivalence_on_dense_data": DRAWS_ROWS,
            "check_sample_weight_equivalence_on_sparse_data": DRAWS_ROWS,
        }
    return {}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([make(name) for name in NAMES], expected_failed_checks=expected_failures)
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)


# ---- names, parameters, attributes -------------------------------------------------------------


# Names and defaults are those of the newest scikit-learn; older versions have other ones.
of_the_newest_scikit_learn = pytest.mark.skipif(
    sklearn.__version__.split(".")[:2] == ["1", "6"], reason="scikit-learn 1.6 has other names"
)


@of_the_newest_scikit_learn
@pytest.mark.parametrize("name", NAMES)
def test_parameters_and_defaults_are_those_of_scikit_learn(name):
    ours = getattr(gpuboost, name)().get_params(deep=False)
    wanted = theirs(name)().get_params(deep=False)
    assert wanted.items() <= ours.items()
    assert set(ours) - set(wanted) <= BEYOND
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = [
        [p.name for p in inspect.signature(c).parameters.values() if p.kind == positional]
        for c in (getattr(gpuboost, name), theirs(name))
    ]
    assert first[0] == first[1]


@of_the_newest_scikit_learn
@pytest.mark.parametrize("name", NAMES)
def test_methods_and_attributes_are_those_of_scikit_learn(name):
    X, y = data_for(name)
    ours, other = make(name).fit(X, y), theirs(name)().fit(X, y)
    not_ours = {
        "decision_function",  # delegates to base learners; trees have none
        "get_metadata_routing",
        "estimator",  # gpuboost's forests have no base estimator before fit
        "estimator_params",
        "class_weight",  # unused in regressors
    }
    if name.startswith("GradientBoosting"):
        not_ours |= {"init_"}  # without ``init``, the start is ``baseline_``
        not_ours |= {"alpha"} - set(ours.get_params())  # unused in classifiers
    if name.startswith("Bagging") or name.endswith("Classifier"):
        not_ours -= {"estimator"} if name.startswith("Bagging") else {"class_weight"}
    public = {n for n in dir(other) if not n.startswith("_")} - not_ours
    assert public <= set(dir(ours)) | set(vars(ours)), public - set(dir(ours))
    assert is_classifier(ours) == is_classifier(other)
    assert is_regressor(ours) == is_regressor(other)
    for attribute in ("n_features_in_", "n_outputs_", "n_classes_"):
        if hasattr(other, attribute):
            assert getattr(ours, attribute) == getattr(other, attribute)
    if is_classifier(ours):
        np.testing.assert_array_equal(ours.classes_, other.classes_)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_documented(name):
    estimator = getattr(gpuboost, name)
    for parameter in estimator().get_params(deep=False):
        assert f"\n{parameter} : " in estimator.__doc__
    for method in ("fit", "predict", "fingerprint"):
        assert getattr(estimator, method).__doc__


@pytest.mark.parametrize("name", WITH_TREES)
def test_before_fit_there_are_no_fitted_attributes(name):
    estimator = make(name)
    for attribute in ("tree_", "estimators_", "feature_importances_", "classes_"):
        assert not hasattr(estimator, attribute)
    for use in (estimator.predict, estimator.apply, estimator.decision_path):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            use(np.zeros((2, 3)))
    with pytest.raises(NotFittedError):
        estimator.fingerprint()


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_docstrings_run(name):
    module = doctest.DocTestParser().get_doctest(
        getattr(gpuboost, name).__doc__, {}, name, None, None
    )
    runner = doctest.DocTestRunner()
    runner.run(module)
    assert runner.summarize(verbose=False) == (0, 5)


@pytest.mark.parametrize("name", WITH_TREES)
def test_views_of_the_model_cannot_be_assigned(name):
    X, y = data_for(name)
    model = make(name).fit(X, y)
    view = "estimators_" if hasattr(model, "estimators_") else "tree_"
    with pytest.raises(AttributeError, match=f"{view} cannot be assigned.*only fit changes"):
        setattr(model, view, None)
    with pytest.raises(AttributeError, match="cannot be deleted"):
        delattr(model, view)
    before = model.predict(X)
    if view == "estimators_":
        trees = model.estimators_
        if isinstance(trees, list):
            trees.clear()  # changes only a copy
        else:
            assert not trees.flags.writeable
        trees = np.ravel(model.estimators_)
        assert len(trees) % 5 == 0 and trees[0] is np.ravel(model.estimators_)[0]
        assert len({tree.random_state for tree in trees}) == len(trees)
    np.testing.assert_array_equal(model.predict(X), before)
    first = getattr(model, view)
    assert getattr(model.fit(X, y), view) is not first


@pytest.mark.parametrize(
    "name", [n for n in NAMES if "Tree" in n and not n.startswith("ExtraTrees")]
)
def test_trees_accept_check_input_and_always_check(name):
    X, y = data_for(name)
    model = make(name).fit(X, y, None, False).fit(X, y, check_input=True)
    for method in ("predict", "predict_proba", "apply", "decision_path"):
        if hasattr(model, method):
            one, other = (getattr(model, method)(X, check_input=c) for c in (True, False))
            assert (one != other).sum() == 0
            assert "check_input : bool" in getattr(model, method).__doc__
            with pytest.raises(ValueError, match="features"):
                getattr(model, method)(X[:, :2], check_input=False)
            with pytest.raises(TypeError, match="check_input must be True or False"):
                getattr(model, method)(X, check_input="no")


def test_warnings_point_to_the_caller():
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd"))
    grown = make("RandomForestClassifier", warm_start=True).fit(X, y)
    for use in (
        lambda: grown.fit(X, y),
        lambda: grown.predict(frame),
        lambda: make("RandomForestClassifier", oob_score=True, n_estimators=2).fit(X, y),
        lambda: make("RandomForestClassifier", max_samples=0.01).fit(X, y),
        lambda: make("DecisionTreeClassifier").fit(X, y[:, None]),
        lambda: make("DecisionTreeRegressor", criterion="friedman_mse").fit(X, y),
    ):
        with pytest.warns() as told:
            use()
        assert {warning.filename for warning in told} == {__file__}, told[0].message


def test_a_new_fit_keeps_attributes_set_by_the_user():
    X, y = load_iris(return_X_y=True)
    model = make("DecisionTreeClassifier").fit(X, y)
    model.note_ = "mine"
    assert model.fit(X, y).note_ == "mine"


# ---- pickle, copy, clone -----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_pickle_and_copy_keep_the_model_and_hold_no_data(name):
    X, y = data_for(name)
    model = make(name).fit(X, y)
    before = len(pickle.dumps(model))
    for cached in ("estimators_", "tree_", "feature_importances_"):
        getattr(model, cached, None)
    assert len(pickle.dumps(model)) == before  # cached views are not pickled
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert other.fingerprint() == model.fingerprint()
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    copied = clone(model)
    assert copied.get_params() == model.get_params() and not hasattr(copied, "n_features_in_")
    assert str(X[3, 1]).encode() not in pickle.dumps(model, protocol=0) or X.shape[0] < 200


def test_a_pickle_grows_with_the_trees_and_not_with_the_rows():
    rng = np.random.default_rng(0)
    sizes = []
    for n in (2_000, 20_000):
        X = rng.normal(size=(n, 5))
        model = make("RandomForestClassifier", max_depth=2).fit(X, X[:, 0] > 0)
        sizes.append(len(pickle.dumps(model)))
    assert sizes[1] < 1.2 * sizes[0]


# ---- randomness and device ---------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides(name):
    X, y = data_for(name)
    first = make(name).fit(X, y).fingerprint()
    assert make(name).fit(X, y).fingerprint() == first
    assert make(name, n_jobs=2).fit(X, y).fingerprint() == first
    state = make(name, random_state=np.random.RandomState(0))
    assert (
        state.fit(X, y).fingerprint()
        == make(name, random_state=np.random.RandomState(0)).fit(X, y).fingerprint()
    )
    assert make(name, random_state=2**32 - 1).fit(X, y).fingerprint() != "" != first


def test_without_a_seed_the_global_numpy_seed_is_used():
    X, y = load_iris(return_X_y=True)
    prints = []
    for seed in (0, 0, 1):
        np.random.seed(seed)  # noqa: NPY002  as in scikit-learn
        prints.append(make("RandomForestClassifier", random_state=None).fit(X, y).fingerprint())
    assert prints[0] == prints[1] != prints[2]


def test_verbose_shows_a_progress_bar(capsys):
    X, y = load_iris(return_X_y=True)
    make("RandomForestClassifier").fit(X, y)
    assert capsys.readouterr() == ("", "")
    make("RandomForestClassifier", verbose=1).fit(X, y)
    out = capsys.readouterr()
    assert "growing trees" in out.err and "5/5" in out.err and not out.out


# ---- with the rest of scikit-learn -------------------------------------------------------------


def test_pipelines_and_searches():
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), make("RandomForestClassifier"))
    assert pipeline.fit(X, y).score(X, y) > 0.95
    search = GridSearchCV(make("DecisionTreeClassifier"), {"max_depth": [1, 4]}, cv=3)
    assert search.fit(X, y).best_params_["max_depth"] == 4
    base = BaggingClassifier(DecisionTreeClassifier(), device="numpy", n_estimators=3)
    search = GridSearchCV(base, {"estimator__max_depth": [1, 4]}, cv=3)
    assert search.fit(X, y).best_params_ == {"estimator__max_depth": 4}


def test_our_trees_work_in_ensembles_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    boosted = sklearn.ensemble.AdaBoostClassifier(
        DecisionTreeClassifier(max_depth=1, device="numpy", n_jobs=1), n_estimators=10
    )
    assert boosted.fit(X, y).score(X, y) > 0.93
    bagged = sklearn.ensemble.BaggingRegressor(
        DecisionTreeRegressor(device="numpy", n_jobs=1), n_estimators=4
    )
    assert bagged.fit(X, y).score(X, y) > 0.8


def test_a_failed_fit_keeps_the_previous_model():
    X, y = load_diabetes(return_X_y=True)
    model = make("RandomForestRegressor").fit(X, y)
    before = model.fingerprint()
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(X, np.where(y > 100, np.nan, y))
    assert model.fingerprint() == before
    with pytest.raises(ValueError, match="min_samples_leaf"):
        model.set_params(min_samples_leaf=-3).fit(X[:, :3], y)
    assert model.fingerprint() == before and model.n_features_in_ == 10


def test_a_new_fit_replaces_the_previous_model():
    frame, y = frame_of("pandas")
    model = make("ExtraTreesRegressor", bootstrap=True, oob_score=True, n_estimators=40)
    model.fit(frame, y)
    assert hasattr(model, "oob_score_") and hasattr(model, "feature_names_in_")
    model.set_params(oob_score=False).fit(np.arange(20.0).reshape(10, 2), np.arange(10.0))
    assert not hasattr(model, "oob_score_") and not hasattr(model, "feature_names_in_")
    assert len(model.estimators_) == 40


# ---- import ------------------------------------------------------------------------------------


def test_importing_is_light():
    """gpuboost imports no heavy library that scikit-learn has not imported already."""
    heavy = ["numba", "cupy", "pandas", "polars", "pyarrow", "matplotlib", "tqdm"]
    code = f"""
import sys
def seen():
    return {{name for name in {heavy} if name in sys.modules}}
import gpuboost
assert "sklearn" not in sys.modules and not seen(), seen()
import sklearn.ensemble
before = seen()
gpuboost.RandomForestClassifier, gpuboost.Dataset
assert seen() == before, seen() - before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_dir_lists_public_names_and_unknown_names_raise():
    fresh = importlib.reload(gpuboost)
    assert dir(fresh) == sorted(fresh.__all__)
    theirs = {*sklearn.ensemble.__all__, *sklearn.tree.__all__}
    assert theirs <= set(fresh.__all__)
    assert fresh.VotingClassifier is sklearn.ensemble.VotingClassifier
    with pytest.raises(AttributeError, match="no attribute 'RandomForst'"):
        fresh.RandomForst  # noqa: B018
    assert {RandomForestClassifier, RandomForestRegressor, ExtraTreesRegressor} <= {
        getattr(fresh, name) for name in NAMES
    }
