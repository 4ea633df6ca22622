"""The stages of the Numba backend, one by one, at a root that considers all features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gpuboost.backends.numba.common.arguments import (
    Weights,
    limits_of,
    make_rows,
    make_scratch,
    matrix_of,
)
from gpuboost.backends.numba.common.constraints import constraints_of
from gpuboost.backends.numba.common.feature_codes import codes_of
from gpuboost.backends.numba.common.packed_words import choose_packing, fits_word
from gpuboost.backends.numba.common.partition import partition as part_rows
from gpuboost.backends.numba.common.records import NODE, Members, Problem, Scratch
from gpuboost.backends.numba.depth_first.grow import load_rows
from gpuboost.backends.numba.depth_first.tree_grower import targets_of
from gpuboost.backends.numba.pipeline import EntryCompiler
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.splits.histograms import wide_prefix, word_prefix
from gpuboost.backends.numba.splits.plugins import NO_PLUGINS, plugins_of
from gpuboost.backends.numba.splits.search import find_split
from gpuboost.engine.sampling import root_key
from gpuboost.engine.task import GrowTask


class Root(NamedTuple):
    """The root of a tree, as compiled functions take it."""

    problem: Reference
    rows: Reference
    node: np.void
    scratch: Scratch
    is_wide: bool


def root_of(task: GrowTask, tree: int) -> Root:
    """Load the rows of a tree with one channel and return its root."""
    tree_rows = task.rows_of(tree)
    n, n_features = task.matrix.n_samples, task.matrix.n_features
    limits = limits_of(task.options, task.target, Weights.of(tree_rows))
    packing = choose_packing(1, int(tree_rows.weight.max()), limits.min_samples_leaf > 1)
    rows = make_rows(n)
    given = by_reference(targets_of(task, tree_rows)), by_reference(packing), True
    count, gradient, hessian = _load(*given, by_reference(rows))
    node = np.zeros(1, NODE)[0]
    node["count"], node["gradient"], node["hessian"] = count, gradient, hessian
    node["key"] = np.uint64(root_key(task.seed, tree))
    scratch = make_scratch(n, n_features)
    constraints = constraints_of(task.options, n_features)
    facts = matrix_of(task.matrix), limits, constraints, packing, scratch
    parts = [by_reference(each) for each in facts]
    draft = by_reference(Problem(*parts, NO_PLUGINS))
    plugins = plugins_of(draft.kind, limits, any_categorical=False, depth_first=False)
    problem = by_reference(Problem(*parts, plugins))
    is_wide = not _fits_word(hessian, count, by_reference(packing))
    return Root(problem, by_reference(rows), node, scratch, is_wide)


compiled = njit(nogil=True, _nrt=False, pipeline_class=EntryCompiler)


@compiled
def _load(targets: Any, packing: Any, one_channel: bool, rows: Any) -> Any:
    return load_rows(targets, packing, one_channel, rows)


@compiled
def _fits_word(hessian: int, count: int, packing: Any) -> Any:
    return fits_word(hessian, count, packing)


@compiled
def _histograms(problem: Any, rows: Any, node: Any, is_wide: bool) -> int:
    row, word = rows.row[: node.count], rows.word[: node.count]
    members, bins = Members(node, row, word, is_wide), 0
    for feature in range(problem.matrix.codes.shape[0]):
        if is_wide:
            bins += wide_prefix(problem, None, members, feature)
        else:
            bins += word_prefix(problem, row, word, feature)
    return bins


def histograms(root: Root) -> int:
    """Compute the prefix sums over the bins of each feature; return the number of bins."""
    return _histograms(root.problem, root.rows, root.node, root.is_wide)


@compiled
def _split(problem: Any, rows: Any, node: Any) -> None:
    find_split(problem, None, node, rows.row[: node.count], rows.word[: node.count])


def split(root: Root) -> np.void:
    """Build and scan the histogram of each feature; return the best split."""
    _split(root.problem, root.rows, root.node)
    return root.scratch.split[0]


@compiled
def _partition(problem: Any, feature: int, last_left: int, rows: Any, count: int) -> int:
    codes = codes_of(problem, rows.row[:count], feature)
    return part_rows(codes, (last_left, 0), None, rows, 0, count)


def partition(root: Root, feature: int, last_left: int) -> int:
    """Move the rows to their sides; return the number on the left."""
    return _partition(root.problem, feature, last_left, root.rows, int(root.node["count"]))
