"""All estimators: targets, sample weights and tables of any type."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_matrix
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

import gpuboost
from tests.estimators.estimator_cases import NAMES, ONE_OUTPUT, WITH_TREES, data_for, frame_of, make

# ---- targets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in WITH_TREES if n.endswith("Classifier")])
def test_predictions_are_labels_of_the_given_type(name):
    X, y = load_iris(return_X_y=True)
    for names in (
        np.array(["one", "two", "three"]),
        np.array([-7, 0, 9]),
        np.array([2.0, 4.0, 5.0]),
    ):
        model = make(name).fit(X, names[y])
        assert set(model.predict(X)) <= set(names)
        assert model.score(X, names[y]) > 0.9
        np.testing.assert_array_equal(model.classes_, np.sort(names))
        assert model.predict_proba(X).shape == (150, 3)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(
                model.predict_log_proba(X), np.log(model.predict_proba(X)), rtol=1e-14
            )
    flags = make(name).fit(X, y == 1)
    assert flags.predict(X).dtype == bool
    if name.startswith("GradientBoosting"):
        with pytest.raises(ValueError, match="y contains 1 class, 0, while a minimum of 2"):
            make(name).fit(X, np.zeros(150, int))
        return
    one = make(name).fit(X, np.zeros(150, int))
    np.testing.assert_array_equal(one.predict_proba(X), np.ones((150, 1)))


@pytest.mark.parametrize(
    "name", [n for n in WITH_TREES if n.endswith("Regressor") and n not in ONE_OUTPUT]
)
def test_several_outputs(name):
    X, y = load_diabetes(return_X_y=True)
    Y = np.column_stack([y, 1000 - y, X[:, 2]])
    model = make(name).fit(X, Y)
    assert model.n_outputs_ == 3 and model.predict(X).shape == Y.shape
    assert model.score(X, Y) > 0.5
    column = make(name).fit(X, y[:, None])
    assert column.predict(X).shape == y.shape
    assert column.fingerprint() == make(name).fit(X, y).fingerprint()


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_zero_weight_are_ignored(name):
    X, y = data_for(name)
    weights = np.where(np.arange(len(y)) % 4 == 1, 0.0, 1.0)
    far = np.where(weights[:, None] > 0, X, X + 1e6)
    assert (
        make(name).fit(far, y, weights).fingerprint() == make(name).fit(X, y, weights).fingerprint()
    )


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_scale_of_weights_does_not_matter_to_trees(scale):
    X, y = load_diabetes(return_X_y=True)
    weights = np.random.default_rng(0).random(len(y))
    scale = 2.0 ** round(np.log2(scale))
    one = make("DecisionTreeRegressor", max_depth=5).fit(X, y, weights)
    other = make("DecisionTreeRegressor", max_depth=5).fit(X, y, weights * scale)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_an_outlier_that_makes_other_targets_equal_warns():
    X, y = load_diabetes(return_X_y=True)
    y[7] = 1e12
    with pytest.warns(UserWarning, match="output 0 of y, .* 442 rows, count as .* remove outliers"):
        make("DecisionTreeRegressor").fit(X, y)
    weights = np.ones(len(y))
    weights[7] = 0.0
    make("DecisionTreeRegressor").fit(X, y, weights)  # the outlier has no weight
    y[7] = 1e6
    model = make("DecisionTreeRegressor").fit(X, y)
    assert model.score(X, y) == 1.0
    few = np.arange(10.0)
    with pytest.warns(UserWarning, match="10 distinct values of output 0"):
        make("DecisionTreeRegressor").fit(few[:, None], np.append(few[:9], 1e12))


@pytest.mark.parametrize("name", ["DecisionTreeClassifier", "DecisionTreeRegressor"])
def test_weights_of_a_wide_range_are_distinguished(name):
    X, y = data_for(name)
    weights = np.random.default_rng(0).uniform(1.0, 2.0, len(y))
    weights[0] = 3e5
    model = make(name).fit(X, y, weights)
    assert model.score(X, y) > 0.999
    assert model.fingerprint() == make(name, device="numba").fit(X, y, weights).fingerprint()
    weights[0] = 1e12
    with pytest.warns(UserWarning, match="make large weights smaller"):
        make(name).fit(X, y, weights)


# ---- tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_dataset_gives_the_same_model_as_x(name):
    X, y = data_for(name)
    X = X.copy()
    X[::7, 1] = np.nan
    data = gpuboost.Dataset(X)
    plain, binned = make(name).fit(X, y), make(name).fit(data, y)
    assert plain.fingerprint() == binned.fingerprint()
    test = gpuboost.Dataset(X[:40], reference=data)
    np.testing.assert_array_equal(plain.predict(X[:40]), plain.predict(test))
    if hasattr(plain, "apply"):
        np.testing.assert_array_equal(plain.apply(X[:40]), binned.apply(test))
    assert binned.score(test, y[:40]) == plain.score(X[:40], y[:40])
    again = pickle.loads(pickle.dumps(binned))
    np.testing.assert_array_equal(again.predict(test), plain.predict(X[:40]))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("name", NAMES)
def test_frames_with_categories(name, kind):
    frame, y = frame_of(kind)
    words = {"max_depth": 3} if name == "AdaBoostClassifier" else {}  # five stumps are not enough
    model = make(name, **words).fit(frame, y)
    assert list(model.feature_names_in_) == ["color", "size"]
    assert model.score(frame, y) > 0.8
    pandas = make(name, **words).fit(frame_of("pandas")[0], y)
    assert model.fingerprint() == pandas.fingerprint()
    data = gpuboost.Dataset(frame)
    assert make(name, **words).fit(data, y).fingerprint() == model.fingerprint()
    by_name = make(name, categorical_features=["color"], **words).fit(frame, y)
    assert by_name.fingerprint() == model.fingerprint()


@pytest.mark.parametrize("name", NAMES)
def test_a_sparse_matrix_is_the_dense_one(name):
    X, y = data_for(name)
    X = np.where(np.median(X, axis=0) < X, X, 0.0)
    model = make(name).fit(csr_matrix(X), y)
    assert model.fingerprint() == make(name).fit(X, y).fingerprint()
    for rows in (csr_matrix(X), csc_array(X)):
        np.testing.assert_array_equal(model.predict(rows), model.predict(X))
        if hasattr(model, "apply"):
            np.testing.assert_array_equal(model.apply(rows), model.apply(X))
    dataset = gpuboost.Dataset(csr_matrix(X))
    assert make(name).fit(dataset, y).fingerprint() == model.fingerprint()


@pytest.mark.parametrize("name", NAMES)
def test_float32_and_memory_order_make_the_same_model(name):
    X, y = data_for(name)
    X = X.astype(np.float32)
    first = make(name).fit(X, y)
    for other in (X.astype(np.float64), np.asfortranarray(X), X[::-1][::-1], X.tolist()):
        assert make(name).fit(other, y).fingerprint() == first.fingerprint()
        np.testing.assert_array_equal(first.predict(other), first.predict(X))


def test_predictions_do_not_depend_on_the_number_of_rows():
    X, y = load_breast_cancer(return_X_y=True)
    model = make("RandomForestClassifier").fit(X, y)
    whole = model.predict_proba(X)
    parts = np.concatenate([model.predict_proba(X[i : i + 100]) for i in range(0, len(X), 100)])
    np.testing.assert_array_equal(whole, parts)


def test_max_bins_limits_the_thresholds():
    X, y = load_diabetes(return_X_y=True)
    model = make("DecisionTreeRegressor", max_bins=4).fit(X, y)
    tree = model.tree_
    for feature in range(X.shape[1]):
        assert len(set(tree.threshold[tree.feature == feature])) <= 4 * 3 / 2
    assert model.fingerprint() != make("DecisionTreeRegressor").fit(X, y).fingerprint()


def test_a_dataset_of_categories_may_have_more_levels_than_bins():
    X = np.column_stack([np.arange(300) % 40, np.arange(300) / 7])
    data = gpuboost.Dataset(X, categorical_features=[0], max_bins=20)
    make("DecisionTreeRegressor", max_bins=20).fit(data, X[:, 1])


def test_numpy_scalars_are_accepted_as_parameters():
    X, y = load_iris(return_X_y=True)
    plain = make("RandomForestClassifier", criterion="entropy", max_features="sqrt", max_depth=3)
    odd = make(
        "RandomForestClassifier",
        criterion=np.str_("entropy"),
        max_features=np.str_("sqrt"),
        max_depth=np.int64(3),
        n_estimators=np.int32(5),
        voting=np.str_("soft"),
        min_samples_leaf=np.float32(0.001),
        bootstrap=np.True_,
        device=np.str_("numpy"),
    )
    assert odd.fit(X, y).fingerprint() == plain.fit(X, y).fingerprint()
