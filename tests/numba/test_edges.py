"""Binning with any number of edges equals NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost.backends.numba.binning import bin_matrix
from gpuboost.data.binning import bin_columns, fit_bin_mapper


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_number_of_bins(dtype: Any) -> None:
    """Column k has k + 1 distinct values; values between, beyond and at the edges are binned."""
    rng = np.random.default_rng(0)
    rows = np.arange(255)[:, None]
    known = np.minimum(rows, np.arange(255)[None, :]).astype(dtype)
    mapper = fit_bin_mapper(known, np.zeros(255, bool))
    assert sorted(mapper.n_bins) == list(range(1, 256))
    X = rng.integers(-2, 2 * 257, (700, 255)).astype(dtype) / dtype(2.0)
    X[rng.random(X.shape) < 0.1] = np.nan
    assert np.array_equal(bin_matrix(X, mapper, 1).codes, bin_columns(X, mapper).codes)
