"""Finishing of grown trees on the host, for trees that are not finished on a device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from gpuboost.backends.compiling import worker_threads
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

    def finish(numbered: tuple[int, GrownTree]) -> tuple[int, Tree]:
        tree, grown = numbered
        check_weight(sampler, tree, bool(grown.hessian[0]))
        return tree, finish_tree(
            grown, mapper, target, sampler.shared_rows, options, threshold_finder
        )

    return in_threads(finish, grown_trees, task.n_threads)


def check_weight(sampler: RowSampler, tree: int, has_weight: bool) -> None:
    """Raise ValueError if no row drawn for a tree has positive weight."""
    if not has_weight:
        raise ValueError(
            f"all {sampler.n_draws} rows drawn for tree {tree} are of classes whose "
            "class_weight is 0 or negligible; raise max_samples, or leave these rows out of the "
            "data"
        )


def in_threads(work: Callable[[Any], Any], items: Iterable[Any], n_threads: int) -> Iterator[Any]:
    """Apply ``work`` on threads to items as they arrive; yield the results in the items' order."""
    if n_threads == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Any]] = deque()
    with worker_threads(n_threads) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
