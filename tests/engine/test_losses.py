"""Losses: gradients, hessians, baselines, and the targets that are refused."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn._loss import loss as oracles

from gpuboost.engine.losses import Loss, Predicted, formulas, make_loss
from gpuboost.engine.losses.averages import weighted_mean
from gpuboost.engine.losses.base import as_columns
from gpuboost.engine.losses.regression import Quantile, QuantileBaseline
from tests.engine.loss_cases import (
    LEVELS,
    MAKERS,
    assert_same_bits,
    each_loss,
    gradients,
    mean_loss,
    row_losses,
    sample,
)

PROPERTY = settings(deadline=None, max_examples=40, print_blob=True)


def softmax_of(n_classes: int) -> Loss:
    """Log loss by softmax, also for two classes."""
    return replace(make_loss("log_loss", n_classes=3), columns=n_classes)


# ---- derivatives -------------------------------------------------------------------------------


def units(loss: Loss) -> float:
    """Factor between a row's loss and the function that its gradient is the derivative of."""
    of_two_classes = loss.facts.name == "log_loss" and not loss.takes_rows
    return 2.0 if loss.facts.name == "squared_error" or of_two_classes else 1.0


@each_loss
def test_gradients_are_differences_of_losses(kind: str) -> None:
    loss = MAKERS[kind]()
    y, raw, _ = sample(loss)
    raw = raw + 0.01234  # away from kinks
    parameter = loss.round_parameter(Predicted(y, raw))
    g, _ = gradients(loss, y, raw, None, parameter)
    # The loss of a row is the mean over its columns, except for softmax.
    share = 1.0 if loss.takes_rows else 1.0 / loss.columns
    for k in range(loss.columns):
        step = np.zeros(loss.columns)
        step[k] = 1e-5
        increase = row_losses(loss, y, raw + step, parameter) - row_losses(
            loss, y, raw - step, parameter
        )
        expected = increase / 2e-5 / units(loss) / share
        np.testing.assert_allclose(g[:, k], expected, rtol=2e-5, atol=2e-6)


@each_loss
def test_hessians_are_differences_of_gradients_or_bound_the_step(kind: str) -> None:
    loss = MAKERS[kind]()
    y, raw, _ = sample(loss)
    parameter = loss.round_parameter(Predicted(y, raw))
    g, h = gradients(loss, y, raw, None, parameter)
    if loss.constant_hessian:
        np.testing.assert_array_equal(h, 1.0)
        return
    factor = loss.columns / (loss.columns - 1.0) if loss.takes_rows else 1.0
    raised = 0
    for k in range(loss.columns):
        step = np.zeros(loss.columns)
        step[k] = 1e-5
        increase = (
            gradients(loss, y, raw + step, None, parameter)[0]
            - gradients(loss, y, raw - step, None, parameter)[0]
        )
        expected = np.maximum(increase[:, k] / 2e-5, np.abs(g[:, k]) / formulas.MAX_STEP) * factor
        np.testing.assert_allclose(h[:, k], expected, rtol=1e-5, atol=1e-8)
        raised += (np.abs(g[:, k]) >= h[:, k] / factor * formulas.MAX_STEP * (1 - 1e-12)).sum()
    if loss.hessian_is_information:
        assert 0 < raised < raw.size


ORACLES: dict[str, Any] = {
    "squared_error": oracles.HalfSquaredError(),
    "absolute_error": oracles.AbsoluteError(),
    "quantile": oracles.PinballLoss(quantile=0.7),
    "poisson": oracles.HalfPoissonLoss(),
    "gamma": oracles.HalfGammaLoss(),
    "tweedie": oracles.HalfTweedieLoss(power=1.3),
    "log_loss": oracles.HalfBinomialLoss(),
    "log_loss of classes": oracles.HalfMultinomialLoss(n_classes=5),
    "exponential": oracles.ExponentialLoss(),
}


@pytest.mark.parametrize("kind", ORACLES)
def test_losses_match_those_of_scikit_learn(kind: str) -> None:
    loss, oracle = MAKERS[kind](), ORACLES[kind]
    y, raw, weights = sample(loss)
    their_raw = raw if loss.columns > 1 else raw[:, 0].copy()
    losses = oracle.loss(y_true=y.astype(np.float64), raw_prediction=their_raw)
    rows = row_losses(loss, y, raw) / units(loss)
    np.testing.assert_allclose(rows, losses, rtol=1e-12, atol=1e-12)
    g, h = gradients(loss, y, raw, weights)
    their_g, their_h = oracle.gradient_hessian(
        y_true=y.astype(np.float64), raw_prediction=their_raw, sample_weight=weights
    )
    their_g, their_h = (part.reshape(len(y), -1) for part in (their_g, their_h))
    np.testing.assert_allclose(g, their_g, rtol=1e-11, atol=1e-13)
    if not loss.constant_hessian:
        factor = loss.columns / (loss.columns - 1.0) if loss.takes_rows else 1.0
        their_h = np.maximum(their_h, np.abs(their_g) / formulas.MAX_STEP)
        np.testing.assert_allclose(h, their_h * factor, rtol=1e-10, atol=1e-13)
    theirs = oracle.predict_proba(their_raw) if loss.is_classifier else oracle.link.inverse(raw)
    np.testing.assert_allclose(loss.predict(raw), theirs, rtol=1e-13, atol=1e-15)


def test_huber_with_equal_delta_is_that_of_scikit_learn() -> None:
    loss = make_loss("huber", alpha=0.8)
    y, raw, weights = sample(loss)
    parameter = loss.round_parameter(Predicted(y, raw, weights))
    oracle = oracles.HuberLoss(delta=float(parameter[0]))
    np.testing.assert_allclose(
        row_losses(loss, y, raw, parameter), oracle.loss(y, raw[:, 0].copy()), rtol=1e-13
    )
    g, _ = gradients(loss, y, raw, weights, parameter)
    theirs = oracle.gradient(y, raw[:, 0].copy(), sample_weight=weights)
    np.testing.assert_allclose(g[:, 0], theirs, rtol=1e-13)
    beyond = np.abs(y - raw[:, 0]) > parameter
    assert weights[beyond].sum() <= 0.2 * weights.sum() <= weights[beyond].sum() + weights.max()


def test_log_cosh_matches_numpy_for_residuals_of_every_size() -> None:
    loss, sizes = make_loss("log_cosh"), np.exp2(np.linspace(-60, 9, 5000))
    x = np.concatenate([sizes, -sizes, [0.0, -0.0, 1e15, -1e300]])
    g, h = gradients(loss, np.zeros(len(x)), x[:, None])
    np.testing.assert_allclose(g[:, 0], np.tanh(x), rtol=1e-13)
    with np.errstate(over="ignore"):
        curve = 1.0 / np.cosh(x) ** 2
        expected = np.logaddexp(x, -x) - np.log(2.0)
    np.testing.assert_allclose(h[:, 0], np.maximum(curve, np.abs(g[:, 0]) / 8.0), rtol=1e-13)
    found = row_losses(loss, np.zeros(len(x)), x[:, None])
    small = np.abs(x) < 0.01
    np.testing.assert_allclose(found[~small], expected[~small], rtol=2e-11)
    near = x[small]
    np.testing.assert_allclose(found[small], near**2 / 2 - near**4 / 12, rtol=1e-9)
    assert (np.diff(found[: len(sizes)]) > 0).all() and (found[-4:-2] == 0).all()


# ---- constants and links -----------------------------------------------------------------------


@each_loss
@pytest.mark.parametrize("weighted", [False, True])
def test_baseline_is_the_best_constant(kind: str, weighted: bool) -> None:
    loss = MAKERS[kind]()
    y, _, weights = sample(loss)
    w = weights if weighted else None
    best = loss.baseline(y, w)
    assert best.shape == (loss.columns,) and best.dtype == np.float64
    if loss.facts.name in ("huber", "log_cosh"):  # start at the median
        medians = make_loss("absolute_error", n_outputs=loss.columns).baseline(y, w)
        np.testing.assert_array_equal(best, medians)
        return
    for k in range(loss.columns):

        def moved(value: float, k: int = k) -> float:
            raw = np.tile(best, (len(y), 1))
            raw[:, k] = value
            return mean_loss(loss, y, raw, w)

        found = minimize_scalar(moved, bracket=(best[k] - 0.7, best[k] + 0.6), tol=1e-9)
        assert moved(best[k]) <= found.fun * (1 + 1e-13) + 1e-13


@each_loss
def test_baseline_predicts_the_mean_or_the_shares(kind: str) -> None:
    loss = MAKERS[kind]()
    y, _, weights = sample(loss)
    predicted = loss.predict(loss.baseline(y, weights)[None, :])[0]
    if loss.is_classifier:
        shares = np.bincount(y, weights=weights) / weights.sum()
        np.testing.assert_allclose(predicted, shares, rtol=1e-12)
    elif not isinstance(loss, QuantileBaseline):
        means = np.average(as_columns(y), axis=0, weights=weights)
        np.testing.assert_allclose(predicted, means, rtol=1e-12)


def test_a_class_without_weight_has_a_finite_baseline() -> None:
    y = np.array([0, 0, 1, 2], dtype=np.int32)
    weights = np.array([1.0, 1.0, 1.0, 0.0])
    assert np.isfinite(make_loss("log_loss", n_classes=3).baseline(y, weights)).all()
    assert np.isfinite(make_loss("log_loss", n_classes=2).baseline(y // 2, weights)).all()
    assert np.isfinite(make_loss("exponential", n_classes=2).baseline(y // 2, weights)).all()


@each_loss
def test_order_of_rows_does_not_matter(kind: str) -> None:
    loss = MAKERS[kind]()
    y, raw, weights = sample(loss)
    parameter = loss.round_parameter(Predicted(y, raw, weights))
    order = np.random.default_rng(3).permutation(len(y))
    a, b = (y, raw, weights), (y[order], raw[order], weights[order])
    assert_same_bits(loss.baseline(a[0], a[2]), loss.baseline(b[0], b[2]))
    assert_same_bits(parameter, loss.round_parameter(Predicted(*b)))
    assert mean_loss(loss, *a, parameter) == mean_loss(loss, *b, parameter)


def test_softmax_of_two_columns_is_the_binary_loss() -> None:
    """Columns that move by s and -s move the log-odds by 2 s; times (K - 1) / K, that is s."""
    softmax, binary = softmax_of(2), make_loss("log_loss", n_classes=2)
    y, raw, weights = sample(binary, 1000)
    halves = np.column_stack([-0.5 * raw[:, 0], 0.5 * raw[:, 0]])
    g2, h2 = gradients(softmax, y, halves, weights)
    g, h = gradients(binary, y, raw, weights)
    np.testing.assert_allclose(g2, np.column_stack([-g, g]), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(h2, 2.0 * np.column_stack([h, h]), rtol=1e-11, atol=1e-14)
    leaf = -g2.sum(axis=0) / h2.sum(axis=0)
    np.testing.assert_allclose(leaf[1] - leaf[0], -g.sum() / h.sum(), rtol=1e-12)
    np.testing.assert_allclose(softmax.predict(halves), binary.predict(raw), rtol=1e-13)
    rows = row_losses(binary, y, raw)
    np.testing.assert_allclose(2.0 * row_losses(softmax, y, halves), rows, rtol=1e-11, atol=1e-14)


# ---- properties --------------------------------------------------------------------------------


@PROPERTY
@given(st.sampled_from(sorted(MAKERS)), st.integers(0, 2**31), st.floats(0.01, 100.0))
def test_hessians_bound_the_step_of_every_row(kind: str, seed: int, spread: float) -> None:
    loss = MAKERS[kind]()
    y, raw, weights = sample(loss, 100, seed)
    g, h = gradients(loss, y, raw * spread, weights)
    assert (h >= 0.0).all()
    if not loss.constant_hessian:
        assert (np.abs(g) <= formulas.MAX_STEP * h * (1 + 1e-12)).all()


@PROPERTY
@given(st.integers(0, 2**31), st.integers(2, 9), st.floats(0.1, 1000.0))
def test_softmax_is_a_distribution(seed: int, n_classes: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    loss = softmax_of(n_classes)
    raw, y = rng.normal(size=(50, n_classes)) * spread, rng.integers(0, n_classes, 50)
    probabilities = loss.predict(raw)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)
    g, _ = gradients(loss, y.astype(np.int32), raw)
    np.testing.assert_allclose(g.sum(axis=1), 0.0, atol=1e-14)
    np.testing.assert_allclose(loss.predict(raw + 3.0), probabilities, rtol=1e-11, atol=1e-300)


@PROPERTY
@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6)), min_size=1, max_size=40),
    st.randoms(),
)
def test_weighted_mean_is_accurate_in_any_order(
    rows: list[tuple[float, float]], random: Any
) -> None:
    values, weights = np.array(rows).T
    found = weighted_mean(values[:, None], weights)
    np.testing.assert_allclose(
        found, np.average(values, weights=weights), rtol=1e-12, atol=1e-12 * np.abs(values).max()
    )
    random.shuffle(rows)
    values, weights = np.array(rows).T
    assert_same_bits(weighted_mean(values[:, None], weights), found)


@each_loss
def test_models_are_pickled_with_their_loss(kind: str) -> None:
    loss = MAKERS[kind]()
    assert pickle.loads(pickle.dumps(loss)) == loss


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        (
            "poisson",
            [1.0, -2.0],
            r"loss='poisson' requires non-negative y .* got -2 in row 1; .*use",
        ),
        ("poisson", [0.0, 0.0], r"loss='poisson' requires .* sum\(y\) > 0, got only zeros"),
        ("gamma", [1.0, 0.0], r"loss='gamma' requires strictly positive y, got 0 in row 1"),
        ("tweedie", [-1.0, 0.0], r"loss='tweedie' requires non-negative y .* got -1 in row 0"),
    ],
)
def test_targets_out_of_range(name: str, y: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_loss(name).check_target(np.array(y))


@each_loss
def test_targets_in_range(kind: str) -> None:
    loss = MAKERS[kind]()
    loss.check_target(sample(loss)[0])


def test_positive_targets_of_zero_weight_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weighted sum is above 0 .*give weight to rows"):
        make_loss("poisson").baseline(np.array([0.0, 1.0]), np.array([1.0, 0.0]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "hinge"}, r"loss must be one of 'squared_error', .* got 'hinge'"),
        ({"name": "log_loss"}, r"for a regression, got 'log_loss'"),
        ({"name": "huber", "n_classes": 2}, r"'log_loss', 'exponential' for a classification"),
        ({"name": "exponential", "n_classes": 3}, r"but y has 3 classes; use loss='log_"),
        ({"name": "huber", "alpha": 1.0}, r"alpha of loss='huber' must be strictly .* got 1\.0"),
        ({"name": "quantile", "alpha": (0.5, 0)}, r"alpha of loss='quantile' .* got 0$"),
        ({"name": "quantile", "alpha": ()}, r"holds no level"),
        ({"name": "quantile", "alpha": "half"}, r"between 0 and 1, got 'h'"),
        ({"name": "quantile", "alpha": LEVELS, "n_outputs": 2}, r"3 levels and y with 2 columns"),
        ({"name": "tweedie", "power": 2.0}, r"between 1 and 2, got 2\.0; use loss='poisson'"),
    ],
)
def test_invalid_losses_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_loss(**given)


def test_one_quantile_level_serves_several_outputs() -> None:
    loss = make_loss("quantile", n_outputs=2, alpha=0.3)
    assert loss == Quantile(loss.facts, 2, quantile_levels=(0.3, 0.3))
    y = np.arange(20.0).reshape(10, 2)
    np.testing.assert_array_equal(loss.baseline(y), [5.0, 6.0])
