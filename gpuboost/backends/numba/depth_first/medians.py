"""Trees of medians: a row's gradient is its weight times its sign about the median of its node.

With one output, rows are sorted by their targets once (`by_rank`) and partitions keep the order, so
the median is where half of the weight is reached. With several outputs, medians are found by
selection. With selection for one output, too, a random forest of 20k x 28 with absolute_error takes
14% longer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numba import from_dtype, types

from gpuboost.backends.numba.common.order_statistics import select, weight_of
from gpuboost.backends.numba.common.packed_words import hessian_of, pack
from gpuboost.backends.numba.common.records import NODE
from gpuboost.backends.numba.compiler import criteria, entry, helper, inlined, plugin
from gpuboost.backends.numba.references import Reference
from gpuboost.backends.numba.splits.channels import row_packing
from gpuboost.engine.targets import MedianTarget, TreeRows, map_rows
from gpuboost.engine.task import GrowTask

median_signs = criteria.median_signs


@helper
def _selected_bounds(ranks, weights, rows, own, own_weights):
    """The lower and upper rank of the median of some rows; both 0 if their weight is 0.

    ``own`` (float64) and ``own_weights`` (int64) are buffers with at least the number of rows.
    """
    total = np.int64(0)
    for j in range(rows.size):
        own[j], own_weights[j] = ranks[rows[j]], weight_of(weights, rows[j])
        total += own_weights[j]
    if total == 0:
        return 0.0, 0.0
    return select(own[: rows.size], own_weights[: rows.size], 0.5 * np.float64(total), 0)


@plugin(types.none)
def set_median_gradients(problem, channels, targets, rows, node, medians):
    """Find the medians of a node, and set the gradients of its rows.

    With one output, sets the gradient field of each word and the gradient of the node; with several
    outputs, sets the signs in `Channels.values`. ``medians`` (2 K,) gets the lower and upper rank
    of each median.
    """
    row = rows.row[node.start : node.start + node.count]
    if channels is None:
        word = rows.word[node.start : node.start + node.count]
        below, above = _sorted_bounds(problem, targets, node, row, word, medians)
        node.gradient = _set_word_gradients(problem.packing, word, below, above)
        return
    own, own_weights, ranks = problem.scratch.own, problem.scratch.own_weights, targets.ranks
    for k in range(ranks.shape[1]):
        of_output, weight = ranks[:, k], targets.median_weight
        lower, upper = _selected_bounds(of_output, weight, row, own, own_weights)
        medians[2 * k], medians[2 * k + 1] = np.int32(lower), np.int32(upper)
        for i in range(row.size):
            sign = median_signs(of_output[row[i]], lower, upper)
            channels.values[row[i], k] = np.int32(sign)


def median_plugin(
    problem: Reference, channels: Reference | None, targets: Reference, rows: Reference
) -> int:
    """The address of `set_median_gradients` for these arguments."""
    kinds = problem.kind, types.none if channels is None else channels.kind
    node_and_medians = from_dtype(NODE), types.Array(types.int32, 1, "C")
    return set_median_gradients.address(*kinds, targets.kind, rows.kind, *node_and_medians)


@inlined
def _weight(targets, packing, row, word, i):
    """Weight of the ``i``-th row of a node, by which its median is found."""
    if targets.median_weight.size:
        return targets.median_weight[row[i]]
    return hessian_of(word[i], packing)


@inlined
def _sorted_bounds(problem, targets, node, row, word, medians):
    """Find the median of a node whose rows are sorted by rank; return the range of rows of sign 0.

    ::

        | rank < lower | lower ... | between | upper ... | rank > upper |
          sign -1        sign -1     sign 0    sign 1      sign 1

    The median is the midpoint of the targets of ranks ``lower`` and ``upper``, which are written to
    ``medians``. Rows between them have no weight. If both are equal, the rows of this rank have
    sign 0.
    """
    ranks, packing, total = targets.ranks, problem.packing, node.hessian
    if targets.median_weight.size:
        total = np.int64(0)
        for i in range(row.size):
            total += targets.median_weight[row[i]]
    first, reached = 0, _weight(targets, packing, row, word, 0)
    while 2 * reached < total:
        first += 1
        reached += _weight(targets, packing, row, word, first)
    lower, after = ranks[row[first], 0], first + 1
    while after < row.size and ranks[row[after], 0] == lower:
        reached += _weight(targets, packing, row, word, after)
        after += 1
    medians[0], medians[1] = lower, lower
    if 2 * reached > total:
        while first > 0 and ranks[row[first - 1], 0] == lower:
            first -= 1
        return first, after
    following = after
    while _weight(targets, packing, row, word, following) == 0:
        following += 1
    medians[1] = ranks[row[following], 0]
    while ranks[row[following - 1], 0] == medians[1]:
        following -= 1
    return after, following


@inlined
def _set_word_gradients(packing, word, below, above):
    """Set the gradient of each word to sign * weight, and return the sum of the gradients.

    The sign is -1 before position ``below``, 1 from position ``above`` on, and 0 between them.
    """
    gradient = np.int64(0)
    for i in range(word.size):
        weight = hessian_of(word[i], packing)
        own = (np.int64(i >= above) - np.int64(i < below)) * weight
        word[i] = pack(own, weight, packing)
        gradient += own
    return gradient


@entry
def sum_medians(problem, channels, targets, rows, tree, columns):
    """Fill `TreeColumns.sums`: every node is summed over its rows (backends/protocol.py).

    The rows of a split node are still in its range, in another order.
    """
    order, medians, sums = columns.order, tree.medians, columns.sums
    packing = row_packing(problem, channels)
    for i in range(order.size):
        node = tree.nodes[order[i]]
        for column in range(medians.shape[1]):
            sums[i, column] = medians[order[i], column]
        for j in range(node.start, node.start + node.count):
            weight = hessian_of(rows.word[j], packing) if targets.draws else np.int64(1)
            _add_row(targets, rows.row[j], weight, sums[i])


@inlined
def _add_row(targets, row, weight, sums):
    """Add a row to the sums of a node, whose first columns already hold its medians."""
    ranks, wide = targets.ranks, targets.wide
    n_outputs = ranks.shape[1]
    for k in range(n_outputs):
        sign = median_signs(ranks[row, k], sums[2 * k], sums[2 * k + 1]) * weight
        to = 2 * n_outputs + 4 * k
        for plane in range(2):
            sums[to + plane] += sign * wide[row, 2 * k + plane]
            sums[to + 2 + plane] += sign * wide[row, 2 * n_outputs + plane]
    for plane in range(2):
        sums[6 * n_outputs + plane] += weight * wide[row, 2 * n_outputs + plane]


def by_rank(task: GrowTask) -> GrowTask:
    """The task with all rows sorted by target, if its leaves are medians of one output.

    Other tasks are returned unchanged.
    """
    target = task.target
    if not isinstance(target, MedianTarget) or target.n_channels > 1:
        return task
    order = np.argsort(target.ranks[:, 0], kind="stable")
    ordered = map_rows(target, lambda column: column[order])

    def rows_of(tree: int) -> TreeRows:
        rows = task.rows_of(tree)
        inside = None if rows.inside is None else rows.inside[order]
        return replace(rows, weight=rows.weight[order], inside=inside)

    matrix = replace(task.matrix, stored=task.matrix.codes[:, order])
    return replace(task, matrix=matrix, target=ordered, rows_of=rows_of)
