"""Split search in NumPy: over the histograms of all features at once, and feature by feature."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.backends.numpy.histogram_search import HistogramSearch
from gpuboost.engine.criteria import NEWTON, VARIANCE
from gpuboost.engine.task import (
    MISSING_LEFT,
    MISSING_RIGHT,
    MISSING_UNSEEN,
    GrownTree,
    GrowTask,
    Regularisation,
    TreeOptions,
)
from tests.engine.harness import Problem
from tests.engine.naive import NaiveBackend

N, N_FEATURES = 200, 6
REGULAR = Regularisation(l2=1.0)
FALLING = Regularisation(l2=1.0, monotonic=(0, 0, 1, -1, 1, -1))
CASES = {
    "trees": {"criterion": VARIANCE, "hashed_order": True},
    "rounds": {"criterion": NEWTON, "regularisation": REGULAR},
    "counted": {"criterion": NEWTON, "regularisation": REGULAR, "min_samples_leaf": 9},
    "monotonic": {"criterion": NEWTON, "regularisation": FALLING},
    "groups that overlap": {
        "criterion": NEWTON,
        "regularisation": REGULAR,
        "interactions": ((0, 1, 2, 3, 4), (3, 5)),
    },
}


def problem_of(seed: int, **options: Any) -> Problem:
    """A boosting round with few bins, a categorical first column and missing values."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (N, N_FEATURES)).astype(np.float64)
    for f in (1, 3, 4):
        X[rng.random(N) < 0.15, f] = np.nan
    y = np.nan_to_num(4.0 * X[:, 3] - X[:, 2] * X[:, 5]) + rng.standard_normal(N)
    return Problem(
        X,
        y,
        classification=False,
        is_categorical=np.arange(N_FEATURES) < 2,
        boosting="real",
        seed=seed,
        options=TreeOptions(max_depth=4, **{"hashed_order": False, **options}),
    )


def grown(backend: Any, task: GrowTask) -> list[GrownTree]:
    return [tree for _, tree in backend.grow(task)]


def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that receives the number of nodes of every search over histograms."""
    asked: list[int] = []
    whole = HistogramSearch.best

    def best(self: HistogramSearch, histogram: Any, node: Any, rank: Any) -> Any:
        asked.append(len(node))
        return whole(self, histogram, node, rank)

    monkeypatch.setattr(HistogramSearch, "best", best)
    return asked


@pytest.mark.parametrize("case", CASES)
def test_both_searches_find_the_splits_of_the_contract(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = searched(monkeypatch)
    for seed in range(3):
        problem = problem_of(seed, **CASES[case])
        _, *prepared = problem.prepare()
        expected = grown(NaiveBackend(), problem.task(*prepared))
        assert_equal_trees(grown(NumpyBackend(), problem.task(*prepared)), expected)
        assert max(asked) > 1  # also levels below the root
        asked.clear()
        walked = grown(NumpyBackend(), problem.task(*prepared, memory_budget=1))
        assert not asked
        assert_equal_trees(walked, expected)


def assert_equal_trees(found: list[GrownTree], expected: list[GrownTree]) -> None:
    for have, want in zip(found, expected, strict=True):
        for column in fields(want):
            a, b = getattr(have, column.name), getattr(want, column.name)
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), column.name


@pytest.mark.parametrize(
    ("kinds", "direction"),
    [
        ((0, 0, 1, 1, None, None), MISSING_RIGHT),  # either side: the gains are equal
        ((0, 0, 0, 1, 1, 1, None), MISSING_LEFT),
        ((0, 0, 1, 1), MISSING_UNSEEN),
    ],
)
def test_direction_of_missing_values(kinds: Any, direction: int) -> None:
    """The target is 1 for zeros and -1 for ones; for missing values, it makes a tie or is 1."""
    X = np.array([np.nan if kind is None else kind for kind in kinds])[:, None].repeat(9, axis=0)
    of_missing = np.where(direction == MISSING_LEFT, 1.0, 0.0)
    y = np.where(np.isnan(X[:, 0]), of_missing, 1.0 - 2.0 * (X[:, 0] > 0))
    problem = Problem(X, y, classification=False, options=TreeOptions(VARIANCE, max_depth=1))
    _, *prepared = problem.prepare()
    for budget in (2**28, 1):
        (tree, *_) = grown(NumpyBackend(), problem.task(*prepared, memory_budget=budget))
        assert tree.missing[0] == direction
