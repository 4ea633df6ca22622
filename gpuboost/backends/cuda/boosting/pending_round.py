"""Reads a round back while the next one runs, so that the device never waits for the host.

The copy of a round's trees and losses follows the round on the device; the host launches the next
round before it reads the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuboost.backends.cuda.boosting.losses import MeanLosses
from gpuboost.backends.cuda.growth.tree_arrays import NAMES, cut_tree, lengths
from gpuboost.backends.cuda.runtime.readback import HostCopy
from gpuboost.engine.ensembles.boosting_task import DoneRound, RoundLosses
from gpuboost.engine.growth.tree import Tree


@dataclass
class PendingRound:
    """A round whose trees and losses are being copied to the host; see `FittedRound`.

    Parameters
    ----------
    n_trees : int
    copy : callable
        Waits for the copy and returns it.
    losses : RoundLosses or MeanLosses
        Mean losses, or the object that computes them from sums in the copy.
    error : callable
        Returns the error to raise if all rows drawn for the round have weight zero.
    """

    n_trees: int
    copy: Callable[[], HostCopy]
    losses: RoundLosses | MeanLosses
    error: Callable[[], ValueError]
    _copied: CopiedTrees | None = None

    def read(self) -> DoneRound:
        """Wait for the round and return its trees and mean losses."""
        copied = self.copied()
        if not isinstance(self.losses, RoundLosses):
            self.losses = self.losses.of_sums(self._sums)  # frees the rows
        return DoneRound([copied.tree(number) for number in range(self.n_trees)], self.losses)

    def copied(self) -> CopiedTrees:
        """Wait for the copy of the round and return its trees, concatenated.

        Raises
        ------
        ValueError
            If all rows drawn for the round have weight zero.
        """
        if self._copied is None:
            readback = self.copy()
            del self.copy
            self._sums = readback.part("losses", 0, readback.length("losses")).copy()
            self._copied = CopiedTrees(readback)
        if self._copied.weights[0] == 0:
            raise self.error()
        return self._copied


class CopiedTrees:
    """Finished trees of a round on the host, concatenated.

    Parameters
    ----------
    readback : HostCopy
        The table and the arrays of `gpuboost.backends.cuda.growth.tree_arrays.Finished`, by name.

    Attributes
    ----------
    weights : list of int
        Integer weights of the roots.
    """

    def __init__(self, readback: HostCopy) -> None:
        self._nodes, self._masks, weights = readback.part("table", 0, 3).tolist()
        self.weights = weights[:-1]
        self._names = [name for name in NAMES if name in readback]
        used = lengths(self._names, self._nodes[-1], self._masks[-1])
        self._readback = readback.kept(used)  # frees pinned memory and unused capacity

    def tree(self, number: int) -> Tree:
        """One of the trees."""
        bounds = [(ends[number], ends[number + 1]) for ends in (self._nodes, self._masks)]
        return cut_tree(self._readback.part, self._names, *bounds)
