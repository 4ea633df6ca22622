"""Boosting rounds of level-wise growth: chunks, tiles, panels, bundles and kinds of trees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numba.boosting import level_wise_rounds as level_rounds
from gpuboost.backends.numba.level_wise import grower as level_grow
from gpuboost.backends.numba.level_wise.histograms import ROWS_PER_CHECK
from gpuboost.engine.criteria import NEWTON
from gpuboost.engine.ensembles.boosting_task import BoostTask, RowSet
from gpuboost.engine.losses import make_loss
from gpuboost.engine.sampling import ALL_ROWS, WITHOUT_REPLACEMENT, RowSampler
from gpuboost.engine.task import Regularisation, TreeOptions
from tests.numba.booster.booster_rounds import (
    OUTPUTS,
    assert_same_rounds,
    binned,
    limit_words,
    loss_and_target,
    make_small,
)


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grow level-wise, in several chunks and with all threads, even with few rows."""
    make_small(monkeypatch)


@pytest.mark.parametrize("name", ["log_loss", "softmax", "squared_error", *OUTPUTS])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("subsample", [False, True])
def test_large_rounds(name: str, n_threads: int, subsample: bool) -> None:
    """There are many chunks, full partial sums, features of several panels, and bundles."""
    task = large_task(name, n_threads, subsample)
    assert assert_same_rounds(task, rounds=2).grows_by_levels


@pytest.mark.parametrize("min_samples_leaf", [1, 5])
@pytest.mark.parametrize("name", ["log_loss", *OUTPUTS])
def test_chunks_of_several_segments(
    name: str, min_samples_leaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With log loss, partial sums are flushed many times within the chunk of all rows."""
    monkeypatch.setattr(level_grow, "MIN_CHUNK_ROWS", 1 << 30)
    monkeypatch.setattr(level_rounds, "hessian_bits", lambda means, largest: least_bits(largest[1]))
    task = large_task(name, 3, False, n=13_000)
    task = replace(task, options=replace(task.options, min_samples_leaf=min_samples_leaf))
    assert level_rounds.shape_of(task).n_segments == 3
    assert assert_same_rounds(task, rounds=2).grows_by_levels


def least_bits(largest: int) -> int:
    return (ROWS_PER_CHECK * largest).bit_length() + 1


@pytest.mark.parametrize(
    ("size", "columns"),
    [("256K", 48), ("512K", 48), ("1024K", 64), ("1280K", 80), ("2048K", 128), ("16384K", 128)],
)
def test_tiles_fit_the_cache(size: str, columns: int, tmp_path: Path) -> None:
    file = tmp_path / "size"
    file.write_text(f"{size}\n")
    assert level_grow.columns_in_cache(file) == columns


def test_tiles_if_the_cache_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "size"
    assert level_grow.columns_in_cache(file) == 64
    for content in ("", "1M", "unknown"):
        file.write_text(content)
        assert level_grow.columns_in_cache(file) == 64


@pytest.mark.parametrize("name", ["log_loss", "squared_error"])
@pytest.mark.parametrize("min_samples_leaf", [1, 5])
def test_tiles_and_panels(
    name: str, min_samples_leaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are several tiles of several panels; the last panel is no whole number of words."""
    monkeypatch.setattr(level_grow, "TILE", 48)
    task = large_task(name, 3, False, n=13_000, wide=99)
    task = replace(task, options=replace(task.options, min_samples_leaf=min_samples_leaf))
    shape = level_rounds.shape_of(task)
    assert shape.n_tiles > 1 and shape.tile > level_grow.SMALL_TILE and shape.n_columns % 8
    assert assert_same_rounds(task, rounds=2).grows_by_levels


@pytest.mark.parametrize("name", ["log_loss", "squared_error"])
@pytest.mark.parametrize("min_samples_leaf", [1, 5])
def test_histograms_of_words(
    name: str, min_samples_leaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the histograms of a parent and its children, none, one, two or all three hold words."""
    limit = 2000
    limit_words(monkeypatch, limit)
    task = large_task(name, 3, False, n=8_000)
    task = replace(task, options=replace(task.options, min_samples_leaf=min_samples_leaf))
    assert assert_same_rounds(task, rounds=2).grows_by_levels
    booster = NumbaBackend().booster(task)
    tree = booster.boost(0, 0.3).read().trees[0]
    booster.close()
    parents = np.flatnonzero((tree.left > 0) & (tree.depths() < 4))
    counts = tree.count[[parents, tree.left[parents], tree.left[parents] + 1]]
    assert set((counts <= limit).sum(axis=0)) == {0, 1, 2, 3}


def large_task(
    name: str, n_threads: int, subsample: bool, n: int = 30_000, wide: int = 70
) -> BoostTask:
    """A fit with missing values; with 3 threads, also features of several panels, and bundles."""
    rng, n_features = np.random.default_rng(3), wide if n_threads == 3 else 6
    X = rng.standard_normal((n, n_features)).astype(np.float32)
    few = X[:, 4::2]
    few[:] = np.floor(few * rng.uniform(0.5, 3.0, few.shape[1]))
    X[rng.random(X.shape) < 0.1] = np.nan
    loss, y = loss_and_target(rng, X, name)
    matrix = binned(X, np.zeros(n_features, bool), None, 255)
    train = RowSet(matrix, y, None, np.zeros((n, loss.columns)))
    method, n_draws = (WITHOUT_REPLACEMENT, n // 2) if subsample else (ALL_ROWS, n)
    options = TreeOptions(
        NEWTON,
        max_depth=5,
        hashed_order=False,
        needs_gain=True,
        regularisation=Regularisation(l2=1.0),
    )
    return BoostTask(
        matrix,
        train,
        (),
        loss,
        options,
        1e-3,
        name in OUTPUTS,
        RowSampler(method, n, n_draws, 1),
        0,
        n_threads=n_threads,
        memory_budget=2**30,
    )


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("n_classes", "subsample"), [(3, False), (9, True), (17, False)])
def test_roots_of_many_trees(n_classes: int, n_threads: int, subsample: bool) -> None:
    """There are complete and incomplete groups of eight trees, and a last block of few rows."""
    rng, n = np.random.default_rng(n_classes), 1100
    X = rng.standard_normal((n, 5)).astype(np.float32)
    X[:, 3:] = np.floor(X[:, 3:])
    y = np.argmax(
        X[:, :1] * np.linspace(-2, 2, n_classes) + rng.gumbel(size=(n, n_classes)), axis=1
    )
    y[:n_classes] = np.arange(n_classes)
    matrix, loss = (
        binned(X, np.zeros(5, bool), None, 255),
        make_loss("log_loss", n_classes=n_classes),
    )
    method, n_draws = (WITHOUT_REPLACEMENT, n // 2) if subsample else (ALL_ROWS, n)
    task = BoostTask(
        matrix,
        RowSet(matrix, y.astype(np.int32), None, np.zeros((n, n_classes))),
        (),
        loss,
        TreeOptions(
            NEWTON,
            max_depth=3,
            min_samples_leaf=4,
            hashed_order=False,
            needs_gain=True,
            regularisation=Regularisation(l2=1.0),
        ),
        1e-3,
        False,
        RowSampler(method, n, n_draws, 1),
        0,
        n_threads=n_threads,
        memory_budget=2**30,
    )
    assert assert_same_rounds(task, rounds=2).grows_by_levels


PARTS = ((0, 1, 2, 3, 4, 5, 12, 13), (5, 6, 7, 8, 9), (10, 11, 12, 19), (4, 14, 15, 16, 17, 18))
KINDS: dict[str, dict[str, Any]] = {
    "node": {"max_features": 1, "max_depth": 6, "hashed_order": True},
    "level": {"level_features": 4, "max_depth": 6},
    "interactions": {"interactions": PARTS, "max_depth": 6},
    "leaves": {"max_features": 3, "max_leaf_nodes": 25, "hashed_order": True},
    "deep": {"max_depth": 12, "min_samples_leaf": 5},
    "endless": {
        "interactions": PARTS,
        "level_features": 9,
        "max_features": 2,
        "hashed_order": True,
    },
}


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_trees(kind: str, n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are three tiles of features, of which most cannot split; one tree per class."""
    for limit in ("TILE", "SMALL_TILE"):
        monkeypatch.setattr(level_grow, limit, 8)
    monkeypatch.setattr(level_grow, "SHALLOW", 7)
    monkeypatch.setattr(level_grow, "SUBTREE_ROWS", 60)
    task = fit_of_kind(900, n_threads, KINDS[kind])
    found = assert_same_rounds(task, rounds=2)
    assert found.grows_by_levels
    small = level_rounds.shape_of(task).small
    assert (small > 0) == (kind in ("deep", "endless"))


def fit_of_kind(n: int, n_threads: int, options: dict[str, Any]) -> BoostTask:
    """Twenty columns: two dense ones and sparse ones, of which some have few values."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n, 20)).astype(np.float32)
    X[:, 2:] *= rng.random((n, 18)) < 0.06
    X[:, 6:10] = np.sign(X[:, 6:10])
    X[rng.random(X.shape) < 0.01] = np.nan
    X[:, 12:] = np.nan_to_num(X[:, 12:])
    score = np.nan_to_num(X) @ rng.standard_normal((20, 3)) + rng.gumbel(size=(n, 3))
    matrix, loss = binned(X, np.zeros(20, bool), None, 255), make_loss("log_loss", n_classes=3)
    limits: dict[str, Any] = {"hashed_order": False, "needs_gain": True} | options
    return BoostTask(
        matrix,
        RowSet(matrix, np.argmax(score, axis=1).astype(np.int32), None, np.zeros((n, 3))),
        (),
        loss,
        TreeOptions(NEWTON, regularisation=Regularisation(l2=1.0), **limits),
        1e-3,
        False,
        RowSampler(ALL_ROWS, n, n, 1),
        0,
        n_threads=n_threads,
        memory_budget=2**28,
    )
