"""Minimal cost-complexity pruning of finished trees.

A tree costs its impurity, weighted by the share of the rows in each leaf, and ``ccp_alpha`` for
every leaf. Of the trees that pruning leaves, the smallest of least cost is kept. With gain the fall
of the impurity by all splits from a node downwards, the node is worth its splits up to ::

    alpha(node) = gain(node) / number of splits from the node downwards

The weakest link, the node of the smallest alpha, becomes a leaf; that lowers the alphas above it;
and so on, as long as the smallest is at most ``ccp_alpha``. It is done on finished trees, the same
for all backends.

References
----------
Breiman, Friedman, Olshen, Stone: Classification and regression trees (1984), sections 3.3 and 10.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from gpuboost.engine.growth.policy import EPSILON
from gpuboost.engine.growth.tree import Tree, levels


def pruned(tree: Tree, ccp_alpha: float) -> Tree:
    """The smallest tree of least cost; the tree itself if ``ccp_alpha`` is 0."""
    if ccp_alpha == 0.0:
        return tree
    links = _Links(tree, ccp_alpha)
    for _ in links.weakest():
        pass
    return _kept(tree, np.array(links.n_splits) > 0)


def cut_back(tree: Tree, min_decrease: float) -> Tree:
    """Without the splits that lower the impurity less, and all below them; itself if that is 0."""
    if min_decrease == 0.0:
        return tree
    return _kept(tree, tree.impurity_decrease + EPSILON >= min_decrease)


def _kept(tree: Tree, splits: np.ndarray) -> Tree:
    """The tree of the chosen splits that are reached by chosen ones: bool (m,)."""
    splits = splits & (tree.left > 0)
    stays = np.zeros(tree.node_count, dtype=bool)
    stays[0] = True
    for nodes in levels(tree.left):
        parents = np.flatnonzero(stays[nodes] & splits[nodes]) + nodes.start
        stays[tree.left[parents]] = stays[tree.left[parents] + 1] = True
    return _without(tree, stays, splits & stays)


def _without(tree: Tree, stays: np.ndarray, splits: np.ndarray) -> Tree:
    """The tree of the nodes that stay, those that do not split being leaves."""
    nodes, inner = np.flatnonzero(stays), splits[stays]
    place = np.cumsum(stays, dtype=np.int32) - np.int32(1)
    category = np.where(inner, tree.category[nodes], np.int32(-1))
    used = np.flatnonzero(category >= 0)
    masks = tree.masks[category[used]]
    category[used] = np.arange(len(used))
    return replace(
        tree,
        feature=np.where(inner, tree.feature[nodes], np.int32(-1)),
        threshold=np.where(inner, tree.threshold[nodes], np.nan),
        code=np.where(inner, tree.code[nodes], np.int16(0)),
        missing_left=tree.missing_left[nodes] & inner,
        left=np.where(inner, place[tree.left[nodes]], np.int32(0)),
        category=category,
        masks=masks,
        value=tree.value[nodes],
        impurity_decrease=np.where(inner, tree.impurity_decrease[nodes], 0.0),
        impurity=tree.impurity[nodes],
        weight=tree.weight[nodes],
        count=tree.count[nodes],
    )


def pruning_path(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Every ``ccp_alpha`` from which on one more node becomes a leaf, and the impurity then.

    Returns
    -------
    ccp_alphas : float64 (n_steps + 1,)
        Ascending; the first is 0, for the whole tree.
    impurities : float64 (n_steps + 1,)
        Of all leaves together, each by its share of the weight.
    """
    leaves = tree.left == 0
    impurity = float((tree.impurity[leaves] * tree.weight[leaves]).sum() / tree.weight[0])
    alphas, impurities = [0.0], [impurity]
    for alpha, gain in _Links(tree, np.inf).weakest():
        alphas.append(max(alpha, alphas[-1]))
        impurities.append(impurities[-1] + gain)
    return np.array(alphas), np.array(impurities)


class _Links:
    """The nodes of a tree that still split, and what their splits are worth.

    Attributes
    ----------
    gain : list of float
        Of all splits from each node downwards.
    n_splits : list of int
        Their number.
    """

    def __init__(self, tree: Tree, maximum: float) -> None:
        self._left, self._maximum = tree.left.tolist(), maximum
        parent = np.full(tree.node_count, -1)
        gain, n_splits = tree.impurity_decrease.copy(), (tree.left > 0).astype(np.int64)
        for nodes in reversed(levels(tree.left)):
            inner = np.flatnonzero(tree.left[nodes]) + nodes.start
            left = tree.left[inner]
            parent[left] = parent[left + 1] = inner
            gain[inner] += gain[left] + gain[left + 1]
            n_splits[inner] += n_splits[left] + n_splits[left + 1]
        self._parent = parent.tolist()
        self.gain, self.n_splits = gain.tolist(), n_splits.tolist()

    def weakest(self) -> Iterator[tuple[float, float]]:
        """Make leaves of one node after the other: yield its alpha and its gain."""
        inner = (node for node, left in enumerate(self._left) if left)
        queue = [(self._alpha(node), node) for node in inner if self._alpha(node) <= self._maximum]
        heapify(queue)
        while queue:
            alpha, node = heappop(queue)
            if self.n_splits[node] == 0 or alpha != self._alpha(node):
                continue  # it is below a leaf by now, or has changed since it was queued
            gain, n_splits, above = self.gain[node], self.n_splits[node], self._parent[node]
            self._empty(node)
            while above >= 0:
                self.gain[above] -= gain
                self.n_splits[above] -= n_splits
                if self._alpha(above) <= self._maximum:
                    heappush(queue, (self._alpha(above), above))
                above = self._parent[above]
            yield alpha, gain

    def _alpha(self, node: int) -> float:
        return self.gain[node] / self.n_splits[node]

    def _empty(self, node: int) -> None:
        """Take the splits of a node, and of all below it, away."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if self.n_splits[node]:
                self.n_splits[node] = 0
                waiting += [self._left[node], self._left[node] + 1]
