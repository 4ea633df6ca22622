"""Nodes of levels and of subtrees numbered on the device, tree by tree, breadth-first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gpuboost.engine.frontier import Array


@dataclass(frozen=True)
class Forest:
    """Nodes of several trees in any order, some of which stand in another's place.

    Attributes
    ----------
    left : int64 (m,)
        The left child, the right one follows it; 0 in leaves.
    stands_for : int64 (m,)
        The node that is meant where this one is a child or a root: most often itself.
    n_trees : int
        The first nodes are the roots.
    """

    left: Array
    stands_for: Array
    n_trees: int

    @classmethod
    def of_levels(cls, xp: Any, left: Array, sizes: list[int], below: dict[str, Array]) -> Forest:
        """Those of levels, ``sizes`` of each, then those of subtrees; the first level are roots.

        ``below`` has ``left``, and for the root of a subtree the ``level`` and the number in it,
        ``node``, of the node that it stands for; others have level -1.
        """
        n = len(left)
        roots = xp.flatnonzero(below["level"] >= 0)
        starts = xp.asarray(np.cumsum([0, *sizes[:-1]]))
        stands_for = xp.arange(n + len(below["left"]))
        stands_for[starts[below["level"][roots]] + below["node"][roots]] = n + roots
        below_left = xp.where(below["left"] > 0, below["left"].astype(xp.int64) + n, 0)
        return cls(xp.concatenate([left, below_left]), stands_for, sizes[0])

    def children(self, nodes: Array, xp: Any) -> tuple[Array, Array]:
        """Which nodes have children, and these, in order."""
        first = self.left[nodes]
        inner = first > 0
        first = first[inner]
        return inner, self.stands_for[xp.stack([first, first + 1], axis=1).ravel()]


@dataclass(frozen=True)
class Numbering:
    """Where nodes go.

    Attributes
    ----------
    order : int64 (k,)
        The nodes that are kept, tree by tree, breadth-first.
    left : int64 (k,)
        The left child of each by its place in ``order``, 0 for none.
    size : int64 (trees,)
        Nodes of each tree.
    """

    order: Array
    left: Array
    size: Array


def number_nodes(xp: Any, forest: Forest) -> Numbering:
    """Number the nodes that can be reached from the roots.

    A level of all trees is numbered at once, its nodes being in the order of their trees:

        nodes    of tree 0: a b | of tree 1: c        before: 3 nodes of tree 0, 5 of tree 1
        number               3 4              5       in their trees
    """
    nodes = forest.stands_for[: forest.n_trees]
    tree = xp.arange(forest.n_trees)
    number = xp.zeros(len(forest.left), dtype=xp.int64)
    size = xp.zeros(forest.n_trees, dtype=xp.int64)
    levels = []
    while len(nodes):
        count = xp.bincount(tree, minlength=forest.n_trees)
        first = size - (xp.cumsum(count) - count)
        number[nodes] = first[tree] + xp.arange(len(nodes))
        size = size + count
        levels.append((nodes, tree))
        inner, nodes = forest.children(nodes, xp)
        tree = tree[inner].repeat(2)
    nodes, tree = (xp.concatenate(column) for column in zip(*levels, strict=True))
    number[nodes] += (xp.cumsum(size) - size)[tree]
    order = xp.empty(len(nodes), dtype=xp.int64)
    order[number[nodes]] = nodes
    left = forest.left[order]
    return Numbering(order, xp.where(left > 0, number[forest.stands_for[left]], 0), size)
