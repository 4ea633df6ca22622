"""Bad input raises a clear error and leaves no fitted model."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.naive_bayes import GaussianNB

import gpuboost
from gpuboost import (
    AdaBoostClassifier,
    BaggingClassifier,
    Dataset,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuboost.estimators import HOMES
from tests.estimators.estimator_cases import fitted_facts, make

pd = pytest.importorskip("pandas")

NAMES = sorted(HOMES)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
Y = np.arange(30) % 3
FRAME = pd.DataFrame(X, columns=list("abcd"))

forest = partial(RandomForestClassifier, n_estimators=3, device="numpy")
values = partial(RandomForestRegressor, n_estimators=3, device="numpy")
tree = partial(DecisionTreeClassifier, device="numpy")
any_bagging = partial(BaggingClassifier, n_estimators=3)
bagging = partial(BaggingClassifier, n_estimators=3, device="numpy")
ada = partial(AdaBoostClassifier, n_estimators=3, device="numpy")
boosting = partial(GradientBoostingRegressor, n_estimators=3, device="numpy")
hist = partial(HistGradientBoostingRegressor, max_iter=3, device="numpy")
boosted_classes = partial(GradientBoostingClassifier, n_estimators=3, device="numpy")


def with_value(value: float) -> np.ndarray:
    """X with one value replaced."""
    spoiled = X.copy()
    spoiled[7, 2] = value
    return spoiled


# ---- data --------------------------------------------------------------------------------------

BAD_DATA = {
    "swapped": (Y, X, None, ValueError, r"shape \(30,\) .* swapped\? .*fit\(X, y\)"),
    "one dimension": (X[:, 0], Y, None, ValueError, "Expected 2D array, got 1D"),
    "three dimensions": (X[None], Y, None, ValueError, "Expected 2D array, got 3D"),
    "no rows": (X[:0], Y[:0], None, ValueError, "0 sample"),
    "no features": (X[:, :0], Y, None, ValueError, r"0 feature\(s\)"),
    "infinity": (with_value(np.inf), Y, None, ValueError, "feature 2 is inf in row 7"),
    "minus infinity": (with_value(-np.inf), Y, None, ValueError, "feature 2 is -inf in row 7"),
    "sparse labels": (X, csr_matrix(Y), None, TypeError, "sparse multilabel-.*Sparse data was pas"),
    "strings": (np.array([["a", "b"]] * 30), Y, None, ValueError, "make it a category"),
    "object column": (
        FRAME.assign(b=["x", 1] * 15),
        Y,
        None,
        ValueError,
        "'b'.*does not convert to numbers",
    ),
    "complex": (X + 1j, Y, None, ValueError, "Complex data not supported"),
    "no target": (X, None, None, ValueError, "y to be passed"),
    "other length": (X, Y[:-1], None, ValueError, "inconsistent numbers of samples.*30.*29"),
    "labels missing": (X, np.where(Y == 1, np.nan, Y), None, ValueError, "contains NaN"),
    "label None": (X, np.where(Y == 1, None, "a"), None, ValueError, "label is missing"),
    "continuous labels": (X, X[:, 0], None, ValueError, "Unknown label type: continuous"),
    "labels of an output missing": (
        X,
        np.column_stack([Y, np.where(Y == 1, np.nan, Y)]),
        None,
        ValueError,
        "Output 1 of y: Input y contains NaN",
    ),
    "continuous labels of an output": (
        X,
        np.column_stack([Y, Y, X[:, 0]]),
        None,
        ValueError,
        "Output 2 of y: Unknown label type: continuous",
    ),
    "a cube of labels": (X, np.zeros((30, 2, 2)), None, ValueError, "y should be a 1d array"),
    "labels of two types": (X, np.where(Y == 1, "a", Y.astype(object)), None, ValueError, "types?"),
    "negative weight": (X, Y, np.arange(30) - 1.0, ValueError, "Negative.*row 0"),
    "weights all zero": (X, Y, np.zeros(30), ValueError, "zero for every row"),
    "weight NaN": (X, Y, np.full(30, np.nan), ValueError, "sample_weight contains NaN"),
    "weight infinite": (X, Y, np.full(30, np.inf), ValueError, "sample_weight contains infinity"),
    "too few weights": (X, Y, np.ones(29), ValueError, r"expected \(30,\)"),
    "weights in two columns": (X, Y, np.ones((30, 2)), ValueError, r"expected \(30,\)"),
    "weights of words": (X, Y, ["a"] * 30, ValueError, "sample_weight must be numeric"),
}


@pytest.mark.parametrize("case", BAD_DATA)
@pytest.mark.parametrize("model", [tree, forest, bagging], ids=["tree", "forest", "bagging"])
def test_bad_data(case, model):
    X, y, weights, kind, message = BAD_DATA[case]
    estimator = model()
    with pytest.raises(kind, match=message):
        estimator.fit(X, y, weights)
    assert not fitted_facts(estimator)


@pytest.mark.parametrize("model", [tree, forest, bagging, boosting, ada])
def test_a_forgotten_target_is_told(model):
    with pytest.raises(ValueError, match=f"{model.func.__name__}.fit requires y to be passed"):
        model().fit(X)


def test_weights_can_be_a_table_of_one_column():
    pd = pytest.importorskip("pandas")
    weights = np.arange(30) + 1.0
    expected = forest(random_state=0).fit(X, Y, weights).fingerprint()
    column = pd.DataFrame({"weight": weights})
    assert forest(random_state=0).fit(X, Y, column).fingerprint() == expected
    with pytest.raises(ValueError, match="one weight per row"):  # as in scikit-learn
        forest().fit(X, Y, weights[:, None])
    with pytest.raises(TypeError, match="at least 1 dimension"):
        forest().fit(X, Y, np.array(2.0))


BAD_TARGETS = {
    "NaN": (np.where(Y == 1, np.nan, 1.0), "Input y contains NaN"),
    "infinity": (np.where(Y == 1, np.inf, 1.0), "Input y contains infinity"),
    "NaN in an output": (np.column_stack([Y, np.where(Y == 1, np.nan, Y)]), "is 1, in output 1;"),
    "sparse": (csr_matrix(X), "^Sparse data was passed for y, but dense data is required"),
    "words": (np.array(["low", "high", "low"] * 10), "y must be numeric"),
    "three dimensions": (np.zeros((30, 1, 1)), "y should be a 1d array"),
    "huge values": (np.full(30, 2e301), r"values up to 1.07151e\+301 are allowed"),
    "a span beyond float64": (np.where(Y == 1, 1.7e308, -1.7e308), "Scale the target down"),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_bad_targets_of_regressors(case):
    y, message = BAD_TARGETS[case]
    estimator = values()
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)
    assert not fitted_facts(estimator)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
@pytest.mark.parametrize(
    "name", ["DecisionTreeRegressor", "RandomForestRegressor", "GradientBoostingRegressor"]
)
def test_extreme_targets_fit_and_score_without_warnings(name, scale):
    """Warnings are errors in the tests."""
    y = np.random.default_rng(0).normal(size=30)
    model = make(name, random_state=0)
    expected = model.fit(X, y).score(X, y)
    assert model.fit(X, y * scale).score(X, y * scale) == pytest.approx(expected, rel=1e-6)


def test_at_most_two_billion_rows_are_accepted():
    rows = np.broadcast_to(np.zeros((1, 1), np.float32), (2**31, 1))
    with pytest.raises(ValueError, match=r"at most 2147483647 \(2\*\*31 - 1\)"):
        forest().fit(rows, np.broadcast_to(np.zeros(1, np.int8), (2**31,)))


# ---- parameters --------------------------------------------------------------------------------

BAD_PARAMETERS = [
    (forest, {"n_estimators": 0}, ValueError, "n_estimators must be an integer of at least 1"),
    (forest, {"n_estimators": 2.5}, TypeError, "n_estimators"),
    (forest, {"n_estimators": "10"}, TypeError, "n_estimators"),
    (forest, {"criterion": "squared_error"}, ValueError, "'gini', 'entropy', 'log_loss'"),
    (forest, {"criterion": None}, ValueError, "criterion must be one of"),
    (forest, {"criterion": ["gini"]}, ValueError, "criterion must be one of"),
    (values, {"criterion": "gini"}, ValueError, "criterion must be one of 'squared_error'"),
    (tree, {"splitter": "worst"}, ValueError, "splitter must be one of 'best', 'random'"),
    (tree, {"max_depth": 0}, ValueError, "max_depth must be an integer of at least 1"),
    (tree, {"max_depth": 2.5}, TypeError, "max_depth"),
    (tree, {"max_depth": True}, TypeError, "max_depth"),
    (tree, {"min_samples_split": 1}, ValueError, r"range \[2, inf\) or a float"),
    (tree, {"min_samples_split": 1.5}, ValueError, "min_samples_split"),
    (tree, {"min_samples_split": None}, TypeError, "min_samples_split"),
    (tree, {"min_samples_leaf": 0}, ValueError, "min_samples_leaf"),
    (tree, {"min_samples_leaf": 1.0}, ValueError, "min_samples_leaf"),
    (tree, {"min_samples_leaf": "few"}, TypeError, "min_samples_leaf"),
    (tree, {"min_weight_fraction_leaf": 0.6}, ValueError, "<= 0.5, got 0.6"),
    (tree, {"min_weight_fraction_leaf": np.nan}, ValueError, "min_weight_fraction_leaf"),
    (tree, {"min_impurity_decrease": -1.0}, ValueError, "min_impurity_decrease"),
    (tree, {"min_impurity_decrease": np.inf}, ValueError, "min_impurity_decrease"),
    (tree, {"max_leaf_nodes": 1}, ValueError, "max_leaf_nodes must be an integer of at least 2"),
    (tree, {"ccp_alpha": -1.0}, ValueError, r"ccp_alpha must be a number >= 0.*got -1\.0"),
    (tree, {"ccp_alpha": "auto"}, TypeError, "ccp_alpha must be a number"),
    (forest, {"monotonic_cst": [1, 0]}, ValueError, "has shape 2 but the input data X has 4"),
    (forest, {"max_features": "auto"}, ValueError, "'sqrt', 'log2' or None"),
    (forest, {"max_features": 0}, ValueError, "max_features"),
    (forest, {"max_features": 1.5}, ValueError, "max_features"),
    (forest, {"max_features": True}, TypeError, "max_features"),
    (forest, {"max_features": [1]}, TypeError, "max_features"),
    (bagging, {"max_features": 5}, ValueError, "max_features must be an integer from 1 to 4"),
    (bagging, {"max_features": "sqrt"}, ValueError, "max_features"),
    (bagging, {"max_features": None}, TypeError, "max_features"),
    (forest, {"max_samples": 0}, ValueError, "max_samples"),
    (forest, {"max_samples": 2**31}, ValueError, "from 1 to 2147483647"),
    (forest, {"max_samples": 1e9}, ValueError, r"3e\+10 rows for each tree, more than 2147483647"),
    (forest, {"max_samples": -0.5}, ValueError, "max_samples"),
    (forest, {"max_samples": "half"}, TypeError, "max_samples"),
    (bagging, {"max_samples": 1.5}, ValueError, "max_samples"),
    (forest, {"bootstrap": False, "max_samples": 5}, ValueError, "got max_samples=5"),
    (
        bagging,
        {"bootstrap": False, "max_samples": 31},
        ValueError,
        "max_samples=31 must be <= n_samples=30",
    ),
    (forest, {"bootstrap": 1}, TypeError, "bootstrap must be True or False"),
    (bagging, {"bootstrap_features": "no"}, TypeError, "bootstrap_features"),
    (forest, {"oob_score": "yes"}, TypeError, "oob_score"),
    (forest, {"oob_score": True, "bootstrap": False}, ValueError, "Out of bag estimation only"),
    (bagging, {"oob_score": True, "bootstrap": False}, ValueError, "Out of bag estimation only"),
    (forest, {"warm_start": 1}, TypeError, "warm_start"),
    (forest, {"voting": "loud"}, ValueError, "voting must be one of 'soft', 'hard'"),
    (bagging, {"voting": None}, ValueError, "voting"),
    (forest, {"class_weight": "heavy"}, ValueError, "'balanced', 'balanced_subsample'"),
    (tree, {"class_weight": "balanced_subsample"}, ValueError, "class_weight must be None"),
    (forest, {"class_weight": {0: 1.0, 7: 2.0}}, ValueError, r"labels \[7\], which are not in y"),
    (forest, {"class_weight": {0: -1.0, 1: 1, 2: 1}}, ValueError, r"class_weight\[0\]"),
    (forest, {"class_weight": {0: 0, 1: 0, 2: 0}}, ValueError, "positive for some row"),
    (forest, {"class_weight": 3.0}, ValueError, "class_weight must be None"),
    (tree, {"class_weight": [{0: 1.0}]}, ValueError, "y has one output; pass one dict"),
    (forest, {"random_state": -1}, ValueError, "random_state .* from 0 to"),
    (forest, {"random_state": 2**32}, ValueError, "random_state"),
    (forest, {"random_state": "seed"}, ValueError, "random_state must be an integer"),
    (forest, {"random_state": True}, TypeError, "random_state must be an integer from 0"),
    (forest, {"random_state": 1.5}, ValueError, "random_state"),
    (forest, {"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
    (forest, {"n_jobs": 1.5}, TypeError, "n_jobs"),
    (forest, {"verbose": -1}, ValueError, "verbose"),
    (forest, {"verbose": "loud"}, TypeError, "verbose"),
    (forest, {"max_bins": 1}, ValueError, "max_bins must be an integer from 2 to 255"),
    (forest, {"max_bins": 256}, ValueError, "max_bins"),
    (forest, {"max_bins": None}, TypeError, "max_bins"),
    (forest, {"categorical_features": [4]}, ValueError, r"is \[0, 3\] here"),
    (forest, {"categorical_features": ["color"]}, ValueError, "without feature names"),
    (forest, {"categorical_features": [True, False]}, ValueError, "mask"),
    (forest, {"categorical_features": "all"}, ValueError, "categorical_features"),
    (forest, {"device": "gpu"}, ValueError, 'device must be "auto", "cpu", "cuda"'),
    (forest, {"device": None}, ValueError, "device must be"),
    (forest, {"device": "cuda:-1"}, ValueError, "device must be"),
    (bagging, {"estimator": DecisionTreeRegressor()}, TypeError, "DecisionTreeClassifier"),
    (bagging, {"estimator": DecisionTreeClassifier}, TypeError, "estimator must be None"),
    (bagging, {"estimator": GaussianNB(), "device": "numpy"}, ValueError, "has no backends"),
    (any_bagging, {"estimator": GaussianNB(), "max_bins": 9}, ValueError, "max_bins=9 is for"),
    (bagging, {"estimator": DecisionTreeClassifier(max_bins=9)}, ValueError, "max_bins=9, which"),
    (bagging, {"estimator": DecisionTreeClassifier(device="cpu")}, ValueError, "device='cpu'"),
    (bagging, {"estimator": DecisionTreeClassifier(max_depth=-2)}, ValueError, "max_depth"),
    (ada, {"boosting": "both"}, ValueError, "boosting must be one of 'reweighting', 'resamp"),
    (boosting, {"loss": "squared"}, ValueError, "loss must be one of 'squared_error', 'absol"),
    (boosting, {"loss": "gamma"}, ValueError, "y"),
    (boosting, {"loss": np.log}, TypeError, "must have the methods gradient"),
    (boosted_classes, {"loss": "huber"}, ValueError, "loss must be one of 'log_loss', 'expon"),
    (boosted_classes, {"loss": "exponential"}, ValueError, "only suitable for a binary"),
    (boosting, {"loss": "quantile", "alpha": 1.0}, ValueError, "strictly between 0 and 1"),
    (boosting, {"loss": "quantile", "alpha": []}, ValueError, "holds no level"),
    (boosting, {"loss": "tweedie", "tweedie_power": 2.0}, ValueError, "loss='gamma' for 2"),
    (boosting, {"learning_rate": -1.0}, ValueError, "learning_rate must be a number >= 0"),
    (boosting, {"learning_rate": lambda i: "x"}, TypeError, r"learning_rate\(0\) must be"),
    (boosting, {"n_estimators": 0}, ValueError, "n_estimators must be an integer of at least 1"),
    (boosting, {"subsample": 0.0}, ValueError, "subsample must be a number > 0"),
    (boosting, {"min_hessian_leaf": -1.0}, ValueError, "min_hessian_leaf must be a number >= 0"),
    (boosting, {"min_samples_category": -1}, ValueError, 'min_samples_category must be "auto",'),
    (boosting, {"min_samples_category": 1.0}, ValueError, "fraction of the rows; got 1.0"),
    (
        boosting,
        {"min_samples_category": "10"},
        TypeError,
        "an integer of at least 0, or a number",
    ),
    (boosting, {"max_features_per_level": 0}, ValueError, "max_features"),
    (boosting, {"max_features_per_tree": 1.5}, ValueError, "max_features"),
    (boosting, {"l1_regularization": -1}, ValueError, "l1_regularization must be a number >= 0"),
    (boosting, {"l2_regularization": -1}, ValueError, "l2_regularization must be a number >= 0"),
    (boosting, {"max_delta_step": 0.0}, ValueError, "max_delta_step must be a number > 0"),
    (boosting, {"monotonic_cst": [1, 0]}, ValueError, "Pass -1, 0 or 1 for each feature"),
    (boosting, {"monotonic_cst": {"a": 1}}, ValueError, "X has no feature names"),
    (boosted_classes, {"monotonic_cst": [1, 0, 0, 0]}, ValueError, "for which it is not supported"),
    (boosting, {"interaction_cst": [{9}]}, ValueError, r"= \[0, 3\]"),
    (boosting, {"interaction_cst": "some"}, ValueError, "interaction_cst must be one of"),
    (boosting, {"interaction_cst": 3}, ValueError, "lists or sets of features"),
    (boosted_classes, {"class_weight": {1: 0, 2: 0}}, ValueError, "1 class after sample_weight"),
    (boosting, {"multi_strategy": "both"}, ValueError, "multi_strategy must be one of"),
    (boosting, {"init": "one"}, ValueError, "The 'init' parameter of .*'zero'"),
    (boosting, {"validation_fraction": 1.0}, ValueError, "validation_fraction"),
    (boosting, {"n_iter_no_change": 0}, ValueError, "n_iter_no_change must be"),
    (boosting, {"n_iter_no_change": 2, "tol": -1.0}, ValueError, "tol must be a number >= 0"),
    (boosting, {"eval_metric": "auc"}, ValueError, "eval_metric of a regressor must be"),
    (boosting, {"callbacks": 3}, TypeError, "callbacks must be a function"),
    (forest, {"callbacks": [3]}, TypeError, "callbacks must be a function"),
    (forest, {"keep_on_interrupt": 2}, TypeError, "keep_on_interrupt must be"),
    (boosting, {"importance_type": "cover"}, ValueError, "one of 'gain', 'count'"),
    (boosting, {"criterion": "gini"}, ValueError, "criterion must be one of"),
    (hist, {"max_iter": 0}, ValueError, "max_iter must be"),
    (hist, {"loss": "quantile", "quantile": 2.0}, ValueError, "quantile must be"),
    (hist, {"early_stopping": "yes"}, ValueError, "early_stopping must be one of 'auto'"),
    (hist, {"scoring": "best", "early_stopping": True}, ValueError, "best"),
    (boosting, {"ccp_alpha": np.nan}, ValueError, "ccp_alpha must be a number >= 0"),
]


def case_name(case) -> str:
    """The name of a case in the test's output."""
    params = re.sub(" at 0x[0-9a-f]+", "", str(case[1]))  # addresses differ between processes
    return re.sub(r"\W+", "-", f"{case[0].func.__name__} {params}")[:70]


@pytest.mark.parametrize("case", BAD_PARAMETERS, ids=case_name)
def test_bad_parameters(case):
    model, params, kind, message = case
    estimator = model().set_params(**params)  # parameters are checked in fit
    with pytest.raises(kind, match=message):
        estimator.fit(X, Y)
    assert not fitted_facts(estimator)


def test_every_parameter_has_a_bad_value_above():
    judged = {name for _, params, _, _ in BAD_PARAMETERS for name in params}
    assert judged == {p for name in NAMES for p in getattr(gpuboost, name)().get_params(deep=False)}


# ---- prediction --------------------------------------------------------------------------------


def test_features_that_differ_at_predict():
    model = forest().fit(X, Y)
    with pytest.raises(ValueError, match="X has 3 features, but RandomForestClassifier is expecti"):
        model.predict(X[:, :3])
    with pytest.raises(ValueError, match="infinity"):
        model.predict(with_value(np.inf))
    with pytest.raises(ValueError, match="Reshape your data"):
        model.predict(X[0])
    with pytest.raises(ValueError, match="X has 3 features, but RandomForestClassifier is expecti"):
        model.predict_proba(csr_matrix(X[:, :3]))
    with pytest.warns(UserWarning, match="fitted without feature names"):
        model.predict(FRAME)


def test_names_that_differ_at_predict():
    model = forest().fit(FRAME, Y)
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- e"):
        model.predict(FRAME.rename(columns={"b": "e"}))
    with pytest.raises(ValueError, match="same order"):
        model.predict(FRAME[list("bacd")])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


def test_a_dataset_must_have_the_names_and_categories_of_the_model():
    def dataset(levels, **options):
        color = pd.Categorical(np.array(levels)[Y], categories=levels)
        frame = pd.DataFrame({"a": X[:, 0], "color": color})
        return Dataset(frame, **options)

    data = dataset(["blue", "green", "red"])
    other, model = dataset(["blue", "green", "yellow"]), forest(warm_start=True).fit(data, Y)
    before = model.fingerprint()
    for use in (
        lambda: model.predict(other),
        lambda: model.set_params(n_estimators=5).fit(other, Y),
    ):
        with pytest.raises(ValueError, match=r"this Dataset has other categories than"):
            use()
    model.predict(dataset(["blue", "green", "red"]))  # an equal Dataset without a reference
    assert forest().fit(other, Y).fingerprint() != before  # equal trees, other categories
    renamed = Dataset(pd.DataFrame({"b": X[:, 0], "color": Y}))
    turned = Dataset(pd.DataFrame({"color": Y, "a": X[:, 0]}))
    for data, message in ((renamed, "unseen at fit time:\n- b"), (turned, "same order")):
        with pytest.raises(ValueError, match=message):
            model.predict(data)
        with pytest.raises(ValueError, match=message):
            model.fit(data, Y)
    named = forest().fit(Dataset(FRAME), Y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        named.predict(Dataset(X))
    assert model.fingerprint() == before


def test_a_dataset_with_other_bins_or_conflicting_parameters():
    data = Dataset(X)
    model = forest().fit(data, Y)
    with pytest.raises(ValueError, match=r"other bins.*Dataset\(X, reference=train\)"):
        model.predict(Dataset(X[:9]))
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict(Dataset(X[:, :3]))
    for params, message in (
        ({"max_bins": 8}, r"max_bins=8 .*Dataset of up to 30 bins.*Dataset\(X, max_bins"),
        ({"categorical_features": [0]}, "categorical_features.*together with a Dataset"),
    ):
        estimator = forest(**params)
        with pytest.raises(ValueError, match=message):
            estimator.fit(data, Y)
        assert not fitted_facts(estimator)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        forest().fit(data, Y[:-1])


# ---- warm start --------------------------------------------------------------------------------

BAD_WARM_STARTS = [
    ({"n_estimators": 2}, X, Y, "n_estimators=2 must be larger or equal to the 3 trees"),
    ({"n_estimators": 5}, X, np.minimum(Y, 1), "same classes_ as before"),
    ({"n_estimators": 5}, X[:, :2], Y, "X has 2 features"),
    ({"n_estimators": 5, "max_bins": 9}, X, Y, "max_bins and categorical_features must stay 255"),
    ({"n_estimators": 5, "categorical_features": [1]}, X, Y, "with warm_start, max_bins"),
    ({"n_estimators": 5, "oob_score": True}, X[:20], Y[:20], "were fitted on 30 rows and X has 20"),
    ({"n_estimators": 5}, Dataset(X * 2), Y, "other bins than the model that warm_start adds"),
]


@pytest.mark.parametrize(("params", "data", "y", "message"), BAD_WARM_STARTS)
def test_bad_warm_starts_leave_the_model(params, data, y, message):
    model = forest(warm_start=True).fit(X, Y)
    before = model.fingerprint()
    with pytest.raises(ValueError, match=message):
        model.set_params(**params).fit(data, y)
    assert model.fingerprint() == before and len(model.estimators_) == 3


def test_too_few_rows_to_draw_without_replacement():
    weights = (np.arange(30) < 10) * 1.0
    with (
        pytest.warns(UserWarning, match="it is recommended to use bootstrap=True"),
        pytest.raises(ValueError, match="asks for 15 rows without replacement, but only 10"),
    ):
        bagging(bootstrap=False, max_samples=15).fit(X, Y, weights)
