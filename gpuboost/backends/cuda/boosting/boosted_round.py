"""A round of boosting whose trees and losses the host reads while the next round runs."""

from __future__ import annotations

from collections.abc import Callable

from gpuboost.backends.cuda.boosting.losses import MeanLosses
from gpuboost.backends.cuda.growth.pending_round import CopiedTrees, PendingRound, TreesReader
from gpuboost.backends.cuda.runtime.readback import HostCopy
from gpuboost.engine.ensembles.boosting_task import DoneRound, RoundLosses


class BoostedRound(PendingRound[RoundLosses]):
    """A round whose trees and losses are being copied to the host; see `FittedRound`."""

    def read(self) -> DoneRound:
        """Wait for the round and return its trees and mean losses."""
        return DoneRound(self.trees(), self.results())


def read_round(
    copy: Callable[[], HostCopy],
    losses: RoundLosses | MeanLosses,
    error: Callable[[], ValueError],
) -> tuple[RoundLosses, TreesReader]:
    """Wait for the copy of a round; returns its mean losses, and a function that returns its trees.

    Parameters
    ----------
    copy : callable
        Waits for the copy and returns it.
    losses : RoundLosses or MeanLosses
        Mean losses, or the object that computes them from sums in the copy.
    error : callable
        Returns the error to raise if all rows drawn for the round have weight zero.

    Raises
    ------
    ValueError
        If all rows drawn for the round have weight zero.
    """
    found = copy()
    nodes, masks, weights = found.part("table", 0, 3).tolist()
    if weights[0] == 0:
        raise error()
    if not isinstance(losses, RoundLosses):
        losses = losses.of_sums(found.part("losses", 0, found.length("losses")))
    return losses, CopiedTrees(found, nodes, masks).trees
