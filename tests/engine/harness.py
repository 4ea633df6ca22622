"""Problems for tests of the engine, and functions that solve them with any backend."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuboost.data.binning import bin_columns
from gpuboost.engine import randomness
from gpuboost.engine.bins import BinMapper, BinnedMatrix
from gpuboost.engine.criteria import ABSOLUTE
from gpuboost.engine.ensembles.boosting import Gradients, Scale, finish_boosted, quantised
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import finish_tree
from gpuboost.engine.quantise import (
    class_target,
    multi_output_class_target,
    regression_target,
)
from gpuboost.engine.sampling import ALL_ROWS, RowSampler, draw_features
from gpuboost.engine.targets import Target, TreeRows
from gpuboost.engine.task import GrowTask, TreeOptions
from tests.binning import fit_bin_mapper

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
    "class outputs",
    "values",
    "heavy values",
    "outputs",
    "counts",
    "amounts",
)


@dataclass(frozen=True)
class Problem:
    """The data and options of a fit, independent of the backend."""

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
    options: TreeOptions = field(default_factory=lambda: TreeOptions(criterion=0))
    by_median: bool = False  # for a regression
    boosting: str = ""  # "whole" or "real" hessians; "" for no boosting

    def prepare(self) -> tuple[BinMapper, BinnedMatrix, RowSampler, Target]:
        """Compute the bins, the sampler and the target, which all backends share."""
        n, n_features = self.X.shape
        kinds = self.is_categorical
        kinds = np.zeros(n_features, bool) if kinds is None else kinds
        mapper = fit_bin_mapper(self.X, kinds, self.max_bins, self.weights)
        if self.boosting:
            sampler = RowSampler(self.method, n, max(1, n // 2), self.seed)
            target = self.scale(sampler).target(self.y.reshape(n, -1).shape[1])
            return mapper, bin_columns(self.X, mapper), sampler, target
        n_draws = n if self.method == "bootstrap" else max(1, n // 2)
        balance = self.y.astype(np.int32) if self.balance and self.method != ALL_ROWS else None
        sampler = RowSampler(self.method, n, n_draws, self.seed, self.weights, balance)
        if self.classification:
            make = class_target if self.y.ndim == 1 else multi_output_class_target
            target = make(self.y, int(self.y.max()) + 1, sampler.weight_facts)
        else:
            y = self.y.reshape(n, -1)
            criterion = ABSOLUTE if self.by_median else self.options.criterion
            target = regression_target(y, sampler.weight_facts, criterion)
        return mapper, bin_columns(self.X, mapper), sampler, target

    def task(
        self, matrix: BinnedMatrix, sampler: RowSampler, target: Target, **settings: Any
    ) -> GrowTask:
        """The task that a backend receives."""
        features_of = None
        if self.tree_features is not None:
            count, n_features = self.tree_features, matrix.n_features

            def features_of(tree: int) -> np.ndarray:
                return draw_features(self.seed, tree, n_features, count, replace=False)

        trees = range(self.n_trees)
        if self.boosting:
            common = (matrix, target, self.options, self.boosted_rows(sampler), trees, self.seed)
            return GrowTask(*common, features_of=features_of, **settings)

        def rows_of(tree: int) -> TreeRows:
            return target.with_leaf_terms(sampler.rows(tree))

        common = (matrix, target, self.options, rows_of, trees, self.seed)
        return GrowTask(*common, features_of=features_of, sampler=sampler, **settings)

    def gradients(self, sampler: RowSampler, tree: int) -> Gradients:
        """Gradients and hessians of a tree, similar to those of a loss."""
        y = np.clip(self.y.reshape(len(self.y), -1).astype(np.float64), -1e30, 1e30)
        rng = np.random.default_rng(self.seed + tree)
        weight = np.ones(len(y)) if self.weights is None else self.weights
        inside = sampler.draw_counts(tree) > 0 if self.method != ALL_ROWS else None
        if self.weights is not None:
            inside = (weight > 0) if inside is None else inside & (weight > 0)
        gradient = (y - np.median(y, axis=0)) * weight[:, None]
        if self.boosting == "whole":
            whole = rng.integers(1, 4, len(y)).astype(np.int32)
            return Gradients(gradient, np.ones((len(y), 1)), whole, inside)
        n_hessians = y.shape[1] if self.seed % 2 else 1
        hessian = rng.uniform(0, 1, (len(y), n_hessians)) * weight[:, None]
        return Gradients(gradient, hessian, None, inside)

    def scale(self, sampler: RowSampler) -> Scale:
        """The common scale of all trees of a round."""
        made = [self.gradients(sampler, tree) for tree in range(self.n_trees)]
        gradient, hessian = (
            np.concatenate([getattr(each, name) for each in made])
            for name in ("gradient", "hessian")
        )
        return Scale.of(replace(made[0], gradient=gradient, hessian=hessian))

    def boosted_rows(self, sampler: RowSampler) -> Any:
        """A function that returns the rows of a tree of a boosting round."""
        scale = self.scale(sampler)

        def rows_of(tree: int) -> TreeRows:
            key = randomness.stream_key(self.seed, randomness.ROUND_GRADIENT, tree)
            made = self.gradients(sampler, tree)
            return quantised(made, scale, slice(0, made.gradient.shape[1]), key)

        return rows_of

    def finish(
        self,
        grown: Any,
        mapper: BinMapper,
        sampler: RowSampler,
        target: Target,
        threshold_finder: Any = None,
    ) -> Any:
        """Convert a grown tree to a finished tree."""
        if not self.boosting:
            return finish_tree(
                grown, mapper, target, sampler.shared_rows, self.options, threshold_finder
            )
        scale = self.scale(sampler)
        return finish_boosted(
            grown, mapper, scale, target.n_channels, self.options, 0.5, threshold_finder
        )

    def with_options(self, **changes: Any) -> Problem:
        """The same problem with some options changed."""
        return replace(self, options=replace(self.options, **changes))


def grow(problem: Problem, backend: Any, n_threads: int = 1, **task: Any) -> tuple[Ensemble, str]:
    """Grow an ensemble with ``backend``, and return it with its fingerprint."""
    mapper, matrix, sampler, target = problem.prepare()
    asked = problem.task(matrix, sampler, target, n_threads=n_threads, **task)
    known = mapper, sampler, target, getattr(backend, "threshold_finder", None)
    trees = [problem.finish(grown, *known) for _, grown in backend.grow(asked)]
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
    """A target that depends on the first columns, and whether it holds classes."""
    n = len(X)
    order = np.argsort(np.argsort(np.nan_to_num(X[:, 0].astype(np.float64)), kind="stable"))
    signal = order / max(n, 1) + 0.3 * rng.standard_normal(n)
    if kind == "two classes":
        return (signal > 0.5).astype(np.int32), True
    if kind == "five classes":
        return np.clip(np.floor(signal * 5), 0, 4).astype(np.int32), True
    if kind == "rare classes":
        return np.where(signal > 1.2, rng.integers(1, 12, n), 0).astype(np.int32), True
    if kind == "class outputs":
        return np.column_stack([signal > 0.5, np.clip(signal * 3, 0, 2)]).astype(np.int32), True
    if kind == "heavy values":
        return np.exp(np.clip(12 * signal, -300, 300)), False
    if kind in ("counts", "amounts"):
        counts = rng.poisson(np.exp(np.clip(3 * signal - 2, -9, 3))).astype(np.float64)
        if kind == "counts":
            return counts, False
        amounts = np.exp(np.clip(5 * signal, -30, 30)) * (rng.random(n) < 0.9)
        return np.column_stack([counts, amounts]), False
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
