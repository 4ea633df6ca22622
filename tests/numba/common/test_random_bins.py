"""The bin of a random threshold equals that of a search."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import pytest

from gpuboost.backends.numba.intrinsics import COUNTED
from gpuboost.backends.numba.pipeline import EntryCompiler
from gpuboost.backends.numba.references import by_reference
from gpuboost.backends.numba.splits.random_thresholds import last_bin_up_to

MAX_BINS = COUNTED**2 - 1


class Centers(NamedTuple):
    centers: np.ndarray
    group_centers: np.ndarray


@numba.njit(pipeline_class=EntryCompiler, _nrt=False)
def find_bins(matrix, feature, thresholds, found):
    for i in range(thresholds.size):
        found[i] = last_bin_up_to(matrix, feature, thresholds[i])


def bins_of(own: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Bins of the middle one of three features; those of the others would mislead."""
    table = np.full((3, COUNTED**2), -9.0)
    table[1, :] = own[-1]
    table[1, : len(own)] = own
    matrix = by_reference(Centers(table, np.ascontiguousarray(table[:, ::COUNTED])))
    found = np.empty(thresholds.size, np.int64)
    find_bins(matrix, np.int64(1), thresholds, found)
    return found


@pytest.mark.parametrize("n_bins", [1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 128, 240, 254, MAX_BINS])
def test_thresholds_at_between_and_beyond_the_centres(n_bins: int) -> None:
    own = np.unique(np.random.default_rng(n_bins).standard_normal(2 * n_bins))[:n_bins]
    around = [np.nextafter(own, way) for way in (-np.inf, np.inf)]
    thresholds = np.concatenate([own, *around, [-np.inf, np.inf], (own[1:] + own[:-1]) / 2])
    expected = np.searchsorted(own, thresholds, side="right") - 1
    assert np.array_equal(np.minimum(bins_of(own, thresholds), n_bins - 1), expected)


def test_bins_of_equal_centres_count_as_one() -> None:
    own = np.array([0.0, 1.0, 1.0, 1.0, 2.0])
    assert bins_of(own, np.array([-0.5, 0.5, 1.0, 1.5])).tolist() == [-1, 0, 3, 3]
