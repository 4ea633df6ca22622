"""Columns of few rows, sorted by radix, have the bins and codes of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numba.sorting import CompiledSorter
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.bins import BinRule

TYPES = (np.float32, np.float64)


@settings(deadline=None, max_examples=100)
@given(st.data(), st.sampled_from(TYPES))
def test_values_and_rows_are_sorted(data: st.DataObject, dtype: type) -> None:
    width = 8 * np.dtype(dtype).itemsize
    numbers = st.floats(width=width) | st.sampled_from((0.0, -0.0, np.nan, np.inf, -np.inf))
    column = data.draw(arrays.arrays(dtype, st.integers(1, 60), elements=numbers))
    values, rows = CompiledSorter(len(column), column.dtype).sort(column)
    assert np.array_equal(values, np.sort(column), equal_nan=True)
    assert np.array_equal(values, column[rows], equal_nan=True)
    assert sorted(rows) == list(range(len(column)))
    assert not np.signbit(values[values == 0.0]).any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 300, 5_000, 90_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_bins_and_codes_are_those_of_numpy(dtype: type, n: int, weighted: bool) -> None:
    rng = np.random.default_rng(n)
    x = rng.standard_normal(n)
    columns = [x, x.round(1), -np.abs(x), np.zeros(n), np.full(n, np.nan), np.where(x > 0, 0, -0.0)]
    columns += [np.where(x > 1, np.nan, x), x * 10.0 ** rng.integers(-30, 30, n), (x > 0) * 1.0]
    X = np.stack(columns, axis=1).astype(dtype)
    is_categorical = np.arange(len(columns)) == len(columns) - 1
    weights = rng.integers(0, 3, n) + (np.arange(n) == 0) if weighted else None
    rule = BinRule(is_categorical, 255, weights)
    expected, found = NumpyBackend().fit_bins(X, rule, 1), NumbaBackend().fit_bins(X, rule, 2)
    assert np.array_equal(found.codes, expected.codes)
    assert np.array_equal(found.n_missing, expected.n_missing)
    for name in ("n_bins", "lowest", "highest"):
        assert np.array_equal(getattr(found.mapper, name), getattr(expected.mapper, name))
