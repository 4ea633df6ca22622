"""Tasks for the Numba backend, and the comparison of its trees with NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.data.binning import bin_columns
from gpuboost.engine import criteria
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import find_thresholds, finish_tree
from gpuboost.engine.quantise import class_target, value_target
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.task import GrowTask, TreeOptions
from tests.binning import fit_bin_mapper
from tests.engine.exact import assert_same_fields


def noted_calls(monkeypatch: pytest.MonkeyPatch, module: Any, *names: str) -> list[str]:
    """A list to which each call of the named functions of a module appends the name."""
    calls: list[str] = []

    def noting(name: str) -> Any:
        function = getattr(module, name)

        def noted(*arguments: Any) -> Any:
            calls.append(name)
            return function(*arguments)

        return noted

    for name in names:
        monkeypatch.setattr(module, name, noting(name))
    return calls


def synth(n: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns, and a noisy function of the first six as the target."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, max(n_features, 6))).astype(np.float32)
    z = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3] ** 2 - 1 + 0.5 * X[:, 4] * (X[:, 5] > 0)
    return X[:, :n_features].copy(), z + rng.standard_normal(n)


def make_task(
    X: np.ndarray,
    y: np.ndarray,
    n_classes: int = 0,
    weights: np.ndarray | None = None,
    method: str = "bootstrap",
    n_trees: int = 2,
    n_threads: int = 1,
    categorical: tuple[int, ...] = (),
    **options: Any,
) -> GrowTask:
    """A task on ``X``; it is a regression if ``n_classes`` is 0."""
    n, n_features = X.shape
    kinds = np.isin(np.arange(n_features), categorical)
    mapper = fit_bin_mapper(X, kinds)
    sampler = RowSampler(method, n, n, 7, weights)
    if n_classes:
        target = class_target(y, n_classes, sampler.weight_facts)
    else:
        columns = y.reshape(n, -1).astype(np.float64)
        target = value_target(columns, sampler.weight_facts)
    matrix = bin_columns(X, mapper)
    limits = TreeOptions(**{"criterion": criteria.VARIANCE, **options})
    drawn = (sampler.rows, range(n_trees), 7)
    return GrowTask(matrix, target, limits, *drawn, n_threads=n_threads, sampler=sampler)


def assert_same_trees(task: GrowTask) -> None:
    """Assert that Numba's trees equal NumPy's in all fields and in their thresholds."""
    pairs = zip(NumbaBackend().grow(task), NumpyBackend().grow(task), strict=True)
    for (tree, found), (expected_tree, expected) in pairs:
        assert tree == expected_tree
        assert_same_fields(found, expected, "grown tree")
        mapper = task.matrix.mapper
        own, reference = (
            NumbaBackend.threshold_finder(found, mapper),
            find_thresholds(found, mapper),
        )
        assert_same_fields(own, reference, "routes")


def ensemble_of(task: GrowTask) -> Ensemble:
    """The trees of a task, grown and finished."""
    return Ensemble.of(
        [
            finish_tree(grown, task.matrix.mapper, task.target, task.rows_of(tree), task.options)
            for tree, grown in NumbaBackend().grow(task)
        ]
    )
