"""Times of the stages of a fit, for each backend: ``pytest benchmarks/``.

Histograms, the split search and the partition are timed at the root of a tree and, for NumPy, also
on a deeper level. Nodes consider all features. ``python -m benchmarks stages`` stores the medians.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.stages.stage_work import (
    N_FEATURES,
    N_ROWS,
    N_THREADS,
    SIZE,
    backend,
    has_numba,
    note,
)
from benchmarks.suite.tables import binary
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.backends.numpy.groups import dense_histogram
from gpuboost.backends.numpy.histogram_search import HistogramSearch
from gpuboost.backends.numpy.level_ops import NumpyLevelOps
from gpuboost.backends.numpy.rows import Candidates
from gpuboost.data.binning import learn_bins
from gpuboost.engine.bins import BinnedMatrix, BinRule
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.growth.policy import smallest_hessian
from gpuboost.engine.growth.tree import finish_tree
from gpuboost.engine.quantise import class_target
from gpuboost.engine.randomness import feature_rank
from gpuboost.engine.sampling import WITH_REPLACEMENT, RowSampler
from gpuboost.engine.task import GrowTask, TreeOptions

DEPTHS = (0, 6)
TREE_DEPTH = 8
N_TREES = 10


@dataclass(frozen=True)
class Work:
    """The data that all stages use."""

    X: np.ndarray
    matrix: BinnedMatrix
    task: GrowTask


@cache
def work() -> Work:
    """Bin a table, and make the task of growing a forest on it."""
    table = binary(N_ROWS, N_FEATURES)
    mapper, _ = learn_bins(table.X, BinRule(np.zeros(N_FEATURES, dtype=bool)))
    matrix = NumpyBackend().bin(table.X, mapper, N_THREADS)
    sampler = RowSampler(WITH_REPLACEMENT, N_ROWS, N_ROWS, seed=0)
    target = class_target(table.y.astype(np.int32), 2, sampler.weight_facts)
    options = TreeOptions(criterion=VARIANCE, max_depth=TREE_DEPTH)
    task = GrowTask(
        matrix, target, options, sampler.rows, range(N_TREES), seed=0, n_threads=N_THREADS
    )
    return Work(table.X, matrix, task)


@dataclass(frozen=True)
class Level:
    """One level of a tree, as the NumPy backend represents it."""

    ops: NumpyLevelOps
    rows: Any
    frontier: Frontier
    candidates: Candidates
    splits: Splits

    @property
    def node_of_row(self) -> np.ndarray:
        """Node of each row."""
        return np.repeat(np.arange(len(self.frontier)), self.frontier.count)

    def histograms(self) -> np.ndarray:
        """Histograms of all nodes and features, from the rows: (nodes, planes, features, width)."""
        matrix = self.ops.task.matrix
        shape = (len(self.frontier), matrix.width, self.frontier.gradient.shape[1])
        base = self.node_of_row * matrix.width
        planes = [
            dense_histogram(self.rows, base + codes[self.rows.row], shape, counted=False)
            for codes in matrix.codes
        ]
        return np.stack(planes, axis=2).swapaxes(0, 1)

    def best_splits(self, histograms: np.ndarray) -> Splits:
        """The best split of each node over all features."""
        task, frontier = self.ops.task, self.frontier
        search = HistogramSearch(task, smallest_hessian(np, 0.0, frontier.hessian[:1]))
        features = np.arange(task.matrix.n_features, dtype=np.uint64)
        return search.best(histograms, frontier, feature_rank(frontier.key[:, None], features))


@cache
def level(depth: int) -> Level:
    """A level of the first tree, with the splits that the backend finds for it."""
    task = work().task
    ops, rows, frontier = NumpyLevelOps.start(task, [0])
    candidates, splits = _found(ops, rows, frontier, 0)
    for above in range(depth):
        accepted = splits.score >= 0.0
        sums = ops.leaf_sums(rows, frontier, candidates, accepted)
        rows, frontier = ops.partition(
            rows, frontier, candidates, splits=splits, accepted=accepted, sums=sums
        )
        candidates, splits = _found(ops, rows, frontier, above + 1)
    return Level(ops, rows, frontier, candidates, splits)


def _found(
    ops: NumpyLevelOps, rows: Any, frontier: Frontier, depth: int
) -> tuple[Candidates, Splits]:
    """All nodes of a level as candidates, and the best split of each."""
    candidates = ops.candidates(rows, frontier, depth)
    candidates = replace(candidates, nodes=np.arange(len(frontier)))
    return candidates, ops.find_splits(rows, frontier, candidates)


@cache
def forest() -> Ensemble:
    """`N_TREES` trees to purity."""
    task = work().task
    task = replace(task, options=TreeOptions(criterion=VARIANCE, max_features=5))
    grown = backend("numba").grow(task) if has_numba() else NumpyBackend().grow(task)
    trees = [
        finish_tree(tree, task.matrix.mapper, task.target, task.rows_of(t), task.options)
        for t, tree in grown
    ]
    return Ensemble.of(trees)


def level_size(depth: int) -> str:
    """Size of a level in words."""
    found = level(depth)
    nodes = "root" if depth == 0 else f"{len(found.frontier)} nodes"
    return f"{len(found.rows.row):,} x {N_FEATURES}, {nodes}"


@cache
def numba_root() -> Any:
    """The stages of the Numba backend as functions, and the root of the first tree."""
    if not has_numba():
        pytest.skip("Numba does not work here")
    from benchmarks.stages import numba_stages

    return numba_stages, numba_stages.root_of(work().task, 0)


def test_bin_edges(benchmark):
    X, rule = work().X, BinRule(np.zeros(N_FEATURES, dtype=bool))
    note(benchmark, "bin edges", f"{SIZE}, {N_THREADS} threads", "host")
    mapper, _ = benchmark(learn_bins, X, rule, N_THREADS)
    assert mapper.n_features == N_FEATURES


def test_bin_codes(benchmark, device):
    X, mapper = work().X, work().matrix.mapper
    note(benchmark, "bin codes", f"{SIZE}, {N_THREADS} threads")
    device.bin(X, mapper, N_THREADS)
    matrix = benchmark(device.bin, X, mapper, N_THREADS)
    assert np.array_equal(matrix.codes, work().matrix.codes)


@pytest.mark.parametrize("depth", DEPTHS)
def test_histogram_numpy(benchmark, depth):
    found = level(depth)
    note(benchmark, "histogram", level_size(depth), "numpy")
    histograms = benchmark(found.histograms)
    assert (histograms[:, 0].sum(axis=(0, 2)) == found.frontier.hessian.sum()).all()


@pytest.mark.parametrize("depth", DEPTHS)
def test_split_numpy(benchmark, depth):
    found = level(depth)
    note(benchmark, "split", level_size(depth), "numpy")
    splits = benchmark(found.best_splits, found.histograms())
    assert np.array_equal(splits.feature, found.splits.feature)
    assert np.array_equal(splits.bin, found.splits.bin)


@pytest.mark.parametrize("depth", DEPTHS)
def test_partition_numpy(benchmark, depth):
    found = level(depth)
    note(benchmark, "partition", level_size(depth), "numpy")
    accepted = found.splits.score >= 0.0
    level_of = found.rows, found.frontier, found.candidates
    chosen = {"splits": found.splits, "accepted": accepted}
    chosen["sums"] = found.ops.leaf_sums(*level_of, accepted)
    rows, children = benchmark(found.ops.partition, *level_of, **chosen)
    assert len(children) == 2 * accepted.sum() and children.count.sum() == len(rows.row)


def test_histogram_numba(benchmark):
    stages, root = numba_root()
    note(benchmark, "histogram", level_size(0), "numba")
    stages.histograms(root)
    assert benchmark(stages.histograms, root) >= N_FEATURES


def test_split_numba(benchmark):
    stages, root = numba_root()
    note(benchmark, "histogram and split", level_size(0), "numba")
    stages.split(root)
    split = benchmark(stages.split, root)
    assert (split["feature"], split["bin"]) == (level(0).splits.feature[0], level(0).splits.bin[0])


def test_partition_numba(benchmark):
    stages, root = numba_root()
    note(benchmark, "partition", level_size(0), "numba")
    split = level(0).splits
    where = int(split.feature[0]), int(split.bin[0])
    stages.partition(root, *where)
    n_left = benchmark(stages.partition, root, *where)
    assert n_left == level(1).frontier.count[0]


def test_grow(benchmark, device):
    task = replace(work().task, trees=range(2))
    note(benchmark, f"2 trees of depth {TREE_DEPTH}", f"{SIZE}, {N_THREADS} threads")
    list(device.grow(task))
    grown = benchmark(lambda: list(device.grow(task)))
    assert [tree for tree, _ in grown] == [0, 1]


def test_predict(benchmark, device):
    X = work().X
    note(benchmark, f"prediction, {N_TREES} deep trees", f"{SIZE}, {N_THREADS} threads")
    device.predict(forest(), X, N_THREADS)
    values = benchmark(device.predict, forest(), X, N_THREADS)
    assert values.shape == (N_ROWS, 2)
