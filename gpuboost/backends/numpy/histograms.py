"""Histograms of a level: of smaller siblings from rows, of larger siblings by subtraction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuboost.engine.growth.frontier import Frontier


class SiblingHistograms:
    """The histograms of the last level, from which those of the next level are computed.

    If the histogram of a parent is known and its larger child is open, the histogram of its smaller
    child is built from rows, and the histogram of the larger child is the difference:

        parent   |##########|       known from the previous level
        smaller  |###|              built from rows
        larger       |#######|      parent - smaller

    All other histograms are built from rows.
    """

    def __init__(self) -> None:
        self._histograms: Any = None  # of the open nodes: int64 (open nodes, P, F, width)
        self._place: Any = None  # index of each node's histogram, -1 for none
        self._parent: Any = None  # index of the histogram of each node's parent, -1 for none

    def of_level(
        self, frontier: Frontier, open_nodes: np.ndarray, build: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Compute and keep the histograms of the open nodes: int64 (len(open_nodes), P, F, width).

        ``build`` computes the histograms of the given nodes (ascending) from their rows.
        """
        place = np.full(len(frontier), -1)
        place[open_nodes] = np.arange(len(open_nodes))
        larger, smaller, parent = sibling_pairs(self._parent, frontier.count, place)
        needed = place >= 0
        needed[larger], needed[smaller] = False, True
        nodes = np.flatnonzero(needed)
        built = build(nodes)
        histogram = np.empty((len(open_nodes), *built.shape[1:]), dtype=np.int64)
        direct = place[nodes] >= 0
        histogram[place[nodes[direct]]] = built[direct]
        small = np.searchsorted(nodes, smaller)
        for to, above, own in zip(place[larger], parent, small, strict=True):
            np.subtract(self._histograms[above], built[own], out=histogram[to])
        self._histograms, self._place = histogram, place
        return histogram

    def forget(self) -> None:
        """Drop all histograms, so that all histograms of the next level are built from rows."""
        self._histograms = self._place = self._parent = None

    def descend(self, accepted: np.ndarray) -> None:
        """Make the children of the accepted nodes the current level."""
        place, self._place, self._parent = self._place, None, None
        if place is not None:
            self._parent = np.repeat(place[np.flatnonzero(accepted)], 2)


def sibling_pairs(
    parent: np.ndarray | None, size: np.ndarray, place: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Larger siblings, their smaller siblings, and indices of the histograms of their parents.

    Pairs are left out if the parent has no histogram, or if the larger sibling needs none.

    Parameters
    ----------
    parent : int64 (m,), or None if no parent has a histogram
        Index of the histogram of each node's parent, -1 for none.
    size : int64 (m,)
        Number of rows of each node, or their weight.
    place : int64 (m,)
        Index of each node's own histogram, -1 for none.
    """
    if parent is None:
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    left = np.arange(0, len(size), 2)
    is_left_larger = size[left] > size[left + 1]
    larger, smaller = left + ~is_left_larger, left + is_left_larger
    above = parent[left]
    use = (above >= 0) & (place[larger] >= 0)
    return larger[use], smaller[use], above[use]
