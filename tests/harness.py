"""Problems for tests of the engine: made from a few choices, grown by any backend."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuboost.data.binning import BinMapper, BinnedMatrix, bin_columns, fit_bin_mapper
from gpuboost.engine.ensemble import Ensemble
from gpuboost.engine.sampling import ALL_ROWS, RowSampler, draw_features
from gpuboost.engine.spec import GrowTask, Target, TreeOptions
from gpuboost.engine.statistics import class_target, value_target
from gpuboost.engine.tree import finish_tree

COLUMN_KINDS = (
    "normal",
    "integers",
    "constant",
    "duplicate",
    "heavy",
    "denormal",
    "huge",
    "signed zero",
    "binary",
)
TARGET_KINDS = (
    "two classes",
    "five classes",
    "rare classes",
    "values",
    "heavy values",
    "outputs",
)


@dataclass(frozen=True)
class Problem:
    """Everything a fit needs, before any backend is chosen."""

    X: np.ndarray
    y: np.ndarray
    classification: bool
    weights: np.ndarray | None = None
    method: str = ALL_ROWS
    balance: bool = False
    is_categorical: np.ndarray | None = None
    max_bins: int = 255
    n_trees: int = 2
    tree_features: int | None = None
    seed: int = 0
    options: TreeOptions = field(default_factory=lambda: TreeOptions(score=0))

    def prepare(self) -> tuple[BinMapper, BinnedMatrix, RowSampler, Target]:
        """Bins, sampler and target: what is the same for every backend."""
        n, n_features = self.X.shape
        kinds = self.is_categorical
        kinds = np.zeros(n_features, bool) if kinds is None else kinds
        mapper = fit_bin_mapper(self.X, kinds, self.max_bins, self.weights)
        n_draws = n if self.method == "bootstrap" else max(1, n // 2)
        balance = self.y.astype(np.int32) if self.balance and self.method != ALL_ROWS else None
        sampler = RowSampler(self.method, n, n_draws, self.seed, self.weights, balance)
        if self.classification:
            target = class_target(self.y, int(self.y.max()) + 1, sampler.weight_facts)
        else:
            y = self.y.reshape(n, -1)
            target = value_target(y, sampler.weight_facts)
        return mapper, bin_columns(self.X, mapper), sampler, target

    def task(
        self, matrix: BinnedMatrix, sampler: RowSampler, target: Target, **settings: Any
    ) -> GrowTask:
        """What a backend is asked for."""
        features_of = None
        if self.tree_features is not None:
            count, n_features = self.tree_features, matrix.n_features

            def features_of(tree: int) -> np.ndarray:
                return draw_features(self.seed, tree, n_features, count, replace=False)

        trees = range(self.n_trees)
        common = (matrix, target, self.options, sampler.rows, trees, self.seed)
        return GrowTask(*common, features_of=features_of, sampler=sampler, **settings)

    def with_options(self, **changes: Any) -> Problem:
        """The same problem under other limits."""
        return replace(self, options=replace(self.options, **changes))


def grow(problem: Problem, backend: Any, n_threads: int = 1, **task: Any) -> tuple[Ensemble, str]:
    """The ensemble that ``backend`` grows, and its fingerprint."""
    mapper, matrix, sampler, target = problem.prepare()
    asked = problem.task(matrix, sampler, target, n_threads=n_threads, **task)
    score = problem.options.score
    trees = [
        finish_tree(grown, mapper, target, sampler.brief, score) for _, grown in backend.grow(asked)
    ]
    ensemble = Ensemble.of(trees)
    return ensemble, ensemble.fingerprint(mapper)


def make_columns(rng: np.random.Generator, n: int, kinds: list[str], dtype: Any) -> np.ndarray:
    """A matrix whose columns are of the given kinds (`COLUMN_KINDS`)."""
    X = np.empty((n, len(kinds)), dtype=np.float64)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    for f, kind in enumerate(kinds):
        normal = rng.standard_normal(n)
        X[:, f] = {
            "normal": normal,
            "integers": rng.integers(-5, 6, n),
            "constant": np.full(n, 3.5),
            "duplicate": X[:, f - 1] if f else normal,
            "heavy": np.exp(np.clip(20 * normal, -80, 80)),
            "denormal": rng.integers(0, 9, n) * tiny,
            "huge": np.sign(normal) * float(np.finfo(dtype).max) * rng.choice([0.5, 1.0], n),
            "signed zero": rng.choice([-0.0, 0.0, 1.0], n),
            "binary": rng.integers(0, 2, n),
        }[kind]
    return X.astype(dtype)


def make_target(rng: np.random.Generator, X: np.ndarray, kind: str) -> tuple[np.ndarray, bool]:
    """A target that depends on the first columns, and whether it is one of classes."""
    n = len(X)
    order = np.argsort(np.argsort(np.nan_to_num(X[:, 0].astype(np.float64)), kind="stable"))
    signal = order / max(n, 1) + 0.3 * rng.standard_normal(n)
    if kind == "two classes":
        return (signal > 0.5).astype(np.int32), True
    if kind == "five classes":
        return np.clip(np.floor(signal * 5), 0, 4).astype(np.int32), True
    if kind == "rare classes":
        return np.where(signal > 1.2, rng.integers(1, 12, n), 0).astype(np.int32), True
    if kind == "heavy values":
        return np.exp(np.clip(12 * signal, -300, 300)), False
    if kind == "outputs":
        return np.column_stack([signal, rng.integers(0, 3, n)]), False
    return signal, False


def make_weights(rng: np.random.Generator, n: int, kind: str) -> np.ndarray | None:
    """None, small integers, or real weights over nine orders of magnitude; some are zero."""
    if kind == "none":
        return None
    if kind == "integers":
        return np.maximum(rng.integers(0, 4, n), np.arange(n) == 0).astype(np.float64)
    weights = 10.0 ** rng.uniform(-9, 0, n)
    weights[rng.random(n) < 0.1] = 0.0
    weights[0] = 1.0
    return weights
