"""Best-first growth (``max_leaf_nodes``) of a tree that is grown level by level.

The split of a node does not depend on when it is split, so best-first growth only chooses *which*
nodes are split. This choice can be replayed over the nodes known so far: a node that the queue does
not reach now is never reached, since nodes found later can only delay it in the queue.
"""

from __future__ import annotations

import heapq

import numpy as np


def reached(left: np.ndarray, gain: np.ndarray, key: np.ndarray, max_leaf_nodes: int) -> np.ndarray:
    """Nodes that best-first growth splits, among the known nodes of one tree.

    Parameters
    ----------
    left : int64 (m,)
        Left child, which the right child follows; 0 in leaves and in nodes not split yet.
    gain : float64 (m,)
        Gain of each node's split, negative without a split.
    key : uint64 (m,)
        Among equal gains, the smaller key comes first.
    max_leaf_nodes : int
        Maximum number of leaves of the tree.

    Returns
    -------
    bool (m,)
        Mask of the nodes that are split.
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
