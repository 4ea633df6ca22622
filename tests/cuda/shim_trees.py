"""Trees grown by the CUDA kernels, run on the CPU, and their comparison with the reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.criteria import ENTROPY, MISCLASSIFICATION, POISSON, TWOING, VARIANCE
from gpuboost.engine.task import GrownTree, GrowTask
from tests.cuda.shim_runtime import ShimBackend, ShimRuntime
from tests.engine.exact import assert_same_fields
from tests.engine.harness import Problem, grow, make_columns, make_target, make_weights

PROPERTY = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
N = 120
TARGETS_AND_SCORES = [
    ("two classes", VARIANCE),
    ("two classes", ENTROPY),
    ("two classes", MISCLASSIFICATION),
    ("five classes", VARIANCE),
    ("five classes", ENTROPY),
    ("five classes", MISCLASSIFICATION),
    ("two classes", TWOING),
    ("five classes", TWOING),
    ("class outputs", VARIANCE),
    ("class outputs", ENTROPY),
    ("class outputs", MISCLASSIFICATION),
    ("class outputs", TWOING),
    ("values", VARIANCE),
    ("heavy values", VARIANCE),
    ("outputs", VARIANCE),
    ("counts", POISSON),
    ("amounts", POISSON),
]


class Recorder:
    """A backend that keeps its grown trees."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.grown: list[GrownTree] = []

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        for tree, grown in self.backend.grow(task):
            self.grown.append(grown)
            yield tree, grown


def problem(target: str, weights: str = "none", seed: int = 0, n: int = N, **given: Any) -> Problem:
    """Numeric and two categorical columns, of few and of many categories, with missing values."""
    rng = np.random.default_rng(seed)
    X = make_columns(rng, n, ["normal", "heavy", "integers", "binary", "binary"], np.float32)
    y, classification = make_target(rng, X, target)
    X[:, 3], X[:, 4] = rng.integers(0, 4, n), rng.integers(0, 40, n)
    X[rng.random(X.shape) < 0.15] = np.nan
    defaults: dict[str, Any] = {
        "weights": make_weights(rng, n, weights),
        "is_categorical": np.array([0, 0, 0, 1, 1], dtype=bool),
        "max_bins": 40,
    }
    return Problem(X, y, classification, **{**defaults, **given})


def assert_equal_trees(asked: Problem, runtime: ShimRuntime, **task: Any) -> int:
    """Assert that the shim's trees equal the reference's, and return the number of nodes."""
    expected, found = Recorder(NumpyBackend()), Recorder(ShimBackend(runtime))
    fingerprint = grow(asked, expected)[1]
    assert grow(asked, found, **task)[1] == fingerprint
    for own, other in zip(found.grown, expected.grown, strict=True):
        assert_same_fields(own, other, "grown tree")
    return sum(len(tree.feature) for tree in found.grown)


def small_problems() -> list[Problem]:
    """Small problems with every kind of split, and nodes of more rows than a block has threads."""
    found = []
    for target in ("five classes", "outputs"):
        asked = problem(target, n=290, max_bins=12, n_trees=1)
        for random_thresholds in (False, True):
            options = {"max_depth": 2, "random_thresholds": random_thresholds}
            found.append(asked.with_options(**options, min_samples_leaf=2))
    # Constant columns: if the first feature of a node has no split, the next ones are tried.
    X = np.where(np.arange(5) < 3, 0.0, found[0].X).astype(np.float32)
    found += [replace(asked, X=X).with_options(max_features=1, max_depth=3) for asked in found]
    return found
