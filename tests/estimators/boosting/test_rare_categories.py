"""Boosting groups rare categories with missing values."""

from __future__ import annotations

import numpy as np
import pytest

from gpuboost import GradientBoostingClassifier, GradientBoostingRegressor
from gpuboost.engine.losses import make_loss
from gpuboost.estimators.boosting.baseline import information_of_row
from tests import cuda_shim

N = 600


def regressor(**words):
    given = {"categorical_features": [0], "random_state": 0, "device": "numpy"}
    given |= {"min_samples_category": 10, **words}
    return GradientBoostingRegressor(**given)


def noisy(seed, n_levels=80, n=2 * N):
    """A target that depends weakly on many categories and on a numeric feature."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, n_levels, n), rng.normal(size=n)])
    effect = 0.3 * rng.normal(size=n_levels)
    return X, effect[X[:, 0].astype(int)] + 0.5 * X[:, 1] + rng.normal(size=n)


def test_grouping_noisy_categories_improves_the_score():
    increases = []
    for seed in range(4):
        X, y = noisy(seed)
        scores = [
            regressor(n_estimators=30, min_samples_category=least)
            .fit(X[:N], y[:N])
            .score(X[N:], y[N:])
            for least in (0, 10)
        ]
        increases.append(scores[1] - scores[0])
    assert min(increases) > 0.0
    assert np.mean(increases) > 0.03


def outlier(n_rows):
    """Ten categories; the last has ``n_rows`` rows, whose targets are far from all others."""
    rng = np.random.default_rng(0)
    level = np.append(rng.integers(0, 9, N - n_rows), np.full(n_rows, 9))
    return level[:, None].astype(float), np.where(level == 9, 100.0, 0.0) + rng.normal(size=N)


def leaf_of(model, level):
    return model.predict(np.array([[level]]))[0]


def test_a_category_of_few_rows_is_not_split_off_alone():
    X, y = outlier(9)
    model = regressor(n_estimators=20, max_depth=4).fit(X, y)
    rare, missing, unknown = (leaf_of(model, level) for level in (9.0, np.nan, 77.0))
    assert rare == missing == unknown
    assert rare < 40.0  # no leaf has rows of the rare category alone
    alone = regressor(n_estimators=20, max_depth=4, min_samples_category=9).fit(X, y)
    assert leaf_of(alone, 9.0) > 80.0
    assert leaf_of(alone, 9.0) != leaf_of(alone, np.nan)


@pytest.mark.parametrize("least", [10, 9.999 / N])
def test_a_category_of_enough_rows_is_split_off(least):
    X, y = outlier(10)
    model = regressor(n_estimators=20, min_samples_category=least).fit(X, y)
    assert leaf_of(model, 9.0) > 80.0


def test_rare_categories_are_counted_in_each_node():
    """A category with enough rows in the root is rare in a child where it has too few."""
    rng = np.random.default_rng(1)
    level, side = rng.integers(0, 6, N), rng.integers(0, 2, N)
    level[:16], side[:16] = 6, np.arange(16) % 2
    y = 50.0 * side * (level == 6) + 1000.0 * side + 0.01 * rng.normal(size=N)
    X = np.column_stack([level, side]).astype(float)
    model = regressor(n_estimators=1, max_depth=2, learning_rate=1.0)
    inner = model.set_params(min_samples_category=9).fit(X, y).predict([[6, 1], [np.nan, 1]])
    assert inner[0] == inner[1]
    assert inner[0] < 1020.0
    inner = model.set_params(min_samples_category=8).fit(X, y).predict([[6, 1], [np.nan, 1]])
    assert inner[0] - inner[1] > 40.0


def test_features_of_few_levels_and_numbers_have_no_rare_categories():
    X, y = noisy(0, n_levels=4, n=200)
    expected = regressor(n_estimators=5, min_samples_category=0).fit(X, y).fingerprint()
    assert regressor(n_estimators=5, min_samples_category=90).fit(X, y).fingerprint() == expected
    X, y = noisy(0, n_levels=5, n=200)
    expected = regressor(n_estimators=5, min_samples_category=0).fit(X, y).fingerprint()
    assert regressor(n_estimators=5, min_samples_category=90).fit(X, y).fingerprint() != expected
    numbers = {"n_estimators": 5, "categorical_features": None}
    expected = regressor(**numbers, min_samples_category=0).fit(X, y).fingerprint()
    assert regressor(**numbers, min_samples_category=90).fit(X, y).fingerprint() == expected


def test_all_categories_may_be_rare():
    X, y = noisy(0, n=200)
    model = regressor(n_estimators=3, min_samples_category=199).fit(X[:, :1], y)
    assert len(np.unique(model.predict(X[:, :1]))) == 1


@pytest.mark.parametrize(("n", "n_levels"), [(60, 6), (100, 10), (150, 12), (300, 20)])
def test_categories_of_small_tables_are_not_rare_by_default(n, n_levels):
    rng = np.random.default_rng(0)
    X = rng.integers(0, n_levels, (2 * n, 1)).astype(float)
    y = rng.normal(size=n_levels)[X[:, 0].astype(int)] + 0.1 * rng.normal(size=2 * n)
    model = regressor(min_samples_category="auto").fit(X[:n], y[:n])
    assert model.score(X[n:], y[n:]) > 0.9


def test_in_large_tables_a_category_needs_twenty_rows_by_default():
    n, rng = 4000, np.random.default_rng(0)
    level = np.append(rng.integers(0, 9, n - 19), np.full(19, 9))
    X, y = level[:, None].astype(float), np.where(level == 9, 100.0, 0.0) + rng.normal(size=n)
    words = {"n_estimators": 5, "learning_rate": 0.5}
    assert leaf_of(regressor(**words, min_samples_category="auto").fit(X, y), 9.0) < 70.0
    X[0], y[0] = 9.0, 100.0
    assert leaf_of(regressor(**words, min_samples_category="auto").fit(X, y), 9.0) > 90.0


def quiet_level(n_rows, n_counts, n):
    """Each count up to ``n_counts`` in a tenth of the rows; the last category has only zeros."""
    row = np.arange(n)
    level, count = np.where(row < n_rows, 9, row % 9), row % 10 + 1
    y = np.where((level == 9) | (count > n_counts), 0, count)
    return level[:, None].astype(float), y.astype(float)


# Numbers of rows whose hessians sum to 5 at the baseline: 5 / (0.1 * 0.9), 5 / 0.1, and
# 5 / ((0.09 + 0.09 + 0.16) / 3 * 3 / 2).
@pytest.mark.parametrize(
    ("loss", "n_counts", "rows"), [("log_loss", 1, 56), ("poisson", 1, 51), ("log_loss", 2, 30)]
)
def test_a_category_of_small_hessian_is_rare(loss, n_counts, rows):
    """A category is rare while its hessian at the baseline is below 5."""
    kind = GradientBoostingClassifier if loss == "log_loss" else GradientBoostingRegressor
    words = {"loss": loss, "n_estimators": 1, "categorical_features": [0], "device": "numpy"}
    for n_rows, is_rare in ((rows - 2, True), (rows + 3, False)):
        model = kind(**words).fit(*quiet_level(n_rows, n_counts, 6000))
        answer = model.predict if loss == "poisson" else model.predict_proba
        found = answer(np.array([[9.0], [np.nan]]))
        assert np.array_equal(found[0], found[1]) == is_rare


def test_a_constant_offset_does_not_change_which_categories_are_rare():
    words = {"loss": "poisson", "n_estimators": 1, "categorical_features": [0]}
    for n_rows, is_rare in ((49, True), (54, False)):
        X, y = quiet_level(n_rows, 1, 6000)
        model = GradientBoostingRegressor(**words, device="numpy")
        model.fit(X, y, offset=np.full(6000, 2.0))
        found = model.predict([[9.0], [np.nan]], offset=[0.0, 0.0])
        assert (found[0] == found[1]) == is_rare


def test_information_of_row_is_the_weighted_mean_hessian():
    to_module_of = np.log(np.random.default_rng(0).uniform(0.2, 1.0, (50, 1)))
    constant, weights = np.array([-2.0]), np.arange(50.0)
    poisson = make_loss("poisson")
    expected = np.average(np.exp(to_module_of[:, 0] - 2.0), weights=weights)
    found = information_of_row(poisson, constant, to_module_of, weights)
    assert found == pytest.approx(expected, rel=1e-12)
    assert information_of_row(poisson, constant, to_module_of, 4.0 * weights) == found
    assert information_of_row(poisson, constant, None, weights) == pytest.approx(np.exp(-2.0))
    for name in ("squared_error", "gamma", "tweedie", "huber"):
        assert information_of_row(make_loss(name), constant, to_module_of, weights) == 1.0


def test_rows_of_zero_weight_are_not_counted():
    """Rows of zero weight count neither as rows of a category nor as rows of the table."""
    X, y = outlier(9)
    more = np.concatenate([X, np.zeros((5 * N, 1))]), np.concatenate([y, np.zeros(5 * N)])
    weights = np.repeat([1.0, 0.0], [N, 5 * N])
    few = regressor(n_estimators=5, max_depth=4).fit(X, y)
    many = regressor(n_estimators=5, max_depth=4).fit(*more, sample_weight=weights)
    assert leaf_of(few, 9.0) == leaf_of(few, np.nan)
    assert leaf_of(many, 9.0) == leaf_of(many, np.nan)


@pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_rounds_on_the_device_keep_rare_categories_together(n_classes, monkeypatch):
    from gpuboost.backends.cuda.backend import CudaBackend
    from gpuboost.estimators.fitting import pipeline as template
    from tests.cuda.shim_runtime import ShimRuntime

    X, signal = noisy(2, n_levels=30, n=300)
    y = np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))
    words = {"categorical_features": [0], "random_state": 0, "n_estimators": 4, "max_depth": 4}
    words |= {"min_samples_category": 10}
    expected = GradientBoostingClassifier(**words, device="numpy").fit(X, y)
    without = GradientBoostingClassifier(
        **{**words, "min_samples_category": 0}, device="numpy"
    ).fit(X, y)
    assert without.fingerprint() != expected.fingerprint()
    backend = CudaBackend(ShimRuntime(order_seed=1))
    monkeypatch.setattr(template, "choose_backend", lambda device, work: backend)
    found = GradientBoostingClassifier(**words).fit(X, y)
    assert found.fingerprint() == expected.fingerprint()
    np.testing.assert_array_equal(found.train_score_, expected.train_score_)
