"""Bias and variance of learners whose bias and variance are known, and beside naive sums."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.dummy import DummyRegressor

import gpuboost
from gpuboost.explain import BiasVariance, bias_variance

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, (300, 2))
MEAN = np.sin(2 * X[:, 0]) + X[:, 1]
Y = MEAN + 0.5 * RNG.normal(size=300)
SHARES = np.array([0.7, 0.2, 0.1])
CLASSES = np.array(["a", "b", "c"])
LABELS = RNG.choice(CLASSES, 300, p=SHARES)
QUICK: dict[str, Any] = {"device": "numpy", "n_jobs": 1, "random_state": 0}


class Recorded(RegressorMixin, BaseEstimator):
    """Predicts the mean of the targets that it was fitted on, and records all predictions."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __sklearn_clone__(self) -> Recorded:
        return self

    def fit(self, X: np.ndarray, y: np.ndarray) -> Recorded:
        self.y_ = y
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        self.log.append((X, self._guess(len(X))))
        return self.log[-1][1]

    def _guess(self, n: int) -> np.ndarray:
        return np.full(n, np.mean(self.y_))


class Guess(ClassifierMixin, Recorded):
    """Predicts the class of a random row that it was fitted on."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Recorded:
        self.random_ = np.random.default_rng(len(self.log))
        return super().fit(X, y)

    def _guess(self, n: int) -> np.ndarray:
        return self.random_.choice(self.y_, n)


def by_row(log: list[Any], X: np.ndarray) -> list[list[Any]]:
    """The recorded predictions of each row."""
    place = {row.tobytes(): number for number, row in enumerate(X)}
    found: list[list[Any]] = [[] for _ in X]
    for rows, predictions in log:
        for row, prediction in zip(rows, predictions, strict=True):
            found[place[row.tobytes()]].append(prediction)
    return found


def naive_squared(found: list[list[float]], y: np.ndarray, best: np.ndarray) -> list[float]:
    """Loss, bias, variance and noise, row by row."""
    parts = []
    for own, target, truth in zip(found, y, best, strict=True):
        if len(own) >= 2:
            main, k = sum(own) / len(own), len(own)
            variance = sum((each - main) ** 2 for each in own) / (k - 1)
            loss = sum((each - target) ** 2 for each in own) / k
            parts.append(
                (loss, (truth - main) ** 2 - variance / k, variance, (target - truth) ** 2)
            )
    return np.mean(parts, axis=0).tolist()


def naive_zero_one(found: list[list[str]], y: np.ndarray, best: np.ndarray) -> list[float]:
    """Domingos's parts row by row: loss, bias, variance, c2 times variance, noise."""
    parts = []
    for own, target, truth in zip(found, y, best, strict=True):
        if len(own) >= 2:
            counts = Counter(own)
            main = max(sorted(counts), key=counts.__getitem__)
            differs = [each for each in own if each != main]
            variance = len(differs) / len(own)
            c2 = 1.0 if main == truth else -sum(e == truth for e in differs) / max(len(differs), 1)
            loss = sum(each != target for each in own) / len(own)
            parts.append((loss, main != truth, variance, c2 * variance, target != truth))
    return np.mean(parts, axis=0).tolist()


@pytest.mark.parametrize("has_test", [False, True])
def test_squared_error_beside_naive_sums(has_test: bool) -> None:
    log: list[Any] = []
    rows = {"X_test": X[200:], "y_test": Y[200:]} if has_test else {}
    predicted = slice(200, None) if has_test else slice(200)
    truth = MEAN[predicted]
    found = bias_variance(Recorded(log), X[:200], Y[:200], 12, **rows, truth=truth, random_state=4)
    own = by_row(log, X[predicted])
    expected = naive_squared(own, Y[predicted], truth)
    parts = [found.loss, found.bias, found.variance, found.noise]
    np.testing.assert_allclose(parts, expected, rtol=1e-12)
    assert found.net_variance == found.variance
    assert found.n_rows == sum(len(each) >= 2 for each in own)
    if has_test:
        assert {len(each) for each in own} == {12}


def test_zero_one_loss_beside_naive_sums() -> None:
    log: list[Any] = []
    truth = np.where(X[:, 0] > 0, "a", "b")
    found = bias_variance(Guess(log), X, LABELS, 15, truth=truth, random_state=0)
    own = by_row(log, X)
    expected = naive_zero_one(own, LABELS, truth)
    parts = [found.loss, found.bias, found.variance, found.net_variance, found.noise]
    np.testing.assert_allclose(parts, expected, rtol=1e-12)
    without = bias_variance(Guess([]), X, LABELS, 15, random_state=0)
    assert without.noise is None and without.loss == found.loss
    assert without.loss == pytest.approx(without.bias + without.net_variance, abs=1e-12)


def test_the_mean_has_the_bias_and_the_variance_that_theory_gives() -> None:
    """The mean of a bootstrap sample has the variance s**2 / n and no noise of its own."""
    rows = {"X_test": X, "y_test": Y, "truth": MEAN}
    found = bias_variance(DummyRegressor(), X, Y, 400, **rows, random_state=0)
    assert found.variance == pytest.approx(Y.var() / len(Y), rel=0.25)
    assert found.bias == pytest.approx(((MEAN - Y.mean()) ** 2).mean(), rel=0.02)
    assert found.noise == pytest.approx(((Y - MEAN) ** 2).mean())
    assert found.noise == pytest.approx(0.25, rel=0.25)
    # The three parts are the loss but for the noise's correlation with the bias.
    correlation = 2.0 * ((Y - MEAN) * (MEAN - Y.mean())).mean()
    total = found.bias + found.variance + found.noise + correlation
    assert found.loss == pytest.approx(total, rel=0.01)


def test_random_guesses_have_the_variance_of_the_classes() -> None:
    """A class that is drawn by the shares p has main prediction argmax p, variance 1 - max p."""
    truth = np.full(300, "a")
    found = bias_variance(Guess([]), X, LABELS, 400, truth=truth, random_state=1)
    p = np.array([np.mean(each == LABELS) for each in CLASSES])
    assert found.bias == 0.0 and found.noise == pytest.approx(1.0 - p[0])
    assert found.variance == found.net_variance == pytest.approx(1.0 - p[0], abs=0.01)
    assert found.loss == pytest.approx(1.0 - (p * p).sum(), abs=0.01)
    without = bias_variance(Guess([]), X, LABELS, 400, random_state=1)
    assert without.bias == pytest.approx(1.0 - p[0])
    # Rows of other classes are right by variance only.
    assert without.net_variance == pytest.approx(p[0] * (1 - p[0]) - (p[1:] ** 2).sum(), abs=0.01)


def test_deep_trees_have_less_bias_and_more_variance() -> None:
    def parts(depth: int | None) -> BiasVariance:
        tree = gpuboost.DecisionTreeRegressor(max_depth=depth, **QUICK)
        return bias_variance(tree, X, Y, 25, truth=MEAN, random_state=0)

    shallow, deep = parts(1), parts(None)
    assert shallow.bias > 2 * deep.bias and deep.variance > 2 * shallow.variance
    for each in (shallow, deep):
        rest = each.loss - each.bias - each.variance
        assert rest == pytest.approx(each.noise, rel=0.2)
        assert each.n_rows == 300


def test_frames_datasets_and_seeds() -> None:
    pd = pytest.importorskip("pandas")
    tree = gpuboost.DecisionTreeClassifier(max_depth=2, **QUICK)
    found = [
        bias_variance(tree, given, LABELS, 5, random_state=seed)
        for given, seed in ((X, 0), (pd.DataFrame(X), 0), (X, 1))
    ]
    assert vars(found[0]) == vars(found[1]) != vars(found[2])
    own = bias_variance(tree, gpuboost.Dataset(X), LABELS, 5, random_state=0)
    assert own.n_rows == found[0].n_rows
    pl = pytest.importorskip("polars")
    lazy = pl.DataFrame(X, schema=["a", "b"]).lazy()
    for given in (coo_matrix(X), csr_matrix(X), lazy):
        assert vars(bias_variance(tree, given, LABELS, 5, random_state=0)) == vars(found[0])
        rows = {"X_test": given, "y_test": LABELS, "random_state": 0}
        expected = bias_variance(tree, X, LABELS, 2, **{**rows, "X_test": X})
        assert vars(bias_variance(tree, given, LABELS, 2, **rows)) == vars(expected)


def test_the_variance_contains_the_seed_if_it_is_none() -> None:
    """Without noise in the fits, only the seeds of splits make predictions differ."""

    class Whole(gpuboost.ExtraTreeRegressor):
        """Fitted on all rows, whatever the sample."""

        def fit(self, *_: Any) -> Whole:
            return super().fit(X, Y)

    params = {**QUICK, "max_depth": 2}
    found = [
        bias_variance(Whole(**{**params, "random_state": seed}), X, Y, 5, X_test=X, y_test=Y)
        for seed in (0, np.random.RandomState(0), None)
    ]
    assert max(found[0].variance, found[1].variance) < 1e-20 < 1e-4 < found[2].variance


def test_errors() -> None:
    tree = gpuboost.DecisionTreeRegressor(**QUICK)
    with pytest.raises(ValueError, match="n_bootstraps must be"):
        bias_variance(tree, X, Y, 1)
    with pytest.raises(ValueError, match="X_test and y_test belong together"):
        bias_variance(tree, X, Y, 2, X_test=X)
    with pytest.raises(ValueError, match="truth has 3 values, but 300 rows are predicted"):
        bias_variance(tree, X, Y, 2, truth=[1, 2, 3])
    with pytest.raises(ValueError, match=r"y must have the shape \(n_samples,\), got \(300, 2\)"):
        bias_variance(tree, X, X, 2)
    with pytest.raises(ValueError, match="no row was predicted by two of n_bootstraps=2"):
        bias_variance(tree, X[:1], Y[:1], 2)
    with pytest.raises(ValueError, match="X has 300 rows and y has 150"):
        bias_variance(tree, X, Y[:150], 2)
    with pytest.raises(ValueError, match="X has 150 rows and y has 300"):
        bias_variance(tree, X[:150], Y, 2)
    with pytest.raises(ValueError, match="X_test has 1 rows and y_test has 300"):
        bias_variance(tree, X, Y, 2, X_test=X[:1], y_test=Y)


@pytest.mark.parametrize("name", ["truth", "y_test"])
def test_classes_are_those_of_y(name: str) -> None:
    tree = gpuboost.DecisionTreeClassifier(max_depth=2, **QUICK)
    codes = (Y > 0).astype(int)
    rows = {"X_test": X, "y_test": codes}

    def parts(given: np.ndarray) -> BiasVariance:
        return bias_variance(tree, X, codes, 3, **{**rows, name: given}, random_state=0)

    with pytest.raises(ValueError, match=rf"{name} has the classes \['0', '1'\], which y"):
        parts(codes.astype(str))  # 1 is not "1"
    with pytest.raises(ValueError, match=rf"{name} has the classes \[2\], which y"):
        parts(codes + 1)
    assert vars(parts(codes.astype(float))) == vars(parts(codes))


@pytest.mark.parametrize("depth", [1, 3, None])
def test_beside_fits_on_new_samples(depth: int | None) -> None:
    rng = np.random.default_rng(0)

    def draw() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x = rng.uniform(-2, 2, 1000)
        return x[:, None], np.sin(3 * x), np.sin(3 * x) + 0.3 * rng.normal(size=1000)

    tree = gpuboost.DecisionTreeRegressor(max_depth=depth, **QUICK)
    x, truth, y = draw()
    found = bias_variance(tree, x, y, 20, truth=truth, random_state=0)
    new, mean, _ = draw()
    predictions = np.array([tree.fit(*draw()[::2]).predict(new) for _ in range(30)])
    variance = predictions.var(axis=0, ddof=1)
    bias = ((mean - predictions.mean(axis=0)) ** 2 - variance / 30).mean()
    assert found.loss == pytest.approx(bias + variance.mean() + 0.09, rel=0.3)
    if depth is None:  # the noise that bootstrap samples share counts as bias
        assert abs(bias) < 0.002 and 0.005 < found.bias < 0.03
    else:
        assert found.bias + found.variance == pytest.approx(bias + variance.mean(), rel=0.2)
