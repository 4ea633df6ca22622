"""Rows of a node whose chunks were partitioned one by one reach the side of their child."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost import GradientBoostingRegressor
from gpuboost.backends.numba.compiler import entry
from gpuboost.backends.numba.level_wise.partition import n_misplaced, swap_misplaced
from gpuboost.backends.numba.level_wise.records import NODE_CHUNK


@entry
def swap_all(row: Any, chunks: Any) -> None:
    """What `assign_children` notes in the chunks of a node, then `swap_misplaced`."""
    n_before = 0
    for at in range(chunks.size):
        chunks[at].n_before = n_before
        n_before += n_misplaced(chunks[at])
    for at in range(chunks.size):
        swap_misplaced(row, chunks, at)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98, 1.0])
def test_misplaced_rows_are_swapped(share: float) -> None:
    """The left rows, here even numbers, come first; rows of other nodes stay where they are."""
    rng = np.random.default_rng(int(100 * share))
    for _ in range(200):
        cuts = np.sort(rng.integers(3, 60, rng.integers(2, 9)))  # chunks can be empty
        chunks = np.zeros(len(cuts) - 1, NODE_CHUNK)
        chunks["start"], chunks["stop"] = cuts[:-1], cuts[1:]
        goes_left = rng.random(70) < rng.choice([share, 0.5])
        row = (2 * np.arange(70) + ~goes_left).astype(np.uint32)
        for chunk in chunks:
            own = slice(chunk["start"], chunk["stop"])
            row[own] = np.concatenate([row[own][goes_left[own]], row[own][~goes_left[own]][::-1]])
            chunk["n_left"] = goes_left[own].sum()
        boundary = cuts[0] + chunks["n_left"].sum()
        chunks["boundary"] = boundary
        before = row.copy()
        swap_all(row, chunks)
        assert (row[cuts[0] : boundary] % 2 == 0).all()
        assert (row[boundary : cuts[-1]] % 2 == 1).all()
        np.testing.assert_array_equal(np.sort(row), np.sort(before))
        outside = np.r_[: cuts[0], cuts[-1] : 70]
        np.testing.assert_array_equal(row[outside], before[outside])


@pytest.mark.parametrize("has_missing", [False, True])
def test_nodes_of_several_chunks_are_those_of_numpy(has_missing: bool) -> None:
    """The upper nodes have enough rows for several chunks of the size that fits use."""
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
