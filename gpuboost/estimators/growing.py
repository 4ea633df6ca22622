"""The steps between checked data and finished trees, the same for every estimator."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.engine.spec import GrowTask
from gpuboost.engine.tree import finish_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpuboost.backends.protocol import Backend
    from gpuboost.data.binning import BinnedMatrix
    from gpuboost.engine.sampling import RowSampler
    from gpuboost.engine.spec import Target, TreeOptions, TreeRows
    from gpuboost.engine.tree import Tree
    from gpuboost.estimators.fitted import Batch
    from gpuboost.estimators.settings import Machine


@dataclass(frozen=True, eq=False)
class GrowPlan:
    """Everything that decides what the trees of a fit are."""

    options: TreeOptions
    batch: Batch
    target: Target


@dataclass(frozen=True, eq=False)
class RowsOfTree:
    """Makes the rows of a tree when a backend asks, and keeps of them what finishing needs.

    The rows of a tree are as long as the data; a forest must not hold those of all its trees.
    """

    sampler: RowSampler
    _briefs: dict[int, TreeRows] = field(default_factory=dict)

    def __call__(self, tree: int) -> TreeRows:
        """The rows of a tree."""
        rows = self.sampler.rows(tree)
        if not rows.weight.any():
            raise ValueError(
                f"all {self.sampler.n_draws} rows drawn for tree {tree} are of classes whose "
                "class_weight is 0; raise max_samples, or leave those rows out of the data"
            )
        none = np.zeros(0, dtype=np.int64)
        self._briefs[tree] = replace(
            rows, weight=none, inside=None, wide=None if rows.wide is None else none
        )
        return rows

    def brief(self, tree: int) -> TreeRows:
        """How the leaf sums of a grown tree are to be read; forgets it."""
        return self._briefs.pop(tree)


def grow_trees(
    plan: GrowPlan, matrix: BinnedMatrix, backend: Backend, machine: Machine
) -> Iterator[Tree]:
    """Grow the trees of a plan and finish each as it comes."""
    rows_of = RowsOfTree(plan.batch.sampler)
    draw, seed = plan.batch.feature_draw, plan.batch.sampler.seed
    task = GrowTask(
        matrix,
        plan.target,
        plan.options,
        rows_of=rows_of,
        trees=plan.batch.trees,
        seed=seed,
        features_of=None if draw is None else lambda tree: draw.distinct_features(seed, tree),
        n_threads=machine.n_threads,
    )
    grown_trees = with_progress(backend.grow(task), len(plan.batch.trees), machine.verbose)
    score = plan.options.score
    for tree, grown in grown_trees:
        yield finish_tree(grown, matrix.mapper, plan.target, rows_of.brief(tree), score)


def with_progress(steps: Iterable[Any], total: int, verbose: int) -> Iterable[Any]:
    """The steps, with a progress bar on standard error if ``verbose``."""
    if not verbose:
        return steps
    from tqdm import tqdm  # met only by those who ask for it

    return tqdm(steps, total=total, desc="growing trees", unit="tree")


@contextmanager
def memory_advice() -> Iterator[None]:
    """Say what to change when memory runs out."""
    try:
        yield
    except MemoryError as error:
        raise MemoryError(
            "Not enough memory for this fit; nothing of it was kept. Grow smaller trees (max_depth,"
            " max_leaf_nodes, min_samples_leaf), fewer of them (n_estimators), or several at a "
            "time with a lower n_jobs; float32 in place of float64, or a gpuboost.Dataset in "
            f"place of X, halves the data or better. ({error})"
        ) from error
