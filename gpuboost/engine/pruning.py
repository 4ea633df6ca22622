"""Minimal cost-complexity pruning of finished trees.

A tree costs its impurity, weighted by the share of the rows in each leaf, and ``ccp_alpha`` for
every leaf. Of the trees that pruning leaves, the smallest of least cost is kept. What matters of a
split is how much it lowers the impurity (`Tree.gain`) and that it makes one leaf more, so from the
leaves upwards a node is worth::

    worth(leaf) = 0        worth(node) = max(0, gain(node) - ccp_alpha + worth(left) + worth(right))

and becomes a leaf where that is 0. It is done on finished trees, the same for all backends.

References
----------
Breiman, Friedman, Olshen, Stone: Classification and regression trees (1984), sections 3.3 and 10.2.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from gpuboost.engine.policy import EPSILON
from gpuboost.engine.tree import levels

if TYPE_CHECKING:
    from gpuboost.engine.tree import Tree


def pruned(tree: Tree, ccp_alpha: float) -> Tree:
    """The smallest tree of least cost; the tree itself if ``ccp_alpha`` is 0."""
    if ccp_alpha == 0.0:
        return tree
    return _kept(tree, _worth(tree, ccp_alpha) > 0.0)


def cut_back(tree: Tree, least_decrease: float) -> Tree:
    """Without the splits that lower the impurity less, and all below them; itself if that is 0."""
    if least_decrease == 0.0:
        return tree
    return _kept(tree, tree.gain + EPSILON >= least_decrease)


def _kept(tree: Tree, splits: np.ndarray) -> Tree:
    """The tree of the chosen splits that are reached by chosen ones: bool (m,)."""
    splits = splits & (tree.left > 0)
    stays = np.zeros(tree.node_count, dtype=bool)
    stays[0] = True
    for nodes in levels(tree.left):
        parents = np.flatnonzero(stays[nodes] & splits[nodes]) + nodes.start
        stays[tree.left[parents]] = stays[tree.left[parents] + 1] = True
    return _without(tree, stays, splits & stays)


def _worth(tree: Tree, ccp_alpha: float) -> np.ndarray:
    """What each node lowers the cost by, with all that is worth it below: float64 (m,)."""
    worth = np.zeros(tree.node_count)
    for nodes in reversed(levels(tree.left)):
        inner = np.flatnonzero(tree.left[nodes]) + nodes.start
        left = tree.left[inner]
        below = worth[left] + worth[left + 1]
        worth[inner] = np.maximum((tree.gain[inner] - ccp_alpha) + below, 0.0)
    return worth


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
        gain=np.where(inner, tree.gain[nodes], 0.0),
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
    parent, gain, n_splits = _subtrees(tree)
    leaves = tree.left == 0
    impurity = float((tree.impurity[leaves] * tree.weight[leaves]).sum() / tree.weight[0])
    alphas, impurities = [0.0], [impurity]
    queue = [(gain[node] / n_splits[node], node) for node in np.flatnonzero(~leaves).tolist()]
    heapify(queue)
    while queue:
        alpha, node = heappop(queue)
        if n_splits[node] == 0 or alpha != gain[node] / n_splits[node]:
            continue  # it is below a leaf by now, or has changed since it was queued
        alphas.append(max(alpha, alphas[-1]))
        impurities.append(impurities[-1] + gain[node])
        lost_gain, lost_splits, above = gain[node], n_splits[node], parent[node]
        _empty(tree, node, n_splits)
        while above >= 0:
            gain[above], n_splits[above] = gain[above] - lost_gain, n_splits[above] - lost_splits
            heappush(queue, (gain[above] / n_splits[above], above))
            above = parent[above]
    return np.array(alphas), np.array(impurities)


def _subtrees(tree: Tree) -> tuple[list[int], list[float], list[int]]:
    """Parent of each node, -1 of the root; gains and number of the splits from there downwards."""
    parent = np.full(tree.node_count, -1)
    gain, n_splits = tree.gain.copy(), (tree.left > 0).astype(np.int64)
    for nodes in reversed(levels(tree.left)):
        inner = np.flatnonzero(tree.left[nodes]) + nodes.start
        left = tree.left[inner]
        parent[left] = parent[left + 1] = inner
        gain[inner] += gain[left] + gain[left + 1]
        n_splits[inner] += n_splits[left] + n_splits[left + 1]
    return parent.tolist(), gain.tolist(), n_splits.tolist()


def _empty(tree: Tree, node: int, n_splits: list[int]) -> None:
    """Take the splits of a node, and of all below it, away."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if n_splits[node]:
            n_splits[node] = 0
            waiting += [int(tree.left[node]), int(tree.left[node]) + 1]
