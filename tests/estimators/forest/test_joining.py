"""Columns of an ensemble that are joined tree by tree equal those joined at once."""

from __future__ import annotations

import numpy as np
import pytest

from gpuboost.engine.ensembles.joining import JoinedColumn
from gpuboost.engine.sparse_rows import SparseRows


@pytest.mark.parametrize("sizes", [(1, 1, 900, 3, 2_000), (70, 50, 20), (5,), (0, 0, 4, 0)])
@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("n_expected", [1, 5, 1_000])
def test_parts_of_any_sizes(
    sizes: tuple[int, ...], shape: tuple[int, ...], n_expected: int
) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 99, (size, *shape)).astype(np.int16) for size in sizes]
    column = JoinedColumn(np.int64, n_expected)
    for part in parts:
        column.append(part)
    whole = column.finish()
    assert whole.dtype == np.int64 and whole.base is None and whole.flags.c_contiguous
    assert np.array_equal(whole, np.concatenate(parts))


def test_sparse_parts_are_written_as_dense_rows() -> None:
    start, place, entry = np.array([0, 1, 3]), np.array([2, 0, 1], np.int32), np.arange(1.0, 4.0)
    column = JoinedColumn(np.float64, 2)
    for part in (SparseRows(start, place, entry, 3), np.full((1, 3), 7.0)):
        column.append(part)
    assert column.finish().tolist() == [[0, 0, 1], [2, 3, 0], [7, 7, 7]]
