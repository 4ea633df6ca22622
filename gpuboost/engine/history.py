"""What the level loop has grown so far, on the host, and the trees made of it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.engine.best_first import reached
from gpuboost.engine.spec import LEAF, NO_LIMIT, GrownTree
from gpuboost.engine.tree import sum_children

if TYPE_CHECKING:
    from gpuboost.engine.frontier import Array, Frontier, Splits


class History:
    """Collects levels; splits them into trees at the end.

    Nodes are kept in the order they come: by level, in a level by tree. ``left`` counts nodes of
    that order, since the children of a level's accepted nodes are the next level, in order.
    """

    def __init__(self, ops: Any, n_trees: int, max_leaf_nodes: int) -> None:
        self._ops = ops
        self._n_trees = n_trees
        self._max_leaf_nodes = max_leaf_nodes
        self._levels: list[dict[str, np.ndarray]] = []
        self._size = 0

    def add(self, frontier: Frontier, splits: Splits, rise: Array) -> None:
        """Record a level as it was evaluated; ``rise`` is negative where there is no split."""
        host = self._ops.to_host
        names = ("feature", "bin", "next_bin", "draw", "missing", "categorical", "mask")
        level = {name: host(getattr(splits, name)) for name in names}
        for name in ("tree", "key", "count", "hessian"):
            level[name] = host(getattr(frontier, name))
        level["rise"] = host(rise)
        level["left"] = np.zeros(len(frontier), dtype=np.int64)
        self._levels.append(level)
        self._size += len(frontier)

    def close(self, accepted: Array, leaves: Array, sums: Array) -> None:
        """Record which nodes of the last level were split, and the sums of the others."""
        level, host = self._levels[-1], self._ops.to_host
        split, leaves, sums = host(accepted), host(leaves), host(sums)
        level["left"][split] = self._size + 2 * np.arange(np.count_nonzero(split))
        level["sums"] = np.zeros((len(split), sums.shape[1]), dtype=np.int64)
        level["sums"][leaves] = sums

    def reached_in_last_level(self) -> Array:
        """Nodes of the last level that best-first growth may still split."""
        whole = self._merge(("tree", "left", "rise", "key"))
        chosen = np.zeros(self._size, dtype=bool)
        for nodes, local in self._tree_nodes(whole["tree"]):
            left = localised(whole["left"][nodes], local)
            picked = reached(left, whole["rise"][nodes], whole["key"][nodes], self._max_leaf_nodes)
            chosen[nodes] = picked
        return self._ops.xp.asarray(chosen[self._size - len(self._levels[-1]["tree"]) :])

    def trees(self) -> list[GrownTree]:
        """The trees of the batch, nodes breadth-first."""
        whole = self._merge(tuple(self._levels[0]))
        whole["feature"][whole["left"] == 0] = LEAF
        found = []
        for nodes, local in self._tree_nodes(whole["tree"]):
            own = {name: column[nodes] for name, column in whole.items()}
            own["left"] = localised(own["left"], local)
            sum_children(own["left"], own["sums"])
            if self._max_leaf_nodes != NO_LIMIT:
                own = self._pruned(own)
            found.append(as_grown(own))
        return found

    def _pruned(self, own: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Without the splits that best-first growth did not reach after all."""
        chosen = reached(own["left"], own["rise"], own["key"], self._max_leaf_nodes)
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

    def _merge(self, names: tuple[str, ...]) -> dict[str, np.ndarray]:
        return {name: np.concatenate([level[name] for level in self._levels]) for name in names}

    def _tree_nodes(self, tree: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Per tree its nodes in order, and for every node of the batch its number in its tree."""
        order = np.argsort(tree, kind="stable")
        bounds = np.searchsorted(tree[order], np.arange(self._n_trees + 1))
        local = np.empty(len(tree), dtype=np.int64)
        parts = [order[a:b] for a, b in pairwise(bounds)]
        for nodes in parts:
            local[nodes] = np.arange(len(nodes))
        return [(nodes, local) for nodes in parts]


def localised(left: np.ndarray, local: np.ndarray) -> np.ndarray:
    """Children numbered within the tree; a child beyond the nodes known so far counts as none."""
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


def as_grown(own: dict[str, np.ndarray]) -> GrownTree:
    """Freeze the columns of one tree."""
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
        gain=np.where(inner, own["rise"], 0.0),
        category=category,
        masks=masks.reshape(-1, 16),
        count=own["count"],
        hessian=own["hessian"],
        sums=own["sums"],
    )
