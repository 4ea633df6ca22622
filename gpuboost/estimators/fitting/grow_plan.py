"""The steps between checked data and finished trees, the same for every estimator."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from traceback import clear_frames
from typing import TYPE_CHECKING, Any

from gpuboost.backends.host.finish import check_weight, in_threads
from gpuboost.engine.growth.pruning import cut_back, pruned
from gpuboost.engine.task import GrowTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpuboost.backends.protocol import Backend
    from gpuboost.engine.bins import BinnedMatrix
    from gpuboost.engine.growth.tree import Tree
    from gpuboost.engine.sampling import RowSampler
    from gpuboost.engine.task import Target, TreeOptions
    from gpuboost.engine.tree_rows import TreeRows
    from gpuboost.estimators.inputs.parameters import Execution
    from gpuboost.estimators.model.fitted import Batch


@dataclass(frozen=True, eq=False)
class GrowPlan:
    """Everything that decides what the trees of a fit are."""

    options: TreeOptions
    batch: Batch
    target: Target


def rows_with_weight(sampler: RowSampler, tree: int) -> TreeRows:
    """The rows of a tree, checked to be some."""
    rows = sampler.rows(tree)
    check_weight(sampler, tree, bool(rows.weight.any()))
    return rows


def grow_trees(
    plan: GrowPlan, matrix: BinnedMatrix, backend: Backend, execution: Execution
) -> Iterator[Tree]:
    """Grow the trees of a plan, and prune what comes finished."""
    sampler, draw = plan.batch.sampler, plan.batch.feature_draw
    seed = sampler.seed
    task = GrowTask(
        matrix,
        plan.target,
        plan.options,
        rows_of=partial(rows_with_weight, sampler),
        trees=plan.batch.trees,
        seed=seed,
        features_of=None if draw is None else lambda tree: draw.distinct_features(seed, tree),
        n_threads=execution.n_threads,
        sampler=sampler,
    )

    options = plan.options

    def prune(numbered: tuple[int, Tree]) -> Tree:
        return pruned(cut_back(numbered[1], options.min_decrease), options.ccp_alpha)

    prunes = options.ccp_alpha > 0.0 or options.min_decrease > 0.0
    trees = in_threads(prune, backend.grow_finished(task), execution.n_threads if prunes else 1)
    yield from with_progress(trees, len(plan.batch.trees), execution.verbose)


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
        clear_frames(error.__traceback__)  # who keeps the error must not keep the arrays
        raise MemoryError(
            "Not enough memory for this fit; nothing of it was kept. Grow smaller trees (max_depth,"
            " max_leaf_nodes, min_samples_leaf), fewer of them (n_estimators), or several at a "
            "time with a lower n_jobs; float32 in place of float64, or a gpuboost.Dataset in "
            f"place of X, halves the data or better. ({error})"
        ) from error
