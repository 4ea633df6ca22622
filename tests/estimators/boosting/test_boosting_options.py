"""Gradient boosting: constraints, regularisation, weights, input types, custom losses, errors."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor

from gpuboost import Dataset
from tests.estimators.boosting.boosting_cases import classifier, regressor, table

# ---- constraints and regularisation ------------------------------------------------------------


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("form", ["list", "names", "indices"])
def test_monotonic_constraints_hold_everywhere(direction, form):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=500)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    forms = {"list": [direction, 0, 0], "names": {"a": direction}, "indices": {0: direction}}
    given = forms[form]
    model = regressor(monotonic_cst=given, n_estimators=50, max_depth=5).fit(frame, y)
    grid = np.linspace(-3, 3, 200)
    for b, c in rng.normal(size=(20, 2)):
        line = pd.DataFrame({"a": grid, "b": b, "c": c})
        steps = direction * np.diff(model.predict(line))
        assert (steps >= 0).all() and steps.max() > 0


def test_interaction_constraints_hold_on_every_path():
    X, y = table(500)
    model = regressor(interaction_cst=[{0, 1}, {2}], max_depth=4, n_estimators=20).fit(X, y)
    groups = [{0, 1}, {2}, {3, 4}]
    for tree in (t.tree_ for t in model.estimators_[:, 0]):
        paths = [(0, frozenset())]
        while paths:
            node, path = paths.pop()
            if tree.children_left[node] < 0:
                assert any(path <= group for group in groups)
                continue
            path = path | {int(tree.feature[node])}
            paths += [(tree.children_left[node], path), (tree.children_right[node], path)]
    alone = regressor(interaction_cst="no_interactions").fit(X, y)
    assert all(
        len(set(t.tree_.feature[t.tree_.feature >= 0])) <= 1 for t in alone.estimators_[:, 0]
    )


def test_regularised_leaf_values_follow_the_formula():
    X, y = table()
    l1, l2, rows = 3.0, 7.0, len(y)
    model = regressor(
        init="zero",
        n_estimators=1,
        learning_rate=1.0,
        max_depth=1,
        l1_regularization=l1,
        l2_regularization=l2,
    ).fit(X, y)
    tree = model.estimators_[0, 0].tree_
    leaf = model.estimators_[0, 0].apply(X)
    for node in (1, 2):
        total, count = y[leaf == node].sum(), (leaf == node).sum()
        assert tree.value[node, 0, 0] == pytest.approx((total - l1) / (count + l2), rel=1e-9)
    assert rows == sum(leaf > 0)
    small = regressor(max_delta_step=0.01, learning_rate=1.0).fit(X, y)
    assert max(np.abs(t.tree_.value).max() for t in small.estimators_[:, 0]) <= 0.01


def test_limits_of_leaves_and_features():
    X, y = table(500)
    few = regressor(min_samples_leaf=100).fit(X, y)
    assert all((t.tree_.n_node_samples >= 100).all() for t in few.estimators_[:, 0])
    heavy = regressor(min_hessian_leaf=120.0).fit(X, y)
    assert all((t.tree_.n_node_samples >= 120).all() for t in heavy.estimators_[:, 0])
    heavier = regressor(min_hessian_leaf=1e300).fit(X, y)
    assert all(t.get_n_leaves() == 1 for t in heavier.estimators_[:, 0])
    tiny, weights = 2.0**-1000, np.ones(len(y))
    scaled = regressor(min_hessian_leaf=60 * tiny, subsample=0.9).fit(X, y, weights * tiny)
    usual = regressor(min_hessian_leaf=60.0, subsample=0.9).fit(X, y, weights)
    assert scaled.fingerprint() == usual.fingerprint()
    light = regressor(min_hessian_leaf=1e-3).fit(X, y, sample_weight=np.full(len(y), 1e-310))
    assert all(t.get_n_leaves() == 1 for t in light.estimators_[:, 0])
    best = regressor(max_leaf_nodes=5, max_depth=None).fit(X, y)
    assert all(t.get_n_leaves() == 5 for t in best.estimators_[:, 0])
    drawn = regressor(max_features_per_tree=1, max_depth=3).fit(X, y)
    features = [set(t.tree_.feature[t.tree_.feature >= 0]) for t in drawn.estimators_[:, 0]]
    assert all(len(own) <= 1 for own in features) and len(set.union(*features)) > 1
    level = regressor(max_features_per_level=1, max_depth=3).fit(X, y)
    for t in level.estimators_[:, 0]:
        assert len(set(t.tree_.feature[1:3]) - {-2}) <= 1


# ---- outputs, weights, kinds of input ----------------------------------------------------------


def test_outputs_share_a_tree_or_have_one_tree_each():
    X, y = table()
    both = np.column_stack([y, -3 * y + X[:, 3]])
    shared = regressor().fit(X, both)
    assert shared.estimators_.shape == (10, 1) and shared.predict(X).shape == both.shape
    each = regressor(multi_strategy="one_output_per_tree").fit(X, both)
    assert each.estimators_.shape == (10, 2)
    assert min(shared.score(X, both), each.score(X, both)) > 0.5
    with pytest.raises(ValueError, match="whose outputs cannot share a tree"):
        regressor(multi_strategy="multi_output_tree", loss="absolute_error").fit(X, both)


def test_a_row_of_weight_two_is_the_row_twice():
    X, y = table(100)
    weights = np.random.default_rng(0).integers(0, 3, 100).astype(float)
    weighted = regressor(max_bins=255).fit(X, y, weights)
    repeated = regressor().fit(
        np.repeat(X, weights.astype(int), 0), np.repeat(y, weights.astype(int))
    )
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-9)


def test_class_weights_are_sample_weights():
    X, y = table(200, n_classes=2)  # one bin per value: weights do not move them
    by_class = classifier(class_weight={0: 1.0, 1: 5.0}).fit(X, y)
    by_row = classifier().fit(X, y, np.where(y == 1, 5.0, 1.0))
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    assert classifier(class_weight="balanced").fit(X, y).predict(X).mean() > 0


def test_categories_missing_values_and_datasets():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    kind, size = rng.choice(list("abcdefgh"), 400), rng.normal(size=400)
    effect = dict(zip("abcdefgh", rng.normal(size=8), strict=True))
    y = np.array([effect[k] for k in kind]) + (np.abs(size) > 1) + 0.1 * rng.normal(size=400)
    frame = pd.DataFrame({"kind": pd.Categorical(kind), "size": size})
    frame.loc[::7, "size"] = np.nan
    model = regressor(n_estimators=50).fit(frame, y)
    assert model.score(frame, y) > 0.9
    data = Dataset(frame)
    same = regressor(n_estimators=50).fit(data, y)
    assert same.fingerprint() == model.fingerprint()
    np.testing.assert_allclose(same.predict(data), model.predict(frame), rtol=1e-12)
    strings = classifier().fit(frame, np.where(y > 0, "high", "low"))
    assert set(strings.predict(frame)) <= {"high", "low"}


def test_models_survive_pickling_and_cloning():
    X, y = load_iris(return_X_y=True)
    model = classifier().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.fingerprint() == model.fingerprint()
    assert clone(model).fit(X, y).fingerprint() == model.fingerprint()
    assert model.apply(X).shape == (150, 10, 3)


def test_without_random_draws_the_seed_does_not_matter():
    X, y = table()
    X = np.column_stack([X, X[:, ::-1]])  # every column twice: the lower index wins ties
    models = [regressor(random_state=seed).fit(X, y) for seed in (0, 1)]
    np.testing.assert_array_equal(*[model.predict(X) for model in models])
    assert not models[0].feature_importances_[5:].any()


def test_importances_by_gain_and_by_count():
    X, y = table()
    model = regressor().fit(X, y)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_.argmax() == 2
    counts = model.set_params(importance_type="count").feature_importances_
    splits = sum(
        np.bincount(t.tree_.feature[t.tree_.feature >= 0], minlength=5)
        for t in model.estimators_[:, 0]
    )
    np.testing.assert_allclose(counts, splits / splits.sum())
    with pytest.raises(ValueError, match="importance_type must be one of 'gain', 'count'"):
        _ = model.set_params(importance_type="cover").feature_importances_


class LogCosh:
    """Loss log(cosh(raw - y))."""

    def gradient(self, y, raw):
        return np.tanh(raw - y)

    def hessian(self, y, raw):
        return np.ones_like(raw)  # an upper bound: the exact hessian gives too long Newton steps

    def loss(self, y, raw):
        return np.logaddexp(raw - y, y - raw) - np.log(2.0)


def test_a_custom_loss():
    X, y = table()
    model = regressor(loss=LogCosh(), n_estimators=60).fit(X, y)
    assert model.score(X, y) > 0.7 and (np.diff(model.train_score_) < 0).all()
    with pytest.raises(TypeError, match="must have the methods gradient"):
        regressor(loss=np.log).fit(X, y)


class Logistic:
    def gradient_hessian(self, y, raw):
        p = 1.0 / (1.0 + np.exp(-raw))
        return p - y, p * (1 - p)


def test_a_custom_loss_of_a_classifier_gives_probabilities():
    X, y = table(n_classes=2)
    own, built_in = classifier(loss=Logistic()).fit(X, y), classifier(init="zero").fit(X, y)
    np.testing.assert_allclose(own.predict_proba(X), built_in.predict_proba(X), atol=0.02)
    assert own.score(X, y) == pytest.approx(built_in.score(X, y), abs=0.02)
    probabilities = own.predict_proba(X)
    own.set_params(loss=SimpleNamespace(predict=np.exp))  # this model keeps its own loss
    np.testing.assert_array_equal(own.predict_proba(X), probabilities)


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([1], "eval_set must be a list of"),
        ([(np.zeros((3, 5)),)], "eval_set must be a list of"),
        ([(np.zeros((3, 4)), np.zeros(3))], "expecting 5 features"),
        ([(np.zeros((3, 5)), [0, 1, 7])], "which y of fit does not have"),
    ],
)
def test_bad_evaluation_sets_say_what_is_wrong(rows, message):
    X, y = table(n_classes=2)
    with pytest.raises(ValueError, match=message):
        classifier().fit(X, y, eval_set=rows)


def test_metrics_have_their_usual_names_too():
    X, y = table(200)
    rows = {"eval_set": (X, y)}
    names = ["rmse", "root_mean_squared_error", "neg_root_mean_squared_error"]
    found = regressor(n_estimators=3, eval_metric=names).fit(X, y, **rows).evals_result_
    scores = found["validation_0"]
    assert scores["rmse"] == scores["root_mean_squared_error"]
    assert scores["neg_root_mean_squared_error"] == [-each for each in scores["rmse"]]
    names = ["auc", "roc_auc", "logloss", "log_loss", "neg_log_loss"]
    classes = y > np.median(y)
    found = classifier(n_estimators=3, eval_metric=names).fit(X, classes, eval_set=(X, classes))
    scores = found.evals_result_["validation_0"]
    assert scores["auc"] == scores["roc_auc"] and scores["logloss"] == scores["log_loss"]
    stopped = regressor(n_iter_no_change=2, eval_metric="neg_mean_squared_error", tol=0.0)
    assert stopped.fit(X, y, **rows).n_estimators_ > 2  # larger is better


def test_a_metric_without_rows_warns():
    X, y = table(100)
    with pytest.warns(UserWarning, match=r"eval_metric='rmse' has no rows .* pass eval_set"):
        regressor(n_estimators=2, eval_metric="rmse").fit(X, y)
    regressor(n_estimators=2, eval_metric=[]).fit(X, y)
    with pytest.raises(ValueError, match="got 'neg_r2'"):
        regressor(eval_metric="neg_r2").fit(X, y, eval_set=(X, y))


def test_a_forgotten_offset_warns():
    X, y = table(100)
    model = regressor(n_estimators=2).fit(X, y, offset=np.ones(100))
    with pytest.warns(UserWarning, match=r"was fitted with an offset.* zeros if 0 is meant"):
        without = model.predict(X)
    np.testing.assert_array_equal(model.predict(X, offset=np.zeros(100)), without)
    regressor(n_estimators=2).fit(X, y, offset=np.zeros(100)).predict(X)
    with pytest.warns(UserWarning, match="a set of eval_set has none"):
        model.fit(X, y, offset=np.ones(100), eval_set=[(X, y)])
    with pytest.warns(UserWarning, match="before this warm start had an offset"):
        model.set_params(warm_start=True, n_estimators=3).fit(X, y)
    with pytest.warns(UserWarning, match="was fitted with an offset"):
        model.predict(X)


def test_an_init_can_take_weights_by_any_name():
    X, y = table(100)
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=2)
    model = regressor(init=search, n_estimators=2).fit(X, y, np.linspace(0.1, 1.0, 100))
    assert model.score(X, y) > 0.0
    with pytest.raises(ValueError, match="initial estimator KNeighborsRegressor does not support"):
        regressor(init=KNeighborsRegressor()).fit(X, y, np.ones(100))


def test_a_warm_start_can_begin_to_draw_rows():
    X, y = table(100)
    model = regressor(n_estimators=3, warm_start=True).fit(X, y)
    model.set_params(n_estimators=5, subsample=0.5).fit(X, y)
    assert not model.oob_improvement_[:3].any() and model.oob_scores_[3:].all()


# ---- scores that cannot be used ----------------------------------------------------------------


class WithoutLoss:
    """A loss of a user who gave only what a fit needs."""

    def gradient(self, y, raw):
        return raw - y

    def hessian(self, y, raw):
        return np.ones_like(raw)


def test_early_stopping_needs_numbers():
    X, y = table(200)
    model = regressor(loss=WithoutLoss(), n_iter_no_change=5)
    with pytest.raises(ValueError, match="got NaN after round 0: pass an eval_metric"):
        model.fit(X, y)
    model.set_params(eval_metric="rmse").fit(X, y)
    assert np.isfinite(model.validation_score_).all()


def test_metrics_of_one_name_are_an_error():
    def scaled(factor):
        return lambda truth, prediction: factor * np.abs(truth - prediction).mean()

    X, y = table(200)
    with pytest.raises(ValueError, match="needs different names"):
        regressor(eval_metric=[scaled(1), scaled(10)]).fit(X, y, eval_set=[(X, y)])
