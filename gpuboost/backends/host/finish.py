"""Finishing of grown trees on the host, for trees that are not finished on a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuboost.engine.growth.tree import ThresholdFinder, Tree, finish_tree
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.targets import GradientTarget
from gpuboost.engine.task import GrownTree, GrowTask


def finish_grown(
    task: GrowTask,
    grown_trees: Iterable[tuple[int, GrownTree]],
    threshold_finder: ThresholdFinder | None = None,
) -> Iterator[tuple[int, Tree]]:
    """Finish trees as they arrive; see `gpuboost.backends.protocol.Backend.grow_finished`.

    ``grown_trees`` are the trees of ``task`` with their numbers. ``threshold_finder`` is the
    backend's `Backend.threshold_finder`.
    """
    sampler, target = task.sampler, task.target
    assert sampler is not None and not isinstance(target, GradientTarget)
    mapper, options = task.matrix.mapper, task.options
    for tree, grown in grown_trees:
        check_weight(sampler, tree, bool(grown.hessian[0]))
        rows = sampler.shared_rows
        yield tree, finish_tree(grown, mapper, target, rows, options, threshold_finder)


def check_weight(sampler: RowSampler, tree: int, has_weight: bool) -> None:
    """Raise ValueError if no row drawn for a tree has positive weight."""
    if not has_weight:
        raise ValueError(
            f"all {sampler.n_draws} rows drawn for tree {tree} are of classes whose "
            "class_weight is 0 or negligible; raise max_samples, or leave these rows out of the "
            "data"
        )
