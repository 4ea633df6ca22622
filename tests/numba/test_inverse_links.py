"""Compiled inverse links have the bits of `engine.losses.links`."""

from __future__ import annotations

import numpy as np
import pytest

from gpuboost.backends import device_arrays
from gpuboost.backends.cache import PREDICT
from gpuboost.backends.numba.predict.inverse_links import inverse
from gpuboost.engine.losses.links import HALF_LOGIT, IDENTITY, LOG, LOGIT, SOFTMAX

LINKS = {
    "identity": (IDENTITY, 2),
    "log": (LOG, 3),
    "logit": (LOGIT, 1),
    "half logit": (HALF_LOGIT, 1),
    "softmax": (SOFTMAX, 4),
}


@pytest.mark.parametrize("name", LINKS)
def test_bits(name: str) -> None:
    link, n_columns = LINKS[name]
    rng = np.random.default_rng(0)
    special = np.array([0.0, -0.0, 1e-320, 36.7, -745.0, 1e308, -1e308, 300.0, np.nan])
    raw = rng.normal(scale=rng.choice([0.1, 5.0, 200.0], (3000, 1)), size=(3000, n_columns))
    raw[:500] = rng.choice(special, (500, n_columns))
    with np.errstate(all="ignore"):
        expected = link.inverse(raw)
    for given in (raw, np.asfortranarray(raw)):
        found = inverse(link, given)
        assert found.shape == expected.shape
        assert np.array_equal(found, expected, equal_nan=True)
        assert np.array_equal(np.signbit(found), np.signbit(expected))


def test_they_are_used_once_numba_predicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_arrays, "numba_runs", lambda program: False)
    raw = np.zeros((1, 1))
    assert device_arrays.inverse_link(LOGIT, raw).tolist() == [[0.5, 0.5]]
    calls: list[object] = []
    monkeypatch.setattr(device_arrays, "numba_runs", lambda program: program == PREDICT)
    monkeypatch.setattr(
        device_arrays, "_compiled_inverse", lambda: lambda *given: calls.append(given)
    )
    device_arrays.inverse_link(LOGIT, raw)
    assert calls == [(LOGIT, raw)]
