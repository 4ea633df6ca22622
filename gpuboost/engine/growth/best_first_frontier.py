"""The nodes that best-first growth reaches in a batch of trees, level by level, on the host."""

from __future__ import annotations

import numpy as np

from gpuboost.engine.growth.best_first import reached
from gpuboost.engine.growth.frontier import Frontier
from gpuboost.engine.growth.level_history import children_by_level, joined, localised, tree_nodes


class BestFirstFrontier:
    """The nodes of all levels so far, with the columns that best-first growth needs.

    Parameters
    ----------
    n_trees, max_leaf_nodes : int
    """

    def __init__(self, n_trees: int, max_leaf_nodes: int) -> None:
        self._n_trees, self._max_leaf_nodes = n_trees, max_leaf_nodes
        self._levels: list[dict[str, np.ndarray]] = []

    def limit_to_best_first(self, frontier: Frontier, gain: np.ndarray) -> np.ndarray:
        """Nodes of the next level that may still be split: bool (m,).

        ``gain`` is negative where a split is not good enough.
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
