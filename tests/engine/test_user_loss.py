"""Custom losses: how their methods are called, and errors about what they return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost.engine.losses import USER, make_loss, user_loss
from tests.engine.loss_cases import gradients, mean_loss, row_losses


class LogCosh:
    """Loss log(cosh(raw - y))."""

    def gradient(self, y: Any, raw: Any) -> Any:
        return np.tanh(raw - y)

    def hessian(self, y: Any, raw: Any) -> Any:
        return 1.0 - np.tanh(raw - y) ** 2


class Both:
    """Squared error of several columns, with all optional methods of a custom loss."""

    def gradient_hessian(self, y: Any, raw: Any) -> Any:
        return raw - y[:, None], np.ones_like(raw, dtype=np.float32)

    def loss(self, y: Any, raw: Any) -> Any:
        return ((raw - y[:, None]) ** 2).mean(axis=1)

    def predict(self, raw: Any) -> Any:
        return raw.sum(axis=1)

    def baseline(self, y: Any, weights: Any) -> Any:
        return np.average(y, weights=weights)


class Returns:
    """A loss whose methods return the given arrays."""

    def __init__(self, gradient: Any, hessian: Any = None, loss: Any = None) -> None:
        self.found = gradient, np.ones(3) if hessian is None else hessian
        self.rows = loss

    def gradient(self, y: Any, raw: Any) -> Any:
        return self.found[0]

    def hessian(self, y: Any, raw: Any) -> Any:
        return self.found[1]

    def loss(self, y: Any, raw: Any) -> Any:
        return self.rows


Y, RAW = np.array([1.0, 2.0, 3.0]), np.zeros((3, 1))


def test_a_custom_loss_of_one_column_gets_vectors() -> None:
    loss, weights = user_loss(LogCosh()), np.array([1.0, 2.0, 0.0])
    assert loss.formula == USER and not loss.constant_hessian
    g, h = gradients(loss, Y, RAW, weights)
    np.testing.assert_array_equal(g[:, 0], np.tanh(-Y) * weights)
    np.testing.assert_array_equal(h[:, 0], (1.0 - np.tanh(-Y) ** 2) * weights)
    np.testing.assert_array_equal(loss.baseline(Y), [0.0])
    np.testing.assert_array_equal(loss.predict(RAW), RAW)
    assert np.isnan(row_losses(loss, Y, RAW)).all() and np.isnan(mean_loss(loss, Y, RAW))


def test_a_custom_loss_with_all_optional_methods() -> None:
    loss, squares = user_loss(Both(), columns=2), make_loss("squared_error")
    raw, weights = np.arange(6.0).reshape(3, 2), np.array([1.0, 0.5, 0.25])
    g, h = gradients(loss, Y, raw, weights)
    assert g.dtype == h.dtype == np.float64
    for k in range(2):
        own_g, own_h = gradients(squares, Y, raw[:, [k]], weights)
        np.testing.assert_array_equal(g[:, [k]], own_g)
        np.testing.assert_array_equal(h[:, [k]], own_h)
    np.testing.assert_allclose(
        loss.baseline(Y, weights), np.full(2, np.average(Y, weights=weights))
    )
    np.testing.assert_array_equal(loss.predict(raw), raw.sum(axis=1))
    own = np.average(((raw - Y[:, None]) ** 2).mean(axis=1), weights=weights)
    assert mean_loss(loss, Y, raw, weights) == pytest.approx(own)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (Returns(np.ones((3, 1))), r"Returns\.gradient must return .*\(3,\), .*got shape \(3, 1\)"),
        (Returns([1.0, 2.0, 3.0]), r"Returns\.gradient .* got a list"),
        (Returns(np.ones(3), np.ones(2)), r"Returns\.hessian .* got shape \(2,\)"),
        (Returns(np.array([1.0, np.nan, 2.0])), r"gradient returned values that are not finite"),
        (Returns(np.ones(3), np.array([1.0, np.inf, 2.0])), r"hessian returned values that are"),
        (Returns(np.ones(3), np.array([1.0, -1.0, 2.0])), r"Returns\.hessian returned a negative"),
        (Returns(np.array(["a", "b", "c"])), r"must return real numbers, got <U1"),
    ],
)
def test_returned_arrays_are_checked(objective: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gradients(user_loss(objective), Y, RAW)


def test_losses_and_constants_are_checked() -> None:
    with pytest.raises(ValueError, match=r"Returns\.loss must return one value per row"):
        mean_loss(user_loss(Returns(np.ones(3), loss=1.0)), Y, RAW)
    objective = Both()
    objective.baseline = lambda y, weights: [1.0, 2.0, 3.0]  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"Both\.baseline must return 2 finite value"):
        user_loss(objective, 2).baseline(Y)
    objective.gradient_hessian = lambda y, raw: np.ones(3)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"gradient_hessian must return \(gradient, hessian\)"):
        gradients(user_loss(objective, 2), Y, np.zeros((3, 2)))


@pytest.mark.parametrize("objective", [None, "huber", object(), np.tanh])
def test_objects_without_the_methods_of_a_loss_are_refused(objective: Any) -> None:
    with pytest.raises(TypeError, match=r"must have the methods gradient\(y, raw\) and hessian"):
        user_loss(objective)
