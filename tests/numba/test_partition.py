"""The rows of a node lie in segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost import GradientBoostingRegressor
from gpuboost.backends.numba.level_wise import grower as level_grow
from gpuboost.backends.numba.level_wise.policy import ENDS
from gpuboost.backends.numba.level_wise.records import GrowState
from gpuboost.engine.task import NO_LIMIT


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize(
    ("limits", "has_small"),
    [
        ({"max_depth": 5}, False),
        ({"max_depth": None, "max_leaf_nodes": 20}, False),
        ({"max_depth": 12}, True),
    ],
)
def test_rows_stay_in_their_segment(
    limits: dict[str, Any], has_small: bool, is_sorted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only subtrees of small nodes may write rows back to others of the segments.

    If the rows are sorted by the target, most nodes have empty segments.
    """
    monkeypatch.setattr(level_grow, "SEGMENT_ROWS", 100)
    monkeypatch.setattr(level_grow, "SHARED_CELLS", 0)
    grow, n = level_grow.LevelGrower.grow, 5000
    expected = [np.arange(n * s // 3, n * (s + 1) // 3) for s in range(3)]
    seen = list[bool]()

    def checked(self: Any, *given: Any) -> Any:
        trees = grow(self, *given)
        assert (self.state.n_small[0] > 0) == has_small
        parents = self.state.nodes[self.state.ends[: self._level[ENDS]]]
        parents = parents[parents["left"] > 0]
        if "max_leaf_nodes" in limits:
            assert len(parents) == 1  # the last one that is split
        else:
            assert len(parents) and (parents["depth"] == limits["max_depth"] - 1).all()
        rows, positions = rows_of_leaves(self.state, self._level[ENDS])
        assert all(map(np.array_equal, positions, expected))
        if has_small:
            seen.append(np.array_equal(np.sort(np.concatenate(rows)), np.arange(n)))
        else:
            seen.append(all(map(np.array_equal, map(np.sort, rows), expected)))
        return trees

    monkeypatch.setattr(level_grow.LevelGrower, "grow", checked)
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 4))
    y = np.arange(n) if is_sorted else rng.standard_normal(n)
    X[:, 0] = np.arange(n)
    GradientBoostingRegressor(n_estimators=2, n_jobs=3, device="numba", **limits).fit(X, y)
    assert seen == [True, True]


def rows_of_leaves(state: GrowState, n_ends: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """For each segment, the rows from which leaves are found, and their positions, sorted."""
    ends = state.ends[:n_ends]
    half, rows, positions = state.nodes["depth"][ends] & 1, [], []
    for segment in state.segments:
        places = [at + np.arange(count) for at, count in segment[ends]]
        rows.append(np.concatenate([state.row[h, at] for h, at in zip(half, places, strict=True)]))
        positions.append(np.sort(np.concatenate(places)))
    return rows, positions


@pytest.mark.parametrize(("n", "n_segments"), [(1000, 1), (20_000, 4), (10**6, 8)])
def test_each_thread_has_at_most_one_segment(n: int, n_segments: int) -> None:
    numbers = {"n_features": 1, "n_columns": 1, "n_trees": 1, "n_channels": 1, "n_leaf_sums": 2}
    limits = {"depth": 6, "max_leaf_nodes": NO_LIMIT, "min_samples_leaf": 1, "groups": 0}
    others = {"fields": 2, "n_threads": 8, "memory_budget": 1 << 30}
    shape = level_grow.Shape(
        n_samples=n, node_sampling=False, categorical=False, **numbers, **limits, **others
    )
    assert shape.n_segments == n_segments


@pytest.mark.parametrize("has_missing", [False, True])
def test_nodes_of_several_segments_are_those_of_numpy(has_missing: bool) -> None:
    """The upper nodes have enough rows for several segments and chunks of the sizes of fits."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40_000, 4)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.abs(X[:, 2])
    if has_missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    found = [
        GradientBoostingRegressor(
            n_estimators=3, max_depth=5, n_jobs=n_jobs, device=device, random_state=0
        ).fit(X, y)
        for device, n_jobs in (("numpy", 1), ("numba", 1), ("numba", 3))
    ]
    assert len({model.fingerprint() for model in found}) == 1
