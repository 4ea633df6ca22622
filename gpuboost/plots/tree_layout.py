"""Places of the boxes of a tree: each parent above the middle of its children, none overlapping.

This is the layout of Reingold and Tilford (1981, "Tidier drawings of trees") for boxes of different
widths: two subtrees are as close to each other as the gap between boxes allows on every level.
"""

from __future__ import annotations

import numpy as np


def horizontal_places(left: np.ndarray, width: np.ndarray, gap: float) -> np.ndarray:
    """Centre of each box, from 0 to the right: float64 (m,).

    Parameters
    ----------
    left : int (m,)
        Left child of each node, which the right child follows, in breadth-first order; 0 in leaves.
    width : float64 (m,)
        Width of each box.
    gap : float
        Smallest distance of two boxes of one level.
    """
    m, half = len(left), width / 2
    shift = np.zeros(m)  # of a node relative to its parent
    # Left and right ends of the subtree on each level, relative to its root.
    ends: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for node in range(m - 1, -1, -1):
        low, high = np.array([-half[node]]), np.array([half[node]])
        if left[node]:
            one, other = ends.pop(left[node]), ends.pop(left[node] + 1)
            n = min(len(one[0]), len(other[0]))
            apart = float((one[1][:n] - other[0][:n]).max()) + gap
            shift[left[node]], shift[left[node] + 1] = -apart / 2, apart / 2
            one, other = _moved(one, -apart / 2), _moved(other, apart / 2)
            low = np.concatenate([low, one[0], other[0][len(one[0]) :]])
            high = np.concatenate([high, other[1], one[1][len(other[1]) :]])
        ends[node] = low, high
    place = np.zeros(m)
    for node in np.flatnonzero(left).tolist():
        place[left[node]] = place[node] + shift[left[node]]
        place[left[node] + 1] = place[node] + shift[left[node] + 1]
    return place - ends[0][0].min()


def _moved(ends: tuple[np.ndarray, np.ndarray], by: float) -> tuple[np.ndarray, np.ndarray]:
    return ends[0] + by, ends[1] + by
