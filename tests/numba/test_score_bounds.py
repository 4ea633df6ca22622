"""The bounds on scores never exclude a split that has the score."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gpuboost import GradientBoostingRegressor
from gpuboost.engine.criteria import CRITERIA, NEWTON, Criterion, always_reaches

N = 10_000
BOUNDED = [row for row in CRITERIA.values() if row.reaches is not always_reaches]
NO_BOUNDS = (-np.inf, np.inf)


def splits(size: float) -> tuple[np.ndarray, ...]:
    """Sums of left sides and of nodes, (gl, g, hl, h): integers of at most about 2**size."""
    rng = np.random.default_rng(int(size))
    gl, gr = (np.rint(rng.standard_normal(N) * 2.0 ** rng.uniform(0, size, N)) for _ in range(2))
    hl, hr = (np.ceil(2.0 ** rng.uniform(0, size, N)) for _ in range(2))
    same = rng.random(N) < 0.2  # sides of equal means, whose gain is rounding alone
    gr, hr = np.where(same, 3.0 * gl, gr), np.where(same, 3.0 * hl, hr)
    return gl, gl + gr, hl, hl + hr


def score_of(criterion: Criterion, limits: tuple, parts: tuple[np.ndarray, ...]) -> np.ndarray:
    """Scores of splits with one channel."""
    _, _, hl, h = parts
    zeros = np.zeros(N)
    return criterion.score(criterion.add((zeros, zeros, zeros), *parts, limits), hl, h)


def test_newton_has_a_bound() -> None:
    assert [row.number for row in BOUNDED] == [NEWTON]


@pytest.mark.parametrize("row", BOUNDED, ids=lambda row: str(row.number))
def test_a_score_reaches_its_own_threshold(row: Criterion) -> None:
    """With penalties and bounds on values that are far from, near or beyond the best values."""
    penalties = product((0.0, 5.0, 1e6), (0.0, 1.0, 1e9, 1e160))
    bounds = NO_BOUNDS, (-0.25, 0.5), (0.7, 0.75), (1e6, 1e7)
    for size, limits in product((3.0, 20.0, 60.0), product(penalties, bounds)):
        gl, g, hl, h = parts = splits(size)
        with np.errstate(all="ignore"):
            score = score_of(row, limits, parts)
            needed = row.threshold(score, g, h, limits)
            reaches = row.reaches(gl, g, hl, h, limits, needed)
        assert np.all(reaches | (score < 0.0)), (size, limits)


def test_the_newton_bound_excludes_lower_scores() -> None:
    """Without l1 and bounds on values, the bound is the score itself."""
    row, limits = CRITERIA[NEWTON], ((0.0, 1.0), NO_BOUNDS)
    gl, g, hl, h = parts = splits(20.0)
    score = score_of(row, limits, parts)
    gains = score > 1e-3
    above = row.threshold(1.001 * score, g, h, limits)
    assert gains.sum() > N // 2
    assert not np.any(row.reaches(gl, g, hl, h, limits, above) & gains)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "huge l2": {"l2_regularization": 1e200},
    "large leaves": {"min_samples_leaf": 40},
    "increasing": {"monotonic_cst": [1, 0, -1, 0]},
    "bounded": {"l1_regularization": 2.0, "max_delta_step": 0.4},
}


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_skipped_blocks_change_no_trees(options: dict[str, Any], missing: float) -> None:
    """NumPy scores all candidates; features of 255 bins have eight blocks."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1500, 4))
    y = X[:, 0] + np.sin(3.0 * X[:, 1]) + X[:, 2] * X[:, 3]
    X[rng.random(X.shape) < missing] = np.nan
    given = {"n_estimators": 5, "max_depth": 5, "l2_regularization": 1.0, "n_jobs": 1} | options
    found = {
        GradientBoostingRegressor(device=device, **given).fit(X, y).fingerprint()
        for device in ("numpy", "numba")
    }
    assert len(found) == 1
