"""What happens between the passes over the rows of a level: which nodes, which splits, which rows.

    plan      open nodes -> families and chunks of the histograms
    settle    best splits -> accepted ones, chunks of the partition
    place     rows that go left -> where rows go, children, the next open nodes
    list_ends leaves -> chunks of the leaf sums
    gather    leaf sums -> trees

All of it is work of a few nodes, done by one thread.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba._shared import allocating, entry, helper, inlined
from gpuboost.backends.numba.grow import accept, is_leaf, make_children, set_node
from gpuboost.backends.numba.numbering import number_nodes
from gpuboost.backends.numba.scan import beats


@inlined
def _cut(chunks, n_chunks, owner, node, rows_per_chunk):
    """Append the chunks of a node's rows, of nearly equal size; the number of all chunks."""
    pieces = max((node.count + rows_per_chunk - 1) // rows_per_chunk, np.int64(1))
    for p in range(pieces):
        chunk = chunks[n_chunks + p]
        chunk.owner = owner
        chunk.start = node.start + node.count * p // pieces
        chunk.stop = node.start + node.count * (p + 1) // pieces
    return n_chunks + pieces


@helper
def plant(problem, grove, roots, keys, room):
    """Make the roots; ``roots`` (T, 4): first position, rows, gradient, hessian. Returns T."""
    largest = problem.limits.max_value
    for tree in range(roots.shape[0]):
        node = grove.nodes[tree * room]
        start, count = roots[tree, 0], roots[tree, 1]
        set_node(node, start, count, roots[tree, 2], roots[tree, 3], keys[tree], 0)
        node.lower, node.upper = -largest, largest
        grove.n_nodes[tree], grove.open[tree] = 1, tree * room
        grove.slot[tree * room] = -1
    return roots.shape[0]


@inlined
def _may_split(problem, grove, at):
    """Whether a node is searched; else it has no histogram."""
    if is_leaf(problem.limits, grove.nodes[at]):
        grove.slot[at] = -1
        return False
    return True


@helper
def plan(problem, grove, work, n_open, rooms):
    """List families and chunks of a level; their numbers. ``rooms``: of a tree, rows per chunk."""
    n_families, n_chunks, n_parts, i = 0, 0, 0, 0
    while i < n_open:
        first = second = grove.open[i]
        if grove.nodes[first].depth > 0:
            second = grove.open[i + 1]
        i += 1 + np.int64(second != first)
        if grove.nodes[second].count < grove.nodes[first].count:
            first, second = second, first
        parent = np.int64(grove.slot[first])
        is_open, other_open = _may_split(problem, grove, first), False
        if second != first:
            other_open = _may_split(problem, grove, second)
        if not (is_open or other_open):
            continue
        family = work.families[n_families]
        family.tree, family.parent, family.is_open = first // rooms[0], parent, is_open
        family.summed, family.other = first, second if other_open else -1
        grove.slot[first] = 2 * n_families if is_open else -1
        if other_open:
            grove.slot[second] = 2 * n_families + 1
        family.first_chunk, family.first_part = n_chunks, n_parts
        n_chunks = _cut(work.chunks, n_chunks, n_families, grove.nodes[first], rooms[1])
        family.n_chunks = n_chunks - family.first_chunk
        if family.n_chunks > 1:
            n_parts += family.n_chunks
        n_families += 1
    return n_families, n_chunks


@inlined
def _take_best(scratch, work, slot):
    """Copy the best split of a node over all tiles to `Scratch.split`."""
    best = 0
    for tile in range(1, work.found.shape[1]):
        own = work.found[slot, tile]
        if beats(work.found[slot, best], own.gain, own.rank):
            best = tile
    scratch.split[0] = work.found[slot, best]
    return best


@helper
def settle(problem, grove, work, n_open, rooms):
    """Accept splits; list the chunks of the partition, or make children that are leaves at once."""
    limits, n_chunks = problem.limits, 0
    for i in range(n_open):
        at = grove.open[i]
        slot, node, tree = np.int64(grove.slot[at]), grove.nodes[at], at // rooms[0]
        if slot < 0:
            continue
        best = _take_best(problem.scratch, work, slot)
        if not accept(limits, problem.scratch, node):
            continue
        if problem.scratch.split[0].categorical:
            node.category = at
            for word in range(16):
                grove.masks[at, word] = work.found_mask[slot, best, word]
        if node.depth + 1 < limits.max_depth:
            n_chunks = _cut(work.chunks, n_chunks, at, node, rooms[1])
        else:
            nodes = grove.nodes[tree * rooms[0] : (tree + 1) * rooms[0]]
            child = grove.n_nodes[tree]
            make_children(problem, nodes, at - tree * rooms[0], child, 0)
            nodes[child + 1].count = 0  # `gather` counts
            grove.n_nodes[tree] += 2
    return n_chunks


@helper
def place(problem, grove, work, n_chunks, room):
    """Where the rows of each chunk go; children, which are the next open nodes: their number."""
    n_open, first = 0, 0
    while first < n_chunks:
        at, last, n_left = work.chunks[first].owner, first, np.int64(0)
        while last < n_chunks and work.chunks[last].owner == at:
            n_left += work.chunks[last].n_left
            last += 1
        node, tree = grove.nodes[at], at // room
        left, right = node.start, node.start + n_left
        for c in range(first, last):
            chunk = work.chunks[c]
            chunk.to_left, chunk.to_right = left, right
            left += chunk.n_left
            right += chunk.stop - chunk.start - chunk.n_left
        nodes, child = grove.nodes[tree * room : (tree + 1) * room], grove.n_nodes[tree]
        make_children(problem, nodes, at - tree * room, child, n_left)
        grove.n_nodes[tree] += 2
        for side in range(2):
            grove.open[n_open + side] = tree * room + child + side
            grove.slot[tree * room + child + side] = grove.slot[at]
        n_open, first = n_open + 2, last
    return n_open


@helper
def list_ends(problem, grove, work, rooms):
    """Chunks of the nodes whose rows were never moved on: leaves, and parents of the deepest."""
    n_chunks, deepest = 0, problem.limits.max_depth
    for tree in range(grove.n_nodes.size):
        for own in range(grove.n_nodes[tree]):
            node = grove.nodes[tree * rooms[0] + own]
            is_end = (node.left == 0) & ((node.depth < deepest) | (node.depth == 0))
            is_end |= (node.left > 0) & (node.depth + 1 == deepest)
            if is_end:
                n_chunks = _cut(work.chunks, n_chunks, tree * rooms[0] + own, node, rooms[1])
    return n_chunks


@allocating
def gather(grove, work, leaves, tree, room, n_chunks):
    """Columns of `spec.GrownTree` from ``feature`` to ``hessian``, and its sums."""
    nodes, n_nodes = grove.nodes[tree * room : (tree + 1) * room], grove.n_nodes[tree]
    n_sums = leaves.sums.shape[2] - 1
    sums = np.zeros((n_nodes, n_sums), np.int64)
    for c in range(n_chunks):
        at = work.chunks[c].owner
        if at // room != tree:
            continue
        left = np.int64(nodes[at - tree * room].left)
        for side in range(2 if left > 0 else 1):
            leaf = left + side if left > 0 else at - tree * room
            if left > 0:
                nodes[leaf].count += leaves.sums[c, side, 0]
            for column in range(n_sums):
                sums[leaf, column] += leaves.sums[c, side, 1 + column]
    for own in range(n_nodes - 1, -1, -1):
        left = np.int64(nodes[own].left)
        if left > 0:
            for column in range(n_sums):
                sums[own, column] = sums[left, column] + sums[left + 1, column]
    columns, _ = number_nodes(nodes, n_nodes, grove.masks)
    return columns, sums


@entry
def collect(grove, work, leaves, tree, room, n_chunks):
    """`gather` for Python."""
    return gather(grove, work, leaves, tree, room, n_chunks)
