"""Which histograms of a level are built from rows, and which by subtraction from the parent's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuboost.engine.growth.frontier import Frontier


class SiblingHistograms:
    """The histograms of the level searched last, from which those of the next level follow.

    Of two siblings whose parent's histogram is known, the one with fewer rows is built from its
    rows, the other is the difference:

        parent   |##########|       known from the level before
        smaller  |###|              built
        larger       |#######|      parent - smaller
    """

    def __init__(self) -> None:
        self._histograms: Any = None  # of the open nodes of the level searched last
        self._place: Any = None  # of each node's histogram in them, -1 for none
        self._parent: Any = None  # the same of each node's parent

    def of_level(
        self, frontier: Frontier, open_nodes: np.ndarray, build: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Histograms of the open nodes, int64 (len(open_nodes), P, F, width); they are kept.

        ``build`` makes those of given nodes (ascending) from their rows.
        """
        place = np.full(len(frontier), -1)
        place[open_nodes] = np.arange(len(open_nodes))
        larger, smaller, parent = self._pairs(frontier, place)
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
        """Keep no histogram; the next level is built from rows."""
        self._histograms = self._place = self._parent = None

    def descend(self, accepted: np.ndarray) -> None:
        """Go on to the children of the accepted nodes."""
        place, self._place, self._parent = self._place, None, None
        if place is not None:
            self._parent = np.repeat(place[np.flatnonzero(accepted)], 2)

    def _pairs(
        self, frontier: Frontier, place: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Larger open siblings with a known parent histogram, their smaller ones, the parents."""
        if self._parent is None:
            none = np.zeros(0, dtype=np.int64)
            return none, none, none
        left = np.arange(0, len(frontier), 2)
        left_larger = frontier.count[left] > frontier.count[left + 1]
        larger = left + ~left_larger
        smaller = left + left_larger
        parent = self._parent[left]
        use = (parent >= 0) & (place[larger] >= 0)
        return larger[use], smaller[use], parent[use]
