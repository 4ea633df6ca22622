"""The bin of a random threshold equals that of a search."""

from __future__ import annotations

import tracemalloc

import numba
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from gpuboost import ExtraTreesClassifier
from gpuboost.backends.numba.common.arguments import matrix_of
from gpuboost.backends.numba.pipeline import EntryCompiler
from gpuboost.backends.numba.references import by_reference
from gpuboost.backends.numba.splits.random_thresholds import last_bin_up_to
from gpuboost.data.binning import bin_columns
from tests.binning import fit_bin_mapper

N_BINS = (1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 128, 240, 254, 255)


@numba.njit(pipeline_class=EntryCompiler, _nrt=False)
def find_bins(matrix, feature, thresholds, found):
    for i in range(thresholds.size):
        found[i] = last_bin_up_to(matrix, feature, thresholds[i])


@pytest.mark.parametrize("feature", range(len(N_BINS)))
def test_thresholds_at_between_and_beyond_the_centres(feature: int) -> None:
    """Features with all numbers of bins lie side by side in one table."""
    rng = np.random.default_rng(0)
    values = [np.unique(rng.standard_normal(3 * n))[:n] for n in N_BINS]
    X = np.stack([own[np.arange(300) % len(own)] for own in values], axis=1)
    mapper = fit_bin_mapper(X, np.zeros(len(N_BINS), bool))
    assert mapper.n_bins.tolist() == list(N_BINS)
    matrix = by_reference(matrix_of(bin_columns(X, mapper), with_centers=True))
    own = mapper.centers[mapper.first[feature] : mapper.first[feature + 1]]
    around = [np.nextafter(own, way) for way in (-np.inf, np.inf)]
    thresholds = np.concatenate([own, *around, [-1e300, 1e300], (own[1:] + own[:-1]) / 2])
    found = np.empty(thresholds.size, np.int64)
    find_bins(matrix, np.int64(feature), thresholds, found)
    assert np.array_equal(found, np.searchsorted(own, thresholds, side="right") - 1)


def test_features_with_few_bins_take_little_memory() -> None:
    """A feature takes as many centres as its bins need, not those of 255 bins (2 kB)."""
    X = csr_matrix(np.random.default_rng(0).random((100, 20_000)) < 0.002, dtype=np.float32)
    y = np.arange(100) % 2
    model = ExtraTreesClassifier(2, max_features="sqrt", device="numba", n_jobs=1, random_state=0)
    model.fit(X, y)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000 * X.shape[1]
