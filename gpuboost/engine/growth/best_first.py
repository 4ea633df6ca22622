"""Best-first growth (``max_leaf_nodes``) of a tree that is grown level by level.

The splits of a node do not depend on when it is split. So best-first growth only chooses *which*
nodes are split, and that choice can be replayed over the nodes known so far: what the queue does
not reach now it never will, since nodes not known yet can only get ahead of it.
"""

from __future__ import annotations

import heapq

import numpy as np


def reached(left: np.ndarray, gain: np.ndarray, key: np.ndarray, max_leaf_nodes: int) -> np.ndarray:
    """Nodes of one tree that best-first growth splits, as far as the tree is known.

    Parameters
    ----------
    left : int64 (m,)
        Left child, the right one follows it; 0 in leaves and in nodes not split yet.
    gain : float64 (m,)
        Gain of each node's split, negative where it has none.
    key : uint64 (m,)
        Of equal rises the smaller key goes first.
    max_leaf_nodes : int
    """
    chosen = np.zeros(len(left), dtype=bool)
    queue = [(-gain[0], key[0], 0)] if gain[0] >= 0 else []
    for _ in range(max_leaf_nodes - 1):
        if not queue:
            break
        _, _, node = heapq.heappop(queue)
        chosen[node] = True
        if left[node]:
            for child in (left[node], left[node] + 1):
                if gain[child] >= 0:
                    heapq.heappush(queue, (-gain[child], key[child], int(child)))
    return chosen
