"""What happens between the passes over the rows of a level: which nodes, which splits, which rows.

    plant     roots -> the first open nodes
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

from gpuboost.backends.numba.common.feature_sampling import ALL_OPEN, forget_levels, pass_on_groups
from gpuboost.backends.numba.common.numbering import number_nodes
from gpuboost.backends.numba.common.queue import pop_heap, push_heap
from gpuboost.backends.numba.compiler import allocating, entry, helper, inlined, spliced
from gpuboost.backends.numba.depth_first.grow import accept, is_leaf, make_children, set_node
from gpuboost.backends.numba.level_wise.feature_sampling import choose, goes_before
from gpuboost.engine.task import NO_LIMIT

# Words of ``rooms``: nodes of a tree, pieces that all rows are cut into, rows of a piece at least,
# pieces of each root where these are summed side by side, else 0, rows below which a node is small.
ROOM, PIECES, LEAST, ROOT_PIECES, SMALL = range(5)


@inlined
def _per_chunk(n_rows, rooms):
    """Rows of a chunk, if so many are to be shared."""
    return max((n_rows + rooms[PIECES] - 1) // rooms[PIECES], rooms[LEAST])


@inlined
def _cut(chunks, n_chunks, owner, node, per_chunk):
    """Append the chunks of a node's rows, of nearly equal size; the number of all chunks."""
    pieces = max((node.count + per_chunk - 1) // per_chunk, np.int64(1))
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
        set_node(node, start, count, roots[tree, 2], roots[tree, 3], keys[tree], np.int64(0))
        node.lower, node.upper = -largest, largest
        grove.n_nodes[tree], grove.open[tree] = 1, tree * room
        grove.table[tree * room] = -1
        if problem.limits.has_interactions:
            grove.groups[tree * room] = ALL_OPEN
        grove.n_waiting[tree], grove.n_leaves[tree] = 0, 1
    for table in range(grove.spare.size):
        grove.spare[table] = table
    grove.n_spare[0], grove.n_small[0] = grove.spare.size, 0
    return roots.shape[0]


@inlined
def _may_split(problem, grove, at, rooms):
    """Whether a node is searched; else it has no histogram, and if it is but small it is listed."""
    grove.slot[at] = -1
    if is_leaf(problem.limits, grove.nodes[at]):
        return False
    if grove.nodes[at].count >= rooms[SMALL]:
        return True
    grove.small[grove.n_small[0]] = at
    grove.n_small[0] += 1
    return False


@inlined
def _give_back(grove, at):
    """The table of a node is for others."""
    if grove.table[at] >= 0:
        grove.spare[grove.n_spare[0]] = grove.table[at]
        grove.n_spare[0] += 1
        grove.table[at] = -1


@inlined
def _choose(problem, grove, work, drawn, at, room):
    """Which features a node that is searched looks at, where that is not for its tree to say."""
    if drawn is not None:
        choose(problem, grove, work.looks[grove.slot[at]], at, room)


@spliced
def _add_family(problem, grove, work, n_families, first, second, rooms):
    """List a node and its sibling, if there is one, the one with fewer rows to be summed."""
    if grove.nodes[second].count < grove.nodes[first].count:
        first, second = second, first
    is_open = _may_split(problem, grove, first, rooms)
    other_open = second != first and _may_split(problem, grove, second, rooms)
    if not other_open:
        _give_back(grove, second)
    if not (is_open or other_open):
        grove.table[first] = -1
        return n_families
    family = work.families[n_families]
    family.is_open, family.summed, family.other = is_open, first, second if other_open else -1
    family.other_table = grove.table[second]
    grove.n_spare[0] -= 1
    family.summed_table = grove.table[first] = grove.spare[grove.n_spare[0]]
    if is_open:
        grove.slot[first] = 2 * n_families
        _choose(problem, grove, work, work.drawn, first, rooms[ROOM])
    if other_open:
        grove.slot[second] = 2 * n_families + 1
        _choose(problem, grove, work, work.drawn, second, rooms[ROOM])
    return n_families + 1


@helper
def plan(problem, grove, work, n_open, rooms):
    """List families and chunks of a level; their numbers."""
    n_families, n_chunks, n_rows, i = np.int64(0), np.int64(0), np.int64(0), 0
    last_tree = np.int64(-1)
    while i < n_open:
        first = second = grove.open[i]
        if first // rooms[ROOM] != last_tree:
            last_tree = first // rooms[ROOM]
            forget_levels(problem.scratch)
        if grove.nodes[first].depth > 0:
            second = grove.open[i + 1]
        i += 1 + np.int64(second != first)
        n_families = _add_family(problem, grove, work, n_families, first, second, rooms)
    for f in range(n_families):
        n_rows += grove.nodes[work.families[f].summed].count
    per_chunk, part = _per_chunk(n_rows, rooms), work.first_part
    if n_families > 0 and rooms[ROOT_PIECES] > 0:
        node = grove.nodes[work.families[0].summed]
        if node.depth == 0:
            per_chunk = max((node.count + rooms[ROOT_PIECES] - 1) // rooms[ROOT_PIECES], 1)
    for f in range(n_families):
        family = work.families[f]
        family.tree, family.first_chunk = family.summed // rooms[ROOM], n_chunks
        n_chunks = _cut(work.chunks, n_chunks, f, grove.nodes[family.summed], per_chunk)
        family.n_chunks = n_chunks - family.first_chunk
        family.first_part = part
        if family.n_chunks > 1:
            part += family.n_chunks
    return n_families, n_chunks


@inlined
def _take_best(scratch, work, slot):
    """Copy the best split of a node over all tiles to `Scratch.split`."""
    best = 0
    for tile in range(1, work.found.shape[1]):
        if goes_before(work.found[slot, best], work.found[slot, tile], work.drawn):
            best = tile
    scratch.split[0] = work.found[slot, best]
    return best


@spliced
def _take_split(problem, grove, work, at):
    """Keep the best split of a node that was searched, if it is good enough."""
    slot = np.int64(grove.slot[at])
    if slot < 0:
        return False
    best = _take_best(problem.scratch, work, slot)
    if not accept(problem.limits, problem.scratch, grove.nodes[at]):
        return False
    if problem.scratch.split[0].categorical:
        grove.nodes[at].category = at
        for word in range(16):
            grove.masks[at, word] = work.found_mask[slot, best, word]
    return True


@inlined
def _go_down(problem, grove, at, n_going, room):
    """Split a node: list it in `Grove.open`, or if its children are leaves by depth make them."""
    node, tree = grove.nodes[at], at // room
    if node.depth + 1 < problem.limits.max_depth:
        grove.open[n_going] = at
        return n_going + 1
    nodes, child = grove.nodes[tree * room : (tree + 1) * room], grove.n_nodes[tree]
    make_children(problem, nodes, at - tree * room, child, np.int64(0))
    nodes[child + 1].count = 0  # `gather` counts
    grove.n_nodes[tree] += 2
    return n_going


@inlined
def _best_waiting(problem, grove, tree, n_going, room):
    """Split waiting nodes of a tree, the best first, up to one whose children may be searched."""
    nodes = grove.nodes[tree * room : (tree + 1) * room]
    before = n_going
    while n_going == before:
        size = grove.n_waiting[tree]
        if size == 0 or grove.n_leaves[tree] >= problem.limits.max_leaf_nodes:
            break
        at = tree * room + np.int64(pop_heap(grove.waiting[tree], size, nodes))
        grove.n_waiting[tree] -= 1
        grove.n_leaves[tree] += 1
        n_going = _go_down(problem, grove, at, n_going, room)
    return n_going


@helper
def settle(problem, grove, work, n_open, rooms):
    """Accept splits; list the chunks of the partition of nodes that are split now."""
    n_going, n_chunks, n_rows, room = np.int64(0), np.int64(0), np.int64(0), rooms[ROOM]
    best_first = problem.limits.max_leaf_nodes != NO_LIMIT
    for i in range(n_open):
        at = grove.open[i]
        if not _take_split(problem, grove, work, at):
            _give_back(grove, at)
            continue
        if not best_first:
            n_going = _go_down(problem, grove, at, n_going, room)
            continue
        tree = at // room
        nodes = grove.nodes[tree * room : (tree + 1) * room]
        push_heap(grove.waiting[tree], grove.n_waiting[tree], nodes, at - tree * room)
        grove.n_waiting[tree] += 1
    if best_first:
        for tree in range(grove.n_nodes.size):
            n_going = _best_waiting(problem, grove, tree, n_going, room)
    for i in range(n_going):
        n_rows += grove.nodes[grove.open[i]].count
    for i in range(n_going):
        at = grove.open[i]
        n_chunks = _cut(work.chunks, n_chunks, at, grove.nodes[at], _per_chunk(n_rows, rooms))
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
            grove.table[tree * room + child + side] = grove.table[at]
        if problem.limits.has_interactions:
            groups = grove.groups[tree * room : (tree + 1) * room]
            pass_on_groups(problem.constraints, nodes, at - tree * room, groups)
        n_open, first = n_open + 2, last
    return n_open


@inlined
def _number_nodes(grove, tree, room):
    """Fill `Grove.number` of a tree that is grown."""
    order, reached = grove.waiting[tree], 1
    order[0] = 0
    for i in range(grove.n_nodes[tree]):
        grove.number[tree * room + order[i]] = i
        left = grove.nodes[tree * room + order[i]].left
        if left > 0:
            order[reached], order[reached + 1] = left, left + 1
            reached += 2


@helper
def list_ends(problem, grove, work, rooms):
    """Chunks of the nodes whose rows were never moved on: leaves, and parents of the deepest."""
    n_chunks, n_rows, deepest = np.int64(0), np.int64(0), problem.limits.max_depth
    for tree in range(grove.n_nodes.size):
        _number_nodes(grove, tree, rooms[ROOM])
        n_rows += grove.nodes[tree * rooms[ROOM]].count
    per_chunk = _per_chunk(n_rows, rooms)
    for tree in range(grove.n_nodes.size):
        for own in range(grove.n_nodes[tree]):
            node = grove.nodes[tree * rooms[ROOM] + own]
            is_end = (node.left == 0) & ((node.depth < deepest) | (node.depth == 0))
            is_end |= (node.left > 0) & (node.depth + 1 == deepest)
            if is_end:
                n_chunks = _cut(work.chunks, n_chunks, tree * rooms[ROOM] + own, node, per_chunk)
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
    columns, order = number_nodes(nodes, n_nodes, grove.masks)
    return columns, sums[order]


@entry
def collect(grove, work, leaves, tree, room, n_chunks):
    """`gather` for Python."""
    return gather(grove, work, leaves, tree, room, n_chunks)
