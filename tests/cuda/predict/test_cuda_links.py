"""Predictions of boosting on the device: inverse links by kernels, and no copies to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost import GradientBoostingClassifier, GradientBoostingRegressor
from gpuboost.backends.cuda.predict.inverse_links import inverse, log_probabilities
from gpuboost.engine.losses import links
from gpuboost.engine.losses.links import HALF_LOGIT, IDENTITY, LOG, LOGIT, SOFTMAX
from tests import cuda_shim
from tests.cuda.shim_runtime import ShimRuntime
from tests.fakes.fake_cupy import WAIT
from tests.fakes.gpu_arrays import to_cpu, to_gpu

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
LINKS = {"log": LOG, "logit": LOGIT, "half_logit": HALF_LOGIT, "softmax": SOFTMAX}


@pytest.mark.parametrize("flavour", ["plain", "race", "undefined", "guard"])
@pytest.mark.parametrize("name", LINKS)
def test_links_have_the_bits_of_the_engine(name: str, flavour: str) -> None:
    rng, link = np.random.default_rng(0), LINKS[name]
    widths = {"softmax": (3, 40), "log": (1, 2)}.get(name, (1,))
    for n, width in [(1, widths[0]), (700, widths[-1])]:
        raw = rng.normal(size=(n, width)) * 10.0 ** rng.uniform(-9, 3, (n, 1))
        raw[rng.random(raw.shape) < 0.1] = rng.choice([0.0, -0.0, 800.0, -800.0, 1e300])
        found = inverse(ShimRuntime(flavour, order_seed=3), link, raw)
        expected = link.inverse(raw)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found.view(np.uint64), expected.view(np.uint64))


CASES = [0.0, 5e-324, 1e-310, 2.0**-1022, 2.0**-1000, 1e-9, 0.3, np.nextafter(1.0, 0.0), 1.0]


@pytest.mark.parametrize("flavour", ["plain", "guard"])
def test_logarithms_of_probabilities(flavour: str) -> None:
    p = np.append(CASES, np.random.default_rng(0).random(601)).reshape(-1, 2)
    found, expected = log_probabilities(ShimRuntime(flavour), p), links.log_probabilities(p)
    np.testing.assert_array_equal(found.view(np.uint64), expected.view(np.uint64))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(expected, np.log(p), rtol=1e-15)


def test_the_identity_launches_nothing() -> None:
    runtime, raw = ShimRuntime(), np.ones((3, 2))
    assert inverse(runtime, IDENTITY, raw) is raw and not runtime.launches


def table(n_classes: int = 0, n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 4))
    signal = X[:, 0] * X[:, 1] + X[:, 2]
    if n_classes:
        return X, np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))
    return X, np.exp(0.5 * signal)


class Doubled:
    """A custom loss whose `predict` works on arrays of the host and of the device."""

    def gradient(self, y: Any, raw: Any) -> Any:
        return raw - y

    def hessian(self, y: Any, raw: Any) -> Any:
        return raw * 0.0 + 1.0

    def predict(self, raw: Any) -> Any:
        return (raw * 2.0).reshape(-1, 1)


MODELS: dict[str, tuple[int, dict[str, Any]]] = {
    "squared_error": (0, {}),
    "poisson": (0, {"loss": "poisson"}),
    "levels": (0, {"loss": "quantile", "alpha": [0.2, 0.8]}),
    "own": (0, {"loss": Doubled()}),
    "binary": (2, {}),
    "exponential": (2, {"loss": "exponential"}),
    "softmax": (3, {}),
    "trees of each class": (3, {"multi_strategy": "one_output_per_tree"}),
}


def fitted(name: str) -> tuple[Any, np.ndarray]:
    """A model fitted on the host, and its features."""
    n_classes, words = MODELS[name]
    kind = GradientBoostingClassifier if n_classes else GradientBoostingRegressor
    X, y = table(n_classes)
    return kind(n_estimators=3, max_depth=2, random_state=0, device="numpy", **words).fit(X, y), X


@pytest.mark.parametrize("name", MODELS)
def test_predictions_stay_on_the_device(name: str, copied: list[int], machine: Any) -> None:
    model, X = fitted(name)
    methods = ["predict", "predict_proba", "decision_function"]
    expected = {m: getattr(model, m)(X) for m in methods if hasattr(model, m)}
    staged = list(model.staged_predict(X))
    model.set_params(device="auto")
    given = to_gpu(X, 1)
    model.predict(given)  # copies the trees
    machine.events.clear()
    copied.clear()
    found = {method: getattr(model, method)(given) for method in expected}
    assert not copied
    assert machine.events.count(WAIT) <= 2 * len(expected), "copies of the baseline wait"
    for method, right in expected.items():
        assert found[method].device.id == 1
        np.testing.assert_array_equal(to_cpu(found[method]), right)
    for own, right in zip(model.staged_predict(given), staged, strict=True):
        assert machine.current == 0
        np.testing.assert_array_equal(to_cpu(own), right)
    assert machine.current == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_offsets_of_the_device_stay_there(dtype: Any, copied: list[int], machine: Any) -> None:
    X, y = table()
    offset = np.linspace(-1, 1, len(X)).astype(dtype)
    if dtype == np.float32:
        offset[::3] = 3e-45
    words = {"n_estimators": 2, "max_depth": 2, "loss": "poisson", "device": "numpy"}
    model = GradientBoostingRegressor(**words).fit(X, y, offset=offset)
    expected = model.predict(X, offset)
    model.set_params(device="auto")
    given, there = to_gpu(X), to_gpu(offset)
    model.predict(given, there)
    copied.clear()
    found = model.predict(given, there)
    assert max(copied, default=0) <= 1
    np.testing.assert_array_equal(to_cpu(found), expected)
    np.testing.assert_array_equal(to_cpu(model.predict(given, offset)), expected)
    model.set_params(device="numpy")
    np.testing.assert_array_equal(model.predict(X, there), expected)
    model.set_params(device="auto")
    with pytest.raises(ValueError, match=r"offset must hold finite numbers of shape \(120,\)"):
        model.predict(given, to_gpu(offset[:9]))
    with pytest.raises(ValueError, match="offset must hold finite numbers"):
        model.predict(given, to_gpu(offset * np.inf))
