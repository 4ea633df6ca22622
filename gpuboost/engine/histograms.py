"""Which histograms of a level are built from rows, and which by subtraction from the parent's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuboost.engine.frontier import Array, Frontier


class SiblingHistograms:
    """The histograms of the level searched last, from which those of the next level follow.

    Of two siblings whose parent's histogram is known, the one with fewer rows is built from its
    rows, the other is the difference:

        parent   |##########|       known from the level before
        smaller  |###|              built
        larger       |#######|      parent - smaller

    Parameters
    ----------
    xp : module
        The array module, numpy or cupy.
    """

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._histograms: Array = None  # of the open nodes of the level searched last
        self._place: Array = None  # of each node's histogram in them, -1 for none
        self._parent: Array = None  # the same of each node's parent

    def of_level(
        self, frontier: Frontier, open_nodes: Array, build: Callable[[Array], Array]
    ) -> Array:
        """Histograms of the open nodes, int64 (len(open_nodes), F, width, 2 + K); they are kept.

        ``build`` makes those of given nodes (ascending) from their rows.
        """
        xp = self._xp
        place = xp.full(len(frontier), -1)
        place[open_nodes] = xp.arange(len(open_nodes))
        larger, smaller, parent = self._pairs(frontier, place)
        needed = place >= 0
        needed[larger], needed[smaller] = False, True
        nodes = xp.flatnonzero(needed)
        built = build(nodes)
        histogram = xp.empty((len(open_nodes), *built.shape[1:]), dtype=xp.int64)
        direct = place[nodes] >= 0
        histogram[place[nodes[direct]]] = built[direct]
        if len(larger):
            difference = self._histograms[parent]
            difference -= built[xp.searchsorted(nodes, smaller)]
            histogram[place[larger]] = difference
        self._histograms, self._place = histogram, place
        return histogram

    def forget(self) -> None:
        """Keep no histogram; the next level is built from rows."""
        self._histograms = self._place = self._parent = None

    def descend(self, accepted: Array) -> None:
        """Go on to the children of the accepted nodes."""
        place, self._place, self._parent = self._place, None, None
        if place is not None:
            self._parent = self._xp.repeat(place[self._xp.flatnonzero(accepted)], 2)

    def _pairs(self, frontier: Frontier, place: Array) -> tuple[Array, Array, Array]:
        """Larger open siblings with a known parent histogram, their smaller ones, the parents."""
        xp = self._xp
        if self._parent is None:
            none = xp.zeros(0, dtype=xp.int64)
            return none, none, none
        left = xp.arange(0, len(frontier), 2)
        left_larger = frontier.count[left] > frontier.count[left + 1]
        larger = left + ~left_larger
        smaller = left + left_larger
        parent = self._parent[left]
        use = (parent >= 0) & (place[larger] >= 0)
        return larger[use], smaller[use], parent[use]
