"""Nodes of both growers, depth-first and level-wise: tests for leaves, and records of children."""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.common.constraints import constrain_children
from gpuboost.backends.numba.compiler import criteria, inlined, randomness

left_key, right_key = randomness.left_key, randomness.right_key
gain_of, is_enough, is_large = criteria.gain_of, criteria.is_enough, criteria.is_large


@inlined
def is_leaf(limits, node):
    """Whether a node is too deep or too small to be searched."""
    large = is_large(node.count, node.hessian, limits, limits.min_hessian)
    return (not large) | (node.depth >= limits.max_depth)


@inlined
def accept(limits, scratch, node):
    """Copy `Scratch.split` to the node, with its gain, if that is enough; return whether it is."""
    split, root, unit = scratch.split[0], limits.root_hessian, limits.gain_unit
    gain = gain_of(limits.criterion, split.score, np.float64(node.hessian))
    if not is_enough(gain, root, unit, limits.min_impurity_decrease, limits.needs_gain):
        return False
    node.gain, node.draw = gain, split.draw
    node.feature, node.missing = split.feature, split.missing
    node.bin, node.next_bin = split.bin, split.next_bin
    node.left_gradient, node.left_hessian = split.left_gradient, split.left_hessian
    return True


@inlined
def set_node(node, start, count, gradient, hessian, key, depth):
    """Initialise a node, which is a leaf until it is split."""
    node.start, node.count, node.key, node.depth = start, count, key, depth
    node.gradient, node.hessian = gradient, hessian
    node.left, node.category = 0, -1


@inlined
def keep_mask(nodes, masks, at, mask):
    """Store the categories of the split of node ``at``."""
    nodes[at].category = at
    for word in range(16):
        masks[at, word] = mask[word]


@inlined
def make_children(problem, nodes, k, n_nodes, n_left, open_groups):
    """Create the children of node ``k``, as nodes ``n_nodes`` and ``n_nodes + 1``.

    The left child has the first ``n_left`` rows of the node; the right child has the others. If
    rows are counted later, ``n_left`` is 0, and the right child has the node's count until then.
    """
    node, left, right = nodes[k], nodes[n_nodes], nodes[n_nodes + 1]
    node.left = n_nodes
    depth, key = node.depth + 1, node.key
    gradient, hessian = node.left_gradient, node.left_hessian
    set_node(left, node.start, n_left, gradient, hessian, left_key(key), depth)
    gradient, hessian = node.gradient - gradient, node.hessian - hessian
    start, count = node.start + n_left, node.count - n_left
    set_node(right, start, count, gradient, hessian, right_key(key), depth)
    constrain_children(problem, nodes, k, open_groups)
