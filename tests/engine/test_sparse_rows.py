"""Sparse rows equal the dense array in every function that trees of many classes use."""

from __future__ import annotations

import numpy as np
import pytest

from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.sparse_rows import DENSE, SparseRows, dense
from gpuboost.engine.targets import ClassTarget
from gpuboost.engine.tree_rows import TreeRows
from tests.engine.exact import assert_same, assert_same_fields

CLASSIFIERS = [row.number for row in CRITERIA.values() if row.class_names]


def sparse_sums(n_planes: int = 1) -> SparseRows:
    """Random sums of 40 nodes and 50 classes; a node has between 1 and 50 of the classes."""
    rng = np.random.default_rng(n_planes)
    columns = [np.sort(rng.permutation(50)[: rng.integers(1, 51)]) for _ in range(40)]
    start = np.concatenate([[0], np.cumsum([len(own) for own in columns])])
    entry = rng.integers(1, 2**20, (start[-1], n_planes))
    entry = entry[:, 0] if n_planes == 1 else entry
    return SparseRows(start, np.concatenate(columns).astype(np.int32), entry, 50)


@pytest.mark.parametrize("n_planes", [1, 2])
@pytest.mark.parametrize("criterion", CLASSIFIERS)
def test_node_values_are_those_of_the_dense_sums(criterion: int, n_planes: int) -> None:
    sums = sparse_sums(n_planes)
    wide = None if n_planes == 1 else np.zeros((1, 2), np.int64)
    target = ClassTarget(np.zeros(1, np.int32), 50, wide, np.array([30, 50])[: 2 * n_planes - 2])
    rows = TreeRows(np.ones(1, np.int32), None, False)
    found, expected = (
        target.node_values(each, np.ones(40), rows, criterion) for each in (sums, dense(sums))
    )
    assert isinstance(found.value, SparseRows)
    assert_same_fields(found, expected, "values")


def test_functions_of_rows() -> None:
    sums = sparse_sums()
    whole, entry = dense(sums).astype(np.float64), sums.entry / 3.0
    assert sums.shape == whole.shape == (40, 50)
    assert_same(sums.total(entry), DENSE.total(whole / 3.0), "total")
    assert_same(sums.largest(sums.entry), DENSE.largest(dense(sums)), "largest")
    nodes = np.array([7, 0, 39, 7])
    assert_same(dense(sums[nodes]), dense(sums)[nodes], "some rows")
