"""The plan of the trees of a fit, and the growth of planned trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gpuboost.backends.compiling import observed_by
from gpuboost.backends.cost_model import GrowthSize
from gpuboost.backends.host.finish import check_weight
from gpuboost.data.frames import FeatureSchema
from gpuboost.engine.bins import BinMapper
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.pruning import pruned_by
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.targets import LabelTarget, TreeRows
from gpuboost.engine.task import GrowTask, TreeOptions
from gpuboost.estimators.fitting.pipeline import FitInputs, Prepared
from gpuboost.estimators.inputs.constraints import with_constraints
from gpuboost.estimators.inputs.parameters import tree_options
from gpuboost.estimators.model.fitted import FittedTrees, TreeBatch

LIMITS = ("max_depth", "max_leaf_nodes", "min_samples_leaf", "ccp_alpha")  # also in `GrowthSize`
GROWING = "growing trees"  # description of the progress bar, unless a compiler runs


@dataclass(frozen=True, eq=False)
class GrowPlan:
    """The options, rows, features and target that determine the trees of a fit."""

    options: TreeOptions
    batch: TreeBatch
    target: LabelTarget

    @property
    def task_of(self) -> partial[GrowTask]:
        """Makes the task of the trees from a binned matrix."""
        sampler, draw, seed = self.batch.sampler, self.batch.feature_draw, self.batch.sampler.seed
        return partial(
            GrowTask,
            target=self.target,
            options=self.options,
            rows_of=partial(rows_with_weight, sampler, self.target),
            trees=self.batch.trees,
            seed=seed,
            features_of=None if draw is None else lambda tree: draw.distinct_features(seed, tree),
            sampler=sampler,
        )


def tree_plan(
    estimator: Any, inputs: FitInputs, batch: TreeBatch, in_turn: bool = False
) -> tuple[GrowPlan, GrowthSize]:
    """The plan of a batch of trees, with the estimator's constraints, and their `GrowthSize`.

    Parameters
    ----------
    estimator : object
        Estimator whose ``_tree`` has the parameters of the trees.
    inputs : FitInputs
    batch : TreeBatch
    in_turn : bool
        Whether the trees grow one after another.
    """
    tree, labels, schema = estimator._tree, inputs.labels, inputs.schema
    n_features = schema.n_features if batch.feature_draw is None else batch.feature_draw.count
    options = tree_options(tree, len(labels), n_features, labels.criteria)
    options = with_constraints(options, tree, schema, labels)
    target = labels.target(batch.sampler, options.criterion)
    options = options.for_growing()
    n_trees, n_rounds = (1, len(batch.trees)) if in_turn else (len(batch.trees), 1)
    growth = growth_of(inputs, vars(options), (n_trees, n_rounds, target.n_channels))
    return GrowPlan(options, batch, target), growth


def growth_of(inputs: FitInputs, limits: dict[str, Any], of_trees: tuple[int, ...]) -> GrowthSize:
    """The `GrowthSize` of a fit.

    Parameters
    ----------
    limits : dict
        The options of a tree by name, at least ``max_features`` and `LIMITS`.
    of_trees : tuple of int
        Numbers of trees that grow together, of rounds and of channels.
    """
    n_trees, n_rounds, n_channels = of_trees
    return GrowthSize(
        len(inputs.labels),
        inputs.schema.n_features,
        limits["max_features"],
        n_trees,
        n_channels=n_channels,
        value_bytes=inputs.value_bytes,
        n_rounds=n_rounds,
        random_thresholds=limits.get("random_thresholds", False),
        **{name: limits[name] for name in LIMITS},
    )


def grow_trees(
    prepared: Prepared[GrowPlan], watch: Callable[..., Iterable[Tree]] | None = None
) -> FittedTrees:
    """Grow and prune the trees of a plan; a warm start appends them to the earlier model.

    ``watch(trees, model_of)`` returns the trees that are kept; ``model_of`` makes the model of
    some of them.
    """
    plan, execution = prepared.plan, prepared.execution
    options, batch = plan.options, plan.batch
    watched = watch is not None
    task = plan.task_of(prepared.matrix, n_threads=execution.n_threads, is_watched=watched)
    grown = prepared.backend.grow_finished(task) if batch.trees else ()
    trees = (pruned_by(tree, options) for _, tree in grown)
    shown = with_progress(trees, len(batch.trees), execution.verbose)
    bins, n_outputs = (prepared.matrix.mapper, prepared.schema), prepared.labels.n_outputs
    model_of = partial(_model_of, prepared.before, batch, bins, n_outputs)
    return model_of(shown if watch is None else watch(shown, model_of))


def _model_of(
    before: FittedTrees | None,
    batch: TreeBatch,
    bins: tuple[BinMapper, FeatureSchema],
    n_outputs: int,
    trees: Iterable[Tree],
) -> FittedTrees:
    """The model of the trees of an earlier model, if there is one, and further trees."""
    old = before.ensemble.trees if before else ()
    ensemble = Ensemble.of_stream(trees, len(old) + len(batch.trees), old)
    numbers = range(len(old), ensemble.n_trees)
    batch = replace(batch, trees=numbers, sampler=batch.sampler.drawing_only())
    batches = (*before.batches, batch) if before else (batch,)
    return FittedTrees(ensemble, *bins, batches, n_outputs=n_outputs)


def rows_with_weight(sampler: RowSampler, target: LabelTarget, tree: int) -> TreeRows:
    """The rows of a tree; raise an error if no row has weight."""
    rows = sampler.copied_to_host.rows(tree)
    check_weight(sampler, tree, bool(rows.weight.any()))
    return target.with_leaf_terms(rows)


def with_progress(steps: Iterable[Any], total: int, verbose: int) -> Iterable[Any]:
    """The steps (trees or rounds), with a progress bar on standard error if ``verbose``."""
    return _with_bar(steps, total) if verbose else steps


def _with_bar(steps: Iterable[Any], total: int) -> Iterator[Any]:
    """Yield the steps beside a progress bar, which says "compiling" while a compiler runs."""
    from tqdm import tqdm  # imported only if used

    def show(is_compiling: bool) -> None:
        wanted = "compiling" if is_compiling else GROWING
        if bar.desc != f"{wanted}: ":
            bar.set_description(wanted)

    with tqdm(steps, total=total, desc=GROWING, unit="tree") as bar, observed_by(show):
        yield from bar
