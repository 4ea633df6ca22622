"""The rows of a node lie in segments."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gpuboost import GradientBoostingRegressor
from gpuboost.backends.numba.level_wise import grower as level_grow
from gpuboost.backends.numba.level_wise.records import GrowState


@pytest.mark.parametrize(
    ("limits", "has_small"),
    [({"max_depth": 5}, False), ({"max_leaf_nodes": 20}, False), ({"max_depth": 12}, True)],
)
def test_rows_stay_in_their_segment(
    limits: dict[str, int], has_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only subtrees of small nodes may write rows back to others of the segments."""
    monkeypatch.setattr(level_grow, "SEGMENT_ROWS", 100)
    monkeypatch.setattr(level_grow, "SHARED_CELLS", 0)
    grow, n = level_grow.LevelGrower.grow, 5000
    seen = list[bool]()

    def checked(self: Any, *given: Any) -> Any:
        trees = grow(self, *given)
        rows = rows_of_leaves(self.state, self.shape.depth)
        assert len(rows) == 3 and (self.state.n_small[0] > 0) == has_small
        if has_small:
            rows = [np.concatenate(rows)]
        cuts = [n * s // len(rows) for s in range(len(rows) + 1)]
        expected = [np.arange(*cut) for cut in pairwise(cuts)]
        seen.append(all(map(np.array_equal, map(np.sort, rows), expected)))
        return trees

    monkeypatch.setattr(level_grow.LevelGrower, "grow", checked)
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((n, 4)), rng.standard_normal(n)
    GradientBoostingRegressor(n_estimators=2, n_jobs=3, device="numba", **limits).fit(X, y)
    assert seen == [True, True]


def rows_of_leaves(state: GrowState, depth: int) -> list[np.ndarray]:
    """The rows of all leaves, those of maximum depth in their parents, in each segment."""
    nodes, half = state.nodes[: int(state.n_nodes[0])], state.row
    is_end = np.where(nodes["left"] == 0, nodes["depth"] < depth, nodes["depth"] == depth - 1)
    ends = np.flatnonzero(is_end)
    found = []
    for segment in state.segments:
        of_segment = zip(nodes["depth"][ends] & 1, segment[ends], strict=True)
        found.append(np.concatenate([half[d, at : at + count] for d, (at, count) in of_segment]))
    return found


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
