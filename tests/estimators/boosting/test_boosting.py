"""Gradient boosting: properties known from theory, rounds, and initial predictions."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.ensemble
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import d2_pinball_score, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from gpuboost import DecisionTreeRegressor
from gpuboost.explain import learning_curve
from tests.estimators.boosting.boosting_cases import classifier, regressor, table

LOSSES = (
    *("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"),
    "log_cosh",
)


# ---- theory ------------------------------------------------------------------------------------


def test_one_step_from_zero_with_squared_error_is_the_regression_tree():
    X, y = table()
    step = regressor(init="zero", learning_rate=1.0, n_estimators=1, max_depth=3).fit(X, y)
    tree = DecisionTreeRegressor(device="numpy", max_depth=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(step.estimators_[0, 0].tree_.feature, tree.tree_.feature)
    np.testing.assert_allclose(step.predict(X), tree.predict(X), rtol=1e-12)


def test_a_round_of_squared_error_fits_the_residuals():
    X, y = table()
    model = regressor(n_estimators=8, learning_rate=0.3, max_depth=3).fit(X, y)
    stages = [np.full(len(y), model.baseline_[0]), *model.staged_predict(X)]
    for trees, before in zip(model.estimators_, stages, strict=False):
        leaf = trees[0].apply(X)
        left = y - before
        for node in np.unique(leaf):
            mean = left[leaf == node].mean()
            np.testing.assert_allclose(
                trees[0].tree_.value[node, 0, 0], 0.3 * mean, rtol=1e-9, atol=1e-12
            )


def test_with_exact_bins_squared_error_is_scikit_learns():
    X, y = table(200)
    ours = regressor(n_estimators=20).fit(X, y)
    theirs = sklearn.ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.train_score_, theirs.train_score_, rtol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_training_loss_falls(loss):
    X, y = table()
    model = regressor(loss=loss, alpha=0.8).fit(X, y)
    assert (np.diff(model.train_score_) < 0).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_the_training_loss_of_classes_falls(n_classes, strategy):
    X, y = table(n_classes=n_classes)
    model = classifier(multi_strategy=strategy).fit(X, y)
    assert (np.diff(model.train_score_) < 0).all()
    assert model.estimators_[0, 0].get_n_leaves() > 1
    assert model.estimators_[0, 0].predict(X).shape[0] == len(X)
    per_round = n_classes if strategy == "one_output_per_tree" and n_classes > 2 else 1
    assert model.estimators_.shape == (10, per_round)
    assert model.score(X, y) > 0.7


def test_quantiles_have_their_coverage_out_of_sample():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(6000, 3))
    y = X[:, 0] + rng.normal(size=6000) * np.exp(X[:, 1])
    levels = [0.1, 0.5, 0.9]
    model = regressor(loss="quantile", alpha=levels, n_estimators=60, min_samples_leaf=50)
    below = y[3000:, None] <= model.fit(X[:3000], y[:3000]).predict(X[3000:])
    noise = np.sqrt(np.array(levels) * (1 - np.array(levels)) * (1 / 3000 + 1 / 3000))
    assert (np.abs(below.mean(axis=0) - levels) < 4 * noise).all()


def test_several_quantiles_equal_one_model_for_each():
    X, y = table()
    both = regressor(loss="quantile", alpha=[0.2, 0.8]).fit(X, y)
    assert both.predict(X).shape == (300, 2)
    alone = regressor(loss="quantile", alpha=0.2).fit(X, y)
    np.testing.assert_array_equal(both.predict(X)[:, 0], alone.predict(X))
    weights = np.arange(300.0)
    low, high = (
        d2_pinball_score(y, own, sample_weight=weights, alpha=level)
        for own, level in zip(both.predict(X).T, (0.2, 0.8), strict=True)
    )
    assert both.score(X, y, weights) == pytest.approx((low + high) / 2)
    assert both.score(X, y[:, None]) == both.score(X, y)
    curve = learning_curve(both, X, y, X_val=X, y_val=y)
    assert curve.metric == "D2 pinball" and curve.validation[-1] == pytest.approx(both.score(X, y))


def test_scores_are_those_of_the_fitted_levels():
    X, y = table()
    one, two = regressor().fit(X, y), regressor(loss="quantile", alpha=[0.2, 0.8]).fit(X, y)
    assert one.score(X, y[:, None]) == one.score(X, y) == r2_score(y, one.predict(X))
    found = two.score(X, y)
    two.set_params(alpha=[0.1, 0.5, 0.9])
    assert two.score(X, y) == found
    one.set_params(alpha=[0.2, 0.8])
    assert learning_curve(one, X, y, X_val=X, y_val=y).metric == "R2"


# ---- rounds ------------------------------------------------------------------------------------


def test_the_last_stage_is_the_prediction():
    X, y = table(n_classes=3)
    model = classifier().fit(X, y)
    *_, last = model.staged_decision_function(X)
    np.testing.assert_allclose(last, model.decision_function(X), rtol=1e-12)
    assert len(list(model.staged_predict(X))) == 10
    *_, last = model.staged_predict_proba(X)
    np.testing.assert_allclose(last, model.predict_proba(X), rtol=1e-9)
    np.testing.assert_allclose(last.sum(axis=1), 1.0)


@pytest.mark.parametrize("params", [{}, {"subsample": 0.5}, {"max_features": 2}])
def test_a_warm_start_is_one_fit(params):
    X, y = table()
    whole = regressor(**params).fit(X, y)
    parts = regressor(n_estimators=4, warm_start=True, **params).fit(X, y)
    parts.set_params(n_estimators=10).fit(X, y)
    assert len(parts.estimators_) == 10 and parts.n_estimators_ == 10
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), rtol=1e-9)
    np.testing.assert_allclose(parts.train_score_, whole.train_score_, rtol=1e-9)
    with pytest.raises(ValueError, match="n_estimators=3 must be larger or equal to the 10"):
        parts.set_params(n_estimators=3).fit(X, y)


def test_learning_rates_may_depend_on_the_round():
    X, y = table()
    asked = []

    def rate(number):
        asked.append(number)
        return 0.5 / (1 + number)

    model = regressor(learning_rate=rate, n_estimators=4).fit(X, y)
    assert asked == [0, 1, 2, 3]
    assert (
        model.train_score_[-1]
        > regressor(learning_rate=0.5, n_estimators=4).fit(X, y).train_score_[-1]
    )


def test_subsampling_gives_out_of_bag_scores():
    X, y = table()
    model = regressor(subsample=0.5).fit(X, y)
    assert model.oob_improvement_.shape == model.oob_scores_.shape == (10,)
    assert model.oob_improvement_[0] > 0 and model.oob_score_ == model.oob_scores_[-1]
    assert not hasattr(regressor().fit(X, y), "oob_improvement_")


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_each_rounds_draw(weighted):
    """Training and out-of-bag scores are computed from each round's own draw."""
    X, y = table()
    weights = np.arange(len(y), dtype=np.float64) if weighted else np.ones(len(y))
    model = regressor(subsample=0.3).fit(X, y, weights if weighted else None)
    sampler = model._model.batches[0].sampler
    before = np.full(len(y), model._model.baseline[0])
    for number, after in enumerate(model.staged_predict(X)):
        out = np.where(sampler.draw_counts(number) > 0, 0.0, weights)
        losses = [np.average((each - y) ** 2, weights=out) for each in (before, after)]
        np.testing.assert_allclose(model.oob_scores_[number], losses[1], rtol=1e-9)
        np.testing.assert_allclose(
            model.oob_improvement_[number], losses[0] - losses[1], rtol=1e-6, atol=1e-12
        )
        own = np.average((after - y) ** 2, weights=weights - out)
        np.testing.assert_allclose(model.train_score_[number], own, rtol=1e-9)
        before = after


def test_early_stopping_by_rows_set_aside():
    X, y = table(600)
    model = regressor(n_estimators=500, learning_rate=0.5, n_iter_no_change=3).fit(X, y)
    assert model.n_estimators_ < 100
    assert model.n_estimators_ == model.best_iteration_ + 4
    assert len(model.validation_score_) == model.n_estimators_
    assert model.validation_score_.argmin() == model.best_iteration_


@pytest.mark.parametrize("what", ["for early stopping", "to be fitted"])
def test_rows_set_apart_must_have_positive_weight(what):
    X, y = table(10)
    model = regressor(n_estimators=2, n_iter_no_change=1, validation_fraction=0.9, random_state=0)
    held_out = train_test_split(np.arange(10), test_size=0.9, random_state=0)[1]
    weights = np.zeros(10)
    weights[np.setdiff1d(np.arange(10), held_out) if what == "for early stopping" else held_out] = 1
    with pytest.raises(ValueError, match=f"validation_fraction=0.9 sets apart {what}.*drop rows"):
        model.fit(X, y, weights)


def test_early_stopping_by_an_evaluation_set_and_a_metric():
    X, y = table(600, n_classes=2)
    rest = (X[400:], y[400:])
    model = classifier(
        n_estimators=300, learning_rate=0.5, n_iter_no_change=5, eval_metric=["error", "auc"]
    ).fit(X[:400], y[:400], eval_set=[(X[:100], y[:100]), rest])
    assert list(model.evals_result_) == ["validation_0", "validation_1"]
    scores = model.evals_result_["validation_1"]
    assert list(scores) == ["log_loss", "error", "auc"]
    assert model.n_estimators_ < 300
    assert scores["auc"][model.best_iteration_] == max(scores["auc"])
    assert scores["auc"][-1] == roc_auc_score(rest[1], model.predict_proba(rest[0])[:, 1])


def test_custom_metrics_and_weights_of_evaluation_sets():
    X, y = table()
    weights = np.linspace(0, 1, len(y))

    def bias(truth, prediction, sample_weight=None):
        return np.average(prediction - truth, weights=sample_weight)

    model = regressor(eval_metric=[bias, "mse"]).fit(X, y, eval_set=[(X, y), (X, y, weights)])
    left = model.predict(X) - y
    plain, weighted = model.evals_result_.values()
    assert plain["bias"][-1] == pytest.approx(left.mean())
    assert weighted["bias"][-1] == pytest.approx(np.average(left, weights=weights))
    assert weighted["mse"][-1] == pytest.approx(np.average(left**2, weights=weights))
    np.testing.assert_allclose(plain["squared_error"], model.train_score_, rtol=1e-12)


def test_custom_metrics_get_weights_only_if_some_differ_from_one():
    X, y = table()

    def error(truth, prediction):
        return np.abs(truth - prediction).mean()

    def weighted(truth, prediction, sample_weight):
        return np.average(np.abs(truth - prediction), weights=sample_weight)

    early = {"n_iter_no_change": 2, "random_state": 0}
    model = regressor(eval_metric=error, **early).fit(X, y)
    held_out = train_test_split(np.arange(len(y)), test_size=0.1, random_state=0)[1]
    left = np.abs(y - model.predict(X))[held_out]
    assert model.evals_result_["validation"]["error"][-1] == pytest.approx(left.mean())
    regressor(eval_metric=error, **early).fit(X, y, np.ones(len(y)))
    weights = np.linspace(1, 2, len(y))
    regressor(eval_metric=weighted, **early).fit(X, y, weights)
    with pytest.raises(TypeError, match="sample_weight"):
        regressor(eval_metric=error, **early).fit(X, y, weights)


def test_callbacks_and_the_monitor_may_stop():
    X, y = table()
    seen = []
    model = regressor(callbacks=lambda told: seen.append(told.train_score) or told.number == 3)
    assert model.fit(X, y).n_estimators_ == 4 and len(seen) == 4
    np.testing.assert_array_equal(seen, model.train_score_)
    stopped = regressor().fit(X, y, monitor=lambda number, estimator, facts: number == 1)
    assert stopped.n_estimators_ == 2


# ---- initial predictions -----------------------------------------------------------------------


def test_offsets_are_added_to_raw_predictions():
    rng = np.random.default_rng(2)
    X, exposure = rng.normal(size=(2000, 3)), rng.uniform(0.1, 3.0, 2000)
    rate = np.exp(0.5 * X[:, 0] - 1.0)
    y = rng.poisson(rate * exposure).astype(float)
    offset = np.log(exposure)
    model = regressor(loss="poisson", n_estimators=40).fit(X, y, offset=offset)
    none = np.zeros(2000)
    rates = model.predict(X, offset=none)
    np.testing.assert_allclose(model.predict(X, offset=offset), rates * exposure, rtol=1e-9)
    assert np.corrcoef(np.log(rates), np.log(rate))[0, 1] > 0.9
    total = np.exp(offset + model.baseline_[0]).sum()
    assert total == pytest.approx(y.sum(), rel=1e-9)  # by the best constant
    shifted = regressor().fit(X, y, offset=offset)
    np.testing.assert_allclose(
        shifted.predict(X, offset=none),
        regressor().fit(X, y - offset).predict(X),
        rtol=1e-6,
        atol=1e-9,
    )
    with pytest.raises(ValueError, match=r"offset must hold finite numbers of shape \(2000,\)"):
        model.predict(X, offset=offset[:5])


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_init_may_be_an_estimator(n_classes):
    X, y = table(n_classes=n_classes)
    init = LogisticRegression() if n_classes else LinearRegression()
    make = classifier if n_classes else regressor
    model = make(init=init, learning_rate=1e-9).fit(X, y)
    alone = clone(init).fit(X, y)
    if n_classes:
        np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), rtol=1e-6)
    else:
        np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-6)
    with pytest.raises(ValueError, match=r"The 'init' parameter of .*'zero'"):
        make(init="one").fit(X, y)
