"""Minimal cost-complexity pruning of finished trees.

The cost of a tree is the impurity of its leaves, weighted by their fraction of the weight, plus
``ccp_alpha`` per leaf. The result is the smallest subtree of least cost. Let decrease(node) be the
impurity decrease of all splits from a node downwards. These splits reduce the cost if ``ccp_alpha``
is below ::

    alpha(node) = decrease(node) / number of splits from the node downwards

The weakest link, the node with the smallest alpha, becomes a leaf, which never lowers the alphas
above it. This step is repeated while the smallest alpha is at most ``ccp_alpha``. Pruning works on
finished trees, in the same way for all backends.

References
----------
Breiman, Friedman, Olshen, Stone: Classification and regression trees (1984), sections 3.3 and 10.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from gpuboost.engine.criteria import EPSILON
from gpuboost.engine.growth.tree import TREE_TYPES, Tree, add_children, levels, parents_of
from gpuboost.engine.task import TreeOptions

# Columns of `Tree` that describe a split, with their values in leaves.
OF_A_LEAF = {
    "feature": -1,
    "threshold": np.nan,
    "code": 0,
    "missing_left": False,
    "left": 0,
    "category": -1,
    "impurity_decrease": 0.0,
}


def pruned_by(tree: Tree, options: TreeOptions) -> Tree:
    """The finished tree, cut back and pruned; the tree itself unless `TreeOptions.prunes`."""
    if options.min_decrease != 0.0:  # splits with a smaller impurity decrease become leaves
        tree = with_splits(tree, tree.impurity_decrease + EPSILON >= options.min_decrease)
    return pruned(tree, options.ccp_alpha)


def pruned(tree: Tree, ccp_alpha: float) -> Tree:
    """The smallest subtree of least cost; the tree itself if ``ccp_alpha`` is 0."""
    if ccp_alpha == 0.0:
        return tree
    links = _Links(tree, ccp_alpha)
    for _ in links.weakest():
        pass
    return with_splits(tree, np.array(links.n_splits) > 0)


def with_splits(tree: Tree, splits: np.ndarray) -> Tree:
    """The tree of the splits, bool (m,), that are chosen together with all their ancestors."""
    splits = splits & (tree.left > 0)
    stays = np.zeros(tree.node_count, dtype=bool)
    stays[0] = True
    for nodes in levels(tree.left):
        parents = np.flatnonzero(stays[nodes] & splits[nodes]) + nodes.start
        stays[tree.left[parents]] = stays[tree.left[parents] + 1] = True
    return _without(tree, stays, splits & stays)


def _without(tree: Tree, stays: np.ndarray, splits: np.ndarray) -> Tree:
    """The tree of the nodes that stay; nodes that no longer split become leaves."""
    nodes, inner = np.flatnonzero(stays), splits[stays]
    place = np.cumsum(stays, dtype=np.int32) - np.int32(1)
    own = {name: getattr(tree, name)[nodes] for name in TREE_TYPES if name != "masks"}
    own["left"] = place[own["left"]]
    for name, of_leaf in OF_A_LEAF.items():
        own[name] = np.where(inner, own[name], of_leaf).astype(own[name].dtype)
    used = np.flatnonzero(own["category"] >= 0)
    masks = tree.masks[own["category"][used]]
    own["category"][used] = np.arange(len(used))
    return replace(tree, masks=masks, **own)


def pruning_path(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Each ``ccp_alpha`` from which one more node becomes a leaf, and the pruned tree's impurity.

    Returns
    -------
    ccp_alphas : float64 (n_steps + 1,)
        Ascending; the first is 0, for the whole tree.
    impurities : float64 (n_steps + 1,)
        Total impurity of the leaves, weighted by their fraction of the weight.
    """
    leaves = tree.left == 0
    impurity = float((tree.impurity[leaves] * tree.weight[leaves]).sum() / tree.weight[0])
    alphas, impurities = [0.0], [impurity]
    for alpha, decrease in _Links(tree, np.inf).weakest():
        alphas.append(max(alpha, alphas[-1]))
        impurities.append(impurities[-1] + decrease)
    return np.array(alphas), np.array(impurities)


class _Links:
    """The nodes of a tree that still split, with the impurity decreases of their splits.

    Links whose alpha is above ``maximum`` are never removed.

    Attributes
    ----------
    decrease : list of float
        Total impurity decrease of the splits from each node downwards.
    n_splits : list of int
        Number of these splits.
    """

    def __init__(self, tree: Tree, maximum: float) -> None:
        self._left, self._maximum = tree.left.tolist(), maximum
        self._parent = parents_of(tree.left).tolist()
        decrease, n_splits = tree.impurity_decrease.copy(), (tree.left > 0).astype(np.int64)
        add_children(tree.left, decrease)
        add_children(tree.left, n_splits)
        self.decrease, self.n_splits = decrease.tolist(), n_splits.tolist()

    def weakest(self) -> Iterator[tuple[float, float]]:
        """Turn one weakest link after another into a leaf; yield its alpha and its decrease."""
        inner = (node for node, left in enumerate(self._left) if left)
        queue = [(self._alpha(node), node) for node in inner if self._alpha(node) <= self._maximum]
        heapify(queue)
        while queue:
            alpha, node = heappop(queue)
            if self.n_splits[node] == 0 or alpha != self._alpha(node):
                continue  # the node is now below a leaf, or has changed since it was queued
            decrease, n_splits, above = self.decrease[node], self.n_splits[node], self._parent[node]
            self._empty(node)
            while above >= 0:
                self.decrease[above] -= decrease
                self.n_splits[above] -= n_splits
                if self._alpha(above) <= self._maximum:
                    heappush(queue, (self._alpha(above), above))
                above = self._parent[above]
            yield alpha, decrease

    def _alpha(self, node: int) -> float:
        return self.decrease[node] / self.n_splits[node]

    def _empty(self, node: int) -> None:
        """Remove the splits of a node and of all nodes below it."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if self.n_splits[node]:
                self.n_splits[node] = 0
                waiting += [self._left[node], self._left[node] + 1]
