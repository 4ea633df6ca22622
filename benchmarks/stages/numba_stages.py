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
from gpuboost.backends.numba.common.packed_words import choose_packing, fits_word
from gpuboost.backends.numba.common.partition import partition as part_rows
from gpuboost.backends.numba.common.records import NODE, Members, Problem, Rows
from gpuboost.backends.numba.depth_first.grow import load_rows
from gpuboost.backends.numba.depth_first.tree_grower import targets_of
from gpuboost.backends.numba.splits.histograms import wide_prefix, word_prefix
from gpuboost.backends.numba.splits.search import find_split
from gpuboost.engine.sampling import root_key
from gpuboost.engine.task import GrowTask


class Root(NamedTuple):
    """The root of a tree, as compiled functions take it."""

    problem: Problem
    rows: Rows
    members: Members


def root_of(task: GrowTask, tree: int) -> Root:
    """Load the rows of a tree with one channel and return its root."""
    tree_rows = task.rows_of(tree)
    n, n_features = task.matrix.n_samples, task.matrix.n_features
    limits = limits_of(task.options, task.target, Weights.of(tree_rows))
    packing = choose_packing(1, int(tree_rows.weight.max()), limits.min_samples_leaf > 1)
    rows = make_rows(n)
    count, gradient, hessian = load_rows(targets_of(task, tree_rows), packing, 1, rows)
    node = np.zeros(1, NODE)[0]
    node["count"], node["gradient"], node["hessian"] = count, gradient, hessian
    node["key"] = np.uint64(root_key(task.seed, tree))
    is_wide = not fits_word(hessian, count, packing)
    members = Members(node, rows.row[:count], rows.word[:count], is_wide)
    features = np.arange(n_features, dtype=np.int32)
    scratch = make_scratch(n, n_features)
    matrix, constraints = matrix_of(task.matrix), constraints_of(task.options, n_features)
    problem = Problem(matrix, features, limits, constraints, packing, scratch, 0)
    return Root(problem, rows, members)


@njit(nogil=True)
def _histograms(problem: Any, members: Any) -> int:
    bins = 0
    for feature in range(problem.matrix.codes.shape[0]):
        if members.is_wide:
            bins += wide_prefix(problem, None, members, feature)
        else:
            bins += word_prefix(problem, members.row, members.word, feature)
    return bins


def histograms(root: Root) -> int:
    """Compute the prefix sums over the bins of each feature; return the number of bins."""
    return _histograms(root.problem, root.members)


def split(root: Root) -> np.void:
    """Build and scan the histogram of each feature; return the best split."""
    members = root.members
    find_split(root.problem, None, members.node, members.row, members.word)
    return root.problem.scratch.split[0]


@njit(nogil=True)
def _partition(codes: Any, feature: int, last_left: int, rows: Any, count: int) -> int:
    return part_rows(codes, (feature, last_left, -1), None, rows, 0, count)


def partition(root: Root, feature: int, last_left: int) -> int:
    """Move the rows to their sides; return the number on the left."""
    count = int(root.members.node["count"])
    codes = root.problem.matrix.codes
    return _partition(codes, feature, last_left, root.rows, count)
