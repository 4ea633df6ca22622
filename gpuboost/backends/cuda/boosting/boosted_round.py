"""A round of boosting whose trees and losses the host can read while the next round runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

from gpuboost.backends.cuda.boosting.losses import MeanLosses
from gpuboost.backends.cuda.growth.pending_round import CopiedTrees, PendingRound, TreesReader
from gpuboost.backends.cuda.runtime.readback import HostCopy
from gpuboost.engine.ensembles.boosting_task import DoneRound, RoundLosses

LossesReader = Callable[[], RoundLosses]


class BoostedRound(PendingRound[LossesReader]):
    """A round whose trees and losses are being copied to the host; see `FittedRound`.

    `results` returns a function that returns the mean losses: it computes them from the sums in the
    copy, unless the loss is user-defined.
    """

    def read(self) -> DoneRound:
        """Wait for the round and return its trees and mean losses."""
        return self._done

    @cached_property
    def _done(self) -> DoneRound:
        mean_losses = self.results()
        return DoneRound(self.trees(), mean_losses())


def read_round(
    copy: Callable[[], HostCopy], losses: RoundLosses | MeanLosses, error: Callable[[], ValueError]
) -> tuple[LossesReader, TreesReader]:
    """Wait for the copy of a round; return functions that return its mean losses and its trees.

    Parameters
    ----------
    copy : callable
        Function that waits for the copy and returns it.
    losses : RoundLosses or MeanLosses
        Mean losses of a user-defined loss, or an object that computes mean losses from the sums in
        the copy.
    error : callable
        Function that returns the error for a round whose drawn rows all have weight zero.

    Raises
    ------
    ValueError
        If all rows drawn for the round have weight zero.
    """
    found = copy()
    nodes, masks, weights = found.part("table", 0, 3).tolist()
    if weights[0] == 0:
        raise error()
    read_trees = CopiedTrees(found, nodes, masks).trees
    if isinstance(losses, RoundLosses):
        return lambda: losses, read_trees
    sums = found.part("losses", 0, found.length("losses")).copy()
    return partial(losses.of_sums, sums), read_trees
