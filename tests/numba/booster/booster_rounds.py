"""Rounds of boosting that Numba and NumPy grow, and limits that let few rows count as many."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from gpuboost.backends.host.boosting import HostBooster
from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numba.boosting import level_wise_rounds as level_rounds
from gpuboost.backends.numba.boosting.booster import NumbaBooster
from gpuboost.backends.numba.boosting.level_wise_rounds import LevelRounds
from gpuboost.backends.numba.level_wise import grower as level_grow
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.data.binning import bin_columns
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.losses import make_loss
from tests.binning import fit_bin_mapper

CLASSES = ("log_loss", "exponential")
OUTPUTS = {"several squares": "squared_error", "several counts": "poisson"}


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (level_rounds, level_grow):
        monkeypatch.setattr(module, "ALL_SMALL", 1)
    monkeypatch.setattr(level_rounds, "MAX_PASSED_OVER", 1000)
    monkeypatch.setattr(level_grow, "MIN_CHUNK_ROWS", 16)
    monkeypatch.setattr(level_grow, "SEGMENT_ROWS", 16)
    monkeypatch.setattr(level_grow, "TILE", 128)  # else it depends on the machine's L2 cache
    monkeypatch.setattr(level_grow, "SHARED_CELLS", 0)
    monkeypatch.setattr(level_grow, "SHALLOW", 2)
    monkeypatch.setattr(level_grow, "SMALL_MEAN", 100)
    monkeypatch.setattr(level_grow, "SUBTREE_ROWS", 12)
    monkeypatch.setattr(level_grow, "CHANNELS_MEAN", 1)


def assert_equal_fields(found: Any, expected: Any) -> None:
    for column in fields(expected):
        have, want = getattr(found, column.name), getattr(expected, column.name)
        assert have.dtype == want.dtype, column.name
        assert np.array_equal(have, want, equal_nan=have.dtype.kind == "f"), column.name


def limit_words(patch: pytest.MonkeyPatch, limit: int) -> None:
    """Let only histograms of nodes with at most ``limit`` rows hold words."""
    pack = LevelRounds._pack

    def with_limit(self: LevelRounds, *given: Any) -> Any:
        samples = pack(self, *given)
        return samples._replace(rows_in_word=min(limit, samples.rows_in_word))

    patch.setattr(LevelRounds, "_pack", with_limit)


def binned(X: np.ndarray, categorical: np.ndarray, weights: Any, max_bins: int) -> Any:
    return bin_columns(X, fit_bin_mapper(X, categorical, max_bins, weights))


def binned_as(X: np.ndarray, matrix: Any) -> Any:
    return bin_columns(X, matrix.mapper)


def loss_and_target(rng: np.random.Generator, X: np.ndarray, name: str) -> tuple[Any, Any]:
    signal = np.clip(np.nan_to_num(X[:, 0].astype(np.float64)), -2, 2)
    noisy = signal + rng.standard_normal(len(X))
    if name == "softmax":
        y = np.clip(np.rint(noisy + 1.5), 0, 3).astype(np.int32)
        return make_loss("log_loss", n_classes=4), y
    if name in CLASSES:
        return make_loss(name, n_classes=2), (noisy > 0).astype(np.int32)
    if name in OUTPUTS:
        counts = rng.poisson(np.exp(signal)[:, None] * (0.5, 1.0, 2.0)).astype(np.float64)
        return make_loss(OUTPUTS[name], n_outputs=3), counts
    if name == "poisson":
        return make_loss(name), rng.poisson(np.exp(signal)).astype(np.float64)
    return make_loss(name), noisy


def assert_same_rounds(task: BoostTask, rounds: int = 3) -> NumbaBooster:
    found, expected = NumbaBackend().booster(task), HostBooster(NumpyBackend(), task)
    assert isinstance(found, NumbaBooster)
    for number in range(rounds):
        one, other = found.boost(number, 0.3).read(), expected.boost(number, 0.3)
        for have, want in zip(one.trees, other.trees, strict=True):
            assert_equal_fields(have, want)
        for place in range(1 + len(task.watched)):
            assert np.array_equal(found.raw_predictions(place), expected.raw_predictions(place))
        assert one.losses == other.losses
    found.close()
    return found
