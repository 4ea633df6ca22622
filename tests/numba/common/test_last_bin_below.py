"""The bin of a threshold equals that of a bisection."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from gpuboost.backends.numba.common.split_thresholds import GROUP, last_bin_below
from gpuboost.backends.numba.pipeline import EntryCompiler

MAX_BINS = GROUP**2 - 1


@numba.njit(pipeline_class=EntryCompiler, _nrt=False)
def find_bins(center, low, high, thresholds, found):
    for i in range(thresholds.size):
        found[i] = last_bin_below(center, low, high, thresholds[i])


def bins_of(center: np.ndarray, low: int, high: int, thresholds: np.ndarray) -> np.ndarray:
    found = np.empty(thresholds.size, np.int64)
    find_bins(center, low, high, thresholds, found)
    return found


@pytest.mark.parametrize("n_bins", [1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 128, 240, 254, MAX_BINS])
@pytest.mark.parametrize("before", [0, 1, 700])
def test_thresholds_at_between_and_beyond_the_centres(n_bins: int, before: int) -> None:
    """Bins before and after those that are searched, whose centres mislead, are never found."""
    rng = np.random.default_rng(n_bins)
    own = np.unique(rng.standard_normal(2 * n_bins))[:n_bins]
    center = np.concatenate([np.full(before, -9.0), own, np.full(40, -9.0)])
    around = [np.nextafter(own, way) for way in (-np.inf, np.inf)]
    thresholds = np.concatenate([own, *around, [-np.inf, np.inf], (own[1:] + own[:-1]) / 2])
    expected = np.maximum(np.searchsorted(own, thresholds, side="right") - 1, 0)
    found = bins_of(center, before, before + n_bins, thresholds)
    assert np.array_equal(found - before, expected)


def test_bins_of_equal_centres_count_as_one() -> None:
    center = np.array([0.0, 1.0, 1.0, 1.0, 2.0])
    found = bins_of(center, 0, 5, np.array([0.5, 1.0, 1.5]))
    assert found.tolist() == [0, 3, 3]
