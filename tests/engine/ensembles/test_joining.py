"""Columns of an ensemble that are joined tree by tree equal those joined at once."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from gpuboost import ExtraTreeRegressor, ExtraTreesRegressor, RandomForestClassifier
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.ensembles.joining import JoinedColumn
from gpuboost.engine.growth.tree import Tree
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


def test_no_more_than_needed_is_reserved_if_memory_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = np.empty

    def short_of_memory(shape: tuple[int, ...], dtype: type) -> np.ndarray:
        if shape[0] > 1_000:
            raise MemoryError(shape)
        return make(shape, dtype)

    column, parts = JoinedColumn(np.float64, 10**6), [np.arange(n) * 0.5 for n in (90, 300, 7)]
    monkeypatch.setattr(np, "empty", short_of_memory)
    for part in parts:
        column.append(part)
    monkeypatch.undo()
    assert np.array_equal(column.finish(), np.concatenate(parts))


def test_numbers_are_not_rounded_when_they_are_joined() -> None:
    with pytest.raises(TypeError, match="same_kind"):
        JoinedColumn(np.int32, 1).append(np.array([1.5]))


@pytest.mark.parametrize("model", [RandomForestClassifier, ExtraTreesRegressor])
def test_a_warm_start_appends_trees_of_another_size(model: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    y = (X[:, 0] > 0).astype(int)
    forest = model(3, warm_start=True, random_state=0, device="numba").fit(X, y)
    sizes = [tree.tree_.node_count for tree in forest.estimators_]
    forest.set_params(n_estimators=5, max_depth=2).fit(X, y)
    again = [tree.tree_.node_count for tree in forest.estimators_]
    assert again[:3] == sizes and max(again[3:]) <= 7


def trees_of_sizes(depths: list[int]) -> list[Tree]:
    """Trees of these depths, whose arrays belong to no batch."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    found = []
    for depth in depths:
        model = ExtraTreeRegressor(max_depth=depth, random_state=depth, device="numpy")
        tree = model.fit(X, X[:, 0])._ensemble.trees[0]
        found.append(Tree(**{f.name: getattr(tree, f.name).copy() for f in fields(Tree)}))
    return found


@pytest.mark.parametrize("n_expected", [3, 4, 50])
def test_fewer_trees_than_expected_can_come(n_expected: int) -> None:
    trees = trees_of_sizes([5, 1, 3])
    found = Ensemble.of_stream(iter(trees), n_expected)
    expected = Ensemble.of(trees)
    for f in fields(Ensemble):
        np.testing.assert_array_equal(getattr(found, f.name), getattr(expected, f.name), f.name)
        assert not getattr(found, f.name).flags.writeable


def test_trees_are_released_as_they_are_joined() -> None:
    alive: list[Any] = []

    def stream() -> Iterator[Tree]:
        for tree in trees_of_sizes([4, 4, 4, 4]):
            kept = Tree(**{f.name: getattr(tree, f.name).copy() for f in fields(Tree)})
            alive.append(weakref.ref(kept.threshold))
            yield kept
            del kept
            assert alive[-1]() is None

    assert Ensemble.of_stream(stream(), 4).n_trees == 4


def test_an_ensemble_of_one_tree_shares_its_arrays() -> None:
    (tree,) = trees_of_sizes([4])
    found = Ensemble.of([tree])
    assert found.threshold is tree.threshold and not tree.threshold.flags.writeable


def test_a_warm_start_needs_the_memory_of_one_model() -> None:
    """Sparse values of many classes are written to the whole array, without dense copies."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2_000, 4)), rng.integers(0, 200, 2_000)
    forest = RandomForestClassifier(2, warm_start=True, random_state=0, device="numba", n_jobs=1)
    forest.fit(X, y).set_params(n_estimators=12)
    tracemalloc.start()
    forest.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    n_bytes = forest._ensemble.value.nbytes
    assert n_bytes > 10e6 and peak < 1.8 * n_bytes
