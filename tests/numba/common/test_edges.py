"""Binning with any number of edges equals NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost.backends.numba.binning import bin_matrix
from gpuboost.backends.numba.common.edges import edge_tables
from gpuboost.data.binning import bin_columns
from tests.binning import fit_bin_mapper


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_that_are_close_far_or_infinite(dtype: Any) -> None:
    """Values are also next to edges; the fullest cells have edges of 1, 2, 3, 4 and more bits."""
    rng, info = np.random.default_rng(0), np.finfo(dtype)
    x, n = rng.standard_normal(2_000), 2_000
    columns = [x, np.exp(4 * x), x**9, x.round(1), 1e6 + x * 1e-3, np.where(x > 0, np.inf, x)]
    columns += [np.where(x < 0, -np.inf, x), info.max * rng.uniform(-1, 1, n), info.tiny * x * 1e-3]
    columns += [np.where(x > 3, 1e30, x), np.full(n, 7.0), np.full(n, np.nan)]
    columns += [np.exp(x), np.exp(1.5 * x), np.exp(1.8 * x)]
    with np.errstate(over="ignore", under="ignore"):
        known = np.stack(columns, axis=1).astype(dtype)
    mapper = fit_bin_mapper(known, np.zeros(len(columns), bool))
    above, below = np.nextafter(known, dtype(np.inf)), np.nextafter(known, dtype(-np.inf))
    n_bits = edge_tables(mapper.edge_table(dtype), mapper.n_bins).n_bits
    assert {1, 2, 3, 4} < set(n_bits) and max(n_bits) > 4
    edges = mapper.edge_table(dtype).T
    edges = np.where(np.isfinite(edges), edges, dtype(0))
    X = np.concatenate([known, above, below, -known, edges, np.nextafter(edges, dtype(np.inf))])
    assert np.array_equal(bin_matrix(X, mapper, 2).codes, bin_columns(X, mapper).codes)
