"""Prediction with perfect trees and integer comparisons equals the reference."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numba.predict import deep_trees, perfect_trees
from gpuboost.backends.numba.predict import predict as prediction
from gpuboost.backends.numba.predict.coded_trees import CodedTrees, make_coded
from gpuboost.backends.numba.predict.perfect_trees import are_perfect_faster, depth_of, make_perfect
from gpuboost.backends.numba.predict.traversal import pack_forest
from gpuboost.backends.numba.references import Reference
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import Tree
from tests.numba.numba_cases import noted_calls

N_FEATURES = 3
PROPERTY = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)


def special_values(dtype: Any) -> np.ndarray:
    """Numbers at the limits of the type, both zeros, and NaN of both signs."""
    info, one = np.finfo(dtype), np.ones(1, dtype)
    near = [info.smallest_subnormal, info.tiny, one[0], np.nextafter(one, 2 * one)[0], info.max]
    positive = np.array([0.0, *near, np.inf, np.nan], dtype)
    return np.concatenate([positive, -positive])


def random_tree(rng: np.random.Generator, depth: int, n_values: int, thresholds: Any) -> Tree:
    """A random tree of at most ``depth`` levels, numbered breadth-first."""
    feature, left, at_depth = [-1], [0], [0]
    for node in range(1 << (depth + 1)):
        if node == len(feature) or at_depth[node] == depth or (node and rng.random() < 0.3):
            if node >= len(feature) - 1:
                break
            continue
        feature[node], left[node] = int(rng.integers(N_FEATURES)), len(feature)
        feature += [-1, -1]
        left += [0, 0]
        at_depth += [at_depth[node] + 1] * 2
    n = len(feature)
    inner = np.array(left) > 0
    threshold = np.where(inner, rng.choice(thresholds[~np.isnan(thresholds)], n), np.nan)
    zeros = np.zeros(n)
    return Tree(
        feature=np.array(feature, np.int32),
        threshold=threshold.astype(np.float64),
        code=np.zeros(n, np.uint8),
        missing_left=inner & (rng.random(n) < 0.5),
        left=np.array(left, np.int32),
        category=np.full(n, -1, np.int32),
        masks=np.zeros((0, 8), np.uint32),
        value=rng.standard_normal((n, n_values)),
        impurity_decrease=zeros,
        impurity=zeros,
        weight=zeros,
        count=np.zeros(n, np.int64),
    )


@PROPERTY
@given(
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from((np.float32, np.float64)),
    depth=st.integers(0, 6),
    n_rows=st.sampled_from((1, 7, 63, 64, 65, 200)),
    n_values=st.integers(1, 2),
)
def test_equal_to_numpy_s(seed: int, dtype: Any, depth: int, n_rows: int, n_values: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate([special_values(dtype), rng.standard_normal(6).astype(dtype)])
    trees = [random_tree(rng, depth, n_values, values) for _ in range(4)]
    ensemble = Ensemble.of(trees)
    X = rng.choice(values, (n_rows, N_FEATURES)).astype(dtype)
    expected = NumpyBackend().predict(ensemble, X, 1), NumpyBackend().apply(ensemble, X, 1)
    made = make_perfect(ensemble, X.dtype, N_FEATURES)
    bits, total = perfect_trees.bits_of_rows(X), np.zeros((n_rows, n_values))
    no_leaves = np.empty((len(bits), 0), np.int32)
    block = perfect_trees.PERFECT_BLOCK
    buffers = np.zeros(2 * N_FEATURES * block, bits.dtype), np.empty(block, np.uint32)
    perfect_trees.predict_perfect(made, bits, total, no_leaves, *buffers)
    found = np.empty((n_rows, len(trees)), np.int32)
    perfect_trees.predict_perfect(made, bits, total[:, :0], found, *buffers)
    assert np.array_equal(total, expected[0])
    assert np.array_equal(found, expected[1])


@PROPERTY
@given(
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from((np.float32, np.float64)),
    depth=st.sampled_from((2, 3, 4, 6, 7)),
    n_rows=st.sampled_from((1, 255, 256, 257, 600)),
    n_values=st.integers(1, 2),
    n_thresholds=st.sampled_from((1, 254, 255, 508, 2000)),
    any_missing=st.booleans(),
)
def test_codes_are_equal_to_numpy_s(
    seed: int,
    dtype: Any,
    depth: int,
    n_rows: int,
    n_values: int,
    n_thresholds: int,
    any_missing: bool,
) -> None:
    """Thresholds are float64, also for float32 rows; 2000 of them need several groups of codes."""
    rng = np.random.default_rng(seed)
    thresholds = np.concatenate([special_values(dtype), rng.standard_normal(n_thresholds)])
    trees = [random_tree(rng, depth, n_values, thresholds) for _ in range(80)]
    ensemble = Ensemble.of(trees)
    with np.errstate(over="ignore", under="ignore"):
        nearest = thresholds.astype(dtype)
        values = np.concatenate([nearest, np.nextafter(nearest, dtype(-np.inf))])
    values = values if any_missing else values[~np.isnan(values)]
    X = rng.choice(values, (n_rows, N_FEATURES)).astype(dtype)
    perfect = make_coded(ensemble, X.dtype)

    def plain() -> Reference:
        return pack_forest(ensemble, X.dtype, 1)

    assert (perfect is None) == (depth_of(ensemble) < 2)
    with mock.patch.object(deep_trees, "LARGE_TREE", 0):
        by_codes = deep_trees.make_deep(ensemble, X.dtype, 1, plain)
        with mock.patch.object(deep_trees, "MAX_WIDE_GROUPS", 0):
            by_floats = deep_trees.make_deep(ensemble, X.dtype, 1, plain)
    assert (by_codes is None) == (by_floats is None) == (depth_of(ensemble) < 2)
    for made in (perfect, by_codes, by_floats):
        if made is None:
            continue
        run = prediction.RUNS[made.kind.record]
        total, found = np.zeros((n_rows, n_values)), np.empty((n_rows, len(trees)), np.int32)
        run(made, X, total, found[:, :0])
        run(made, X, total[:, :0], found)
        assert np.array_equal(total, NumpyBackend().predict(ensemble, X, 1))
        assert np.array_equal(found, NumpyBackend().apply(ensemble, X, 1))


def test_few_or_deep_trees_have_no_codes() -> None:
    rng = np.random.default_rng(5)

    def n_groups(n_trees: int, depth: int, n_thresholds: int = 5) -> int:
        thresholds = rng.standard_normal(n_thresholds)
        trees = [random_tree(rng, depth, 1, thresholds) for _ in range(n_trees)]
        made = make_coded(Ensemble.of(trees), np.dtype(np.float32))
        return 0 if made is None else len(CodedTrees(*made.kept[1]).feature)

    assert n_groups(5, 4) == N_FEATURES
    assert n_groups(4, 4) == 0  # 1.5 trees per group
    assert n_groups(30, 1) == 0
    assert n_groups(30, 8) == 0
    assert n_groups(80, 6, n_thresholds=5000) > N_FEATURES


def test_the_depth_of_trees_of_many_depths() -> None:
    rng = np.random.default_rng(3)
    trees = [random_tree(rng, depth, 1, np.zeros(1)) for depth in (0, 5, 2)]
    assert depth_of(Ensemble.of(trees[:1])) == 0
    assert depth_of(Ensemble.of(trees)) == 5


def test_shallow_ensembles_become_perfect_trees() -> None:
    """Ensembles of many shallow trees become perfect trees; predictions are the same."""
    rng = np.random.default_rng(1)
    shallow = Ensemble.of([random_tree(rng, 5, 1, np.zeros(1)) for _ in range(4)])
    assert are_perfect_faster(shallow, N_FEATURES)
    assert not are_perfect_faster(shallow, perfect_trees.FEATURES_PER_TREE * 4 + 1)
    chain = random_tree(rng, 0, 1, np.zeros(1))
    deep = perfect_trees.MAX_DEPTH + 1
    left = np.where(np.arange(2 * deep + 1) % 2 == 0, np.arange(2 * deep + 1) + 1, 0)
    left[-1] = 0
    columns = {name: np.repeat(getattr(chain, name), 2 * deep + 1, axis=0) for name in vars(chain)}
    columns |= {"left": left.astype(np.int32), "masks": chain.masks}
    assert depth_of(Ensemble.of([Tree(**columns)])) == deep
    assert not are_perfect_faster(Ensemble.of([Tree(**columns)]), 1)


def test_chunks_are_whole_blocks() -> None:
    """A chunk of codes is padded to whole blocks, so threads get no parts of blocks."""
    X = np.zeros((1000, 3), np.float32)
    assert [len(X[rows]) for rows in prediction.chunks_of(X, 2)] == [250] * 4
    lengths = [len(X[rows]) for rows in prediction.chunks_of(X, 3, 256)]
    assert sum(lengths) == 1000
    assert set(lengths[:-1]) <= {256}


@pytest.mark.parametrize("way", ["predict", "apply"])
def test_the_backend_predicts_by_them(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    ensemble = Ensemble.of([random_tree(rng, 4, 2, rng.standard_normal(9)) for _ in range(5)])
    X = rng.standard_normal((300, N_FEATURES)).astype(np.float32)
    names = "predict_perfect", "predict_coded", "make_coded"
    asked = noted_calls(monkeypatch, prediction, *names)
    for n_rows, name in ((127, "predict_perfect"), (128, "predict_coded"), (300, "predict_coded")):
        asked.clear()
        found = getattr(NumbaBackend(), way)(ensemble, X[:n_rows], 1)
        assert [each for each in asked if each != "make_coded"] == [name]
        assert asked.count("make_coded") == (n_rows == 128)  # packed at the first of such calls
        assert np.array_equal(found, getattr(NumpyBackend(), way)(ensemble, X[:n_rows], 1))


@pytest.mark.parametrize("way", ["predict", "apply"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_rows_and_deep_trees(dtype: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are coded if there are many, and few thresholds; results are the same otherwise."""
    rng = np.random.default_rng(4)
    few, many, n_rows = rng.standard_normal(500), rng.standard_normal(5000), 9000
    X = rng.choice(np.append(few, [np.nan, np.inf, -np.inf]), (n_rows, N_FEATURES)).astype(dtype)
    asked = noted_calls(monkeypatch, deep_trees, "code_rows", "reach_leaves")
    both = ["reach_leaves", "code_rows"]
    cases = (few, 9, n_rows, both), (few, 9, 2000, []), (few, 4, n_rows, [])
    for thresholds, n_trees, n, expected in (*cases, (many, 30, n_rows, both[:1])):
        trees = [random_tree(rng, 14, 2, thresholds) for _ in range(5 * n_trees)]
        ensemble = Ensemble.of([tree for tree in trees if len(tree.left) > 300][:n_trees])
        assert ensemble.n_trees == n_trees
        assert 300 < deep_trees.nodes_per_tree(ensemble) < n_rows / deep_trees.ROWS_PER_NODE
        for n_threads in (1, 3):
            asked.clear()
            found = getattr(NumbaBackend(), way)(ensemble, X[:n], n_threads)
            n_chunks = len(asked) // max(len(expected), 1)
            assert sorted(asked) == sorted(expected * max(n_chunks, 1))
            assert np.array_equal(found, getattr(NumpyBackend(), way)(ensemble, X[:n], 1))
