"""The steps between the passes over the rows of a level, which decide what the passes do.

    make_roots        roots -> the first open nodes
    plan              open nodes -> sibling pairs and chunks of the histograms
    accept_splits     best splits -> children of the accepted splits, nodes to be partitioned
    open_children     numbers of rows in segments -> children, which are the next open nodes
    list_ends         grown trees -> nodes from whose rows leaves are found
    count_leaves      numbers of rows in segments -> counts of leaves to which no rows were moved
    collect           leaf sums -> trees

The steps handle nodes but no rows, so one thread runs them.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.constraints import constrain_root
from gpuboost.backends.numba.common.nodes import accept, is_leaf, keep_mask, make_children, set_node
from gpuboost.backends.numba.common.numbering import add_up, breadth_first, number_nodes
from gpuboost.backends.numba.common.queue import pop_heap, push_heap
from gpuboost.backends.numba.compiler import call_for_nothing, entry, helper, inlined, spliced
from gpuboost.backends.numba.level_wise.feature_sampling import is_better_split
from gpuboost.engine.task import NO_LIMIT

# Indices of ``capacities``: largest number of nodes of a tree, number of chunks of a level if all
# rows are in one node, number of rows up to which a node is one chunk, number of rows below which a
# node is small.
CAPACITY, PIECES, MIN_PIECE_ROWS, SMALL = range(4)
# Indices of ``level``: the numbers of open nodes, sibling pairs, chunks and ends.
OPEN, PAIRS, CHUNKS, ENDS = range(4)


@inlined
def _cut(chunks, n_chunks, owner, count, per_chunk):
    """Append chunks of nearly equal size for a node's rows; return the number of all chunks."""
    pieces = max((count + per_chunk - 1) // per_chunk, np.int64(1))
    for p in range(pieces):
        chunk = chunks[n_chunks + p]
        chunk.owner = owner
        chunk.start, chunk.stop = count * p // pieces, count * (p + 1) // pieces
    return n_chunks + pieces


@inlined
def _set_segments(segments, at, start, count):
    """Cut the rows of a root into segments."""
    n = segments.shape[0]
    for s in range(n):
        first = count * s // n
        segments[s, at, 0], segments[s, at, 1] = start + first, count * (s + 1) // n - first


@inlined
def _count_rows(state, at):
    """Set the number of rows of a node to the sum over its segments."""
    state.nodes[at].count = 0
    for segment in range(state.segments.shape[0]):
        state.nodes[at].count += state.segments[segment, at, 1]


@helper
def make_roots(problem, state, roots, keys, capacity):
    """Create the roots of all trees from `SharedArrays.roots`; return the number of trees.

    Also lists the roots in `GrowState.open`, makes all histograms spare, and empties the list of
    small nodes.
    """
    for tree in range(roots.shape[0]):
        node = state.nodes[tree * capacity]
        count, zero = roots[tree, 1], np.int64(0)
        set_node(node, zero, count, roots[tree, 2], roots[tree, 3], keys[tree], zero)
        _set_segments(state.segments, tree * capacity, roots[tree, 0], count)
        constrain_root(problem.limits, node, state.groups[tree * capacity])
        state.n_nodes[tree], state.open[tree] = 1, tree * capacity
        state.histogram_slot[tree * capacity] = -1
        state.n_waiting[tree], state.n_leaves[tree] = 0, 1
    for histogram_slot in range(state.spare.size):
        state.spare[histogram_slot] = histogram_slot
    state.n_spare[0], state.n_small[0] = state.spare.size, 0
    return roots.shape[0]


@inlined
def _may_split(problem, state, at, capacities):
    """Whether a node is searched on this level; small nodes are listed in `GrowState.small`."""
    state.slot[at] = -1
    if is_leaf(problem.limits, state.nodes[at]):
        return False
    if state.nodes[at].count >= capacities[SMALL]:
        return True
    state.small[state.n_small[0]] = at
    state.n_small[0] += 1
    return False


@helper
def list_roots(problem, state, roots, keys, capacities):
    """Create the roots, all of which are small, and list those that may be split."""
    for tree in range(make_roots(problem, state, roots, keys, capacities[CAPACITY])):
        _may_split(problem, state, tree * capacities[CAPACITY], capacities)


@inlined
def _give_back(state, at):
    """Return the histogram of a node to the spare histograms."""
    if state.histogram_slot[at] >= 0:
        state.spare[state.n_spare[0]] = state.histogram_slot[at]
        state.n_spare[0] += 1
        state.histogram_slot[at] = -1


@inlined
def _choose(problem, state, work, at, capacity):
    """Choose the candidate features of a searched node, unless nodes consider all features."""
    if work.node_sampling:
        given = problem, state, work.feature_status[state.slot[at]], at, capacity
        call_for_nothing(problem.plugins.choose_status, given)


@spliced
def _add_sibling_pair(problem, state, work, n_pairs, first, second, capacities):
    """List a node and its sibling if either is searched; return the new number of pairs.

    The smaller one is summed from rows, even if only the larger one is searched. A root is both
    ``first`` and ``second``.
    """
    if state.nodes[second].count < state.nodes[first].count:
        first, second = second, first
    is_open = _may_split(problem, state, first, capacities)
    other_open = second != first and _may_split(problem, state, second, capacities)
    if not other_open:
        _give_back(state, second)
    if not (is_open or other_open):
        state.histogram_slot[first] = -1
        return n_pairs
    pair = work.pairs[n_pairs]
    pair.is_open, pair.summed = is_open, first
    pair.other = second if other_open else -1
    pair.other_histogram = state.histogram_slot[second]
    state.n_spare[0] -= 1
    pair.summed_histogram = state.histogram_slot[first] = state.spare[state.n_spare[0]]
    if is_open:
        state.slot[first] = 2 * n_pairs
        _choose(problem, state, work, first, capacities[CAPACITY])
    if other_open:
        state.slot[second] = 2 * n_pairs + 1
        _choose(problem, state, work, second, capacities[CAPACITY])
    return n_pairs + 1


@helper
def plan(problem, state, work, n_open, capacities):
    """List the sibling pairs and chunks of a level; return their numbers.

    Also chooses the candidate features of the searched nodes.
    """
    n_pairs, n_chunks, n_rows, part, i = np.int64(0), np.int64(0), np.int64(0), work.first_part, 0
    while i < n_open:
        first = second = state.open[i]
        if state.nodes[first].depth > 0:
            second = state.open[i + 1]
        i += 1 + np.int64(second != first)
        n_pairs = _add_sibling_pair(problem, state, work, n_pairs, first, second, capacities)
    for f in range(n_pairs):
        n_rows += state.nodes[work.pairs[f].summed].count
    per_chunk = max(-(-n_rows // capacities[PIECES]), capacities[MIN_PIECE_ROWS])
    for f in range(n_pairs):
        pair = work.pairs[f]
        pair.tree, pair.first_chunk = pair.summed // capacities[CAPACITY], n_chunks
        n_chunks = _cut(work.chunks, n_chunks, f, state.nodes[pair.summed].count, per_chunk)
        pair.n_chunks = n_chunks - pair.first_chunk
        pair.first_part = part
        if pair.n_chunks > 1:
            part += pair.n_chunks
    return n_pairs, n_chunks


@inlined
def _take_best(scratch, work, slot):
    """Copy the best split of a node over all strips to `Scratch.split`; return its strip."""
    best = 0
    for strip in range(1, work.found.shape[1]):
        if is_better_split(work.found[slot, best], work.found[slot, strip], work.node_sampling):
            best = strip
    scratch.split[0] = work.found[slot, best]
    return best


@spliced
def _take_split(problem, state, work, at):
    """Store the best split of a node if its gain is large enough; return whether it is.

    Returns False for a node that was not searched.
    """
    slot = np.int64(state.slot[at])
    if slot < 0:
        return False
    best = _take_best(problem.scratch, work, slot)
    if not accept(problem.limits, problem.scratch, state.nodes[at]):
        return False
    if problem.scratch.split[0].categorical:
        keep_mask(state.nodes, state.masks, at, work.found_mask[slot, best])
    return True


@inlined
def _go_down(problem, state, at, n_going, capacity):
    """Create the children of a node, whose rows are counted later.

    The node is listed in `GrowState.open`, so that its rows are moved, unless its children have
    maximum depth or are the last ones of a best-first tree (31 leaves at 200k then take 0.90 of the
    time). Returns the number of listed nodes.
    """
    tree = at // capacity
    first, child = tree * capacity, state.n_nodes[tree]
    nodes, groups = state.nodes[first : first + capacity], state.groups[first : first + capacity]
    make_children(problem, nodes, at - first, child, np.int64(0), groups)
    state.n_nodes[tree] += 2
    is_last = state.n_leaves[tree] >= problem.limits.max_leaf_nodes
    if is_last or nodes[child].depth == problem.limits.max_depth:
        nodes[child + 1].count = 0
        return n_going
    state.open[n_going] = at
    return n_going + 1


@inlined
def _best_waiting(problem, state, tree, n_going, capacity):
    """Split waiting nodes of a tree, best first, until the children of one can be searched.

    That node is listed, too, so that its rows are moved. Stops earlier if no node is left, or if
    the tree has max_leaf_nodes leaves. Returns the number of nodes listed in `GrowState.open`.
    """
    nodes = state.nodes[tree * capacity : (tree + 1) * capacity]
    before = n_going
    while n_going == before:
        size = state.n_waiting[tree]
        if size == 0 or state.n_leaves[tree] >= problem.limits.max_leaf_nodes:
            break
        at = tree * capacity + np.int64(pop_heap(state.waiting[tree], size, nodes))
        state.n_waiting[tree] -= 1
        state.n_leaves[tree] += 1
        n_going = _go_down(problem, state, at, n_going, capacity)
    return n_going


@helper
def accept_splits(problem, state, work, n_open, capacities):
    """Accept splits, create the children; list the nodes to be partitioned, return their number.

    In best-first growth, accepted splits join the waiting nodes, of which the best are split.
    """
    n_going, capacity = np.int64(0), capacities[CAPACITY]
    best_first = problem.limits.max_leaf_nodes != NO_LIMIT
    for i in range(n_open):
        at = state.open[i]
        if not _take_split(problem, state, work, at):
            _give_back(state, at)
            continue
        if not best_first:
            n_going = _go_down(problem, state, at, n_going, capacity)
            continue
        tree = at // capacity
        nodes = state.nodes[tree * capacity : (tree + 1) * capacity]
        push_heap(state.waiting[tree], state.n_waiting[tree], nodes, at - tree * capacity)
        state.n_waiting[tree] += 1
    if best_first:
        for tree in range(state.n_nodes.size):
            n_going = _best_waiting(problem, state, tree, n_going, capacity)
    return n_going


@helper
def open_children(state, n_nodes, capacity):
    """List the children of the nodes in `GrowState.open` in their place; return their number."""
    for i in range(n_nodes - 1, -1, -1):
        at = state.open[i]
        left = at // capacity * capacity + np.int64(state.nodes[at].left)
        for side in range(2):
            _count_rows(state, left + side)
            state.histogram_slot[left + side] = state.histogram_slot[at]
            state.open[2 * i + side] = left + side
    return 2 * n_nodes


@inlined
def _number_nodes(state, tree, capacity):
    """Fill `GrowState.number` for a grown tree."""
    order, n_nodes = state.waiting[tree], state.n_nodes[tree]
    breadth_first(state.nodes[tree * capacity : (tree + 1) * capacity], n_nodes, order)
    for i in range(n_nodes):
        state.number[tree * capacity + order[i]] = i


@helper
def list_ends(state, capacity):
    """List the leaves in `GrowState.ends`; for those to which no rows were moved, their parents.

    A left child without a count marks them: a split has rows on both sides, since ``min_hessian``
    is at least 1. Also numbers the nodes breadth-first. Returns the number of ends.
    """
    n_ends = np.int64(0)
    for tree in range(state.n_nodes.size):
        _number_nodes(state, tree, capacity)
        for at in range(tree * capacity, tree * capacity + state.n_nodes[tree]):
            node = state.nodes[at]
            left = tree * capacity + np.int64(node.left)
            is_end = (node.count > 0) & ((node.left == 0) | (state.nodes[left].count == 0))
            state.ends[n_ends] = at
            n_ends += np.int64(is_end)
    return n_ends


@helper
def count_leaves(state, n_ends, capacity):
    """Count the rows of the leaves to which no rows were moved, once `leaves` has found them."""
    for i in range(n_ends):
        at = state.ends[i]
        left = np.int64(state.nodes[at].left)
        if left > 0:
            left += at // capacity * capacity
            _count_rows(state, left)
            _count_rows(state, left + 1)


@entry
def collect(state, leaves, tree, capacity, columns):
    """Fill the `TreeColumns` of one tree, which can have more room; return the number of masks."""
    first, n_nodes, sums = tree * capacity, state.n_nodes[tree], columns.sums
    sums[:n_nodes] = 0
    for table in range(leaves.sums.shape[0]):
        for i in range(n_nodes):
            for column in range(sums.shape[1]):
                sums[i, column] += leaves.sums[table, first + i, column]
    n_masks = number_nodes(state.nodes[first : first + capacity], n_nodes, state.masks, columns)
    add_up(columns, n_nodes)
    return n_masks
