"""The levels that the level loop has grown, and the trees made from them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gpuboost.engine.growth.best_first import reached
from gpuboost.engine.growth.frontier import Frontier
from gpuboost.engine.growth.tree import sum_children
from gpuboost.engine.task import LEAF, NO_LIMIT, GrownTree

# Columns of the nodes of a level, as in `Frontier` and `Splits`. In nodes that were not split,
# ``gain`` is negative; ``sums`` are valid at least in these nodes.
COLUMNS = (
    *("tree", "key", "count", "hessian", "gain", "feature", "bin", "next_bin", "draw", "missing"),
    *("categorical", "mask", "sums"),
)


def grown_trees(
    levels: list[dict[str, np.ndarray]], n_trees: int, max_leaf_nodes: int, has_all_sums: bool
) -> list[GrownTree]:
    """Make trees from the nodes of all levels; the nodes of a tree are in breadth-first order.

    A level is a dict of its `COLUMNS`, with nodes ordered by tree. The children of its split nodes
    form the next level, in the same order. Unless ``has_all_sums``, only leaves have sums, and the
    sums of inner nodes are computed from the leaves.
    """
    whole = joined(levels)
    whole["left"] = children_by_level([level["gain"] >= 0 for level in levels])
    whole["feature"][whole["left"] == 0] = LEAF
    trees = []
    for nodes, local in tree_nodes(whole["tree"], n_trees):
        own = {name: column[nodes] for name, column in whole.items()}
        own["left"] = localised(own["left"], local)
        if not has_all_sums:
            sum_children(own["left"], own["sums"])
        if max_leaf_nodes != NO_LIMIT:
            own = _pruned(own, max_leaf_nodes)
        trees.append(grown_tree(own))
    return trees


def _pruned(own: dict[str, np.ndarray], max_leaf_nodes: int) -> dict[str, np.ndarray]:
    """Columns of one tree without the splits that best-first growth does not reach."""
    chosen = reached(own["left"], own["gain"], own["key"], max_leaf_nodes)
    if (chosen == (own["left"] > 0)).all():
        return own
    left = np.where(chosen, own["left"], 0)
    kept = breadth_first(left)
    place = np.zeros(len(left), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    own = {name: column[kept] for name, column in own.items()}
    own["left"] = place[left[kept]]
    own["feature"][own["left"] == 0] = LEAF
    return own


class BestFirstFrontier:
    """Level-by-level choice, on the host, of the nodes of a batch that best-first growth splits.

    Parameters
    ----------
    n_trees : int
        Number of trees in the batch.
    max_leaf_nodes : int
        Maximum number of leaves of each tree.
    """

    def __init__(self, n_trees: int, max_leaf_nodes: int) -> None:
        self._n_trees, self._max_leaf_nodes = n_trees, max_leaf_nodes
        self._levels: list[dict[str, np.ndarray]] = []

    def limit_to_best_first(self, frontier: Frontier, gain: np.ndarray) -> np.ndarray:
        """Mask (m,) of a new level's nodes that best-first growth splits, given all levels so far.

        ``gain`` is negative for nodes without an acceptable split.
        """
        self._levels.append({"tree": frontier.tree, "gain": gain, "key": frontier.key})
        whole = joined(self._levels)
        whole["left"] = children_by_level([level["gain"] >= 0 for level in self._levels])
        chosen = np.zeros(len(whole["tree"]), dtype=bool)
        for nodes, local in tree_nodes(whole["tree"], self._n_trees):
            left, own = localised(whole["left"][nodes], local), whole["gain"][nodes]
            chosen[nodes] = reached(left, own, whole["key"][nodes], self._max_leaf_nodes)
        here = chosen[len(chosen) - len(gain) :]
        self._levels[-1]["gain"] = np.where(here, gain, -1.0)
        return here


def joined(levels: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Concatenate the columns of all levels."""
    names = levels[0]
    return {name: np.concatenate([level[name] for level in levels]) for name in names}


def children_by_level(split: list[np.ndarray]) -> np.ndarray:
    """Left child of each node, int64, 0 for leaves; ``split`` has one mask of nodes per level.

    Nodes are numbered consecutively over all levels; children of the last level are numbered, too,
    although their level is not given.
    """
    left, size = [], 0
    for level in split:
        size += len(level)
        own = np.zeros(len(level), dtype=np.int64)
        own[level] = size + 2 * np.arange(np.count_nonzero(level))
        left.append(own)
    return np.concatenate(left)


def tree_nodes(tree: np.ndarray, n_trees: int) -> list[tuple[Any, np.ndarray]]:
    """The nodes of each tree in order, paired with the positions of all nodes in their trees.

    The nodes of a tree are an array of indices, or a slice if they are contiguous.
    """
    each = np.arange(n_trees + 1)
    if (tree[1:] >= tree[:-1]).all():
        bounds = np.searchsorted(tree, each)
        local = np.arange(len(tree)) - bounds[tree]
        return [(slice(a, b), local) for a, b in pairwise(bounds.tolist())]
    order = np.argsort(tree, kind="stable")
    bounds = np.searchsorted(tree[order], each)
    local = np.empty(len(tree), dtype=np.int64)
    parts = [order[a:b] for a, b in pairwise(bounds)]
    for nodes in parts:
        local[nodes] = np.arange(len(nodes))
    return [(nodes, local) for nodes in parts]


def localised(left: np.ndarray, local: np.ndarray) -> np.ndarray:
    """Left children, numbered within the tree; 0 in leaves and where no child is known yet."""
    known = (left > 0) & (left < len(local))
    return np.where(known, local[np.where(known, left, 0)], 0)


def breadth_first(left: np.ndarray) -> np.ndarray:
    """The nodes reachable from the root, level by level."""
    found = [np.zeros(1, dtype=np.int64)]
    while True:
        inner = left[found[-1]]
        inner = inner[inner > 0]
        if not len(inner):
            return np.concatenate(found)
        found.append(np.column_stack([inner, inner + 1]).ravel())


def grown_tree(own: dict[str, np.ndarray]) -> GrownTree:
    """Make a `GrownTree` from the columns of one tree."""
    inner = own["left"] > 0
    categorical = own["categorical"] & inner
    category = np.where(categorical, np.cumsum(categorical) - 1, -1).astype(np.int32)
    masks = own["mask"][categorical] if own["mask"].shape[1] else np.zeros((0, 16), np.uint32)
    blank = {"bin": 0, "next_bin": 0, "draw": np.nan, "missing": 0}
    clean = {name: np.where(inner, own[name], at) for name, at in blank.items()}
    return GrownTree(
        feature=own["feature"].astype(np.int32),
        bin=clean["bin"].astype(np.int16),
        next_bin=clean["next_bin"].astype(np.int16),
        draw=clean["draw"],
        missing=clean["missing"].astype(np.int8),
        left=own["left"].astype(np.int32),
        gain=np.where(inner, own["gain"], 0.0),
        category=category,
        masks=masks.reshape(-1, 16),
        count=own["count"],
        hessian=own["hessian"],
        sums=own["sums"],
    )
