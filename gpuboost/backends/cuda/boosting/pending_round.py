"""Rounds that are read while the next one runs, so that no round waits for the host.

The trees and losses of a round are copied when it is done, and the next round is launched before
the host reads them.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuboost.backends.cuda.boosting.losses import MeanLosses
from gpuboost.backends.cuda.growth.tree_arrays import NAMES, cut_tree, lengths
from gpuboost.backends.cuda.runtime.readback import HostCopy
from gpuboost.engine.ensembles.boosting_task import DoneRound, RoundLosses
from gpuboost.engine.growth.tree import Tree


class PendingRound:
    """A round whose trees and losses are being copied to the host; see `FittedRound`.

    Parameters
    ----------
    n_trees : int
    read : callable
        Waits for the copy and returns it.
    losses : RoundLosses or MeanLosses
        Or what makes them of the sums that the copy has.
    error : callable
        Makes the error of a round that has drawn no row with weight.
    """

    def __init__(
        self,
        n_trees: int,
        read: Callable[[], HostCopy],
        losses: RoundLosses | MeanLosses,
        error: Callable[[], ValueError],
    ) -> None:
        self._n_trees, self._read, self._losses, self._error = n_trees, read, losses, error
        self._copied: CopiedTrees | None = None

    def read(self) -> DoneRound:
        """Wait for the round and return its trees and mean losses."""
        copied = self.copied()
        if not isinstance(self._losses, RoundLosses):
            self._losses = self._losses.of_sums(self._sums)  # and let go of its rows
        return DoneRound([copied.tree(number) for number in range(self._n_trees)], self._losses)

    def copied(self) -> CopiedTrees:
        """Wait for the copy of the round and return its trees, not yet cut apart.

        Raises
        ------
        ValueError
            The round has drawn no row with weight.
        """
        if self._copied is None:
            readback = self._read()
            del self._read
            self._sums = readback.part("losses", 0, readback.length("losses")).copy()
            self._copied = CopiedTrees(readback)
        if self._copied.weights[0] == 0:
            raise self._error()
        return self._copied


class CopiedTrees:
    """Finished trees of a round on the host, in one piece of memory.

    Parameters
    ----------
    readback : HostCopy
        The table and the arrays of `finishing.Finished`, by their names; it may have others.

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
        self._readback = readback.kept(used)  # and neither pinned memory is kept nor spare room

    def tree(self, number: int) -> Tree:
        """One of the trees."""
        bounds = [(ends[number], ends[number + 1]) for ends in (self._nodes, self._masks)]
        return cut_tree(self._readback.part, self._names, *bounds)
